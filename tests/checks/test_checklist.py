"""The printed checklist and its page."""

from __future__ import annotations

from click.testing import CliRunner

from checks.registry import load
from rackwright.cli.cmd_checklist import command, markdown, table
from tests.golden import REPOSITORY, assert_golden


def test_the_page_is_current() -> None:
    assert_golden(REPOSITORY / "docs" / "checks.md", markdown(load()))


def test_the_command_prints_every_check_once() -> None:
    out = CliRunner().invoke(command, [])
    assert out.exit_code == 0, out.output
    first = [line.split()[0] for line in out.output.splitlines()[1:]]
    assert sorted(first) == sorted(load())


def test_columns_line_up() -> None:
    lines = table(load()).splitlines()
    at = lines[0].index("SEVERITY")
    assert all(line[at - 1] == " " and line[at] != " " for line in lines)


def test_markdown_names_all() -> None:
    out = CliRunner().invoke(command, ["--markdown"])
    assert out.exit_code == 0
    for item in load().values():
        assert f"### {item.id}: " in out.output
