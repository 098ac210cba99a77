"""One POSIX-sh script per host.

The script runs every command once under a deadline, keeps each output in a capped file of its one
temporary directory, and sends frames: a header, the byte counts, then exactly those bytes. The last line
says how many commands were run, so a transfer that was cut is never taken for a complete one.

    \\n@rw NONCE frame COMMANDS FILES
    INDEX STATE RC MS              one line a command
    BYTES INDEX.o                  one line a non-empty file (`.o` stdout, `.e` stderr), as wc(1) prints it
    …bytes…
    \\n@rw NONCE ok
    …more frames…
    \\n@rw NONCE end COMMANDS

The nonce is new for every collection: no output can be mistaken for a frame, and whatever a login prints
before the first frame is passed over.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.collect_shell import EPILOGUE, LIBRARY, PROLOGUE
from checks.registry import Check, Command, expectation
from rackwright.plan.base import NotApplicable

VARIABLES: Mapping[str, str] = {
    "RW_MODEL_DIR": "storage.model_dir",
    "RW_TOOLS": "tools",
    "RW_NTP": "os.ntp",
    "RW_NAMES": "os.names",
    "RW_DIAG_LEVEL": "gpu.diag_level",
    "RW_GPUS": "gpu.count",
    "RW_NETDEVS": "rdma.ports",
    "RW_GPU_VENDOR": "gpu.vendor",
}
"""Variables that a command may declare, and the expectation each is read from."""

_QUICK_S = 20
"""Commands with a deadline up to this share one `timeout`: one for each would double their cost."""

_TOGETHER_S = 5
"""Seconds for all quick commands of a host; those that did not end run again, under their own deadlines."""

_SLOW_TOOLS = frozenset(("ipmitool",))
"""Tools of which several calls would not fit one deadline: a board's controller is asked sensor by sensor."""

_READERS = frozenset(
    """cat head tail grep egrep sed awk cut sort ls find readlink stat uname hostname id getconf nproc sysctl
    df mount lsmod env date test tr wc uptime free ps dirname basename xargs printenv""".split()  # noqa: SIM905
)
"""Tools that read files. If one of them hangs, the next may still answer; not so with a device's tool."""

_SHELL_WORDS = frozenset(
    """if then else elif fi for while until do done case esac { } ! ( [ . : alias bg break cd command
    continue eval exec exit export false fc fg getopts hash jobs kill local newgrp pwd read readonly return
    set shift test times trap true type ulimit umask unalias unset wait echo printf""".split()  # noqa: SIM905
)
_PLAIN = re.compile(r"^[a-z][\w.+-]*( +[\w./:,@%+*?=-]+)*$")
_TOOL = re.compile(r"^\s*([a-z][\w.+-]*)(\s|$)")


def commands_of(checks: Iterable[Check], vendor: str = "") -> tuple[Command, ...]:
    """Every command once, those with short deadlines first: a tool that hangs delays little else.

    ``vendor``: of the host's accelerators; tools of another vendor are not asked there.
    """
    unique: dict[str, Command] = {}
    for item in checks:
        for command in item.commands:
            if not vendor or command.vendor in ("", vendor):
                unique.setdefault(command.key, command)
    return tuple(sorted(unique.values(), key=lambda c: (c.timeout_s, tool_of(c) not in _READERS)))


def tool_of(command: Command) -> str:
    """The program a command starts with, or "" where it starts with shell syntax."""
    found = _TOOL.match(command.shell)
    return found[1] if found and found[1] not in _SHELL_WORDS else ""


def variables_for(commands: Iterable[Command], expected: Any) -> dict[str, str]:
    """Values of the variables that ``commands`` declare; one the plan does not give is empty.

    Raises:
        ValueError: a command declares a variable that is in no table.
    """
    values = {}
    for command in commands:
        for name in command.variables:
            if name not in VARIABLES:
                raise ValueError(f"command {command.key} declares ${name}; known are {', '.join(VARIABLES)}")
            values[name] = _as_text(expectation(expected, VARIABLES[name]))
    return dict(sorted(values.items()))


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, NotApplicable):
        return ""
    if isinstance(value, tuple):
        return " ".join(str(getattr(item, "netdev", item)) for item in value)
    return str(value)


@dataclass(frozen=True)
class Script:
    """The collector for one set of commands. ``text`` gives what ``sh -s`` reads from its stdin."""

    commands: tuple[Command, ...]
    body: str

    def text(self, nonce: str, deadline_s: float) -> str:
        return f"{{\nrw_n={shlex.quote(nonce)}\nrw_allowed={max(int(deadline_s), 1)}\n{self.body}}}\n"

    @staticmethod
    def new_nonce() -> str:
        return secrets.token_hex(8)


def build(commands: Sequence[Command], variables: Mapping[str, str]) -> Script:
    """The collector for ``commands``. Values reach it only here, each quoted as one word.

    Quick commands run first, then those of root in one root shell, then the slow ones of the login: a device
    that hangs its tool keeps nothing else from being read.
    """
    values = [f"{name}={shlex.quote(value)}; export {name}" for name, value in variables.items()]
    tables = {
        root: [*values, *(_row(i, c) for i, c in enumerate(commands) if c.root is root)]
        for root in (False, True)
    }
    lines = [
        f"rw_lib={shlex.quote(LIBRARY)}",
        f"rw_table={shlex.quote(chr(10).join(tables[False]))}",
        'eval "$rw_lib"',
        'eval "$rw_table"',
        PROLOGUE,
        _call("rw_groups", _quick(commands, root=False)),
    ]
    if any(command.root for command in commands):
        lines.append(f"rw_roots={shlex.quote(chr(10).join(tables[True]))}")
        lines.append(_call("rw_privileged", _quick(commands, root=True) + _slow(commands, root=True)))
    lines.append(_call("rw_groups", _slow(commands, root=False)))
    lines.append(EPILOGUE)
    return Script(tuple(commands), "\n".join(lines))


def _row(index: int, command: Command) -> str:
    """A command as the script knows it: deadline, cap, tool, device, how it is run; and its text."""
    tool = tool_of(command)
    device = tool if tool and tool not in _READERS else "-"
    blocks = max(command.cap_bytes // 512, 1)
    how = "exec" if tool and _PLAIN.match(command.shell) else "eval"
    parameters = f"{command.timeout_s} {blocks} {tool or '-'} {device} {how}"
    return f"rw_p{index}={shlex.quote(parameters)} rw_t{index}={shlex.quote(command.shell)}"


def run_order(commands: Sequence[Command]) -> tuple[Command, ...]:
    """``commands`` as the collector of :func:`build` starts them on a login that is not root."""
    groups = [
        *_quick(commands, root=False), *_quick(commands, root=True),
        *_slow(commands, root=True), *_slow(commands, root=False),
    ]  # fmt: skip
    return tuple(commands[index] for _, *indexes in groups for index in indexes)


def _quick(commands: Sequence[Command], *, root: bool) -> list[list[int]]:
    """The quick commands as one group: its deadline, then their numbers."""
    quick = [i for i, c in enumerate(commands) if c.root is root and c.timeout_s <= _QUICK_S]
    return [[min(_TOGETHER_S, *(commands[i].timeout_s for i in quick)), *quick]] if quick else []


def _slow(commands: Sequence[Command], *, root: bool) -> list[list[int]]:
    """The others, a device's together, each group as its deadline and their numbers."""
    parts: dict[str, list[int]] = {}
    for index, command in enumerate(commands):
        if command.root is root and command.timeout_s > _QUICK_S:
            tool = tool_of(command)
            alone = not tool or tool in _SLOW_TOOLS | _READERS
            parts.setdefault(str(index) if alone else tool, []).append(index)
    return [[min(commands[i].timeout_s for i in indexes), *indexes] for indexes in parts.values()]


def _call(function: str, groups: Iterable[Iterable[int]]) -> str:
    return " ".join([function, *(f"- {' '.join(map(str, group))}" for group in groups)])
