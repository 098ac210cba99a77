"""What every run of the tests tells at its end: which engine it used."""

from __future__ import annotations

import pytest

from tests.engine import tier


def pytest_itemcollected(item: pytest.Item) -> None:
    # The keyword would not do: a folder of that name is one too.
    if item.get_closest_marker("engine"):
        item.user_properties.append(tier.MARK)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(tier.line(terminalreporter.stats))
