"""The plans that simulated hosts are built from in tests."""

from __future__ import annotations

from functools import cache

from rackwright.plan import Plan, load_plan
from rackwright.plan.base import NotApplicable
from rackwright.plan.expectations import RdmaExpectation
from tests.golden import REPOSITORY
from tools.rack.machine_plans import machine_plan

MACHINES = ("mi300x-8", "atlas-800i-a2", "mac-studio-m3-ultra-512", "mlu370-x8-8", "mtt-s5000-8")
"""Of the catalog, with accelerators of other vendors than NVIDIA."""
NAMES = ("roce-100k", "h200-10k", "dev-1k", "infiniband", "tenants", "nvl72")


@cache
def plan(name: str) -> Plan:
    if name in MACHINES:
        return machine_plan(name, nodes=4)
    if name == "infiniband":
        return _infiniband(plan("roce-100k"))
    return load_plan(REPOSITORY / "inventory" / name / "plan.yaml")


def _infiniband(roce: Plan) -> Plan:
    """The same hosts on an InfiniBand fabric: no inventory has one yet."""
    assert roce.fabric
    none = NotApplicable(not_applicable="InfiniBand is lossless by itself")
    pools = {}
    for name, expected in roce.expectations.items():
        ports = expected.rdma.ports
        assert isinstance(ports, tuple)
        rdma = RdmaExpectation.model_validate(
            {
                **expected.rdma.model_dump(),
                "gid_type": NotApplicable(not_applicable="InfiniBand addresses by LID"),
                **dict.fromkeys(("mtu", "active_mtu", "trust", "pfc", "dscp", "dscp_priority"), none),
                "ports": [{**p.model_dump(), "link_layer": "InfiniBand"} for p in ports],
                "traffic_class": none,
                "subnet_manager": True,
                "gpudirect": True,
                "acs_redirect": False,
                "link_flaps_max": 0,
            }
        )
        pools[name] = expected.model_copy(update={"rdma": rdma})
    fabric = roce.fabric.model_copy(update={"kind": "infiniband", "qos": None})
    return roce.model_copy(update={"fabric": fabric, "expectations": pools})
