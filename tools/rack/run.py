"""A rack on disk and running: up, plant, heal, status, down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from rackwright.errors import CannotRun, Problem
from rackwright.plan import Plan, load_plan, save_plan
from tools.rack import farm, hosts
from tools.rack.farm import Proc
from tools.rack.faults import FAULTS, apply_all
from tools.rack.rack import FaultSpec, RackSpec, check_faults, check_fit
from tools.rack.state import HostState, build, planned

KNOWN_TOOLS = (
    "nvidia-smi", "lspci", "dmesg", "ip", "ps", "df", "lscpu", "lsblk", "chronyc", "timedatectl", "systemctl",
    "uname", "nproc", "ldconfig", "journalctl",
)  # fmt: skip
HOST_BYTES = 4_000_000
OWNER = ".owner"
MEMORY = Path("/dev/shm")
FILES = ("hosts.ini", "known_hosts", "id_ed25519", "id_ed25519.pub", "rack.json")
"""What a rack writes in its directory; the record goes last, so that what is left is known to be a rack's."""
Progress = Callable[[str], None]


@dataclass
class RunningHost:
    name: str
    pool: str
    rack: str
    address: str
    pid: int = 0
    started: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def proc(self) -> Proc:
        return Proc(self.pid, self.started)

    @property
    def specs(self) -> list[FaultSpec]:
        return [FaultSpec(**f) for f in self.faults]


class Rack:
    """A simulated rack in a directory. As a context manager it comes up and goes down.

    ``Rack(spec, directory)`` reads the plan that the spec names; a plan at hand can be given instead.
    """

    def __init__(
        self, spec: RackSpec, directory: Path, *, plan: Plan | None = None, progress: Progress | None = None
    ) -> None:
        self.spec = spec
        self.directory = directory.resolve()
        self._plan = plan
        self._lasting = True
        self._own_directory = False
        self._progress = progress or (lambda _: None)
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.hosts: dict[str, RunningHost] = {}
        self.tree = self.directory / "hosts"

    @classmethod
    def temporary(
        cls,
        plan: Plan,
        *,
        nodes: int | Sequence[str] | None = None,
        faults: Iterable[FaultSpec] = (),
        load: str = "idle",
        seed: int = 1,
        directory: Path | None = None,
        network: str = "127.66",
    ) -> Rack:
        """A rack for a test: its own directory, a free port, and no life beyond this process."""
        where = directory or Path(tempfile.mkdtemp(prefix="rack-"))
        where.mkdir(parents=True, exist_ok=True)
        save_plan(plan, where / "plan.yaml")
        spec = RackSpec(
            plan=where / "plan.yaml",
            nodes=nodes if nodes is None or isinstance(nodes, int) else tuple(nodes),
            load="full" if load == "full" else "idle",
            seed=seed,
            network=network,
            faults=tuple(faults),
        )
        rack = cls(spec, where, plan=plan)
        rack._lasting = False
        rack._own_directory = directory is None
        return rack

    @classmethod
    def open(cls, directory: Path) -> Rack:
        """A rack that was brought up earlier.

        Raises:
            CannotRun: there is none in ``directory``.
        """
        record = directory / "rack.json"
        if not record.is_file():
            raise CannotRun(
                Problem(
                    str(record), "must be the record of a rack", "no such file",
                    "it says which processes are the rack's",
                    f"python -m tools.rack up inventory/lab/healthy.yaml --dir {directory}",
                )
            )  # fmt: skip
        data = json.loads(record.read_text(encoding="utf-8"))
        rack = cls(RackSpec(**data["spec"]), directory)
        rack.now = datetime.fromisoformat(data["now"])
        rack.tree = Path(data["tree"])
        rack.hosts = {h["name"]: RunningHost(**h) for h in data["hosts"]}
        return rack

    @classmethod
    def to_end(cls, directory: Path) -> Rack:
        """What is to be taken down in ``directory``: the rack of its record, or hosts that run without one.

        Raises:
            CannotRun: there is neither.
        """
        if not (directory / "rack.json").is_file() and farm.strays(directory.resolve()):
            return cls(RackSpec(plan=directory / "plan.yaml"), directory)
        return cls.open(directory)

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            self._plan = load_plan(self.spec.plan)
        return self._plan

    @property
    def port(self) -> int:
        """Where all hosts listen; known once the rack came up where the spec leaves it open."""
        if self.spec.port is None:
            raise ValueError("the rack has no port before it is up")
        return self.spec.port

    @property
    def inventory(self) -> Path:
        return self.directory / "hosts.ini"

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def host_directory(self, name: str) -> Path:
        return self.tree / name

    def __enter__(self) -> Rack:
        try:
            self.up()
        except BaseException:
            if self._own_directory:
                shutil.rmtree(self.directory, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self) -> None:
        """Write and start every host, and wait until those that should answer do; all of them, or none stays.

        Raises:
            CannotRun: this machine cannot, the directory is taken (it is left alone), a host did not start.
            InputErrors: the plan has no such node, there is no such fault, or it does not apply to its host.
        """
        farm.require_machine()
        names = self.spec.node_names(self.plan)
        check_faults(self.spec.faults, names)
        self._check_fit(self.spec.faults)
        self._refuse_second()
        try:
            self._raise(names)
        except BaseException:
            self.down()
            raise

    def _raise(self, names: Sequence[str]) -> None:
        if self.spec.port is None:
            port = farm.free_port(*(self.spec.address(i) for i in range(len(names))))
            self.spec = self.spec.model_copy(update={"port": port})
        self.directory.mkdir(parents=True, exist_ok=True)
        self.tree = _tree_for(self.directory, len(names))
        if not self._lasting:
            (self.tree / OWNER).write_text(f"{os.getpid()} {farm.start_time(os.getpid())}", encoding="ascii")
        hosts.write_base_tools(self.tree / ".plain")
        self.hosts = {
            name: RunningHost(
                name, *self._place(name), self.spec.address(i),
                faults=[f.model_dump() for f in self.spec.faults if f.host == name],
            )
            for i, name in enumerate(names)
        }  # fmt: skip
        self._record()
        self._make_keys(names)
        self._write_inventory()
        states = {}
        for number, host in enumerate(self.hosts.values(), 1):
            states[host.name] = self._start(host)
            self._record()
            if number % 10 == 0 or number == len(self.hosts):
                self._progress(f"started {number} of {len(self.hosts)} hosts")
        self._wait(states)
        self._record()

    def plant(self, host: str, fault: str, args: dict[str, Any] | None = None) -> None:
        """Plant one more fault on a running host."""
        spec = FaultSpec(host=host, fault=fault, args=args or {})
        check_faults([spec], list(self.hosts), options=True)
        self._check_fit([spec], upon=self.hosts[host].specs, options=True)
        self._refresh(self.hosts[host], [*self.hosts[host].faults, spec.model_dump()])

    def heal(self, host: str, fault: str | None = None) -> None:
        """Take one fault, or all, from a running host."""
        named = FaultSpec(host=host, fault=fault or next(iter(FAULTS)))
        check_faults([named], list(self.hosts), options=True)
        running = self.hosts[host]
        self._refresh(running, [f for f in running.faults if fault and f["fault"] != fault])

    def set_faults(self, faults: Iterable[FaultSpec]) -> None:
        """Make these the only faults of the rack; hosts that do not change are left alone."""
        wanted = list(faults)
        check_faults(wanted, list(self.hosts))
        self._check_fit(wanted)
        for running in self.hosts.values():
            mine = [f.model_dump() for f in wanted if f.host == running.name]
            if mine != running.faults:
                self._refresh(running, mine)

    def status(self) -> dict[str, bool]:
        """Whether each host's process is there."""
        return {h.name: h.proc.alive for h in self.hosts.values()}

    def down(self) -> int:
        """Stop the rack's processes and remove its hosts from disk; also after a crash. Gives how many ran.

        Raises:
            CannotRun: a process did not end.
        """
        trees = farm.strays(self.directory)
        started = {*(h.proc for h in self.hosts.values() if h.pid), *trees}
        running = [p for p in started if p.alive]
        left = farm.stop(list(started))
        if left:
            raise CannotRun(
                Problem(
                    str(self.directory), "every host must end", f"pids {[p.pid for p in left]}",
                    "they were killed",
                    f"python -m tools.rack down --dir {self.directory}",
                )
            )  # fmt: skip
        for tree in {self.tree, *filter(self._made, trees.values())}:
            shutil.rmtree(tree, ignore_errors=True)
        for name in FILES:
            (self.directory / name).unlink(missing_ok=True)
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
        self.hosts = {}
        return len(running)

    def _made(self, tree: Path) -> bool:
        """Whether ``tree`` is one that :func:`_tree_for` makes for this rack."""
        memory = tree.parent == MEMORY and tree.name.startswith("rackwright-")
        return memory or tree == self.directory / "hosts"

    def _check_fit(
        self, specs: Sequence[FaultSpec], *, upon: Sequence[FaultSpec] = (), options: bool = False
    ) -> None:
        states = {}
        for name in {s.host for s in specs}:
            states[name] = build(self.plan, name, load=self.spec.load, seed=self.spec.seed, now=self.now)
            apply_all(states[name], upon, seed=self.spec.seed)
        check_fit(specs, states, seed=self.spec.seed, options=options)

    def unknown_commands(self) -> dict[str, list[str]]:
        """What was asked of hosts without a recording, per host."""
        found = {}
        for name in self.hosts:
            log = self.host_directory(name) / "unknown.log"
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
            if lines:
                found[name] = sorted(set(lines))
        return found

    def state(self, name: str) -> HostState:
        """The state that the host shows now."""
        state = build(self.plan, name, load=self.spec.load, seed=self.spec.seed, now=self.now)
        apply_all(state, self.hosts[name].specs, seed=self.spec.seed)
        return state

    def _place(self, name: str) -> tuple[str, str]:
        for pool in self.plan.pools:
            for node in pool.nodes:
                if node.name == name:
                    return pool.name, node.rack
        raise KeyError(name)

    def _refuse_second(self) -> None:
        recorded = (self.directory / "rack.json").exists()
        earlier = Rack.open(self.directory) if recorded else None
        hosts = earlier.hosts.values() if earlier else ()
        running = {p for p in (*(h.proc for h in hosts), *farm.strays(self.directory)) if p.alive}
        if running:
            raise CannotRun(
                Problem(
                    str(self.directory), "must not hold a running rack",
                    f"{len(running)} hosts running",
                    "two racks would share one record", f"python -m tools.rack down --dir {self.directory}",
                )
            )  # fmt: skip
        if earlier:
            earlier.down()
        elif taken := [name for name in (*FILES, "hosts") if (self.directory / name).exists()]:
            raise CannotRun(
                Problem(
                    str(self.directory), "must hold no file that a rack would replace",
                    ", ".join(taken), "no rack's record is there, so they are somebody else's",
                    "choose another --dir, or move them",
                )
            )  # fmt: skip

    def _make_keys(self, names: Sequence[str]) -> None:
        keys = self.tree
        _keygen(self.key, "rack")
        for name in names:
            (keys / name).mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: _keygen(keys / n / "key", n), names))
        self.key.chmod(0o600)
        lines = []
        for host in self.hosts.values():
            public = (keys / host.name / "key.pub").read_text(encoding="ascii").split()
            lines.append(f"[{host.address}]:{self.port} {public[0]} {public[1]}\n")
        self.known_hosts.write_text("".join(lines), encoding="ascii")

    def _write_inventory(self) -> None:
        groups: dict[str, list[RunningHost]] = {}
        for host in self.hosts.values():
            groups.setdefault(host.pool, []).append(host)
        lines = []
        for pool, members in groups.items():
            lines += [f"[{pool}]", *[f"{h.name} ansible_host={h.address} rack={h.rack}" for h in members], ""]
        lines += [
            "[all:vars]",
            f"plan={self.spec.plan}",
            f"ansible_user={hosts.USER}",
            f"ansible_port={self.port}",
            f"ansible_ssh_private_key_file={self.key}",
            f"ansible_ssh_common_args='-o UserKnownHostsFile={self.known_hosts}'",
        ]
        self.inventory.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _start(self, host: RunningHost) -> HostState:
        directory = self.host_directory(host.name)
        state = self._write(host)
        if not state.login.up:
            return state
        if farm.answers(host.address, self.port, 0.05):
            raise CannotRun(
                Problem(
                    f"{host.address}:{self.port}", "must be free", "something answers there",
                    "a host of the rack listens on it",
                    "leave port: out of the rack file for a free one, or choose another network:",
                )
            )  # fmt: skip
        process = farm.spawn(directory, host.name, rack=self.directory, with_me=not self._lasting)
        host.pid, host.started = process.pid, farm.start_time(process.pid)
        process.returncode = 0
        return state

    def _write(self, host: RunningHost) -> HostState:
        state = self.state(host.name)
        directory = self.host_directory(host.name)
        expected = self.plan.expectations[host.pool]
        tools = {*KNOWN_TOOLS, *planned(expected.tools, ())} - set(hosts.BASE_TOOLS)
        keys = hosts.Keys(
            authorized=self.key.with_suffix(".pub").read_text(encoding="ascii"),
            host_private=(directory / "key").read_text(encoding="ascii"),
            other_private=self._other_key(directory) if state.login.host_key_changed else "",
        )
        hosts.write(directory, state, keys, address=host.address, port=self.port, tools=sorted(tools))
        return state

    def _other_key(self, directory: Path) -> str:
        _keygen(directory / "other", "another machine")
        return (directory / "other").read_text(encoding="ascii")

    def _wait(self, states: dict[str, HostState]) -> None:
        deadline = time.monotonic() + 30 + len(self.hosts)
        for host in self.hosts.values():
            state = states[host.name]
            if not state.login.up:
                continue
            if not farm.wait_until_up(host.address, self.port, host.proc, deadline):
                log = (self.host_directory(host.name) / "sshd.log").read_text(
                    encoding="utf-8", errors="replace"
                )
                raise CannotRun(
                    Problem(
                        host.name, "must answer once it was started",
                        (log.strip().splitlines() or ["nothing in its log"])[-1],
                        "a rack is only useful whole", f"python -m tools.rack down --dir {self.directory}",
                    )
                )  # fmt: skip
            if state.login.frozen:
                for pid in farm.inner_pids(host.proc):
                    os.kill(pid, signal.SIGSTOP)

    def _refresh(self, host: RunningHost, faults: list[dict[str, Any]]) -> None:
        """Show the new state; sshd is started again only where the login itself changes."""
        before = self.state(host.name).login
        host.faults = faults
        after = self.state(host.name).login
        if before == after:
            self._write(host)
        else:
            farm.stop([host.proc] if host.pid else [])
            host.pid = host.started = 0
            self._wait_one(host, self._start(host))
        self._record()

    def _wait_one(self, host: RunningHost, state: HostState) -> None:
        every, self.hosts = self.hosts, {host.name: host}
        try:
            self._wait({host.name: state})
        finally:
            self.hosts = every

    def _record(self) -> None:
        data = {
            "spec": self.spec.model_dump(mode="json"),
            "now": self.now.isoformat(),
            "tree": str(self.tree),
            "hosts": [asdict(h) for h in self.hosts.values()],
        }
        part = self.directory / "rack.json.part"
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(self.directory / "rack.json")


def _tree_for(directory: Path, count: int) -> Path:
    """Where the hosts' files go: memory, where it is allowed to hold programs, else beside the record.

    A rack is tens of thousands of tiny files; removing them from a disk takes longer than everything else.
    """
    _sweep(MEMORY)
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        found = None
    if found and not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > count * HOST_BYTES * 2:
        return Path(tempfile.mkdtemp(prefix="rackwright-", dir=MEMORY))
    tree = directory / "hosts"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    return tree


def _sweep(memory: Path) -> None:
    """Remove what racks of processes left that are gone."""
    for mark in memory.glob(f"rackwright-*/{OWNER}"):
        try:
            pid, started = mark.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        if not Proc(int(pid), int(started)).alive:
            shutil.rmtree(mark.parent, ignore_errors=True)


def _keygen(path: Path, comment: str) -> None:
    path.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        check=True, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
