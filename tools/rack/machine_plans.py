"""A plan for any machine of the catalog, so that it can be simulated before plans of its engines are sized.

What the hosts must show is the product's own (``rackwright.sizing.expectations``); only the layout, one pool
in one rack, is made up here.
"""

from __future__ import annotations

from rackwright.catalog import load_catalog
from rackwright.plan import HostExpectation, Plan
from rackwright.sizing.expectations import expectation
from rackwright.workload import Workload

WEIGHT_BYTES = 150_000_000_000
RACK_W = 200_000.0
NTP = ["ntp1.dc1.internal"]


def machine_plan(machine_id: str, *, nodes: int = 2, name: str = "", driver: str = "580.105.08") -> Plan:
    """``nodes`` machines in one rack, on hosts without Kubernetes and without a fabric.

    Raises:
        KeyError: the catalog has no such machine.
    """
    catalog = load_catalog()
    machine = catalog.machines[machine_id]
    card = catalog.accelerator_of(machine)
    name = name or machine_id
    workload = {
        "schema": "rackwright/workload/v1", "name": name, "users": {"dau": 1000},
        "model": {"id": "llama-3.3-70b-instruct"}, "hardware": {"machine": machine_id},
        "site": {"name": "dc1", "country": "CN", "target": "hosts", "ntp": NTP},
    }  # fmt: skip
    wanted: HostExpectation = expectation(
        Workload.model_validate(workload), machine, card,
        fabric=None, driver=driver, engine="vllm", image="docker.io/vllm/vllm-openai",
        weight_bytes=WEIGHT_BYTES, power_factor=1.2,
    )  # fmt: skip
    hosts = [f"{machine.pool}-{n:02d}" for n in range(1, nodes + 1)]
    full = machine.full_load.value
    return Plan.model_validate(
        {
            "schema": "rackwright/plan/v1",
            "header": {"name": name, "workload_digest": "0", "catalog_digest": "0", "generated_by": "tools"},
            "workload": workload,
            "sites": [{
                "name": "dc1", "country": "CN", "target": "hosts", "zone": "dc1",
                "racks": [{"name": "r1", "rating_w": RACK_W, "power_factor": 1.2,
                           "planned_full_load_w": full * nodes, "nodes": hosts}],
            }],
            "pools": [{
                "name": machine.pool, "site": "dc1", "machine": machine_id, "accelerator": card.id,
                "gpus_per_node": int(machine.gpus.value), "gpu_memory_gib": card.memory_gib,
                "cpus_per_node": int(machine.threads.value), "memory_gib_per_node": machine.memory.value,
                "nvme_bytes_per_node": int(machine.nvme_count.value * machine.nvme_each.value * 1e9),
                "idle_w_per_node": machine.idle.value, "full_load_w_per_node": full, "labels": {},
                "taints": [], "nodes": [{"name": n, "rack": "r1"} for n in hosts],
            }],
            "expectations": {machine.pool: wanted.model_dump(mode="json")},
        }
    )  # fmt: skip
