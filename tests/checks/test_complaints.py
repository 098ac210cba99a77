"""What users of other checkers complained about, in public: each stays right here.

A name ends with the thread it comes from. *False alarms* must not be reported, *blind spots* must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.registry import Check
from rackwright.verdict import Outcome, Severity, Status
from tests.checks import build
from tests.checks.cases import checks, judge

NA = {"not_applicable": "by design"}


def run(
    check: str, plan: Mapping[str, Any] | None = None, unreachable: tuple[str, ...] = (), **outputs: Any
) -> Outcome:
    """The verdict on one host; keys of outputs have _ for -."""
    found: Check = checks()[check]
    keys = {key.replace("_", "-"): value for key, value in outputs.items()}
    keys = {("nvidia-smi-L" if key == "nvidia-smi-l" else key): value for key, value in keys.items()}
    context = build.Context(build.expectations(plan), unreachable=unreachable)
    return judge(found, [build.view(found, keys)], context)


def log(*lines: str) -> str:
    return build.healthy()["dmesg"] + "".join(f"[Mon Nov  2 09:00:00 2026] {line}\n" for line in lines)


def xid(code: int, text: str = "pid=100, name=python3, Ch 00000008") -> str:
    return f"NVRM: Xid (PCI:0000:3b:00): {code}, {text}"


# --- false alarms: NVLink and fabric -----------------------------------------------------------------------


def test_a_pcie_card_without_nvlink_is_no_fault_dcgm_49_nvsentinel_1481() -> None:
    text = "".join(
        f"GPU {n}: NVIDIA A100-PCIE-40GB (UUID: GPU-{n:08d}-0000-4000-8000-000000000000)\n"
        "\tNVML: Unable to retrieve NVLink information as all links are inActive\n"
        for n in range(8)
    )
    assert (
        run("nvlink-links", {"nvlink.links_per_gpu": NA}, nvidia_smi_nvlink=text).status
        is Status.NOT_APPLICABLE
    )


def test_a_bridge_with_twelve_of_eighteen_links_is_as_planned_azurehpc_162() -> None:
    plan = {"nvlink.links_per_gpu": 12}
    assert run("nvlink-links", plan, nvidia_smi_nvlink={"links": 12}).status is Status.PASS
    assert run("nvlink-links", nvidia_smi_nvlink={"links": 12}).status is Status.FAIL


def test_no_fabric_on_a_pcie_card_or_a_single_gpu_machine_gpud_1140_1147() -> None:
    gone = {"every": {"fabric": "N/A", "status": "N/A"}}
    assert (
        run("nvlink-fabric-state", {"nvlink.fabric_state": NA}, nvidia_smi_qx=gone).status
        is Status.NOT_APPLICABLE
    )


def test_a_switched_board_must_have_its_fabric_although_others_have_none_gpud_1151() -> None:
    gone = {"every": {"fabric": "N/A", "status": "N/A"}}
    assert run("nvlink-fabric-state", nvidia_smi_qx=gone).status is Status.FAIL


def test_clique_zero_is_normal_on_an_eight_gpu_board() -> None:
    assert "<cliqueId>0</cliqueId>" in build.smi_xml()
    assert run("nvlink-fabric-state").status is Status.PASS


def test_fabric_manager_that_runs_on_the_rack_switch_gpud_1106() -> None:
    absent = {"load": "not-found", "active": "inactive", "sub": "dead"}
    plan = {"nvlink.fabric_manager": NA}
    assert run("nvlink-fabric-manager", plan, systemctl_fabricmanager=absent).status is Status.NOT_APPLICABLE


# --- false alarms: InfiniBand -----------------------------------------------------------------------------


def test_a_host_without_a_fabric_is_not_unhealthy_gpud_140() -> None:
    nothing = {"rc": 2, "stdout": ""}
    assert run("ib-link", {"rdma.ports": NA}, infiniband_sysfs=nothing).status is Status.NOT_APPLICABLE


def test_a_port_that_nobody_planned_may_be_down_gpud_752() -> None:
    down = {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "40 Gb/sec (4X QDR)"}
    assert run("ib-link", infiniband_sysfs={"count": 10, "ports": {8: down, 9: down}}).status is Status.PASS


def test_a_missing_issm_device_is_not_looked_at_nvsentinel_1663_1716() -> None:
    assert not any("issm" in c.shell for check in checks().values() for c in check.commands)


# --- false alarms: Xids -----------------------------------------------------------------------------------


def test_killed_jobs_are_told_and_do_not_block_nvsentinel_1748() -> None:
    outcome = run("log-xid", dmesg=log(*[xid(45)] * 500))
    assert outcome.status is Status.WARN and "500 times" in outcome.message


def test_xid_31_of_an_application_does_not_block_nvsentinel_911() -> None:
    assert run("log-xid", dmesg=log(xid(31, "pid=9, name=python3, MMU Fault"))).status is Status.WARN


def test_nonfatal_contains_fatal_and_is_none_nvsentinel_1357() -> None:
    plan = {"gpu.xid_fatal": [145]}
    assert run("log-xid", plan, dmesg=log(xid(145, "RLW_REMAP Nonfatal XC0 i0"))).status is Status.WARN
    assert run("log-xid", plan, dmesg=log(xid(145, "RLW_REMAP Fatal XC0 i0"))).status is Status.FAIL


def test_xid_63_is_the_row_remap_check_s_business_gpud_987() -> None:
    assert (
        run("log-xid", dmesg=log(xid(63, "Row Remapper: New row marked for remapping"))).status is Status.WARN
    )
    assert run("gpu-remap", nvidia_smi_qx={"gpus": {1: {"remap_pending": "Yes"}}}).status is Status.FAIL


# --- false alarms: memory ---------------------------------------------------------------------------------


def test_errors_that_were_recovered_are_no_fault_gpud_108() -> None:
    old = {"gpus": {2: {"aggregate_dram": "8", "remap_unc": "2"}}}
    assert run("gpu-ecc-errors", nvidia_smi_qx=old).status is Status.PASS
    assert run("gpu-remap", nvidia_smi_qx=old).status is Status.PASS


def test_a_card_without_row_remapping_is_the_plan_s_word_gpud_351() -> None:
    card = {"every": {"remap_pending": "N/A", "remap_failure": "N/A"}}
    assert run("gpu-remap", {"gpu.row_remap": NA}, nvidia_smi_qx=card).status is Status.NOT_APPLICABLE
    assert run("gpu-remap", nvidia_smi_qx=card).status is Status.FAIL


def test_ecc_that_a_workstation_card_has_switched_off_follows_the_plan_gpud_86() -> None:
    off = {"every": {"ecc": "Disabled", "ecc_pending": "Disabled"}}
    assert run("gpu-ecc", nvidia_smi_qx=off).status is Status.FAIL
    assert run("gpu-ecc", {"gpu.ecc": False}, nvidia_smi_qx=off).status is Status.PASS


# --- false alarms: PCIe -----------------------------------------------------------------------------------


def test_an_idle_link_at_gen1_is_no_fault_nvtop_6_open_gpu_kernel_modules_1010_rtx6kpro_88() -> None:
    assert run("gpu-pcie", nvidia_smi_qx={"every": {"gen": "1"}}).status is Status.PASS


def test_a_link_at_gen1_under_load_is_a_fault() -> None:
    outcome = run("gpu-pcie", nvidia_smi_qx={"every": {"gen": "1"}}, nvidia_smi_load={"utilisation": 97})
    assert outcome.status is Status.FAIL


def test_a_slot_that_is_slower_than_planned_is_found_though_current_equals_max() -> None:
    capped = {"every": {"gen": "4", "gen_max": "4", "gen_host": "4"}}
    assert run("gpu-pcie", nvidia_smi_qx=capped).status is Status.FAIL


# --- blind spots: links -----------------------------------------------------------------------------------


def test_every_spelling_of_inactive_is_down_azurehpc_132() -> None:
    for word in ("all links are inactive", "all links are inActive", "all links are Inactive"):
        text = "".join(
            f"GPU {n}: NVIDIA H200 (UUID: GPU-{n:08d}-0000-4000-8000-000000000000)\n"
            f"\tNVML: Unable to retrieve NVLink information as {word}\n"
            for n in range(8)
        )
        assert run("nvlink-links", nvidia_smi_nvlink=text).status is not Status.PASS
    assert run("nvlink-links", nvidia_smi_nvlink={"down": {0: [17]}}).status is Status.FAIL


def test_links_that_trained_do_not_prove_the_fabric_dstack_1167_nvsentinel_883() -> None:
    assert run("nvlink-links").status is Status.PASS
    waiting = {"every": {"fabric": "In Progress", "status": "N/A"}}
    assert run("nvlink-fabric-state", nvidia_smi_qx=waiting).status is Status.FAIL


def test_insufficient_resources_is_not_success_azhpc_images_506() -> None:
    bad = {"gpus": {3: {"status": "Insufficient Resources"}}}
    assert run("nvlink-fabric-state", nvidia_smi_qx=bad).status is Status.FAIL


def test_the_fabric_of_every_gpu_is_read_not_only_of_the_first() -> None:
    last = {"gpus": {7: {"fabric": "In Progress"}}}
    assert run("nvlink-fabric-state", nvidia_smi_qx=last).where == ("gpu 7",)


def test_a_gpu_that_only_its_neighbours_lost_nvlink_to_is_named_vllm_16336() -> None:
    pairs = {f"{n}-5" if n < 5 else f"5-{n}": "SYS" for n in range(8) if n != 5}
    outcome = run("nvlink-topology", nvidia_smi_topo={"pairs": pairs})
    assert outcome.status is Status.FAIL and all("gpu 5" in where for where in outcome.where)


# --- blind spots: checks that measured nothing -------------------------------------------------------------


def test_a_missing_tool_is_not_healthy_gpud_420() -> None:
    assert run("ib-link", infiniband_sysfs={"state": "missing"}).status is Status.ERROR
    assert run("ib-names", rdma_link={"state": "missing"}).status is Status.ERROR
    assert run("host-tools", tools={"missing": ["rdma"]}).status is Status.FAIL


def test_throttling_does_fail_azurehpc_3() -> None:
    hot = {"gpus": {0: {"reasons": ["hw_slowdown", "hw_thermal_slowdown"]}}}
    outcome = run("gpu-throttle", nvidia_smi_qx=hot)
    assert outcome.status is Status.FAIL
    assert checks()["gpu-throttle"].severity in (Severity.CRITICAL, Severity.MAJOR)


def test_a_failed_row_remap_is_watched_eks_node_monitoring_agent_245() -> None:
    assert run("gpu-remap", nvidia_smi_qx={"gpus": {4: {"remap_failure": "Yes"}}}).status is Status.FAIL


def test_a_dead_gpu_with_an_assertion_and_no_xid_dra_driver_982() -> None:
    line = "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU requires reset [NV_ERR_RESET_REQUIRED] (0x62)"
    assert run("log-hardware", dmesg=log(line)).status is Status.FAIL


def test_seven_of_eight_gpus_gpu_operator_2511() -> None:
    seven = run("gpu-count", nvidia_smi_l={"count": 7}, nvidia_smi_qx={"count": 7})
    assert seven.status is Status.FAIL and "PCI bus" in seven.message


def test_a_hanging_nvidia_smi_gives_no_old_values_pai_889() -> None:
    assert run("host-responsive", nvidia_smi_l={"state": "timeout", "seconds": 30.0}).status is Status.FAIL
    assert run("gpu-ecc", nvidia_smi_qx={"state": "timeout"}).status is Status.ERROR


def test_a_name_that_contains_the_planned_one_is_another_product_gpud_1206() -> None:
    assert run("gpu-model", nvidia_smi_qx={"every": {"product": "NVIDIA GH200 480GB"}}).status is Status.FAIL
    plan = {"gpu.product": "NVIDIA H100 80GB HBM3", "gpu.pci_ids": ["10de:2330"]}
    nvl = {"every": {"product": "NVIDIA H100 NVL"}}
    assert run("gpu-model", plan, nvidia_smi_qx=nvl, lspci={"device": "10de:2321"}).status is Status.FAIL


# --- words that change --------------------------------------------------------------------------------------


def test_a_refusal_is_no_measurement_pynvml_19() -> None:
    refused = {"every": {"ecc": "[Insufficient Permissions]", "ecc_pending": "[Insufficient Permissions]"}}
    assert run("gpu-ecc", nvidia_smi_qx=refused).status is Status.ERROR


FIELDS = {
    "gpu-ecc": "ecc",
    "gpu-mig": "mig",
    "gpu-power-limit": "limit",
    "gpu-persistence": "persistence",
    "gpu-pcie": "width",
    "gpu-memory-temperature": "memory",
    "gpu-remap": "remap_pending",
}


def test_not_available_is_never_a_pass_exporter_68_arctictraining_345() -> None:
    for word in (
        "N/A",
        "[N/A]",
        "Not Supported",
        "Requested functionality has been deprecated",
        "Unknown Error",
    ):
        for check, field in FIELDS.items():
            outcome = run(check, nvidia_smi_qx={"every": {field: word}})
            assert outcome.status in (Status.FAIL, Status.ERROR), f"{check}: {word}"


def test_a_version_with_a_deprecation_notice_is_read_driver_610() -> None:
    text = "570.148.08 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]"
    assert run("gpu-driver", nvidia_smi_qx={"driver": text}).status is Status.PASS


def test_a_lost_gpu_is_named_owod_81_k8s_test_infra() -> None:
    line = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system\n"
    outcome = run("host-responsive", nvidia_smi_l={"rc": 15, "stdout": line})
    assert outcome.status is Status.FAIL and "3B:00.0" in outcome.message


# --- power and the BMC --------------------------------------------------------------------------------------


def rack(watts: int, state: str, utilisation: int = 99) -> Outcome:
    check = checks()["power-rack-budget"]
    outputs = {
        "ipmitool-dcmi": {"watts": watts, "state": state},
        "nvidia-smi-load": {"utilisation": utilisation},
    }
    views = [build.view(check, outputs, name=name) for name in ("node-1", "node-2")]
    return judge(check, views, build.Context(build.expectations()))


def test_zero_watts_is_no_reading_phosphor_host_ipmid_167() -> None:
    assert rack(0, "deactivated").status is Status.ERROR
    assert rack(0, "activated").status is Status.ERROR


def test_deactivated_with_watts_is_a_reading_openbmc_3257() -> None:
    assert rack(6100, "deactivated").status is Status.PASS


def test_an_idle_reading_never_closes_the_full_load_line() -> None:
    outcome = rack(1800, "activated", utilisation=0)
    assert outcome.status is Status.WARN and "measured at idle" in outcome.message


def test_a_deasserted_event_is_over() -> None:
    event = "   {} | 10/01/2026 | 10:0{}:00 | Critical Interrupt #0x90 | Bus Fatal Error | {}\n"
    text = event.format(1, 0, "Asserted") + event.format(2, 5, "Deasserted")
    assert run("bmc-sel", ipmitool_sel=text).status is Status.PASS


# --- the network --------------------------------------------------------------------------------------------


def test_a_container_s_interface_is_no_flap() -> None:
    lines = ("IPv6: ADDRCONF(NETDEV_CHANGE): cali0a1b: link becomes ready", "veth12ab: Link is Down")
    assert run("ib-flaps", dmesg=log(*lines)).status is Status.PASS


def test_source_validation_alone_is_no_redirection_nccl_304() -> None:
    text = build.lspci_acs().replace("ACSCtl:\tSrcValid-", "ACSCtl:\tSrcValid+")
    assert run("pcie-acs", lspci_acs=text).status is Status.PASS


def test_acs_capability_is_not_control() -> None:
    assert "ACSCap:\tSrcValid+ TransBlk+ ReqRedir+" in build.lspci_acs()
    assert run("pcie-acs").status is Status.PASS


# --- hosts that differ ---------------------------------------------------------------------


def test_the_two_hosts_with_numa_off_are_found_on_their_own_and_beside_a_third() -> None:
    off = {"edit": {"iommu=pt": "iommu=pt numa=off"}}
    assert run("os-numa", cmdline=off).status is Status.FAIL
    check = checks()["uniform-cmdline"]
    views = [build.view(check, {"cmdline": off} if n < 2 else {}, name=f"node-{n}") for n in range(3)]
    outcome = judge(check, views, build.Context(build.expectations()))
    assert outcome.status is Status.FAIL and outcome.where == ("node-2",)
