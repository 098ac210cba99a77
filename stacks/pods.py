"""Pods of an engine: one template for the server, the leader and the worker of a replica."""

from __future__ import annotations

from pathlib import PurePosixPath

import pulumi_kubernetes as k8s

from rackwright.plan import Taint
from rackwright.plan.claims import Domain
from rackwright.plan.deployments import EngineRole
from rackwright.plan.services import WeightVolume
from stacks import adapters, device_claims
from stacks.model import HOSTNAME, RACK, ROLE, Model, SecretRef, Served

core = k8s.core.v1
meta = k8s.meta.v1

HTTP = "http"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
"""An engine that cannot find its weights must fail, not download others."""

ENGINE_TYPE = "llm-d.ai/engine-type"
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-index"

_VERIFY = """\
set -eu
cd "$(dirname "$MANIFEST")"
echo "$MANIFEST_SHA256  $MANIFEST" | sha256sum -c -
xargs -d '\\n' -n 1 -P "$PARALLEL" sh -c 'printf "%s\\n" "$1" | sha256sum -c -' verify < "$MANIFEST"
echo "weights verified: manifest sha256 $MANIFEST_SHA256"
"""

_VERIFY_ADAPTERS = """\
set -eu
sha256sum -c "$LIST"
while read -r _ manifest; do
  cd "$(dirname "$manifest")"
  sha256sum -c "$manifest"
done < "$LIST"
echo "adapters verified: $(wc -l < "$LIST")"
"""
LISTS = "/etc/rackwright"
"""Where the list of manifests is mounted."""

_PROBE_WITH_KEY = """\
import os, sys, urllib.request
key = os.environ["{variable}"]
request = urllib.request.Request(sys.argv[1], headers={{"Authorization": "Bearer " + key}})
urllib.request.urlopen(request, timeout=4).read(1)
"""


def engine_template(model: Model, served: Served, role: str) -> core.PodTemplateSpecArgs:
    """The pod of ``role`` (server, leader or worker)."""
    spec = served.deployment.engine.role(role)
    return core.PodTemplateSpecArgs(
        metadata=meta.ObjectMetaArgs(
            labels={**served.selector, "app.kubernetes.io/component": "engine", ROLE: role, **_type(served)},
            annotations=_networks(served),
        ),
        spec=core.PodSpecArgs(
            priority_class_name=model.priority_class,
            service_account_name="default",
            automount_service_account_token=False,
            # Variables of Services are named like the engine's own (VLLM_PORT) and would override it.
            enable_service_links=False,
            termination_grace_period_seconds=served.deployment.rollout.termination_grace_s,
            node_selector=dict(served.pool.labels),
            tolerations=[_toleration(taint) for taint in served.pool.taints],
            affinity=_group_affinity(served),
            resource_claims=device_claims.of_pod(served),
            image_pull_secrets=model.pull_secrets,
            topology_spread_constraints=_spread(served),
            security_context=core.PodSecurityContextArgs(
                seccomp_profile=core.SeccompProfileArgs(type="RuntimeDefault")
            ),
            init_containers=[*_verify_weights(served), *_verify_adapters(served)] or None,
            containers=[_engine(model, served, spec)],
            volumes=_volumes(served),
        ),
    )


def _type(served: Served) -> dict[str, str]:
    """What the endpoint picker reads to know which metrics tell it queue and cache."""
    kind = served.traits.engine_type
    return {ENGINE_TYPE: kind} if kind else {}


def _engine(model: Model, served: Served, role: EngineRole) -> core.ContainerArgs:
    deployment = served.deployment
    answers = role.role == served.front_role
    probes = deployment.probes
    return core.ContainerArgs(
        name="engine",
        image=deployment.engine.image,
        image_pull_policy="IfNotPresent",
        command=list(role.command),
        args=list(role.args),
        env=_environment(model.environment.api_key, served, role, answers=answers),
        ports=[core.ContainerPortArgs(name=HTTP, container_port=deployment.engine.port)] if answers else None,
        resources=_resources(served),
        security_context=_confined(["IPC_LOCK"] if served.rdma else None),
        startup_probe=_http_probe(served, probes.path, probes.startup_period_s, probes.startup_failures)
        if answers
        else None,
        readiness_probe=_http_probe(
            served, probes.readiness_path, probes.readiness_period_s, probes.readiness_failures
        )
        if answers
        else None,
        liveness_probe=_http_probe(served, probes.path, probes.liveness_period_s, probes.liveness_failures)
        if answers
        else None,
        lifecycle=core.LifecycleArgs(
            pre_stop=core.LifecycleHandlerArgs(sleep=core.SleepActionArgs(seconds=deployment.rollout.drain_s))
        )
        if answers
        else None,
        volume_mounts=_mounts(served),
    )


def _environment(
    api_key: SecretRef, served: Served, role: EngineRole, *, answers: bool
) -> list[core.EnvVarArgs]:
    fabric = served.rdma
    plain = {**OFFLINE, **(fabric.nccl_env if fabric else {}), **role.env}
    env = [core.EnvVarArgs(name=name, value=value) for name, value in plain.items()]
    address = served.traits.address_variable
    if served.grouped and address and address not in plain:
        # With several interfaces in the pod the engine would guess which one its peers can reach.
        env.append(
            core.EnvVarArgs(
                name=address,
                value_from=core.EnvVarSourceArgs(
                    field_ref=core.ObjectFieldSelectorArgs(field_path="status.podIP")
                ),
            )
        )
    if answers:
        env.append(
            core.EnvVarArgs(
                name=served.traits.key_variable,
                value_from=core.EnvVarSourceArgs(
                    secret_key_ref=core.SecretKeySelectorArgs(name=api_key.name, key=api_key.key)
                ),
            )
        )
    return env


def _http_probe(served: Served, path: str, period_s: int, failures: int) -> core.ProbeArgs:
    """An HTTP probe; below ``/v1`` the engine asks for its key, which only the container holds."""
    if path.startswith("/v1"):
        url = f"http://127.0.0.1:{served.deployment.engine.port}{path}"
        script = _PROBE_WITH_KEY.format(variable=served.traits.key_variable)
        return core.ProbeArgs(
            exec_=core.ExecActionArgs(command=["python3", "-c", script, url]),
            period_seconds=period_s,
            failure_threshold=failures,
            timeout_seconds=5,
        )
    return core.ProbeArgs(
        http_get=core.HTTPGetActionArgs(path=path, port=HTTP),
        period_seconds=period_s,
        failure_threshold=failures,
        timeout_seconds=5,
    )


def _resources(served: Served) -> core.ResourceRequirementsArgs:
    """Requests equal limits: the Guaranteed class, which static CPU pinning needs."""
    resources = served.deployment.resources
    fabric = served.rdma
    amounts = {
        "cpu": str(resources.cpus),
        "memory": f"{resources.memory_gib}Gi",
        **({served.resource: str(resources.gpus)} if served.claim is None else {}),
        **({rail.advertised: "1" for rail in fabric.rails} if fabric else {}),
    }
    return core.ResourceRequirementsArgs(
        requests=dict(amounts), limits=dict(amounts), claims=device_claims.of_container(served)
    )


def _confined(added: list[str] | None = None) -> core.SecurityContextArgs:
    return core.SecurityContextArgs(
        allow_privilege_escalation=False,
        privileged=False,
        capabilities=core.CapabilitiesArgs(drop=["ALL"], add=added),
    )


def _verify_weights(served: Served) -> list[core.ContainerArgs]:
    """Checks every file of the pinned manifest before the engine may read one."""
    deployment, volume = served.deployment, served.volume
    if volume is None or deployment.weights.manifest_sha256 is None:
        return []
    cpus = str(deployment.resources.cpus)
    said = {
        "MANIFEST": str(PurePosixPath(volume.mount_path) / deployment.weights.manifest_path),
        "MANIFEST_SHA256": deployment.weights.manifest_sha256,
        "PARALLEL": cpus,
    }
    return [_verifier(served, volume, "weights", _VERIFY, said, {"cpu": cpus, "memory": "2Gi"})]


def _verify_adapters(served: Served) -> list[core.ContainerArgs]:
    """Checks every file of the adapters whose manifests are pinned."""
    volume = served.volume
    if volume is None or not adapters.proven(served.deployment.adapters):
        return []
    said = {"LIST": f"{LISTS}/{adapters.MANIFESTS}"}
    lists = core.VolumeMountArgs(name="adapters", mount_path=LISTS, read_only=True)
    amounts = {"cpu": "1", "memory": "1Gi"}
    return [_verifier(served, volume, "adapters", _VERIFY_ADAPTERS, said, amounts, lists)]


def _verifier(  # noqa: PLR0917 - what a check of files is made of
    served: Served,
    volume: WeightVolume,
    what: str,
    script: str,
    said: dict[str, str],
    amounts: dict[str, str],
    *mounts: core.VolumeMountArgs,
) -> core.ContainerArgs:
    """A container that runs ``script`` over the volume with the variables ``said``."""
    return core.ContainerArgs(
        name=f"verify-{what}",
        image=served.deployment.engine.image,
        image_pull_policy="IfNotPresent",
        command=["/bin/sh", "-c", script],
        env=[core.EnvVarArgs(name=name, value=value) for name, value in said.items()],
        resources=core.ResourceRequirementsArgs(requests=dict(amounts), limits=dict(amounts)),
        security_context=_confined(),
        volume_mounts=[_weights_mount(volume), *mounts],
    )


def _volumes(served: Served) -> list[core.VolumeArgs]:
    volumes = []
    if served.deployment.resources.shm_gib:
        shm = core.EmptyDirVolumeSourceArgs(
            medium="Memory", size_limit=f"{served.deployment.resources.shm_gib}Gi"
        )
        volumes.append(core.VolumeArgs(name="shm", empty_dir=shm))
    if served.volume:
        volumes.append(
            core.VolumeArgs(
                name="weights",
                persistent_volume_claim=core.PersistentVolumeClaimVolumeSourceArgs(
                    claim_name=served.volume.name, read_only=True
                ),
            )
        )
    if served.volume and adapters.proven(served.deployment.adapters):
        listed = core.ConfigMapVolumeSourceArgs(name=adapters.manifests_name(served))
        volumes.append(core.VolumeArgs(name="adapters", config_map=listed))
    return volumes


def _mounts(served: Served) -> list[core.VolumeMountArgs]:
    mounts = []
    if served.deployment.resources.shm_gib:
        mounts.append(core.VolumeMountArgs(name="shm", mount_path="/dev/shm"))  # noqa: S108 - shared memory
    if served.volume:
        mounts.append(_weights_mount(served.volume))
    return mounts


def _weights_mount(volume: WeightVolume) -> core.VolumeMountArgs:
    return core.VolumeMountArgs(name="weights", mount_path=volume.mount_path, read_only=True)


def _networks(served: Served) -> dict[str, str] | None:
    """One secondary network a rail, in rail order."""
    fabric = served.rdma
    if fabric is None:
        return None
    return {"k8s.v1.cni.cncf.io/networks": ",".join(rail.network for rail in fabric.rails)}


def _toleration(taint: Taint) -> core.TolerationArgs:
    if not taint.value:
        return core.TolerationArgs(key=taint.key, operator="Exists", effect=taint.effect)
    return core.TolerationArgs(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)


def _spread(served: Served) -> list[core.TopologySpreadConstraintArgs] | None:
    """Replicas spread over racks, then hosts, where there is room; groups are kept together instead.

    Services that share nodes must spread: the plan counts on each node holding as many of each as the others.
    """
    if served.grouped:
        return None
    if served.place is not None:
        return [
            core.TopologySpreadConstraintArgs(
                max_skew=1,
                topology_key=HOSTNAME,
                when_unsatisfiable="DoNotSchedule",
                # A node that is lost or drained must not count as one with room.
                node_taints_policy="Honor",
                label_selector=meta.LabelSelectorArgs(match_labels=served.selector),
            )
        ]
    return [
        core.TopologySpreadConstraintArgs(
            max_skew=1,
            topology_key=key,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=meta.LabelSelectorArgs(match_labels=served.selector),
            match_label_keys=["pod-template-hash"],
        )
        for key in (RACK, HOSTNAME)
    ]


def _one_clique(served: Served, domain: Domain) -> core.AffinityArgs:
    """Pods of one replica must share the NVLink domain that their nodes report."""
    term = core.PodAffinityTermArgs(
        topology_key=domain.topology,
        label_selector=meta.LabelSelectorArgs(match_labels=served.selector),
        match_label_keys=[GROUP_KEY],
    )
    return core.AffinityArgs(
        pod_affinity=core.PodAffinityArgs(required_during_scheduling_ignored_during_execution=[term])
    )


def _group_affinity(served: Served) -> core.AffinityArgs | None:
    """Pods of one replica prefer one rack, where they have no domain to themselves."""
    if not served.grouped:
        return None
    if served.domain is not None:
        return _one_clique(served, served.domain)
    if served.exclusive_domain:
        return None
    term = core.PodAffinityTermArgs(
        topology_key=RACK,
        label_selector=meta.LabelSelectorArgs(match_labels=served.selector),
        match_label_keys=[GROUP_KEY],
    )
    preferred = [core.WeightedPodAffinityTermArgs(weight=100, pod_affinity_term=term)]
    return core.AffinityArgs(
        pod_affinity=core.PodAffinityArgs(preferred_during_scheduling_ignored_during_execution=preferred)
    )
