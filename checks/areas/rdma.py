"""Checks of the scale-out fabric: ports, names, lossless Ethernet, and the path between GPU and NIC."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from checks.areas._read import (
    Context,
    Finding,
    absent,
    applies,
    fault,
    is_number,
    leaf,
    paths,
    sections,
    unread,
    verdict,
    version_key,
)
from checks.areas.kernel_log import LOG, events, log_of_boot
from checks.commands import (
    DRIVER_LOADED,
    IB_SYSFS,
    IBV_DEVINFO,
    IP_LINK,
    KERNEL_RELEASE,
    LSPCI_ACS,
    MODULES,
    PCI_PATHS,
    QOS,
    RDMA_LINK,
    TRAFFIC_CLASS,
)
from checks.parsers import parse_once
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan.expectations import RdmaPort
from rackwright.verdict import Outcome, Severity

Ports = Sequence[RdmaPort]


def _name(port: RdmaPort) -> str:
    return f"{port.device} port {port.port}"


def _ports(context: Context) -> Ports:
    ports: Ports = leaf(context, "rdma.ports")
    if not applies(ports) or not ports:
        raise NotMeasured(f"the plan names no RDMA ports at expectations.{context.pool.name}.rdma.ports")
    return ports


def _read_ports(view: HostView, command: Command) -> dict[tuple[str, int], Mapping[str, Any]]:
    return {(p["device"], p["port"]): p for p in view.facts(command)["ports"] or []}


@check(
    id="ib-link",
    title="Planned RDMA ports active at their rate",
    severity=Severity.CRITICAL,
    commands=[IB_SYSFS],
    expects="rdma.ports",
    remedy="ibstat; sudo mlxlink -d mlx5_0 -m -c  # the port that is named; reseat or change the cable",
    reversible=True,
    source="deployment checklist, hardware: IB link state (ibstatus); gpud#752, gpud#140",
    ids=["H4"],
)
def link(view: HostView, want: Ports) -> Outcome:
    """A rail that is down or slow makes all GPUs of the group wait in every step. Ports that the plan
    does not name may be down."""
    ports = _read_ports(view, IB_SYSFS)
    found: list[Finding] = []
    good = 0
    for port in want:
        bad = _port(port, ports.get((port.device, port.port)))
        found += bad
        good += not bad
    rates = ", ".join(sorted({f"{p.rate_gbps} Gb/s {p.link_layer}" for p in want}))
    return verdict(
        found, actual=f"{good} of {len(want)} ports good", expected=f"{len(want)} active at {rates}"
    )


def _port(port: RdmaPort, seen: Mapping[str, Any] | None) -> list[Finding]:
    where = _name(port)
    if seen is None:
        return [fault(where, "is not there")]
    found = []
    state, physical = seen["state"], seen["physical_state"]
    if not isinstance(state, str) or not isinstance(physical, str):
        return [absent(where, "state", state if not isinstance(state, str) else physical)]
    if state.upper() != "ACTIVE" or physical.upper().replace("_", "") != "LINKUP":
        return [fault(where, f"is {state}, physically {physical}")]
    if not is_number(seen["rate_gbps"]):
        found.append(absent(where, "rate", seen["rate_gbps"]))
    elif seen["rate_gbps"] != port.rate_gbps:
        found.append(fault(where, f"runs at {seen['rate_gbps']:g} Gb/s instead of {port.rate_gbps}"))
    if seen["link_layer"] != port.link_layer:
        found.append(fault(where, f"link layer is {seen['link_layer']}, planned {port.link_layer}"))
    return found


@check(
    id="ib-sm",
    title="Every InfiniBand port has a subnet manager",
    severity=Severity.CRITICAL,
    commands=[IB_SYSFS],
    expects="rdma.subnet_manager",
    remedy="sudo sminfo; sudo systemctl restart opensm  # on the host or switch that runs the subnet manager",
    reversible=True,
    source="preflight practice: SM lid 0 or 65535 is none",
)
def subnet_manager(view: HostView, _want: bool, context: Context) -> Outcome:
    """Without a subnet manager a port has no address: its link is up and carries nothing."""
    ports = _read_ports(view, IB_SYSFS)
    found = []
    lids = set()
    for port in _ports(context):
        if port.link_layer != "InfiniBand":
            continue
        seen = ports.get((port.device, port.port))
        if seen is None:
            found.append(fault(_name(port), "is not there"))
            continue
        lids.add(str(seen["sm_lid"]))
        for name, text in (("sm_lid", "subnet manager"), ("lid", "own lid")):
            if not is_number(seen[name]):
                found.append(absent(_name(port), text, seen[name]))
            elif seen[name] in (0, 0xFFFF):
                found.append(fault(_name(port), f"has no {text}"))
    if not lids and not found:
        raise NotMeasured("the plan asks for a subnet manager and names no InfiniBand port")
    return verdict(
        found, actual=f"SM lid {listing(sorted(lids)) or 'none'}", expected="a subnet manager on all"
    )


@check(
    id="ib-names",
    title="RDMA devices and network interfaces named as planned",
    severity=Severity.MAJOR,
    commands=[RDMA_LINK],
    expects="rdma.ports",
    remedy="rdma link show; sudo udevadm trigger --subsystem-match=net --action=add"
    "  # names come from the plan's udev or netplan rules; then reboot",
    reversible=True,
    source="gcm (interfaces bound to the wrong device)",
)
def names(view: HostView, want: Ports) -> Outcome:
    """The engine is told device names; a host whose names are swapped sends each GPU's traffic over another
    GPU's rail, and every link light is green."""
    ports = _read_ports(view, RDMA_LINK)
    found = []
    for port in want:
        seen = ports.get((port.device, port.port))
        if seen is None:
            found.append(fault(_name(port), "is not there"))
        elif seen["netdev"] != port.netdev:
            found.append(fault(_name(port), f"is {seen['netdev'] or 'no interface'}, planned {port.netdev}"))
    good = len(want) - len({f.where for f in found})
    return verdict(
        found, actual=f"{good} of {len(want)} as planned", expected=f"{len(want)} pairs as planned"
    )


@check(
    id="roce-mtu",
    title="MTU of the rails as planned",
    severity=Severity.CRITICAL,
    commands=[IP_LINK, IBV_DEVINFO],
    expects="rdma.mtu",
    remedy="sudo ip link set dev eth0 mtu 9000  # the interface that is named; lasting: netplan",
    reversible=True,
    source="gcm (wrong Ethernet MTU); preflight practice: interface MTU and active RDMA MTU differ",
)
def mtu(view: HostView, want: int, context: Context) -> Outcome:
    """One rail with a small MTU drops the others' full-size packets: small messages pass, large ones hang."""
    links = {item["name"]: item["mtu"] for item in view.facts(IP_LINK)["links"] or []}
    active_want = leaf(context, "rdma.active_mtu")
    active = _active_mtu(view.text(IBV_DEVINFO))
    found = []
    for port in _ports(context):
        size = links.get(port.netdev)
        if port.netdev not in links:
            found.append(fault(port.netdev, "is not there"))
        elif size != want:
            found.append(fault(port.netdev, f"MTU is {size}"))
        if not applies(active_want):
            continue
        carried = active.get((port.device, port.port))
        if carried is None:
            found.append(unread(_name(port), "active MTU is not in the output"))
        elif carried != active_want:
            found.append(fault(_name(port), f"active RDMA MTU is {carried}"))
    sizes = sorted({str(links.get(p.netdev)) for p in _ports(context)})
    carried_sizes = sorted({str(v) for v in active.values()})
    expected = f"{want}" + (f", RDMA {active_want}" if applies(active_want) else "")
    return verdict(found, actual=f"{', '.join(sizes)}, RDMA {', '.join(carried_sizes)}", expected=expected)


def _active_mtu(text: str) -> dict[tuple[str, int], int]:
    """``ibv_devinfo``: (device, port) to the active MTU."""
    found: dict[tuple[str, int], int] = {}
    device, port = "", 0
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "hca_id":
            device, port = value, 0
        elif name == "port" and value.isdigit():
            port = int(value)
        elif name == "active_mtu" and device and port:
            match = re.match(r"\d+", value)
            if match:
                found[device, port] = int(match.group())
    return found


@check(
    id="roce-qos",
    title="Lossless Ethernet set on every rail",
    severity=Severity.CRITICAL,
    commands=[QOS],
    expects="rdma.pfc",
    remedy="sudo mlnx_qos -i eth0 --trust dscp --pfc 0,0,0,1,0,0,0,0 --dscp2prio set,26,3"
    "  # every rail, with the plan's values; it is lost at reboot unless a unit sets it",
    reversible=True,
    source="preflight practice: trust, PFC and DSCP map must agree with the switch",
)
def qos(view: HostView, want: Sequence[bool], context: Context) -> Outcome:
    """Where host and switch disagree on the lossless priority, RDMA loses packets under load and throughput
    falls to a tenth."""
    trust, dscp, priority = (leaf(context, f"rdma.{n}") for n in ("trust", "dscp", "dscp_priority"))
    text = view.text(QOS)
    if not text.rstrip().endswith("== end"):
        raise NotMeasured("the output of mlnx_qos came back incomplete")
    parts = sections(text)
    found = []
    shown = set()
    for port in _ports(context):
        if port.netdev not in parts:
            found.append(fault(port.netdev, "is not there"))
            continue
        parsed = parse_once("mlnx-qos", parts[port.netdev])
        if not parsed.understood:
            reason = parsed.problems[0].text if parsed.problems else "nothing was read"
            found.append(unread(port.netdev, f"mlnx_qos was not understood: {reason}"))
            continue
        facts = parsed.facts
        shown.add(f"trust {facts['trust']}, PFC on {_on(facts['pfc_enabled'])}")
        if applies(trust) and facts["trust"] != trust:
            found.append(fault(port.netdev, f"trusts {facts['trust']}"))
        if list(facts["pfc_enabled"]) != list(want):
            found.append(fault(port.netdev, f"PFC is on for {_on(facts['pfc_enabled'])}"))
        if applies(dscp) and applies(priority):
            mapped = (facts["dscp_map"] or {}).get(str(dscp))
            if mapped != priority:
                found.append(fault(port.netdev, f"DSCP {dscp} maps to priority {mapped}"))
    expected = f"trust {trust}, PFC on {_on(want)}" + (
        f", DSCP {dscp} to {priority}" if applies(dscp) else ""
    )
    return verdict(found, actual=" / ".join(sorted(shown)) or "nothing", expected=expected)


def _on(flags: Sequence[bool]) -> str:
    return ", ".join(str(n) for n, flag in enumerate(flags) if flag) or "none"


@check(
    id="roce-tos",
    title="Traffic class of RDMA as planned",
    severity=Severity.MAJOR,
    commands=[TRAFFIC_CLASS],
    expects="rdma.traffic_class",
    remedy="echo 104 | sudo tee /sys/class/infiniband/mlx5_0/tc/1/traffic_class"
    "  # every device, with the plan's value; it is lost at reboot unless a unit sets it",
    reversible=True,
    source="CVS (GID and class consistency); the class is DSCP << 2",
)
def traffic_class(view: HostView, want: int, context: Context) -> Outcome:
    """Without it RDMA leaves the host unmarked, and the switch puts it into the lossy queue."""
    text = view.text(TRAFFIC_CLASS)
    if not text.rstrip().endswith("end"):
        raise NotMeasured("the traffic classes came back incomplete")
    values: dict[str, int] = {}
    for (device,), value in paths(text, r"/infiniband/([^/]+)/tc/1/traffic_class$"):
        match = re.search(r"tclass=(\d+)", value)
        if match:
            values[device] = int(match.group(1))
    found = [
        fault(device, f"traffic class is {values[device]}" if device in values else "no traffic class is set")
        for device in dict.fromkeys(p.device for p in _ports(context))
        if values.get(device) != want
    ]
    shown = ", ".join(sorted({str(v) for v in values.values()})) or "not set"
    return verdict(found, actual=shown, expected=str(want))


@check(
    id="rdma-gpudirect",
    title="GPUDirect RDMA available",
    severity=Severity.CRITICAL,
    commands=[MODULES, DRIVER_LOADED, KERNEL_RELEASE],
    expects="rdma.gpudirect",
    remedy="sudo modprobe nvidia-peermem"
    " && echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf",
    reversible=True,
    source="azurehpc NHC (ib_write_bw with GPU memory), imbue, gpud peermem",
)
def gpudirect(view: HostView, want: bool) -> Outcome:
    """Without it the NIC cannot reach GPU memory: every message is copied through the host, at a fraction of
    the rate."""
    modules = {line.split()[0] for line in view.text(MODULES).splitlines() if line.split()}
    if not modules:
        raise NotMeasured("the list of kernel modules is empty")
    peer = sorted(modules & {"nvidia_peermem", "nv_peer_mem"})
    driver, release = view.text(DRIVER_LOADED), view.text(KERNEL_RELEASE).strip()
    if not re.search(r"Kernel Module\s.*\d+\.\d+", driver):
        raise NotMeasured("/proc/driver/nvidia/version does not name a driver")
    recent = version_key(release) >= (5, 12)
    dma_buf = "Open Kernel Module" in driver and recent and "ib_uverbs" in modules
    way = peer[0] if peer else "dma-buf (open driver)" if dma_buf else "none"
    expected = "nvidia_peermem or dma-buf" if want else "none"
    found = (
        []
        if (way != "none") is want
        else [fault("", "neither nvidia_peermem nor dma-buf with the open driver")]
    )
    return verdict(found, actual=way, expected=expected)


@check(
    id="pcie-acs",
    title="No ACS redirection above GPUs and NICs",
    severity=Severity.MAJOR,
    commands=[PCI_PATHS, LSPCI_ACS],
    expects="rdma.acs_redirect",
    remedy="sudo setpci -s BRIDGE ECAP_ACS+6.w=0000"
    "  # every bridge that is named, at each boot; or switch ACS off in the BIOS and reboot",
    reversible=True,
    source="nccl#304, nccl#606, nccl#2079; gpud pci component",
)
def acs(view: HostView, want: bool) -> Outcome:
    """Redirection sends traffic between GPU and NIC up to the root complex and back: peer-to-peer loses half
    of its bandwidth, or hangs."""
    below = _paths_of_devices(view.text(PCI_PATHS))
    above: dict[str, list[str]] = {}
    for (_, name), bridges in below.items():
        for bridge in bridges:
            above.setdefault(bridge, []).append(name)
    redirect = view.facts(LSPCI_ACS)["acs_redirect"]
    if not isinstance(redirect, list):
        raise NotMeasured("lspci shows no ACS control registers")
    known = {_full(d["address"]) for d in view.facts(LSPCI_ACS)["devices"]}
    missing = sorted(set(above) - known)
    if missing:
        raise NotMeasured(f"lspci does not show the bridges {listing(missing, 4)}")
    hidden = sorted({_full(a) for a in view.facts(LSPCI_ACS)["capabilities_denied"]} & set(above))
    if hidden:
        raise NotMeasured(f"lspci was denied access to the capabilities of {listing(hidden, 4)}")
    on = sorted({_full(a) for a in redirect if a} & set(above))
    found = [] if want else [fault(at, f"redirects traffic of {listing(above[at], 4)}") for at in on]
    actual = f"on for {len(on)} of {len(above)} bridges"
    return verdict(found, actual=actual, expected="any" if want else f"off on all {len(above)} bridges")


def _full(address: str) -> str:
    return address.lower() if address.count(":") == 2 else f"0000:{address.lower()}"


_BRIDGE = re.compile(r"/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/)")


def _paths_of_devices(text: str) -> dict[tuple[str, str], list[str]]:
    """(gpu or hca, name) to the PCI addresses of the bridges above it, from their paths in sysfs.

    Raises:
        NotMeasured: the list was cut, or shows no GPU.
    """
    *lines, last = text.splitlines() or [""]
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        words = line.split(None, 2)
        if len(words) == 3:
            found[words[0], words[1]] = _BRIDGE.findall(words[2].lower())
    if last.strip() != f"end {len(found)}":
        raise NotMeasured("the list of PCI paths came back incomplete")
    if not any(kind == "gpu" for kind, _ in found):
        raise NotMeasured("sysfs shows no GPU")
    return found


@check(
    id="ib-flaps",
    title="No planned link lost this boot",
    severity=Severity.MAJOR,
    commands=LOG,
    expects="rdma.link_flaps_max",
    remedy="sudo mlxlink -d mlx5_0 -m -c  # the port that is named; clean or change cable and module",
    reversible=True,
    source="gpud scan_flaps, azurehpc NHC (flaps from the log)",
)
def flaps(view: HostView, want: int, context: Context) -> Outcome:
    """A link that goes down for seconds is up whenever somebody looks; every collective in that moment hangs
    until its timeout. Links that the plan does not name are not judged."""
    planned = {p.netdev: p for p in _ports(context)} | {p.device: p for p in _ports(context)}
    lost = {e["device"]: e for e in events(view, "link-flap") if e["device"] in planned}
    found = [
        fault(device, f"went down {e['count']} time{'s' if e['count'] != 1 else ''}, last {e['last']}")
        for device, e in lost.items()
        if e["count"] > want
    ]
    most = max((e["count"] for e in lost.values()), default=0)
    found += log_of_boot(view)[1]
    return verdict(found, actual=f"at most {most} a port", expected=f"≤ {want} a port")
