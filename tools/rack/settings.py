"""Settings of a simulated host that pods and engines meet, and what its active tests measure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rackwright.plan import HostExpectation, NotApplicable


def _planned(value: Any, default: Any) -> Any:
    return default if value is None or isinstance(value, NotApplicable) else value


@dataclass
class Settings:
    """``names``: what resolves, to which address; None where it does not. ``slow_names_s``: what an answer
    takes. ``held``: packages by whether they are on hold. ``kubelet``: None before the node has joined.
    """

    names: dict[str, str | None]
    slow_names_s: float = 0.0
    default_route: bool = True
    hugepages: int = 0
    shm_gib: float = 1007.0
    held: dict[str, bool] = field(default_factory=dict)
    unattended: bool = False
    systemd_cgroup: bool = True
    kubelet: dict[str, str] | None = None
    verbs_loaded: bool = True
    verbs_missing: str = ""
    """The RDMA device whose node is missing."""


def settings(expected: HostExpectation, driver: str) -> Settings:
    """As the plan wants them."""
    want = expected.os
    branch = driver.partition(".")[0]
    kinds: tuple[str, ...] = _planned(want.package_holds, ())
    packages = {
        "driver": f"nvidia-driver-{branch}-server-open",
        "fabric-manager": f"nvidia-fabricmanager-{branch}",
        "kernel": "linux-image-generic",
    }
    managers: tuple[str, ...] = _planned(want.topology_managers, ("best-effort",))
    return Settings(
        names={name: f"10.0.0.{n + 2}" for n, name in enumerate(_planned(want.names, ()))},
        hugepages=_planned(want.hugepages, 0),
        held={packages[kind]: True for kind in kinds} | {"linux-image-6.8.0-64-generic": False},
        kubelet={
            "cpuManagerPolicy": _planned(want.cpu_manager, "static"),
            "topologyManagerPolicy": managers[0],
            "reservedSystemCPUs": "0-3",
        },
    )
