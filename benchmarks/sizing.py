"""Sizing against aiconfigurator: the same question, and the same measurements; and how its cost grows.

    python -m benchmarks.sizing [--runs 3] [--no-peer] [-o results/bench/sizing.md]

Every cost is of a whole process (start-up, reading the catalog, printing), the median of the runs,
interleaved, CPU seconds beside wall seconds. aiconfigurator is installed into an environment of its own
under build/; it is no dependency of the product.

- search: which hardware for 1,000 users of Qwen3-32B in FP8? Ours ranks every machine of the catalog;
  aiconfigurator sweeps the three engines on one system of 8 × H200.
- growth: the same search over a catalog with once, twice and four times the machines; each is added under
  other ids, in a directory of one's own entries.
- batch: rows of tools/fit/measured.csv a CPU second, eight times over.
- accuracy: the rows with a fixed concurrency that both can score. Ours are those of tools/fit/held_out.csv:
  predicted by constants that were fitted without the row's pair of hardware and model.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median, quantiles

from benchmarks.measure import Cost, cost_of, medians

REPOSITORY = Path(__file__).resolve().parent.parent
PEER = "aiconfigurator==0.12.0"
MEASURED = REPOSITORY / "tools/fit/measured.csv"
HELD_OUT = REPOSITORY / "tools/fit/held_out.csv"
HARDWARE = REPOSITORY / "src/rackwright/catalog/hardware"
TARGETS = ("output_tok_s_total", "ttft_ms", "tpot_ms")
REPEATED = 8
WORKLOAD = """\
schema: rackwright/workload/v1
name: question
users: {dau: 1000, scenario: chat}
model: {id: qwen3-32b, quantisation: fp8, context: 8 ki tokens}
slo: {ttft_p95: 2 s, tpot_p50: 50 ms}
site: {name: dc1, country: DE, ntp: [ntp1.example]}
"""
QUESTION = [
    "cli", "default", "--model", "Qwen/Qwen3-32B-FP8", "--system", "h200_sxm", "--backend", "auto",
    "--total-gpus", "8", "--isl", "1155", "--osl", "211", "--ttft", "2000", "--tpot", "50",
]  # fmt: skip
"""Lengths of the chat scenario, the workload's SLO."""


def interleaved(runs: int, subjects: Mapping[str, Callable[[], Cost]]) -> dict[str, Cost]:
    costs: dict[str, list[Cost]] = {name: [] for name in subjects}
    for number in range(runs):
        for name, measure in subjects.items():
            costs[name].append(cost := measure())
            print(f"  run {number + 1}: {name}: {cost.wall:.2f} s wall, {cost.cpu:.2f} s CPU", flush=True)
    return {name: medians(found) for name, found in costs.items()}


class Bench:
    """Runs in ``scratch``."""

    def __init__(self, scratch: Path, runs: int) -> None:
        self.scratch, self.runs = scratch, runs
        self.log = scratch / "run.log"
        self.workload = scratch / "workload.yaml"
        self.workload.write_text(WORKLOAD, encoding="utf-8")

    def own(self, *argv: str, catalog: Path | None = None) -> Cost:
        env = {"RACKWRIGHT_CATALOG": str(catalog)} if catalog else {}
        return cost_of([sys.executable, "-m", "rackwright", *argv], cwd=REPOSITORY, log=self.log, env=env)

    def search(self, peer: Path | None) -> list[str]:
        subjects: dict[str, Callable[[], Cost]] = {
            "rackwright search": lambda: self.own("search", str(self.workload))
        }
        if peer:
            argv = [str(peer.with_name("aiconfigurator")), *QUESTION]
            subjects[PEER] = lambda: cost_of(argv, cwd=self.scratch, log=self.log)
        found = interleaved(self.runs, subjects)
        base = found["rackwright search"]
        return [
            "| search | wall s | CPU s | CPU ÷ rackwright search |",
            "|---|---|---|---|",
            *(f"| {n} | {c.wall:.2f} | {c.cpu:.2f} | {c.cpu / base.cpu:.1f} |" for n, c in found.items()),
        ]

    def growth(self) -> list[str]:
        sizes = (1, 2, 4)
        places = {times: self._copies(times - 1) for times in sizes}
        found = interleaved(
            self.runs,
            {
                f"{times} × the machines": (
                    lambda times=times: self.own("search", str(self.workload), catalog=places[times])
                )
                for times in sizes
            },
        )
        one = found["1 × the machines"]
        return [
            "| growth | wall s | CPU s | CPU ms for each × more |",
            "|---|---|---|---|",
            *(
                f"| {name} | {cost.wall:.2f} | {cost.cpu:.2f} "
                f"| {1000 * (cost.cpu - one.cpu) / (times - 1) if times > 1 else 0:.0f} |"
                for times, (name, cost) in zip(sizes, found.items(), strict=True)
            ),
        ]

    def _copies(self, count: int) -> Path:
        place = self.scratch / f"catalog-{count}" / "hardware"
        place.mkdir(parents=True)
        for source in sorted(HARDWARE.glob("*.yaml")):
            text = source.read_text(encoding="utf-8")
            if "\nkind: machine\n" not in text:
                continue
            text = re.sub(r"^aliases:\n(- .*\n)+", "", text, flags=re.MULTILINE)
            if "\nno_price: " not in text:
                text = f"{text.rstrip()}\nno_price: a copy, to measure with\n"
            for number in range(count):
                other = re.sub(r"^(id|name): (.*)$", rf"\1: \2-copy-{number}", text, flags=re.MULTILINE)
                (place / f"{source.stem}-copy-{number}.yaml").write_text(other, encoding="utf-8")
        return place.parent

    def batch(self) -> list[str]:
        header, *rows = MEASURED.read_text(encoding="utf-8").splitlines(keepends=True)
        asked = self.scratch / "rows.csv"
        asked.write_text(header + "".join(rows) * REPEATED, encoding="utf-8")
        out = str(self.scratch / "predicted.csv")
        found = interleaved(
            self.runs, {"batch": lambda: self.own("estimate", "--batch", str(asked), "-o", out)}
        )
        cost, count = found["batch"], len(rows) * REPEATED
        return [f"batch: {count:,} rows in {cost.cpu:.2f} CPU-s: {count / cost.cpu:,.0f} rows a CPU second"]

    def accuracy(self, peer: Path) -> list[str]:
        done = subprocess.run(
            [str(peer), "-W", "ignore", str(REPOSITORY / "benchmarks/peer_rows.py"), str(MEASURED)],
            capture_output=True, text=True, check=True, cwd=self.scratch,
        )  # fmt: skip
        theirs = {row["row_id"]: row for row in map(json.loads, done.stdout.splitlines())}
        return compared(theirs)


def compared(theirs: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Medians and ninth deciles of |predicted ÷ measured − 1| in percent, on rows that both score."""
    measured, ours = _rows(MEASURED), _rows(HELD_OUT)
    both = [row for row, answer in theirs.items() if "reason" not in answer and row in ours]
    cells: dict[str, list[str]] = {"rackwright, pair left out": [], PEER: []}
    for target in TARGETS:
        for name, source in zip(cells, (ours, theirs), strict=True):
            errors = [
                100 * abs(float(str(source[row][target])) / float(measured[row][target]) - 1)
                for row in both
                if measured[row][target] and float(measured[row][target]) > 0
            ]
            cells[name].append(f"{median(errors):.1f} / {quantiles(errors, n=10)[8]:.0f} ({len(errors)})")
    refused = sum("reason" in answer for answer in theirs.values())
    return [
        f"{len(both)} rows that both score; aiconfigurator has no data for {refused} more of its systems "
        "and models. Median / ninth decile of the error in percent (rows):",
        "",
        "| | tok/s | TTFT | TPOT |",
        "|---|---|---|---|",
        *(f"| {name} | {' | '.join(found)} |" for name, found in cells.items()),
    ]


def _rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return {row["row_id"]: row for row in csv.DictReader(stream)}


def peer_python() -> Path:
    """aiconfigurator's Python, in an environment made on first use."""
    venv = REPOSITORY / "build" / "bench-sizing"
    if not (venv / "bin/aiconfigurator").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin/pip"), "install", "-q", PEER], check=True)
    return venv / "bin/python"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="leave aiconfigurator out")
    parser.add_argument("-o", "--output", type=Path, default=REPOSITORY / "results/bench/sizing.md")
    options = parser.parse_args()
    scratch = options.output.resolve().parent / "sizing"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    peer = None if options.no_peer else peer_python()
    bench = Bench(scratch, options.runs)
    lines = [*bench.search(peer), "", *bench.growth(), "", *bench.batch()]
    if peer:
        lines += ["", *bench.accuracy(peer)]
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    text = "\n".join([f"medians of {options.runs} runs; load average at the end {load}", "", *lines]) + "\n"
    options.output.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
