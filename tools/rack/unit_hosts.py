"""Simulated hosts whose units really run: for plans that stand on hosts, not in a cluster.

Each is an sshd in mount, UTS and PID namespaces of its own, with its own /etc, /run, /var/log, /var/lib and a
network of its own for all but sshd: ports of two hosts do not meet. nginx, curl, tar and systemd-analyze are
real; systemd, docker and the engine are stood in for (``unit_shims.py``). It takes root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tools.rack import farm, unit_shims
from tools.rack.farm import Proc

USER = "ops"
TOOLS = ("systemctl", "journalctl", "docker")
SHELL_TOOLS = {
    "systemctl": """\
for name; do :; done
pid=/run/sim/$name.pid
[ "$name" = nginx.service ] && pid=/run/nginx.pid
case $1 in
    is-active) [ -f "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null || exit 3; exit 0 ;;
    show) cat "/run/sim/$name.restarts" 2>/dev/null || echo 0; exit 0 ;;
    daemon-reload | reset-failed) [ "$SIM_ROOT" ] && exit 0; echo "Access denied" >&2; exit 1 ;;
esac
""",
    "id": '[ "$SIM_ROOT" ] && echo 0 || echo 1000\n',
    "nginx": """\
[ "$SIM_ROOT" ] || { echo "nginx: permission denied" >&2; exit 1; }
exec /usr/sbin/nginx "$@"
""",
    "sudo": """\
given=
while :; do
    case $1 in
        -S) IFS= read -r given; shift ;;
        -p) shift 2 ;;
        --) shift; break ;;
        -*) shift ;;
        *) break ;;
    esac
done
if [ -f /run/sim/sudo-password ] && [ "$given" != "$(cat /run/sim/sudo-password)" ]; then
    echo "sudo: a password is required" >&2
    exit 1
fi
SIM_ROOT=1
export SIM_ROOT
exec "$@"
""",
}
"""What a shell answers; the rest is left to ``unit_shims.py``, which takes a Python to start. ``sudo`` asks
for a password where ``/run/sim/sudo-password`` holds one."""
PROGRAMS = ("unshare", "nsenter", "ip", "curl", "nginx", "systemd-analyze", "openssl", "ssh-keygen")
ETC = ("ld.so.cache", "ld.so.conf", "nsswitch.conf", "ssl", "localtime", "hosts")
NGINX = """\
user root;
worker_processes 1;
error_log /var/log/nginx/error.log;
pid /run/nginx.pid;
events {}
http {
    access_log /var/log/nginx/access.log;
    include /etc/nginx/conf.d/*.conf;
}
"""


def absent() -> str:
    """Why such hosts cannot be raised here; empty where they can."""
    if os.geteuid() != 0:
        return "not root: only root can give each host its own mounts and network"
    lacking = [name for name in PROGRAMS if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")]
    lacking += [] if Path(farm.SSHD).exists() else ["sshd"]
    if lacking:
        return f"not installed: {', '.join(lacking)}; next: apt-get install nginx-light curl openssh-server"
    probe = ["unshare", "--mount", "--uts", "--pid", "--net", "--fork", "true"]
    refused = subprocess.run(probe, capture_output=True, check=False).returncode
    return "namespaces are refused here" if refused else ""


@dataclass
class UnitHost:
    """One host; ``path`` gives the place of a file of it as seen from here."""

    name: str
    address: str
    directory: Path
    proc: Proc | None = None

    def path(self, inside: str) -> Path:
        for name in ("etc", "run", "var_log", "var_lib"):
            at = "/" + name.replace("_", "/") + "/"
            if inside.startswith(at):
                return self.directory / name / inside.removeprefix(at)
        raise ValueError(inside)

    def faults(self, *lines: str) -> None:
        """Make these the faults of engines that are started from now on: ``refuses WORD`` and the like."""
        self.path("/run/sim/faults").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def program(self, path: str) -> None:
        """An engine's program at ``path`` below /opt, which answers as an image's does."""
        place = self.directory / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        python = shlex.quote(str(Path(sys.executable).resolve()))
        place.write_text(f'#!/bin/sh\nexec {python} -S -E /run/shims.py native "$@"\n', encoding="utf-8")
        place.chmod(0o755)

    def weights(self, model: str, kib: int) -> Path:
        """A directory that looks like the weights of ``model``, sparse."""
        folder = self.path(f"/var/lib/models/{model}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text("{}\n", encoding="ascii")
        with (folder / "model.safetensors").open("wb") as file:
            file.truncate(kib * 1024)
        return folder


class UnitHosts:
    """Hosts in ``directory``; as a context manager they come up and go down.

    ``inventory``: an INI file that names them, with their keys and host keys.
    """

    def __init__(
        self,
        directory: Path,
        names: list[str],
        *,
        plan: Path,
        images: tuple[str, ...] = (),
        network: str = "127.67",
    ) -> None:
        self.directory = directory
        self.plan = plan
        self.images = images
        self.hosts = {
            name: UnitHost(name, f"{network}.0.{index + 1}", directory / name)
            for index, name in enumerate(names)
        }
        self.port = farm.free_port(*(host.address for host in self.hosts.values()))

    @property
    def inventory(self) -> Path:
        return self.directory / "hosts.ini"

    def __getitem__(self, name: str) -> UnitHost:
        return self.hosts[name]

    def __enter__(self) -> UnitHosts:
        self.directory.mkdir(parents=True, exist_ok=True)
        _keygen(self.directory / "id_ed25519")
        try:
            for host in self.hosts.values():
                self._write(host)
                self.start(host.name)
        except BaseException:
            self.down()
            raise
        known = [
            f"[{h.address}]:{self.port} {(h.directory / 'ssh/key.pub').read_text(encoding='ascii')}"
            for h in self.hosts.values()
        ]
        (self.directory / "known_hosts").write_text("".join(known), encoding="ascii")
        lines = [
            "[hosts]",
            *[f"{h.name} ansible_host={h.address}" for h in self.hosts.values()],
            "[all:vars]",
            f"plan={self.plan}",
            f"ansible_user={USER}",
            f"ansible_port={self.port}",
            f"ansible_ssh_private_key_file={self.directory / 'id_ed25519'}",
            f"ansible_ssh_common_args='-o UserKnownHostsFile={self.directory / 'known_hosts'}'",
        ]
        self.inventory.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def down(self) -> None:
        for name in self.hosts:
            self.stop(name)

    def stop(self, name: str) -> None:
        """As if its power were cut."""
        host = self.hosts[name]
        if host.proc is not None:
            farm.stop([host.proc])
            host.proc = None
            for left in host.path("/run/sim/x").parent.glob("*"):
                if left.suffix in {".pid", ".container"}:
                    left.unlink()
            host.path("/run/nginx.pid").unlink(missing_ok=True)

    def start(self, name: str) -> None:
        host = self.hosts[name]
        script = host.directory / "start.sh"
        script.write_text(_script(host), encoding="utf-8")
        with (host.directory / "sshd.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
                    "--propagation", "private", "/bin/sh", str(script),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
            )  # fmt: skip
        host.proc = Proc(process.pid, farm.start_time(process.pid))
        process.returncode = 0
        if not farm.wait_until_up(host.address, self.port, host.proc, time.monotonic() + 20):
            raise RuntimeError((host.directory / "sshd.log").read_text(encoding="utf-8")[-2000:])

    def shell(self, name: str, command: str) -> str:
        """What ``command`` prints on the host, as root."""
        host = self.hosts[name]
        done = subprocess.run(
            [
                "ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-p", str(self.port),
                "-o", f"UserKnownHostsFile={self.directory / 'known_hosts'}",
                "-i", str(self.directory / "id_ed25519"), f"{USER}@{host.address}",
                "sudo -n sh -c " + shlex.quote(command),
            ],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done.stdout + done.stderr

    def _write(self, host: UnitHost) -> None:
        at = host.directory
        for name in (
            "etc/systemd/system", "etc/nginx/conf.d", "etc/rackwright-tls", "run/sim", "run/sshd",
            "var_log/nginx", "var_lib/nginx", "var_lib/models", "home/ops", "opt", "tmp", "sbin", "ssh",
            "net",
        ):  # fmt: skip
            (at / name).mkdir(parents=True, exist_ok=True)
        for name in ETC:
            source = Path("/etc") / name
            if source.is_dir():
                shutil.copytree(source, at / "etc" / name, symlinks=True, dirs_exist_ok=True)
            elif source.exists():
                shutil.copy(source, at / "etc" / name)
        users = f"root:x:0:0:root:/root:/bin/sh\n{USER}:x:0:0:{USER}:/home/ops:/bin/sh\n"
        users += (
            "sshd:x:100:65534:sshd:/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/bin/false\n"
        )
        (at / "etc/passwd").write_text(users, encoding="ascii")
        (at / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n", encoding="ascii")
        (at / "etc/shadow").write_text(f"root:*:20000::::::\n{USER}:*:20000::::::\n", encoding="ascii")
        (at / "etc/nginx/nginx.conf").write_text(NGINX, encoding="ascii")
        (at / "run/sim/registry").write_text("\n".join(self.images), encoding="utf-8")
        (at / "net/ns").touch()
        shims = at / "run" / "shims.py"
        shutil.copy(Path(unit_shims.__file__), shims)
        python = Path(sys.executable).resolve()
        for name in {*TOOLS, *SHELL_TOOLS}:
            text = "#!/bin/sh\n" + SHELL_TOOLS.get(name, "")
            if name in TOOLS:
                text += f'exec {shlex.quote(str(python))} -S -E /run/shims.py {name} "$@"\n'
            (at / "sbin" / name).write_text(text, encoding="utf-8")
            (at / "sbin" / name).chmod(0o755)
        _keygen(at / "ssh/key")
        shutil.copy(self.directory / "id_ed25519.pub", at / "ssh/authorized_keys")
        inside = 'nsenter --net=/run/net/ns -- /bin/sh -c "$SSH_ORIGINAL_COMMAND"'
        (at / "ssh/sshd_config").write_text(
            f"Port {self.port}\nListenAddress {host.address}\nHostKey /run/ssh/key\n"
            "AuthorizedKeysFile /run/ssh/authorized_keys\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\n"
            "PermitRootLogin prohibit-password\nPidFile none\nUseDNS no\nLogLevel ERROR\n"
            f'SetEnv "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"\nForceCommand exec {inside}\n',
            encoding="utf-8",
        )
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-subj", "/CN=simulated", "-days", "2",
                "-keyout", str(at / "etc/rackwright-tls/privkey.pem"),
                "-out", str(at / "etc/rackwright-tls/fullchain.pem"),
            ],
            check=True, capture_output=True,
        )  # fmt: skip


def _script(host: UnitHost) -> str:
    """What runs inside the namespaces before sshd does."""
    at = shlex.quote(str(host.directory))
    lines = [
        "set -e",
        f"h={at}",
        f"hostname {shlex.quote(host.name)}",
        "mkdir -p $h/run/ssh $h/run/net",
        "mount --bind $h/ssh $h/run/ssh",
        "mount --bind $h/net $h/run/net",
        "unshare --net=$h/run/net/ns true",
        "nsenter --net=$h/run/net/ns ip link set lo up",
        "mount --bind $h/sbin /usr/local/sbin",
        "mount --bind $h/home /home",
        "mount --bind $h/var_log /var/log",
        "mount --bind $h/opt /opt",
        "mount --bind $h/var_lib /var/lib",
        "mount --bind $h/etc /etc",
        "mount --rbind $h/run /run",
        "mount --bind $h/tmp /tmp",
        "cd /",
        f"exec {farm.SSHD} -D -e -f /run/ssh/sshd_config",
    ]
    return "\n".join(lines) + "\n"


def _keygen(path: Path) -> None:
    path.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)],
        check=True, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
