"""Checks of what the driver itself thinks of a GPU: repairs, wear of the memory, firmware, mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checks.areas._read import (
    COUNT,
    Finding,
    absent,
    fault,
    gpus,
    is_number,
    problems,
    reading,
    shown,
    spread,
    unread,
    verdict,
)
from checks.commands import SMI_XML
from checks.parsers import NA
from checks.registry import check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity

Gpu = Mapping[str, Any]


def _seen(view: HostView, fact: str) -> str:
    return spread(gpu[fact] for _, gpu in gpus(view, SMI_XML))


@check(
    id="gpu-recovery",
    title="The driver asks for no reset, reboot or drain",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.recovery_action",
    remedy="nvidia-smi --query-gpu=index,gpu_recovery_action --format=csv"
    "  # drain the node; Reset: sudo nvidia-smi --gpu-reset -i INDEX; Reboot: sudo reboot",
    reversible=False,
    source="nvidia_gpu_exporter#393; nvidia-smi's gpu_recovery_action from driver 570 on",
)
def recovery(view: HostView, want: str) -> Outcome:
    """The driver knows when a card needs a reset before it is sound again, and says so in one field that
    nobody looks at; work that is placed on it meanwhile fails or is wrong."""
    found = []
    for where, gpu in gpus(view, SMI_XML):
        action = gpu["recovery_action"]
        if not isinstance(action, str):
            found.append(absent(where, "recovery action", action))
        elif action.lower() not in (want, "0"):
            found.append(fault(where, f"the driver asks for: {action}"))
    told = {f.where for f in found}
    found += [
        fault(p.where, p.text.rpartition(": ")[2])
        for p in problems(view, SMI_XML, "gpu-recovery")
        if p.where not in told
    ]
    return verdict(found, actual=_seen(view, "recovery_action"), expected=want)


@check(
    id="gpu-retired",
    title="Few memory pages retired, none pending",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.retired_pages_max",
    remedy="nvidia-smi -q -d PAGE_RETIREMENT  # pending: reboot; at the limit the card is exchanged (RMA)",
    reversible=False,
    source="azurehpc NHC (single- and double-bit retirements below 60), deepops nhc check_nv_retired_pages",
)
def retired(view: HostView, want: int) -> Outcome:
    """A card that retires page after page is running out of spare memory; near the limit its maker exchanges
    it, behind the limit it fails in use."""
    found: list[Finding] = []
    most = 0
    for where, gpu in gpus(view, SMI_XML):
        single, double = gpu["retired_single_bit"], gpu["retired_double_bit"]
        odd = reading(where, "single-bit retirements", single, COUNT)
        odd += reading(where, "double-bit retirements", double, COUNT)
        if odd:
            found += odd
            continue
        most = max(most, single + double)
        if single + double >= want:
            found.append(fault(where, f"{single + double} pages are retired"))
        pending = gpu["retired_pending"]
        if pending is True:
            found.append(fault(where, "page retirement is pending: reset needed"))
        elif pending is not False:
            found.append(absent(where, "pending retirement", pending))
    return verdict(found, actual=f"at most {most} a GPU", expected=f"< {want} a GPU, none pending")


@check(
    id="gpu-compute-mode",
    title="Compute mode as planned",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.compute_mode",
    remedy="sudo nvidia-smi -c DEFAULT  # the plan's mode; it is lost at reboot unless a unit sets it",
    reversible=True,
    source="deployment checklist, system: MIG/MPS as the tenancy plan says; an exclusive or prohibited mode "
    "refuses the second context",
)
def compute_mode(view: HostView, want: str) -> Outcome:
    """In an exclusive mode the second process on a card gets no context, in the prohibited one not even the
    first: the engine, its profiler or the health check is refused."""
    found = []
    for where, gpu in gpus(view, SMI_XML):
        mode = gpu["compute_mode"]
        if not isinstance(mode, str):
            found.append(absent(where, "compute mode", mode))
        elif mode.lower() != want.lower():
            found.append(fault(where, f"compute mode is {mode}"))
    return verdict(found, actual=_seen(view, "compute_mode"), expected=want)


@check(
    id="gpu-firmware",
    title="One VBIOS on all GPUs of a host, GSP firmware of the driver",
    severity=Severity.MAJOR,
    commands=[SMI_XML],
    expects="gpu.firmware_uniform",
    remedy="nvidia-smi --query-gpu=index,vbios_version --format=csv"
    "  # flash the odd card with the vendor's tool; GSP: reinstall the driver package, reboot",
    reversible=False,
    source="imbue (VBIOS versions of a host); an exchanged card comes with another VBIOS",
)
def firmware(view: HostView, want: bool) -> Outcome:
    """A card that came back from repair with another VBIOS has other power and clock tables and slows its
    whole group; a GSP firmware of another version than the driver is a half-done upgrade."""
    if not want:
        return verdict([unread("", "the plan says false; it should say why this does not apply")],
                       actual="", expected="")  # fmt: skip
    driver = view.facts(SMI_XML)["driver_version"]
    if not isinstance(driver, str):
        raise NotMeasured("nvidia-smi does not say the driver's version")
    cards = gpus(view, SMI_XML)
    found = list(_firmware(cards, driver))
    gsp = spread(gpu["gsp_firmware"] for _, gpu in cards)
    return verdict(
        found, actual=f"VBIOS {_seen(view, 'vbios')}, GSP {gsp}", expected=f"one VBIOS, GSP {driver}"
    )


def _firmware(cards: list[tuple[str, Gpu]], driver: str) -> Iterable[Finding]:
    versions = [gpu["vbios"] for _, gpu in cards]
    usual = max(set(map(shown, versions)), key=[shown(v) for v in versions].count)
    for where, gpu in cards:
        vbios, gsp = gpu["vbios"], gpu["gsp_firmware"]
        if not isinstance(vbios, str):
            yield absent(where, "VBIOS version", vbios)
        elif vbios != usual:
            yield fault(where, f"VBIOS {vbios} (the others {usual})")
        if isinstance(gsp, str) and gsp != driver:
            yield fault(where, f"GSP firmware {gsp}, driver {driver}")
        elif not isinstance(gsp, str | NA):
            yield absent(where, "GSP firmware version", gsp)


@check(
    id="gpu-ecc-corrected",
    title="Few corrected memory errors since the last reset",
    severity=Severity.WARN,
    commands=[SMI_XML],
    expects="gpu.ecc_corrected_max",
    remedy="nvidia-smi -q -d ECC  # watch the count; exchange a card that keeps counting at the next window",
    reversible=False,
    source="azurehpc NHC check_gpu_ecc (20 million), gcm (50 million)",
)
def corrected(view: HostView, want: int) -> Outcome:
    """ECC mends single bits at no cost; millions of them announce the bit that it cannot mend."""
    found: list[Finding] = []
    known = []
    off = []
    for where, gpu in gpus(view, SMI_XML):
        value = gpu["ecc_corrected_volatile"]
        if gpu["ecc_current"] is False and not is_number(value):
            off.append(where)
            continue
        odd = reading(where, "corrected errors", value, COUNT)
        found += odd
        if not odd:
            known.append(value)
            if value > want:
                found.append(fault(where, f"{value:,} corrected errors since the last reset"))
    if not known and not found:
        raise NotMeasured("ECC is off on all GPUs, so errors are not counted (see gpu-ecc)")
    most = max((v for v in known if is_number(v)), default=None)
    note = f"not counted on {listing(off)}, where ECC is off (see gpu-ecc)" if off and not found else ""
    return verdict(found, actual=f"at most {shown(most)} a GPU", expected=f"≤ {want:,} a GPU", message=note)
