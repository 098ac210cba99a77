"""A render's directory: nothing leaves it, nothing of others in it is lost, and a failure changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rackwright.errors import CannotRun, InputErrors
from rackwright.plan import save_plan
from stacks import manifests as writer
from stacks.rendering import render
from tests.stacks.plans import changed, multi, single
from tests.stacks.test_render import invoke, texts


def state(directory: Path) -> dict[str, Any]:
    """Everything below ``directory``: what files hold, where links lead, which directories are empty."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name] = "empty"
    return found


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/evil", "a//b", "./a", "", ".git/config", "a/..", "a\\b", "A", "a b", "a\n"],
)
def test_a_path_that_leaves_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotRun, match="must be a path inside the directory"):
        writer.write({"index.yaml": "", name: "evil"}, tmp_path / "deep" / "out")
    assert state(tmp_path) == {}


@pytest.mark.parametrize(
    "name", ["../../../evil", "../../../../evil2", "a/b", "Upper", "a..b", "-a", "a" * 254]
)
@pytest.mark.parametrize(
    "place", ["pools__0__nodes__0__name", "platform__namespace", "deployments__0__name", "volumes__0__name"]
)
def test_a_name_that_no_object_can_have_is_refused(tmp_path: Path, place: str, name: str) -> None:
    plan = changed(single(), **{place: name})
    if place == "deployments__0__name":
        others = {f"{section}__0__deployment": name for section in ("volumes", "routes")}
        plan = changed(plan, **others)
    with pytest.raises(InputErrors, match="must be a DNS name") as caught:
        render(plan, tmp_path / "a" / "b" / "c" / "d" / "out")
    assert len({str(p) for p in caught.value.problems}) == len(caught.value.problems)
    assert state(tmp_path) == {}


def _replace_by_file(out: Path) -> None:
    for path in (out / "50-serving").iterdir():
        path.unlink()
    (out / "50-serving").rmdir()
    (out / "50-serving").write_text("mine")


def _replace_by_link(out: Path) -> None:
    _replace_by_file(out)
    (out / "50-serving").unlink()
    (out / "50-serving").symlink_to("/tmp")


def _replace_by_directory(out: Path) -> None:
    (out / "kustomization.yaml").unlink()
    (out / "kustomization.yaml").mkdir()
    (out / "kustomization.yaml" / "notes.md").write_text("mine")


def _replace_by_empty_directory(out: Path) -> None:
    (out / "kustomization.yaml").unlink()
    (out / "kustomization.yaml").mkdir()


@pytest.mark.parametrize(
    "fault", [_replace_by_file, _replace_by_link, _replace_by_directory, _replace_by_empty_directory]
)
@pytest.mark.parametrize("force", [False, True])
def test_what_stands_above_or_below_a_new_file_blocks_it(tmp_path: Path, fault: Any, force: bool) -> None:
    out = tmp_path / "out"
    render(single(), out)
    fault(out)
    (out / "zz-notes.md").write_text("mine too")
    before = state(tmp_path)
    with pytest.raises(CannotRun, match="must be empty, new, or written by an earlier render"):
        render(single(), out, force=force)
    assert state(tmp_path) == before


def test_what_others_keep_beside_a_render_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    render(single(), out)
    (out / ".git" / "refs").mkdir(parents=True)
    (out / ".git" / "HEAD").write_text("ref")
    (out / ".git").chmod(0o700)
    (out / "link").symlink_to("50-serving")
    (out / "dangling").symlink_to("nowhere")
    render(multi(), out)
    found = state(out)
    assert found[".git/refs"] == "empty"
    assert (found["link"], found["dangling"]) == ("-> 50-serving", "-> nowhere")
    assert found[".git/HEAD"] == b"ref"
    assert (out / ".git").stat().st_mode & 0o777 == 0o700
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("step", range(1, 4))
def test_whatever_step_of_the_swap_fails_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    out = tmp_path / "out"
    render(single(), out)
    (out / "notes.md").write_text("mine")
    before = state(tmp_path)
    calls = 0

    def failing(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                raise OSError(28, "No space left on device")
            return real(*arguments, **options)

        return call

    monkeypatch.setattr(Path, "rename", failing(Path.rename))
    monkeypatch.setattr(shutil, "copymode", failing(shutil.copymode))
    with pytest.raises(CannotRun, match="what was there is unchanged"):
        render(multi(), out)
    assert state(tmp_path) == before


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    render(single(), out)
    (out / "notes.md").write_text("mine")

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    render(multi(), out)
    assert (out / "notes.md").read_text() == "mine"


@pytest.mark.parametrize("files", ["", " 5", " text", " {a: 1}", "\nobjects: 5", " []\nobjects:"])
def test_an_index_without_its_lists_is_one_clear_error(tmp_path: Path, files: str) -> None:
    (tmp_path / "index.yaml").write_text(f"written-by: {writer.MARKER}\nfiles:{files}\n")
    before = state(tmp_path)
    with pytest.raises(CannotRun, match=r"an index\.yaml without its lists"):
        render(single(), tmp_path)
    assert state(tmp_path) == before


@pytest.mark.parametrize("entry", ["5", "{file: 1}", "{sha256: 3}", "{file: ../../x, sha256: x}"])
def test_an_odd_entry_of_the_index_is_passed_over(tmp_path: Path, entry: str) -> None:
    (tmp_path / "index.yaml").write_text(
        f"written-by: {writer.MARKER}\nfiles: [index.yaml, ../../x, 7]\nobjects: [{entry}]\n"
    )
    render(single(), tmp_path)
    assert state(tmp_path).keys() == texts(single()).keys()


EDITED = ("50-serving/deployment-llm-chat.yaml", "kustomization.yaml", "nodes/gpu-001.yaml")


def test_edits_by_hand_are_named_and_not_written_over(tmp_path: Path) -> None:
    out, plan = tmp_path / "out", tmp_path / "plan.yaml"
    save_plan(single(), plan)
    render(single(), out)
    for name in EDITED:
        (out / name).write_text((out / name).read_text() + "# mine\n")
    before = state(tmp_path)
    code, text = invoke(str(plan), "-o", str(out))
    assert (code, text.count("edits made by hand")) == (2, len(EDITED))
    assert all(f"{out}/{name} · " in text for name in EDITED)
    assert f"rackwright render PLAN -o {out} --force" in text
    assert state(tmp_path) == before
    code, text = invoke(str(plan), "-o", str(out), "--force")
    assert code == 0
    assert all(f"{out}/{name}: was edited by hand; the edits are overwritten." in text for name in EDITED)
    assert _text_state(out) == texts(single())


def test_an_edit_of_a_file_that_the_next_render_lacks_is_not_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    render(single(), out)
    (out / EDITED[0]).write_text("mine")
    with pytest.raises(CannotRun, match="edits made by hand"):
        render(multi(), out)


def test_a_file_that_is_gone_or_already_as_it_will_be_is_no_edit(tmp_path: Path) -> None:
    out = tmp_path / "out"
    render(single(), out)
    (out / EDITED[0]).unlink()
    scaled = changed(single(), volumes__0__size_gib=999)
    name = "40-storage/persistentvolumeclaim-llm-chat-weights.yaml"
    (out / name).write_text(texts(scaled)[name])
    assert render(scaled, out).overwritten == ()
    assert _text_state(out) == texts(scaled)


def _text_state(out: Path) -> Mapping[str, str]:
    return {name: content.decode() for name, content in state(out).items()}
