"""The inventory: an INI file as Ansible users write it, naming the hosts and the plan they must match.

    [h200]
    gpu-[01:16]
    gpu-17 ansible_host=10.0.0.17 ansible_user=ops

    [all:vars]
    plan=plan.yaml

``load_inventory`` reads it, ``bind`` puts each host into its pool and rack of the plan.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rackwright.errors import CannotRun, InputErrors, Problem, listing, nearest
from rackwright.plan import Plan, Pool
from rackwright.yamlio import read_text

_SUFFIXES = ("children", "vars")
_NAME = re.compile(r"^(?:[A-Za-z0-9][\w.-]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+)$", re.ASCII)
_GROUP = re.compile(r"^[^\s\[\]:='\"]+$")
_KEY = re.compile(r"^[\w.-]+$")
_ENDPOINT = re.compile(r"[A-Za-z0-9._:%@][A-Za-z0-9._:%@-]*")
_JUMP = re.compile(r"[A-Za-z0-9._:%@/\[][A-Za-z0-9._:%@/\[\]-]*")
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_WRITE = "write one: rackwright inventory plan.yaml -o hosts.ini"


@dataclass(frozen=True)
class Host:
    """One host. ``port``, ``user`` and ``key_file`` are None where the ssh configuration decides.

    ``groups`` are all groups it belongs to, through children too; ``pool`` and ``rack`` are set by ``bind``.
    """

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    key_file: str | None = None
    known_hosts: str | None = None
    proxy_jump: str | None = None
    vars: Mapping[str, str] = field(default_factory=dict, repr=False)
    groups: tuple[str, ...] = ()
    pool: str = ""
    rack: str = ""
    line: int = 0


@dataclass(frozen=True)
class Inventory:
    """The hosts in the order of the file, and the plan it names."""

    hosts: tuple[Host, ...]
    plan_path: Path
    source: str = ""

    def host(self, name: str) -> Host:
        return next(h for h in self.hosts if h.name == name)


@dataclass(frozen=True)
class Bound:
    """An inventory whose hosts stand in pools and racks; ``notes`` say what the plan has and it has not."""

    inventory: Inventory
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


# --- reading -------------------------------------------------------------------------------------------


@dataclass
class _Group:
    """``line`` is 0 for a group that is only mentioned, by its vars or as a child."""

    name: str
    line: int
    vars_line: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    vars: dict[str, str] = field(default_factory=dict)


@dataclass
class _HostLine:
    line: int
    vars: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass
class _File:
    """What stands in the file, before it means anything."""

    source: str
    groups: dict[str, _Group] = field(default_factory=dict)
    hosts: dict[str, _HostLine] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, line: int, rule: str, found: str, why: str, next_: str = "mend that line") -> None:
        where = f"{self.source}:{line}" if line else self.source
        self.problems.append(Problem(where, rule, found, why, next_))

    def group(self, name: str, line: int) -> _Group:
        return self.groups.setdefault(name, _Group(name, line))


def load_inventory(path: Path, *, plan: Path | None = None) -> Inventory:
    """Read an inventory. ``plan`` overrides the plan that it names.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: everything that is wrong in it, at once.
    """
    file = _read(read_text(path, _WRITE), str(path))
    _check_children(file)
    parents = _ancestors(file)
    hosts = tuple(_host(file, name, parents) for name in file.hosts)
    if not hosts and not file.problems:
        file.problem(0, "must name at least one host", "none", "there is nothing to check", _WRITE)
    plan_path = plan or _plan_path(file, path, parents)
    if file.problems:
        raise InputErrors(sorted(file.problems, key=_line_of))
    return Inventory(hosts, plan_path, str(path))


def _line_of(problem: Problem) -> int:
    tail = problem.where.rpartition(":")[2]
    return int(tail) if _decimal(tail) else 0


def _read(text: str, source: str) -> _File:
    file = _File(source)
    group, kind = file.group("ungrouped", 0), ""
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and (header := re.match(r"^\[([^\]]*)\]\s*([#;].*)?$", line)):
            group, kind = _section(file, header[1].strip(), number)
        elif kind == "skip":
            continue
        elif "{{" in line:
            file.problem(
                number,
                "values are plain text",
                _line_shown(line, host=kind != "vars"),
                "templates are evaluated by Ansible only",
                "write the value itself",
            )
        elif kind == "children":
            _child_line(file, group, line, number)
        elif kind == "vars":
            _vars_line(file, group, line, number)
        else:
            _host_line(file, group, line, number)
    return file


def _section(file: _File, text: str, number: int) -> tuple[_Group, str]:
    name, colon, suffix = text.partition(":")
    if colon and suffix not in _SUFFIXES:
        file.problem(
            number,
            "a section is [group], [group:children] or [group:vars]" + nearest(suffix, _SUFFIXES),
            f"[{_clipped(text)}]",
            "its lines could not be read",
        )
        return file.group("ungrouped", 0), "skip"
    if not _GROUP.match(name):
        file.problem(
            number,
            "a group has a name without blanks",
            f"[{_clipped(text)}]",
            "nothing could refer to the group",
        )
        return file.group("ungrouped", 0), "skip"
    group = file.group(name, 0)
    if suffix == "vars":
        group.vars_line = group.vars_line or number
    else:
        group.line = group.line or number
    return group, suffix


def _child_line(file: _File, group: _Group, line: str, number: int) -> None:
    name = _without_comment(line)
    if not _GROUP.match(name):
        file.problem(
            number,
            "a line under :children is one group name",
            _line_shown(line, host=False),
            "the group would stay empty",
        )
        return
    group.children.setdefault(name, number)


def _vars_line(file: _File, group: _Group, line: str, number: int) -> None:
    key, equals, value = line.partition("=")
    if not equals or not _KEY.match(key.strip()):
        file.problem(
            number,
            "a line under :vars is key=value",
            _line_shown(line, host=False),
            "the value would be lost",
        )
        return
    text = _value(file, value.strip(), number, key.strip())
    if text is None:
        return
    name = key.strip()
    if group.vars.get(name, text) != text:
        file.problem(
            number,
            f"{name} must have one value in [{group.name}:vars]",
            _pair_shown(name, text) + f", after a line with {name} above it",
            "it would be unclear which one holds",
            "remove one",
        )
    group.vars[name] = text


def _value(file: _File, text: str, number: int, key: str) -> str | None:
    """A value without its quotes and comment; None (and a problem) where a quote is not closed."""
    if text[:1] in ("'", '"'):
        closed = re.match(r"""^("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*([#;].*)?$""", text)
        if not closed:
            _unterminated(file, f'"{key}=…"', number)
            return None
        try:
            return str(ast.literal_eval(closed[1]))
        except (SyntaxError, ValueError):
            return closed[1][1:-1]
    return _without_comment(text)


def _unterminated(file: _File, shown: str, number: int) -> None:
    file.problem(
        number,
        "a quoted value must end with its quote",
        shown,
        "the rest of the line is part of it",
    )


_SHOWN = frozenset(
    ("ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user",
     "ansible_ssh_user", "ansible_connection", "plan", "pool", "rack")
)  # fmt: skip
"""Keys whose values may stand in a message. Any other value may be a password, whatever its key is called."""

_HEAD = re.compile(r"""^([^\s=:'"{]+)\s*([=:]?)""")
_FIRST_KEY = re.compile(r"^[^\s=:'\"{]+\s+([a-z][a-z0-9_]*)=(?=[^=\s])")


def _line_shown(line: str, *, host: bool) -> str:
    """What of a line may stand in a message: a host's name and the key after it, or a key; never a value."""
    head = _HEAD.match(line)
    if not head or (head[0] == line and not host):
        return "a word (not shown)"
    if host and (key := _FIRST_KEY.match(line)):
        return f'"{head[1]} {key[1]}=…"'
    return f'"{head[1]}{head[2] or " "}…"'


def _pair_shown(key: str, value: str) -> str:
    return f'"{key}={_clipped(value) if key in _SHOWN else "…"}"'


def _clipped(value: str) -> str:
    """A value that may be shown, up to where another key, or a quote, begins in it."""
    return re.sub(r"""(?:\s+[\w.-]+\s*[=:]|[='"]).*""", "…", value, flags=re.DOTALL)


def _decimal(text: str, digits: int = 9) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= digits


def _without_comment(text: str) -> str:
    return re.split(r"\s[#;]", text, maxsplit=1)[0].strip()


def _host_line(file: _File, group: _Group, line: str, number: int) -> None:
    words = _split(file, line, number)
    if not words:
        return
    pairs: dict[str, tuple[str, int]] = {}
    before, strays = _line_shown(words[0], host=True).strip('" …'), list[str]()
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not _KEY.match(key):
            strays.append(before)
            continue
        pairs[key] = (value, number)
        before = f"{key}=…" if re.match(r"^[a-z]\w*$", key) and not strays else "a pair"
    if strays:
        more = f", and {len(strays) - 1} more" if strays[1:] else ""
        file.problem(
            number,
            "after the host's name come key=value pairs",
            f"a word (not shown) after {strays[0]}{more}",
            "it would mean nothing",
            "mend that line; a value with blanks stands in quotes",
        )
    pattern, port = _split_port(words[0])
    if port and not _port_number(port):
        file.problem(number, "a port is a number from 1 to 65535", _line_shown(words[0], host=True), _NO_PORT)
        return
    if port:
        pairs.setdefault("ansible_port", (port, number))
    for name in _expand(file, pattern, number):
        _add_host(file, group, name, pairs, number)


def _split(file: _File, line: str, number: int) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        _unterminated(file, _line_shown(line, host=True), number)
        return []


def _split_port(pattern: str) -> tuple[str, str]:
    """``name:22`` is a name and a port; an IPv6 address and a range also hold colons."""
    found = re.match(r"^((?:[^\[\]:]|\[[^\[\]]*\])+):([0-9]+)$", pattern)
    return (found[1], found[2]) if found else (pattern, "")


def _expand(file: _File, pattern: str, number: int) -> list[str]:
    found = _RANGE.search(pattern)
    if not found:
        if _NAME.match(pattern):
            return [pattern]
        file.problem(
            number,
            "a host's name is letters, digits, dots, dashes and underscores",
            _name_shown(pattern),
            "it names files and report entries",
        )
        return []
    values = _range(found[1])
    if values is None:
        file.problem(
            number,
            "a range is [01:16], [a:f] or [0:10:2], ascending",
            f'"[{_clipped(found[1])}]"' if not re.search("[='\"]", pattern) else _name_shown(pattern),
            "the hosts it stands for are unknown",
        )
        return []
    head, tail = pattern[: found.start()], pattern[found.end() :]
    return [name for value in values for name in _expand(file, f"{head}{value}{tail}", number)]


def _name_shown(pattern: str) -> str:
    return f'"{pattern}"' if not re.search("[='\":]", pattern) else _line_shown(pattern, host=True)


def _range(text: str) -> list[str] | None:
    parts = text.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and not _decimal(parts[2])):
        return None
    step = int(parts[2]) if len(parts) == 3 else 1
    first, last = parts[0] or "0", parts[1]
    if step < 1:
        return None
    if _decimal(first) and _decimal(last):
        width = len(first) if first.startswith("0") and len(first) > 1 else 0
        if (width and len(last) != len(first)) or int(first) > int(last) or int(last) - int(first) > 99_999:
            return None
        return [str(n).zfill(width) for n in range(int(first), int(last) + 1, step)]
    letters = re.compile(r"^[a-z]$|^[A-Z]$")
    if letters.match(first) and letters.match(last) and first.islower() == last.islower() and first <= last:
        return [chr(n) for n in range(ord(first), ord(last) + 1, step)]
    return None


def _add_host(
    file: _File, group: _Group, name: str, pairs: Mapping[str, tuple[str, int]], number: int
) -> None:
    if name in group.hosts:
        file.problem(
            number,
            f"a host stands once in [{group.name}]",
            f"{name} again (first at line {group.hosts[name]})",
            "one of the two lines is a mistake",
            "remove one",
        )
        return
    group.hosts[name] = number
    known = file.hosts.setdefault(name, _HostLine(number))
    for key, (value, line) in pairs.items():
        before = known.vars.get(key)
        if before and before[0] != value:
            file.problem(
                number,
                f"{name} must have one value of {key}",
                _pair_shown(key, value) + f", another at line {before[1]}",
                "it would be unclear which one holds",
                "remove one",
            )
            continue
        known.vars[key] = (value, line)


# --- groups --------------------------------------------------------------------------------------------


def _check_children(file: _File) -> None:
    for group in list(file.groups.values()):
        for child, number in group.children.items():
            if not _defined(file, child):
                file.problem(
                    number,
                    "a child group must be defined" + nearest(child, file.groups),
                    f'"{child}"',
                    f"[{group.name}] would lack its hosts",
                    f"add a section [{child}]",
                )
        if group.vars_line and not _defined(file, group.name):
            others = [name for name in file.groups if name != group.name]
            file.problem(
                group.vars_line,
                "a group with vars must be defined" + nearest(group.name, others),
                f"[{group.name}:vars]",
                "its values would reach no host",
                f"add a section [{group.name}]",
            )
    for cycle in _cycles(file):
        first = file.groups[cycle[0]]
        file.problem(
            first.children[cycle[1]],
            "a group must not contain itself",
            " → ".join(cycle),
            "its hosts could never be listed",
        )


def _defined(file: _File, name: str) -> bool:
    return name in ("all", "ungrouped") or (name in file.groups and file.groups[name].line > 0)


def _cycles(file: _File) -> Iterator[list[str]]:
    reported: set[str] = set()
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> Iterator[list[str]]:
        if name in trail:
            cycle = [*trail[trail.index(name) :], name]
            if not reported & set(cycle):
                reported.update(cycle)
                yield cycle
            return
        if name in done:
            return
        for child in file.groups[name].children if name in file.groups else ():
            yield from visit(child, [*trail, name])
        done.add(name)

    for name in file.groups:
        yield from visit(name, [])


def _ancestors(file: _File) -> dict[str, list[str]]:
    """For each group, itself and all groups above it, those furthest up first."""
    above: dict[str, set[str]] = {name: set() for name in file.groups}
    for group in file.groups.values():
        for child in group.children:
            if child in above:
                above[child].add(group.name)

    def depth(name: str, seen: frozenset[str] = frozenset()) -> int:
        if name in seen or name == "all":
            return 0
        return 1 + max((depth(p, seen | {name}) for p in above[name]), default=0)

    def chain(name: str) -> set[str]:
        found, queue = {name}, [name]
        while queue:
            new = above[queue.pop()] - found
            found |= new
            queue += new
        return found

    return {
        name: sorted(chain(name) | {"all"} & set(file.groups), key=lambda g: (depth(g), g))
        for name in file.groups
    }


# --- hosts ---------------------------------------------------------------------------------------------


def _host(file: _File, name: str, ancestors: Mapping[str, list[str]]) -> Host:
    entry = file.hosts[name]
    member: dict[str, None] = {}
    for group in file.groups.values():
        if name in group.hosts:
            member.update(dict.fromkeys(ancestors[group.name]))
    rank = {g: len(ancestors[g]) for g in member}
    values: dict[str, str] = {}
    for group_name in sorted(member, key=lambda g: (rank[g], g)):
        values.update(file.groups[group_name].vars)
    values.update({key: value for key, (value, _) in entry.vars.items()})
    known_hosts, jump = _ssh_args(file, values, entry.line)
    _refuse(file, values, entry.line)
    return Host(
        name=name,
        address=_first(values, "ansible_host", "ansible_ssh_host") or name,
        port=_port(file, values, entry),
        user=_first(values, "ansible_user", "ansible_ssh_user"),
        key_file=_first(values, "ansible_ssh_private_key_file", "ansible_private_key_file"),
        known_hosts=known_hosts,
        proxy_jump=jump,
        vars=values,
        groups=tuple(g for g in member if g not in ("all", "ungrouped")),
        line=entry.line,
    )


def _first(values: Mapping[str, str], *keys: str) -> str | None:
    return next((values[key] for key in keys if values.get(key)), None)


def _port(file: _File, values: Mapping[str, str], entry: _HostLine) -> int | None:
    key = "ansible_port" if "ansible_port" in values else "ansible_ssh_port"
    text = values.get(key)
    if text is None:
        return None
    if number := _port_number(text):
        return number
    line = entry.vars[key][1] if key in entry.vars else entry.line
    file.problem(line, f"{key} is a number from 1 to 65535", f'"{_clipped(text)}"', _NO_PORT)
    return None


_NO_PORT = "no connection could be made"


def _port_number(text: str) -> int:
    """0 where it is none."""
    return int(text) if _decimal(text, 5) and int(text) < 65536 else 0


def _refuse(file: _File, values: Mapping[str, str], line: int) -> None:
    for key in ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password"):
        if key in values:
            file.problem(
                line,
                f"{key} is not read",
                "a password (not shown)",
                "hosts are reached with keys; a password in a file is known to everybody who reads it",
                "remove it; use ansible_ssh_private_key_file or an ssh agent",
            )
    for key in ("ansible_host", "ansible_ssh_host", "ansible_user", "ansible_ssh_user"):
        if values.get(key) and not _ENDPOINT.fullmatch(values[key]):
            file.problem(
                line,
                f"{key} holds letters, digits and . _ : % @ - only, and does not begin with -",
                f'"{key}=…" with {_offending(values[key])}',
                "ssh configurations hand it to a shell, which would run what it holds",
            )
    connection = values.get("ansible_connection", "ssh")
    if connection not in ("ssh", "smart", "paramiko", "paramiko_ssh"):
        file.problem(
            line, "ansible_connection is ssh", f'"{_clipped(connection)}"', "hosts are reached over SSH only",
            "remove it or the host",
        )  # fmt: skip


def _offending(value: str) -> str:
    """The first character that makes an address or a user unfit."""
    bad = re.search(r"[^A-Za-z0-9._:%@-]", value)
    return f"the character {bad[0]!r}" if bad else 'a leading "-"'


def _ssh_args(file: _File, values: Mapping[str, str], line: int) -> tuple[str | None, str | None]:
    """``UserKnownHostsFile`` and ``ProxyJump`` out of the ssh arguments; anything else is refused aloud."""
    options: dict[str, str] = {}
    for key in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        for written, value in _ssh_options(values.get(key, "")):
            name = written.lower()
            if name == "proxyjump" and not all(_JUMP.fullmatch(hop.strip()) for hop in value.split(",")):
                file.problem(
                    line,
                    "ProxyJump is [user@]host[:port], or several with commas between",
                    f'"{key}=…" with another ProxyJump (not shown)',
                    "ssh would take it for an option or hand it to a shell",
                )
            elif name in ("userknownhostsfile", "proxyjump"):
                options.setdefault(name, value)
            elif name not in _HARMLESS and (name, value) != ("stricthostkeychecking", "yes"):
                file.problem(
                    line,
                    f"{key} may hold -o UserKnownHostsFile=… and -o ProxyJump=… only",
                    _option_shown(written, value),
                    "an ssh option that is silently dropped would make a different connection",
                    "put it into ~/.ssh/config, which is honoured"
                    if name != "stricthostkeychecking"
                    else f"host keys are always checked; record them: rackwright enrol --hosts {file.source}",
                )
    return options.get("userknownhostsfile"), options.get("proxyjump")


def _option_shown(written: str, value: str) -> str:
    """An option without its value: a ProxyCommand or a SetEnv may hold a password."""
    if value and re.fullmatch(r"[A-Za-z]+", written):
        return f'"{written} …"'
    if re.match(r"-[A-Za-z]", written):
        return f'"{written[:2]}"' if len(written) == 2 else f'"{written[:2]}…"'
    return "a word (not shown)"


_HARMLESS = frozenset(
    ("controlmaster", "controlpersist", "controlpath", "serveraliveinterval", "serveralivecountmax",
     "connecttimeout", "tcpkeepalive", "compression", "loglevel", "batchmode")
)  # fmt: skip
"""ssh options that do not change whom a connection reaches; ours are made without them."""


def _ssh_options(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    while words:
        word = words.pop(0)
        if word == "-o" and words:
            word = "-o" + words.pop(0)
        if word == "-J" and words:
            yield "ProxyJump", words.pop(0)
        elif word.startswith("-o"):
            name, _, value = re.sub(r"^([A-Za-z]+)\s*[= ]\s*", r"\1=", word[2:].strip()).partition("=")
            yield name, value.strip()
        else:
            yield word, ""


def _plan_path(file: _File, path: Path, ancestors: Mapping[str, list[str]]) -> Path:
    named = {values["plan"] for values in (g.vars for g in file.groups.values()) if "plan" in values}
    if len(named) > 1:
        file.problem(
            0,
            "must name one plan",
            listing(sorted(_clipped(name) for name in named)),
            "one run proves one plan",
            "keep plan= in [all:vars]",
        )
        return path
    if not named:
        file.problem(
            0,
            "must name the plan",
            "no plan= in [all:vars]",
            "the expected values of every check stand in the plan",
            "add under [all:vars]: plan=plan.yaml (or give --plan)",
        )
        return path
    plan = path.parent / Path(named.pop()).expanduser()
    if not plan.is_file():
        file.problem(
            0,
            "plan= must be a file (relative to the inventory)",
            _clipped(str(plan)),
            "the expected values of every check stand in it",
            f"rackwright size WORKLOAD.yaml -o {_clipped(str(plan))}",
        )
    return plan


# --- pools and racks -----------------------------------------------------------------------------------


def bind(inventory: Inventory, plan: Plan) -> Bound:
    """Put every host into its pool and rack of ``plan``."""
    binder = _Binder(inventory, plan)
    hosts = [binder.place(host) for host in inventory.hosts]
    problems = binder.problems
    for pool in plan.pools:
        count = sum(h.pool == pool.name for h in hosts)
        if count > len(pool.nodes):
            problems.append(
                Problem(
                    inventory.source,
                    f"pool {pool.name} has {len(pool.nodes)} nodes in the plan",
                    f"{count} hosts",
                    "hosts that the plan does not know have no expected values",
                    "size again with that many nodes, or remove hosts",
                )
            )
    return Bound(replace(inventory, hosts=tuple(hosts)), tuple(problems), _missing(plan, hosts))


def _missing(plan: Plan, hosts: list[Host]) -> tuple[str, ...]:
    present = {h.name for h in hosts}
    notes = []
    for pool in plan.pools:
        absent = [n.name for n in pool.nodes if n.name not in present]
        if absent and len(pool.nodes) > sum(h.pool == pool.name for h in hosts):
            notes.append(f"pool {pool.name}: not in the inventory: {listing(absent)}")
    return tuple(notes)


class _Binder:
    """Finds each host's place; what has none becomes a problem."""

    def __init__(self, inventory: Inventory, plan: Plan) -> None:
        self.source = inventory.source
        self.problems: list[Problem] = []
        self.pools = {pool.name: pool for pool in plan.pools}
        self.owner = {node.name: pool.name for pool in plan.pools for node in pool.nodes}
        self.racks = {rack.name for rack in plan.racks()}
        self.known = f"the plan's pools are: {listing(sorted(self.pools)) or 'none'}"

    def place(self, host: Host) -> Host:
        pool = self._pool(host)
        return replace(host, pool=pool.name if pool else "", rack=self._rack(host, pool) if pool else "")

    def _problem(self, host: Host, rule: str, found: str, why: str, next_: str) -> None:
        self.problems.append(Problem(f"{self.source}:{host.line} {host.name}", rule, found, why, next_))

    def _pool(self, host: Host) -> Pool | None:
        named = host.vars.get("pool")
        why = "the expected values are those of its pool"
        if named and named not in self.pools:
            rule = "pool= must be a pool of the plan" + nearest(named, self.pools)
            self._problem(host, rule, f'"{_clipped(named)}"', why, self.known)
            return None
        groups = [g for g in host.groups if g in self.pools]
        owned = [self.owner[host.name]] if host.name in self.owner else []
        candidates = [named] if named else groups or owned
        if not candidates:
            rule = "must be a node of the plan, or in a group named as a pool" + nearest(
                host.name, self.owner
            )
            self._problem(host, rule, f'"{host.name}"', why, f"put it there, or set pool=; {self.known}")
            return None
        if len(candidates) > 1:
            rule = "a host belongs to exactly one pool of the plan"
            self._problem(host, rule, listing(candidates), why, f"set pool=; {self.known}")
            return None
        pool = self.pools[candidates[0]]
        planned = self.owner.get(host.name, pool.name)
        if planned != pool.name:
            rule = f"the plan has this node in pool {planned}"
            why = "it would be judged by another pool's values"
            self._problem(host, rule, f"pool {pool.name}", why, "move it, or size again")
            return None
        return pool

    def _rack(self, host: Host, pool: Pool) -> str:
        planned = next((n.rack for n in pool.nodes if n.name == host.name), None)
        named = host.vars.get("rack")
        if named and named not in self.racks:
            rule = "rack= must be a rack of the plan" + nearest(named, self.racks)
            known = f"the plan's racks are: {listing(sorted(self.racks)) or 'none'}"
            self._problem(host, rule, f'"{_clipped(named)}"', "its power rating stands in the plan", known)
        elif named and planned and named != planned:
            rule = f"the plan has this node in rack {planned}"
            why = "the rack's power would be summed wrongly"
            self._problem(host, rule, f"rack={_clipped(named)}", why, "remove rack=, or size again")
        elif not named and planned is None:
            rule = f"must be a node of pool {pool.name} in the plan" + nearest(host.name, self.owner)
            why = "a host that the plan does not know stands in no rack"
            next_ = "use the plan's node names, or set rack= to say where it stands"
            self._problem(host, rule, f'"{host.name}"', why, next_)
        return named or planned or ""


def bound(inventory: Inventory, plan: Plan) -> Bound:
    """As :func:`bind`.

    Raises:
        InputErrors: where a host has no place in the plan.
    """
    result = bind(inventory, plan)
    if result.problems:
        raise InputErrors(result.problems)
    return result


def limited(inventory: Inventory, patterns: tuple[str, ...]) -> Inventory:
    """The hosts whose name, pool or group matches one of ``patterns`` (``*`` and ``?`` are wild).

    Raises:
        CannotRun: a pattern matches nothing.
    """
    if not patterns:
        return inventory
    from fnmatch import fnmatchcase

    keep: set[str] = set()
    for pattern in patterns:
        found = {
            h.name
            for h in inventory.hosts
            if any(fnmatchcase(name, pattern) for name in (h.name, h.pool, *h.groups))
        }
        if not found:
            names = [h.name for h in inventory.hosts]
            raise CannotRun(
                Problem(
                    "--limit",
                    "must match a host, a pool or a group" + nearest(pattern, names),
                    f'"{pattern}"',
                    "nothing would be checked",
                    f"the hosts are: {listing(names)}",
                )
            )
        keep |= found
    return replace(inventory, hosts=tuple(h for h in inventory.hosts if h.name in keep))


# --- writing -------------------------------------------------------------------------------------------


def inventory_from_plan(plan: Plan, plan_path: str = "plan.yaml") -> str:
    """An inventory with every node of ``plan``; addresses are added by whoever knows them."""
    lines = [
        f"# Hosts of {plan.header.name}: one group a pool. Add ansible_host=… where a name does not resolve.",
    ]
    for pool in plan.pools:
        lines += ["", f"[{pool.name}]"]
        lines += [node.name + ("  # spare" if node.spare else "") for node in pool.nodes]
    lines += ["", "[all:vars]", f"plan={plan_path}", ""]
    return "\n".join(lines)
