"""Running hosts: one sshd each, alone in mount, UTS and PID namespaces of its own.

Everything a host mounts lives in its mount namespace and goes with its last process. A host's processes go
with the one `unshare` that started them, so stopping a host is killing one process that we know by pid and
start time.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rackwright.errors import CannotRun, Problem
from tools.rack.hosts import INSIDE, REAL_DEVICES

_UNSHARE = (
    "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
    "--propagation", "private",
)  # fmt: skip
SSHD = "/usr/sbin/sshd"
ETC = ("passwd", "group", "shadow", "hostname", "os-release")


@dataclass(frozen=True)
class Proc:
    """A process we started: its pid, and its start time so that a reused pid is not taken for it."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        return self.pid > 0 and self.started > 0 and start_time(self.pid) == self.started


def start_time(pid: int) -> int:
    """Clock ticks after boot at which ``pid`` started; 0 where there is none, or only its corpse."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def require_machine() -> None:
    """Whether this machine can run a rack.

    Raises:
        CannotRun: not root, not Linux, or a tool is missing; with the command that helps.
    """
    install = "apt-get install openssh-server openssh-client util-linux"
    problems = []
    if os.geteuid() != 0:
        problems.append(
            Problem(
                "rack", "must be started by root", f"user id {os.geteuid()}",
                "only root can give each host its own mounts and name",
                "the same command by root, such as: sudo make demo",
            )
        )  # fmt: skip
    tools = {"unshare": "unshare", "mount": "mount", "sshd": SSHD, "ssh-keygen": "ssh-keygen"}
    for name, tool in tools.items():
        if not shutil.which(tool):
            problems.append(
                Problem("rack", f"needs {name}", "no such program", "every host runs one", install)
            )
    if not problems and not _namespaces_work():
        problems.append(
            Problem(
                "rack", "needs mount, UTS and PID namespaces", "unshare was refused",
                "every host lives in namespaces of its own",
                "run it outside the container, or with CAP_SYS_ADMIN and no seccomp profile",
            )
        )  # fmt: skip
    if problems:
        raise CannotRun(problems)


def _namespaces_work() -> bool:
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def script(directory: Path, name: str) -> str:
    """What runs inside the namespaces before sshd does. The real tools go out of sight last."""
    quoted = shlex.quote(str(directory))
    lines = [
        "set -e",
        f"h={quoted}",
        f"hostname {shlex.quote(name)}",
        "mount --bind $h $h/run/rack",
        "r=$h/run/rack",
        "mount --rbind /proc $r/base/proc",
        "mount --bind /usr/bin $r/base/bin",
        "mount --bind /usr/sbin $r/base/sbin",
        "mount --bind $h/../.plain $r/base/plain",
        *[f"mount --bind /dev/{d} $r/dev/{d}" for d in REAL_DEVICES],
        "mount -t devpts -o newinstance,ptmxmode=0666,mode=620 rackpts $r/dev/pts",
        "mount --bind $h/shm $r/dev/shm",
        "mount --rbind $h/run /run",
        "cd /",
        f"r={INSIDE}",
        "mount --rbind $r/dev /dev",
        "mount --bind $r/sys /sys",
        *[f"mount --bind $r/etc/{name} /etc/{name}" for name in ETC if Path(f"/etc/{name}").exists()],
        "mount --bind $r/home /home",
        "mount --bind $r/root /root",
        "mount --bind $r/var_lib /var/lib",
        "mount --bind $r/tmp /tmp",
        "mount --bind $r/proc /proc",
        "mount --bind $r/bin /usr/local/bin",
        "mount --bind $r/base/plain /usr/local/sbin",
        "m=$r/base/bin/mount",
    ]
    lines += [f"$m --bind $r/base/plain {d}" for d in ("/usr/bin", "/bin") if not Path(d).is_symlink()]
    lines += [f"$m --bind $r/bin {d}" for d in ("/usr/sbin", "/sbin") if not Path(d).is_symlink()]
    lines.append(f"exec {SSHD} -D -e -f {INSIDE}/ssh/sshd_config")
    return "\n".join(lines) + "\n"


def spawn(directory: Path, name: str, *, rack: Path, with_me: bool) -> subprocess.Popen[bytes]:
    """Start a host that was written to ``directory``; ``with_me``: it ends when this process does.

    ``rack`` is the rack's directory: it stands on the command line, by which :func:`strays` knows its hosts.
    """
    start = directory / "start.sh"
    start.write_text(script(directory, name), encoding="utf-8")
    # The kernel's signal comes when the thread that started it ends, so only the main thread may ask for it.
    tied = with_me and threading.current_thread() is threading.main_thread() and shutil.which("setpriv")
    leash = ["setpriv", "--pdeathsig", "KILL", "--"] if tied else []
    with (directory / "sshd.log").open("ab") as log:
        return subprocess.Popen(
            [*leash, *_UNSHARE, "/bin/sh", str(start), str(rack)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, close_fds=True,
            cwd="/", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )  # fmt: skip


def answers(address: str, port: int, timeout_s: float = 0.5) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout_s):
        return True
    return False


def free_port(*addresses: str) -> int:
    """A port that is free on every one of the addresses.

    Raises:
        CannotRun: there seems to be none.
    """
    for _ in range(50):
        with contextlib.ExitStack() as probes:
            port = 0
            try:
                for address in addresses:
                    probe = probes.enter_context(socket.socket())
                    probe.bind((address, port))
                    port = int(probe.getsockname()[1])
            except OSError:
                continue
            return port
    raise CannotRun(
        Problem(
            f"{addresses[0]} …", "must have a free port", "none in 50 tries",
            "every host of a rack listens on it", "give port: or another network: in the rack file",
        )
    )  # fmt: skip


def wait_until_up(address: str, port: int, proc: Proc, deadline: float) -> bool:
    """True once the host answers; False when its process has ended or the deadline has passed."""
    while time.monotonic() < deadline:
        if answers(address, port):
            return True
        if not proc.alive:
            return False
        time.sleep(0.02)
    return False


def stop(procs: list[Proc], timeout_s: float = 10.0) -> list[Proc]:
    """Kill hosts; gives those that are still there after the deadline."""
    for proc in procs:
        if proc.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(proc.pid, signal.SIGKILL)
    deadline = time.monotonic() + timeout_s
    left = list(procs)
    while left and time.monotonic() < deadline:
        for proc in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(proc.pid, os.WNOHANG)
        left = [p for p in left if p.alive]
        if left:
            time.sleep(0.02)
    return left


def strays(rack: Path) -> dict[Proc, Path]:
    """The hosts of the rack in directory ``rack`` that run, whether or not a record names them; with the tree
    that each was started from. A crash between two lines leaves some, and so does a lost record.

    Only processes of our own user count: others may write on their command lines what they like.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
            mine = entry.stat().st_uid == os.geteuid()
        except OSError:
            continue
        if not mine or len(words) < 3 or words[0] not in (b"unshare", b"setpriv"):
            continue
        start = Path(os.fsdecode(words[-2]))
        if words[-1] == os.fsencode(rack) and start.name == "start.sh":
            found[Proc(int(entry.name), start_time(int(entry.name)))] = start.parent.parent
    return found


def inner_pids(proc: Proc) -> list[int]:
    """The children of a host's `unshare`: sshd as seen from outside."""
    try:
        text = Path(f"/proc/{proc.pid}/task/{proc.pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]
