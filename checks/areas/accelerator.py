"""Whether a host holds accelerators of the planned vendor, and no others."""

from __future__ import annotations

from functools import lru_cache

from checks.areas._read import Context, fault, verdict
from checks.commands import LSPCI
from checks.registry import check
from checks.view import HostView
from rackwright.catalog import load_catalog
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity, not_applicable

VENDOR_IDS = {
    "10de": "nvidia",
    "1002": "amd",
    "19e5": "huawei",
    "cabc": "cambricon",
    "1ed5": "moore-threads",
}
"""PCI ids of vendors (pci.ids, the PCI ID repository). AMD and Huawei make other devices too, so that the
vendor alone names no accelerator."""
_ONLY_COMPUTE = ("0302", "1200", "3d controller", "processing accelerators")
"""Classes of what can only compute; a display controller may be the mainboard's own."""
_DISPLAY = ("0300", "0380", "vga compatible controller", "display controller")
_OTHER_DEVICES = frozenset({"huawei"})
"""Vendors whose processing accelerators of unknown id are no evidence: Kunpeng hosts have engines for
compression and RAID of that class."""


@lru_cache(maxsize=1)
def known() -> dict[str, str]:
    """PCI id to the catalog's name of the accelerator."""
    return {pci: card.name for card in load_catalog().accelerators.values() for pci in card.pci_ids}


@check(
    id="host-accelerators",
    title="No accelerators but the planned ones",
    severity=Severity.CRITICAL,
    commands=[LSPCI],
    expects="gpu.vendor",
    remedy="sudo lspci -D -nn | grep -E '0302|1200'"
    "  # another machine stands here than was planned: correct the inventory, or exchange the card",
    reversible=False,
    source="gpud#1206, gpud#1147: identification by PCI id and exact name, never by a part of a name",
)
def accelerators(view: HostView, want: str, context: Context) -> Outcome:
    """A host that holds other cards than the plan says is another machine: everything that was derived for
    it, from power to the engine's image, is wrong."""
    if want == "apple":
        return not_applicable("the GPU is part of the chip; a Mac shows no PCI bus")
    planned = context.expectations.gpu.pci_ids
    found = []
    seen: dict[str, int] = {}
    for device in view.facts(LSPCI)["devices"]:
        vendor = VENDOR_IDS.get(device["vendor_id"], want)
        if vendor == want:
            continue  # whether it is the planned one, the vendor's own check of the model says
        pci = f"{device['vendor_id']}:{device['device_id']}"
        kind = str(device["class"]).lower()
        name = known().get(pci, "")
        sure = vendor not in _OTHER_DEVICES and kind.startswith(_ONLY_COMPUTE)
        if name or sure or (vendor == "nvidia" and kind.startswith(_DISPLAY)):
            seen[pci] = seen.get(pci, 0) + 1
            found.append(fault(device["address"], f"{name or vendor} [{pci}] is not in the plan"))
    actual = listing([f"{n} × {pci}" for pci, n in seen.items()]) or "none of another vendor"
    ids = f": {listing(planned)}" if isinstance(planned, tuple) else ""
    return verdict(found, actual=actual, expected=f"{want} only{ids}")
