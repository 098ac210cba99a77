"""Engine versions: what each takes and exports, what another would break, what a command line gets wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackwright.cli.messages import visible
from rackwright.files import say
from rackwright.secrets import masked

if TYPE_CHECKING:
    from rackwright.engines.matrix_data import ArgProblem, PromqlProblem

_METHODS = {
    "parser": "its own parser",
    "ast": "source",
    "declarations": "source",
    "none": "no flags",
}


@click.group(name="engines", help=__doc__)
def command() -> None:
    pass


@command.command(name="list", help="Every engine version whose flags, variables and metrics are known.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_(as_json: bool) -> None:
    from rackwright.engines.matrix_data import engines, load_matrix, versions

    rows: list[dict[str, Any]] = []
    for engine in engines():
        for version in versions(engine):
            found = load_matrix(engine, version)
            rows.append(
                {
                    "engine": engine,
                    "version": version,
                    "flags": len(found.flags),
                    "variables": len(found.env),
                    "metrics": len(found.metrics),
                    "obtained": found.header["flags_method"],
                    "package": found.header["package"]["file"],
                }
            )
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    lines = [f"{'ENGINE':10} {'VERSION':8} {'FLAGS':>6} {'VARIABLES':>10} {'METRICS':>8}  FLAGS READ FROM"]
    lines += [
        f"{row['engine']:10} {row['version']:8} {row['flags']:6} {row['variables']:10} {row['metrics']:8}"
        f"  {_METHODS[row['obtained']]}"
        for row in rows
    ]
    say("\n".join(lines))


@command.command(
    name="diff",
    help="What changes between two versions of an engine; with --plan, what of this plan would break on the "
    "one of them that it does not run, and how to fix it.",
    epilog="Exit status: 0 nothing breaks, 1 something does, 2 it could not be told.",
)
@click.argument("engine")
@click.argument("old")
@click.argument("new")
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="A plan that runs one of the two versions."
)
@click.option(
    "--with",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Also a dashboard (JSON) or manifests (YAML) of your own.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def diff(
    *, engine: str, old: str, new: str, plan_file: Path | None, files: tuple[Path, ...], as_json: bool
) -> None:
    from rackwright.engines import upgrade

    if plan_file is None and not files:
        whole = upgrade.difference(engine, old, new)
        say(json.dumps(whole.as_dict(), indent=1) if as_json else visible(_whole(engine, old, new, whole)))
        sys.exit(1 if whole.breaks else 0)
    found: list[upgrade.Effected] = []
    defaults: list[str] = []
    if plan_file is not None:
        from rackwright.plan import load_plan

        plan = load_plan(plan_file)
        old, new = upgrade.versions_of(plan, engine, old, new)
        found += upgrade.of_plan(plan, engine, old, new)
        defaults = upgrade.changed_defaults(plan, engine, old, new)
    for path in files:
        found += upgrade.of_file(path, engine, old, new)
    breaking = [item for item in found if item.effect == "breaks"]
    if as_json:
        report = {
            "engine": engine,
            "old": old,
            "new": new,
            "effects": [vars(item) for item in found],
            "defaults_changed": defaults,
        }
        say(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        say(visible(masked("\n".join(_effects(f"{engine} {old} → {new}", found, defaults)))))
    sys.exit(1 if breaking else 0)


def _effects(title: str, found: list[Any], defaults: list[str]) -> list[str]:
    breaking = sum(item.effect == "breaks" for item in found)
    said = f"{breaking or 'nothing'} break{'s' if breaking < 2 else ''}"
    warned = len(found) - breaking
    lines = [f"{title}: {said}" + (f", {warned} to see to" if warned else ""), ""]
    for item in found:
        lines += [str(item), ""]
    if defaults:
        lines.append(f"defaults that are others, of flags that the plan leaves out ({len(defaults)})")
        lines += [f"  {line}" for line in defaults]
    return lines if lines[-1] else lines[:-1]


def _whole(engine: str, old: str, new: str, whole: Any) -> str:
    lines = [f"{engine} {old} → {new}"]
    for name, entries in whole.as_dict().items():
        if entries:
            lines += ["", f"{name.replace('_', ' ')} ({len(entries)})", *(f"  {entry}" for entry in entries)]
    return "\n".join(lines if len(lines) > 1 else [*lines, "the same flags, variables and metrics"])


@command.command(
    name="check",
    help="What a pinned version makes of a command line (after --) and of queries.",
    epilog="The program is recognised: vllm serve, python -m vllm…, sglang serve, python -m sglang…, "
    "llama-server, ./main, text-generation-launcher, trtllm-build. Without --version the newest known one "
    "judges. Exit status: 0 good, 1 something is refused or gone, 2 it could not be told.",
)
@click.option("--engine", help="The engine, where the program does not tell or only queries are given.")
@click.option("--version", help="The version; the newest known one by default.")
@click.option("--query", "queries", multiple=True, help="A PromQL expression.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.argument("words", metavar="[-- COMMAND LINE]", nargs=-1, type=click.UNPROCESSED)
def check(
    *,
    engine: str | None,
    version: str | None,
    queries: tuple[str, ...],
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    from rackwright.engines import command_line
    from rackwright.engines.matrix_data import known_by_successors, load_matrix, versions
    from rackwright.engines.promql import check_promql, engine_of

    if not words and not queries:
        raise click.UsageError("give a command line after --, or --query")
    line = None
    if words:
        split = command_line.words_of(words[0]) if len(words) == 1 else list(words)
        line = command_line.as_engine(split, engine) if engine else command_line.must_recognise(split)
        engine = line.engine
    engine = engine or engine_of(queries)
    known = engine not in known_by_successors()
    judged = (version or next(reversed(versions(engine)), "")) if known else ""
    if known:
        load_matrix(engine, judged)
    found: list[ArgProblem | PromqlProblem] = []
    if line is not None:
        found += command_line.check_line(line, judged)
    for query in queries:
        found += check_promql(engine, judged, query)
    if as_json:
        entries = [{key: masked(value) for key, value in vars(item).items()} for item in found]
        say(json.dumps({"engine": engine, "version": judged, "problems": entries}, indent=1))
    else:
        said = [f"{engine} {judged}".rstrip() + f": {len(found)} finding{'' if len(found) == 1 else 's'}"]
        for item in found:
            said += ["", f"{item.severity:5} {_subject(item)} · {item.rule} · found {item.found}"]
            said += [f"    next  {item.successor_or_hint}"] if item.successor_or_hint else []
        say(visible(masked("\n".join(said))))
    sys.exit(1 if any(item.severity == "error" for item in found) else 0)


def _subject(item: ArgProblem | PromqlProblem) -> str:
    from rackwright.engines.matrix_data import ArgProblem

    return item.flag if isinstance(item, ArgProblem) else item.subject
