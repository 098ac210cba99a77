"""The makers' own downloads. Nothing is unpacked or run before it matches its pinned checksum."""

from __future__ import annotations

import hashlib
import http.client
import platform
import shutil
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlparse

from tools.engine.families import HERE, Binary

CHECKSUMS = HERE / "checksums.txt"
ANSWER_TIMEOUT_S = 5
"""Between two packets too: an address that is not reachable must not hold up the build."""
DOWNLOAD_TIMEOUT_S = 600
BLOCK = 1 << 20
ALGORITHMS = {64: "sha256", 128: "sha512"}
Say = Callable[[str], None]


class NotDownloaded(Exception):
    """Why not."""


def placed(text: str) -> str:
    """``text`` with the names that makers give this system and processor."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    names = {"os": platform.system().lower(), "arch": machine, "x64": machine.replace("amd64", "x64")}
    return text.format(**names)


def checksums(path: Path = CHECKSUMS) -> dict[str, str]:
    """Address to checksum."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return {line[1]: line[0] for line in lines if len(line) == 2 and line[0] != "#"}


def fetch(binaries: Iterable[Binary], directory: Path, say: Say, unreachable: set[str]) -> dict[str, Path]:
    """The programs of ``binaries`` that could be downloaded, by name; each archive once.

    ``unreachable``: hosts that did not answer; they are not asked again, and those found here are added.
    """
    by_address: dict[str, list[Binary]] = {}
    for binary in binaries:
        if binary.download:
            by_address.setdefault(placed(binary.download), []).append(binary)
    found = {}
    for address, wanted in by_address.items():
        names = ", ".join(b.name for b in wanted)
        try:
            found.update(_from_archive(address, wanted, directory, say, unreachable))
        except NotDownloaded as error:
            say(f"{names}: not downloaded: {error}")
    return found


def _from_archive(
    address: str, wanted: list[Binary], directory: Path, say: Say, unreachable: set[str]
) -> dict[str, Path]:
    pinned, host = checksums().get(address), urlparse(address).netloc
    if pinned is None:
        raise NotDownloaded(f"no checksum of {address} in {CHECKSUMS.name}")
    if host in unreachable:
        raise NotDownloaded(f"{host} does not answer")
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / "download.part"
    try:
        _save(address, archive, say, unreachable)
        _verify(archive, pinned)
        return _unpacked(archive, wanted, directory)
    finally:
        archive.unlink(missing_ok=True)


def _save(address: str, target: Path, say: Say, unreachable: set[str]) -> None:
    deadline = time.monotonic() + DOWNLOAD_TIMEOUT_S
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_TIMEOUT_S) as response, target.open("wb") as out:
            say(f"downloading {address}")
            while block := response.read(BLOCK):
                out.write(block)
                if time.monotonic() > deadline:
                    raise NotDownloaded(f"not within {DOWNLOAD_TIMEOUT_S} s")
    except urllib.error.HTTPError as error:
        raise NotDownloaded(f"{address} answered {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        host = urlparse(address).netloc
        unreachable.add(host)
        reason = getattr(error, "reason", error)
        raise NotDownloaded(f"{host} cannot be reached ({reason})") from None


def _verify(archive: Path, pinned: str) -> None:
    with archive.open("rb") as content:
        found = hashlib.file_digest(content, ALGORITHMS[len(pinned)]).hexdigest()
    if found != pinned:
        raise NotDownloaded(f"its {ALGORITHMS[len(pinned)]} is {found}, pinned is {pinned}: dropped")


def _unpacked(archive: Path, wanted: list[Binary], directory: Path) -> dict[str, Path]:
    members: Mapping[str, Binary] = {placed(b.member): b for b in wanted}
    parts = {b.name: directory / f"{b.name}.part" for b in wanted}
    if "" in members:
        shutil.copyfile(archive, parts[members[""].name])
    else:
        _extract(archive, {name: parts[b.name] for name, b in members.items()})
    for part in parts.values():
        part.chmod(0o755)
    return parts


def _extract(archive: Path, members: Mapping[str, Path]) -> None:
    left = dict(members)
    try:
        with tarfile.open(archive, mode="r|gz") as content:
            for entry in content:
                target = left.pop(entry.name.removeprefix("./"), None)
                if target is None:
                    continue
                taken = content.extractfile(entry)
                if taken is None:
                    raise NotDownloaded(f"{entry.name} is no file in the archive")
                with target.open("wb") as out:
                    shutil.copyfileobj(taken, out)
                if not left:
                    return
    except tarfile.TarError as error:
        raise NotDownloaded(f"no archive that can be read: {error}") from None
    raise NotDownloaded(f"the archive has no {', '.join(left)}")
