"""What NVIDIA's DRA driver would publish: classes of devices, and the devices of every node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackwright.plan import Node, Plan, Pool
from rackwright.sizing.claims import GPU_CLASS, MIG_CLASS

API = "/apis/resource.k8s.io/v1"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
CHANNEL_DRIVER = "compute-domain.nvidia.com"
UUID = "6f6c6162-0000-4000-8000-000000000001"
"""Of the fabric manager's cluster, as drivers report it."""


def classes(plan: Plan) -> Iterator[dict[str, Any]]:
    """The driver's device classes, for a plan that claims."""
    if plan.claims is None:
        return
    for name, driver, kind in (
        (GPU_CLASS, GPU_CLASS, "gpu"),
        (MIG_CLASS, GPU_CLASS, "mig"),
        (CHANNEL_CLASS, CHANNEL_DRIVER, "channel"),
    ):
        expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"
        yield {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def slices(plan: Plan, pool: Pool, node: Node) -> Iterator[dict[str, Any]]:
    """Devices of one node: cards or their instances, and one channel into a compute domain."""
    if plan.claims is None:
        return
    yield _slice(node.name, GPU_CLASS, list(_devices(plan, pool)))
    yield _slice(node.name, CHANNEL_DRIVER, [("channel-0", {"type": "channel"})])


def _devices(plan: Plan, pool: Pool) -> Iterator[tuple[str, dict[str, str]]]:
    pieces = plan.tenancy.slices if plan.tenancy else ()
    for gpu in range(pool.gpus_per_node):
        if not pieces:
            yield f"gpu-{gpu}", {"type": "gpu"}
        for piece in pieces:
            for number in range(piece.per_gpu):
                name = f"gpu-{gpu}-{str(piece.profile).replace('.', '-')}-{number}"
                yield name, {"type": "mig", "profile": str(piece.profile)}


def _slice(node: str, driver: str, devices: list[tuple[str, dict[str, str]]]) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": name, "attributes": {key: {"string": value} for key, value in said.items()}}
                for name, said in devices
            ],
        },
    }


def clique(plan: Plan, node: Node) -> dict[str, str]:
    """The label by which GPU feature discovery tells a node's NVLink domain: one a rack."""
    if plan.claims is None:
        return {}
    racks = [rack.name for rack in plan.racks()]
    return {domain.topology: f"{UUID}.{racks.index(node.rack)}" for domain in plan.claims.domains}


def channels(plan: Plan) -> Iterator[dict[str, Any]]:
    """Templates that the driver makes for the compute domains that it sees."""
    for domain in plan.claims.domains if plan.claims else ():
        request = {
            "name": "channel",
            "exactly": {"deviceClassName": CHANNEL_CLASS, "allocationMode": "ExactCount", "count": 1},
        }
        yield {
            "metadata": {"name": domain.channel},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
