"""The check registry: every check once, as declared commands and a pure judge.

A check is one decorated function in ``checks/areas/``. From the same entry come the preflight run, the
pytest items, the checklist, the runbook steps and the report, so there is one wording and one threshold.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from rackwright.plan.base import NotApplicable
from rackwright.verdict import Outcome, Severity


class Scope(StrEnum):
    """What one verdict is about."""

    HOST = "host"
    POOL = "pool"
    RACK = "rack"


@dataclass(frozen=True)
class Command:
    """One command of the collector script.

    Attributes:
        key: names it in captures; two checks that declare the same key share one execution.
        shell: POSIX sh text. It holds no value from a plan or an inventory.
        parser: a parser kind, or "" where the judge reads the text itself.
        root: run under ``sudo -n`` when the login is not root.
        timeout_s: after which it is stopped, then killed 5 s later.
        cap_bytes: output beyond it is cut and the capture says so; no file it writes may grow larger either.
        ok_rcs: exit statuses that mean the tool did its work.
        variables: plan values it reads as environment variables (``RW_MODEL_DIR``), quoted by the collector.
        paired: it runs on two hosts at once, as server and as client; the collector's script leaves it out.
        shown: stands for ``shell`` where a person reads it and the text is a program.
    """

    key: str
    shell: str
    parser: str = ""
    root: bool = False
    timeout_s: int = 20
    cap_bytes: int = 2_000_000
    ok_rcs: tuple[int, ...] = (0,)
    variables: tuple[str, ...] = ()
    paired: bool = False
    shown: str = ""

    @property
    def title(self) -> str:
        """What a person reads and can paste."""
        return self.shown or self.shell

    @property
    def vendor(self) -> str:
        """Whose accelerators it asks, by the tools that it names; empty where it asks none."""
        return _vendor_of(self.shell)


VENDOR_TOOLS: Mapping[str, re.Pattern[str]] = {
    "nvidia": re.compile(r"nvidia|\bnv-|\bdcgmi\b|cuda|cudnn|nccl|\bnvpmodel\b|\btegrastats\b"),
    "amd": re.compile(r"\b(?:amd-smi|rocm-smi|rocminfo)\b"),
    "huawei": re.compile(r"\b(?:npu-smi|hccn_tool)\b"),
    "cambricon": re.compile(r"\bcnmon\b"),
    "moore-threads": re.compile(r"\bmthreads-gmi\b"),
    "apple": re.compile(r"\b(?:system_profiler|sw_vers|pmset)\b|iogpu\."),
}
"""What a command names that only hosts with a vendor's accelerators have. No other host is asked it."""


@lru_cache(maxsize=1024)
def _vendor_of(shell: str) -> str:
    return next((vendor for vendor, words in VENDOR_TOOLS.items() if words.search(shell)), "")


@dataclass(frozen=True)
class Fix:
    """A remedy as data, so that the program may apply it.

    ``{name}`` in a command is filled with a value of the plan, as one word of the shell; ``{was}`` in
    ``inverse`` with what ``before`` had printed. All of it is POSIX sh, run by root.

    Attributes:
        commands: what mends it. Empty where only a person can; ``reboot`` then says what that needs.
        before: prints the state that ``commands`` change.
        inverse: restores that state.
        values: names and the expectations they are read from; of a list the first, all where ``*`` leads.
        only: an expectation and the value at which ``commands`` are right.
        reboot: it holds only after a reboot, so it is never applied to a host that serves.
    """

    commands: tuple[str, ...] = ()
    before: str = ""
    inverse: str = ""
    values: tuple[tuple[str, str], ...] = ()
    only: tuple[str, Any] | None = None
    reboot: bool = False

    @property
    def safe(self) -> bool:
        """Whether it may be applied while the host serves, and taken back."""
        return bool(self.commands and self.before and self.inverse) and not self.reboot


Judge = Callable[..., Outcome]


@dataclass(frozen=True)
class Check:
    """One line of the checklist. ``expects`` is the leaf's path below the pool's expectations."""

    id: str
    title: str
    why: str
    severity: Severity
    tier: int
    scope: Scope
    commands: tuple[Command, ...]
    expects: str
    remedy: str
    reversible: bool
    source: str
    judge: Judge
    area: str = ""
    ids: tuple[str, ...] = ()
    """Line ids of the source checklist that it covers."""
    fix: Fix | None = None
    active: str = ""
    """What the check does to a host beyond reading; never made unless its tier is asked for."""

    @property
    def vendors(self) -> frozenset[str]:
        """Whose accelerators it can judge: of any vendor where it asks none of their tools."""
        return frozenset(command.vendor for command in self.commands) - {""}


class RegistryError(Exception):
    """A check is declared wrongly: found at import, not at run time."""


CHECKS: dict[str, Check] = {}
_ID = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)+$")


def check(
    *,
    id: str,  # noqa: A002 - the field's name everywhere
    title: str,
    severity: Severity,
    commands: Sequence[Command],
    expects: str,
    remedy: str,
    reversible: bool,
    source: str,
    tier: int = 0,
    scope: Scope = Scope.HOST,
    ids: Sequence[str] = (),
    fix: Fix | None = None,
    active: str = "",
) -> Callable[[Judge], Judge]:
    """Register the decorated judge; its docstring is the check's *why*.

    Raises:
        RegistryError: a field is missing, the id is not ``<area>-<word>``, or stands twice, one command
            key is declared with two texts, or an active check does not say what it does.
    """

    def register(judge: Judge) -> Judge:
        why = " ".join((judge.__doc__ or "").split())
        for name, value in {"title": title, "remedy": remedy, "source": source, "docstring": why}.items():
            if not value.strip():
                raise RegistryError(f"check {id}: {name} is empty")
        if not _ID.match(id):
            raise RegistryError(f"check {id}: an id is <area>-<word>, lower case")
        if fix is not None and not (fix.safe or fix.reboot):
            raise RegistryError(f"check {id}: a fix has commands, before and inverse, or needs a reboot")
        if (tier > 0) is not bool(active):
            raise RegistryError(f"check {id}: tier 0 only reads; later tiers say what they do to a host")
        if id in CHECKS:
            raise RegistryError(f"check {id}: registered twice")
        for command in commands:
            known = _COMMANDS.setdefault(command.key, command)
            if known != command:
                raise RegistryError(
                    f"check {id}: command {command.key} is declared with another text elsewhere"
                )
        CHECKS[id] = Check(
            id=id,
            title=title,
            why=why,
            severity=severity,
            tier=tier,
            scope=scope,
            commands=tuple(commands),
            expects=expects,
            remedy=remedy,
            reversible=reversible,
            source=source,
            judge=judge,
            area=id.partition("-")[0],
            ids=tuple(ids),
            fix=fix,
            active=active,
        )
        return judge

    return register


_COMMANDS: dict[str, Command] = {}


def load() -> Mapping[str, Check]:
    """All checks, in the order of their area and id. Importing is the registration."""
    import checks.areas

    for module in sorted(m.name for m in pkgutil.iter_modules(checks.areas.__path__)):
        importlib.import_module(f"checks.areas.{module}")
    return dict(sorted(CHECKS.items()))


def wanted(item: Check, root: Any) -> Any:
    """What a pool's expectations want of a check: a value, ``NotApplicable`` or None.

    A check that asks tools of another vendor than the plan's accelerators does not apply.
    """
    vendor = root.gpu.vendor if root is not None else ""
    if vendor and item.vendors and vendor not in item.vendors:
        asked = ", ".join(sorted(item.vendors))
        return NotApplicable(
            not_applicable=f"it asks tools of {asked}; the plan has accelerators of {vendor}"
        )
    return expectation(root, item.expects) if item.expects else None


def expectation(root: Any, path: str) -> Any:
    """The plan's value for ``path`` below a pool's expectations: a value, ``NotApplicable`` or None."""
    current = root
    for part in path.split("."):
        if current is None or isinstance(current, NotApplicable):
            return current
        current = getattr(current, part)
    return current
