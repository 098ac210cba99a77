"""How old an engine's version is: engines got faster, so a version or a date is an input."""

from __future__ import annotations

import re
from functools import lru_cache

from rackwright.sizing.constants import fitted

OLDEST, NEWEST = -1.5, 0.6
"""Years around October 2025 that measurements cover; older and newer versions count as these."""
_NUMBER = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_DATE = re.compile(r"(20\d\d)-?(\d\d)?")


@lru_cache(maxsize=4096)
def age_of(engine: str, version: str, date: str = "") -> float:
    """Years from October 2025 to the release of ``version``, or to ``date`` where the version says nothing.

    A version that is a date ("2025-07") is one. Unknown is 0.
    """
    table = fitted()
    releases = table.releases.get(table.engines.get(engine, engine), {})
    found = None if _DATE.match(version.strip()) else _NUMBER.search(version)
    if found is not None and releases:
        for depth in (3, 2, 1):
            key = ".".join(part for part in found.groups()[:depth] if part)
            if key in releases:
                return _bounded(releases[key])
    for text in (version, date):
        written = _DATE.match(text.strip())
        if written is not None:
            return _bounded(int(written[1]) - 2025 + (int(written[2] or 7) - 10) / 12)
    return 0.0


def _bounded(years: float) -> float:
    return min(max(years, OLDEST), NEWEST)
