"""What users do: how many tokens relative to the guide's product, how long prompts and answers are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import model_validator

from rackwright.catalog.figures import Count, Entry, Figure, Frozen, Share, in_unit

TokenCount = Annotated[Figure, in_unit("tokens")]


class Lengths(Frozen):
    """Tokens of a prompt or an answer. The mean decides throughput; p50 and p95 where the source has them."""

    mean: TokenCount
    p50: TokenCount | None = None
    p95: TokenCount | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Lengths:
        if self.p50 is not None and self.p95 is not None and not self.p50.value <= self.p95.value:
            raise ValueError("p50 must not be above p95")
        if self.mean.value < 1:
            raise ValueError("mean must be at least one token")
        return self


class ScenarioEntry(Entry):
    """One kind of use. ``factor``: tokens relative to the guide's interactive product, for its preset.

    ``input``, ``output``: of one request, for the preset "scenario". ``prefix_sharing``: share of prompt
    tokens that a prefix cache without eviction has seen; sizing does not count on it. ``when``: what it
    stands for.
    """

    kind: Literal["scenario"]
    when: str
    factor: Count
    input: Lengths
    output: Lengths
    prefix_sharing: Share | None = None
