"""The campaign over the parsers: texts, what must hold of each damaged one, and the count of it all."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from checks.parsers import Parsed, parse, recognise
from tools.mutate.mutations import Damaged, damaged, without_each_line

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests" / "parsers" / "recordings"
SAMPLES = ROOT.parent / "shared" / "reference" / "samples"
LARGEST = 200_000
"""Characters of an output; what is longer is damaged within its beginning."""

LARGE, LARGE_TURN = 20_000, 8
"""Longer outputs are damaged in every eighth turn only: they cost a hundred times as much."""

UNCOUNTED = frozenset(
    {
        "dmesg", "syslog", "fabricmanager-log", "ipmitool-sensors", "ipmitool-sel", "rdma-link", "lspci-acs",
        "nvidia-smi-L",
    }
)  # fmt: skip
"""Lists without a count: where the bad thing is a line of its own, its loss cannot be seen in the text. The
collector's end marker and byte counts see a cut; a line that a tool did not print, nobody does."""


@dataclass(frozen=True)
class Text:
    """One output; ``bad``: it states a condition that no deletion may turn into a clean reading."""

    name: str
    kind: str
    text: str
    bad: bool = False


@dataclass(frozen=True)
class Broken:
    """A rule that a damaged text broke."""

    rule: str
    name: str
    kind: str
    how: str
    detail: str
    text: str


@dataclass
class Tally:
    texts: int = 0
    outputs: int = 0
    seconds: float = 0.0
    by_damage: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    by_verdict: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)


def recordings() -> Iterator[Text]:
    """Our own recordings, and what is known to be wrong in them."""
    expected = json.loads((RECORDINGS / "expected.json").read_text(encoding="utf-8"))
    for name, entry in expected.items():
        text = (RECORDINGS / name).read_text(encoding="utf-8", errors="replace")
        bad = bool(entry["understood"] and entry["problems"] and entry["kind"] not in UNCOUNTED)
        yield Text(name, entry["kind"], text, bad)


def samples(directory: Path = SAMPLES) -> Iterator[Text]:
    """Real outputs, of the kind that is recognised; nothing where they are not on this machine."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if not path.is_file() or path.name in {"INDEX.md", "expected.json"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")[:LARGEST]
        kind = recognise(text)
        if kind is None or not text.strip():
            continue
        parsed = parse(kind, text)
        bad = parsed.understood and bool(parsed.problems) and kind not in UNCOUNTED
        yield Text(path.name, kind, text, bad)


def run(texts: Iterable[Text], *, count: int, seed: int, sweep: bool = True) -> Tally:
    """Damages ``texts`` until ``count`` are read; ``sweep``: first every line of the bad ones is lost."""
    tally = Tally()
    begin = time.process_time()
    every = list(texts)
    tally.texts = len(every)
    chance = random.Random(seed)
    if sweep:
        for item in every:
            if item.bad and item.text.count("\n") < 3000:
                for one in without_each_line(item.text):
                    _read(item, one, tally, label="every line lost in turn")
    turn = 0
    while every and tally.outputs < count:
        turn += 1
        for item in every:
            if len(item.text) > LARGE and turn % LARGE_TURN != 1:
                continue
            for one in damaged(item.text, chance, 8):
                _read(item, one, tally, label=one.how)
            if tally.outputs >= count:
                break
    tally.seconds = time.process_time() - begin
    return tally


def _read(item: Text, one: Damaged, tally: Tally, *, label: str) -> None:
    tally.outputs += 1
    tally.by_damage[label] += 1
    tally.by_kind[item.kind] += 1
    try:
        parsed = parse(item.kind, one.text)
        json.dumps(parsed.as_dict(), allow_nan=False)
    except Exception as error:  # that nothing is raised is what is being proven
        tally.broken.append(_broken("traceback", item, one, f"{type(error).__name__}: {error}"))
        return
    tally.by_verdict[_word(parsed)] += 1
    crash = next((p.text for p in parsed.problems if "the parser failed" in p.text), None)
    if crash:
        tally.broken.append(_broken("traceback", item, one, crash))
    elif not parsed.understood and not parsed.problems:
        tally.broken.append(_broken("not understood, and no word of why", item, one, ""))
    elif item.bad and label == "every line lost in turn" and parsed.understood and not parsed.problems:
        tally.broken.append(_broken("a deletion made a condition a clean reading", item, one, ""))


def _word(parsed: Parsed) -> str:
    if not parsed.understood:
        return "not understood"
    return "read, with problems" if parsed.problems else "read"


def _broken(rule: str, item: Text, one: Damaged, detail: str) -> Broken:
    return Broken(rule, item.name, item.kind, one.how, detail, one.text)
