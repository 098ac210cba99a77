"""Proof that a fabric's files are what the plan gives and that both ends of every cable agree.

Two independent questions. Does each file say what the plan's says, setting by setting? And do the two ends of
a cable, read from their own files, agree with each other? The second is asked of the files alone, so that a
mistake in what the plan renders would be found too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rackwright.errors import CannotRun, InputErrors, Problem, listing, nearest
from rackwright.fabric import cables, host_files, hosts, kubernetes
from rackwright.fabric.agreement import Ends, disagreements
from rackwright.fabric.leaves import Setting, Settings, lines
from rackwright.fabric.rendering import render
from rackwright.fabric.switches import OS
from rackwright.fabric.topology import Topology
from rackwright.plan import Plan

LARGEST = 32 << 20
AGAIN = "rackwright fabric render PLAN -o DIR"


@dataclass
class Result:
    """``checked``: files by kind. ``missing``: files of the plan that were not given. ``ignored``: others.
    ``cables``: read at both ends, of those ``planned``."""

    problems: list[Problem] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    cables: int = 0
    planned: int = 0


def read(places: Sequence[Path]) -> dict[str, str]:
    """Files below the given directories, or the given files, by path.

    Raises:
        CannotRun: a place is not there or cannot be read.
    """
    found: dict[str, str] = {}
    problems = []
    for place in places:
        if place.is_dir():
            names = [p for p in sorted(place.rglob("*")) if p.is_file()]
            pairs = [(p.relative_to(place).as_posix(), p) for p in names]
        else:
            pairs = [(place.as_posix(), place)]
        for name, path in pairs:
            try:
                if path.stat().st_size > LARGEST:
                    raise ValueError(f"{path.stat().st_size:,} bytes")  # noqa: TRY301 - one message below
                found[name] = path.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                problems.append(
                    Problem(
                        str(path), "must be a text that can be read", str(reason).lower(),
                        "what is not read is not proven", "name the rendered directory, or files of it",
                    )
                )  # fmt: skip
    if problems:
        raise CannotRun(problems)
    return found


def check(plan: Plan, files: Mapping[str, str], *, whole: bool = False) -> Result:
    """Judge ``files`` (path to text). A directory's paths are those of a rendering; a single file is known by
    what it says. ``whole``: a rendered directory was given, in which no file of the plan may be missing.

    Raises:
        CannotRun: the plan has no fabric, or none of the files is part of one.
    """
    fabric, expected = render(plan)
    result = Result()
    given: dict[str, tuple[str, str]] = {}
    for path, text in files.items():
        place = _place(path, text, expected, fabric, result.problems)
        if place is None:
            kind = kubernetes.check(path, text, fabric, result.problems)
            if kind:
                result.checked[kind] = result.checked.get(kind, 0) + 1
            else:
                result.ignored.append(path)
        elif place in given:
            result.problems.append(
                Problem(path, f"must be the only file of {place}", f"{given[place][0]} too",
                        "two files of one device cannot both be right", "name one of them")
            )  # fmt: skip
        else:
            given[place] = (path, text)
    if not given and not result.checked and not result.problems:
        raise CannotRun(
            Problem(
                listing(list(files), 4) or "nothing", "must be files of this plan's fabric",
                "none that is known", "what is not read is not proven", AGAIN,
            )
        )  # fmt: skip
    result.missing = sorted(set(expected) - set(given))
    if whole and given:
        result.problems += [
            Problem(path, "must be there", "no such file", "what is not read is not proven", AGAIN)
            for path in result.missing
        ]
    for place, (path, text) in given.items():
        kind = place.split("/")[0].removesuffix(".csv")
        result.checked[kind] = result.checked.get(kind, 0) + 1
        result.problems += _as_planned(place, path, text, expected[place], fabric)
    ends = _ends(fabric, given, result.problems)
    result.cables = _both_ends(fabric, ends)
    result.planned = len(fabric.cables) if fabric.configured else 0
    result.problems = _distinct([*result.problems, *disagreements(fabric, ends)])
    return result


def _both_ends(fabric: Topology, ends: Ends) -> int:
    pools = {host.node: host.pool for host in fabric.hosts}
    return sum(
        c.b in ends.switches
        and (c.a in ends.switches if c.kind == "uplink" else c.a in ends.rails and pools[c.a] in ends.qos)
        for c in fabric.cables
    )


def _place(
    path: str, text: str, expected: Mapping[str, str], fabric: Topology, problems: list[Problem]
) -> str | None:
    """Which file of the rendering this is: by its path, or, of a switch, by the name that it gives itself."""
    parts = Path(path).parts
    for start in range(len(parts)):
        tail = "/".join(parts[start:])
        if tail in expected:
            return tail
    if not fabric.configured:
        return None
    system = OS[fabric.switching.os]
    if not system.recognises(text):
        return None
    try:
        name = system.view(text, path).hostname
    except InputErrors as error:
        problems += error.problems
        return None
    place = f"switches/{name}/{system.file}"
    if place in expected:
        return place
    problems.append(
        Problem(
            f"{path} hostname",
            f"must be a switch of the plan{nearest(name, fabric.switch_named)}",
            f'"{name}"' if name else "none",
            "a switch whose place is not known cannot be compared with what it is cabled to",
            "give it its planned name (cables.csv has them), or leave the file out",
        )
    )
    return None


def _settings(place: str, text: str, source: str, fabric: Topology) -> Settings:
    if place.startswith("switches/"):
        return OS[fabric.switching.os].settings(text, source)
    if place.startswith(("nodes/", "pools/")):
        return host_files.SETTINGS[place.split("/", 2)[2]](text, source)
    if place == cables.CABLES or place.startswith("racks/"):
        header = cables.HEADER if place == cables.CABLES else cables.PORTS
        key = "cable" if place == cables.CABLES else "interface"
        return cables.settings(text, source, header, key)
    if place.startswith("kubernetes/"):
        return kubernetes.settings(text, source)
    return lines(text)


def _owned(place: str, path: str, fabric: Topology) -> bool:
    """Whether a setting that the plan does not give is wrong there, rather than the site's own."""
    if place.startswith("switches/"):
        return path.startswith(OS[fabric.switching.os].owned)
    return True


def _as_planned(place: str, source: str, text: str, expected: str, fabric: Topology) -> Iterator[Problem]:
    if text == expected:
        return
    try:
        found = _settings(place, text, source, fabric)
    except InputErrors as error:
        yield from error.problems
        return
    wanted = _settings(place, expected, source, fabric)
    for key, setting in wanted.items():
        if key not in found:
            yield _differs(place, source, key, None, wanted=_value(setting.value))
        elif found[key].value != setting.value:
            yield _differs(place, source, key, found[key], wanted=_value(setting.value))
    for key, setting in found.items():
        if key not in wanted and _owned(place, key, fabric):
            yield _differs(place, source, key, setting, wanted="absent")


def _value(text: str) -> str:
    return {"{}": "present", "": "nothing"}.get(text, text)


def _differs(place: str, source: str, key: str, setting: Setting | None, *, wanted: str) -> Problem:
    where = f"{source}:{setting.line} {key}" if setting and setting.line else f"{source} {key}"
    found = _value(setting.value) if setting else "nothing"
    why = next((text for part, text in WHY if part in key or part in place), "both ends follow the plan")
    return Problem(where, f"must be {wanted}, as the plan gives it", found, why, f"mend it, or: {AGAIN}")


WHY = (
    ("pfc", "a priority that one end does not pause drops RDMA's frames under load"),
    ("PFC", "a priority that one end does not pause drops RDMA's frames under load"),
    ("DSCP", "packets would fall into another class than at the other end"),
    ("dscp", "packets would fall into another class than at the other end"),
    ("threshold", "marking would begin too early for full rate, or too late to come before pauses"),
    ("random-detect", "marking would begin too early for full rate, or too late to come before pauses"),
    ("xoff", "frames that arrive after a pause need room; without it they are dropped"),
    ("BUFFER", "frames that arrive after a pause need room; without it they are dropped"),
    ("mtu", "full-size frames are dropped where one end is smaller"),
    ("MTU", "full-size frames are dropped where one end is smaller"),
    ("asn", "the session does not come up, and a part of the fabric's bandwidth is missing"),
    ("BGP", "the session does not come up, and a part of the fabric's bandwidth is missing"),
    ("bgp", "the session does not come up, and a part of the fabric's bandwidth is missing"),
    ("INTERFACE", "two ends in different subnets cannot reach each other"),
    ("address", "two ends in different subnets cannot reach each other"),
    ("cables", "a cable in another port joins a GPU's rail to another rail's switch"),
    ("racks/", "a cable in another port joins a GPU's rail to another rail's switch"),
    ("infiniband", "nodes outside the partition, or at another rate, do not reach each other"),
)


def _ends(fabric: Topology, given: Mapping[str, tuple[str, str]], problems: list[Problem]) -> Ends:
    """Views of everything given that could be read; what could not be is a problem already."""
    switches, qos, rails = {}, {}, {}
    for place, (path, text) in given.items():
        area, name, rest = (*place.split("/", 2), "", "")[:3]
        try:
            if area == "switches":
                switches[name] = OS[fabric.switching.os].view(text, path)
            elif area == "pools" and rest == hosts.QOS_ENV:
                qos[name] = host_files.qos_view(text, path)
            elif area == "nodes" and rest == hosts.NETPLAN:
                rails[name] = host_files.rail_views(text, path)
        except InputErrors as error:
            problems += error.problems
    return Ends(switches, qos, rails)


def _distinct(problems: list[Problem]) -> list[Problem]:
    seen: dict[tuple[str, str, str], Problem] = {}
    for problem in problems:
        seen.setdefault((problem.where, problem.rule, problem.found), problem)
    return list(seen.values())
