"""One simulated host on disk: shims, trees for /sys and /proc, accounts, sshd's configuration.

Layout of a host's directory (bound to /run/rack inside its namespace):

    bin/    shims; stands in /usr/local/bin and /usr/sbin
    base/   where the real /usr/bin and /usr/sbin appear; links to a few of their tools stand in /usr/bin
    out/    recorded outputs
    sys/ proc/ etc/ dev/ home/ root/ tmp/ shm/ var_lib/    ssh/    unknown.log
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.rack import emit
from tools.rack.emit.core import Link, Recording, Tree
from tools.rack.emit.nvidia import APPS_TABLE, CSV_TABLE, apps_table, csv_table
from tools.rack.state import HostState, ToolFault

INSIDE = "/run/rack"
USER = "ops"
THP = "kernel/mm/transparent_hugepage/enabled"
FLOOD_BYTES = 100_000_000
UNKNOWN_RC = 97
SLOW_S = 11

BASE_TOOLS = (
    "[", "awk", "base64", "basename", "bash", "cat", "chmod", "chroot", "cksum", "cmp", "comm", "cp",
    "cut", "dash", "date", "dd", "diff", "dirname", "du", "echo", "egrep", "env", "expand", "expr",
    "false", "fgrep", "find", "fold", "gawk", "getconf", "grep", "groups", "gzip", "head", "hostname",
    "install", "join", "ln", "ls", "mawk", "md5sum", "mkdir", "mkfifo", "mktemp", "mv", "nice", "nl",
    "nohup", "od", "paste", "perl", "printenv", "printf", "pwd", "readlink", "realpath", "rm", "rmdir",
    "sed", "seq", "setsid", "sh", "sha256sum", "sleep", "sort", "split", "stat", "stdbuf", "stty",
    "sync", "tac", "tail", "tar", "tee", "test", "timeout", "touch", "tr", "true", "tty", "uniq",
    "uptime", "wc", "which", "which.debianutils", "whoami", "xargs",
)  # fmt: skip

REAL_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

REAL_PROC = ("self", "thread-self", "uptime", "loadavg", "stat", "mounts", "filesystems", "net")
"""Entries of the real /proc that a simulated one leads to; all others are the host's own files."""


@dataclass(frozen=True)
class Keys:
    """Where the keys of a rack lie; the host's own key is made once."""

    authorized: str
    host_private: str
    other_private: str


def write(
    directory: Path, state: HostState, keys: Keys, *, address: str, port: int, tools: Iterable[str]
) -> None:
    """Write or refresh a host. Files that are bound singly are written in place: a bind follows the inode."""
    for name in (
        "bin",
        "out",
        "sys",
        "proc",
        "etc",
        "dev",
        "home/ops",
        "root",
        "var_lib/kubelet",
        "dev/infiniband",
        "base/bin",
        "base/sbin",
        "base/plain",
        "base/proc",
    ):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "shm", "run/rack", "run/sshd", "ssh"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "shm"):
        (directory / name).chmod(0o1777)
    log = directory / "unknown.log"
    log.touch()
    log.chmod(0o666)
    _write_tools(directory, state, tools)
    tree = emit.files(state)
    _sync(directory / "sys", {k[4:]: v for k, v in tree.items() if k.startswith("/sys/")})
    real: Tree = {f"/{name}": Link(f"{INSIDE}/base/proc/{name}") for name in REAL_PROC}
    _sync(directory / "proc", {k[5:]: v for k, v in tree.items() if k.startswith("/proc/")} | real)
    _sync(
        directory / "var_lib/kubelet",
        {k[16:]: v for k, v in tree.items() if k.startswith("/var/lib/kubelet/")},
    )
    _sync(
        directory / "dev/infiniband", {k[15:]: v for k, v in tree.items() if k.startswith("/dev/infiniband/")}
    )
    (directory / "sys" / THP).chmod(0o666)  # the simulated root is none; its tee asks for sudo
    etc = {k[4:]: v for k, v in tree.items() if k.startswith("/etc/")} | _accounts(state)
    _sync(directory / "etc", etc)
    (directory / "etc/shadow").chmod(0o600)
    _write_devices(directory / "dev", state)
    _write_ssh(directory, state, keys, address, port)


def _accounts(state: HostState) -> dict[str, str]:
    users = (
        ("root", 0, 0, "/root", "/bin/sh"),
        ("sshd", 100, 65534, "/run/sshd", "/usr/sbin/nologin"),
        (USER, 1000, 1000, f"/home/{USER}", "/bin/sh"),
        ("nobody", 65534, 65534, "/nonexistent", "/usr/sbin/nologin"),
    )
    passwd = "".join(f"{n}:x:{u}:{g}:{n}:{home}:{shell}\n" for n, u, g, home, shell in users)
    return {
        "/passwd": passwd,
        "/group": f"root:x:0:\nsudo:x:27:{USER}\n{USER}:x:1000:\nnogroup:x:65534:\n",
        "/shadow": "".join(f"{n}:*:20000:0:99999:7:::\n" for n, *_ in users),
        "/hostname": f"{state.name}\n",
    }


def _write_devices(dev: Path, state: HostState) -> None:
    """Files in the place of device nodes; the few that must work are bound over theirs from the real /dev."""
    for name in ("pts", "shm"):
        (dev / name).mkdir(exist_ok=True)
    for name, target in (("fd", "/proc/self/fd"), ("ptmx", "pts/ptmx")):
        if not (dev / name).is_symlink():
            (dev / name).symlink_to(target)
    fake = {f"nvme{d.index}" for d in state.disks} | {f"nvme{d.index}n1" for d in state.disks}
    fake |= {f"nvidia{g.index}" for g in state.gpus} | {"nvidiactl", "nvidia-uvm"}
    fake |= {f"davinci{d.index}" for d in state.devices if state.vendor == "huawei"}
    for entry in list(dev.iterdir()):
        if entry.is_file() and entry.name.startswith("nv") and entry.name not in fake:
            entry.unlink()
    for name in (*REAL_DEVICES, *sorted(fake)):
        if not (dev / name).exists():
            (dev / name).touch()


def _write_ssh(directory: Path, state: HostState, keys: Keys, address: str, port: int) -> None:
    login = state.login
    ssh = directory / "ssh"
    (ssh / "authorized_keys").write_text(keys.authorized if login.key_accepted else "", encoding="ascii")
    key = ssh / "host_key"
    key.write_text(keys.other_private if login.host_key_changed else keys.host_private, encoding="ascii")
    key.chmod(0o600)
    (ssh / "banner").write_text(login.banner, encoding="utf-8")
    (directory / "etc_motd").write_text(login.motd, encoding="utf-8")
    lines = [
        f"Port {port}",
        f"ListenAddress {address}",
        f"HostKey {INSIDE}/ssh/host_key",
        f"AuthorizedKeysFile {INSIDE}/ssh/authorized_keys",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "PidFile none",
        "UseDNS no",
        "PrintMotd no",
        "PrintLastLog no",
        "LogLevel ERROR",
        "MaxStartups 200:30:400",
        f'SetEnv "LANG={login.locale}"',
        "Subsystem sftp internal-sftp",
    ]
    if login.banner:
        lines.append(f"Banner {INSIDE}/ssh/banner")
    if login.motd:
        # What a login prints to standard output before the command's own output.
        lines.append(f'ForceCommand cat {INSIDE}/etc_motd; eval "$SSH_ORIGINAL_COMMAND"')
    (ssh / "sshd_config").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _sync(base: Path, tree: Tree) -> None:
    """Make ``base`` hold exactly ``tree``."""
    wanted = {base / name.lstrip("/"): content for name, content in tree.items()}
    known = set(_everything(base))
    for stale in known - set(wanted):
        stale.unlink()
    made: set[Path] = set()
    for path, content in wanted.items():
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        _put(path, content, exists=path in known)
    _prune(base)


def _everything(base: Path) -> Iterable[Path]:
    for entry in base.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            yield from _everything(entry)
        else:
            yield entry


def _prune(base: Path) -> None:
    for entry in list(base.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            _prune(entry)
            if not any(entry.iterdir()):
                entry.rmdir()


def _put(path: Path, content: str | Link, *, exists: bool) -> None:
    if isinstance(content, Link):
        if exists:
            path.unlink()
        path.symlink_to(content.target)
        return
    if exists and path.is_symlink():
        path.unlink()
    path.write_text(content, encoding="utf-8")


def _write_tools(directory: Path, state: HostState, tools: Iterable[str]) -> None:
    bin_, out = directory / "bin", directory / "out"
    by_tool: dict[str, list[Recording]] = {name: [] for name in tools}
    for recording in emit.recordings(state):
        by_tool.setdefault(recording.tool, []).append(recording)
    scripts: dict[str, str] = {}
    outputs: dict[str, str] = {CSV_TABLE: csv_table(state), APPS_TABLE: apps_table(state)}
    for tool, found in by_tool.items():
        scripts[tool] = _shim(tool, found, outputs, state)
    scripts |= emit.programs(state)
    scripts["sudo"] = _SUDO if state.login.sudo else _NO_SUDO
    scripts["id"] = _ID
    scripts["tee"] = _TEE
    for fault in state.tool_faults:
        if fault.how == "missing":
            scripts.pop(fault.tool, None)
        elif fault.how == "slow":
            slow = f'#!/bin/sh\ncase "$*" in -L) sleep {SLOW_S} ;; esac\n'
            scripts[fault.tool] = scripts[fault.tool].replace("#!/bin/sh\n", slow, 1)
        elif fault.tool in scripts:
            scripts[fault.tool] = _misbehaving(fault)
    _sync(out, dict(outputs))
    for path in bin_.iterdir():
        if path.name not in scripts and path.name != "sshd":
            path.unlink()
    if not (bin_ / "sshd").is_symlink():
        (bin_ / "sshd").symlink_to(f"{INSIDE}/base/sbin/sshd")
    for name, text in scripts.items():
        path = bin_ / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def write_base_tools(directory: Path) -> None:
    """The one directory of plain tools that all hosts of a rack see as /usr/bin."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, target in _base_links().items():
        (directory / name).symlink_to(target)


def _base_links() -> dict[str, str]:
    """Plain tools of the machine that runs the rack, by the place where its directories appear inside."""
    links = {}
    for name in BASE_TOOLS:
        for real, inside in (("/usr/bin", "bin"), ("/bin", "bin"), ("/usr/sbin", "sbin")):
            if (Path(real) / name).exists():
                links[name] = f"{INSIDE}/base/{inside}/{name}"
                break
    return links


INLINE_BYTES = 2000
"""Shorter outputs stand in the shim itself: no second process."""


def _shim(tool: str, found: list[Recording], outputs: dict[str, str], state: HostState) -> str:
    lines = ["#!/bin/sh", f"d={INSIDE}/out", 'case "$*" in']
    for number, recording in enumerate(found):
        lines.append(f"{shlex.quote(recording.argv)})")
        if recording.root:
            lines.append(
                f'  [ "$RACK_ROOT" ] || {{ printf %s {shlex.quote(recording.refusal)} >&2; exit 1; }}'
            )
        if recording.stderr:
            lines.append(f"  printf %s {shlex.quote(recording.stderr)} >&2")
        if recording.stdout:
            if len(recording.stdout) <= INLINE_BYTES:
                lines.append(f"  printf %s {shlex.quote(recording.stdout)}")
                outputs[f"{tool}.{number}"] = recording.stdout
            else:
                outputs[f"{tool}.{number}"] = recording.stdout
                lines.append(f"  {'cat' if recording.rc else 'exec cat'} $d/{tool}.{number}")
        if recording.rc or not recording.stdout:
            lines.append(f"  exit {recording.rc}")
        lines.append("  ;;")
    if tool == "nvidia-smi" and not state.smi_error:
        for option, table in (("--query-gpu", CSV_TABLE), ("--query-compute-apps", APPS_TABLE)):
            lines += [
                f"{option}=*' --format=csv'*)",
                f"  {_QUERY.format(option=option, table=table)}",
                "  ;;",
            ]
        outputs["query.awk"] = _QUERY_AWK
    elif tool == "nvidia-smi":
        lines += [f"*) cat $d/nvidia-smi.0; exit {found[0].rc} ;;"]
    lines += [
        "*)",
        f'  printf "%s\\n" "{tool} $*" >>{INSIDE}/unknown.log',
        f'  echo "simulated host: no recording of: {tool} $*" >&2',
        f"  exit {UNKNOWN_RC}",
        "esac",
    ]
    return "\n".join(lines) + "\n"


_QUERY = 'f=${{1#{option}=}}; exec awk -F", " -v want="$f" -v how="$2" -f $d/query.awk $d/{table}'
_QUERY_AWK = r"""function how_apps() { return $0 ~ /process_name/ }
NR == 1 {
  n = split(want, wanted, ",")
  for (i = 1; i <= n; i++) {
    if (wanted[i] == "used_memory") wanted[i] = "used_gpu_memory"
    if (wanted[i] == "name" && how_apps()) wanted[i] = "process_name"
  }
  for (i = 1; i <= NF; i++) { name = $i; sub(/ \[.*/, "", name); column[name] = i }
  for (i = 1; i <= n; i++) if (!(wanted[i] in column)) {
    printf "Field \"%s\" is not a valid field to query.\n\n", wanted[i]; exit 2
  }
  if (how ~ /noheader/) next
}
{
  line = ""
  for (i = 1; i <= n; i++) {
    cell = $(column[wanted[i]])
    if (how ~ /nounits/ && NR > 1) sub(/ (W|MiB|%|MHz)$/, "", cell)
    line = line (i > 1 ? ", " : "") cell
  }
  print line
}
"""

_SUDO = """#!/bin/sh
while :; do
  case "$1" in
    -n|-E|-H) shift ;;
    -u) shift 2 ;;
    --) shift; break ;;
    -k|-K|-v) exit 0 ;;
    -l) echo "User ops may run the following commands: (ALL) NOPASSWD: ALL"; exit 0 ;;
    *) break ;;
  esac
done
RACK_ROOT=1; export RACK_ROOT
exec "$@"
"""
_NO_SUDO = """#!/bin/sh
echo "sudo: a password is required" >&2
exit 1
"""
_ID = f"""#!/bin/sh
case "$*" in
  -u) if [ "$RACK_ROOT" ] || [ "$HOME" = /root ]; then echo 0; else echo 1000; fi ;;
  *) exec {INSIDE}/base/bin/id "$@" ;;
esac
"""


_TEE = f"""#!/bin/sh
case "$*" in
  /sys/{THP})
    [ "$RACK_ROOT" ] || {{ echo "tee: $1: Permission denied" >&2; exit 1; }}
    read -r w
    case $w in
      always) echo "[always] madvise never" ;;
      madvise) echo "always [madvise] never" ;;
      never) echo "always madvise [never]" ;;
      *) echo "tee: $1: Invalid argument" >&2; exit 1 ;;
    esac >"$1"
    echo "$w" ;;
  *) exec {INSIDE}/base/bin/tee "$@" ;;
esac
"""
"""What the kernel makes of a word written to the switch of transparent huge pages."""


def _misbehaving(fault: ToolFault) -> str:
    body = {
        "hangs": "exec sleep 3600",
        "floods": f"exec head -c {FLOOD_BYTES} /dev/zero",
        "cuts": _CUT,
    }[fault.how]
    return f"#!/bin/sh\n{body}\n"


_CUT = f"""p=$PPID
while [ "$p" -gt 1 ]; do
  n= q=
  while read -r k v _; do
    case $k in Name:) n=$v ;; PPid:) q=$v ;; esac
  done <{INSIDE}/base/proc/$p/status
  if [ "$n" = sshd ] || [ "$n" = sshd-session ]; then kill -9 "$p"; exit 1; fi
  p=$q
done
exit 1"""


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
