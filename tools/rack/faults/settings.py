"""Faults of settings that a person or an upgrade made: names, packages, runtime, kubelet, devices, clocks."""

from __future__ import annotations

import random

from tools.rack.faults.base import GPU, PORT, Args, fault, has_rdma, one_gpu, one_port
from tools.rack.state import HostState


@fault("clock-lower", "gpu", "gpu-clocks uniform-clocks@pool", touches="clocks", args=GPU)
def clock_lower(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU may not clock as high as the others."""
    one_gpu(state, rng, args).clock_max_mhz = 1410


@fault("verbs-not-loaded", "rdma", "ib-devices", touches="verbs", applies=has_rdma)
def verbs_not_loaded(state: HostState, rng: random.Random, args: Args) -> None:
    """The module that lets programs open RDMA devices is not loaded; the ports are up."""
    state.settings.verbs_loaded = False


@fault("verbs-node-missing", "rdma", "ib-devices", touches="verbs", applies=has_rdma, args=PORT)
def verbs_node_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """One RDMA device has no node under /dev."""
    state.settings.verbs_missing = one_port(state, rng, args).device


@fault("name-unknown", "os", "net-names", touches="names", applies=lambda s: bool(s.settings.names))
def name_unknown(state: HostState, rng: random.Random, args: Args) -> None:
    """The name of a server that the plan counts on does not resolve."""
    state.settings.names[rng.choice(sorted(state.settings.names))] = None


@fault("no-default-route", "os", "net-names", touches="names", applies=lambda s: bool(s.settings.names))
def no_default_route(state: HostState, rng: random.Random, args: Args) -> None:
    """The default route was lost."""
    state.settings.default_route = False


@fault("hugepages-reserved", "os", "os-hugepages", touches="hugepages")
def hugepages_reserved(state: HostState, rng: random.Random, args: Args) -> None:
    """100 GiB of memory are reserved as static huge pages."""
    state.settings.hugepages = 51_200


@fault("kernel-not-held", "os", "os-holds", touches="holds")
def kernel_not_held(state: HostState, rng: random.Random, args: Args) -> None:
    """The kernel's package is not held back from upgrades."""
    state.settings.held["linux-image-generic"] = False


@fault("unattended-upgrades", "os", "os-holds", touches="holds")
def unattended_upgrades(state: HostState, rng: random.Random, args: Args) -> None:
    """Unattended upgrades are on."""
    state.settings.unattended = True


@fault("cgroupfs", "os", "container-config", touches="cgroups")
def cgroupfs(state: HostState, rng: random.Random, args: Args) -> None:
    """The container runtime manages cgroups beside systemd."""
    state.settings.systemd_cgroup = False


@fault("cpus-not-pinned", "os", "container-kubelet", touches="kubelet")
def cpus_not_pinned(state: HostState, rng: random.Random, args: Args) -> None:
    """The kubelet gives pods whichever CPUs are free."""
    assert state.settings.kubelet is not None
    state.settings.kubelet["cpuManagerPolicy"] = "none"
