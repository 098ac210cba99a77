"""Engines' pods, and what protects them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rackwright.plan import Plan
from tests.stacks.objects import FRONT, engine, env, member, objects, one, registrations, server
from tests.stacks.plans import DIGEST, MANIFEST, changed, multi, single


def templates() -> list[Any]:
    return [server(single()), member(multi(), "leader"), member(multi(), "worker")]


@pytest.mark.parametrize(("surge", "unavailable"), [(0, 1), (1, 0), (2, 1)])
def test_a_rollout_takes_what_the_plan_says(surge: int, unavailable: int) -> None:
    values = {
        "deployments__0__rollout__max_surge": surge,
        "deployments__0__rollout__max_unavailable": unavailable,
    }
    strategy = one(changed(single(), **values), "Deployment")["spec"]["strategy"]
    assert strategy == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }
    group = one(changed(multi(), **values), "LeaderWorkerSet")["spec"]["rolloutStrategy"]
    assert group["rollingUpdateConfiguration"] == {"maxSurge": surge, "maxUnavailable": unavailable}


def test_replicas_are_the_plans_unless_a_scaler_owns_them() -> None:
    assert one(single(), "Deployment")["spec"]["replicas"] == 3
    scaled = multi()
    assert "replicas" not in one(scaled, "LeaderWorkerSet")["spec"]
    group = next(r for r in registrations(scaled) if r.type.endswith(":LeaderWorkerSet"))
    assert group.inputs["spec"]["replicas"] == 2
    assert group.ignore_changes == ("spec.replicas",)


def test_the_pod_asks_for_exactly_what_the_plan_gives_it() -> None:
    resources = engine(server(single()))["resources"]
    assert resources["limits"] == {"cpu": "16", "memory": "200Gi", "nvidia.com/gpu": "4"}
    assert resources["requests"] == resources["limits"]


def test_a_group_gets_every_rail_and_its_network() -> None:
    for role in ("leader", "worker"):
        template = member(multi(), role)
        limits = engine(template)["resources"]["limits"]
        assert {k: v for k, v in limits.items() if "rail" in k} == {
            "nvidia.com/rail_0": "1",
            "nvidia.com/rail_1": "1",
        }
        annotations = template["metadata"]["annotations"]
        assert annotations == {"k8s.v1.cni.cncf.io/networks": "rail-0,rail-1"}
        assert engine(template)["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
        assert env(engine(template))["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"


def test_a_single_node_replica_needs_no_rail_even_where_there_is_a_fabric() -> None:
    plan = changed(single(), fabric=multi().as_dict()["fabric"])
    template = server(plan)
    assert "annotations" not in template["metadata"]
    assert engine(template)["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not any("rail" in name for name in engine(template)["resources"]["limits"])


def test_leader_and_worker_run_their_own_command_lines() -> None:
    leader, worker = engine(member(multi(), "leader")), engine(member(multi(), "worker"))
    assert leader["args"] == list(multi().deployments[0].engine.role("leader").args)
    assert "--node-rank=0" in leader["args"]
    assert worker["args"][-1] == "--headless"
    assert "--node-rank=$(LWS_WORKER_INDEX)" in worker["args"]
    spec = one(multi(), "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    assert spec["size"] == 2
    assert spec["restartPolicy"] == "RecreateGroupOnPodRestart"


def test_only_pods_that_answer_are_probed_drained_and_hold_the_key() -> None:
    worker = engine(member(multi(), "worker"))
    for key in ("startupProbe", "readinessProbe", "livenessProbe", "ports", "lifecycle"):
        assert key not in worker
    assert "VLLM_API_KEY" not in env(worker)
    leader = engine(member(multi(), "leader"))
    assert leader["lifecycle"] == {"preStop": {"sleep": {"seconds": 30}}}
    assert env(leader)["VLLM_API_KEY"] == {"secretKeyRef": {"name": "engine-api-key", "key": "token"}}


def test_probes_are_the_plans() -> None:
    container = engine(server(single()))
    startup = container["startupProbe"]
    assert startup["httpGet"] == {"path": "/health", "port": "http"}
    assert startup["periodSeconds"] * startup["failureThreshold"] == 900
    assert container["livenessProbe"]["failureThreshold"] == 6


def test_a_readiness_path_that_needs_the_key_is_probed_with_it() -> None:
    """An HTTP probe would get 401 for ever, and the pod would never be ready."""
    command = engine(server(single()))["readinessProbe"]["exec"]["command"]
    assert command[:2] == ["python3", "-c"]
    compile(command[2], "probe", "exec")
    assert command[3] == "http://127.0.0.1:8000/v1/models"
    plan = changed(single(), deployments__0__probes__readiness_path="/health")
    assert engine(server(plan))["readinessProbe"]["httpGet"]["path"] == "/health"


def test_pods_are_confined() -> None:
    for template in templates():
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
        for container in spec["containers"] + spec["initContainers"]:
            context = container["securityContext"]
            assert (context["privileged"], context["allowPrivilegeEscalation"]) == (False, False)


def test_shared_memory_is_as_large_as_the_plan_says() -> None:
    for template, size in zip(templates(), ("16Gi", "64Gi", "64Gi"), strict=True):
        assert template["spec"]["volumes"][0] == {
            "name": "shm",
            "emptyDir": {"medium": "Memory", "sizeLimit": size},
        }
        assert {"name": "shm", "mountPath": "/dev/shm"} in engine(template)["volumeMounts"]


def test_weights_are_read_only_and_verified_before_the_engine_starts() -> None:
    for template in templates():
        spec = template["spec"]
        mounts = [m for c in spec["initContainers"] + spec["containers"] for m in c["volumeMounts"]]
        weights = [m for m in mounts if m["name"] == "weights"]
        assert len(weights) == 2
        assert all(m["readOnly"] and m["mountPath"] == "/models" for m in weights)
        verify = spec["initContainers"][0]
        assert env(verify) == {
            "MANIFEST": "/models/m/SHA256SUMS",
            "MANIFEST_SHA256": MANIFEST,
            "PARALLEL": str(engine(template)["resources"]["limits"]["cpu"]),
        }
        assert verify["image"].endswith(DIGEST)


def test_without_a_pinned_manifest_nothing_pretends_to_verify() -> None:
    data = single().as_dict()
    del data["deployments"][0]["weights"]["manifest_sha256"]
    assert "initContainers" not in server(Plan.model_validate(data))["spec"]


def test_the_engine_never_downloads() -> None:
    for template in templates():
        found = env(engine(template))
        assert (found["HF_HUB_OFFLINE"], found["TRANSFORMERS_OFFLINE"]) == ("1", "1")


def test_placement_follows_the_pool() -> None:
    spec = server(single())["spec"]
    assert spec["nodeSelector"] == {"rackwright.dev/pool": "h100"}
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]
    keys = [c["topologyKey"] for c in spec["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/rack", "kubernetes.io/hostname"]


def test_a_rack_is_exclusive_only_where_every_replica_can_have_one() -> None:
    """Two replicas of two nodes: on one rack exclusive placement would leave the second pending for ever."""
    annotation = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    shared = one(multi(), "LeaderWorkerSet")
    assert annotation not in shared["metadata"].get("annotations", {})
    term = member(multi(), "worker")["spec"]["affinity"]["podAffinity"]
    preferred = term["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
    assert preferred["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]
    assert preferred["topologyKey"] == "topology.kubernetes.io/rack"

    apart = changed(multi(), pools__0__nodes__2__rack="r2", pools__0__nodes__3__rack="r2")
    assert one(apart, "LeaderWorkerSet")["metadata"]["annotations"] == {
        annotation: "topology.kubernetes.io/rack"
    }
    assert "affinity" not in member(apart, "worker")["spec"]


@pytest.mark.parametrize("plan", [single(), multi()], ids=["single", "multi"])
def test_the_budget_covers_every_pod_of_the_deployment(plan: Plan) -> None:
    budget = one(plan, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    wanted = budget["selector"]["matchLabels"]
    assert wanted == FRONT
    found = [server(plan)] if plan.fabric is None else [member(plan, "leader"), member(plan, "worker")]
    assert all(wanted.items() <= template["metadata"]["labels"].items() for template in found)


def test_engine_ports_are_open_within_the_group_only() -> None:
    spec = one(multi(), "NetworkPolicy")["spec"]
    assert spec["podSelector"]["matchLabels"] == FRONT
    front, own = spec["ingress"]
    assert front["ports"] == [{"port": 8000, "protocol": "TCP"}]
    assert own == {"from": [{"podSelector": {"matchLabels": FRONT}}]}
    callers = [next(iter(peer.values()))["matchLabels"] for peer in front["from"]]
    assert callers == [
        {"app.kubernetes.io/component": "endpoint-picker"},
        {"kubernetes.io/metadata.name": "envoy-gateway-system"},
        {"kubernetes.io/metadata.name": "monitoring"},
    ]
    names, peers = spec["egress"]
    assert [p["port"] for p in names["ports"]] == [53, 53]
    assert peers == {"to": [{"podSelector": {"matchLabels": FRONT}}]}


def test_a_single_pod_opens_no_engine_port_at_all() -> None:
    spec = one(single(), "NetworkPolicy")["spec"]
    assert len(spec["ingress"]) == len(spec["egress"]) == 1


def test_the_service_does_not_take_the_name_that_the_group_takes() -> None:
    service = one(multi(), "Service", "chat-api")
    assert service["spec"]["selector"] == {**FRONT, "rackwright.dev/role": "leader"}


def test_marks_of_the_plan_are_on_objects_and_never_in_pods_or_selectors() -> None:
    """A mark that changes with every plan would roll every pod."""
    plan = multi()
    group = one(plan, "LeaderWorkerSet")
    assert group["metadata"]["labels"]["rackwright.dev/plan"] == "big"
    assert re.fullmatch("[0-9a-f]{12}", group["metadata"]["labels"]["rackwright.dev/plan-hash"])
    assert "rackwright.dev/plan" not in repr(group["spec"])
    assert "rackwright.dev/plan" not in repr(one(plan, "Service", "chat-api")["spec"])
    assert one(plan, "ConfigMap", "big-plan")["data"]["digest"] == plan.digest


def test_an_objects_hash_changes_with_the_object_and_only_then() -> None:
    """What the scaler owns is no part of it."""
    old, new = (
        multi(),
        changed(multi(), deployments__0__resources__cpus=40, deployments__0__layout__replicas=1),
    )
    hashes = [
        {name: o["metadata"]["labels"]["rackwright.dev/plan-hash"] for name, o in objects(p).items()}
        for p in (old, new)
    ]
    assert {n for n in hashes[0] if hashes[0][n] != hashes[1][n]} == {
        "LeaderWorkerSet chat",
        "ConfigMap big-plan",
    }
    scaled = changed(multi(), deployments__0__layout__replicas=1)
    assert objects(scaled)["LeaderWorkerSet chat"] == objects(old)["LeaderWorkerSet chat"]


def _weights(folder: Path) -> str:
    """Two files and their manifest; its digest."""
    folder.mkdir()
    lines = []
    for name, content in (("a.safetensors", b"one"), ("b with space.safetensors", b"two")):
        (folder / name).write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _verify(folder: Path, digest: str) -> subprocess.CompletedProcess[str]:
    """The init container's own command on real files."""
    container = server(single())["spec"]["initContainers"][0]
    return subprocess.run(
        container["command"], capture_output=True, text=True, timeout=30, check=False,
        env={
            "MANIFEST": str(folder / "SHA256SUMS"), "MANIFEST_SHA256": digest,
            "PARALLEL": "2", "PATH": "/usr/bin:/bin",
        },
    )  # fmt: skip


def test_right_weights_are_let_through_and_logged(tmp_path: Path) -> None:
    digest = _weights(tmp_path / "m")
    done = _verify(tmp_path / "m", digest)
    assert done.returncode == 0, done.stderr
    assert "a.safetensors: OK" in done.stdout
    assert "b with space.safetensors: OK" in done.stdout
    assert done.stdout.endswith(f"weights verified: manifest sha256 {digest}\n")


@pytest.mark.parametrize("fault", ["changed file", "missing file", "other manifest", "no manifest"])
def test_wrong_weights_stop_the_pod(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "m"
    digest = _weights(folder)
    if fault == "changed file":
        (folder / "a.safetensors").write_bytes(b"owe")
    elif fault == "missing file":
        (folder / "a.safetensors").unlink()
    elif fault == "other manifest":
        (folder / "SHA256SUMS").write_text("")
    else:
        (folder / "SHA256SUMS").unlink()
    done = _verify(folder, digest)
    assert done.returncode != 0
    assert "weights verified" not in done.stdout


class _Guarded(BaseHTTPRequestHandler):
    """Answers 200 to the right key, else 401, as the engine does below /v1."""

    def do_GET(self) -> None:
        right = self.headers.get("Authorization") == "Bearer right"
        self.send_response(200 if right else 401)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - name of the base class
        pass


@contextmanager
def _listening() -> Iterator[int]:
    http = HTTPServer(("127.0.0.1", 0), _Guarded)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield http.server_port
    finally:
        http.shutdown()
        http.server_close()


def test_the_readiness_probe_holds_the_key() -> None:
    source = engine(server(single()))["readinessProbe"]["exec"]["command"][2]
    with _listening() as port:
        codes = [
            subprocess.run(
                [sys.executable, "-c", source, f"http://127.0.0.1:{port}/v1/models"],
                capture_output=True, timeout=30, check=False, env={"VLLM_API_KEY": key},
            ).returncode
            for key in ("right", "wrong")
        ]  # fmt: skip
    assert codes == [0, 1]
