"""Accelerators by claims (dynamic resource allocation) instead of extended resources."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section


class Claim(Section):
    """A template that gives every pod of ``deployment`` a claim of its own on ``count`` devices.

    ``expression``: what a device must be beyond its class, in CEL.
    """

    name: str
    deployment: str
    device_class: str
    count: int
    expression: str | None = None


class Domain(Section):
    """A compute domain: pods of ``deployment`` on the trays of a rack reach each other's memory over NVLink.

    ``channel``: name of the claim template that the driver makes for it. ``topology``: label of a node whose
    value all nodes of one replica share.
    """

    name: str
    deployment: str
    channel: str
    topology: str


class Claims(Section):
    """``api``: version of resource.k8s.io that Kubernetes ``kubernetes`` serves."""

    kubernetes: str
    api: Literal["v1", "v1beta2", "v1beta1"]
    claims: tuple[Claim, ...]
    domains: tuple[Domain, ...] = ()

    def claim(self, deployment: str) -> Claim | None:
        return next((claim for claim in self.claims if claim.deployment == deployment), None)

    def domain(self, deployment: str) -> Domain | None:
        return next((domain for domain in self.domains if domain.deployment == deployment), None)
