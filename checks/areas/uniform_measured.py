"""Checks that what was measured on the hosts of a pool lies close together: clocks, and bandwidths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from checks.areas import active_gpu, active_storage
from checks.areas._read import Context, Finding, fault, notice, unread, verdict
from checks.areas.host import clock_offset
from checks.commands import CHRONY, TIMEDATE, TIMESYNC
from checks.registry import Command, Scope, check, expectation
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan import NotApplicable
from rackwright.verdict import Outcome, Severity, not_applicable


def alone(values: Mapping[str, float], found: Sequence[Finding], context: Context) -> list[Finding]:
    """What keeps hosts from being compared: those not reached, and that there is only one."""
    more: list[Finding] = []
    if context.unreachable:
        more.append(notice("", f"not compared, not reached: {listing(context.unreachable)}"))
    if len(values) < 2 and not found and not more:
        known = (
            f"only {listing(sorted(values)) or 'none'} of {len(context.pool.nodes)} planned hosts was read"
        )
        more.append(notice("", f"open: {known}: nothing to compare with"))
    return more


def nothing_to_compare(context: Context) -> Outcome | None:
    """Of a pool that the plan gives one host, there is never anything to compare."""
    if len(context.pool.nodes) < 2:
        return not_applicable("the plan gives this pool one host: there is nothing to compare with")
    return None


@check(
    id="uniform-clock",
    title="Clocks of a pool's hosts close together",
    severity=Severity.MAJOR,
    commands=[CHRONY, TIMEDATE, TIMESYNC],
    expects="os.clock_skew_max_ms",
    scope=Scope.POOL,
    remedy="chronyc -n tracking; sudo chronyc makestep  # on the hosts that are named",
    reversible=True,
    source="preflight practice: two hosts may each be in tolerance, one early and one late",
)
def skew(views: Sequence[HostView], want: float, context: Context) -> Outcome:
    """The two ends of a request write their times; where they differ by more than the step they describe,
    a trace shows answers before questions."""
    if (single := nothing_to_compare(context)) is not None:
        return single
    found: list[Finding] = []
    offsets: dict[str, float] = {}
    for view in views:
        try:
            offset, who = clock_offset(view)
        except NotMeasured as problem:
            found.append(unread(view.name, str(problem)))
            continue
        if offset is None:
            found.append(notice(view.name, f"not compared: not synchronised ({who}), see time-sync"))
        else:
            offsets[view.name] = offset
    spread = max(offsets.values()) - min(offsets.values()) if offsets else 0.0
    if spread > want:
        centre = median(offsets.values())
        low, high = min(offsets.values()), max(offsets.values())
        found += [
            fault(name, f"{value:+.3g} ms, the others around {centre:+.3g} ms")
            for name, value in offsets.items()
            if max(value - low, high - value) > want and abs(value - centre) >= want / 2
        ]
    found += alone(offsets, found, context)
    return verdict(found, actual=f"{spread:.3g} ms apart", expected=f"≤ {want:g} ms between any two")


@dataclass(frozen=True)
class Measured:
    """One rate of a host, compared over its pool. ``read`` gives GB/s, the slowest part's of the host."""

    name: str
    title: str
    why: str
    tier: int
    command: Command
    read: Callable[[HostView], float]
    active: str
    remedy: str
    unless: str


def _gpu_rate(kinds: Sequence[str]) -> Callable[[HostView], float]:
    def slowest(view: HostView) -> float:
        try:
            probe = active_gpu.read(view, active_gpu.CUDA_GPUS)
        except active_gpu.Refused as problem:
            raise NotMeasured(str(problem)) from None
        rates = [probe.rates.get(gpu, {}) for gpu in range(probe.count)]
        if not rates or not all(kind in gpu for gpu in rates for kind in kinds):
            raise NotMeasured("not every GPU was measured")
        return min(gpu[kind] for gpu in rates for kind in kinds)

    return slowest


def _disk_rate(view: HostView) -> float:
    rates, found = active_storage.read_rates(view)
    if found:
        raise NotMeasured(f"{found[0].where}: {found[0].text}")
    return min(rates.values())


def _reduce_rate(view: HostView) -> float:
    value, found = active_gpu.bus_bandwidth(view)
    if found:
        raise NotMeasured(found[0].text)
    return value


MEASURED = (
    Measured(
        "memory-bandwidth", "GPU memory bandwidth",
        "One host that is slower than its neighbours slows every request that is routed to it.",
        1, active_gpu.CUDA_GPUS, _gpu_rate(["memory"]), active_gpu.LOAD,
        "nvidia-smi -q -d CLOCK,PERFORMANCE  # on the hosts that are named, beside a sound one",
        "gpu.memory_bandwidth_min_gb_s",
    ),
    Measured(
        "host-bandwidth", "Bandwidth between hosts and their GPUs",
        "A BIOS default or a riser that differs on one host shows here first.",
        1, active_gpu.CUDA_GPUS, _gpu_rate(["to-gpu", "from-gpu"]), active_gpu.LOAD,
        "sudo lspci -vvv -d 10de: | grep LnkSta:  # compare BIOS settings with a sound host's",
        "gpu.host_bandwidth_min_gb_s",
    ),
    Measured(
        "nvme-read", "Disk reads",
        "A disk that wears out gets slow before it reports an error.",
        1, active_storage.NVME_READ, _disk_rate, active_storage.READS,
        "sudo nvme smart-log /dev/nvme0  # on the hosts that are named",
        "storage.nvme_read_min_gb_s",
    ),
    Measured(
        "all-reduce", "All-reduce bandwidth",
        "Training and wide tensor parallelism run at the slowest host's rate.",
        2, active_gpu.ALL_REDUCE, _reduce_rate, active_gpu.COLLECTIVE,
        "nvidia-smi nvlink -e; nvidia-smi -q -d CLOCK  # on the hosts that are named, beside a sound one",
        "nvlink.all_reduce_min_gb_s",
    ),
)  # fmt: skip


def _outliers(item: Measured) -> Callable[[Sequence[HostView], float, Context], Outcome]:
    def judge(views: Sequence[HostView], want: float, context: Context) -> Outcome:
        other = expectation(context.expectations, item.unless)
        if isinstance(other, NotApplicable):
            return not_applicable(other.not_applicable)
        if (single := nothing_to_compare(context)) is not None:
            return single
        found: list[Finding] = []
        values: dict[str, float] = {}
        for view in views:
            if not view.capture.problem and item.command.key not in view.capture.outputs:
                found.append(notice(view.name, "not compared: it was not put under load in this run"))
                continue
            try:
                values[view.name] = item.read(view)
            except NotMeasured as problem:
                found.append(unread(view.name, str(problem)))
        centre = median(values.values()) if values else 0.0
        least = centre * (1 - want)
        found += [
            fault(name, f"{value:.4g} GB/s, {(1 - value / centre):.0%} below the median of {centre:.4g}")
            for name, value in values.items()
            if value < least
        ]
        found += alone(values, found, context)
        low = f"{min(values.values()):.4g} to {max(values.values()):.4g} GB/s" if values else "nothing read"
        return verdict(found, actual=low, expected=f"at most {want:.0%} below the median")

    judge.__doc__ = item.why
    return judge


for _item in MEASURED:
    check(
        id=f"uniform-{_item.name}",
        title=f"{_item.title} close together on all hosts of the pool",
        severity=Severity.MAJOR,
        commands=[_item.command],
        expects="outlier_max",
        scope=Scope.POOL,
        tier=_item.tier,
        active=_item.active,
        remedy=_item.remedy,
        reversible=True,
        source="SuperBench (5 % below a baseline), oci-hpc (2 % below the median of its model, for disks)",
    )(_outliers(_item))
