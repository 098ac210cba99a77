"""Small plans for tests of the program: one node a replica, and two over a RoCE fabric."""

from __future__ import annotations

from typing import Any

from rackwright.catalog import load_catalog
from rackwright.plan import Plan
from rackwright.sizing.size import size
from rackwright.workload import load_workload
from tests.golden import REPOSITORY

DIGEST = "sha256:" + "a" * 64
MANIFEST = "b" * 64
MODEL = "llama-3.3-70b"


def single() -> Plan:
    """Three replicas of one pod with four GPUs each, on two racks; the pool is full."""
    return Plan.model_validate(_single())


def multi() -> Plan:
    """Two replicas of two nodes with eight GPUs and rails each."""
    return Plan.model_validate(_multi())


def changed(plan: Plan, **path_values: Any) -> Plan:
    """``plan`` with values replaced; paths are dotted with double underscores, lists by index."""
    data = plan.as_dict()
    for path, value in path_values.items():
        *parents, last = path.split("__")
        place: Any = data
        for part in parents:
            place = place[int(part)] if part.isdigit() else place[part]
        place[int(last) if last.isdigit() else last] = value
    return Plan.model_validate(data)


def _single() -> dict[str, Any]:
    return {
        "header": _header("dev"),
        "workload": _workload("dev", "4x-h100"),
        "sites": [_site(racks={"r1": ["gpu-001", "gpu-002"], "r2": ["gpu-003"]})],
        "pools": [_pool(["r1", "r1", "r2"], gpus=4)],
        "deployments": [
            {
                **_deployment("chat"),
                "layout": {
                    "replicas": 3,
                    "tensor_parallel": 4,
                    "gpus_per_pod": 4,
                    "gpus_per_replica": 4,
                },
                "engine": _engine(
                    [_role("server", ["/models/m", "--tensor-parallel-size=4", "--port=8000"])]
                ),
                "resources": {"gpus": 4, "cpus": 16, "memory_gib": 200, "shm_gib": 16},
                "rollout": _rollout(surge=0, unavailable=1),
            }
        ],
        "volumes": [_volume("chat")],
        "routes": [_route("chat")],
        "scaling": [],
        "observability": _observability("chat"),
        "platform": _platform(),
        "expectations": _expectations(gpus=4),
    }


def _multi() -> dict[str, Any]:
    base = _single()
    common = ["/models/m", "--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--nnodes=2"]
    address = "--master-addr=$(LWS_LEADER_ADDRESS)"
    return {
        **base,
        "header": _header("big"),
        "sites": [_site(racks={"r1": [f"gpu-00{n}" for n in range(1, 5)]})],
        "pools": [_pool(["r1"] * 4, gpus=8, rails=2)],
        "expectations": _expectations(gpus=8),
        "fabric": _fabric(),
        "deployments": [
            {
                **_deployment("chat"),
                "layout": {
                    "replicas": 2,
                    "tensor_parallel": 8,
                    "pipeline_parallel": 2,
                    "nodes_per_replica": 2,
                    "gpus_per_pod": 8,
                    "gpus_per_replica": 16,
                },
                "engine": _engine(
                    [
                        _role("leader", [*common, "--node-rank=0", address, "--port=8000"]),
                        _role("worker", [*common, "--node-rank=$(LWS_WORKER_INDEX)", address, "--headless"]),
                    ]
                ),
                "resources": {"gpus": 8, "cpus": 32, "memory_gib": 800, "shm_gib": 64},
                "rollout": _rollout(surge=0, unavailable=1),
            }
        ],
        "scaling": [_scaling("chat", "LeaderWorkerSet")],
    }


def _header(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "workload_digest": "0" * 64,
        "catalog_digest": "1" * 64,
        "generated_by": "rackwright tests",
    }


def _workload(name: str, machine: str) -> dict[str, Any]:
    return {
        "name": name,
        "users": {"dau": 1000},
        "model": {"id": MODEL},
        "hardware": {"machine": machine},
    }


def _site(racks: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "name": "dc1",
        "country": "CN",
        "target": "kubernetes",
        "zone": "dc1",
        "racks": [
            {
                "name": name,
                "rating_w": 40000.0,
                "power_factor": 1.2,
                "planned_full_load_w": 20000.0,
                "nodes": nodes,
            }
            for name, nodes in racks.items()
        ],
    }


def _expectations(gpus: int) -> dict[str, Any]:
    return {"h100": {"gpu": {"count": gpus, "product": "NVIDIA H100 80GB HBM3", "pci_ids": ["10de:2330"]}}}


def _pool(racks: list[str], gpus: int, rails: int = 0) -> dict[str, Any]:
    return {
        "name": "h100",
        "site": "dc1",
        "machine": f"{gpus}x-h100",
        "accelerator": "h100",
        "gpus_per_node": gpus,
        "gpu_memory_gib": 80.0,
        "cpus_per_node": 96,
        "memory_gib_per_node": 1024.0,
        "nvme_bytes_per_node": 10**13,
        "idle_w_per_node": 2000.0,
        "full_load_w_per_node": 6000.0,
        "labels": {"rackwright.dev/pool": "h100"},
        "taints": [{"key": "nvidia.com/gpu", "value": "present"}],
        "nodes": [
            {
                "name": f"gpu-{n:03}",
                "rack": rack,
                "rail_addresses": [f"10.240.{64 * rail}.{2 * n - 1}/31" for rail in range(rails)],
            }
            for n, rack in enumerate(racks, 1)
        ],
    }


def _fabric() -> dict[str, Any]:
    return {
        "kind": "roce",
        "rate_gbps": 400,
        "mtu": 9000,
        "active_mtu": 4096,
        "nic_vendor": "15b3",
        "nic_type": "1021",
        "namespace": "nvidia-network-operator",
        "management_interface": "eth0",
        "nccl_env": {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "NCCL_SOCKET_IFNAME": "eth0"},
        "qos": {
            "lossless_priority": 3,
            "dscp": 24,
            "tos": 96,
            "pfc": [False, False, False, True, False, False, False, False],
            "ecn": True,
            "cnp_priority": 6,
            "cnp_dscp": 48,
        },
        "rails": [
            {
                "index": n,
                "hca": f"mlx5_{n}",
                "netdev": f"rail{n}",
                "pci_address": f"0000:{n + 1}8:00.0",
                "subnet": f"10.240.{64 * n}.0/18",
                "node_prefix": 31,
                "resource": f"rail_{n}",
                "network": f"rail-{n}",
            }
            for n in range(2)
        ],
    }


def _deployment(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "pool": "h100",
        "model": MODEL,
        "served_name": MODEL,
        "context_tokens": 32768,
        "weights": {
            "source": MODEL,
            "quantisation": "fp8",
            "bytes": 70 * 10**9,
            "path": "/models/m",
            "manifest_path": "m/SHA256SUMS",
            "manifest_sha256": MANIFEST,
        },
        "memory": {
            "total_gib": 80.0,
            "weights_gib": 20.0,
            "kv_gib": 40.0,
            "activations_gib": 4.0,
            "overhead_gib": 2.0,
            "utilization": 0.9,
            "kv_bytes_per_token": 1000,
            "kv_tokens": 1000,
        },
        "estimate": {
            "output_tok_s": 1.0,
            "output_tok_s_low": 1.0,
            "output_tok_s_high": 1.0,
            "tpot_ms": 1.0,
            "ttft_ms": 1.0,
            "prefill_tok_s": 1.0,
            "concurrency": 1.0,
            "bandwidth_share": 0.5,
            "evidence": "assumed",
        },
        "slo": {"ttft_p95_ms": 500.0, "tpot_p50_ms": 33.3, "e2e_p95_ms": 60000.0, "success_share": 0.995},
        "limits": {
            "max_num_seqs": 64,
            "max_queued_requests": 128,
            "requests_per_s": 10.0,
            "tokens_per_s": 1000.0,
            "connections": 128,
            "ttft_cutoff_ms": 1000.0,
            "total_cutoff_ms": 120000.0,
        },
        "probes": {
            "path": "/health",
            "readiness_path": "/v1/models",
            "startup_period_s": 10,
            "startup_failures": 90,
            "readiness_period_s": 5,
            "readiness_failures": 3,
            "liveness_period_s": 10,
            "liveness_failures": 6,
        },
        "disruption_max_unavailable": 1,
    }


def _engine(roles: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "vllm",
        "version": "0.33.0",
        "image": f"vllm/vllm-openai@{DIGEST}",
        "port": 8000,
        "roles": roles,
    }


def _role(role: str, args: list[str]) -> dict[str, Any]:
    return {"role": role, "command": ["vllm", "serve"], "args": args, "env": {"VLLM_NO_USAGE_STATS": "1"}}


def _rollout(surge: int, unavailable: int) -> dict[str, Any]:
    return {
        "max_surge": surge,
        "max_unavailable": unavailable,
        "drain_s": 30,
        "termination_grace_s": 330,
        "progress_deadline_s": 1800,
    }


def _volume(deployment: str) -> dict[str, Any]:
    return {
        "name": f"{deployment}-weights",
        "deployment": deployment,
        "size_gib": 200,
        "storage_class": "weights",
        "mount_path": "/models",
    }


def _route(deployment: str) -> dict[str, Any]:
    return {
        "deployment": deployment,
        "gateway": "llm",
        "gateway_class": "eg",
        "hostname": "llm.example.com",
        "pool": deployment,
        "picker_service": f"{deployment}-picker",
        "picker_port": 9002,
        "picker_image": f"ghcr.io/llm-d/llm-d-router-endpoint-picker@{DIGEST}",
        "request_timeout": "0s",
    }


def _scaling(deployment: str, kind: str) -> dict[str, Any]:
    return {
        "deployment": deployment,
        "kind": kind,
        "min_replicas": 1,
        "max_replicas": 2,
        "polling_s": 15,
        "cooldown_s": 600,
        "fallback_replicas": 2,
        "prometheus_url": "http://prometheus-operated.monitoring.svc:9090",
        "triggers": [
            {
                "query": 'sum(vllm:num_requests_waiting{namespace="llm"})',
                "threshold": "8",
                "activation": "1",
                "metric_type": "AverageValue",
            }
        ],
    }


def _observability(deployment: str) -> dict[str, Any]:
    ttft = "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))"
    return {
        "scrape_s": 15,
        "scrape_timeout_s": 10,
        "deployment_rules": {
            deployment: [
                {"record": "llm:ttft_seconds:p95", "expr": ttft},
                {
                    "alert": "TtftHigh",
                    "expr": "llm:ttft_seconds:p95 > 0.5",
                    "for_": "10m",
                    "severity": "warning",
                    "summary": "p95 time to first token is above its objective",
                },
            ]
        },
        "node_rules": [
            {
                "alert": "GpuXid",
                "expr": "DCGM_FI_DEV_XID_ERRORS > 0",
                "severity": "critical",
                "summary": "a GPU reported an Xid",
            }
        ],
    }


def _platform() -> dict[str, Any]:
    return {
        "namespace": "llm",
        "driver_owner": "gpu-operator",
        "driver_version": "595.91.07",
        "kernel_module": "open",
        "mig_strategy": "none",
        "operators": [
            {"name": "gpu-operator", "version": "v26.7.0", "namespace": "gpu-operator"},
            {"name": "network-operator", "version": "v26.7.0", "namespace": "nvidia-network-operator"},
            {"name": "leaderworkerset", "version": "v0.10.0", "namespace": "lws-system"},
            {"name": "keda", "version": "v2.18.0", "namespace": "keda"},
            {"name": "prometheus-operator", "version": "v0.85.0", "namespace": "monitoring"},
            {"name": "gateway", "version": "v1.9.0", "namespace": "envoy-gateway-system"},
        ],
    }


def with_node(name: str) -> Plan:
    """An example sized again with one spare node more, as its owner would."""
    workload = load_workload(REPOSITORY / "inventory" / name / "workload.yaml")
    hardware = workload.hardware.model_copy(update={"spares": workload.hardware.spares + 1})
    return size(workload.model_copy(update={"hardware": hardware}), load_catalog())
