"""Who owns the driver, which operators exist and in which version."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section


class Operator(Section):
    """``external``: somebody installs it, at least ``version`` is needed. ``helm``: this program does,
    from ``chart`` at ``version`` with ``digest``."""

    name: Literal[
        "gpu-operator",
        "network-operator",
        "leaderworkerset",
        "keda",
        "prometheus-operator",
        "gateway",
        "nvidia-dra-driver",
        "kueue",
    ]
    mode: Literal["external", "helm"] = "external"
    version: str
    namespace: str
    chart: str | None = None
    digest: str | None = None


class Mirror(Section):
    """Where every image comes from on a site without the internet, and the Secret by which pods read it."""

    mirror: str
    pull_secret: str | None = None


class Platform(Section):
    """``driver_version`` is the pinned driver; ``driver_owner`` decides who installs it, and one only."""

    namespace: str
    driver_owner: Literal["gpu-operator", "host"]
    driver_version: str
    kernel_module: Literal["open", "proprietary"]
    device_model: Literal["device-plugin", "dra"] = "device-plugin"
    mig_strategy: Literal["none", "single", "mixed"]
    operators: tuple[Operator, ...]
    registry: Mirror | None = None

    def operator(self, name: str) -> Operator | None:
        return next((o for o in self.operators if o.name == name), None)
