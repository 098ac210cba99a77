"""A lab in a directory: up, status, down."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rackwright.errors import CannotRun, Problem
from rackwright.plan import Plan
from tools.engine.build import have
from tools.engine.families import LAB, LWS_FAMILY
from tools.lab import certs, crds, groups, world
from tools.lab.api import Api, ApiError, from_kubeconfig
from tools.lab.certs import Pki
from tools.lab.processes import Started, free_ports, start, stop, wait_gone
from tools.rack.farm import Proc

UP_TIMEOUT_S = 180
SERVICES = "10.96.0.0/16"
STAGES = Path(__file__).resolve().parent / "stages.yaml"
MARKER = "rackwright/lab/v1"
Say = Callable[[str], None]
PORTS = ("etcd", "peer", "api", "controllers", "scheduler", "kwok", "webhook", "health")


@dataclass
class Lab:
    """``context`` is the name in the kubeconfig; ``origins``: definition to where it came from."""

    directory: Path
    say: Say = lambda _: None
    context: str = "lab"
    processes: list[Started] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    identity: str = ""
    ports: dict[str, int] = field(default_factory=dict)
    _api: Api | None = field(default=None, init=False, repr=False)

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def pki(self) -> Pki:
        return Pki(self.directory / "pki")

    def api(self) -> Api:
        if self._api is None:
            self._api = from_kubeconfig(self.kubeconfig)
        return self._api

    @classmethod
    def open(cls, directory: Path, say: Say = lambda _: None) -> Lab:
        """The lab that was brought up in ``directory``.

        Raises:
            CannotRun: there is none.
        """
        try:
            state = json.loads((directory / "lab.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise CannotRun(
                Problem(
                    str(directory), "must hold a lab", str(error), "there is nothing to look at or to stop",
                    f"python -m tools.lab up PLAN --dir {directory}",
                )
            ) from None  # fmt: skip
        lab = cls(directory.resolve(), say, context=state["context"], identity=state["identity"])
        lab.origins, lab.ports = state["origins"], state["ports"]
        lab.processes = [Started(p["name"], Proc(**p["proc"]), tuple(p["argv"])) for p in state["processes"]]
        return lab

    def up(self, plan: Plan) -> None:
        """Everything running, the plan's machines and volumes there, nothing of the plan itself.

        Raises:
            CannotRun: a program is missing, or a part did not come up.
        """
        programs = self._programs()
        self._fresh_directory()
        deadline = time.monotonic() + UP_TIMEOUT_S
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        certs.make(self.pki.directory)
        self._write_kubeconfig()
        self._start("etcd", [programs["etcd"], *self._etcd()])
        self._start("kube-apiserver", [programs["kube-apiserver"], *self._api_server()])
        self._until("the API server", lambda: self.api().get("/readyz") == "ok", deadline)
        self._start_controllers(programs)
        self._until("the namespace kube-system", lambda: self._find_identity() != "", deadline)
        self._define(plan, deadline)
        nodes = world.create(self.api(), plan)
        if "lws-manager" in programs:
            self._start_groups(programs["lws-manager"], deadline)
        self._until(f"{len(nodes)} nodes", lambda: self.ready_nodes() == len(nodes), deadline)
        self._save()

    def raise_up(self, plan: Plan) -> None:
        """``up``; what was started is stopped where it fails, its logs stay."""
        try:
            self.up(plan)
        except BaseException:
            stop(reversed(self.processes))
            raise

    def down(self) -> list[str]:
        """Stops every process and removes the directory; gives the names of those that would not end."""
        left = stop(reversed(self.processes))
        if not left:
            shutil.rmtree(self.directory, ignore_errors=True)
        return left

    def restart(self, name: str) -> None:
        """Starts a process of the lab again, with the same arguments, after it was killed."""
        old = self.process(name)
        wait_gone(old)
        self.processes.remove(old)
        self._start(name, list(old.argv))
        self._save()

    def process(self, name: str) -> Started:
        return next(p for p in self.processes if p.name == name)

    def ready_nodes(self) -> int:
        return sum(_ready(node) for node in self.api().items("/api/v1/nodes"))

    def answers(self) -> bool:
        try:
            return bool(self.api().get("/readyz") == "ok")
        except ApiError:
            return False

    def _programs(self) -> dict[str, str]:
        paths, absent = have(LAB)
        optional = {b.name for b in LWS_FAMILY.binaries}
        needed = [name for name in absent if name not in optional]
        if needed:
            raise CannotRun(
                Problem(
                    "lab", f"needs {', '.join(needed)}", "no such program",
                    "the lab is a real control plane", "make engine",
                )
            )  # fmt: skip
        if absent:
            self.say("no LeaderWorkerSet controller: groups are accepted but get no pods")
        return {name: str(path) for name, path in paths.items()}

    def _fresh_directory(self) -> None:
        self.directory = self.directory.resolve()
        if self.directory.exists() and any(self.directory.iterdir()):
            raise CannotRun(
                Problem(
                    str(self.directory), "must be empty", "files in it",
                    "another lab may be running there", f"python -m tools.lab down --dir {self.directory}",
                )
            )  # fmt: skip
        (self.directory / "logs").mkdir(parents=True, mode=0o700)

    def _write_kubeconfig(self) -> None:
        certificate, key = self.pki.admin
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.context,
            "clusters": [
                {
                    "name": self.context,
                    "cluster": {"server": self._server, "certificate-authority": str(self.pki.ca)},
                }
            ],
            "users": [
                {"name": "admin", "user": {"client-certificate": str(certificate), "client-key": str(key)}}
            ],
            "contexts": [{"name": self.context, "context": {"cluster": self.context, "user": "admin"}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")

    @property
    def _server(self) -> str:
        return f"https://127.0.0.1:{self.ports['api']}"

    def _start(self, name: str, argv: list[str], env: dict[str, str] | None = None) -> None:
        self.processes.append(start(name, argv, self.directory / "logs" / f"{name}.log", env))
        self._save()

    def _start_controllers(self, programs: dict[str, str]) -> None:
        common = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        certificates = f"--cert-dir={self.directory / 'pki' / 'own'}"
        self._start(
            "kube-controller-manager",
            [
                programs["kube-controller-manager"], *common, certificates,
                f"--secure-port={self.ports['controllers']}",
                f"--service-account-private-key-file={self.pki.accounts}",
                f"--root-ca-file={self.pki.ca}",
            ],
        )  # fmt: skip
        self._start(
            "kube-scheduler",
            [programs["kube-scheduler"], *common, certificates, f"--secure-port={self.ports['scheduler']}"],
        )
        self._start(
            "kwok",
            [
                programs["kwok"], f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=true",
                f"--config={STAGES}", "--cidr=10.200.0.0/16", "--node-ip=10.199.0.1",
                "--node-lease-duration-seconds=40", f"--server-address=127.0.0.1:{self.ports['kwok']}",
            ],
        )  # fmt: skip

    def _etcd(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{self.ports[name]}" for name in ("etcd", "peer"))
        return [
            f"--data-dir={self.directory / 'etcd'}", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync", "--log-level=warn",
        ]  # fmt: skip

    def _api_server(self) -> list[str]:
        certificate, key = self.pki.server
        return [
            f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self.ports['api']}",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}",
            f"--client-ca-file={self.pki.ca}", "--authorization-mode=RBAC", "--allow-privileged=true",
            f"--service-cluster-ip-range={SERVICES}", f"--service-account-issuer={self._server}/",
            f"--service-account-key-file={self.pki.accounts}",
            f"--service-account-signing-key-file={self.pki.accounts}",
            "--endpoint-reconciler-type=none", "--profiling=false",
        ]  # fmt: skip

    def _find_identity(self) -> str:
        api = self.api()
        if not api.exists("/api/v1/namespaces/kube-system"):
            return ""
        self.identity = api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
        return self.identity

    def _define(self, plan: Plan, deadline: float) -> None:
        api, base = self.api(), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        sources = crds.definitions(plan)
        for source in sources:
            api.create(base, source.content)
            self.origins[source.name] = source.origin
        names = [source.name for source in sources]
        self._until(
            f"{len(names)} definitions",
            lambda: all(_served(api, d) for d in api.items(base) if d["metadata"]["name"] in names),
            deadline,
        )
        minimal = sorted(name for name, origin in self.origins.items() if origin == "minimal")
        if minimal:
            self.say(f"no schema at hand, so any content is accepted: {', '.join(minimal)}")

    def _start_groups(self, program: str, deadline: float) -> None:
        api, port = self.api(), self.ports["webhook"]
        config = groups.configure(self.directory / "lws", self.pki, port, self.ports["health"])
        api.create("/api/v1/namespaces", {"metadata": {"name": groups.NAMESPACE}})
        self._start("lws-manager", [program, f"--config={config}", f"--kubeconfig={self.kubeconfig}"])
        self._until("the LeaderWorkerSet controller", lambda: groups.serves(port), deadline)
        groups.webhooks(api, self.pki, port)

    def _until(self, what: str, true: Callable[[], bool], deadline: float) -> None:
        while time.monotonic() < deadline:
            dead = [p.name for p in self.processes if not p.alive]
            if dead:
                raise self._failed(what, f"{', '.join(dead)} ended", dead[0])
            try:
                if true():
                    self.say(f"{what}: there after {time.monotonic() - deadline + UP_TIMEOUT_S:.0f} s")
                    return
            except ApiError as error:
                if error.status not in {0, 403, 404, 429, 500, 503}:
                    raise
            time.sleep(0.2)
        raise self._failed(what, f"not within {UP_TIMEOUT_S} s", "kube-apiserver")

    def _failed(self, what: str, found: str, name: str) -> CannotRun:
        log = self.directory / "logs" / f"{name}.log"
        return CannotRun(
            Problem("lab", f"must bring up {what}", found, "nothing after it can work", f"tail {log}")
        )

    def _save(self) -> None:
        state: dict[str, Any] = {
            "written-by": MARKER,
            "context": self.context,
            "identity": self.identity,
            "origins": self.origins,
            "ports": self.ports,
            "processes": [
                {"name": p.name, "proc": asdict(p.proc), "argv": list(p.argv)} for p in self.processes
            ],
        }
        part = self.directory / "lab.json.part"
        part.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
        part.replace(self.directory / "lab.json")


def _ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _served(api: Api, definition: dict[str, Any]) -> bool:
    """Established, and its store answers: it may refuse for a moment after that (429)."""
    conditions = definition.get("status", {}).get("conditions") or []
    if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        return False
    spec = definition["spec"]
    for version in spec["versions"]:
        if version["served"]:
            api.get(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")
    return True
