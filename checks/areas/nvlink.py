"""Checks of the scale-up fabric: NVLinks, their topology, fabric state and fabric manager."""

from __future__ import annotations

import re
from typing import Any

from checks.areas._read import (
    Context,
    Finding,
    absent,
    applies,
    fault,
    gpus,
    is_number,
    leaf,
    problems,
    unit_state,
    unread,
    verdict,
)
from checks.areas.gpu import process_running
from checks.commands import (
    FABRIC_MANAGER,
    FABRIC_MANAGER_VERSION,
    PROCESSES,
    SMI_NVLINK,
    SMI_TOPO,
    SMI_XML,
)
from checks.parsers import NA
from checks.registry import check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity, failed


@check(
    id="nvlink-links",
    title="All NVLinks up at the planned rate",
    severity=Severity.CRITICAL,
    commands=[SMI_NVLINK],
    expects="nvlink.links_per_gpu",
    remedy="sudo systemctl restart nvidia-fabricmanager; sudo dmesg -T | grep -iE 'nvlink|sxid|xid.*74'"
    "  # then power-cycle the host (reboot); a link that stays down means exchanging the board",
    reversible=False,
    source="deployment checklist, hardware: NVLink state; azurehpc-health-checks#132 and #162, DCGM#49",
    ids=["H4"],
)
def links(view: HostView, want: int, context: Context) -> Outcome:
    """Tensor parallelism sends every layer's result over NVLink: one link down slows the whole group, all
    down stops it. How many links a card has is what the plan says, never what the tool lists."""
    rate = leaf(context, "nvlink.link_gb_s")
    found = []
    shown = gpus(view, SMI_NVLINK)
    if len(shown) != context.expectations.gpu.count:
        found.append(unread("", f"{len(shown)} of {context.expectations.gpu.count} GPUs were read"))
    for where, gpu in shown:
        found += _links(where, gpu, want, rate if applies(rate) else None)
    active = sorted({g["links_active"] for _, g in shown if is_number(g["links_active"])})
    text = " to ".join(str(n) for n in dict.fromkeys((active[0], active[-1]))) if active else "no"
    expected = f"{want} a GPU" + (f", ≥ {rate:g} GB/s each" if applies(rate) else "")
    return verdict(found, actual=f"{text} active a GPU", expected=expected)


def _links(where: str, gpu: Any, want: int, rate: float | None) -> list[Finding]:
    supported, active = gpu["supported"], gpu["links_active"]
    if isinstance(supported, NA):
        return [unread(where, f"refused: {supported.reason}")]
    if supported is not True:
        return [fault(where, "has no NVLink, says the driver")]
    found = []
    if active != want:
        speeds = gpu["speed_gb_s"] or []
        down = [str(n) for n, speed in enumerate(speeds) if not is_number(speed)]
        found.append(fault(where, f"{active} links active" + (f", down: {listing(down)}" if down else "")))
    slow = [s for s in gpu["speed_gb_s"] or [] if is_number(s) and rate is not None and s < rate]
    if slow:
        found.append(fault(where, f"{len(slow)} links at {min(slow):g} GB/s"))
    return found


@check(
    id="nvlink-topology",
    title="Every pair of GPUs connected as planned",
    severity=Severity.CRITICAL,
    commands=[SMI_TOPO],
    expects="nvlink.topology",
    remedy="nvidia-smi topo -m; sudo systemctl restart nvidia-fabricmanager; sudo reboot",
    reversible=False,
    source="deployment checklist, hardware: nvidia-smi topo -m; vllm#16336",
    ids=["H4"],
)
def topology(view: HostView, want: str, context: Context) -> Outcome:
    """A pair that is joined over PCIe instead of NVLink makes the collective libraries choose a slow ring for
    all of them."""
    facts = view.facts(SMI_TOPO)
    matrix = facts["links"] or []
    if facts["gpus"] != context.expectations.gpu.count:
        raise NotMeasured(f"the matrix shows {facts['gpus']} of {context.expectations.gpu.count} GPUs")
    pairs = [(a, b, matrix[a][b]) for a in range(len(matrix)) for b in range(a + 1, len(matrix))]
    found = [
        (unread if link is None else fault)(f"gpu {a} and gpu {b}", link or "no cell in the matrix")
        for a, b, link in pairs
        if link != want
    ]
    kinds = ", ".join(sorted({str(link) for _, _, link in pairs})) or "a single GPU"
    return verdict(found, actual=kinds, expected=f"{want} between all")


@check(
    id="nvlink-fabric-state",
    title="Every GPU registered in the NVLink fabric",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="nvlink.fabric_state",
    remedy="sudo systemctl restart nvidia-fabricmanager && nvidia-smi -q | grep -A3 Fabric"
    "  # with a B200 or later reset the GPUs after it, or reboot",
    reversible=True,
    source="azhpc-images#506 (state Completed with status Insufficient Resources), NVSentinel#883, gpud#1147",
)
def fabric_state(view: HostView, want: str) -> Outcome:
    """Links can be trained while the fabric is not: everything looks green, and the first peer-to-peer copy
    hangs. State and status must both be good on every GPU."""
    found = []
    shown = gpus(view, SMI_XML)
    for where, gpu in shown:
        state, status = gpu["fabric_state"], gpu["fabric_status"]
        if not isinstance(state, str):
            found.append(absent(where, "fabric state", state))
        elif state.lower() != want.lower():
            found.append(fault(where, f"fabric state is {state}"))
        if not isinstance(status, str):
            found.append(absent(where, "fabric status", status))
        elif status.lower() not in ("success", "nvml_success"):
            found.append(fault(where, f"fabric status is {status}"))
    found += [
        fault(p.where, p.text[p.text.index("fabric health") :])
        for p in problems(view, SMI_XML, "gpu-fabric")
        if "fabric health" in p.text
    ]
    kinds = sorted({f"{_word(g['fabric_state'])}, {_word(g['fabric_status'])}" for _, g in shown})
    return verdict(found, actual=" / ".join(kinds), expected=f"{want}, Success on all")


def _word(value: Any) -> str:
    return value.reason if isinstance(value, NA) else str(value or "nothing")


@check(
    id="nvlink-fabric-manager",
    title="Fabric manager running, of the driver's version",
    severity=Severity.CRITICAL,
    commands=[FABRIC_MANAGER, FABRIC_MANAGER_VERSION, PROCESSES, SMI_XML],
    expects="nvlink.fabric_manager",
    remedy='sudo apt-get install "nvidia-fabricmanager-BRANCH=$(modinfo -F version nvidia)-*"'
    " && sudo systemctl enable --now nvidia-fabricmanager",
    reversible=True,
    source="gpu-operator#544, azhpc-images#86, dstack#2348 (versions that differ), gpud#1106",
)
def fabric_manager(view: HostView, want: bool) -> Outcome:
    """Without it NVSwitch routes nothing and CUDA answers 802 (system not yet initialised). One of another
    version than the driver refuses to start, at the next boot."""
    state = unit_state(view, FABRIC_MANAGER)
    running = state == "active" if state else process_running(view, "nv-fabricmanager")
    expected = "running, of the driver's version" if want else "not running"
    if not want:
        found = [fault("", "a fabric manager runs where the plan has none")] if running else []
        return verdict(found, actual="running" if running else "not running", expected=expected)
    if not running:
        return failed(state or "not running", expected, f"the fabric manager is {state or 'not running'}")
    match = re.search(r"(\d+(?:\.\d+)+)", view.text(FABRIC_MANAGER_VERSION))
    driver = view.facts(SMI_XML)["driver_version"]
    if match is None or not isinstance(driver, str):
        raise NotMeasured("the versions of fabric manager and driver could not be read")
    version = match.group(1)
    found = [] if version == driver else [fault("", f"fabric manager {version}, driver {driver}")]
    return verdict(found, actual=f"running, {version}", expected=expected)
