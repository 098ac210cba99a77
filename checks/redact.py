"""Captures that can be shared: what identifies machines becomes a stable pseudonym, secrets are dropped.

Replaced, by a key and therefore alike in every capture made with it:

- names of hosts of the inventory, with or without a domain → ``host-…``
- serial numbers and asset tags, found by their label, wherever else they stand
- MAC addresses, EUI-64 and InfiniBand GUIDs → others of the same form, locally administered
- IPv4 addresses → others in the same private range, or of the same first octet; two addresses of one subnet
  stay in one (the construction of Crypto-PAn). IPv6 addresses keep their first 64 bits where link-local.
- UUIDs

Kept, because a judge needs them: names and addresses that the plan itself gives (time servers, devices,
pools, racks), PCI addresses, versions, loopback and unspecified addresses, zero UUIDs.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from checks.capture import Capture, CommandOutput
from checks.hidden import without_secrets

_BYTE = r"[0-9A-Fa-f]{2}"
_MAC = re.compile(rf"(?<![\w:.-]){_BYTE}(?:([:-]){_BYTE})(?:\1{_BYTE}){{4,18}}(?![\w:-])")
_GUID = re.compile(
    r"(?P<label>\w*guid\w*\W{0,12})(?P<value>(?:0x)?(?:[0-9a-f]{4}(?::[0-9a-f]{4}){3}|[0-9a-f]{16})\b)",
    re.IGNORECASE,
)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?!\w|\.\w)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:.]*:[0-9A-Fa-f]*:)[0-9A-Fa-f:]{2,39}(?![\w:]|\.\d)")
_SERIAL = re.compile(
    r"(?:(?<![A-Za-z])s/?n|serial(?:[ _]?(?:number|num|no))?|asset[ _]?tag)\b[\"']?"
    r"(?:[ \t]*[:=>][ \t]*[\"']?|>[ \t]*)(?P<value>[A-Za-z0-9][\w.+/-]{2,})",
    re.IGNORECASE,
)
_COLUMN = re.compile(r"serial|\bsn\b|asset", re.IGNORECASE)
_NO_SERIAL = re.compile(r"(?:n/?a|none|unknown|not|no|to|default|0+|x+|yes|true|false|null)$", re.IGNORECASE)


class Redactor:
    """One key's pseudonyms. Whoever has the key can tell which host a pseudonym is; nobody else can.

    ``hosts``: names and addresses of the inventory's hosts by name; ``kept``: words of the plan that stay.
    """

    def __init__(self, key: bytes, hosts: Mapping[str, Iterable[str]], kept: Iterable[str] = ()) -> None:
        self._key = key
        self._kept = {word.lower() for word in kept}
        self._hosts = {name: f"host-{self._digest('host', name)[:10]}" for name in hosts}
        self._words = {name.lower(): name for name in hosts}
        for name, others in hosts.items():
            for other in others:
                if not _IPV4.fullmatch(other) and ":" not in other:
                    self._words.setdefault(other.lower(), name)
        self._names = _shapes(self._words)
        self._ipv4 = lru_cache(maxsize=65_536)(self._ipv4_of)

    def host(self, name: str) -> str:
        """The pseudonym of a host of the inventory."""
        return self._hosts[name]

    def capture(self, capture: Capture) -> Capture:
        serials = sorted(
            {s for out in capture.outputs.values() for s in _serials(out.stdout)}, key=len, reverse=True
        )
        known = re.compile("|".join(rf"(?<!\w){re.escape(s)}(?!\w)" for s in serials)) if serials else None

        def clean(text: str) -> str:
            return self.text(text, known)

        outputs = {key: self._output(out, known) for key, out in capture.outputs.items()}
        return capture.model_copy(
            update={
                "host": self.host(capture.host),
                "problem": clean(capture.problem),
                "problem_next": clean(capture.problem_next),
                "cut": clean(capture.cut),
                "outputs": outputs,
            }
        )

    def _output(self, out: CommandOutput, serials: re.Pattern[str] | None) -> CommandOutput:
        return out.model_copy(
            update={"stdout": self.text(out.stdout, serials), "stderr": self.text(out.stderr, serials)}
        )

    def text(self, text: str, serials: re.Pattern[str] | None = None) -> str:
        """``text`` without what identifies or opens anything; ``serials``: those to look for by value."""
        if not text:
            return text
        text = without_secrets(text)
        if serials is not None:
            text = serials.sub(self._serial, text)
        text = _UUID.sub(self._uuid, text)
        text = _GUID.sub(lambda m: m["label"] + self._hex(m["value"]), text)
        text = _MAC.sub(self._mac, text)
        text = _IPV4.sub(lambda m: self._ipv4(m[0]), text)
        text = _IPV6.sub(self._ipv6, text)
        return self._names.sub(self._name, text) if self._names is not None else text

    def _digest(self, kind: str, value: str) -> str:
        return hmac.new(
            self._key, f"{kind}\0{value}".encode("utf-8", "surrogatepass"), hashlib.sha256
        ).hexdigest()

    def _name(self, match: re.Match[str]) -> str:
        found = self._words.get(match["name"].lower())
        return match[0] if found is None else self._hosts[found]

    def _serial(self, match: re.Match[str]) -> str:
        """Letters for letters and digits for digits: a parser must not take it for something else."""
        stream = bytes.fromhex(self._digest("serial", match[0])) * (len(match[0]) // 32 + 1)
        return "".join(_alike(char, byte) for char, byte in zip(match[0], stream, strict=False))

    def _uuid(self, match: re.Match[str]) -> str:
        if not match[0].strip("0-"):
            return match[0]
        return self._hex(match[0])

    def _hex(self, value: str) -> str:
        """Other hexadecimal digits of the same form; zeros stay zeros."""
        head = value[:2] if value[:2].lower() == "0x" else ""
        body = value[len(head) :]
        if not body.strip("0:-"):
            return value
        digits = iter(self._digest("hex", re.sub(r"[:-]", "", body).lower()))
        fresh = "".join(char if char in ":-" else next(digits) for char in body)
        return head + (fresh.upper() if body.isupper() else fresh)

    def _mac(self, match: re.Match[str]) -> str:
        text = match[0]
        if not text.strip("0:-") or not text.lower().strip("f:-"):
            return text
        return "02" + self._hex(text)[2:]

    def _ipv4_of(self, text: str) -> str:
        address = ipaddress.IPv4Address(text)
        if text in self._kept or address.is_loopback or address.is_unspecified or address.is_multicast:
            return text
        number = int(address)
        if (~number & 0xFFFFFFFF) & ((~number & 0xFFFFFFFF) + 1) == 0:  # a netmask
            return text
        fixed = next((n.prefixlen for n in _RANGES if address in n), 8)
        fresh = number
        for bit in range(fixed, 32):
            prefix = format(number, "032b")[:bit]
            if int(self._digest("ipv4", prefix)[0], 16) & 1:
                fresh ^= 1 << (31 - bit)
        return str(ipaddress.IPv4Address(fresh))

    def _ipv6(self, match: re.Match[str]) -> str:
        text = match[0]
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified or text.lower() in self._kept:
            return text
        if address.ipv4_mapped is not None:
            inner = int(ipaddress.IPv4Address(self._ipv4(str(address.ipv4_mapped))))
            fresh = ipaddress.IPv6Address((0xFFFF << 32) | inner)
        else:
            fixed = 64 if address.is_link_local else 16
            noise = int(self._digest("ipv6", address.exploded)[:32], 16) & ((1 << (128 - fixed)) - 1)
            fresh = ipaddress.IPv6Address(int(address) >> (128 - fixed) << (128 - fixed) | noise)
        return fresh.exploded if len(text) == 39 else fresh.compressed


_RANGES = tuple(
    ipaddress.IPv4Network(n)
    for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
)


def _alike(char: str, byte: int) -> str:
    if char.isdigit():
        return str(byte % 10)
    if char.isascii() and char.isalpha():
        letter = chr(ord("A") + byte % 26)
        return letter if char.isupper() else letter.lower()
    return char


def _serials(text: str) -> Iterable[str]:
    for match in _SERIAL.finditer(text):
        if not _NO_SERIAL.match(match["value"]):
            yield match["value"]
    head, _, rest = text.partition("\n")
    columns = [i for i, name in enumerate(head.split(",")) if _COLUMN.search(name)]
    for line in rest.splitlines() if columns and "," in head else ():
        cells = [cell.strip() for cell in line.split(",")]
        for index in columns:
            if (
                index < len(cells)
                and len(cells[index]) > 2
                and not _NO_SERIAL.match(cells[index].strip("[]"))
            ):
                yield cells[index]


def _shapes(words: Iterable[str]) -> re.Pattern[str] | None:
    """Finds candidates for names: a thousand hosts have few shapes, and a thousand alternatives are slow."""
    shapes = {re.sub(r"\d+", r"\\d+", re.escape(word)) for word in words if word}
    if not shapes:
        return None
    longest = "|".join(sorted(shapes, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?P<name>{longest})(?:\.[A-Za-z][\w-]*)*(?![\w-])", re.IGNORECASE)
