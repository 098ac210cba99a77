"""What sharing nodes and accelerators brings with it."""

from __future__ import annotations

from rackwright.sizing.cautions.base import Finding, Rule, Sized

OPERATOR = "GPU operator, MIG manager: it stops the operator's own clients only"
MPS = "NVIDIA MPS documentation, error containment; k8s-device-plugin, sharing.mps"


def mig_drains_first(s: Sized) -> Finding | None:
    """A division changes only on a card that nobody holds."""
    if s.workload.tenancy is None or s.workload.tenancy.mode != "mig":
        return None
    return (
        "info",
        "The MIG manager changes how a card is divided only while no pod holds it: drain a node before its "
        "division changes, and have it reset or rebooted.",
        "plan",
        OPERATOR,
    )


def mps_one_fault(s: Sized) -> Finding | None:
    """Clients of MPS share one server process."""
    if s.workload.tenancy is None or s.workload.tenancy.mode != "mps":
        return None
    return (
        "warn",
        f"{s.workload.tenancy.clients} engines share each accelerator by MPS: memory and threads are "
        "limited, bandwidth is not, and a fatal fault of one engine ends all on its accelerator.",
        "plan",
        MPS,
    )


def nodes_shared(s: Sized) -> Finding | None:
    """Services on the same nodes are lost together."""
    if s.stand.unit is None or not s.stand.unit.mates:
        return None
    return (
        "info",
        f"{len(s.stand.unit.mates) + 1} services share every node: losing or draining one takes engines of "
        "all of them, and their peaks share its CPUs, its disks and its network.",
        "plan",
        "design of this program",
    )


RULES: tuple[Rule, ...] = (mps_one_fault, nodes_shared, mig_drains_first)
