"""What differs between kinds of hosts: how an engine runs, who keeps it running, where things lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rackwright.plan import Pool


@dataclass(frozen=True)
class Family:
    """Attributes:
    runtime: ``docker`` runs the plan's image; ``native`` a program below ``programs``.
    groups: of the engine's user, so that it may open the accelerator.
    """

    name: Literal["nvidia", "spark", "jetson", "mac"]
    title: str
    runtime: Literal["docker", "native"]
    init: Literal["systemd", "launchd"]
    root: str = "/etc/rackwright"
    unit_dir: str = "/etc/systemd/system"
    front_dir: str = "/etc/nginx/conf.d"
    programs: str = "/opt/rackwright/engines"
    groups: tuple[str, ...] = ()


NVIDIA = Family("nvidia", "NVIDIA GPUs", "docker", "systemd")
SPARK = Family("spark", "DGX Spark", "docker", "systemd")
JETSON = Family("jetson", "Jetson", "native", "systemd", groups=("video", "render"))
MAC = Family(
    "mac",
    "Mac Studio",
    "native",
    "launchd",
    root="/usr/local/etc/rackwright",
    unit_dir="/Library/LaunchDaemons",
    front_dir="/opt/homebrew/etc/nginx/servers",
    programs="/opt/rackwright/engines",
)
_APPLE = ("m1-", "m2-", "m3-", "m4-")
_KNOWN_PREFIXES: tuple[tuple[tuple[str, ...], Family], ...] = (
    (_APPLE, MAC),
    (("jetson-",), JETSON),
    (("gb10",), SPARK),
)


def family_of(pool: Pool) -> Family | None:
    """The family of a pool's machines, by the plan's accelerator and device resource; None: not served."""
    for prefixes, family in _KNOWN_PREFIXES:
        if pool.accelerator.startswith(prefixes):
            return family
    return NVIDIA if pool.gpu_resource == "nvidia.com/gpu" else None
