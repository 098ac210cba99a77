"""What the hardware cannot do, or only with care."""

from __future__ import annotations

from rackwright.sizing import vendor_expectations
from rackwright.sizing.cautions.base import CHECKLIST, GUIDE, INFRASTRUCTURE, Finding, Rule, Severity, Sized
from rackwright.sizing.devices import device_of
from rackwright.sizing.estimate import GIB
from rackwright.sizing.layout import MESHES

HOUSEHOLD_W = 1800
"""Full-load power from which a household circuit has nothing in hand: 2.3 kW / 1.2, rounded down."""
READS_A_SECOND = 8
"""Bandwidth over memory below which memory is capacity, not speed: unified memory has 1.6–7."""
PERSONAL = 3
"""Users at a time of a personal machine (hardware-selection guide: 1–3)."""
RDMA_FROM = 8
RDMA_USERS = 100_000
"""Nodes and daily users from which the guide must have RDMA."""
CORES_PER_GPU = 2


def pcie_tensor_parallel(s: Sized) -> Finding | None:
    """Tensor parallelism over PCIe beyond two cards does not pay."""
    shape = s.chosen.candidate.shape
    link = s.stand.accelerator.interconnect
    if shape.tp <= 2 or (link is not None and (link.kind == "nvlink" or link.kind in MESHES)):
        return None
    return (
        "refuse",
        f"Tensor parallelism of {shape.tp} over PCIe: the all-reduces eat what the cards add.",
        "TP 2 over PCIe is the most that pays",
        GUIDE + ", pitfalls",
    )


def accelerator_unread(s: Sized) -> Finding | None:
    """Alerts do not watch other vendors' accelerators; the preflight reads the tools of most."""
    card = s.stand.accelerator
    if card.vendor == "nvidia":
        return None
    device = device_of(card)
    return (
        "warn",
        f"The alerts read DCGM: of {card.name} only the engine is watched in service. "
        + (
            f"The preflight reads {device.tool}"
            if card.vendor in vendor_expectations.TOOLS
            else f"No check reads {device.tool} either: prove the hosts with it"
        )
        + (
            f"; driver and device plugin, which advertises {device.resource}, are somebody else's."
            if s.workload.site.target == "kubernetes"
            else "."
        ),
        "what checks and exporters read",
        CHECKLIST + ", hardware",
    )


def host_memory_small(s: Sized) -> Finding | None:
    """The pods of a node ask for more memory than it has."""
    pods = s.stand.replicas_per_node(s.chosen.candidate)
    asked, has = s.pod_memory_gib * pods, s.stand.machine.memory.value
    unified = not has  # the accelerator's memory is the host's: red line 1 counts it
    if unified or asked <= has * 0.9:
        return None
    return (
        "refuse",
        f"{pods} pods of {s.pod_memory_gib} GiB do not fit {has:,.0f} GiB of a node with a tenth in hand; "
        "they would not be scheduled.",
        "1.2 × weights and shared memory a pod",
        INFRASTRUCTURE + ": memory ≥ 1.2 × GPU memory used",
    )


def consumer_card(s: Sized) -> Finding | None:
    """The licence of consumer drivers bars data centres."""
    if not s.stand.accelerator.eula_restricted:
        return None
    return (
        "refuse",
        f"The driver licence of {s.stand.accelerator.name} bars its use in a data centre; it has no NVLink, "
        "MIG or ECC.",
        "licence",
        GUIDE + ", pitfalls",
    )


def household_power(s: Sized) -> Finding | None:
    """A household circuit carries 2.3 kW."""
    full = s.stand.machine.full_load.value
    if s.stand.machine.form != "workstation" or full < HOUSEHOLD_W:
        return None
    card = s.stand.accelerator
    said = ""
    if card.id == "rtx-pro-6000":
        said = (
            f" The guide's 300 W a card is the Max-Q, its 500 W a machine too little: this card takes "
            f"{card.power_limit.value:,.0f} W."
        )
    return (
        "warn",
        f"{s.stand.machine.name} draws {full:,.0f} W at full load: a 10 A/230 V household circuit is at its "
        f"limit.{said}",
        "two cards and an EPYC draw 1.8 kW",
        GUIDE + ", power; card data",
    )


def ecc_off_as_shipped(s: Sized) -> Finding | None:
    """Workstation cards come with ECC off."""
    if s.stand.accelerator.ecc != "switchable":
        return None
    return (
        "info",
        "ECC is off as shipped on workstation cards: nvidia-smi -e 1 and a reboot; the preflight expects it "
        "on.",
        "card data",
        CHECKLIST + ": ECC on",
    )


def nic_names(s: Sized) -> Finding | None:
    """Names of NICs and their order differ between makers."""
    if s.fabric is None:
        return None
    return (
        "warn",
        "Names and PCI addresses of the fabric NICs are this catalog's; machines of other makers differ. The "
        "preflight compares them with every host: correct the catalog entry before the network is built. "
        "Where pods receive virtual functions, their devices must carry the names in NCCL_IB_HCA.",
        "not read from a machine",
        s.stand.machine.id,
    )


def memory_without_bandwidth(s: Sized) -> Finding | None:
    """Memory that cannot be read fast enough holds a model and does not serve it."""
    card = s.stand.accelerator
    reads = card.bandwidth.value / (card.memory_gib * GIB / 1e9)
    if reads >= READS_A_SECOND:
        return None
    return (
        "warn",
        f"{card.name} reads its {card.memory_gib:,.0f} GiB {reads:.1f} times a second: a model that fills it "
        f"gives one user at most as many tokens. It fits more than it serves.",
        "bandwidth over memory; HBM parts read theirs 20–40 times",
        GUIDE + ", pitfalls: memory without bandwidth",
    )


def rtx_5090_limits(s: Sized) -> Finding | None:
    """A 5090 is no bigger 4090."""
    if s.stand.accelerator.id != "rtx-5090":
        return None
    return (
        "warn",
        "An RTX 5090 draws 575 W, has no NVLink, MIG or vGPU; two need a supply of 1,600 W and do not share "
        "their memory. Stacks of eight are refused by licence, power and noise.",
        "card data",
        GUIDE + ", pitfalls",
    )


def apple_serves_few(s: Sized) -> Finding | None:
    """Unified memory holds large models for one person."""
    at_a_time = s.chosen.candidate.sequences
    if s.stand.accelerator.vendor != "apple" or at_a_time <= PERSONAL:
        return None
    return (
        "warn",
        f"{s.stand.machine.name} is a personal machine: {at_a_time:,} requests at a time are more than its "
        "bandwidth and its engines' batching carry.",
        "measured figures are for a single stream",
        GUIDE + ", pitfalls: Macs cannot serve many users",
    )


def ascend_lags(s: Sized) -> Finding | None:
    """New models reach Ascend later, and need people who know it."""
    if s.stand.accelerator.vendor != "huawei":
        return None
    return (
        "warn",
        "New models reach Ascend 2–8 weeks after their release, first of all DeepSeek, Qwen and GLM; the "
        "team needs one engineer who knows MindIE.",
        "guide",
        GUIDE + ", pitfalls and team choices",
    )


def rdma_missing(s: Sized) -> Finding | None:
    """Many nodes without RDMA cannot share a KV cache or split prefill from decode."""
    if s.fabric is not None or s.chosen.nodes < RDMA_FROM:
        return None
    severity: Severity = "warn" if s.workload.users.dau >= RDMA_USERS else "info"
    return (
        severity,
        f"{s.chosen.nodes:,} serving nodes have no RDMA fabric: every replica stays inside a "
        f"{'node' if s.stand.machine.nodes == 1 else 'rack'}, and "
        "neither a KV cache across nodes nor a split of prefill and decode can be added later without one.",
        "plan",
        GUIDE + ": 400G InfiniBand or RoCE from 100,000 daily users, 8 nodes",
    )


def cpus_short(s: Sized) -> Finding | None:
    """An engine's processes need two cores a GPU."""
    cores = s.stand.machine.cores.value
    if cores >= CORES_PER_GPU * s.stand.gpus:
        return None
    return (
        "warn",
        f"{s.stand.machine.name} has {cores:,.0f} cores for {s.stand.gpus} GPUs; {CORES_PER_GPU} a GPU are "
        "the least: tokenising and scheduling would starve the GPUs.",
        "catalog",
        INFRASTRUCTURE + ": CPU : GPU ≥ 2 : 1",
    )


RULES: tuple[Rule, ...] = (
    pcie_tensor_parallel,
    host_memory_small,
    consumer_card,
    memory_without_bandwidth,
    rtx_5090_limits,
    apple_serves_few,
    ascend_lags,
    rdma_missing,
    cpus_short,
    household_power,
    ecc_off_as_shipped,
    nic_names,
    accelerator_unread,
)
