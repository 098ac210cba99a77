"""One POSIX-sh script per host, and the reading of what it sends back.

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
from dataclasses import dataclass, field
from typing import Any, Literal

from checks.capture import CommandOutput
from checks.hidden import without_secrets
from checks.registry import Check, Command, expectation
from rackwright.plan.base import NotApplicable

State = Literal["done", "timeout", "capped", "denied", "missing", "incomplete", "skipped"]

VARIABLES: Mapping[str, str] = {
    "RW_MODEL_DIR": "storage.model_dir",
    "RW_TOOLS": "tools",
    "RW_NTP": "os.ntp",
    "RW_NETDEVS": "rdma.ports",
    "RW_GPU_VENDOR": "gpu.vendor",
}
"""Variables that a command may declare, and the expectation each is read from."""

_BATCH = 12
"""Results that are sent together; a frame costs two processes on the host. What has come in is sent before a
slow tool is asked for the first time, since that is when a sick device hangs."""

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


def commands_of(checks: Iterable[Check]) -> tuple[Command, ...]:
    """Every command once, those with short deadlines first: a tool that hangs delays little else."""
    unique: dict[str, Command] = {}
    for item in checks:
        for command in item.commands:
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
        f"rw_lib={shlex.quote(_LIBRARY)}",
        f"rw_table={shlex.quote(chr(10).join(tables[False]))}",
        'eval "$rw_lib"',
        'eval "$rw_table"',
        _PROLOGUE,
        _call("rw_groups", _quick(commands, root=False)),
    ]
    if any(command.root for command in commands):
        lines.append(f"rw_roots={shlex.quote(chr(10).join(tables[True]))}")
        lines.append(_call("rw_privileged", _quick(commands, root=True) + _slow(commands, root=True)))
    lines.append(_call("rw_groups", _slow(commands, root=False)))
    lines.append(_EPILOGUE)
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


# What the login's shell, root's shell and the shells that run the quick commands share. GNU timeout and the
# perl stand-in end a command with all its children; busybox's ends the command only, so it comes third. The
# last resort is a shell that watches a shell. A shell stands between timeout and a command because timeout
# waits for its child, and one that hangs in a driver cannot be killed: the shell can.
_LIBRARY = r"""LC_ALL=C; export LC_ALL
umask 077
ulimit -c 0 2>/dev/null
rw_perl='$l=shift; $p=fork; if(!$p){setpgrp; exec @ARGV; exit 127}
$SIG{ALRM}=sub{kill "TERM",-$p; for(1..50){last if waitpid($p,1)>0; select undef,undef,undef,.1}
kill "KILL",-$p; exit 124};
alarm $l; waitpid $p,0; exit($?&127 ? 128+($?&127) : $?>>8)'
rw_hold="trap 'exit 143' TERM; "
if [ -r /proc/uptime ]; then
  rw_now() { read -r rw_u rw_x </proc/uptime; rw_u=${rw_u%.*}${rw_u#*.}; }
else
  rw_now() { rw_u=$(date +%s)00; }
fi
rw_say() { printf '\n@rw %s %s\n' "$rw_n" "$1"; }
rw_watch() {
  rw_l=$1; shift
  "$@" & rw_p=$!
  (
    trap 'kill $rw_s; exit' TERM
    sleep "$rw_l" & rw_s=$!
    wait $rw_s
    kill -TERM $rw_p; sleep 5; kill -KILL $rw_p
  ) >/dev/null 2>&1 & rw_w=$!
  wait $rw_p; rw_rc=$?
  kill $rw_w 2>/dev/null
  exit $rw_rc
}
rw_run() {
  case $rw_how in
    timeout | busybox) exec timeout -k ${rw_grace:-5} "$@" ;;
    perl) exec perl -e "$rw_perl" "$@" ;;
    *) rw_watch "$@" ;;
  esac
}
rw_add() {
  [ $rw_c -gt 0 ] || rw_first=$rw_u
  rw_b="$rw_b
$*"
  rw_c=$((rw_c + 1)) rw_total=$((rw_total + 1))
  if [ -s "$1.o" ]; then rw_f="$rw_f $1.o" rw_m=$((rw_m + 1)); fi
  if [ -s "$1.e" ]; then rw_f="$rw_f $1.e" rw_m=$((rw_m + 1)); fi
}
rw_flush() {
  [ $rw_c -gt 0 ] || return 0
  printf '%04096d' 0 >probe 2>/dev/null
  if [ -s probe ]; then : >probe; else rw_say full; fi
  printf '\n@rw %s frame %s %s%s\n' "$rw_n" $rw_c $rw_m "$rw_b"
  if [ $rw_m -gt 0 ]; then
    wc -c $rw_f
    cat $rw_f
    for rw_x in $rw_f; do : >"$rw_x"; done
  fi
  rw_say ok
  rw_c=0 rw_m=0 rw_b= rw_f=
}
rw_look() {
  rw_k=$1
  eval "set -- \$rw_p$1; rw_text=\$rw_t$1"
  rw_l=$1 rw_z=$2 rw_t=$3 rw_g=$4 rw_q=$5
}
rw_lacks() { [ "$rw_t" != - ] && ! command -v "$rw_t" >/dev/null 2>&1; }
rw_hang() { [ "$rw_g" = - ] || rw_hung="$rw_hung $rw_g"; }
rw_one() {
  rw_look $1
  rw_now; rw_s0=$rw_u
  rw_new=0
  case " - $rw_asked " in *" $rw_g "*) ;; *) rw_new=1 rw_asked="$rw_asked $rw_g" ;; esac
  if [ $rw_new = 1 ] || [ $rw_c -ge %BATCH% ] || [ $((rw_s0 - rw_first)) -ge 50 ]; then rw_flush; fi
  rw_left=$(((rw_end - rw_s0) / 100))
  if [ $rw_left -lt 1 ]; then rw_add $rw_k late - 0; return; fi
  if [ $rw_l -gt $rw_left ]; then rw_l=$rw_left; fi
  case " $rw_hung " in *" $rw_g "*) rw_add $rw_k hung - 0; return ;; esac
  if rw_lacks; then rw_add $rw_k missing - 0; return; fi
  (
    ulimit -f $rw_z 2>/dev/null
    case $rw_how.$rw_q in
      timeout.* | perl.*) rw_run $rw_l sh -c "$rw_hold$rw_text" ;;
      *.exec) eval "rw_run $rw_l $rw_text" ;;
      *) rw_run $rw_l sh -c "$rw_text" ;;
    esac
  ) </dev/null >"$rw_k.o" 2>"$rw_k.e"
  rw_rc=$?
  rw_now; rw_ms=$(((rw_u - rw_s0) * 10))
  rw_v=done
  case $rw_rc in
    124 | 137 | 143)
      if [ $((rw_ms + 60)) -ge $((rw_l * 1000)) ]; then
        rw_v=timeout
        rw_hang
      fi ;;
  esac
  rw_add $rw_k $rw_v $rw_rc $rw_ms
}
rw_members() {
  trap 'exit 143' TERM
  rw_now
  for rw_i in "$@"; do
    rw_look $rw_i
    case " $rw_hung " in *" $rw_g "*) echo "$rw_k hung - 0 $rw_u"; continue ;; esac
    if rw_lacks; then echo "$rw_k missing - 0 $rw_u"; continue; fi
    rw_s0=$rw_u
    [ $rw_q = eval ] || rw_text="exec $rw_text"
    ( ulimit -f $rw_z 2>/dev/null; eval "$rw_text" ) </dev/null >"$rw_k.o" 2>"$rw_k.e"
    rw_rc=$?
    rw_now
    echo "$rw_k done $rw_rc $(((rw_u - rw_s0) * 10)) $rw_u"
  done
}
rw_again() {
  rw_look $1
  if [ -n "${2:-}" ] && { [ $(($2 + 60)) -ge $((rw_l * 1000)) ] || [ $rw_u -gt $((rw_end - 100)) ]; }; then
    rw_add $rw_k timeout 124 $2
    rw_hang
  else
    rw_one $1
  fi
}
rw_group() {
  rw_limit=$1; shift
  case $# in
    0) return ;;
    1) rw_one $1; return ;;
  esac
  rw_now; rw_s0=$rw_u
  rw_left=$(((rw_end - rw_u) / 100))
  if [ $rw_limit -gt $rw_left ]; then rw_limit=$rw_left; fi
  rw_done=' ' rw_late=
  case $rw_how in
    timeout | perl)
      if [ $rw_limit -gt 0 ]; then
        rw_flush
        (
          rw_grace=1
          rw_run $rw_limit sh -c 'eval "$1"; eval "$2"; rw_hung=$3; shift 3; rw_members "$@"' \
            rw "$rw_lib" "$rw_table" "$rw_hung" "$@"
        ) </dev/null >group 2>/dev/null
        rw_begun=$rw_s0
        while read -r rw_k rw_v rw_rc rw_ms rw_x; do
          rw_add $rw_k $rw_v $rw_rc $rw_ms
          rw_done="$rw_done$rw_k " rw_begun=$rw_x
        done <group
        rw_now; rw_late=$(((rw_u - rw_begun) * 10))
      fi ;;
  esac
  for rw_i in "$@"; do
    case $rw_done in *" $rw_i "*) ;; *) rw_again $rw_i $rw_late; rw_late= ;; esac
  done
  rw_flush
}
rw_start() {
  rw_total=0 rw_c=0 rw_m=0 rw_b= rw_f= rw_asked=
  rw_now; rw_first=$rw_u
}
rw_groups() {
  while [ $# -gt 0 ]; do
    rw_set=; shift
    while [ "${1:--}" != - ]; do rw_set="$rw_set $1"; shift; done
    rw_group $rw_set
  done
}
rw_as_root() {
  PATH=$2 rw_n=$3 rw_end=$4 rw_how=$5 rw_hung=$6 rw_table=$7; export PATH
  cd "$1" || exit 1
  shift 7
  trap 'exit 1' HUP INT TERM PIPE
  echo "@rw begin" >&2
  eval "$rw_table"
  rw_start
  rw_groups "$@"
  rw_flush
  echo "@rw end $rw_total $rw_hung" >&2
}
rw_privileged() {
  rw_uid=
  if [ -r /proc/self/status ]; then
    while read -r rw_k rw_x rw_v; do
      case $rw_k in Uid:) rw_uid=${rw_v%%[!0-9]*} ;; esac
    done </proc/self/status
  fi
  if [ "${rw_uid:=$(id -u)}" = 0 ]; then
    rw_own=$rw_table rw_table=$rw_roots
    eval "$rw_table"
    rw_groups "$@"
    rw_table=$rw_own
    return
  fi
  rw_flush
  sudo -n sh -c 'rw_lib=$1; shift; eval "$rw_lib"; rw_as_root "$@"' rw "$rw_lib" "$rw_d" "$PATH" \
    "$rw_n" "$rw_end" "$rw_how" "$rw_hung" "$rw_roots" "$@" </dev/null 2>root
  rw_begun=0
  while read -r rw_x rw_v rw_k rw_y; do
    case "$rw_x $rw_v" in
      "@rw begin") rw_begun=1 ;;
      "@rw end") rw_total=$((rw_total + rw_k)) rw_hung=$rw_y ;;
    esac
  done <root
  [ $rw_begun = 0 ] || return 0
  while [ $# -gt 0 ]; do
    shift 2
    while [ "${1:--}" != - ]; do rw_add $1 denied - 0; shift; done
  done
}
""".replace("%BATCH%", str(_BATCH))

_PROLOGUE = r"""
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
rw_d=
for rw_t in /dev/shm "${TMPDIR:-/tmp}" /tmp; do
  if [ -d "$rw_t" ] && [ -w "$rw_t" ]; then
    rw_d=$(mktemp -d "$rw_t/rackwright.XXXXXX" 2>/dev/null) && break
    rw_d=
  fi
done
if [ -z "$rw_d" ]; then
  rw_say "fatal no temporary directory could be made in /dev/shm, ${TMPDIR:-/tmp} or /tmp"
  exit 3
fi
trap 'cd /; rm -rf "$rw_d"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cd "$rw_d" || exit 3
if timeout --foreground -k 1 5 true 2>/dev/null; then rw_how=timeout
elif perl -e 1 2>/dev/null; then rw_how=perl
elif timeout -k 1 5 true 2>/dev/null; then rw_how=busybox
else rw_how=sh
fi
rw_hung=
rw_start; rw_end=$((rw_u + rw_allowed * 100))"""

_EPILOGUE = r"""rw_flush
rw_say "end $rw_total"
exit 0
"""

_NOTES = {
    "late": "not started: the time allowed for the host was used up",
    "hung": "not started: {tool} did not answer an earlier call",
    "full": "not kept whole: no space is left where the host keeps outputs (/dev/shm or /tmp)",
}


_KEPT_BYTES = 64_000
"""What is kept of an output beyond its cap: nobody judges it, it only shows what the tool was doing."""


@dataclass
class Reader:
    """Reads frames as they arrive; what is complete stays complete whatever happens next."""

    script: Script
    nonce: str
    outputs: dict[str, CommandOutput] = field(default_factory=dict)
    ended: bool = False
    fatal: str = ""
    _pending: bytearray = field(default_factory=bytearray)
    _full: bool = False

    def __post_init__(self) -> None:
        self._mark = f"\n@rw {self.nonce} ".encode()

    def feed(self, data: bytes) -> None:
        self._pending += data
        while not self.ended and self._step():
            pass

    def finish(self) -> dict[str, CommandOutput]:
        """All outputs: a command whose last byte did not come is ``incomplete``."""
        for command in self.script.commands:
            if command.key not in self.outputs:
                self.outputs[command.key] = CommandOutput(
                    key=command.key, command=command.shell, state="incomplete"
                )
        return {c.key: self.outputs[c.key] for c in self.script.commands}

    @property
    def missing(self) -> int:
        return len(self.script.commands) - len(self.outputs)

    def _step(self) -> bool:
        start = self._pending.find(self._mark)
        if start < 0:
            del self._pending[: max(len(self._pending) - len(self._mark), 0)]
            return False
        if start:
            del self._pending[:start]
        line_end = self._pending.find(b"\n", len(self._mark))
        if line_end < 0:
            return False
        words = self._pending[len(self._mark) : line_end].decode("utf-8", "replace").split()
        kind = words[0] if words else ""
        if kind == "end":
            self.ended = int(words[1]) == len(self.script.commands) == len(self.outputs)
            return False
        if kind == "fatal":
            self.fatal = " ".join(words[1:])
            return False
        if kind != "frame":
            self._full = kind == "full"
            del self._pending[: line_end + 1]
            return True
        try:
            return self._frame(int(words[1]), int(words[2]), line_end + 1)
        except (ValueError, IndexError):  # a header nobody would send: a tool of the host is not what it says
            del self._pending[: line_end + 1]
            return True

    def _frame(self, commands: int, files: int, at: int) -> bool:
        count = commands + files + (files > 1)
        lines = []
        for _ in range(count):
            end = self._pending.find(b"\n", at)
            if end < 0:
                return False
            lines.append(self._pending[at:end].decode("ascii", "replace").split())
            at = end + 1
        sizes = {words[1]: int(words[0]) for words in lines[commands : commands + files]}
        total = sum(sizes.values())
        following = bytes(self._pending[at + total : at + total + len(self._mark)])
        if len(following) < len(self._mark):
            return False
        if following != self._mark:
            # A stray process grew a file after it was counted: nothing of this frame can be trusted.
            del self._pending[:at]
            return True
        contents = {}
        for name, size in sizes.items():
            contents[name] = bytes(self._pending[at : at + size])
            at += size
        for words in lines[:commands]:
            self._keep(words, contents)
        del self._pending[:at]
        return True

    def _keep(self, words: list[str], contents: Mapping[str, bytes]) -> None:
        index, word, rc, ms = words
        command = self.script.commands[int(index)]
        out, err = contents.get(f"{index}.o", b""), contents.get(f"{index}.e", b"")
        word = "full" if word == "done" and self._full else word
        note = _NOTES.get(word, "").format(tool=tool_of(command))
        state = _state(word, rc, max(len(out), len(err)), command)
        kept = min(command.cap_bytes, _KEPT_BYTES) if state == "capped" else command.cap_bytes
        self.outputs[command.key] = CommandOutput(
            key=command.key,
            command=command.shell,
            state=state,
            rc=int(rc) if rc != "-" else None,
            seconds=int(ms) / 1000,
            stdout=without_secrets(out[:kept].decode("utf-8", "replace")),
            stderr=note or without_secrets(err[:kept].decode("utf-8", "replace")),
        )


def _state(word: str, rc: str, size: int, command: Command) -> State:
    if word in ("late", "hung", "full"):
        return "skipped"
    if word in ("timeout", "denied", "missing"):
        return word  # type: ignore[return-value]
    if size >= max(command.cap_bytes // 512, 1) * 512:
        return "capped"
    return "missing" if rc == "127" else "done"
