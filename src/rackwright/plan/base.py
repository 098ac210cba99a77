"""What every section of a plan shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A frozen part of a plan. Unknown fields are refused: a typo must not be silently ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class NotApplicable(Section):
    """The plan says that this expectation has no meaning here, and why.

    The only way a check may come out not-applicable; a missing expectation is an error.
    """

    not_applicable: str
