"""Real outputs, where they are at hand: no judge may stumble over one, and known faults must be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.parsers import recognise
from checks.registry import Check
from rackwright.verdict import Status
from tests.checks import build
from tests.checks.cases import checks, judge
from tests.golden import SHARED

SAMPLES = SHARED / "reference" / "samples"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no collection of real outputs on this machine")
FILES = sorted(p for p in SAMPLES.glob("*") if p.name not in {"INDEX.md", "expected.json"})
H100 = {
    "gpu.product": "NVIDIA H100 80GB HBM3", "gpu.driver_pinned": {"not_applicable": "any"},
}  # fmt: skip


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def readers(kind: str | None) -> list[tuple[Check, str]]:
    return [
        (check, c.key) for check in checks().values() for c in check.commands if c.parser and c.parser == kind
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_no_judge_stumbles(path: Path) -> None:
    """A judge may find anything in a real output, but it must come to a verdict."""
    output = text(path)
    for check, key in readers(recognise(output)):
        views = [build.view(check, {key: output}, name=name) for name in ("node-1", "node-2")]
        assert judge(check, views, build.Context(build.expectations())).status in Status


def on(check: str, key: str, sample: str, plan: dict[str, object] | None = None) -> Status:
    item = checks()[check]
    views = [build.view(item, {key: text(SAMPLES / sample)})]
    return judge(item, views, build.Context(build.expectations(plan))).status


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ("gpu-ecc", Status.PASS), ("gpu-ecc-errors", Status.PASS), ("gpu-remap", Status.PASS),
        ("gpu-mig", Status.PASS), ("gpu-power-limit", Status.PASS), ("gpu-pcie", Status.PASS),
        ("nvlink-fabric-state", Status.PASS), ("gpu-cuda", Status.PASS),
    ],
)  # fmt: skip
def test_a_real_h100_board(check: str, status: Status) -> None:
    assert on(check, "nvidia-smi-qx", "k8stestinfra__hw-qx-h100.xml", H100) is status


def test_a_real_h100_board_is_no_h200() -> None:
    assert on("gpu-model", "nvidia-smi-qx", "k8stestinfra__hw-qx-h100.xml") is not Status.PASS


@pytest.mark.parametrize(
    ("check", "key", "sample", "status"),
    [
        ("log-xid", "dmesg", "gpud__dmesg.0.log", Status.FAIL),
        ("log-xid", "dmesg", "gpud__dmesg.decode.iso.log.0", Status.ERROR),
        ("log-xid", "dmesg", "gpud__dmesg.peermem.log.0", Status.ERROR),
        ("log-hardware", "dmesg", "gpud__memory-dmesg.decode.iso.log", Status.FAIL),
        ("log-hardware", "dmesg", "gpud__kmsg.1.log", Status.ERROR),
        ("os-thp", "thp", "sysfs__thp-enabled-always.txt", Status.FAIL),
        ("os-thp", "thp", "sysfs__thp-enabled-never.txt", Status.PASS),
        ("os-numa", "cmdline", "fileindex53303051955__grub-cmdline-host07.txt", Status.FAIL),
        ("nvlink-topology", "nvidia-smi-topo", "sglang24966__topo-m-8xH20.txt", Status.PASS),
        ("nvlink-topology", "nvidia-smi-topo", "nvsentinel__topo.0.txt", Status.PASS),
        ("host-responsive", "nvidia-smi-L", "owod81__nvidia-smi-gpu-is-lost.txt", Status.FAIL),
        ("bmc-sel", "ipmitool-sel", "gcm__ipmitool-pass_sel.txt", Status.WARN),
        ("nvlink-links", "nvidia-smi-nvlink", "nvexp__h100-mig__590.48.01__nvlink-s.txt", Status.ERROR),
    ],
)
def test_known_samples(check: str, key: str, sample: str, status: Status) -> None:
    assert on(check, key, sample) is status
