"""Checks of what crosses the NVLinks: peer access, errors on the links, the domain over a rack's hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from checks.areas._read import Context, Finding, fault, gpus, is_number, shown, unread, verdict
from checks.commands import SMI_LIST, SMI_XML
from checks.registry import Command, Scope, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity

PEERS = Command("nvidia-smi-p2p", "nvidia-smi topo -p2p r", parser="nvidia-smi-p2p", timeout_s=30)
LINK_ERRORS = Command("nvidia-smi-nvlink-errors", "nvidia-smi nvlink -e", timeout_s=30)


@check(
    id="nvlink-peer",
    title="Every pair of GPUs may read each other's memory",
    severity=Severity.MAJOR,
    commands=[PEERS],
    expects="nvlink.peer_access",
    remedy="nvidia-smi topo -p2p r; sudo dmesg -T | grep -iE 'acs|iommu|p2p'"
    "  # ACS off, iommu=pt, no NVreg_… key that disables peer access; then reboot",
    reversible=True,
    source="stas00 ml-engineering, azurehpc NHC; Dstack-TEE/dstack#1167 (links up, peer access dead)",
)
def peers(view: HostView, want: bool) -> Outcome:
    """Links that are up carry nothing where the driver refuses peer access: collectives then copy through
    the host's memory, at a tenth of the rate, and say nothing."""
    if not want:
        raise NotMeasured("the plan says false; it should say why peer access does not apply")
    facts = view.facts(PEERS)
    matrix = facts["peers"] or []
    count = len(matrix)
    if count < 2:
        raise NotMeasured(f"the matrix shows {count} GPU")
    pairs = [(a, b, matrix[a][b]) for a in range(count) for b in range(count) if a != b]
    found = [
        (unread if cell == "U" else fault)(f"gpu {a} to gpu {b}", f"reads {cell}")
        for a, b, cell in pairs
        if cell != "OK"
    ]
    bad = sum(cell != "OK" for _, _, cell in pairs)
    return verdict(found, actual=f"{len(pairs) - bad} of {len(pairs)} ways OK", expected="OK between all")


_GPU = re.compile(r"^GPU (\d+):")
_ERRORS = re.compile(r"^\s*Link (\d+):\s*(.*?\bErr(?:or)?s?\b.*?):\s*(\d+)\s*$", re.I)
_MENDED = re.compile(r"\bFEC\b|\bsymbol\b", re.I)
"""Counted before forward error correction: every NVLink of Blackwell has some, and they cost nothing."""


@lru_cache(maxsize=2048)
def _counter(line: str) -> tuple[str, str, int] | None:
    """Link, name and value. The links of all GPUs print the same few lines as long as nothing is wrong."""
    row = _ERRORS.match(line)
    return (row.group(1), row.group(2), int(row.group(3))) if row else None


@check(
    id="nvlink-errors",
    title="No errors on the NVLinks since the driver was loaded",
    severity=Severity.WARN,
    commands=[LINK_ERRORS, SMI_LIST],
    expects="nvlink.errors_max",
    remedy="nvidia-smi nvlink -e; sudo nvidia-smi nvlink --reseterrorcounters"
    "  # repeat after an hour under load; links that count again: exchange the board",
    reversible=True,
    source="gcm and imbue (sum of replay, recovery and CRC), awsome-distributed-training",
)
def link_errors(view: HostView, want: int) -> Outcome:
    """Replays and recoveries cost time in every collective and announce the link that will be lost. Counters
    run since the driver was loaded, so they are told and do not block."""
    links: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    where = ""
    for line in view.text(LINK_ERRORS).splitlines():
        if line.startswith("GPU ") and (gpu := _GPU.match(line)):
            where = f"gpu {gpu.group(1)}"
            links[where] = set()
        elif where and (row := _counter(line)):
            link, name, count = row
            links[where].add(link)
            if count > want and not _MENDED.search(name):
                counts[f"{where} link {link}: {name}"] = count
    found: list[Finding] = []
    listed = len(view.facts(SMI_LIST)["gpus"] or [])
    if len(links) != listed:
        found.append(unread("", f"{len(links)} of {listed} GPUs were read"))
    found += [unread(gpu, "no link shows an error counter") for gpu, seen in links.items() if not seen]
    found += [fault(name.partition(":")[0], f"{name.partition(': ')[2]} {n:,}") for name, n in counts.items()]
    most = max(counts.values(), default=want)
    return verdict(found, actual=f"at most {most:,} of a kind", expected=f"≤ {want:,} of a kind on a link")


@check(
    id="nvlink-domain",
    title="All GPUs of a rack in one NVLink domain",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="nvlink.domain_gpus",
    scope=Scope.RACK,
    remedy="nvidia-smi -q | grep -A6 Fabric"
    "  # on every tray; restart NMX / the fabric manager on the rack's switches, then reset the GPUs",
    reversible=False,
    source="azhpc-images#506: cluster and clique are not zero and equal over the hosts of a domain",
)
def domain(views: Sequence[HostView], want: int, context: Context) -> Outcome:
    """A tray that registered in another clique, or in none, cannot reach the others over NVLink: an engine
    that spans the rack hangs in its first collective, while every tray alone looks sound."""
    found: list[Finding] = []
    domains: dict[str, list[str]] = {}
    total = 0
    for view in views:
        try:
            cards = gpus(view, SMI_XML)
        except NotMeasured as problem:
            found.append(unread(view.name, str(problem)))
            continue
        for where, gpu in cards:
            total += 1
            uuid, clique = gpu["fabric_cluster_uuid"], gpu["fabric_clique"]
            place = f"{view.name} {where}"
            if not isinstance(uuid, str) or not is_number(clique):
                found.append(unread(place, f"cluster {shown(uuid)}, clique {shown(clique)}"))
            elif not uuid.strip("0-"):
                found.append(fault(place, "is in no NVLink cluster"))
            else:
                domains.setdefault(f"{uuid}/{clique:g}", []).append(place)
    if len(domains) > 1:
        usual = max(domains, key=lambda name: len(domains[name]))
        found += [
            fault(place, f"is in domain {name}, most are in {usual}")
            for name, places in domains.items()
            if name != usual
            for place in places
        ]
    if context.unreachable:
        found.append(unread("", f"not reached: {listing(context.unreachable)}"))
    if total != want and not found:
        found.append(unread("", f"{total} of {want} GPUs of the domain were read"))
    return verdict(found, actual=f"{total} GPUs in {len(domains)} domains", expected=f"{want} GPUs in one")
