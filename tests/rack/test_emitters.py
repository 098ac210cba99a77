"""Our parsers read what the simulated hosts print, for every plan, load and fault."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from checks import registry
from checks.parsers import KINDS, parse
from checks.registry import Command
from tests.rack.plans import NAMES, plan
from tools.rack import emit
from tools.rack.emit.core import Recording
from tools.rack.emit.nvidia import csv_table
from tools.rack.faults import FAULTS, apply_all
from tools.rack.rack import FaultSpec
from tools.rack.state import HostState, Load, build


def commands() -> dict[str, Command]:
    """By their text, those that a check parses."""
    found = (c for check in registry.load().values() for c in check.commands)
    return {
        c.shell.replace("'", "").replace('"$RW_MODEL_DIR"', "/var/lib/models"): c for c in found if c.parser
    }


def kind_of(recording: Recording, known: dict[str, Command]) -> str | None:
    text = f"{recording.tool} {recording.argv}".strip()
    if text in known:
        return known[text].parser
    return "mlnx-qos" if recording.tool == "mlnx_qos" else _KINDS.get(text.split(" /dev")[0])


def parsed(state: HostState, but: Collection[Recording] = ()) -> Iterator[tuple[Recording, Any]]:
    """The readings of what the host prints, without those in ``but``."""
    known = commands()
    for recording in emit.recordings(state):
        kind = kind_of(recording, known)
        if kind and recording.rc == 0 and recording not in but:
            yield recording, parse(kind, recording.stdout)


_KINDS = {
    "nvidia-smi": "nvidia-smi-table",
    "nvidia-smi --version": "nvidia-smi-version",
    "ibstat": "ibstat",
    "nvme smart-log -o json": "nvme-smart-json",
}
LOADS: tuple[Load, ...] = ("idle", "full")
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def host(name: str, load: Load = "idle", *faults: str) -> HostState:
    node = plan(name).pools[0].nodes[0].name
    state = build(plan(name), node, load=load, now=NOW)
    apply_all(state, [FaultSpec(host=node, fault=fault) for fault in faults], seed=1)
    return state


def facts(state: HostState, tool: str, argv: str) -> Any:
    return next(p.facts for r, p in parsed(state) if (r.tool, r.argv) == (tool, argv))


@pytest.mark.parametrize("load", ["idle", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_a_healthy_host_is_understood_and_has_no_problem(name: str, load: Load) -> None:
    kinds = set()
    for recording, reading in parsed(host(name, load)):
        kinds.add(reading.kind)
        where = f"{recording.tool} {recording.argv}"
        assert reading.understood, f"{where}: {reading.problems}"
        assert not reading.problems, f"{where}: {reading.problems}"
    wanted = {
        "nvidia-smi-qx",
        "nvidia-smi-L",
        "nvidia-smi-topo",
        "nvidia-smi-table",
        "lspci",
        "lspci-acs",
        "dmesg",
    }
    assert wanted <= kinds


@cache
def healthy_recordings(name: str, load: Load) -> frozenset[Recording]:
    return frozenset(emit.recordings(host(name, load)))


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_changes_facts_not_the_form(fault: str) -> None:
    """A fault is a change of state: what is printed can still be read, unless the tool itself fails."""
    for name in NAMES:
        for load in LOADS:
            state = host(name, load)
            if not FAULTS[fault].applies(state):
                continue
            usual = healthy_recordings(name, load)
            for recording, reading in parsed(host(name, load, fault), usual):
                assert reading.understood, (
                    f"{name} {load} {recording.tool} {recording.argv}: {reading.problems}"
                )


@pytest.mark.parametrize("name", NAMES)
def test_every_column_of_the_gpu_table_is_read(name: str) -> None:
    state = host(name, "full")
    reading = parse("nvidia-smi-csv", csv_table(state))
    assert reading.understood, reading.problems
    assert len(reading.facts["gpus"]) == len(state.gpus)
    assert [g["power_limit_w"] for g in reading.facts["gpus"]] == [g.power_limit_w for g in state.gpus]


def test_the_report_says_what_the_state_says() -> None:
    state = host("roce-100k", "full")
    gpus = facts(state, "nvidia-smi", "-q -x")["gpus"]
    for gpu, shown in zip(state.gpus, gpus, strict=True):
        assert shown["product"] == "NVIDIA H200"
        assert shown["pci_bus_id"].lower() == gpu.bus_id.lower()
        assert shown["power_draw_w"] == pytest.approx(gpu.power_draw_w, abs=0.5)
        assert shown["power_limit_w"] == 700
        assert shown["temperature_c"] == gpu.temperature_c
        assert shown["memory_used_mib"] == gpu.memory_used_mib
        assert (shown["pcie_gen_current"], shown["pcie_width_current"]) == (5, 16)
        assert (shown["ecc_current"], shown["mig_current"], shown["persistence_mode"]) == (True, False, True)
        assert (shown["fabric_state"], shown["fabric_status"]) == ("Completed", "Success")


@pytest.mark.parametrize(
    ("fault", "fact", "value"),
    [
        ("ecc-pending", "ecc_pending", False),
        ("ecc-off", "ecc_current", False),
        ("remap-pending", "remapped_pending", True),
        ("remap-failed", "remap_failure", True),
        ("persistence-off", "persistence_mode", False),
        ("mig-on", "mig_pending", True),
        ("pcie-narrow", "pcie_width_current", 8),
        ("gpu-hot", "temperature_c", 86),
        ("memory-hot", "memory_temperature_c", 98),
        ("power-limit-low", "power_limit_w", 490),
        ("wrong-model", "product", "NVIDIA H200 NVL"),
        ("fabric-stuck", "fabric_state", "In Progress"),
    ],
)
def test_a_gpu_fault_is_on_one_gpu(fault: str, fact: str, value: object) -> None:
    gpus = facts(host("roce-100k", "idle", fault), "nvidia-smi", "-q -x")["gpus"]
    assert [g[fact] for g in gpus].count(value) == 1


def test_topology_joins_each_gpu_with_its_own_rail() -> None:
    shown = facts(host("roce-100k"), "nvidia-smi", "topo -m")
    assert shown["gpus"] == shown["nics"] == 8
    assert {link for row in shown["links"] for link in row} == {"X", "NV18"}
    for index, row in enumerate(shown["gpu_nic"]):
        assert [n for n, link in enumerate(row) if link == "PIX"] == [index]
    assert list(shown["nic_names"].values()) == [f"mlx5_{i}" for i in range(8)]


def test_cards_without_nvlink_are_joined_over_pcie() -> None:
    shown = facts(host("dev-1k"), "nvidia-smi", "topo -m")
    assert shown["links"] == [["X", "NODE"], ["NODE", "X"]]


def test_qos_is_the_plan_and_pfc_off_is_not() -> None:
    state = host("roce-100k")
    shown = facts(state, "mlnx_qos", f"-i {state.ports[0].netdev}")
    assert shown["trust"] == "dscp"
    assert shown["pfc_enabled"] == [False, False, False, True, False, False, False, False]
    assert shown["dscp_map"]["26"] == 3
    state = host("roce-100k", "idle", "pfc-off")
    off = [
        p.netdev for p in state.ports if not any(facts(state, "mlnx_qos", f"-i {p.netdev}")["pfc_enabled"])
    ]
    assert len(off) == 1


def test_acs_is_on_for_bridges_only_where_planted() -> None:
    assert facts(host("roce-100k"), "lspci", "-D -nn -vvv")["acs_redirect"] == []
    assert len(facts(host("roce-100k", "idle", "acs-on"), "lspci", "-D -nn -vvv")["acs_redirect"]) > 8


def test_no_two_pci_devices_share_an_address() -> None:
    for name in NAMES:
        found = [d["address"] for d in facts(host(name), "lspci", "-D -nn")["devices"]]
        assert len(found) == len(set(found))


def test_xids_reach_the_kernel_log() -> None:
    for code in (48, 74, 79, 119):
        events = facts(host("roce-100k", "idle", f"xid-{code}"), "dmesg", "-T")["events"]
        assert code in [e["code"] for e in events if e["kind"] == "xid"]


def test_the_same_seed_gives_the_same_machine_and_another_seed_another() -> None:
    node = plan("roce-100k").pools[0].nodes[0].name

    def text(seed: int) -> str:
        state = build(plan("roce-100k"), node, seed=seed, now=NOW)
        return "".join(r.stdout for r in emit.recordings(state))

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_every_parser_kind_used_here_exists() -> None:
    assert {c.parser for c in commands().values()} | set(_KINDS.values()) <= set(KINDS)
