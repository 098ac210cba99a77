"""Steps from a proven rack to a serving cluster: identity, operators, Secrets, weights, two ways to apply."""

from __future__ import annotations

import shlex

from checks.report.text import plural
from rackwright.plan import Plan
from rackwright.plan.services import WeightVolume

Step = tuple[str, str]
"""What to do, in a sentence, and the command."""
_CONTEXT, _ENV = "<context>", "<env>"
_DRIVER = {
    "host": "the host image installs the driver; the operator must leave it alone (driver.enabled=false)",
    "gpu-operator": "it installs the driver: the driver's checks pass only after this step",
}


def facts(key: str, plan: Plan) -> list[str]:
    """What the plan decides for the cluster and for what runs on it."""
    if key == "cluster":
        return [*_operators(plan)]
    pins = [d for d in plan.deployments if set(d.engine.image.rpartition(":")[2]) == {"0"}]
    said = [
        f"Deployment `{d.name}`: {plural(d.layout.replicas, 'replica')} of "
        f"`{d.engine.image.partition('@')[0]}` {d.engine.version}, weights from `{d.weights.source}`."
        for d in plan.deployments
    ]
    if pins:
        names = ", ".join(f"`{d.name}`" for d in pins)
        said.append(
            f"Stop: the image of {names} has no digest that a registry serves, and no pod starts with the "
            "placeholder. Set `overrides.image_digest` in the workload and size again."
        )
    return said


def _operators(plan: Plan) -> list[str]:
    if plan.platform is None:
        return ["The plan has no cluster."]
    said = []
    for operator in plan.platform.operators:
        who = (
            "somebody else installs it; at least this version must run before the next step"
            if operator.mode == "external"
            else f"`pulumi up` installs it from `{operator.chart or operator.name}`"
        )
        own = f" Here {_DRIVER[plan.platform.driver_owner]}." if operator.name == "gpu-operator" else ""
        said.append(f"`{operator.name}` {operator.version} in namespace `{operator.namespace}`: {who}.{own}")
    return said


def cluster_steps(plan: Plan, file: str) -> list[Step]:
    """Is it the right cluster, are its nodes there, do the operators run."""
    nodes = [node.name for pool in plan.pools for node in pool.nodes]
    steps = [
        (
            "Read which cluster the context means, and compare it with its owner's word.",
            f"kubectl --context {_CONTEXT} get namespace kube-system -o jsonpath='{{.metadata.uid}}'",
        ),
        (
            "Pin it: the program refuses any other cluster.",
            f"pulumi stack select {_ENV}\npulumi config set rackwright:context {_CONTEXT}\n"
            f"pulumi config set rackwright:identity <uid>\npulumi config set rackwright:plan {file}",
        ),
        (
            f"{plural(len(nodes), 'node')} of the plan are there and Ready; those that are not stay staged.",
            f"kubectl --context {_CONTEXT} get nodes -o wide",
        ),
    ]
    platform = plan.platform
    external = [o for o in platform.operators if o.mode == "external"] if platform else []
    if external:
        wanted = "\n".join(f"# {o.namespace}: {o.name} {o.version} or later" for o in external)
        pods = (
            f"kubectl --context {_CONTEXT} get pods -A | grep -E '{'|'.join(o.namespace for o in external)}'"
        )
        steps.append(
            (
                "The operators that others install run, in these versions or later, with every pod Ready.",
                f"helm --kube-context {_CONTEXT} list -A\n{wanted}\n{pods}",
            )
        )
    if platform and platform.driver_owner == "gpu-operator":
        steps.append(
            (
                "Wait until the operator's driver is on every node; then the next step can pass.",
                f"kubectl --context {_CONTEXT} get nodes "
                "-L nvidia.com/gpu.present,nvidia.com/cuda.driver-version.full",
            )
        )
    return steps


def apply_steps(plan: Plan, file: str) -> list[Step]:
    """From the checked plan to running pods."""
    namespace = plan.platform.namespace if plan.platform else "default"
    kubectl = f"kubectl --context {_CONTEXT}"
    inside = f"{kubectl} -n {namespace}"
    return [
        ("Prove that the plan is unchanged and coherent.", f"rackwright check {file}"),
        ("Read what would be created.", f"pulumi preview --diff --stack {_ENV}"),
        (
            "Create it. It waits for pods: make the Secrets and load the weights meanwhile, as below.",
            f"pulumi up --stack {_ENV}",
        ),
        (
            "Or without Pulumi: render, then apply. Read the notes that render prints.",
            f"rackwright render {file} -o rendered\n"
            f"{kubectl} apply --server-side -k rendered --field-manager=rackwright\n"
            "# each node, once it has joined:\n"
            f"{kubectl} apply --server-side -f rendered/nodes/<node>.yaml --field-manager=rackwright "
            "--force-conflicts",
        ),
        (
            f"Make the Secrets that `Pulumi.{_ENV}.yaml` names (these are the usual names); the plan holds "
            "nothing of them.",
            f"{kubectl} wait --for=create namespace/{namespace} --timeout=10m\n"
            f"{inside} create secret generic engine-api-key --from-file=token=<file with the key>\n"
            f"{inside} create secret tls gateway-tls --cert=<certificate.pem> --key=<key.pem>",
        ),
        *_weights(plan, inside),
        (
            "Every pod runs and is Ready; a pod that waits says why.",
            f"{inside} get pods -o wide\n{inside} get events --sort-by=.lastTimestamp | tail -20",
        ),
        ("A second run must show no change.", f"pulumi preview --expect-no-changes --stack {_ENV}"),
        (
            "If pulumi was killed: take its lock away, read what it really made, then run it again.",
            f"pulumi cancel --stack {_ENV}\npulumi refresh --stack {_ENV}\npulumi up --stack {_ENV}",
        ),
    ]


def _weights(plan: Plan, inside: str) -> list[Step]:
    """Weights go into the claim through one pod that mounts it; their sums are compared afterwards."""
    steps = []
    for volume in plan.volumes:
        deployment = next((d for d in plan.deployments if d.name == volume.deployment), None)
        if deployment is None:
            continue
        weights, pod = deployment.weights, f"load-{volume.name}"
        steps.append(
            (
                f"Load the weights of `{deployment.name}` ({weights.bytes / 1e9:,.0f} GB) into the claim "
                f"`{volume.name}` and prove them; a resumed download goes on where it stopped.",
                _loader(inside, pod, volume, deployment.engine.image)
                + f"\n{inside} wait --for=condition=Ready pod/{pod} --timeout=15m\n"
                + _download(inside, pod, weights.source, weights.revision, weights.path)
                + "\n"
                + _proof(inside, pod, weights.path, weights.manifest_path, weights.manifest_sha256)
                + f"\n{inside} delete pod {pod}",
            )
        )
    return steps


def _loader(inside: str, pod: str, volume: WeightVolume, image: str) -> str:
    return (
        f"{inside} apply -f - <<'EOF'\n"
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}}}\nspec:\n"
        f"  restartPolicy: Never\n  containers:\n  - name: load\n    image: {image}\n"
        "    command: [sleep, infinity]\n"
        f"    volumeMounts: [{{name: weights, mountPath: {volume.mount_path}}}]\n"
        f"  volumes: [{{name: weights, persistentVolumeClaim: {{claimName: {volume.name}}}}}]\nEOF"
    )


def _download(inside: str, pod: str, source: str, revision: str | None, path: str) -> str:
    run = f"{inside} exec {pod} --"
    if source.startswith("hf://"):
        pinned = f" --revision {shlex.quote(revision)}" if revision else ""
        name = shlex.quote(source.removeprefix("hf://"))
        return f"{run} hf download {name}{pinned} --local-dir {shlex.quote(path)}"
    return f"{inside} cp <directory of {source}> {pod}:{path}"


def _proof(inside: str, pod: str, path: str, manifest: str, digest: str | None) -> str:
    run = f"{inside} exec {pod} -- sh -c"
    first = f"echo {digest}  {shlex.quote(manifest)} | sha256sum -c && " if digest else ""
    script = f"{first}cd {shlex.quote(path)} && sha256sum --quiet -c {shlex.quote(manifest)}"
    check = f"{run} {shlex.quote(script)}"
    if digest:
        return check
    return f"# no manifest is pinned in the plan: put one at {manifest} that its owner signed off\n{check}"
