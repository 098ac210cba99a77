"""What emitters give: recordings of commands, and files of /sys, /proc and /etc."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recording:
    """What one exact argument vector prints.

    Attributes:
        tool: the command's name.
        argv: its arguments joined by one blank each.
        root: without root it prints ``refusal`` and ends with 1.
    """

    tool: str
    argv: str
    stdout: str = ""
    stderr: str = ""
    rc: int = 0
    root: bool = False
    refusal: str = ""


Files = dict[str, str]
"""Absolute path on the simulated host → content."""


@dataclass(frozen=True)
class Link:
    """A symbolic link of a fake tree."""

    target: str


Tree = dict[str, str | Link]
