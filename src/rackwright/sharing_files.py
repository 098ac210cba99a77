"""Configurations of the operator that divides and shares accelerators, as text of a plan."""

from __future__ import annotations

from rackwright.plan import Tenancy
from rackwright.yamlio import dump_yaml

WHOLE = "all-disabled"
"""Name of the division into whole cards: the MIG manager's default for nodes of no plan."""
MIG_KEY = "config.yaml"
"""Key under which the MIG manager reads its configurations."""


def mig_parted(tenancy: Tenancy) -> str:
    """What the MIG manager reads: all cards of a node alike, and how to undo it."""
    return dump_yaml(
        {
            "version": "v1",
            "mig-configs": {
                WHOLE: [{"devices": "all", "mig-enabled": False}],
                str(tenancy.config): [
                    {
                        "devices": "all",
                        "mig-enabled": True,
                        "mig-devices": {piece.profile: piece.per_gpu for piece in tenancy.slices},
                    }
                ],
            },
        }
    )


def device_plugin(tenancy: Tenancy) -> str:
    """What the device plugin reads of one sharing by MPS; shares get a name of their own."""
    (piece,) = tenancy.slices
    return dump_yaml(
        {
            "version": "v1",
            "flags": {"migStrategy": "none"},
            "sharing": {
                "mps": {
                    "renameByDefault": True,
                    "resources": [{"name": "nvidia.com/gpu", "replicas": piece.per_gpu}],
                }
            },
        }
    )
