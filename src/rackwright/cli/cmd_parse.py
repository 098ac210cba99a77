"""Read the output of a hardware tool: facts, and what is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackwright.errors import CannotRun, Problem, nearest

if TYPE_CHECKING:
    from checks.parsers import Parsed


@click.command(
    name="parse",
    help=__doc__,
    epilog="KIND auto finds the kind; FILE - reads standard input. "
    "Exit status: 0 read, 1 read and something is wrong, 2 not understood.",
)
@click.argument("kind", required=False)
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--list", "listed", is_flag=True, help="List the kinds.")
def command(kind: str | None, file: str | None, as_json: bool, listed: bool) -> None:
    from checks import parsers

    if listed:
        _list(as_json)
        return
    if kind is None or file is None:
        raise click.UsageError("give KIND and FILE, or --list")
    names = {name for entry in parsers.KINDS.values() for name in (entry.kind, *entry.aliases)}
    if kind != "auto" and kind not in names:
        raise CannotRun(
            Problem(
                "KIND", "must be auto or a known kind" + nearest(kind, names), f'"{kind}"',
                "the output is read by the parser of its kind", "rackwright parse --list",
            )
        )  # fmt: skip
    parsed = parsers.parse(kind, _read(file))
    click.echo(_json(parsed.as_dict()) if as_json else _printable(_text(parsed)))
    if not parsed.understood:
        sys.exit(2)
    sys.exit(1 if parsed.problems else 0)


def _list(as_json: bool) -> None:
    from checks.parsers import KINDS

    if as_json:
        rows = [
            {"kind": e.kind, "title": e.title, "commands": list(e.commands), "aliases": list(e.aliases)}
            for e in KINDS.values()
        ]
        click.echo(_json(rows))
        return
    width = max(len(kind) for kind in KINDS)
    for entry in KINDS.values():
        click.echo(f"{entry.kind:<{width}}  {entry.title}  ({'; '.join(entry.commands)})")


def _printable(text: str) -> str:
    """``text`` with what standard output cannot encode (half a surrogate pair, say) as escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return text if _printable(text) == text else json.dumps(value, indent=1)


def _read(file: str) -> str:
    if file == "-":
        data = sys.stdin.buffer.read()
    else:
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise CannotRun(
                Problem(file, "must be a readable file", str(error.strerror), "there is nothing to read",
                        "give the file that holds the tool's output, or - for standard input")
            ) from None  # fmt: skip
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


def _text(parsed: Parsed) -> str:
    lines = [f"kind        {parsed.kind or 'not recognised'}"]
    lines.append(f"understood  {'yes' if parsed.understood else 'no'}")
    lines += [f"problem     {p.code} · {p.where} · {p.text}" for p in parsed.problems]
    return "\n".join([*lines, *_flat(parsed.as_dict()["facts"], "")])


def _flat(value: Any, path: str) -> list[str]:
    if isinstance(value, dict) and set(value) == {"na"}:
        return [f"{path} = n/a ({value['na']})"]
    if isinstance(value, dict):
        items = value.items()
        return [line for key, item in items for line in _flat(item, f"{path}.{key}".lstrip("."))]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [line for index, item in enumerate(value) for line in _flat(item, f"{path}[{index}]")]
    return [] if value is None else [f"{path} = {json.dumps(value, ensure_ascii=False)}"]
