"""Constants of the estimator: fitted by ``tools/fit``, kept in ``catalog/estimator/constants.yaml``.

A constant is a value times a factor for each category the case falls in: ``value × Π by[category][case]``.
A case that no measurement had keeps the value itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rackwright.sizing import limits
from rackwright.yamlio import parse_yaml

FILE = "catalog/estimator/constants.yaml"


class Keys(NamedTuple):
    """The categories of a case."""

    engine: str
    memory_class: str
    architecture: str
    precision: str
    link: str
    kind: str
    attention: str
    scheme: str
    design: str

    def category(self, name: str) -> str:
        """The case of category ``name``; a pair is written ``engine/kind``."""
        return "/".join(str(getattr(self, part)) for part in name.split("/"))


@dataclass(frozen=True, slots=True)
class Constants:
    """One case's constants. Shares are of nominal rates.

    ``dense``, ``cache``, ``experts``: of bandwidth, by what is read; ``activations``: passes over them.
    ``decode_flops``, ``prefill_flops``, ``attention_flops``: of FLOP/s; ``mixed_*``: of that, for experts.
    ``layer`` … ``latent_layer``, ``step``, ``sequence``, ``request``: seconds of launching and host work.
    ``hop``: seconds a collective; ``link``, ``link_prefill``, ``dispatch``, ``dispatch_hop``: of link rate,
    and relative to it. ``stages``: loss to pipeline bubbles. ``memory_share``: of memory the engine takes;
    ``reserved``: GB of it for itself; ``resident``: share of an answer that a slot reserves. ``first``,
    ``first_arriving``: seconds before a prompt starts; the rest are the shares and factors of ``queueing``.
    """

    dense: float
    cache: float
    experts: float
    activations: float
    decode_flops: float
    mixed_decode: float
    prefill_flops: float
    mixed_prefill: float
    attention_flops: float
    layer: float
    expert_layer: float
    linear_layer: float
    sparse_layer: float
    latent_layer: float
    step: float
    sequence: float
    request: float
    hop: float
    link: float
    link_prefill: float
    dispatch: float
    dispatch_hop: float
    stages: float
    memory_share: float
    reserved: float
    resident: float
    first: float
    first_arriving: float
    alone: float
    behind_clients: float
    behind_exponent: float
    behind_arrivals: float
    interleaved: float
    waves: float
    at_once: float
    running: float
    wait: float
    wait_waves: float
    pass_limit: float
    between: float
    span: float
    tail: float
    newer: float
    speed: float


NAMES = tuple(each.name for each in fields(Constants))


@dataclass(frozen=True)
class Table:
    """What the file says. ``constants``: name to value and factors; ``engines``: whose constants an engine
    borrows; ``errors``: of pairs that the fit had not seen, median and ninth decile in percent, by what was
    measured; the rest as the modules that read it say."""

    constants: Mapping[str, tuple[float, tuple[tuple[str, Mapping[str, float]], ...]]]
    engines: Mapping[str, str]
    limits: Mapping[str, Mapping[str, float]]
    releases: Mapping[str, Mapping[str, float]]
    intervals: Mapping[str, Mapping[str, tuple[float, float]]]
    measured: frozenset[tuple[str, str, str]]
    designs: frozenset[tuple[str, str]]
    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def resolve(self, keys: Keys) -> Constants:
        values = {}
        for name in NAMES:
            value, by = self.constants[name]
            for category, factors in by:
                value *= factors.get(keys.category(category), 1.0)
            values[name] = value
        return Constants(**values)


def table_of(data: Mapping[str, Any]) -> Table:
    """The table that the mapping ``data`` (a constants file) says."""
    return Table(
        constants={
            name: (float(item["value"]), tuple(item.get("by", {}).items()))
            for name, item in data["constants"].items()
        },
        engines=dict(data.get("engines", {})),
        limits=dict(data.get("limits", {})),
        releases=dict(data.get("releases", {})),
        intervals={
            kind: {name: (float(low), float(high)) for name, (low, high) in classes.items()}
            for kind, classes in data.get("intervals", {}).items()
        },
        measured=frozenset(
            (hardware, model, engine)
            for engine, pairs in data.get("measured", {}).items()
            for hardware, models in pairs.items()
            for model in models
        ),
        designs=frozenset(
            (design, engine) for engine, designs in data.get("designs", {}).items() for design in designs
        ),
        errors={name: (float(a), float(b)) for name, (a, b) in data.get("errors", {}).items()},
    )


@cache
def digest() -> str:
    """SHA-256 over every constant of the estimator, those of calibration included: plans depend on them."""
    body = (files("rackwright") / FILE).read_text(encoding="utf-8") + limits.text()
    return hashlib.sha256(body.encode()).hexdigest()


@cache
def fitted() -> Table:
    """The table that ships with the product."""
    return table_of(parse_yaml((files("rackwright") / FILE).read_text(encoding="utf-8"), FILE).data)


@cache
def constants_of(keys: Keys) -> Constants:
    """The shipped constants of a case."""
    return fitted().resolve(keys)
