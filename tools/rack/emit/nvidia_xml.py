"""``nvidia-smi -q -x`` as driver 580 prints it (nvsmi_device_v13)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from xml.sax.saxutils import escape

from tools.rack.emit.nvidia_values import REASONS, ecc_word, mig_word, timestamp, watts, yes_no
from tools.rack.products import GpuProduct
from tools.rack.state import Gpu, HostState

Item = tuple[str, "str | list[Item]"]


def document(state: HostState) -> str:
    head = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{timestamp(state.now)}</timestamp>",
        f"\t<driver_version>{state.driver}</driver_version>",
        f"\t<cuda_version>{state.cuda}</cuda_version>",
        f"\t<attached_gpus>{len(state.gpus)}</attached_gpus>",
    ]
    body = [_gpu(state, gpu) for gpu in state.gpus]
    return "\n".join([*head, *body, "", "</nvidia_smi_log>", ""])


def _gpu(state: HostState, gpu: Gpu) -> str:
    parts = [f'\t<gpu id="{gpu.bus_id}">']
    for item in _items(state, gpu):
        if item[0] == "supported_clocks":
            parts.append(_supported_clocks(gpu.product))
        else:
            parts.extend(_lines(item, 2))
    parts.append("\t</gpu>\n")
    return "\n".join(parts)


def _lines(item: Item, depth: int) -> Iterator[str]:
    tag, value = item
    indent = "\t" * depth
    if isinstance(value, str):
        yield f"{indent}<{tag}>{escape(value)}</{tag}>"
        return
    yield f"{indent}<{tag}>"
    for child in value:
        yield from _lines(child, depth + 1)
    yield f"{indent}</{tag}>"


@lru_cache(maxsize=16)
def _supported_clocks(product: GpuProduct) -> str:
    lines = ["\t\t<supported_clocks>"]
    for memory in product.memory_clocks:
        lines += ["\t\t\t<supported_mem_clock>", f"\t\t\t\t<value>{memory} MHz</value>"]
        lines += [
            f"\t\t\t\t<supported_graphics_clock>{clock} MHz</supported_graphics_clock>"
            for clock in range(product.graphics_mhz, product.idle_mhz - 1, -15)
        ]
        lines.append("\t\t\t</supported_mem_clock>")
    return "\n".join([*lines, "\t\t</supported_clocks>"])


def _all(value: str, *names: str) -> list[Item]:
    return [(name, value) for name in names]


def _items(state: HostState, gpu: Gpu) -> list[Item]:
    product = gpu.product
    busy = gpu.utilisation > 0
    return [
        ("product_name", gpu.name),
        ("product_brand", product.brand),
        ("product_architecture", product.architecture),
        ("display_mode", "Requested functionality has been deprecated"),
        ("display_attached", "No"),
        ("display_active", "Disabled"),
        ("persistence_mode", "Enabled" if gpu.persistence else "Disabled"),
        ("addressing_mode", "HMM" if state.kernel_module == "open" else "None"),
        (
            "mig_mode",
            [("current_mig", mig_word(gpu.mig_current)), ("pending_mig", mig_word(gpu.mig_pending))],
        ),
        ("mig_devices", "None"),
        ("accounting_mode", "Disabled"),
        ("accounting_mode_buffer_size", "4000"),
        ("driver_model", _all("N/A", "current_dm", "pending_dm")),
        ("serial", gpu.serial),
        ("uuid", gpu.uuid),
        ("pdi", f"0x{int(gpu.serial):016x}"),
        ("minor_number", str(gpu.index)),
        ("vbios_version", gpu.vbios),
        ("multigpu_board", "No"),
        ("board_id", f"0x{gpu.pci_address[5:7]}00"),
        ("board_part_number", product.part),
        ("gpu_part_number", f"{product.pci_id[5:].upper()}-886-A1"),
        ("gpu_fru_part_number", "N/A"),
        (
            "platformInfo",
            [
                *_all("N/A", "chassis_serial_number", "slot_number", "tray_index", "host_id", "peer_type"),
                ("module_id", str(gpu.index + 1)),
                ("gpu_fabric_guid", "N/A"),
            ],
        ),
        (
            "inforom_version",
            [
                ("img_version", product.inforom),
                ("oem_object", "2.1"),
                ("ecc_object", "7.16" if product.ecc else "N/A"),
                ("pwr_object", "N/A"),
            ],
        ),
        ("inforom_bbx_flush", [("latest_timestamp", "N/A"), ("latest_duration", "N/A")]),
        ("gpu_operation_mode", _all("N/A", "current_gom", "pending_gom")),
        ("c2c_mode", "Disabled" if product.sxm else "N/A"),
        (
            "gpu_virtualization_mode",
            [("virtualization_mode", "None"), *_all("N/A", "host_vgpu_mode", "vgpu_heterogeneous_mode")],
        ),
        ("gpu_recovery_action", gpu.recovery_action),
        ("gsp_firmware_version", gpu.gsp_firmware or state.driver),
        ("ibmnpu", [("relaxed_ordering_mode", "N/A")]),
        ("pci", _pci(gpu, busy)),
        ("fan_speed", "N/A" if product.sxm or not product.display else "30 %"),
        ("performance_state", "P0" if busy or product.sxm else "P8"),
        (
            "clocks_event_reasons",
            [(f"clocks_event_reason_{n}", "Active" if n in gpu.reasons else "Not Active") for n in REASONS],
        ),
        ("clocks_event_reasons_counters", _reason_counters(gpu)),
        ("sparse_operation_mode", "Disabled"),
        ("fb_memory_usage", _memory(gpu.memory_total_mib, gpu.memory_used_mib, reserved=624)),
        ("bar1_memory_usage", _memory(262144 if product.sxm else 131072, 1)),
        ("cc_protected_memory_usage", _memory(0, 0)),
        ("compute_mode", gpu.compute_mode),
        (
            "utilization",
            [
                ("gpu_util", f"{gpu.utilisation} %"),
                ("memory_util", f"{gpu.utilisation // 2} %"),
                *_all("0 %", "encoder_util", "decoder_util", "jpeg_util", "ofa_util"),
            ],
        ),
        ("encoder_stats", _all("0", "session_count", "average_fps", "average_latency")),
        ("fbc_stats", _all("0", "session_count", "average_fps", "average_latency")),
        ("dram_encryption_mode", _all("N/A", "current_dram_encryption", "pending_dram_encryption")),
        (
            "ecc_mode",
            [("current_ecc", ecc_word(gpu.ecc_current)), ("pending_ecc", ecc_word(gpu.ecc_pending))],
        ),
        ("ecc_errors", _ecc_errors(gpu)),
        ("retired_pages", _retired()),
        ("remapped_rows", _remapped(gpu)),
        ("temperature", _temperature(gpu)),
        ("supported_gpu_target_temp", _all("N/A", "gpu_target_temp_min", "gpu_target_temp_max")),
        ("gpu_power_readings", _power(gpu)),
        ("gpu_memory_power_readings", _all("N/A", "average_power_draw", "instant_power_draw")),
        ("module_power_readings", _module_power(gpu)),
        ("power_smoothing", "N/A"),
        (
            "power_profiles",
            _all("N/A", "power_profile_requested_profiles", "power_profile_enforced_profiles"),
        ),
        ("clocks", _clocks(gpu, busy)),
        ("applications_clocks", _application_clocks(product)),
        ("default_applications_clocks", _application_clocks(product)),
        ("deferred_clocks", [("mem_clock", "N/A")]),
        ("max_clocks", _max_clocks(product)),
        ("max_customer_boost_clocks", [("graphics_clock", f"{product.graphics_mhz} MHz")]),
        ("clock_policy", _all("N/A", "auto_boost", "auto_boost_default")),
        ("fabric", _fabric(gpu)),
        ("supported_clocks", []),
        ("processes", [("process_info", _process(p.pid, p.name, p.used_mib)) for p in gpu.processes]),
        ("accounted_processes", []),
        ("capabilities", [("egm", "disabled")]),
    ]


def _pci(gpu: Gpu, busy: bool) -> list[Item]:
    domain, bus, rest = gpu.bus_id.split(":")
    vendor, device = gpu.pci_id.upper().split(":")
    sub_vendor, sub_device = gpu.product.subsystem.upper().split(":")
    generations: list[Item] = [
        ("max_link_gen", str(gpu.pcie_gen_max)),
        ("current_link_gen", str(gpu.pcie_gen_current)),
        ("device_current_link_gen", str(gpu.pcie_gen_current)),
        ("max_device_link_gen", str(gpu.product.pcie_gen)),
        ("max_host_link_gen", str(gpu.pcie_gen_max)),
    ]
    widths: list[Item] = [
        ("max_link_width", f"{gpu.pcie_width_max}x"),
        ("current_link_width", f"{gpu.pcie_width_current}x"),
    ]
    return [
        ("pci_bus", bus),
        ("pci_device", rest.split(".")[0]),
        ("pci_domain", domain[4:]),
        ("pci_base_class", "3"),
        ("pci_sub_class", "0" if gpu.product.display else "2"),
        ("pci_device_id", f"{device}{vendor}"),
        ("pci_bus_id", gpu.bus_id),
        ("pci_sub_system_id", f"{sub_device}{sub_vendor}"),
        ("pci_gpu_link_info", [("pcie_gen", generations), ("link_widths", widths)]),
        ("pci_bridge_chip", _all("N/A", "bridge_chip_type", "bridge_chip_fw")),
        ("replay_counter", "0"),
        ("replay_rollover_counter", "0"),
        ("tx_util", "81250 KB/s" if busy else "421 KB/s"),
        ("rx_util", "77031 KB/s" if busy else "398 KB/s"),
        *_all("N/A", "atomic_caps_outbound", "atomic_caps_inbound"),
    ]


def _reason_counters(gpu: Gpu) -> list[Item]:
    names = {
        "sw_power_cap": "sw_power_cap",
        "sync_boost": "sync_boost",
        "sw_therm_slowdown": "sw_thermal_slowdown",
        "hw_therm_slowdown": "hw_thermal_slowdown",
        "hw_power_brake": "hw_power_brake_slowdown",
    }
    return [
        (f"clocks_event_reasons_counters_{name}", f"{184_467_213 if reason in gpu.reasons else 0} us")
        for name, reason in names.items()
    ]


def _memory(total: int, used: int, reserved: int | None = None) -> list[Item]:
    items: list[Item] = [("total", f"{total} MiB")]
    if reserved is not None:
        items.append(("reserved", f"{reserved} MiB"))
    return [*items, ("used", f"{used} MiB"), ("free", f"{total - used - (reserved or 0)} MiB")]


def _ecc_errors(gpu: Gpu) -> list[Item]:
    if gpu.ecc_current is not True:
        absent: list[Item] = _all(
            "N/A",
            "sram_correctable",
            "sram_uncorrectable_parity",
            "sram_uncorrectable_secded",
            "dram_correctable",
            "dram_uncorrectable",
        )
        aggregate: list[Item] = [*absent, ("sram_threshold_exceeded", "N/A")]
        sources = _all("N/A", "sram_l2", "sram_sm", "sram_microcontroller", "sram_pcie", "sram_other")
        return [
            ("volatile", absent),
            ("aggregate", aggregate),
            ("aggregate_uncorrectable_sram_sources", sources),
            *_all("N/A", "channel_repair_pending", "tpc_repair_pending"),
        ]

    def counters(corrected: int, uncorrected: int) -> list[Item]:
        return [
            *_all("0", "sram_correctable", "sram_uncorrectable_parity", "sram_uncorrectable_secded"),
            ("dram_correctable", str(corrected)),
            ("dram_uncorrectable", str(uncorrected)),
        ]

    return [
        ("volatile", counters(gpu.corrected_volatile, gpu.uncorrected_volatile)),
        (
            "aggregate",
            [
                *counters(gpu.corrected_aggregate, gpu.uncorrected_aggregate),
                ("sram_threshold_exceeded", "No"),
            ],
        ),
        (
            "aggregate_uncorrectable_sram_sources",
            _all("0", "sram_l2", "sram_sm", "sram_microcontroller", "sram_pcie", "sram_other"),
        ),
        *_all("No", "channel_repair_pending", "tpc_repair_pending"),
    ]


def _retired() -> list[Item]:
    pages = _all("N/A", "retired_count", "retired_pagelist")
    return [
        ("multiple_single_bit_retirement", pages),
        ("double_bit_retirement", pages),
        *_all("N/A", "pending_blacklist", "pending_retirement"),
    ]


def _remapped(gpu: Gpu) -> list[Item]:
    top = "2560" if gpu.product.sxm else "512"
    histogram: list[Item] = [
        ("row_remapper_histogram_max", f"{top} bank(s)"),
        *[(f"row_remapper_histogram_{n}", "0 bank(s)") for n in ("high", "partial", "low", "none")],
    ]
    return [
        ("remapped_row_corr", "0"),
        ("remapped_row_unc", str(gpu.remap_uncorrectable)),
        ("remapped_row_pending", yes_no(gpu.remap_pending)),
        ("remapped_row_failure", yes_no(gpu.remap_failure)),
        ("row_remapper_histogram", histogram),
    ]


def _temperature(gpu: Gpu) -> list[Item]:
    memory = gpu.memory_temperature_c
    return [
        ("gpu_temp", f"{gpu.temperature_c} C"),
        ("gpu_temp_tlimit", f"{gpu.tlimit_c} C"),
        ("gpu_temp_max_tlimit_threshold", "-8 C"),
        ("gpu_temp_slow_tlimit_threshold", "-2 C"),
        ("gpu_temp_max_gpu_tlimit_threshold", "0 C"),
        ("gpu_target_temperature", "N/A"),
        ("memory_temp", "N/A" if memory is None else f"{memory} C"),
        ("gpu_temp_max_mem_tlimit_threshold", "N/A" if memory is None else "0 C"),
    ]


def _power(gpu: Gpu) -> list[Item]:
    product = gpu.product
    return [
        ("power_state", "P0" if gpu.utilisation or product.sxm else "P8"),
        ("average_power_draw", watts(gpu.power_draw_w)),
        ("instant_power_draw", watts(gpu.power_draw_w + 0.35)),
        ("current_power_limit", watts(gpu.power_limit_w)),
        ("requested_power_limit", watts(gpu.power_limit_w)),
        ("default_power_limit", watts(product.power_w)),
        ("min_power_limit", watts(product.minimum_power_w)),
        ("max_power_limit", watts(product.power_w)),
    ]


def _module_power(gpu: Gpu) -> list[Item]:
    return [
        ("power_state", "P0" if gpu.utilisation or gpu.product.sxm else "P8"),
        *_all(
            "N/A",
            "average_power_draw",
            "instant_power_draw",
            "current_power_limit",
            "requested_power_limit",
            "default_power_limit",
            "min_power_limit",
            "max_power_limit",
        ),
    ]


def _clocks(gpu: Gpu, busy: bool) -> list[Item]:
    product = gpu.product
    graphics = product.graphics_mhz - 45 if busy else product.idle_mhz
    return [
        ("graphics_clock", f"{graphics} MHz"),
        ("sm_clock", f"{graphics} MHz"),
        ("mem_clock", f"{product.memory_mhz if busy or product.sxm else product.memory_clocks[-1]} MHz"),
        ("video_clock", "1470 MHz" if busy else "765 MHz"),
    ]


def _application_clocks(product: GpuProduct) -> list[Item]:
    return [("graphics_clock", f"{product.graphics_mhz} MHz"), ("mem_clock", f"{product.memory_mhz} MHz")]


def _max_clocks(product: GpuProduct) -> list[Item]:
    return [
        ("graphics_clock", f"{product.graphics_mhz} MHz"),
        ("sm_clock", f"{product.graphics_mhz} MHz"),
        ("mem_clock", f"{product.memory_mhz} MHz"),
        ("video_clock", "1545 MHz"),
    ]


def _fabric(gpu: Gpu) -> list[Item]:
    known = bool(gpu.links)
    health = (
        "summary",
        "bandwidth",
        "route_recovery_in_progress",
        "route_unhealthy",
        "access_timeout_recovery",
        "incorrect_configuration",
    )
    return [
        ("state", gpu.fabric_state),
        ("status", gpu.fabric_status),
        ("cliqueId", str(gpu.fabric_clique) if known else "N/A"),
        ("clusterUuid", gpu.fabric_cluster if known else "N/A"),
        ("health", _all("N/A", *health)),
    ]


def _process(pid: int, name: str, used: int) -> list[Item]:
    return [
        *_all("N/A", "gpu_instance_id", "compute_instance_id"),
        ("pid", str(pid)),
        ("type", "C"),
        ("process_name", name),
        ("used_memory", f"{used} MiB"),
    ]
