"""``python -m tools.engine build|env|versions``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

from tools.engine import build, env
from tools.engine.build import Missing, Session
from tools.engine.families import FAMILIES

PRINTED = ("PATH", "RACKWRIGHT_PYTHON")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="find, download or build every program that is missing")
    one.add_argument("families", nargs="*", help=f"only these: {', '.join(f.name for f in FAMILIES)}")
    one.add_argument(
        "--within", type=float, metavar="SECONDS", default=float("inf"), help="for all of them together"
    )
    one = commands.add_parser("env", help="print the shell commands that put the engine on PATH")
    one.add_argument("--home", type=Path, default=Path("build/pulumi"), help="state, where no backend is set")
    commands.add_parser("versions", help="where each program is and what it says of itself")
    args = parser.parse_args(argv)
    if args.command == "build":
        return _build(args.families, args.within)
    return _env(args.home) if args.command == "env" else _versions()


def _build(names: list[str], within_s: float) -> int:
    unknown = sorted(set(names) - {f.name for f in FAMILIES})
    if unknown:
        sys.stderr.write(f"no such family: {', '.join(unknown)}\n")
        return 2
    missing, session = False, Session(_say, time.monotonic() + within_s)
    for family in FAMILIES:
        if names and family.name not in names:
            continue
        for result in build.obtain(family, session):
            print(result, flush=True)
            missing |= isinstance(result, Missing)
    return int(missing)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _env(home: Path) -> int:
    reason = env.usable()
    if reason:
        _say(reason)
        return 2
    for name, value in sorted(env.environment(home.resolve()).items()):
        if name in PRINTED or (name.startswith("PULUMI_") and name not in os.environ):
            print(f"export {name}={shlex.quote(value)}")
    return 0


def _versions() -> int:
    for family in FAMILIES:
        for binary in family.binaries:
            found = build.locate(family, binary)
            lines = build.printed(found.path, binary).splitlines() if found and binary.accepts else []
            print(found or f"{binary.name}: not there", *lines[:1])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        _say("interrupted; what was compiled is kept for the next try")
        sys.exit(130)
