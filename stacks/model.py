"""What components are given: the plan, what one environment says about it, and the names both imply.

Nothing is computed here that the plan could have decided; a name that two components must agree on is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pulumi_kubernetes as k8s

from rackwright import placement
from rackwright.engines.launcher import Traits
from rackwright.engines.registry import LAUNCHERS
from rackwright.errors import InputErrors, Problem
from rackwright.images import mirrored
from rackwright.plan import (
    Deployment,
    Fabric,
    Observability,
    Plan,
    Platform,
    Pool,
    Route,
    Scaling,
    WeightVolume,
)
from rackwright.plan.claims import Claim, Domain
from rackwright.plan.tenancy import Place

DIGITS = 12
"""How much of a hash objects carry."""

BLOCK = placement.BLOCK_LABEL
RACK = placement.RACK_LABEL
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NAME = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
PLAN = "rackwright.dev/plan"
"""Label: name of the plan that an object belongs to."""
PLAN_HASH = "rackwright.dev/plan-hash"
"""Label: hash of the part of the plan that the object is (``stacks/stamp.py``)."""
APPLIED = "rackwright.dev/applied"
"""Annotation of a node: the labels and taints that the plan gave it."""
ROLE = "rackwright.dev/role"
PICKER = "endpoint-picker"
PATCH_FORCE = "pulumi.com/patchForce"
FIELD_MANAGER = "pulumi.com/patchFieldManager"
OWNERSHIP = {FIELD_MANAGER: "rackwright", PATCH_FORCE: "true"}
"""One lasting owner of our fields. The provider would draw a new name for each creation: fields of one that
was killed would then belong to a stranger for ever. What was edited by hand is taken back."""
NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class SecretRef:
    """Where a secret lies; its value is never seen here."""

    name: str
    key: str


@dataclass(frozen=True)
class Environment:
    """What differs between stacks of one plan. Never a number of the sizing.

    ``joined``: nodes that have joined the cluster; the others are staged. ``protect``: whether definitions,
    namespaces and weights survive a destroy. ``certificate``: the Secret that the gateway's listener uses.
    ``crds``: definitions to install before anything else, for clusters where no operator brings them.
    """

    joined: frozenset[str] = frozenset()
    protect: bool = True
    api_key: SecretRef = SecretRef("engine-api-key", "token")
    certificate: str = "gateway-tls"
    crds: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Served:
    """One deployment with everything of the plan that its objects need."""

    deployment: Deployment
    pool: Pool
    volume: WeightVolume | None
    fabric: Fabric | None
    route: Route | None
    scaling: Scaling | None
    exclusive_domain: str | None
    place: Place | None = None
    claim: Claim | None = None
    domain: Domain | None = None

    @property
    def resource(self) -> str:
        """The extended resource that a pod asks for: whole accelerators, or slices of them."""
        return self.deployment.resources.resource or self.pool.gpu_resource

    @property
    def name(self) -> str:
        return self.deployment.name

    @property
    def traits(self) -> Traits:
        return LAUNCHERS[self.deployment.engine.name].TRAITS

    @property
    def picked_by_load(self) -> bool:
        """Whether one pod's gauges tell its load: an engine that exports them, with a single rank. Ranks of a
        pod have a gauge each, of which the picker would take one for the pod."""
        return self.traits.picked_by_load and self.deployment.layout.data_parallel == 1

    @property
    def grouped(self) -> bool:
        """Several pods form one replica."""
        return self.deployment.layout.nodes_per_replica > 1

    @property
    def rdma(self) -> Fabric | None:
        """The fabric, where pods of one replica talk over it."""
        return self.fabric if self.grouped else None

    @property
    def front_role(self) -> str:
        """Role of the pods that answer requests."""
        return "leader" if self.grouped else "server"

    @property
    def service(self) -> str:
        """LeaderWorkerSet makes a headless Service of the deployment's own name."""
        return f"{self.name}-api"

    @property
    def selector(self) -> dict[str, str]:
        """Labels of all pods of the deployment; they never change with the plan."""
        return {NAME: self.deployment.engine.name, INSTANCE: self.name}

    @property
    def front(self) -> dict[str, str]:
        return {**self.selector, ROLE: self.front_role}


@dataclass(frozen=True)
class Model:
    """A plan in an environment."""

    plan: Plan
    environment: Environment = field(default_factory=Environment)

    @property
    def platform(self) -> Platform:
        """Raises InputErrors where the plan has no platform: nothing can be placed without a namespace."""
        if self.plan.platform is None:
            raise InputErrors(
                Problem(
                    "platform",
                    "must be given",
                    "nothing",
                    "it names the namespace and the operators that the objects need",
                    "rackwright size WORKLOAD.yaml -o plan.yaml",
                )
            )
        return self.plan.platform

    @property
    def namespace(self) -> str:
        return self.platform.namespace

    @property
    def observability(self) -> Observability | None:
        return self.plan.observability

    def repository(self, name: str) -> str:
        """Where images of the repository ``name`` come from on this site."""
        registry = self.platform.registry
        return mirrored(name, registry.mirror if registry is not None else None)

    @property
    def pull_secret(self) -> str | None:
        """Name of the Secret by which the site's registry is read; in each namespace that pulls."""
        registry = self.platform.registry
        return registry.pull_secret if registry is not None else None

    @property
    def pull_secrets(self) -> list[k8s.core.v1.LocalObjectReferenceArgs] | None:
        name = self.pull_secret
        return [k8s.core.v1.LocalObjectReferenceArgs(name=name)] if name is not None else None

    @property
    def pulled_with(self) -> dict[str, list[str]]:
        """The same for an operator's policy, which lists names."""
        return {"imagePullSecrets": [self.pull_secret]} if self.pull_secret is not None else {}

    @property
    def priority_class(self) -> str:
        return f"{self.plan.header.name}-serving"

    @property
    def record(self) -> str:
        """Name of the ConfigMap that says which plan was applied."""
        return f"{self.plan.header.name}-plan"

    @cached_property
    def served(self) -> tuple[Served, ...]:
        plan = self.plan
        return tuple(
            Served(
                deployment=deployment,
                pool=plan.pool(deployment.pool),
                volume=next((v for v in plan.volumes if v.deployment == deployment.name), None),
                fabric=plan.fabric,
                route=next((r for r in plan.routes if r.deployment == deployment.name), None),
                scaling=next((s for s in plan.scaling if s.deployment == deployment.name), None),
                exclusive_domain=placement.exclusive_domain(plan, deployment),
                place=plan.tenancy.place(deployment.name) if plan.tenancy else None,
                claim=plan.claims.claim(deployment.name) if plan.claims else None,
                domain=plan.claims.domain(deployment.name) if plan.claims else None,
            )
            for deployment in plan.deployments
        )

    @property
    def fabric_pools(self) -> tuple[Pool, ...]:
        """Pools whose nodes stand on the fabric."""
        return tuple(p for p in self.plan.pools if any(node.rail_addresses for node in p.nodes))

    def operator_namespace(self, name: str) -> str | None:
        operator = self.platform.operator(name)
        return operator.namespace if operator else None

    def metadata(
        self,
        name: str,
        component: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> k8s.meta.v1.ObjectMetaArgs:
        """Metadata of an object. Marks of the plan are on objects only, never in a pod template or selector:
        there every new plan would roll every pod."""
        return k8s.meta.v1.ObjectMetaArgs(
            name=name,
            namespace=namespace,
            labels={
                "app.kubernetes.io/managed-by": "rackwright",
                "app.kubernetes.io/part-of": self.plan.header.name,
                COMPONENT: component,
                PLAN: self.plan.header.name,
                **(labels or {}),
            },
            annotations={**OWNERSHIP, **(annotations or {})},
        )
