"""The way in: gateway, route, pool of endpoints, and the picker that chooses among them."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from rackwright.engines.adapters import ROUTED
from rackwright.plan import Route
from rackwright.yamlio import dump_yaml
from stacks import adapters
from stacks.model import COMPONENT, INSTANCE, NAME, NAMESPACE_NAME, PICKER, Model, Served

HEALTH_PORT = 9003
HEALTH_SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
METRICS_PORT = 9090
PICKER_RESOURCES = {"cpu": "2", "memory": "2Gi"}
PICKER_CONFIG: dict[str, Any] = {
    "apiVersion": "llm-d.ai/v1alpha1",
    "kind": "EndpointPickerConfig",
    "plugins": [
        {"type": "queue-scorer"},
        {"type": "kv-cache-utilization-scorer"},
        {"type": "prefix-cache-scorer"},
        {"type": "max-score-picker"},
        {"type": "single-profile-handler"},
    ],
    "schedulingProfiles": [
        {
            "name": "default",
            "plugins": [
                {"pluginRef": "queue-scorer", "weight": 2},
                {"pluginRef": "kv-cache-utilization-scorer", "weight": 2},
                {"pluginRef": "prefix-cache-scorer", "weight": 3},
                {"pluginRef": "max-score-picker"},
            ],
        }
    ],
}
"""Short queues and free cache first, then replicas that hold the prompt's prefix."""
ADAPTER_SCORER = "lora-affinity-scorer"
_BY_LOAD = ("queue-scorer", "kv-cache-utilization-scorer")


def picker_config(*, by_load: bool, by_adapter: bool = False) -> dict[str, Any]:
    """The picker's configuration; of an engine whose metrics it does not know it can only weigh prefixes.

    Where there are adapters, replicas come first that hold the one that is asked for.
    """
    if by_load and by_adapter:
        (profile,) = PICKER_CONFIG["schedulingProfiles"]
        *scorers, picker = profile["plugins"]
        weighed = [*scorers, {"pluginRef": ADAPTER_SCORER, "weight": 3}, picker]
        return {
            **PICKER_CONFIG,
            "plugins": [{"type": ADAPTER_SCORER}, *PICKER_CONFIG["plugins"]],
            "schedulingProfiles": [{**profile, "plugins": weighed}],
        }
    if by_load:
        return PICKER_CONFIG
    plugins = [plugin for plugin in PICKER_CONFIG["plugins"] if plugin["type"] not in _BY_LOAD]
    (profile,) = PICKER_CONFIG["schedulingProfiles"]
    kept = [each for each in profile["plugins"] if each["pluginRef"] not in _BY_LOAD]
    return {**PICKER_CONFIG, "plugins": plugins, "schedulingProfiles": [{**profile, "plugins": kept}]}


core = k8s.core.v1
meta = k8s.meta.v1
net = k8s.networking.v1


class Gateway(pulumi.ComponentResource):
    """One gateway for the plan; pool, picker and route of each deployment behind it."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:Gateway", name, None, opts)
        routed = [(served, served.route) for served in model.served if served.route is not None]
        for gateway in dict.fromkeys(route.gateway for _, route in routed):
            _gateway(self, model, gateway, [route for _, route in routed if route.gateway == gateway])
        for served, route in routed:
            _picker(self, model, served, route)
            pool = _inference_pool(self, model, served, route)
            _http_route(self, model, route, pool)
            adapters.routing(self, model, served, route, pool)
        self.register_outputs({"hostnames": sorted({route.hostname for _, route in routed})})


def _gateway(parent: pulumi.Resource, model: Model, name: str, routes: list[Route]) -> None:
    by_hostname = {route.hostname: route for route in reversed(routes)}
    k8s.apiextensions.CustomResource(
        name,
        api_version="gateway.networking.k8s.io/v1",
        kind="Gateway",
        metadata=model.metadata(name, "gateway", namespace=model.namespace),
        spec={
            "gatewayClassName": routes[0].gateway_class,
            "listeners": [
                {
                    "name": f"https-{route.deployment}",
                    "hostname": hostname,
                    "protocol": "HTTPS",
                    "port": 443,
                    "tls": {
                        "mode": "Terminate",
                        "certificateRefs": [{"name": model.environment.certificate}],
                    },
                    "allowedRoutes": {"namespaces": {"from": "Same"}},
                }
                for hostname, route in sorted(by_hostname.items())
            ],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _inference_pool(
    parent: pulumi.Resource, model: Model, served: Served, route: Route
) -> k8s.apiextensions.CustomResource:
    """Pods that answer, chosen by the picker; without one any of them is better than none."""
    return k8s.apiextensions.CustomResource(
        route.pool,
        api_version="inference.networking.k8s.io/v1",
        kind="InferencePool",
        metadata=model.metadata(route.pool, "gateway", namespace=model.namespace),
        spec={
            "targetPorts": [{"number": served.deployment.engine.port}],
            "appProtocol": "http",
            "selector": {"matchLabels": served.front},
            "endpointPickerRef": {
                "name": route.picker_service,
                "port": {"number": route.picker_port},
                "failureMode": "FailOpen",
            },
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _http_route(parent: pulumi.Resource, model: Model, route: Route, pool: pulumi.Resource) -> None:
    k8s.apiextensions.CustomResource(
        f"{route.deployment}-route",
        api_version="gateway.networking.k8s.io/v1",
        kind="HTTPRoute",
        metadata=model.metadata(route.deployment, "gateway", namespace=model.namespace),
        spec={
            "parentRefs": [{"name": route.gateway}],
            "hostnames": [route.hostname],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                    "timeouts": {"request": route.request_timeout, "backendRequest": route.request_timeout},
                    "backendRefs": [
                        {
                            "group": "inference.networking.k8s.io",
                            "kind": "InferencePool",
                            "name": route.pool,
                            "weight": 1,
                        }
                    ],
                }
            ],
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[pool]),
    )


def _picker(parent: pulumi.Resource, model: Model, served: Served, route: Route) -> None:
    """The picker with the rights it needs and no more."""
    name = route.picker_service
    own = {NAME: PICKER, INSTANCE: served.name, COMPONENT: PICKER}
    children = pulumi.ResourceOptions(parent=parent)
    account = core.ServiceAccount(
        name, metadata=model.metadata(name, PICKER, namespace=model.namespace), opts=children
    )
    _rights(parent, model, name)
    chosen = picker_config(
        by_load=served.picked_by_load,
        by_adapter=served.deployment.adapters is not None and served.deployment.engine.name in ROUTED,
    )
    config = core.ConfigMap(
        f"{name}-config",
        metadata=model.metadata(f"{name}-config", PICKER, namespace=model.namespace),
        data={"config.yaml": dump_yaml(chosen)},
        opts=children,
    )
    k8s.apps.v1.Deployment(
        name,
        metadata=model.metadata(name, PICKER, namespace=model.namespace),
        spec=k8s.apps.v1.DeploymentSpecArgs(
            replicas=1,
            selector=meta.LabelSelectorArgs(match_labels=own),
            template=core.PodTemplateSpecArgs(
                metadata=meta.ObjectMetaArgs(labels=own), spec=_picker_pod(model, route)
            ),
        ),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[account, config]),
    )
    core.Service(
        name,
        metadata=model.metadata(name, PICKER, namespace=model.namespace),
        spec=core.ServiceSpecArgs(
            type="ClusterIP",
            selector=own,
            ports=[
                core.ServicePortArgs(
                    name="grpc",
                    port=route.picker_port,
                    target_port=route.picker_port,
                    app_protocol="http2",
                ),
                core.ServicePortArgs(name="metrics", port=METRICS_PORT, target_port=METRICS_PORT),
            ],
        ),
        opts=children,
    )
    _picker_isolation(parent, model, route, own)


def _picker_pod(model: Model, route: Route) -> core.PodSpecArgs:
    probe = core.ProbeArgs(
        grpc=core.GRPCActionArgs(port=HEALTH_PORT, service=HEALTH_SERVICE),
        initial_delay_seconds=5,
        period_seconds=10,
    )
    return core.PodSpecArgs(
        service_account_name=route.picker_service,
        enable_service_links=False,
        priority_class_name=model.priority_class,
        image_pull_secrets=model.pull_secrets,
        termination_grace_period_seconds=130,
        security_context=core.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=65532,
            seccomp_profile=core.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        containers=[
            core.ContainerArgs(
                name="picker",
                image=route.picker_image,
                image_pull_policy="IfNotPresent",
                args=[
                    f"--pool-name={route.pool}",
                    f"--pool-namespace={model.namespace}",
                    "--config-file=/config/config.yaml",
                    f"--grpc-port={route.picker_port}",
                    f"--grpc-health-port={HEALTH_PORT}",
                    "--metrics-endpoint-auth=false",
                ],
                ports=[
                    core.ContainerPortArgs(name="grpc", container_port=route.picker_port),
                    core.ContainerPortArgs(name="health", container_port=HEALTH_PORT),
                    core.ContainerPortArgs(name="metrics", container_port=METRICS_PORT),
                ],
                readiness_probe=probe,
                liveness_probe=probe,
                resources=core.ResourceRequirementsArgs(
                    requests=dict(PICKER_RESOURCES), limits=dict(PICKER_RESOURCES)
                ),
                security_context=core.SecurityContextArgs(
                    allow_privilege_escalation=False,
                    privileged=False,
                    read_only_root_filesystem=True,
                    capabilities=core.CapabilitiesArgs(drop=["ALL"]),
                ),
                volume_mounts=[core.VolumeMountArgs(name="config", mount_path="/config", read_only=True)],
            )
        ],
        volumes=[
            core.VolumeArgs(
                name="config",
                config_map=core.ConfigMapVolumeSourceArgs(name=f"{route.picker_service}-config"),
            )
        ],
    )


def _rights(parent: pulumi.Resource, model: Model, name: str) -> None:
    read = ["get", "list", "watch"]
    role = k8s.rbac.v1.Role(
        name,
        metadata=model.metadata(name, PICKER, namespace=model.namespace),
        rules=[
            k8s.rbac.v1.PolicyRuleArgs(api_groups=[""], resources=["pods"], verbs=read),
            k8s.rbac.v1.PolicyRuleArgs(
                api_groups=["inference.networking.k8s.io"], resources=["inferencepools"], verbs=read
            ),
            k8s.rbac.v1.PolicyRuleArgs(
                api_groups=["llm-d.ai", "inference.networking.x-k8s.io"],
                resources=["inferenceobjectives", "inferencemodelrewrites"],
                verbs=read,
            ),
        ],
        opts=pulumi.ResourceOptions(parent=parent),
    )
    k8s.rbac.v1.RoleBinding(
        name,
        metadata=model.metadata(name, PICKER, namespace=model.namespace),
        role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=name),
        subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=name, namespace=model.namespace)],
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[role]),
    )


def _picker_isolation(
    parent: pulumi.Resource, model: Model, route: Route, own: dict[str, str]
) -> net.NetworkPolicy:
    """The gateway asks it, Prometheus scrapes it, nobody else reaches it."""
    ports = {"gateway": route.picker_port, "prometheus-operator": METRICS_PORT}
    rules = [
        net.NetworkPolicyIngressRuleArgs(
            from_=[
                net.NetworkPolicyPeerArgs(
                    namespace_selector=meta.LabelSelectorArgs(match_labels={NAMESPACE_NAME: namespace})
                )
            ],
            ports=[net.NetworkPolicyPortArgs(port=port, protocol="TCP")],
        )
        for operator, port in ports.items()
        if (namespace := model.operator_namespace(operator))
    ]
    return net.NetworkPolicy(
        route.picker_service,
        metadata=model.metadata(route.picker_service, PICKER, namespace=model.namespace),
        spec=net.NetworkPolicySpecArgs(
            pod_selector=meta.LabelSelectorArgs(match_labels=own), policy_types=["Ingress"], ingress=rules
        ),
        opts=pulumi.ResourceOptions(parent=parent),
    )
