"""Checks of the operating system: memory policy, idle states, clocks of the CPU, NUMA, IOMMU."""

from __future__ import annotations

from functools import lru_cache

from checks import fixes
from checks.areas._read import Context, absent, applies, fault, is_number, leaf, paths, verdict
from checks.commands import CMDLINE, CPUIDLE, GOVERNORS, LSCPU, MEMINFO, NUMA_BALANCING, SWAPS, THP
from checks.registry import check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity, failed, passed


@check(
    id="os-thp",
    title="Transparent huge pages as planned",
    severity=Severity.MAJOR,
    commands=[THP],
    expects="os.thp",
    remedy="echo never | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
    "  # lasting: transparent_hugepage=never on the kernel command line, then reboot",
    reversible=True,
    source="deployment checklist, system: transparent huge pages off; node-scraper and CVS check the same",
    ids=["S5"],
    fix=fixes.THP,
)
def transparent_huge_pages(view: HostView, want: tuple[str, ...]) -> Outcome:
    """With huge pages always on, the kernel stops the engine's threads to compact memory: latency spikes
    that no metric of the engine explains."""
    selected = view.facts(THP)["selected"]
    expected = " or ".join(want)
    if selected in want:
        return passed(selected, expected)
    return failed(selected, expected, f"transparent huge pages are set to {selected}")


@check(
    id="os-cstates",
    title="Deep CPU idle states off",
    severity=Severity.MAJOR,
    commands=[CPUIDLE],
    expects="os.cstates_allowed",
    remedy="sudo cpupower idle-set -D 2"
    "  # lasting: intel_idle.max_cstate=1 processor.max_cstate=1 on the kernel command line, then reboot",
    reversible=True,
    source="deployment checklist, system: CPU C-states off",
    ids=["S4"],
    fix=fixes.IDLE_STATES,
)
def idle_states(view: HostView, want: tuple[str, ...]) -> Outcome:
    """A core that wakes from a deep idle state delays each kernel launch and each network completion; at
    small batches that is visible in the time per token."""
    facts = view.facts(CPUIDLE)
    states = facts["states"] or []
    if not states:
        raise NotMeasured(
            f"the kernel manages no idle states (driver {facts['driver'] or 'unknown'}); in a virtual "
            "machine the plan must say that they do not apply"
        )
    kinds = dict.fromkeys((s["name"], s["disabled"]) for s in states)  # hundreds of CPUs, a few states
    enabled = [name for name, disabled in kinds if disabled is False]
    deep = [name for name in enabled if name not in want]
    unknown = [name for name, disabled in kinds if not isinstance(disabled, bool)]
    found = [fault("", f"enabled: {listing(deep)}")] if deep else []
    found += [absent("", f"state {name}", None) for name in dict.fromkeys(unknown)]
    return verdict(found, actual=", ".join(enabled) or "none enabled", expected=f"only {', '.join(want)}")


@lru_cache(maxsize=16)
def _governors(text: str) -> dict[str, dict[int, str]]:
    """Attribute, CPU to what it reads. Hosts of one kind print the same; nobody changes what is returned."""
    values: dict[str, dict[int, str]] = {
        "scaling_driver": {}, "scaling_governor": {}, "energy_performance_preference": {},
    }  # fmt: skip
    for (number, name), value in paths(text, r"/cpu(\d+)/cpufreq/(\w+)$"):
        values.setdefault(name, {})[int(number)] = value
    return values


@check(
    id="os-governor",
    title="CPU frequency governor as planned",
    severity=Severity.MAJOR,
    commands=[GOVERNORS],
    expects="os.governor",
    remedy="sudo cpupower frequency-set -g performance"
    "  # lasting: sudo tuned-adm profile throughput-performance",
    reversible=True,
    source="oci-hpc (CPU profile performance); with amd-pstate-epp its preference counts",
    fix=fixes.GOVERNOR,
)
def governor(view: HostView, want: str) -> Outcome:
    """A saving governor lets the cores that feed the GPUs run at a fraction of their clock at each start."""
    found: dict[str, list[str]] = {}
    text = view.text(GOVERNORS)
    values = _governors(text)
    if not text.rstrip().endswith("end"):
        raise NotMeasured("the list of frequency governors came back incomplete")
    if not values["scaling_governor"]:
        raise NotMeasured("the kernel shows no frequency governor")
    if set(values["scaling_governor"]) != set(values["scaling_driver"]):
        raise NotMeasured("the governors of some CPUs are missing in the output")
    by_preference = set(values["scaling_driver"].values()) & {"amd-pstate-epp", "intel_pstate"}
    for cpu, now in values["scaling_governor"].items():
        preference = values["energy_performance_preference"].get(cpu)
        by_epp = bool(by_preference) and now == "powersave" and preference == want
        if now != want and not by_epp:
            found.setdefault(now, []).append(str(cpu))
    shown = ", ".join(dict.fromkeys(values["scaling_governor"].values()))
    notes = [fault("", f"{len(cpus)} CPUs run {name}: {listing(cpus, 6)}") for name, cpus in found.items()]
    return verdict(notes, actual=f"{shown} on {len(values['scaling_governor'])} CPUs", expected=want)


@check(
    id="os-swap",
    title="Swap as planned",
    severity=Severity.MAJOR,
    commands=[SWAPS],
    expects="os.swap",
    remedy="sudo swapoff -a && sudo sed -i.bak '/\\sswap\\s/s/^/#/' /etc/fstab",
    reversible=True,
    source="azurehpc NHC and imbue check for none; kubelet refuses to start with swap on",
    fix=fixes.SWAP,
)
def swap(view: HostView, want: bool) -> Outcome:
    """An engine whose pinned host memory is pushed out stalls for seconds; without swap it is killed at once
    and restarted, which the load balancer understands."""
    areas = [s["name"] for s in view.facts(SWAPS)["swaps"] or []]
    actual = listing(areas) if areas else "off"
    expected = "on" if want else "off"
    found = [] if bool(areas) is want else [fault("", f"swap on {actual}" if areas else "no swap area")]
    return verdict(found, actual=actual, expected=expected)


@check(
    id="os-numa",
    title="NUMA nodes visible, balancing off",
    severity=Severity.MAJOR,
    commands=[CMDLINE, LSCPU, NUMA_BALANCING],
    expects="os.numa_nodes",
    remedy="sudo sysctl -w kernel.numa_balancing=0"
    "  # numa=off: take it from the kernel command line; node count: BIOS setting NPS or SNC; then reboot",
    reversible=True,
    source="deepops, CVS; seen in the field: two hosts of three booted with numa=off",
    fix=fixes.NUMA_BALANCING,
)
def numa(view: HostView, want: int, context: Context) -> Outcome:
    """With NUMA switched off in the kernel every GPU looks near to every core, and half of the traffic
    crosses the sockets' link unnoticed."""
    parameters = view.facts(CMDLINE)["parameters"]
    nodes = view.facts(LSCPU)["numa_nodes"]
    balancing = leaf(context, "os.numa_balancing")
    state = view.text(NUMA_BALANCING).strip()
    found = []
    if _has(parameters.get("numa"), "off"):
        found.append(fault("", "the kernel was booted with numa=off"))
    if not is_number(nodes):
        found.append(absent("", "number of NUMA nodes", nodes))
    elif nodes != want:
        found.append(fault("", f"{nodes} NUMA nodes"))
    if applies(balancing):
        if state not in ("0", "1", "2", "3", "absent"):
            raise NotMeasured(f"kernel.numa_balancing reads {state!r}")
        if (state in ("1", "2", "3")) is not balancing:
            found.append(fault("", f"NUMA balancing is {'off' if balancing else 'on'}"))
    shown = "on" if state in ("1", "2", "3") else "off"
    expected = f"{want} nodes" + (f", balancing {'on' if balancing else 'off'}" if applies(balancing) else "")
    return verdict(found, actual=f"{nodes} nodes, balancing {shown}", expected=expected)


def _has(value: object, word: str) -> bool:
    """Whether a kernel parameter, given once or more often, has ``word`` among its comma-separated values."""
    values = value if isinstance(value, list) else [value]
    return any(word in str(v).split(",") for v in values)


@check(
    id="os-memory",
    title="Memory as planned",
    severity=Severity.MAJOR,
    commands=[MEMINFO],
    expects="os.memory_gib",
    remedy="sudo dmidecode -t 17 | grep -E 'Locator|Size|Speed'; sudo ras-mc-ctl --error-count"
    "  # exchange or reseat the module that is missing, reboot",
    reversible=False,
    source="azurehpc NHC (± 5 %), gcm",
    fix=fixes.REBOOT,
)
def memory(view: HostView, want: float, context: Context) -> Outcome:
    """A module that the BIOS mapped out takes a channel with it: less memory for the KV tier, and less
    bandwidth."""
    tolerance = leaf(context, "os.memory_tolerance")
    total = view.facts(MEMINFO)["mem_total_kib"]
    share = tolerance if applies(tolerance) else 0.0
    expected = f"{want:g} GiB ± {share:.0%}"
    if not is_number(total):
        return verdict([absent("", "MemTotal", total)], actual="nothing", expected=expected)
    gib = total / 1024**2
    found = [] if abs(gib - want) <= want * share else [fault("", f"{gib:.0f} GiB of memory")]
    return verdict(found, actual=f"{gib:.0f} GiB", expected=expected)


@check(
    id="os-iommu",
    title="IOMMU in the planned mode",
    severity=Severity.MAJOR,
    commands=[CMDLINE],
    expects="os.iommu",
    remedy="sudo sed -i.bak 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub"
    " && sudo update-grub && sudo reboot",
    reversible=True,
    source="nccl#304, nccl#606: translation on the path between GPU and NIC halves or stops peer-to-peer",
    fix=fixes.REBOOT,
)
def iommu(view: HostView, want: str) -> Outcome:
    """With full translation every transfer between GPU and NIC is remapped at the root complex."""
    parameters = view.facts(CMDLINE)["parameters"]
    value = parameters.get("iommu")
    shown = " ".join(f"{n}={parameters[n]}" for n in ("iommu", "intel_iommu", "amd_iommu") if n in parameters)
    found = (
        []
        if _has(value, want)
        else [fault("", f"the kernel was booted with {shown or 'no iommu parameter'}")]
    )
    return verdict(found, actual=shown or "not set", expected=f"iommu={want}")
