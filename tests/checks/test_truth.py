"""What must never be a pass: nothing expected, nothing to compare with, half of an output, an odd reading."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from checks.registry import Check, Scope
from rackwright.plan import HostExpectation
from rackwright.verdict import Status
from tests.checks import build
from tests.checks.cases import checks, judge

MAY_BE_EMPTY = {"gpu.clock_reasons_allowed", "gpu.processes_allowed"}
"""Lists of what is allowed: an empty one allows nothing, and is the stricter expectation."""


SECTIONS = {"gpu", "nvlink", "rdma", "os", "storage", "power"}


def _lists(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kinds = typing.get_args(field.annotation) or (field.annotation,)
        for kind in kinds:
            bare = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
            if name in SECTIONS and isinstance(bare, type):
                yield from _lists(bare, f"{prefix}{name}.")
            elif typing.get_origin(bare) is tuple or bare is tuple:
                yield f"{prefix}{name}"
        if typing.get_origin(field.annotation) is tuple:
            yield f"{prefix}{name}"


LISTS = sorted(set(_lists(HostExpectation)))


def test_the_lists_of_a_plan_are_found() -> None:
    assert {"tools", "uniform", "rdma.ports", "gpu.xid_fatal", "gpu.pci_ids", "os.ntp"} <= set(LISTS)


@pytest.mark.parametrize("path", LISTS)
def test_an_empty_list_of_what_is_expected_is_refused(path: str) -> None:
    if path in MAY_BE_EMPTY:
        build.expectations({path: []})
        return
    with pytest.raises(ValidationError, match="at least"):
        build.expectations({path: []})


POOLS = [c for c in checks().values() if c.scope is Scope.POOL]


def _of(check: Check, outputs: dict[str, Any], *, nodes: tuple[str, ...] = ("node-1", "node-2")) -> Status:
    views = [build.view(check, outputs, name=name) for name in nodes]
    return judge(check, views, build.Context(build.expectations())).status


@pytest.mark.parametrize("check", POOLS, ids=lambda c: c.id)
def test_one_host_of_several_is_compared_with_nothing(check: Check) -> None:
    view = build.view(check, {}, name="node-1")
    context = build.Context(build.expectations(), nodes=("node-1", "node-2"))
    assert judge(check, [view], context).status in (Status.WARN, Status.ERROR)
    alone = build.Context(build.expectations(), nodes=("node-1",))
    assert judge(check, [view], alone).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("check", POOLS, ids=lambda c: c.id)
def test_half_an_output_on_every_host_is_not_equality(check: Check) -> None:
    """All hosts cut at the same line look alike; what was to be compared is not there."""
    command = check.commands[0]
    lines = build.healthy()[command.key].splitlines(keepends=True)
    for count in range(len(lines)):
        cut = "".join(lines[:count])
        assert _of(check, {command.key: cut}) is not Status.PASS, f"cut after {count} lines"


ODD = [
    ("gpu-temperature", "nvidia-smi-load", {"utilisation": 99, "temperature": 0}),
    ("gpu-temperature", "nvidia-smi-load", {"utilisation": 99, "temperature": -1}),
    ("gpu-memory-temperature", "nvidia-smi-qx", {"every": {"memory": "0 C"}}),
    ("thermal-delta", "ipmitool-sdr", {"edit": {"Exhaust Temp     | 33": "Exhaust Temp     | 3 "}}),
    ("thermal-delta", "ipmitool-sdr", {"edit": {"Inlet Temp       | 24": "Inlet Temp       | 0 "}}),
    ("power-rack-budget", "ipmitool-dcmi", {"watts": 1}),
    ("power-rack-budget", "ipmitool-dcmi", {"watts": 65535}),
    ("gpu-ecc-errors", "nvidia-smi-qx", {"every": {"dram": "-1"}}),
    ("gpu-idle", "nvidia-smi-qx", {"every": {"used": "-5 MiB"}}),
    ("nvme-headroom", "df-model-dir", {"available": 8_000_000_000_000}),
    ("nvme-health", "nvme-smart", {"devices": {0: {"avail_spare": 255}}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "outputs"), ODD, ids=lambda v: v if isinstance(v, str) else None)
def test_a_reading_that_cannot_be_is_none(name: str, key: str, outputs: dict[str, Any]) -> None:
    check = checks()[name]
    busy: dict[str, Any] = {"nvidia-smi-load": {"utilisation": 99}}
    declared = {c.key for c in check.commands}
    given = {k: v for k, v in {**busy, key: outputs}.items() if k in declared}
    views = [build.view(check, given, name=name) for name in ("node-1", "node-2")]
    outcome = judge(check, views, build.Context(build.expectations()))
    assert outcome.status is Status.ERROR and "implausible" in outcome.message, outcome
