"""The main job from end to end: size, stand up, raise a simulated rack with faults, prove it, report.

``make demo`` runs this. Every step prints the command that a person would type. Where the real engine and a
control plane are there, the plan is applied by `pulumi up`; the embedded engine renders it in any case.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rackwright.errors import CannotRun

REPOSITORY = Path(__file__).resolve().parent.parent
RACKWRIGHT = [sys.executable, "-m", "rackwright"]
RACK = [sys.executable, "-m", "tools.rack"]
LAB = [sys.executable, "-m", "tools.lab"]


class StepFailed(Exception):
    """A step ended with a status it should not have."""


class StillRunning(Exception):
    """What the demo started could not be taken down."""


def shown(argv: Sequence[str]) -> str:
    words = ["rackwright" if list(argv[:3]) == RACKWRIGHT else f"python -m {argv[2]}"]
    return " ".join([*words, *(shlex.quote(a) for a in argv[3:])])


def step(title: str, argv: Sequence[str], *, allowed: tuple[int, ...] = (0,)) -> int:
    print(f"\n── {title}\n$ {shown(argv)}", flush=True)
    began = time.monotonic()
    code = run(argv)
    print(f"   [{time.monotonic() - began:.1f} s, exit {code}]", flush=True)
    if code not in allowed:
        raise StepFailed(f"{title}: exit status {code}, expected {' or '.join(map(str, allowed))}")
    return code


def run(argv: Sequence[str]) -> int:
    """The exit status. Interrupted, the command has time to clean up behind itself."""
    with subprocess.Popen(list(argv), cwd=REPOSITORY) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # A terminal sends Ctrl-C to the command too; `kill -INT` reaches only this process.
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            raise


@contextmanager
def taken_down(title: str, argv: Sequence[str]) -> Iterator[None]:
    """``argv`` takes down what runs inside, whatever happens; what failed first is raised.

    Raises:
        StillRunning: it could not.
    """
    try:
        yield
    except BaseException as first:
        try:
            step(title, argv)
        except StepFailed as left:
            raise StillRunning(f"{left}: something may still run\nnext: {shown(argv)}") from first
        raise
    step(title, argv)


@contextmanager
def rack(config: Path, directory: Path) -> Iterator[Path]:
    """The simulated rack is up inside, and down afterwards whatever happens; what failed first is raised.

    ``up`` that fails leaves nothing to take down.
    """
    down = [*RACK, "down", "--dir", str(directory)]
    step("Raise a simulated rack", [*RACK, "up", str(config), "--dir", str(directory)])
    with taken_down("Take the rack down", down):
        yield directory / "hosts.ini"


@contextmanager
def lab(plan: Path, directory: Path) -> Iterator[None]:
    """A control plane is up inside, and down afterwards whatever happens."""
    down = [*LAB, "down", "--dir", str(directory)]
    if directory.exists():
        with suppress(StepFailed):
            step("Take down what an earlier run left", down)
    step(
        "Raise a control plane with the plan's nodes, simulated",
        [*LAB, "up", str(plan), "--dir", str(directory)],
    )
    with taken_down("Take the control plane down", down):
        yield


def stand_up(plan: Path, out: Path) -> str:
    """Declares the plan; gives the engine's name. The real one where it is there, the embedded one always."""
    step(
        "Stand up: the plan becomes declared infrastructure (embedded engine: files)",
        [*RACKWRIGHT, "render", str(plan), "-o", str(out / "manifests")],
    )
    reason = no_real_engine()
    if reason:
        print(f"\nengine used: embedded. The real one: {reason}", flush=True)
        return f"embedded ({reason})"
    from tools.lab.apply import engine

    with lab(plan, out / "lab"):
        step(
            "Stand up: the same on a real API server (pulumi up)",
            [*LAB, "apply", str(plan), "--dir", str(out / "lab")],
        )
    return f"real ({engine()})"


def no_real_engine() -> str:
    """Empty where `pulumi up` and a control plane can run here; otherwise why not, with the next command."""
    from tools.engine import build, env, families

    reason = env.usable()
    _, absent = build.have(families.LAB)
    optional = {b.name for b in families.LWS_FAMILY.binaries}
    needed = [name for name in absent if name not in optional]
    return reason or (f"{', '.join(needed)}: not there. next: make engine" if needed else "")


def require_rack() -> None:
    """Whether hosts can be simulated here.

    Raises:
        CannotRun: they cannot; with the reasons.
    """
    from tools.rack.farm import require_machine

    require_machine()


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
    try:
        return demo(options.workload, options.rack, options.dir)
    except (StepFailed, StillRunning, OSError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except CannotRun as error:
        print(
            f"\ndemo: sized and rendered, but nothing was proved: no rack can be simulated here\n{error}",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; nothing is left running", file=sys.stderr)
        return 130


def demo(workload: Path, config: Path, out: Path) -> int:
    """The three parts; 0 where the preflight found exactly what was planted."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    step(
        "Size: users, model and SLO become a plan",
        [*RACKWRIGHT, "size", str(workload), "-o", str(out / "plan.yaml")],
    )
    engine = stand_up(out / "plan.yaml", out)
    require_rack()
    with rack(config, out / "rack") as hosts:
        code = step(
            "Prove: the checklist on every host (faults are planted, so findings are right)",
            [*RACKWRIGHT, "preflight", "--hosts", str(hosts), "--results", str(out / "preflight")],
            allowed=(0, 1),
        )
    missed, extra = compare(out / "preflight" / "results.json", config)
    print(f"\n── Done in {time.monotonic() - began:.0f} s")
    print(f"engine: {engine}")
    print(
        f"planted faults not found: {', '.join(missed) or 'none'}; "
        f"findings not planted: {', '.join(extra) or 'none'}"
    )
    print(f"""
plan       {out}/plan.yaml             one reviewable file; change the workload, not this
manifests  {out}/manifests/            one object a file, ready for kubectl apply, Argo CD or Flux
results    {out}/preflight/results.json
report     {out}/preflight/report.html open it in a browser
rack       stopped; again, to try what the preflight says next:
           python -m tools.rack up {config} --dir {out}/rack

next: write your own workload.yaml (start from inventory/*/workload.yaml), then
      rackwright size workload.yaml -o plan.yaml
      rackwright inventory plan.yaml -o hosts.ini     # put in your addresses
      pytest checks --hosts hosts.ini""")
    return 0 if not missed and not extra and code == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
