"""A small plan, built in code, for tests of the runner."""

from __future__ import annotations

from rackwright.plan import (
    Header,
    HostExpectation,
    Node,
    Plan,
    Pool,
    Rack,
    Site,
)
from rackwright.plan.expectations import GpuExpectation, OsExpectation
from rackwright.workload import Hardware, ModelChoice, Users, Workload


def small_plan(
    names: tuple[str, ...] = ("gpu-01", "gpu-02"), *, thp: tuple[str, ...] | None = ("never", "madvise")
) -> Plan:
    nodes = tuple(Node(name=name, rack="r01") for name in names)
    pool = Pool(
        name="h200",
        site="dc1",
        machine="hgx-h200",
        accelerator="h200",
        gpus_per_node=8,
        gpu_memory_gib=141,
        cpus_per_node=192,
        memory_gib_per_node=2048,
        nvme_bytes_per_node=10**13,
        idle_w_per_node=2000,
        full_load_w_per_node=10000,
        labels={},
        taints=(),
        nodes=nodes,
    )
    expected = HostExpectation(
        gpu=GpuExpectation(count=8, product="NVIDIA H200", pci_ids=("2335",)),
        os=OsExpectation(thp=thp),
    )
    rack = Rack(name="r01", rating_w=40000, power_factor=1.2, planned_full_load_w=20000, nodes=tuple(names))
    return Plan(
        header=Header(name="t", workload_digest="0", catalog_digest="0", generated_by="test"),
        workload=Workload(
            name="t",
            users=Users(dau=1000),
            model=ModelChoice(id="m"),
            hardware=Hardware(machine="hgx-h200"),
        ),
        sites=(Site(name="dc1", country="CN", target="hosts", zone="a", racks=(rack,)),),
        pools=(pool,),
        expectations={"h200": expected},
    )
