"""What must hold for every rendered object, whatever the plan says.

Rules look at plain objects as they would be applied, so they also hold for objects that somebody adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rackwright import render_links as links
from rackwright import secrets
from rackwright.engines import matrix
from rackwright.engines.registry import matrix_of, scrape_labels
from rackwright.errors import Problem
from rackwright.plan import Deployment, Plan
from rackwright.render_claims import claim_problems
from rackwright.sizing.devices import DEVICES

Object = Mapping[str, Any]
Severity = Literal["error", "warn"]

PLAN_LABEL = "rackwright.dev/plan"
PRIVILEGED_ALLOWED: frozenset[str] = frozenset()
"""Objects (``Kind namespace/name``) whose pods may be privileged: none of this program's."""

_DIGEST = re.compile(r"^[^@\s]+@sha256:([0-9a-f]{64})$")
_REDACTED = "[secret]"


@dataclass(frozen=True)
class Finding:
    """One violation. ``rule``: its stable name."""

    rule: str
    severity: Severity
    problem: Problem

    def __str__(self) -> str:
        return f"{self.severity}: {self.problem}"


@dataclass(frozen=True)
class Pod:
    """A pod template somewhere in an object."""

    owner: Object
    path: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"{identity(self.owner)} {self.path}"

    @property
    def containers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Every container with the place it stands at, init containers included."""
        for kind in ("initContainers", "containers"):
            for container in self.spec.get(kind) or ():
                yield f"{self.where}.spec.{kind}[{container.get('name')}]", container


def identity(content: Object) -> str:
    """``Deployment llm/chat``."""
    metadata = content.get("metadata") or {}
    namespace = metadata.get("namespace")
    name = metadata.get("name", "?")
    return f"{content.get('kind')} {namespace}/{name}" if namespace else f"{content.get('kind')} {name}"


def pods(content: Object) -> Iterator[Pod]:
    """Pod templates of ``content``, at any depth."""
    yield from _templates(content, content, "")


def _templates(owner: Object, value: Any, path: str) -> Iterator[Pod]:
    if isinstance(value, Mapping):
        spec = value.get("spec")
        if isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
            yield Pod(owner, path or "spec", (value.get("metadata") or {}).get("labels") or {}, spec)
            return
        for key, item in value.items():
            if isinstance(item, _NESTED):
                yield from _templates(owner, item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, _NESTED):
                yield from _templates(owner, item, f"{path}[{index}]")


_NESTED = (dict, list, Mapping)
"""What can hold a pod; most of an object's values cannot."""


def check(plan: Plan, contents: Iterable[Object]) -> list[Finding]:
    """All violations of all rules, in the order of the objects."""
    objects = list(contents)
    findings = [finding for content in objects for rule in OBJECT_RULES for finding in rule(content)]
    findings += [f for c in objects for pod in pods(c) for rule in POD_RULES for f in rule(pod)]
    findings += list(_from_the_mirror(plan, objects))
    findings += list(_unprotected(objects))
    findings += list(_schedulable(plan, objects))
    findings += [_error(rule, problem) for rule, problem in claim_problems(plan, objects)]
    findings += list(_linked(objects))
    findings += [f for d in plan.deployments for f in _engine_findings(plan, d, objects)]
    return findings


def _error(rule: str, problem: Problem) -> Finding:
    return Finding(rule, "error", problem)


def _from_the_mirror(plan: Plan, objects: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """On a site without the internet an image from anywhere else is never there."""
    registry = plan.platform.registry if plan.platform is not None else None
    if registry is None:
        return
    for content in objects:
        named = [(f"{where}.image", c.get("image")) for p in pods(content) for where, c in p.containers]
        named += list(_repositories(content.get("spec"), f"{identity(content)} spec"))
        for where, image in named:
            if not str(image).startswith(f"{registry.mirror}/"):
                yield _error(
                    "image-from-mirror",
                    Problem(
                        where,
                        f"must come from the site's registry ({registry.mirror})",
                        str(image),
                        "hosts without the internet cannot pull it",
                        "size the plan again: every image is written with the mirror's name",
                    ),
                )


def _repositories(node: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Fields named ``repository`` of an operator's policy."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "repository":
                yield f"{where}.{key}", value
            else:
                yield from _repositories(value, f"{where}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _repositories(value, f"{where}[{index}]")


def image_by_digest(pod: Pod) -> Iterator[Finding]:
    for where, container in pod.containers:
        image = str(container.get("image", ""))
        match = _DIGEST.match(image)
        if match is None:
            yield _error(
                "image-by-digest",
                Problem(
                    f"{where}.image",
                    "must be pinned by digest",
                    image or "nothing",
                    "a tag can be moved to another image after it was reviewed",
                    "give the digest: overrides.image_digest in the workload",
                ),
            )
        elif set(match.group(1)) == {"0"}:
            yield Finding(
                "image-placeholder",
                "warn",
                Problem(
                    f"{where}.image",
                    "must be a digest that a registry has",
                    "the placeholder of sixty-four zeros",
                    "the pod cannot start; the placeholder keeps an unpinned image from running",
                    "look the digest up and set it: overrides.image_digest in the workload"
                    if container.get("name") == "engine"
                    else "look the digest up and set it in the catalog's platform entry",
                ),
            )


def not_privileged(pod: Pod) -> Iterator[Finding]:
    if identity(pod.owner) in PRIVILEGED_ALLOWED:
        return
    why = "whoever takes over the engine would own the node"
    fix = "remove it, or name the object in PRIVILEGED_ALLOWED with a reason"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(key):
            yield _error(
                "not-privileged", Problem(f"{pod.where}.spec.{key}", "must not be set", "true", why, fix)
            )
    for volume in pod.spec.get("volumes") or ():
        if "hostPath" in volume:
            place = f"{pod.where}.spec.volumes[{volume.get('name')}]"
            yield _error(
                "not-privileged", Problem(place, "must not be a path of the node", "hostPath", why, fix)
            )
    for where, container in pod.containers:
        context = container.get("securityContext") or {}
        if context.get("privileged"):
            yield _error(
                "not-privileged",
                Problem(f"{where}.securityContext", "must not be privileged", "true", why, fix),
            )
        if context.get("allowPrivilegeEscalation") is not False:
            yield _error(
                "not-privileged",
                Problem(
                    f"{where}.securityContext.allowPrivilegeEscalation",
                    "must be false",
                    str(context.get("allowPrivilegeEscalation", "nothing")).lower(),
                    why,
                    "set it to false",
                ),
            )


def security_context(pod: Pod) -> Iterator[Finding]:
    why = "the defaults of a container runtime differ between clusters"
    profile = ((pod.spec.get("securityContext") or {}).get("seccompProfile") or {}).get("type")
    if profile not in {"RuntimeDefault", "Localhost"}:
        yield _error(
            "security-context",
            Problem(
                f"{pod.where}.spec.securityContext",
                "must set a seccomp profile",
                str(profile or "nothing"),
                why,
                "seccompProfile: {type: RuntimeDefault}",
            ),
        )
    for where, container in pod.containers:
        dropped = ((container.get("securityContext") or {}).get("capabilities") or {}).get("drop") or ()
        if "ALL" not in dropped:
            yield _error(
                "security-context",
                Problem(
                    f"{where}.securityContext.capabilities",
                    "must drop ALL",
                    str(list(dropped)) if dropped else "nothing",
                    why,
                    "drop: [ALL], then add what is needed",
                ),
            )


def limits_set(pod: Pod) -> Iterator[Finding]:
    for where, container in pod.containers:
        limits = (container.get("resources") or {}).get("limits") or {}
        for resource in ("cpu", "memory"):
            if not limits.get(resource):
                yield _error(
                    "limits-set",
                    Problem(
                        f"{where}.resources.limits.{resource}",
                        "must be set",
                        "nothing",
                        "one container could starve every other on its node",
                        "give a limit equal to the request",
                    ),
                )


def no_secret_in_pod(pod: Pod) -> Iterator[Finding]:
    for where, container in pod.containers:
        for variable in container.get("env") or ():
            name, value = str(variable.get("name", "")), str(variable.get("value") or "")
            if value and secrets.is_secret_variable(name) and not secrets.is_reference(value):
                yield _exposed(f"{where}.env[{name}]", "a value")
        for part in ("command", "args"):
            for flag in secrets.secret_flags([str(word) for word in container.get(part) or ()]):
                yield _exposed(f"{where}.{part}", flag)


def secrets_in(where: str, content: Object) -> Iterator[Finding]:
    """Values that are secrets wherever they stand: by their own form, or by the key they are under."""
    for path, key, value in _values(content, "", ""):
        if secrets.holds_credential(value) or (secrets.is_secret_key(key) and value not in {"", _REDACTED}):
            yield _exposed(f"{where} {path}", "a value")


def no_credential(content: Object) -> Iterator[Finding]:
    for path, _, value in _values(content, "", ""):
        if secrets.holds_credential(value):
            yield _exposed(f"{identity(content)} {path}", "a credential")


def _values(value: Any, path: str, key: str) -> Iterator[tuple[str, str, str]]:
    """(path, nearest key, text) of every text in ``value``."""
    if isinstance(value, str):
        yield path, key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _values(item, f"{path}.{name}".lstrip("."), str(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _values(item, f"{path}[{index}]", key)


def _exposed(where: str, found: str) -> Finding:
    return _error(
        "no-secret",
        Problem(
            where,
            "must not hold a secret",
            found,
            "manifests are kept in git and read by many",
            "refer to a Secret: valueFrom.secretKeyRef; a secret that was in a plan is no longer one",
        ),
    )


def no_plan_label_in_pods(pod: Pod) -> Iterator[Finding]:
    if PLAN_LABEL in pod.labels:
        yield _error(
            "stable-template",
            Problem(
                f"{pod.where}.metadata.labels",
                f"must not carry {PLAN_LABEL}",
                str(pod.labels[PLAN_LABEL]),
                "every new plan would roll every pod",
                "keep it on objects only",
            ),
        )


def no_secret_object(content: Object) -> Iterator[Finding]:
    if content.get("kind") != "Secret":
        return
    for part in ("data", "stringData"):
        values = content.get(part) or {}
        shown = [k for k, v in values.items() if v != _REDACTED] if isinstance(values, Mapping) else []
        for key in shown:
            yield _error(
                "no-secret",
                Problem(
                    f"{identity(content)} {part}.{key}",
                    "must not hold a secret",
                    "a value",
                    "manifests are kept in git and read by many",
                    "make the Secret where its value is kept",
                ),
            )


def rollout_can_move(content: Object) -> Iterator[Finding]:
    """A rollout that may neither add nor remove a pod never ends."""
    spec = content.get("spec") or {}
    for path in ("strategy.rollingUpdate", "rolloutStrategy.rollingUpdateConfiguration"):
        first, second = path.split(".")
        update = (spec.get(first) or {}).get(second) if isinstance(spec, Mapping) else None
        if update and not update.get("maxSurge") and not update.get("maxUnavailable"):
            yield _error(
                "rollout-can-move",
                Problem(
                    f"{identity(content)} spec.{path}",
                    "must allow one pod more or one fewer",
                    "maxSurge 0 and maxUnavailable 0",
                    "the rollout would wait for ever",
                    "size the workload again: the plan decides which of the two fits the pool",
                ),
            )


def _unprotected(objects: Sequence[Object]) -> Iterator[Finding]:
    """Pods with GPUs whose eviction no budget limits."""
    budgets = [
        (o["metadata"].get("namespace"), o["spec"]["selector"]["matchLabels"])
        for o in objects
        if o.get("kind") == "PodDisruptionBudget"
    ]
    for content in objects:
        for pod in pods(content):
            if not _takes_gpus(pod):
                continue
            namespace = (content.get("metadata") or {}).get("namespace")
            if not any(n == namespace and m.items() <= pod.labels.items() for n, m in budgets):
                yield _error(
                    "disruption-budget",
                    Problem(
                        pod.where,
                        "must be covered by a PodDisruptionBudget",
                        "none",
                        "a drain of several nodes would stop every replica at once",
                        "select all pods of the deployment, leaders and workers",
                    ),
                )


def _schedulable(plan: Plan, objects: Sequence[Object]) -> Iterator[Finding]:
    """Pods with more GPUs than a node of their pool has, or for nodes of no pool."""
    for content in objects:
        for pod in pods(content):
            if not _takes_gpus(pod):
                continue
            chosen: Mapping[str, str] = pod.spec.get("nodeSelector") or {}
            fitting = [p for p in plan.pools if chosen and chosen.items() <= p.labels.items()]
            if not fitting:
                shown = ", ".join(f"{key}={value}" for key, value in chosen.items()) or "nothing"
                yield _unschedulable(f"{pod.where}.spec.nodeSelector", "must select nodes of a pool", shown)
            elif all(_gpus(pod, p.gpu_resource) > p.gpus_per_node for p in fitting):
                most = max(fitting, key=lambda p: p.gpus_per_node)
                yield _unschedulable(
                    f"{pod.where}.spec",
                    f"must take at most the {most.gpus_per_node} GPUs of a node of pool {most.name}",
                    f"{_gpus(pod, most.gpu_resource)} × {most.gpu_resource}",
                )


def _unschedulable(where: str, rule: str, found: str) -> Finding:
    why = "no node can ever take the pod; it would be pending for ever"
    return _error("schedulable", Problem(where, rule, found, why, "size the workload again"))


def _gpus(pod: Pod, resource: str) -> int:
    """What the scheduler reserves: all containers together, or the largest init container."""

    def taken(kind: str) -> list[int]:
        limits = [(c.get("resources") or {}).get("limits") or {} for c in pod.spec.get(kind) or ()]
        return [int(amount) for amount in (str(v.get(resource, 0)) for v in limits) if amount.isdigit()]

    return max(sum(taken("containers")), *taken("initContainers"), 0)


def _linked(objects: Sequence[Object]) -> Iterator[Finding]:
    """Names, selectors and references between the objects of one render."""
    templates = [((o.get("metadata") or {}).get("namespace"), pod.labels) for o in objects for pod in pods(o)]
    names: dict[str, list[str]] = {}
    for content in objects:
        names.setdefault(str(content.get("kind")), []).append(
            str((content.get("metadata") or {}).get("name"))
        )
        if content.get("kind") == "ComputeDomain":
            # Its driver makes the template of the channel.
            made = content["spec"]["channel"]["resourceClaimTemplate"]["name"]
            names.setdefault("ResourceClaimTemplate", []).append(str(made))
    for content in objects:
        where = identity(content)
        yield from (_error("valid-name", problem) for problem in links.name_problems(content))
        lost = links.selector_problem(where, content, templates)
        if lost is not None:
            yield _error("selector-selects", lost)
        for problem in links.reference_problems(where, content, names):
            yield _error("reference-exists", problem)


_ACCELERATORS = frozenset(device.resource for device in DEVICES.values())


def _takes_gpus(pod: Pod) -> bool:
    return bool(pod.spec.get("resourceClaims")) or any(
        name in _ACCELERATORS or name.startswith("nvidia.com/mig-")
        for _, container in pod.containers
        for name in (container.get("resources") or {}).get("limits") or {}
    )


def _engine_findings(plan: Plan, deployment: Deployment, objects: Sequence[Object]) -> Iterator[Finding]:
    """Command lines and queries against what the pinned engine version takes and exports."""
    engine = deployment.engine
    for content in objects:
        for pod in pods(content):
            for where, container in pod.containers:
                if container.get("name") == "engine" and container.get("image") == engine.image:
                    yield from _argument_findings(deployment, where, container)
    recorded = {
        rule.record
        for rules in (plan.observability.deployment_rules.values() if plan.observability else ())
        for rule in rules
        if rule.record
    }
    for where, query in _queries(deployment, objects):
        for found in matrix.check_promql(
            matrix_of(engine.name),
            engine.version,
            query,
            recorded=recorded,
            extra_labels=scrape_labels(engine.name),
        ):
            yield Finding(
                "exported-metrics",
                found.severity,
                Problem(
                    f"{where} {found.subject}",
                    found.rule,
                    found.found,
                    "the query returns nothing, so nothing scales or alerts",
                    found.successor_or_hint,
                ),
            )


def _argument_findings(deployment: Deployment, where: str, container: Mapping[str, Any]) -> Iterator[Finding]:
    engine = deployment.engine
    words = [secrets.masked(_filled(str(word)), _REDACTED) for word in container.get("args") or ()]
    names = [str(v.get("name")) for v in container.get("env") or ()]
    for argument in matrix.check_args(matrix_of(engine.name), engine.version, words):
        yield Finding(
            "engine-arguments",
            argument.severity,
            Problem(
                f"{where}.args {argument.flag}",
                argument.rule,
                argument.found,
                f"{engine.name} {engine.version} would not start",
                argument.successor_or_hint,
            ),
        )
    for variable in matrix.check_env(matrix_of(engine.name), engine.version, names):
        yield Finding(
            "engine-arguments",
            variable.severity,
            Problem(
                f"{where}.env {variable.name}",
                variable.rule,
                variable.found,
                "the setting would silently have no effect",
                variable.successor_or_hint,
            ),
        )


def _filled(word: str) -> str:
    """What the kubelet puts in place of a variable of the group, so that the value's type can be judged."""
    return word.replace("$(LWS_LEADER_ADDRESS)", "leader.example").replace("$(LWS_WORKER_INDEX)", "1")


def _queries(deployment: Deployment, objects: Sequence[Object]) -> Iterator[tuple[str, str]]:
    for content in objects:
        name = (content.get("metadata") or {}).get("name")
        spec = content.get("spec") or {}
        if name != deployment.name:
            continue
        if content.get("kind") == "ScaledObject":
            for index, trigger in enumerate(spec.get("triggers") or ()):
                query = (trigger.get("metadata") or {}).get("query")
                if query:
                    yield f"{identity(content)} spec.triggers[{index}]", str(query)
        elif content.get("kind") == "PrometheusRule":
            for group in spec.get("groups") or ():
                for rule in group.get("rules") or ():
                    title = rule.get("alert") or rule.get("record")
                    yield f"{identity(content)} {title}", str(rule.get("expr"))


POD_RULES: tuple[Callable[[Pod], Iterator[Finding]], ...] = (
    image_by_digest,
    not_privileged,
    security_context,
    limits_set,
    no_secret_in_pod,
    no_plan_label_in_pods,
)
OBJECT_RULES: tuple[Callable[[Object], Iterator[Finding]], ...] = (
    no_secret_object,
    no_credential,
    rollout_can_move,
)
