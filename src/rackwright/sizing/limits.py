"""Constants of calibration: ``catalog/estimator/calibration.yaml``, each with unit and source."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from rackwright.yamlio import parse_yaml

FILE = "catalog/estimator/calibration.yaml"


@cache
def limit(section: str, name: str) -> float:
    """The value of ``name`` in ``section`` (noise, widening, accepted), in the unit that the file says."""
    return float(_data()[section][name]["value"])


@cache
def _data() -> dict[str, dict[str, dict[str, float]]]:
    data: dict[str, dict[str, dict[str, float]]] = parse_yaml(text(), FILE).data
    return data


def text() -> str:
    """The file as it is shipped."""
    return (files("rackwright") / FILE).read_text(encoding="utf-8")
