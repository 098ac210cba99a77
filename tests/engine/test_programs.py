"""Finding, downloading and naming the engine's programs; locks that a dead process left."""

from __future__ import annotations

import dataclasses
import http.server
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackwright.errors import CannotRun
from tests.golden import REPOSITORY
from tools.engine import build, env, golang
from tools.engine.families import FAMILIES, PULUMI_KUBERNETES, Binary, Family
from tools.engine.stack import Stack

SCRIPT = "#!/bin/sh\necho program v1.2.3\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """A web site that serves ``program`` and ``archive.tar.gz``."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "program").write_text(SCRIPT)
    with tarfile.open(folder / "archive.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("release/program")
        entry.size = len(SCRIPT)
        archive.addfile(entry, io.BytesIO(SCRIPT.encode()))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def family(**binary: str) -> Family:
    made = Binary("program-of-a-test", "example.org/none", accepts=r"v1\.2\.", **binary)
    return dataclasses.replace(FAMILIES[0], binaries=(made,), definitions=None)


def quiet(_: str) -> None:
    pass


def test_a_download_is_unpacked_probed_and_kept(site: str) -> None:
    wanted = family(download=f"{site}/archive.tar.gz", member="release/program")
    (found,) = build.obtain(wanted, quiet)
    assert isinstance(found, build.Found)
    assert found.origin == "downloaded"
    (again,) = build.obtain(wanted, quiet)
    assert isinstance(again, build.Found)
    assert (again.origin, again.path) == ("cache", found.path)


@pytest.mark.parametrize(
    ("path", "member"),
    [("nothing", ""), ("archive.tar.gz", "release/other"), ("program", "release/program")],
    ids=["not published", "not in the archive", "not an archive"],
)
def test_what_cannot_be_downloaded_is_built(
    site: str, path: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang, "compiler", lambda *_: None)
    wanted = family(download=f"{site}/{path}", member=member)
    (missing,) = build.obtain(wanted, quiet)
    assert isinstance(missing, build.Missing)
    assert "no Go 1.26.6 or newer" in missing.reason
    assert "the embedded engine still renders" in str(missing)


def test_a_download_that_says_another_version_is_dropped(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "compiler", lambda *_: None)
    other = dataclasses.replace(family(download=f"{site}/program").binaries[0], accepts=r"v9\.")
    wanted = dataclasses.replace(FAMILIES[0], binaries=(other,), definitions=None)
    (missing,) = build.obtain(wanted, quiet)
    assert isinstance(missing, build.Missing)
    assert not (build.directory_of(wanted) / other.name).exists()


def test_a_program_on_path_is_taken_only_with_an_accepted_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program-of-a-test"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    wanted = family()
    found = build.locate(wanted, wanted.binaries[0])
    assert found is not None
    assert found.origin == "path"
    other = dataclasses.replace(wanted.binaries[0], accepts=r"v2\.")
    assert build.locate(wanted, other) is None


def test_a_changed_pin_or_flag_takes_another_directory() -> None:
    one = FAMILIES[0]
    changed = dataclasses.replace(one.binaries[0], ldflags="-X a.b=c")
    assert dataclasses.replace(one, binaries=(changed,)).digest() != one.digest()
    assert len({f.digest() for f in FAMILIES}) == len(FAMILIES)
    assert one.digest() == one.digest()


def test_the_provider_has_the_version_of_the_sdk() -> None:
    pinned = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"pulumi-kubernetes=={PULUMI_KUBERNETES}" in pinned["stacks"]
    assert f'"{PULUMI_KUBERNETES}"' in (REPOSITORY / "tools/engine/provider/main.go").read_text()


def test_the_environment_needs_no_network_and_keeps_what_is_set(tmp_path: Path) -> None:
    made = env.environment(tmp_path, {"PATH": "/bin", "PULUMI_BACKEND_URL": "s3://state"})
    assert made["PULUMI_BACKEND_URL"] == "s3://state"
    assert made["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] == "true"
    assert made["PULUMI_SKIP_UPDATE_CHECK"] == "true"
    assert made["PATH"].split(os.pathsep)[0].endswith("tools/engine/bin")
    secret = env.environment(tmp_path, {"PULUMI_CONFIG_PASSPHRASE_FILE": "/run/secret"})
    assert "PULUMI_CONFIG_PASSPHRASE" not in secret


def test_the_embedded_engine_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_ENGINE", "embedded")
    assert "embedded" in env.usable()


def locked(tmp_path: Path, pid: int, host: str) -> tuple[Stack, Path]:
    lock = tmp_path / "state" / ".pulumi" / "locks" / "organization" / "rackwright" / "one" / "a.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": pid, "username": "ada", "hostname": host}))
    return Stack("one", tmp_path, {"PULUMI_BACKEND_URL": (tmp_path / "state").as_uri()}), lock


def test_the_lock_of_a_dead_process_is_removed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    stack, lock = locked(tmp_path, process.pid, socket.gethostname())
    assert stack.unlock() == [f"lock of process {process.pid}, which is dead: removed"]
    assert not lock.exists()


@pytest.mark.parametrize("host", ["", "elsewhere"], ids=["alive here", "on another host"])
def test_the_lock_of_a_living_or_a_distant_process_is_respected(tmp_path: Path, host: str) -> None:
    stack, lock = locked(tmp_path, os.getpid(), host or socket.gethostname())
    with pytest.raises(CannotRun, match="pulumi cancel --stack one"):
        stack.unlock()
    assert lock.exists()
