"""The main job on embedded defaults: size, render, raise a simulated rack with faults, prove it, report.

``make demo`` runs this. Every step prints the command that a person would type.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RACKWRIGHT = [sys.executable, "-m", "rackwright"]
RACK = [sys.executable, "-m", "tools.rack"]


class StepFailed(Exception):
    """A step ended with a status it should not have."""


def shown(argv: Sequence[str]) -> str:
    words = ["rackwright" if list(argv[:3]) == RACKWRIGHT else "python -m tools.rack"]
    return " ".join([*words, *(shlex.quote(a) for a in argv[3:])])


def step(title: str, argv: Sequence[str], *, allowed: tuple[int, ...] = (0,)) -> int:
    print(f"\n── {title}\n$ {shown(argv)}", flush=True)
    began = time.monotonic()
    code = subprocess.run(list(argv), cwd=REPOSITORY, check=False).returncode
    print(f"   [{time.monotonic() - began:.1f} s, exit {code}]", flush=True)
    if code not in allowed:
        raise StepFailed(f"{title}: exit status {code}, expected {' or '.join(map(str, allowed))}")
    return code


@contextmanager
def rack(config: Path, directory: Path) -> Iterator[Path]:
    """The simulated rack is up inside, and down afterwards whatever happens."""
    try:
        step("Raise a simulated rack", [*RACK, "up", str(config), "--dir", str(directory)])
        yield directory / "hosts.ini"
    finally:
        step("Take the rack down", [*RACK, "down", "--dir", str(directory)])


def compare(results: Path, config: Path) -> tuple[list[str], list[str]]:
    """(planted faults that nothing reported, findings that nothing planted explains)."""
    from rackwright.verdict import Results
    from tools.rack.faults import FAULTS
    from tools.rack.rack import load_rack

    blocking = Results.from_json(results.read_text(encoding="utf-8")).findings()
    missed, explained = [], set()
    for planted in load_rack(config).faults:
        hits = [
            r
            for r in blocking
            for find in FAULTS[planted.fault].finds
            if r.check == find.check
            and r.scope == find.on
            and (r.scope != "host" or r.subject == planted.host)
        ]
        if not hits:
            missed.append(f"{planted.fault} on {planted.host}")
        explained |= {(r.check, r.subject) for r in hits}
    extra = [f"{r.check} on {r.subject}" for r in blocking if (r.check, r.subject) not in explained]
    return missed, extra


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", type=Path, default=Path("inventory/roce-100k/workload.yaml"))
    parser.add_argument("--rack", type=Path, default=Path("inventory/lab/rack.yaml"))
    parser.add_argument("--dir", type=Path, default=Path("results/demo"))
    options = parser.parse_args(argv)
    out: Path = options.dir
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        step(
            "Size: users, model and SLO become a plan",
            [*RACKWRIGHT, "size", str(options.workload), "-o", str(out / "plan.yaml")],
        )
        step(
            "Stand up: the plan becomes declared infrastructure (embedded engine)",
            [*RACKWRIGHT, "render", str(out / "plan.yaml"), "-o", str(out / "manifests")],
        )
        with rack(options.rack, out / "rack") as hosts:
            code = step(
                "Prove: the checklist on every host (faults are planted, so findings are right)",
                [*RACKWRIGHT, "preflight", "--hosts", str(hosts), "--results", str(out / "preflight")],
                allowed=(0, 1),
            )
        missed, extra = compare(out / "preflight" / "results.json", options.rack)
    except StepFailed as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    print(f"\n── Done in {time.monotonic() - began:.0f} s")
    print(
        f"planted faults not found: {', '.join(missed) or 'none'}; "
        f"findings not planted: {', '.join(extra) or 'none'}"
    )
    print(f"""
plan       {out}/plan.yaml             one reviewable file; change the workload, not this
manifests  {out}/manifests/            one object a file, ready for kubectl apply, Argo CD or Flux
results    {out}/preflight/results.json
report     {out}/preflight/report.html open it in a browser

next: write your own workload.yaml (start from inventory/*/workload.yaml), then
      rackwright size workload.yaml -o plan.yaml
      rackwright inventory plan.yaml -o hosts.ini     # put in your addresses
      pytest checks --hosts hosts.ini""")
    return 0 if not missed and not extra and code == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
