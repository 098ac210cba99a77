"""Whether command lines parse with the real parsers of pinned releases.

    python tools/engine_matrix/real_parser.py PLAN.yaml… --work DIR
    python tools/engine_matrix/real_parser.py vllm 0.33.0 --work DIR < lines

Of an engine and a version, standard input holds the arguments of one command line a line. Runs with the
product's environment; the parser itself runs in the extractors' own. Exit status: 0 every line
parses, 1 one is refused, 2 it could not be told.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import release  # a sibling of this script, which is not an installed package

DUMPS = {"sglang": "sglang_dump", "vllm": "parser_dump"}
FILLED = {"$(LWS_WORKER_INDEX)": "1", "$(LWS_LEADER_ADDRESS)": "leader.example"}
"""What the kubelet puts in place of variables."""
Lines = list[list[str]]


def of_plans(paths: Sequence[str]) -> Iterator[tuple[str, str, Lines]]:
    """(engine, version, command lines) of every deployment in plans."""
    from rackwright.engines.registry import matrix_of
    from rackwright.plan import load_plan

    for path in paths:
        for deployment in load_plan(Path(path)).deployments:
            lines = []
            for role in deployment.engine.roles:
                words = list(role.args)
                for variable, value in FILLED.items():
                    words = [word.replace(variable, value) for word in words]
                lines.append(words)
            yield matrix_of(deployment.engine.name), deployment.engine.version, lines


def refused(engine: str, version: str, lines: Lines, work: Path) -> list[str]:
    """What the release's parser says of each line that it does not take."""
    if engine not in DUMPS:
        raise release.ExtractionError(f"no parser of {engine} can be built here")
    package = release.obtain(engine, version, work)
    root = release.unpack(package, work / "source" / (version if engine == "vllm" else f"{engine}-{version}"))
    done = subprocess.run(
        [str(release.environment(work, "vllm")), "-B", __file__, "--inside", engine, str(root)],
        input=json.dumps(lines),
        env={"PATH": "/usr/bin:/bin", "HOME": str(work / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise release.ExtractionError("the engine's parser could not be built:\n" + done.stderr[-2000:])
    found: list[str] = json.loads(done.stdout)
    return found


def inside(engine: str, root: str) -> None:
    """In the throw-away environment: lines on standard input, refusals on standard output."""
    lines: Lines = json.load(sys.stdin)
    sys.argv = [engine]
    stdout, sys.stdout = sys.stdout, sys.stderr
    parser = importlib.import_module(DUMPS[engine]).prepared(root)
    found = []
    for words in lines:
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser.parse_args(words)
        except SystemExit:
            found.append(f"{shlex.join(words)}: {(said.getvalue().strip().splitlines() or ['refused'])[-1]}")
    json.dump(found, stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="Parse command lines with the real parsers of releases.")
    parser.add_argument("what", nargs="+", help="plans, or an engine and a version")
    parser.add_argument("--work", type=Path, required=True, help="directory of the extractors")
    options = parser.parse_args()
    if options.what[0] in DUMPS:
        engine, version = options.what
        given = [(engine, version, [shlex.split(line) for line in sys.stdin if line.strip()])]
    else:
        given = list(of_plans(options.what))
    status = 0
    for engine, version, lines in given:
        try:
            found = refused(engine, version, lines, options.work.resolve())
        except release.ExtractionError as exc:
            print(f"{engine} {version}: {exc}", file=sys.stderr)
            return 2
        print(f"{engine} {version}: {len(lines) - len(found)} of {len(lines)} parse")
        for line in found:
            print(f"  {line}")
            status = 1
    return status


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2], sys.argv[3])
    else:
        sys.exit(main())
