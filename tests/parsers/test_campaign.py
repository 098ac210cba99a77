"""A bounded part of the campaign of damaged outputs; the whole of it: ``python -m tools.mutate``."""

from __future__ import annotations

from tools.mutate.campaign import Text, recordings, run


def test_no_damage_makes_a_traceback_or_a_clean_reading() -> None:
    """A share of the recordings, 1,200 damaged outputs of them: every rule holds."""
    texts = [text for text in recordings() if len(text.text) < 6_000]
    tally = run(texts, count=1_200, seed=20, sweep=False)
    assert tally.outputs >= 1_200
    assert len(tally.by_damage) == 8
    assert tally.broken == []
    assert tally.by_verdict["not understood"] > 100, "damage of all kinds is noticed at all"


def test_the_campaign_can_fail() -> None:
    """A command line is whole without any of its words: were a word the condition, two losses go unseen."""
    tally = run([Text("two", "cmdline", "quiet\nsplash\n", bad=True)], count=1, seed=1)
    assert [b.rule for b in tally.broken] == ["a deletion made a condition a clean reading"] * 2
