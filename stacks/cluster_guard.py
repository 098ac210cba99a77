"""The right plan in the right cluster: refused unless the cluster proves that it is the one meant.

A context is a name on one machine and may point anywhere; the UID of ``kube-system`` is the cluster's own and
lives as long as it does.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from rackwright.errors import InputErrors, Problem

UNSET = "unset"


@dataclass(frozen=True)
class Expected:
    """What the stack's configuration says. ``identity``: UID of the namespace kube-system."""

    stack: str
    context: str
    identity: str


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

    return k8s.Provider("cluster", context=system.metadata.uid.apply(proved), enable_server_side_apply=True)
