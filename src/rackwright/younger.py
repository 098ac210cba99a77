"""Fields that came after the first files of their kind: not written where they say nothing; digests stay."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer


class Grown(BaseModel):
    """A model that has grown. ``YOUNGER``: its fields that are not written while they hold their default."""

    YOUNGER: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        for name in self.YOUNGER:
            if getattr(self, name) == type(self).model_fields[name].default:
                data.pop(name, None)
        return data
