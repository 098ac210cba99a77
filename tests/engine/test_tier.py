"""The last line of a run says which engine was used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.engine import needs, tier


@dataclass
class Report:
    nodeid: str
    user_properties: list[tuple[str, str]] = field(default_factory=list)


def reports(*names: str, marked: bool = True) -> Sequence[Report]:
    return [Report(name, [tier.MARK] if marked else []) for name in names]


def test_the_embedded_tier_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_ENGINE", "embedded")
    stats = {"passed": reports("a", "b", marked=False), "skipped": reports("c")}
    asked = "RACKWRIGHT_ENGINE=embedded: the embedded engine was asked for"
    assert tier.line(stats) == f"engine tier: embedded only: {asked}"


def test_a_run_without_a_test_of_the_real_engine_does_not_claim_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RACKWRIGHT_ENGINE", raising=False)
    monkeypatch.setattr("tools.engine.env.usable", lambda: "")
    stats = {"passed": reports("a", marked=False)}
    assert tier.line(stats) == "engine tier: embedded only: no test of the real engine was selected"


def test_without_any_program_the_next_command_is_told(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWRIGHT_ENGINE", raising=False)
    monkeypatch.setenv("RACKWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tier.line({"skipped": reports("a")}) == (
        "engine tier: embedded only: pulumi, pulumi-resource-kubernetes: not there. next: make engine"
    )


@pytest.mark.engine
@needs.lab()
def test_the_real_tier_is_told_with_versions() -> None:
    """A failed test ran as well, and a test with two reports is one test."""
    stats = {"passed": reports("a", "a", "b"), "failed": reports("c"), "skipped": []}
    found = tier.line(stats)
    assert found.startswith("engine tier: real (etcd 3.")
    assert found.endswith("); its tests: 3 ran")
    for version in ("pulumi 3.", "kubernetes provider 4.25.0", "kube-apiserver 1.34."):
        assert version in found
