"""Speculative decoding: drafts that one step of the model verifies.

Leviathan, Kalman and Matias, "Fast inference from transformers via speculative decoding" (2023), equation 1:
of ``n`` drafts that are accepted with probability ``a`` each, in order, a step keeps
``(1 - a^(n+1)) / (1 - a)`` tokens, its own included. The step computes n + 1 tokens a sequence, reads the
cache once, and touches the experts that all of them choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rackwright.catalog import ModelEntry


@dataclass(frozen=True)
class Draft:
    """``tokens`` drafts a step; ``acceptance``: probability that one is kept, 0 to 1.

    ``cost``: seconds of one draft over seconds of a step of the model (c in the paper). None: of a prediction
    layer that ships with the model (MTP, EAGLE), one layer of its layers.
    """

    tokens: int
    acceptance: float
    cost: float | None = None

    @property
    def accepted(self) -> float:
        """Tokens that a step yields on average, at least 1."""
        if self.acceptance >= 1:
            return self.tokens + 1.0
        kept: float = (1 - self.acceptance ** (self.tokens + 1)) / (1 - self.acceptance)
        return kept

    def cost_of(self, model: ModelEntry) -> float:
        return 1 / model.layers.value if self.cost is None else self.cost
