"""``rackwright render`` of a plan for hosts, as a person runs it."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner

from rackwright.cli.cmd_render import command
from rackwright.errors import CannotRun
from rackwright.hosts import decide
from stacks.hosts.rendering import texts_of
from tests.hosts.plans import EXAMPLE, example


def test_the_program_declares_what_was_decided() -> None:
    wanted = {f"{host.host}/{file.path}": file.content for host in decide(example()) for file in host.files}
    assert texts_of(example()) == wanted
    assert len(wanted) == 40


def test_a_render_writes_a_folder_a_host_and_no_secret(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(command, [str(EXAMPLE), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in out.iterdir()) == ["index.yaml", "pro6000-01", "pro6000-02"]
    assert not list(out.rglob("secrets.env"))
    index = yaml.safe_load((out / "index.yaml").read_text(encoding="utf-8"))
    assert len(index["objects"]) == 40
    assert {o["mode"] for o in index["objects"] if o["file"].endswith(".sh")} == {"0755"}
    assert "host.sh activate NAME" in done.output
    assert "the placeholder of sixty-four zeros" in done.output


def test_an_edited_file_is_written_over_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    CliRunner().invoke(command, [str(EXAMPLE), "-o", str(out)])
    (out / "pro6000-01/replicas").write_text("edited\n", encoding="ascii")
    refused = CliRunner().invoke(command, [str(EXAMPLE), "-o", str(out)])
    assert isinstance(refused.exception, CannotRun)
    assert "pro6000-01/replicas" in str(refused.exception)
    forced = CliRunner().invoke(command, [str(EXAMPLE), "-o", str(out), "--force"])
    assert forced.exit_code == 0
    assert (out / "pro6000-01/replicas").read_text(encoding="utf-8") != "edited\n"
