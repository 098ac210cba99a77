"""The right plan in the right cluster: refused before anything is changed unless all of it can be applied.

The cluster must prove that it is the one meant: a context is a name on one machine and may point anywhere;
the UID of ``kube-system`` is the cluster's own and lives as long as it does. Then it is asked for all that
the plan stands on, and everything that is wrong is said at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.plan import Plan
from stacks import cluster_facts, cluster_rules, node_rules
from stacks.cluster_rules import Wanted
from stacks.embedded import run
from stacks.kube_api import Api, ApiError
from stacks.kubeconfig import connection
from stacks.manifests import Manifest, manifests
from stacks.model import Environment
from stacks.program import PHASES, build

UNSET = "unset"


@dataclass(frozen=True)
class Expected:
    """What the stack's configuration says. ``identity``: UID of the namespace kube-system. ``adopt``: whether
    objects of others are taken over. ``operators``: by name, the lowest version accepted whatever the plan
    says."""

    stack: str
    context: str
    identity: str
    adopt: bool = False
    operators: Mapping[str, str] = field(default_factory=dict)


def refuse_unset(expected: Expected) -> None:
    """Raises InputErrors while the configuration does not say which cluster is meant."""
    show = f"kubectl --context {expected.context} get namespace kube-system -o jsonpath={{.metadata.uid}}"
    problems = [
        Problem(
            f"Pulumi.{expected.stack}.yaml rackwright:{key}",
            f"must be the cluster's {what}",
            f'"{value}"' if value else "nothing",
            "without it a wrong kubeconfig would put this plan into another cluster",
            command,
        )
        for key, what, value, command in (
            ("context", "name in the kubeconfig", expected.context, "kubectl config get-contexts"),
            ("identity", "kube-system UID", expected.identity, show),
        )
        if value in {"", UNSET}
    ]
    if problems:
        raise InputErrors(problems)


def refuse_other(expected: Expected, identity: str | None) -> None:
    """Raises InputErrors unless ``identity``, as the cluster gave it, is the expected one."""
    if identity != expected.identity:
        raise InputErrors(
            Problem(
                f"Pulumi.{expected.stack}.yaml rackwright:identity",
                f"must be the kube-system UID of the cluster behind context {expected.context}",
                f'"{expected.identity}" in the file, "{identity}" in the cluster',
                "it is another cluster, or the same name was given to a new one",
                "check the kubeconfig; for a rebuilt cluster set the new UID on purpose",
            )
        )


def prove(expected: Expected, kubeconfig: Sequence[Path] | None = None) -> Api:
    """The cluster behind the context, once it has proved that it is the one meant.

    Raises:
        InputErrors: the settings do not name a cluster, or it is another.
        CannotRun: there is no such context, it does not answer, or it does not let us in.
    """
    refuse_unset(expected)
    api = Api(connection(expected.context, kubeconfig))
    try:
        refuse_other(expected, cluster_facts.identity(api))
    except ApiError as error:
        raise CannotRun(_unproved(expected, api, error)) from None
    return api


def _unproved(expected: Expected, api: Api, error: ApiError) -> Problem:
    where = f"context {expected.context}"
    look = f"kubectl --context {expected.context} get namespace kube-system"
    if error.status in {401, 403}:
        return Problem(
            where, "must let you read the namespace kube-system", str(error),
            "the cluster cannot prove that it is the one meant", look,
        )  # fmt: skip
    return Problem(
        where, "must answer", f"{error} from {api.way.server}",
        "nothing can be applied, and nothing was changed", look,
    )  # fmt: skip


def refuse(plan: Plan, environment: Environment, expected: Expected) -> None:
    """Nothing, where the plan can be applied to the cluster from its first object to its last.

    Raises:
        InputErrors: the plan lacks something, or the cluster is not as it must be: every problem of it.
        CannotRun: the cluster does not answer.
    """
    api = prove(expected)
    declared = _declared(plan, environment)
    platform = plan.platform
    external = [o for o in platform.operators if o.mode == "external"] if platform else []
    wanted = Wanted(
        plan.header.name, expected.stack, expected.context, declared, expected.adopt, expected.operators
    )
    try:
        facts = cluster_facts.collect(api, declared, external, adopt=expected.adopt)
    except ApiError as error:
        raise CannotRun(_unproved(expected, api, error)) from None
    problems = [*cluster_rules.problems(wanted, facts), *node_rules.problems(wanted, facts)]
    if problems:
        raise InputErrors(problems)


def _declared(plan: Plan, environment: Environment) -> tuple[Manifest, ...]:
    """What this environment declares. In a thread: the program that asks is one of the engine's itself, and
    the SDK keeps its settings a context."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(run, lambda: build(plan, environment)).result()
    return manifests(found, PHASES)


def guarded_provider(expected: Expected) -> k8s.Provider:
    """The provider of everything else. It exists only once the cluster has proved its identity: what it is
    configured with comes out of that proof, so nothing can be declared before."""
    refuse_unset(expected)
    door = k8s.Provider("identity", context=expected.context)
    system = k8s.core.v1.Namespace.get(
        "kube-system", "kube-system", opts=pulumi.ResourceOptions(provider=door)
    )

    def proved(uid: str | None) -> str:
        try:
            refuse_other(expected, uid)
        except InputErrors as error:
            raise pulumi.RunError(str(error)) from None
        return expected.context

    return k8s.Provider(
        "cluster",
        context=system.metadata.uid.apply(proved),
        enable_server_side_apply=True,
        # Changed in place: replaced, there would be a moment without it.
        enable_config_map_mutable=True,
    )
