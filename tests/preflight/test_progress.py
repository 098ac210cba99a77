"""Long runs show signs of life: a line a host, and in long silences who is still running."""

from __future__ import annotations

import pytest

from checks.capture import Capture
from rackwright.cli import progress
from rackwright.cli.progress import Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_tier_counts_its_own_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(3, quiet=False)
    shown.tier(0, ["a", "b", "c"])
    for name in "abc":
        shown.host(Capture(host=name, seconds=1.0), [])
    shown.tier(1, ["a", "c"])
    shown.host(Capture(host="c", problem="refused"), [])
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "[1/3] a: 0 pass (1.0 s)", "[2/3] b: 0 pass (1.0 s)", "[3/3] c: 0 pass (1.0 s)", "tier 1: 2 hosts",
        "[1/2] c: not reached: refused",
    ]  # fmt: skip


def test_the_sign_of_life_names_who_is_waited_for_and_how_long() -> None:
    clock = Clock()
    shown = Progress(4, quiet=True, forks=2, clock=clock)
    shown.tier(2, [f"gpu-0{n}" for n in (1, 2, 3, 4)])
    clock.now = 100.0
    assert shown.sign_of_life() == "0/4 hosts after 1 min 40 s"
    shown.host(Capture(host="gpu-02"), [])
    shown.host(Capture(host="gpu-01"), [])
    assert shown.sign_of_life() == (
        "2/4 hosts after 1 min 40 s; waiting for gpu-[03,04]; about 1 min 40 s left"
    )


def test_a_long_silence_is_broken_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_TICK_S", 0.01)
    clock = Clock()
    shown = Progress(1, quiet=False, clock=clock)
    shown.tier(0, ["a"])
    shown.start(1, None)
    clock.now = 31.0
    for _ in range(500):
        if "waiting for a" in (said := capsys.readouterr().err):
            break
        shown._over.wait(0.01)
    else:
        pytest.fail("no sign of life")
    assert said.count("waiting for a") == 1
    shown._over.wait(0.1)
    shown.end()
    assert capsys.readouterr().err == ""


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(1, quiet=True)
    shown.start(1, None)
    shown.tier(1, ["a"])
    shown.host(Capture(host="a"), [])
    shown.end()
    assert capsys.readouterr().err == ""
