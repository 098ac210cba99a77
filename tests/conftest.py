"""Every run of the tests tells at its end which engine it used; several processes may share it."""

from __future__ import annotations

import pytest

from tests.engine import tier


def pytest_itemcollected(item: pytest.Item) -> None:
    # The keyword would not do: a folder of that name is one too.
    if item.get_closest_marker("engine"):
        item.user_properties.append(tier.MARK)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests.sharing import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from tests.sharing import scheduler

    return scheduler(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(tier.line(terminalreporter.stats))
