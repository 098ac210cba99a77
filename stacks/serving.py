"""Engines: a Deployment where one pod is a replica, a LeaderWorkerSet where several are."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from rackwright import placement
from stacks import adapters, device_claims, queues
from stacks.model import COMPONENT, NAME, NAMESPACE_NAME, PICKER, Model, Served
from stacks.pods import HTTP, engine_template

net = k8s.networking.v1


class Serving(pulumi.ComponentResource):
    """One deployment of the plan with what protects it: its Service, budget and network policy."""

    def __init__(
        self, name: str, model: Model, served: Served, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rackwright:stacks:Serving", name, None, opts)
        claims = device_claims.declare(self, model, served)
        self.workload = (
            _group(self, model, served, claims) if served.grouped else _single(self, model, served, claims)
        )
        self.service = _service(self, model, served)
        adapters.manifests(self, model, served)
        _disruption_budget(self, model, served)
        _network_policy(self, model, served)
        self.register_outputs({"service": self.service.metadata.name})


def _replicas_scaled(
    parent: pulumi.Resource, served: Served, claims: list[pulumi.Resource]
) -> pulumi.ResourceOptions:
    """The scaler owns the number of replicas once it exists; taking it back at every run would fight it."""
    return pulumi.ResourceOptions(
        parent=parent,
        ignore_changes=["spec.replicas"] if served.scaling else None,
        depends_on=claims or None,
    )


def _single(
    parent: pulumi.Resource, model: Model, served: Served, claims: list[pulumi.Resource]
) -> k8s.apps.v1.Deployment:
    deployment = served.deployment
    timeout = f"{placement.rollout_timeout_s(deployment)}s"
    return k8s.apps.v1.Deployment(
        served.name,
        metadata=model.metadata(
            served.name,
            "engine",
            namespace=model.namespace,
            labels={NAME: deployment.engine.name, **queues.label(model)},
        ),
        spec=k8s.apps.v1.DeploymentSpecArgs(
            replicas=deployment.layout.replicas,
            progress_deadline_seconds=deployment.rollout.progress_deadline_s,
            revision_history_limit=5,
            selector=_labels(served.front),
            strategy=k8s.apps.v1.DeploymentStrategyArgs(
                type="RollingUpdate",
                rolling_update=k8s.apps.v1.RollingUpdateDeploymentArgs(
                    max_surge=deployment.rollout.max_surge,
                    max_unavailable=deployment.rollout.max_unavailable,
                ),
            ),
            template=engine_template(model, served, "server"),
        ),
        opts=pulumi.ResourceOptions.merge(
            _replicas_scaled(parent, served, claims),
            pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout)),
        ),
    )


def _group(
    parent: pulumi.Resource, model: Model, served: Served, claims: list[pulumi.Resource]
) -> k8s.apiextensions.CustomResource:
    deployment = served.deployment
    domain = served.exclusive_domain
    exclusive = {"leaderworkerset.sigs.k8s.io/exclusive-topology": domain} if domain else None
    return k8s.apiextensions.CustomResource(
        served.name,
        api_version="leaderworkerset.x-k8s.io/v1",
        kind="LeaderWorkerSet",
        metadata=model.metadata(
            served.name,
            "engine",
            namespace=model.namespace,
            labels={NAME: deployment.engine.name, **queues.label(model)},
            annotations=exclusive,
        ),
        spec={
            "replicas": deployment.layout.replicas,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {
                    "maxSurge": deployment.rollout.max_surge,
                    "maxUnavailable": deployment.rollout.max_unavailable,
                },
            },
            "leaderWorkerTemplate": {
                "size": deployment.layout.nodes_per_replica,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": engine_template(model, served, "leader"),
                "workerTemplate": engine_template(model, served, "worker"),
            },
        },
        opts=_replicas_scaled(parent, served, claims),
    )


def _service(parent: pulumi.Resource, model: Model, served: Served) -> k8s.core.v1.Service:
    port = served.deployment.engine.port
    return k8s.core.v1.Service(
        served.service,
        metadata=model.metadata(
            served.service,
            "engine",
            namespace=model.namespace,
            # Waiting for endpoints would end long before the weights are loaded.
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=k8s.core.v1.ServiceSpecArgs(
            type="ClusterIP",
            selector=served.front,
            ports=[k8s.core.v1.ServicePortArgs(name=HTTP, port=port, target_port=HTTP, app_protocol="http")],
        ),
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _disruption_budget(
    parent: pulumi.Resource, model: Model, served: Served
) -> k8s.policy.v1.PodDisruptionBudget:
    """Counts every pod of the deployment: losing a worker loses its whole replica."""
    return k8s.policy.v1.PodDisruptionBudget(
        served.name,
        metadata=model.metadata(served.name, "engine", namespace=model.namespace),
        spec=k8s.policy.v1.PodDisruptionBudgetSpecArgs(
            max_unavailable=served.deployment.disruption_max_unavailable,
            # A pod that never became ready serves nobody; it must not keep its node from being drained.
            unhealthy_pod_eviction_policy="AlwaysAllow",
            selector=_labels(served.selector),
        ),
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _network_policy(parent: pulumi.Resource, model: Model, served: Served) -> k8s.networking.v1.NetworkPolicy:
    """Requests and scrapes reach the front's port; engine ports are open within the deployment only.

    What engines say to each other is neither encrypted nor authenticated. Secondary interfaces (rails) are
    outside the reach of network policies; their subnets are closed at the switch.
    """
    port = [net.NetworkPolicyPortArgs(port=served.deployment.engine.port, protocol="TCP")]
    own = [net.NetworkPolicyPeerArgs(pod_selector=_labels(served.selector))]
    dns = [net.NetworkPolicyPortArgs(port=53, protocol=protocol) for protocol in ("UDP", "TCP")]
    ingress = [net.NetworkPolicyIngressRuleArgs(from_=_callers(model), ports=port)]
    egress = [net.NetworkPolicyEgressRuleArgs(ports=dns)]
    if served.grouped:
        ingress.append(net.NetworkPolicyIngressRuleArgs(from_=own))
        egress.append(net.NetworkPolicyEgressRuleArgs(to=own))
    return net.NetworkPolicy(
        served.name,
        metadata=model.metadata(served.name, "engine", namespace=model.namespace),
        spec=net.NetworkPolicySpecArgs(
            pod_selector=_labels(served.selector),
            policy_types=["Ingress", "Egress"],
            ingress=ingress,
            egress=egress,
        ),
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _callers(model: Model) -> list[net.NetworkPolicyPeerArgs]:
    """Who may call the front: the endpoint picker, the gateway, and whoever scrapes."""
    namespaces = [model.operator_namespace(name) for name in ("gateway", "prometheus-operator")]
    return [
        net.NetworkPolicyPeerArgs(pod_selector=_labels({COMPONENT: PICKER})),
        *(
            net.NetworkPolicyPeerArgs(namespace_selector=_labels({NAMESPACE_NAME: namespace}))
            for namespace in namespaces
            if namespace
        ),
    ]


def _labels(match: dict[str, str]) -> k8s.meta.v1.LabelSelectorArgs:
    return k8s.meta.v1.LabelSelectorArgs(match_labels=match)
