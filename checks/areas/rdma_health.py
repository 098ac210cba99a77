"""Checks of the NICs' surroundings: near which GPU they are, their firmware, errors and addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from checks.areas._read import (
    Context,
    Finding,
    applies,
    fault,
    leaf,
    paths,
    shown,
    unread,
    verdict,
)
from checks.commands import NIC_FIRMWARE, SMI_TOPO
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan.expectations import RdmaPort
from rackwright.verdict import Outcome, Severity

_COUNTERS = (
    "symbol_error",
    "port_rcv_errors",
    "link_error_recovery",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
_ALWAYS = ("symbol_error", "port_rcv_errors")
COUNTERS = Command(
    "infiniband-counters",
    "cd /sys/class/infiniband && { grep -H . "
    + " ".join(f"./*/ports/*/counters/{name}" for name in _COUNTERS)
    + " 2>/dev/null; echo end; }",
)
GIDS = Command(
    "infiniband-gids",
    "cd /sys/class/infiniband && { grep -H . ./*/ports/*/gids/[0-9] ./*/ports/*/gids/1[0-5] "
    "./*/ports/*/gid_attrs/types/[0-9] ./*/ports/*/gid_attrs/types/1[0-5] 2>/dev/null; echo end; }",
)


def _planned(context: Context) -> Sequence[RdmaPort]:
    ports: Sequence[RdmaPort] = leaf(context, "rdma.ports")
    if not applies(ports) or not ports:
        raise NotMeasured(f"the plan names no RDMA ports at expectations.{context.pool.name}.rdma.ports")
    return ports


def _whole(view: HostView, command: Command) -> str:
    text = view.text(command)
    if not text.rstrip().endswith("end"):
        raise NotMeasured(f"the output of `{command.key}` came back incomplete")
    return text


@check(
    id="pcie-pairing",
    title="A planned NIC near every GPU",
    severity=Severity.MAJOR,
    commands=[SMI_TOPO],
    expects="rdma.gpu_nic_paths",
    remedy="nvidia-smi topo -m  # move the NIC to the slot beside its GPU, below the same PCIe switch",
    reversible=False,
    source="NVSentinel#1221, cuCascade#119: GPU and NIC below one PCIe switch, or several, no host bridge",
)
def pairing(view: HostView, want: tuple[str, ...], context: Context) -> Outcome:
    """GPUDirect RDMA over a host bridge, or over the link between two sockets, runs at a fraction of the
    NIC's rate; the collective library may then not use it at all."""
    facts = view.facts(SMI_TOPO)
    names, matrix = facts["nic_names"], facts["gpu_nic"]
    if not isinstance(names, dict) or not matrix:
        raise NotMeasured("nvidia-smi topo -m does not name the NICs")
    devices = list(names.values())
    planned = {port.device for port in _planned(context)}
    found = [fault(name, "is not in the matrix") for name in sorted(planned - set(devices))]
    used: set[str] = set()
    for gpu, row in enumerate(matrix):
        cells = {device: cell for device, cell in zip(devices, row, strict=False) if device in planned}
        near = {device for device, cell in cells.items() if cell in want}
        used |= near
        if not near:
            kinds = listing(sorted({shown(cell) for cell in cells.values()})) or "nothing"
            found.append(fault(f"gpu {gpu}", f"no planned NIC is near: {kinds} only"))
    # Where a GPU is missing (gpu-count tells), its NIC is near none.
    whole = len(matrix) >= context.expectations.gpu.count
    far = sorted(planned & set(devices) - used) if whole else []
    found += [fault(name, "is near no GPU") for name in far]
    good = len(matrix) - sum(f.where.startswith("gpu ") for f in found)
    return verdict(
        found,
        actual=f"{good} of {len(matrix)} GPUs have one near",
        expected=f"{' or '.join(want)} for every GPU",
    )


@check(
    id="ib-firmware",
    title="NIC firmware as planned",
    severity=Severity.MAJOR,
    commands=[NIC_FIRMWARE],
    expects="rdma.firmware",
    remedy="sudo mlxfwmanager --query; sudo mlxfwmanager --online -u -d DEVICE"
    "  # to the plan's version; then: sudo mlxfwreset -d DEVICE reset, or reboot",
    reversible=False,
    source="imbue (flint, exact versions), gcm manifest",
)
def firmware(view: HostView, want: str, context: Context) -> Outcome:
    """Firmware decides how a NIC reacts to congestion, and which bugs it has: a version that nobody tested
    with this switch and driver fails under load only."""
    seen = {device: v for (device,), v in paths(view.text(NIC_FIRMWARE), r"/infiniband/([^/]+)/fw_ver$")}
    found: list[Finding] = []
    for device in dict.fromkeys(port.device for port in _planned(context)):
        version = seen.get(device)
        if not version:
            found.append(unread(device, "its firmware version is not in the output"))
        elif version != want:
            found.append(fault(device, f"runs firmware {version}"))
    return verdict(found, actual=", ".join(sorted(set(seen.values()))) or "nothing", expected=want)


@check(
    id="ib-errors",
    title="No errors on the planned RDMA ports since the driver was loaded",
    severity=Severity.WARN,
    commands=[COUNTERS],
    expects="rdma.errors_max",
    remedy="sudo mlxlink -d mlx5_0 -m -c -e  # the port that is named; clean or change cable and module",
    reversible=True,
    source="oci-hpc, deepops nhc, imbue: symbol errors, receive errors, recoveries",
)
def errors(view: HostView, want: int, context: Context) -> Outcome:
    """A dirty fibre costs retransmissions long before the link goes down. Counters run since the driver was
    loaded, so they are told and do not block."""
    seen: dict[tuple[str, int], dict[str, int]] = {}
    pattern = r"/([^/]+)/ports/(\d+)/counters/(\w+)$"
    for (device, port, name), value in paths(_whole(view, COUNTERS), pattern):
        if value.isdigit():
            seen.setdefault((device, int(port)), {})[name] = int(value)
    found: list[Finding] = []
    most = 0
    for planned in _planned(context):
        where = f"{planned.device} port {planned.port}"
        counters = seen.get((planned.device, planned.port), {})
        missing = [name for name in _ALWAYS if name not in counters]
        if missing:
            found.append(unread(where, f"{listing(missing)} is not in the output"))
        for name, count in counters.items():
            most = max(most, count)
            if count > want:
                found.append(fault(where, f"{name.replace('_', ' ')} {count:,}"))
    return verdict(found, actual=f"at most {most:,} of a kind", expected=f"≤ {want:,} of a kind on a port")


@check(
    id="roce-gid",
    title="Every rail has a RoCE v2 address, at one index",
    severity=Severity.MAJOR,
    commands=[GIDS],
    expects="rdma.gid_type",
    remedy="show_gids  # give the rail its address (netplan), set the same IP version on all rails, reboot",
    reversible=True,
    source="CVS gid_consistency; gcm (misbound interfaces)",
)
def gid(view: HostView, want: str, context: Context) -> Outcome:
    """Without an IPv4 address a rail has no routable RDMA address; with the address at another index than
    its neighbours it does not connect to them, because one index is set for all."""
    table: dict[tuple[str, int], dict[int, dict[str, str]]] = {}
    pattern = r"/([^/]+)/ports/(\d+)/(gids|gid_attrs/types)/(\d+)$"
    for (device, number, kind, index), value in paths(_whole(view, GIDS), pattern):
        table.setdefault((device, int(number)), {}).setdefault(int(index), {})[kind] = value
    first: dict[str, int] = {}
    found: list[Finding] = []
    for port in _planned(context):
        where = f"{port.device} port {port.port}"
        rows = table.get((port.device, port.port))
        if not rows:
            found.append(unread(where, "its addresses are not in the output"))
            continue
        good = [
            n
            for n, row in sorted(rows.items())
            if row.get("gid_attrs/types") == want and _routable(row.get("gids", ""))
        ]
        if good:
            first[where] = good[0]
        else:
            found.append(fault(where, f"has no {want} address"))
    indices = list(first.values())
    usual = max(set(indices), key=indices.count, default=0)
    found += [fault(w, f"has it at index {n}, the others at {usual}") for w, n in first.items() if n != usual]
    actual = f"index {', '.join(str(n) for n in sorted(set(indices)))}" if indices else "none"
    return verdict(found, actual=actual, expected=f"a {want} address at one index on all rails")


def _routable(gid: str) -> bool:
    """An IPv4 address in a GID (``0000:…:ffff:0a00:0001``), or a global IPv6 one; no link-local one."""
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return False
    mapped = address.ipv4_mapped
    if mapped is not None:
        return int(mapped) != 0
    return not address.is_link_local and int(address) != 0
