"""What claims on accelerators ask of a cluster."""

from __future__ import annotations

from rackwright.sizing import claims
from rackwright.sizing.cautions.base import Finding, Rule, Sized


def claims_behind_gates(s: Sized) -> Finding | None:
    """Beta versions of the API of claims are off as shipped."""
    devices = s.workload.devices
    if devices is None or not claims.asked(s.workload) or claims.minor(devices.kubernetes) >= claims.GENERAL:
        return None
    return (
        "warn",
        f"Kubernetes {devices.kubernetes} serves resource.k8s.io/{claims.api_of(devices.kubernetes)} only "
        "where the gate DynamicResourceAllocation and the API are switched on in API server, scheduler, "
        "controller manager and kubelets; from 1.34 on they are on.",
        "input",
        "Kubernetes 1.32 to 1.34: dynamic resource allocation",
    )


RULES: tuple[Rule, ...] = (claims_behind_gates,)
