"""A plan, a registry and results of any size, the same at every call."""

from __future__ import annotations

from functools import cache

from checks.registry import Check, Command, Scope
from rackwright.plan import (
    Fabric,
    Header,
    HostExpectation,
    Node,
    NotApplicable,
    Operator,
    Plan,
    Platform,
    Pool,
    Qos,
    Rack,
    Rail,
    Site,
)
from rackwright.plan.expectations import (
    GpuExpectation,
    NvlinkExpectation,
    OsExpectation,
    PowerExpectation,
    RdmaExpectation,
    StorageExpectation,
)
from rackwright.verdict import Evidence, Load, Outcome, Result, Results, Severity, Status, passed
from rackwright.workload import Hardware, ModelChoice, Users, Workload

CRITICAL, MAJOR, WARN = Severity.CRITICAL, Severity.MAJOR, Severity.WARN

SMI = Command("smi", "nvidia-smi -q", timeout_s=30)
POWER = Command("bmc-power", "ipmitool dcmi power reading", root=True)
SENSORS = Command("bmc-sensors", "ipmitool sdr elist full", root=True)


def _judge(*_: object) -> Outcome:
    return passed("")


def _check(
    name: str,
    title: str,
    why: str,
    severity: Severity,
    command: Command,
    expects: str,
    remedy: str,
    *,
    reversible: bool = True,
    scope: Scope = Scope.HOST,
    tier: int = 0,
) -> Check:
    return Check(
        id=name, title=title, why=why, severity=severity, tier=tier, scope=scope, commands=(command,),
        expects=expects, remedy=remedy, reversible=reversible, source="vendor manual", judge=_judge,
        area=name.partition("-")[0],
    )  # fmt: skip


_CHECKS = [
    _check("os-thp", "Transparent huge pages as planned",
           "With `always` the kernel compacts memory while the engine allocates. Latency then has spikes.",
           MAJOR, Command("thp", "cat /sys/kernel/mm/transparent_hugepage/enabled"), "os.thp",
           "echo never | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
    _check("os-cstates", "Deep CPU idle states are off",
           "A core in a deep sleep answers a NIC interrupt too late.", MAJOR,
           Command("cpuidle", "grep . /sys/devices/system/cpu/cpu0/cpuidle/state*/name"),
           "os.cstates_allowed",
           "sudo grubby --update-kernel=ALL --args='intel_idle.max_cstate=1 processor.max_cstate=1' && "
           "sudo reboot"),
    _check("gpu-ecc", "ECC is on for every GPU",
           "Without ECC a flipped bit changes an answer and nobody notices. Some cards ship with it off.",
           CRITICAL, SMI, "gpu.ecc", "sudo nvidia-smi -e 1 && sudo reboot"),
    _check("gpu-temperature", "The hottest GPU stays below its limit",
           "A GPU that is too hot slows itself, and its whole replica with it.", CRITICAL, SMI,
           "gpu.temperature_max_c", "clean the filters, then measure again under full load."),
    _check("nvlink-links", "All NVLink links are up",
           "One missing link halves the bandwidth of tensor parallelism for all eight GPUs.", CRITICAL,
           Command("nvlink", "nvidia-smi nvlink --status"), "nvlink.links_per_gpu",
           "sudo systemctl restart nvidia-fabricmanager", reversible=False),
    _check("ib-link", "Every planned RDMA port is up at its rate",
           "A port that trained down slows every rank behind it.", CRITICAL,
           Command("ibv", "ibv_devinfo -v"), "rdma.ports", "sudo mlxlink -d mlx5_0 --port_state TG"),
    _check("roce-qos", "PFC and trust as on the switch",
           "RoCE without PFC on the right priority drops frames. Throughput then collapses under load.",
           MAJOR, Command("qos", "mlnx_qos -i eth0", root=True), "rdma.pfc",
           "sudo mlnx_qos -i eth0 --trust dscp --pfc 0,0,0,1,0,0,0,0"),
    _check("nvme-headroom", "Room for twice the weights",
           "A new version is written beside the old one. Without room the rollout stops half way.", CRITICAL,
           Command("df", 'df -P -B1 -- "$RW_MODEL_DIR"', variables=("RW_MODEL_DIR",)),
           "storage.headroom_bytes", "sudo lvextend -r -L +2T /dev/models/weights"),
    _check("power-rack-budget", "The rack stays within its rating",
           "A breaker that trips takes the whole rack.", CRITICAL, POWER, "power.full_load_w",
           "sudo nvidia-smi -pl 600", scope=Scope.RACK, tier=3),
    _check("thermal-delta", "Inlet to outlet below the limit",
           "A larger difference means that air goes round instead of through.", MAJOR, SENSORS,
           "power.inlet_outlet_delta_c", "close the blank panels of the rack, then measure again."),
    _check("uniform-driver", "One driver version in a pool",
           "Two driver versions in one replica group fail in ways that look like a network fault.", CRITICAL,
           Command("modinfo", "cat /proc/driver/nvidia/version"), "gpu.driver_pinned",
           "sudo apt-get install -y --allow-downgrades nvidia-driver-580=580.95.05-1", scope=Scope.POOL),
    _check("os-log", "The kernel log is quiet", "An error in the log is often the first sign.", WARN,
           Command("dmesg", "dmesg --level=err", root=True), "os.kernel_faults",
           "dmesg --level=err,warn -T | tail -50"),
]  # fmt: skip

REGISTRY: dict[str, Check] = {c.id: c for c in sorted(_CHECKS, key=lambda c: c.id)}


def wide_registry(count: int) -> dict[str, Check]:
    """``count`` checks in ten areas."""
    areas = ("access", "gpu", "ib", "net", "nvlink", "nvme", "os", "power", "roce", "thermal")
    out = dict(REGISTRY)
    number = 0
    while len(out) < count:
        area = areas[number % len(areas)]
        name = f"{area}-item{number // len(areas) + 1:02}"
        out[name] = _check(
            name, f"{area} item {number}", "It matters.", MAJOR,
            Command(name, f"cat /proc/{area}/{number}"), "os.swap", f"sudo fix-{area} {number}",
        )  # fmt: skip
        number += 1
    return dict(sorted(out.items()))


def hosts_of(racks: int, per_rack: int) -> list[tuple[str, str]]:
    """(host, rack), racks from r01 or r001."""
    digits = 2 if racks < 100 else 3
    names = [(f"r{r:0{digits}}", n) for r in range(1, racks + 1) for n in range(1, per_rack + 1)]
    return [(f"{rack}-gpu-{n:02}", rack) for rack, n in names]


def plan(racks: int = 2, per_rack: int = 2) -> Plan:
    placed = hosts_of(racks, per_rack)
    names = list(dict.fromkeys(rack for _, rack in placed))
    return Plan(
        header=Header(
            name="chat-50k", workload_digest="w" * 64,
            catalog_digest="c" * 64, generated_by="rackwright 0.1.0",
        ),
        workload=Workload(
            name="chat-50k", users=Users(dau=50_000), model=ModelChoice(id="deepseek-v3"),
            hardware=Hardware(machine="hgx-h200-8", fabric="roce"),
        ),
        sites=(
            Site(name="dc1", country="CN", target="kubernetes", zone="dc1-a", racks=tuple(
                Rack(name=name, rating_w=max(17_000, 8_000 * per_rack), power_factor=1.2,
                     planned_full_load_w=6_500.0 * per_rack, nodes=tuple(h for h, r in placed if r == name))
                for name in names
            )),
        ),
        pools=(
            Pool(
                name="hot", site="dc1", machine="hgx-h200-8", accelerator="H200", gpus_per_node=8,
                gpu_memory_gib=141,
                cpus_per_node=192, memory_gib_per_node=2048, nvme_bytes_per_node=30_720_000_000_000,
                idle_w_per_node=2100, full_load_w_per_node=6500, labels={}, taints=(),
                nodes=tuple(
                    Node(name=h, rack=r, spare=i == len(placed) - 1, rail_addresses=(f"10.0.0.{i % 250}/24",))
                    for i, (h, r) in enumerate(placed)
                ),
            ),
        ),
        fabric=Fabric(
            kind="roce", rate_gbps=400, mtu=9000, active_mtu=4096, nic_vendor="NVIDIA", nic_type="ConnectX-7",
            firmware="28.43.1014", namespace="network", management_interface="eno1", nccl_env={},
            rails=(
                Rail(index=0, hca="mlx5_0", netdev="eth0", pci_address="0000:1a:00.0", subnet="10.0.0.0/24",
                     node_prefix=24, resource="rail0", network="rail0"),
            ),
            qos=Qos(lossless_priority=3, dscp=26, tos=104, ecn=True, cnp_priority=6, cnp_dscp=48,
                    pfc=(False, False, False, True, False, False, False, False)),
        ),
        platform=Platform(
            namespace="serving", driver_owner="host", driver_version="580.95.05", kernel_module="open",
            mig_strategy="none",
            operators=(Operator(name="network-operator", version="25.7.0", namespace="network"),),
        ),
        expectations={
            "hot": HostExpectation(
                gpu=GpuExpectation(count=8, product="NVIDIA H200", pci_ids=("10de:2335",), ecc=True,
                                   temperature_max_c=85, driver_pinned="580.95.05"),
                nvlink=NvlinkExpectation(links_per_gpu=18),
                rdma=RdmaExpectation(pfc=(False, False, False, True, False, False, False, False),
                                     ports=NotApplicable(not_applicable="no InfiniBand in this plan")),
                os=OsExpectation(thp=("never", "madvise"), cstates_allowed=("POLL", "C1")),
                storage=StorageExpectation(model_dir="/var/lib/models", headroom_bytes=1_400_000_000_000),
                power=PowerExpectation(full_load_w=6500, factor=1.2, inlet_outlet_delta_c=15),
            ),
        },
    )  # fmt: skip


@cache
def thousand() -> tuple[Results, dict[str, Check]]:
    """A thousand hosts in 125 racks, sixty checks, and their registry."""
    registry = wide_registry(60)
    return results(racks=125, per_rack=8, checks=registry), registry


HOSTILE = "<script>alert('x')</script></script><!--<script>\x1b[31m|`${1}` \u202eevil & \"quoted\"\nline two"


def results(
    *, racks: int = 2, per_rack: int = 2, checks: dict[str, Check] | None = None, faults: bool = True
) -> Results:
    """One run: with ``faults``, every kind of verdict stands somewhere in it."""
    registry = checks or REGISTRY
    placed = hosts_of(racks, per_rack)
    last = placed[-1][0]
    out: list[Result] = []
    for index, (host, _) in enumerate(placed):
        if faults and host == last:
            continue
        per_host = (item for item in registry.values() if item.scope is Scope.HOST)
        out += [_host_result(item, host, index, faults) for item in per_host]
    racks_named = dict.fromkeys(r for _, r in placed)
    out += [_rack_result(registry["power-rack-budget"], rack, faults) for rack in racks_named]
    out.append(_pool_result(registry["uniform-driver"], placed[0][0], faults))
    return Results(
        plan="chat-50k",
        plan_digest=plan(racks, per_rack).digest,
        inventory="hosts.ini",
        started="2026-03-04T05:06:07Z",
        seconds=41.2,
        hosts=tuple(h for h, _ in placed),
        unreachable={last: f"{last}: no route to host (10.0.9.9:22)"} if faults else {},
        results=tuple(out),
    )


def _result(item: Check, subject: str, outcome: Outcome, excerpt: str, pool: str = "hot") -> Result:
    return Result(
        check=item.id, subject=subject, scope=item.scope.value, pool=pool, title=item.title,
        severity=item.severity, remedy=item.remedy, plan_path=f"expectations.{pool}.{item.expects}",
        evidence=(Evidence(command=item.commands[0].shell, rc=0, excerpt=excerpt),),
        **outcome.model_dump(),
    )  # fmt: skip


def _host_result(item: Check, host: str, index: int, faults: bool) -> Result:
    heat = 52 + index * 7 % 9
    good: dict[str, tuple[str, str, str]] = {
        "os-thp": ("madvise", "never or madvise", "always [madvise] never"),
        "gpu-ecc": ("on, 8 GPUs", "on", "ECC Mode\n    Current : Enabled"),
        "nvlink-links": ("18 links on 8 GPUs", "18", "GPU 0: NVIDIA H200\n  Link 0: 26.562 GB/s"),
        "roce-qos": ("dscp, PFC 3", "dscp, PFC 3", "Priority trust state: dscp\n  enabled 0 0 0 1 0 0 0 0"),
        "nvme-headroom": (
            "2.9 TB free",
            "more than 1.4 TB",
            "/dev/md0 3840755982336 940755982336 2900000000000",
        ),
    }
    actual, expected, excerpt = good.get(item.id, ("as planned", "as planned", "ok"))
    status, message, load, where = Status.PASS, "", None, ()
    if item.id in ("gpu-temperature", "thermal-delta"):
        hot = item.id == "gpu-temperature"
        actual, expected, load = (
            (f"{heat} °C", "below 85 °C", Load.IDLE) if hot else ("9 °C", "below 15 °C", Load.IDLE)
        )
        status, message, excerpt = Status.WARN, "open: measured at idle", f"GPU Current Temp : {heat} C"
    if item.id == "ib-link":
        status, actual, message = Status.NOT_APPLICABLE, "", "no InfiniBand in this plan"
    if faults:
        spot = index % 40
        if item.id == "gpu-ecc" and spot in (0, 1):
            status, actual, where = Status.FAIL, "off", tuple(f"gpu {n}" for n in range(8))
            message, excerpt = (
                "gpu 0-7: ECC is off",
                "ECC Mode\n    Current : Disabled\n    Pending : Disabled",
            )
        elif item.id == "os-thp" and spot == 1:
            status, actual, excerpt = Status.FAIL, "always", "[always] madvise never"
        elif item.id == "nvlink-links" and spot == 2:
            status, actual, message = (
                Status.ERROR,
                "",
                "`nvidia-smi nvlink --status` did not finish within 30 s",
            )
        elif item.id == "os-log" and spot == 2:
            status, actual, expected, excerpt = Status.WARN, "3 corrected AER errors", "none", HOSTILE
    return _result(
        item, host,
        Outcome(status=status, expected=expected, actual=actual, message=message, load=load, where=where),
        excerpt,
    )  # fmt: skip


def _rack_result(item: Check, rack: str, faults: bool) -> Result:
    over = faults and rack.endswith("2")
    outcome = Outcome(
        status=Status.FAIL if over else Status.WARN,
        actual="14.6 kW" if over else "4.2 kW",
        expected="× 1.2 below 17.0 kW",
        message="14.6 kW × 1.2 = 17.5 kW" if over else "open: measured at idle",
        load=Load.FULL if over else Load.IDLE,
    )
    return _result(item, rack, outcome, "Instantaneous power reading: 7300 Watts", pool="")


def _pool_result(item: Check, host: str, faults: bool) -> Result:
    outcome = (
        Outcome(
            status=Status.FAIL, actual=f"580.95.05; {host} has 570.86.15", expected="580.95.05", where=(host,)
        )
        if faults
        else passed("580.95.05", "580.95.05")
    )
    return _result(item, "hot", outcome, "NVRM version: NVIDIA UNIX Open Kernel Module  570.86.15")
