"""Collection only reads: every command of every check is on a list of what may be run, with its arguments."""

from __future__ import annotations

import re

import pytest

from checks import registry
from checks.registry import Command

_SHELL = frozenset(
    "[ case cd command continue done echo esac exit fi for read set wait".split()  # noqa: SIM905
)
_READERS = frozenset(
    """awk cat df grep head id ldconfig lsblk lscpu lspci ps readlink sort uname
    ibv_devinfo""".split()  # noqa: SIM905
)
_ONLY = {
    "nvidia-smi": r"-L|-q -x|topo (-m|-p2p r)|nvlink (-s|-e)|--query-(gpu|compute-apps)=[\w.,]+ --format=csv",
    "ipmitool": r"dcmi power reading|sdr list full|sdr type Q|sel elist last \d+",
    "systemctl": r"show .*-p [\w,]+",
    "timedatectl": r"show|timesync-status|show-timesync( -p \w+)*",
    "chronyc": r"(-c )?-[nN] (tracking|sources)|-c -n sources|-[nN] sources",
    "journalctl": r"-k .*",
    "dmesg": r"(-T)?",
    "ip": r"-d link show|route show default",
    "timeout": r"\d+ (getent ahosts Q|nvidia-imex-ctl -N)",
    "dpkg-query": r"-W -f Q( Q)*",
    "apt-config": r"dump [\w:-]+",
    "containerd": r"config dump",
    "rdma": r"link show",
    "mlnx_qos": r"-i Q",
    "nvme": r"smart-log -o json Q|list .*",
    "sed": r"(-n )?Q",
    "chroot": r"Q nv-fabricmanager --version",
    "nv-fabricmanager": r"--version",
    "amd-smi": r"(bad-pages|static|metric|topology) --json",
    "rocm-smi": r"-a --json",
    "npu-smi": r"info( -m| -t \w+ -i Q -c Q)?",
    "cnmon": r"info",
    "mthreads-gmi": r"",
    "sw_vers": r"",
    "sysctl": r"(-n )?[\w.]+( [\w.]+)*",
    "system_profiler": r"-json( SP\w+)+",
    "pmset": r"-g",
}
"""Tools that could also write: only so."""
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\$]|\$(?!\())*\"")
_TO_NOWHERE = re.compile(r"[12]?>\s*/dev/null|2>&1|<\s*\S+")


def simple_commands(text: str) -> list[list[str]]:
    """The words of every simple command in a command's shell text; quoted words become ``Q``."""
    text = _TO_NOWHERE.sub(" ", _QUOTED.sub("Q", text))
    parts = re.split(r"[;|&\n(){}]|\$\(|(?<![\w-])(?:do|then|else|if|while)\s", text)
    found = []
    for part in parts:
        words = [w for w in part.split() if w != "!"]
        while words and re.match(r"\w+=", words[0]):
            words = words[1:]
        found += [words] if words and not re.match(r"[^\w\[/.]|\w+[#%]", words[0]) else []
    return found


def unlisted(command: Command) -> list[str]:
    bare = _TO_NOWHERE.sub(" ", _QUOTED.sub("Q", command.shell))
    bad = [f"writes a file: {command.shell}"] if ">" in bare else []
    for words in simple_commands(command.shell):
        tool, arguments = words[0], " ".join(words[1:])
        listed = tool in _SHELL | _READERS or tool in ("Q", "n", "k", "u")
        if tool in _ONLY:
            listed = re.fullmatch(_ONLY[tool], arguments) is not None
        bad += [] if listed else [" ".join(words)]
    return bad


COMMANDS = {c.key: c for item in registry.load().values() if item.tier == 0 for c in item.commands}


@pytest.mark.parametrize("key", COMMANDS)
def test_a_command_only_reads(key: str) -> None:
    assert unlisted(COMMANDS[key]) == []


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-smi -pm 1", "echo never >/sys/kernel/mm/transparent_hugepage/enabled", "rm -rf /tmp/x",
        "cat /proc/x; systemctl restart opensm", "cat x | tee /etc/x", "ipmitool sel clear",
        'for d in a; do nvme format "$d"; done', "ip link set dev eth0 mtu 9000", "sed -i s/a/b/ /etc/fstab",
        "[ -e x ] && chroot Q sh", "x=$(reboot)", "sort x > y",
    ],
)  # fmt: skip
def test_what_writes_is_noticed(text: str) -> None:
    assert unlisted(Command("x", text)) != []
