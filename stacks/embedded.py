"""The embedded engine: runs a Pulumi program in this process and records what it registers.

It speaks the resource monitor's side of the protocol as a plain object, so no CLI, provider or socket is
needed. Whatever only a provider plugin could answer (remote components, invokes, calls, reads) is refused:
a render that silently lacks objects would be worse than none.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from google.protobuf import empty_pb2, json_format  # type: ignore[import-untyped]
from pulumi.runtime import resource as sdk
from pulumi.runtime import run_in_stack, set_all_config
from pulumi.runtime.proto import engine_pb2, resource_pb2, source_pb2
from pulumi.runtime.settings import Settings, configure

from rackwright.errors import CannotRun, Problem

STACK_TYPE = "pulumi:pulumi:Stack"
REDACTED = "[secret]"

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the marker of a secret, not one
_SUPPORTED = (
    # SECRETS is enum value 0: never filter this list by truth, or secrets arrive in clear.
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
)

Path_: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Registration:
    """One resource as the program declared it. Secret values are replaced when it is recorded."""

    type: str
    name: str
    urn: str
    parent: str
    custom: bool
    inputs: Mapping[str, Any]
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protect: bool = False
    retain_on_delete: bool = False
    ignore_changes: tuple[str, ...] = ()
    secret_paths: tuple[Path_, ...] = ()

    @property
    def component(self) -> bool:
        return not self.custom


def run(
    program: Callable[[], object],
    *,
    project: str = "rackwright",
    stack: str = "render",
    config: Mapping[str, str] | None = None,
) -> tuple[Registration, ...]:
    """What ``program`` registers, in an order in which it can be applied; the same each time.

    Raises:
        CannotRun: the program needs something that only the real engine has.
    """
    monitor = _Monitor(project, stack)

    async def main() -> None:
        # Settings live in context variables; a fresh task context keeps one run from another.
        configure(Settings(project=project, stack=stack, monitor=monitor, engine=_Engine(), dry_run=False))
        # The error that ends the program is raised; the futures it leaves behind would only repeat it.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        set_all_config(dict(config or {}))
        await run_in_stack(lambda: _discard(program()))

    with _collector_paused(), _stacks_unnoted():
        asyncio.run(main())
    return ordered(monitor.registrations.values())


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Futures and outputs of every resource live until the end: looking for garbage doubles the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@contextmanager
def _stacks_unnoted() -> Iterator[None]:
    """The SDK notes the Python stack of each resource for an engine that shows it: a tenth of the time here,
    where nobody looks. An SDK without the function is left as it is."""
    note = getattr(sdk, "_get_stack_trace", None)
    if note is None:
        yield
        return
    setattr(sdk, "_get_stack_trace", source_pb2.StackTrace)  # noqa: B010 - private to the SDK
    try:
        yield
    finally:
        setattr(sdk, "_get_stack_trace", note)  # noqa: B010


def ordered(registrations: Iterable[Registration]) -> tuple[Registration, ...]:
    """Parents and dependencies first; among those that are free, by URN."""
    by_urn = {r.urn: r for r in registrations}
    waiting = {urn: _requirements(r) & by_urn.keys() for urn, r in by_urn.items()}
    dependents: dict[str, list[str]] = {}
    for urn, needed in waiting.items():
        for requirement in needed:
            dependents.setdefault(requirement, []).append(urn)
    free = [urn for urn, needed in waiting.items() if not needed]
    heapq.heapify(free)
    order = []
    while free:
        urn = heapq.heappop(free)
        order.append(by_urn[urn])
        for dependent in dependents.get(urn, ()):
            waiting[dependent].discard(urn)
            if not waiting[dependent]:
                heapq.heappush(free, dependent)
    return tuple(order)


def _requirements(registration: Registration) -> set[str]:
    needed = {registration.parent, *registration.dependencies}
    for urns in registration.property_dependencies.values():
        needed.update(urns)
    return needed - {"", registration.urn}


def _discard(_: object) -> None:
    """``run_in_stack`` awaits what the program returns; a component is not awaitable."""


class _Engine:
    """The part of the engine service that the SDK calls: logging, and the version it may demand."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def Log(self, request: engine_pb2.LogRequest) -> empty_pb2.Empty:  # noqa: N802 - name of the protocol
        if request.severity >= engine_pb2.WARNING:
            self.messages.append(request.message)
        return empty_pb2.Empty()

    def RequirePulumiVersion(self, request: Any) -> engine_pb2.RequirePulumiVersionResponse:  # noqa: N802
        return engine_pb2.RequirePulumiVersionResponse()


class _Monitor:
    """The resource monitor. The SDK calls it from several threads."""

    def __init__(self, project: str, stack: str) -> None:
        self._prefix = f"urn:pulumi:{stack}::{project}::"
        self._lock = threading.Lock()
        self.registrations: dict[str, Registration] = {}

    def GetDeploymentInfo(self, request: Any) -> resource_pb2.DeploymentInfo:  # noqa: N802
        return resource_pb2.DeploymentInfo(supportedFeatures=_SUPPORTED)

    def RegisterResource(  # noqa: N802
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        if request.remote:
            _refuse(f"{request.type} {request.name}", "a component that its provider plugin expands")
        registration = self._recorded(request)
        with self._lock:
            if registration.urn in self.registrations:
                raise CannotRun(
                    Problem(
                        registration.urn,
                        "must be declared once",
                        "a second resource of the same type and name",
                        "an engine would apply one of the two and lose the other",
                        "name them apart",
                    )
                )
            self.registrations[registration.urn] = registration
        identity = request.name if request.custom else ""
        return resource_pb2.RegisterResourceResponse(urn=registration.urn, id=identity, object=request.object)

    def RegisterResourceOutputs(self, request: Any) -> empty_pb2.Empty:  # noqa: N802
        return empty_pb2.Empty()

    def SignalAndWaitForShutdown(self, request: Any) -> empty_pb2.Empty:  # noqa: N802
        return empty_pb2.Empty()

    def Invoke(self, request: Any) -> NoReturn:  # noqa: N802
        _refuse(request.tok, "a function of a provider plugin")

    def Call(self, request: Any) -> NoReturn:  # noqa: N802
        _refuse(request.tok, "a method of a provider plugin")

    def ReadResource(self, request: Any) -> NoReturn:  # noqa: N802
        _refuse(f"{request.type} {request.name}", "a read of an object in a live cluster")

    def RegisterStackTransform(self, request: Any) -> NoReturn:  # noqa: N802
        _refuse("a stack transform", "a callback that the engine runs")

    def RegisterPackage(self, request: Any) -> NoReturn:  # noqa: N802
        _refuse(f"package {request.name}", "a parameterised provider plugin")

    def _recorded(self, request: resource_pb2.RegisterResourceRequest) -> Registration:
        secret_paths: list[Path_] = []
        inputs = _plain(json_format.MessageToDict(request.object), (), secret_paths)
        return Registration(
            type=request.type,
            name=request.name,
            urn=self._urn(request),
            parent=request.parent,
            custom=request.custom,
            inputs=inputs,
            dependencies=tuple(sorted(request.dependencies)),
            property_dependencies={
                key: tuple(sorted(value.urns))
                for key, value in sorted(request.propertyDependencies.items())
                if value.urns
            },
            protect=request.protect,
            retain_on_delete=request.retainOnDelete,
            ignore_changes=tuple(request.ignoreChanges),
            secret_paths=tuple(sorted(secret_paths, key=str)),
        )

    def _urn(self, request: resource_pb2.RegisterResourceRequest) -> str:
        """``urn:pulumi:STACK::PROJECT::PARENT-TYPE$TYPE::NAME``; the stack itself qualifies nobody."""
        qualified = request.type
        if request.parent:
            parent_type = request.parent.split("::")[2]
            if parent_type != STACK_TYPE:
                qualified = f"{parent_type}${request.type}"
        return f"{self._prefix}{qualified}::{request.name}"


def _plain(value: Any, path: Path_, secrets: list[Path_]) -> Any:
    """Wire value to plain data: secrets redacted, doubles that are whole become integers."""
    if isinstance(value, dict):
        if value.get(_SIGNATURE) == _SECRET:
            secrets.append(path)
            return REDACTED
        return {key: _plain(item, (*path, key), secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, (*path, index), secrets) for index, item in enumerate(value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _refuse(where: str, what: str) -> NoReturn:
    raise CannotRun(
        Problem(
            where,
            "must be a resource that the embedded engine can record",
            what,
            "its objects exist only inside the real engine; leaving them out would render half a cluster",
            "declare the objects themselves, or use the real engine: pulumi up",
        )
    )
