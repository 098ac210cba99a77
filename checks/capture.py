"""A capture: everything one collection brought back from one host, kept as it came.

It can be judged without the host, replayed, attached to a ticket and compared with last month's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rackwright.files import write_whole


class CommandOutput(BaseModel):
    """One command's result.

    Attributes:
        state: ``done``; ``timeout`` (stopped by its deadline); ``capped`` (output beyond the cap, cut);
            ``denied`` (needs root and ``sudo -n`` refused); ``missing`` (no such tool);
            ``incomplete`` (the transfer ended before the bytes that were announced); ``skipped`` (not
            started, ``stderr`` says why: the host's time was used up, or the tool hung before).
        rc: exit status, None where it never ran.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    command: str
    state: Literal["done", "timeout", "capped", "denied", "missing", "incomplete", "skipped"]
    rc: int | None = None
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""


class Capture(BaseModel):
    """One host's capture.

    ``problem`` is set, in one line, where the host could not be collected; ``cut`` where the collection
    ended early and what came before is kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["rackwright/capture/v1"] = Field(default="rackwright/capture/v1", alias="schema")
    host: str
    started: str = ""
    seconds: float = 0.0
    problem: str = ""
    problem_next: str = ""
    cut: str = ""
    outputs: dict[str, CommandOutput] = Field(default_factory=dict)

    def write(self, directory: Path) -> Path:
        """One file a host, whole or not at all.

        Raises:
            CannotRun: it cannot be written.
        """
        path = directory / f"{self.host}.json"
        write_whole(path, self._text())
        return path

    def _text(self) -> str:
        try:
            return self.model_dump_json(by_alias=True)
        except ValueError:  # half a surrogate pair
            return json.dumps(self.model_dump(mode="json", by_alias=True), ensure_ascii=False)

    @classmethod
    def read(cls, path: Path) -> Capture:
        return cls.model_validate_json(path.read_text(encoding="utf-8"))
