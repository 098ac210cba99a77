"""Real sshd processes on loopback, one a host, each with its own key and its own fault."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from rackwright.inventory import Host

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"

needs_sshd = pytest.mark.skipif(
    os.geteuid() != 0 or not Path(SSHD).exists(), reason="needs root and sshd: a real server per host"
)


def free_port(address: str = "127.0.0.1") -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        port: int = sock.getsockname()[1]
        return port


class Farm:
    """Servers of one test module; ``known_hosts`` holds the keys of those that were enrolled."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.touch()
        self.key = self._keygen("client")
        self._running: list[subprocess.Popen[bytes]] = []
        Path("/run/sshd").mkdir(exist_ok=True)

    def _keygen(self, name: str) -> Path:
        path = self.directory / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
        return path

    def start(
        self, name: str, *, force: str = "", authorised: bool = True, enrolled: bool = True, port: int = 0
    ) -> Host:
        port = port or free_port()
        host_key = self._keygen(f"{name}.host")
        keys = self.directory / f"{name}.keys"
        keys.write_text(self.key.with_suffix(".pub").read_text() if authorised else "")
        lines = [
            f"ListenAddress 127.0.0.1:{port}",
            f"HostKey {host_key}",
            f"AuthorizedKeysFile {keys}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "MaxStartups 500",
        ]
        if force:
            wrapper = self.directory / f"{name}.sh"
            wrapper.write_text(f"#!/bin/sh\n{force}\n")
            wrapper.chmod(0o755)
            lines.append(f"ForceCommand {wrapper}")
        config = self.directory / f"{name}.conf"
        config.write_text("\n".join(lines) + "\n")
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
        self._running.append(process)
        _wait(port)
        if enrolled:
            self.enrol(port, host_key)
        return Host(
            name, "127.0.0.1", port=port, user="root", key_file=str(self.key), pool="h200", rack="r01"
        )

    def enrol(self, port: int, host_key: Path) -> None:
        kind, blob, *_ = host_key.with_suffix(host_key.suffix + ".pub").read_text().split()
        with self.known_hosts.open("a") as file:
            file.write(f"[127.0.0.1]:{port} {kind} {blob}\n")

    def other_key(self, port: int) -> None:
        self.enrol(port, self._keygen(f"other-{port}"))

    def stop(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait(timeout=10)


def _wait(port: int) -> None:
    end = time.monotonic() + 15
    while time.monotonic() < end:
        with socket.socket() as sock:
            sock.settimeout(1)
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"sshd does not listen on port {port}")
