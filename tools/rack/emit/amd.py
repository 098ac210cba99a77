"""amd-smi's JSON, as ROCm 6.4 prints it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.rack.devices import KINDS, Accelerator
from tools.rack.emit.core import Recording
from tools.rack.state import HostState

TOOL = "amd-smi"
_RATES: dict[int, float] = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
_BLOCKS = ("UMC", "SDMA", "GFX", "MMHUB", "PCIE_BIF", "HDP", "XGMI_WAFL")


def recordings(state: HostState) -> Iterator[Recording]:
    if state.vendor != "amd":
        return
    shown = [d for d in state.devices if d.listed]
    yield Recording(TOOL, "static --json", _text({"gpu_data": [static(state, d) for d in shown]}))
    yield Recording(TOOL, "metric --json", _text({"gpu_data": [metric(d) for d in shown]}))
    yield Recording(TOOL, "topology --json", _text([topology(d, shown) for d in shown]))
    yield Recording(
        TOOL, "bad-pages --json", _text([bad_pages(d) for d in shown]), root=True,
        refusal="Command requires elevation\n",
    )  # fmt: skip
    yield Recording(
        TOOL, "list --json",
        _text([{"gpu": d.index, "bdf": d.pci_address, "uuid": f"{d.index:02x}ff74a1-0000-1000-80f1-0"}
               for d in shown]),
    )  # fmt: skip


def _text(value: Any) -> str:
    return json.dumps(value, indent=4) + "\n"


def _with(value: float, unit: str) -> dict[str, Any]:
    return {"value": value, "unit": unit}


def static(state: HostState, d: Accelerator) -> dict[str, Any]:
    vendor, device = d.pci_id.split(":")
    return {
        "gpu": d.index,
        "asic": {
            "market_name": d.name, "vendor_id": f"0x{vendor}", "vendor_name": "Advanced Micro Devices Inc",
            "subvendor_id": "0x1002", "device_id": f"0x{device}", "subsystem_id": f"0x{device}",
            "rev_id": "0x00", "oam_id": d.index, "num_compute_units": 304,
            "target_graphics_version": "gfx942",
        },
        "bus": {
            "bdf": d.pci_address, "max_pcie_width": 16, "max_pcie_speed": _with(32, "GT/s"),
            "pcie_interface_version": "Gen 5", "slot_type": "OAM",
        },
        "limit": {
            "max_power": _with(d.power_limit_w, "W"), "min_power": _with(0, "W"),
            "socket_power": _with(d.power_limit_w, "W"), "slowdown_edge_temperature": "N/A",
            "slowdown_hotspot_temperature": _with(100, "C"), "slowdown_vram_temperature": _with(105, "C"),
        },
        "driver": {"name": KINDS["amd"].driver, "version": state.driver},
        "vram": {"type": "HBM", "size": _with(d.memory_total_mib, "MB"), "bit_width": 8192},
        "partition": {
            "accelerator_partition": d.compute_partition, "memory_partition": d.memory_partition,
            "partition_id": 0,
        },
        "numa": {"node": d.index // 4, "affinity": d.index // 4},
    }  # fmt: skip


def metric(d: Accelerator) -> dict[str, Any]:
    return {
        "gpu": d.index,
        "usage": {"gfx_activity": _with(d.utilisation, "%"), "umc_activity": _with(0, "%")},
        "power": {
            "socket_power": _with(round(d.power_w), "W"),
            "throttle_status": "THROTTLED" if d.throttled else "UNTHROTTLED",
            "power_management": "ENABLED",
        },
        "temperature": {
            "edge": "N/A", "hotspot": _with(d.temperature_c, "C"), "mem": _with(d.memory_temperature_c, "C"),
        },
        "pcie": {"width": d.pcie_width, "speed": _with(_RATES[d.pcie_gen], "GT/s"), "replay_count": 0},
        "ecc": {
            "total_correctable_count": d.corrected, "total_uncorrectable_count": d.uncorrected,
            "total_deferred_count": d.deferred, "cache_correctable_count": 0, "cache_uncorrectable_count": 0,
        },
        "ecc_blocks": {
            name: {
                "correctable_count": d.corrected if name == "UMC" else 0,
                "uncorrectable_count": d.uncorrected if name == "UMC" else 0,
                "deferred_count": d.deferred if name == "UMC" else 0,
            }
            for name in _BLOCKS
        },
        "mem_usage": {
            "total_vram": _with(d.memory_total_mib, "MB"), "used_vram": _with(d.memory_used_mib, "MB"),
        },
    }  # fmt: skip


def topology(d: Accelerator, every: list[Accelerator]) -> dict[str, Any]:
    return {
        "gpu": d.index,
        "bdf": d.pci_address,
        "links": [
            {
                "gpu": other.index, "bdf": other.pci_address, "weight": 0 if other is d else 15,
                "link_status": "ENABLED" if other is d or d.links.get(other.index) else "DISABLED",
                "link_type": "SELF" if other is d else "XGMI", "num_hops": 0 if other is d else 1,
                "bandwidth": "N/A" if other is d else "0-64000",
            }
            for other in every
        ],
    }  # fmt: skip


def bad_pages(d: Accelerator) -> dict[str, Any]:
    pending: Any = (
        [{"page_address": f"0x{n:x}", "status": "PENDING"} for n in range(d.pages_pending)]
        or "No bad pages found."
    )  # fmt: skip
    return {
        "gpu": d.index,
        "retired": "No bad pages found.",
        "pending": pending,
        "unreservable": "No bad pages found.",
    }
