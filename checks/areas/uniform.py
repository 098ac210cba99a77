"""Checks that the hosts of a pool are alike: one judge, a table of what is compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checks.areas._read import Context, Finding, csv_rows, fault, notice, paths, unread, verdict, version_key
from checks.commands import (
    CMDLINE,
    FIRMWARE,
    GOVERNORS,
    KERNEL_RELEASE,
    NIC_FIRMWARE,
    OS_RELEASE,
    SMI_IDENTITY,
    SMI_LIST,
    THP,
)
from checks.parsers._values import na
from checks.registry import Command, Scope, check, expectation
from checks.report.text import plural
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan import NotApplicable
from rackwright.verdict import Outcome, Severity, not_applicable

_OWN = (
    "root",
    "BOOT_IMAGE",
    "crashkernel",
    "initrd",
    "resume",
    "rd.luks.uuid",
    "rd.md.uuid",
    "rd.lvm.lv",
    "ip",
)
"""Kernel parameters that differ between hosts by right."""


def _column(name: str) -> Callable[[HostView, Context], str]:
    def read(view: HostView, _: Context) -> str:
        rows = csv_rows(view, SMI_IDENTITY)
        listed = len(view.facts(SMI_LIST)["gpus"] or [])
        if len(rows) != listed:
            raise NotMeasured(f"{len(rows)} of {listed} GPUs were read")
        values = sorted({row.get(name, "") for row in rows})
        for value in values:
            if not value or na(value):
                raise NotMeasured(f"{name} reads {value or 'nothing'}")
        return ", ".join(values)

    return read


def _cmdline(view: HostView, _: Context) -> str:
    words = []
    for name, value in view.facts(CMDLINE)["parameters"].items():
        if name in _OWN or "uuid" in name.lower():
            continue
        items = value if isinstance(value, list) else [value]
        words += [name if item is True else f"{name}={item}" for item in items]
    return " ".join(sorted(words)) or "no parameters"


def _os(view: HostView, _: Context) -> str:
    name = view.facts(OS_RELEASE)["pretty_name"]
    if not name:
        raise NotMeasured("/etc/os-release does not say PRETTY_NAME, which holds the release")
    return str(name)


def _bios(view: HostView, _: Context) -> str:
    values = {name: value for (name,), value in paths(view.text(FIRMWARE), r"/(bios_\w+)$")}
    for name in ("bios_vendor", "bios_version"):
        if not values.get(name):
            raise NotMeasured(f"{name.replace('_', ' ')} is not in the output")
    return f"{values['bios_vendor']} {values['bios_version']}"


def _nic_firmware(view: HostView, context: Context) -> str:
    found = {device: v for (device,), v in paths(view.text(NIC_FIRMWARE), r"/infiniband/([^/]+)/fw_ver$")}
    ports = context.expectations.rdma.ports
    wanted = {p.device for p in ports} if isinstance(ports, tuple) else set(found)
    missing = sorted(device for device in wanted if not found.get(device))
    if missing or not found:
        raise NotMeasured(f"no firmware version of {listing(missing, 4) or 'any RDMA device'}")
    return ", ".join(sorted({found[device] for device in wanted}))


def _governor(view: HostView, _: Context) -> str:
    text = view.text(GOVERNORS)
    driven = {cpu for (cpu,), _ in paths(text, r"/(cpu\d+)/cpufreq/scaling_driver$")}
    values = {cpu: v for (cpu,), v in paths(text, r"/(cpu\d+)/cpufreq/scaling_governor$")}
    if not values or not text.rstrip().endswith("end"):
        raise NotMeasured("the kernel shows no frequency governor")
    if driven - set(values):
        raise NotMeasured(f"the governors of {len(driven - set(values))} CPUs are missing in the output")
    return ", ".join(sorted(set(values.values())))


def _thp(view: HostView, _: Context) -> str:
    return str(view.facts(THP)["selected"])


def _kernel(view: HostView, _: Context) -> str:
    release = view.text(KERNEL_RELEASE).strip()
    version_key(release)
    return release


@dataclass(frozen=True)
class Property:
    """What is compared. ``unless``: an expectation that, where not applicable, makes this so too."""

    name: str
    title: str
    why: str
    command: Command
    read: Callable[[HostView, Context], str]
    remedy: str
    reversible: bool = True
    unless: str = ""


PROPERTIES = (
    Property(
        "driver", "NVIDIA driver", "Two versions in one pool: a fault that only shows on some replicas.",
        SMI_IDENTITY, _column("driver_version"),
        "sudo apt-get install -y nvidia-driver-BRANCH-server-open && sudo reboot", reversible=False,
    ),
    Property(
        "vbios", "GPU firmware", "Another VBIOS has other power and clock tables: cards drift apart.",
        SMI_IDENTITY, _column("vbios_version"),
        "nvidia-smi --query-gpu=vbios_version --format=csv  # flash it with the vendor's tool",
        reversible=False,
    ),
    Property(
        "kernel", "Kernel", "Another kernel brings other driver builds and network behaviour.",
        KERNEL_RELEASE, _kernel,
        "sudo apt-get install linux-image-VERSION && sudo reboot  # and hold it: sudo apt-mark hold",
    ),
    Property(
        "cmdline", "Kernel command line",
        "One host with numa=off or without iommu=pt is slower than its neighbours, and nobody sees why.",
        CMDLINE, _cmdline, "sudo vi /etc/default/grub && sudo update-grub && sudo reboot",
    ),
    Property(
        "os", "Operating system", "Another release brings other libraries, units and defaults.",
        OS_RELEASE, _os, "sudo apt-get update && sudo apt-get dist-upgrade && sudo reboot", reversible=False,
    ),
    Property(
        "bios", "BIOS", "BIOS versions differ in NUMA, PCIe and power defaults.",
        FIRMWARE, _bios,
        "sudo fwupdmgr get-devices  # update with the vendor's tool, reboot", reversible=False,
    ),
    Property(
        "nic-firmware", "NIC firmware", "Rails with other firmware react differently to congestion.",
        NIC_FIRMWARE, _nic_firmware, "sudo mlxfwmanager --online -u  # then reboot", reversible=False,
        unless="rdma.ports",
    ),
    Property(
        "thp", "Transparent huge pages", "One host with another policy has latency spikes of its own.",
        THP, _thp,
        "echo never | sudo tee /sys/kernel/mm/transparent_hugepage/enabled", unless="os.thp",
    ),
    Property(
        "governor", "CPU frequency governor", "A host that saves power answers later than the others.",
        GOVERNORS, _governor, "sudo cpupower frequency-set -g performance", unless="os.governor",
    ),
    Property(
        "power-limit", "GPU power limits", "A card with a lower limit slows every group that it is part of.",
        SMI_IDENTITY, _column("power.limit"), "sudo nvidia-smi -pl WATTS", unless="gpu.power_limit_w",
    ),
    Property(
        "clocks", "GPU clocks", "Hosts whose cards may not clock alike answer at different rates.",
        SMI_IDENTITY, _column("clocks.max.sm"), "nvidia-smi -q -d CLOCK; sudo nvidia-smi -rgc",
        unless="gpu.clocks_uniform",
    ),
)  # fmt: skip


def _judge(item: Property) -> Callable[[Sequence[HostView], tuple[str, ...], Context], Outcome]:
    def judge(views: Sequence[HostView], want: tuple[str, ...], context: Context) -> Outcome:
        if item.name not in want:
            return not_applicable(f"the plan does not ask for an equal {item.title}")
        other = expectation(context.expectations, item.unless) if item.unless else None
        if isinstance(other, NotApplicable):
            return not_applicable(other.not_applicable)
        values: dict[str, list[str]] = {}
        found = []
        for view in views:
            try:
                values.setdefault(item.read(view, context), []).append(view.name)
            except NotMeasured as problem:
                found.append(unread(view.name, str(problem)))
        found += differing(values)
        if context.unreachable:
            found.append(notice("", f"not compared, not reached: {listing(context.unreachable)}"))
        if len(views) < 2 and not found:
            if len(context.pool.nodes) < 2:
                return not_applicable("the plan gives this pool one host: there is nothing to compare with")
            names = listing([view.name for view in views])
            note = (
                f"only {names} of {len(context.pool.nodes)} planned hosts was read: nothing to compare with"
            )
            found.append(notice("", f"open: {note}"))
        return verdict(found, actual=summary(values), expected="one value on all hosts")

    judge.__doc__ = item.why
    return judge


def differing(values: dict[str, list[str]]) -> list[Finding]:
    """A finding for every host with a value of the minority; where the most are a tie, for every host."""
    if len(values) < 2:
        return []
    most = max(len(hosts) for hosts in values.values())
    leading = [value for value, hosts in values.items() if len(hosts) == most]
    reference = leading[0] if len(leading) == 1 else ""
    return [
        fault(host, _differs(value, reference) if reference else _difference(value, list(values)))
        for value, hosts in values.items()
        if value != reference
        for host in hosts
    ]


def _words(value: str) -> list[str]:
    return value.split(" ")


def _differs(value: str, reference: str) -> str:
    if "=" not in value + reference:
        return f"{value} (the others {reference})"
    mine, others = _words(value), _words(reference)
    more, less = ([w for w in a if w not in b] for a, b in ((mine, others), (others, mine)))
    return " and ".join(
        f"{what} {listing(words)}" for what, words in (("has", more), ("lacks", less)) if words
    ) or "in another order"  # fmt: skip


def _difference(value: str, values: Sequence[str]) -> str:
    if "=" not in value:
        return value
    common = set(_words(values[0])).intersection(*(_words(v) for v in values[1:]))
    return listing([w for w in _words(value) if w not in common]) or "none of what the others have"


def summary(values: dict[str, list[str]]) -> str:
    counted = sorted(values.items(), key=lambda item: -len(item[1]))
    if len(counted) == 1:
        return f"{counted[0][0][:60]} on {plural(len(counted[0][1]), 'host')}"
    return ", ".join(f"{len(hosts)} × {value[:40]}" for value, hosts in counted) or "nothing read"


for _item in PROPERTIES:
    check(
        id=f"uniform-{_item.name}",
        title=f"{_item.title} equal on all hosts of the pool",
        severity=Severity.MAJOR,
        commands=[_item.command, SMI_LIST] if _item.command is SMI_IDENTITY else [_item.command],
        expects="uniform",
        scope=Scope.POOL,
        remedy=_item.remedy,
        reversible=_item.reversible,
        source="preflight practice: the minority value is named; one host of three differed in the field",
    )(_judge(_item))
