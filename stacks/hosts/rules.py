"""What a person should know of the files of hosts before they are applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackwright.errors import Problem, listing
from rackwright.hosts import HostSet
from rackwright.plan import Plan
from rackwright.render_rules import Finding


def findings(plan: Plan, hosts: Sequence[HostSet]) -> Iterator[Finding]:
    """Images that no registry serves; changes that interrupt."""
    docker = {host.pool for host in hosts if host.family.runtime == "docker"}
    for index, deployment in enumerate(plan.deployments):
        if deployment.pool in docker and deployment.engine.image.endswith("0" * 64):
            yield Finding(
                "image-digest",
                "warn",
                Problem(
                    f"deployments[{index}].engine.image", "must be a digest that a registry has",
                    "the placeholder of sixty-four zeros", "host.sh check refuses: the image cannot be had",
                    "look the digest up and set it: overrides.image_digest in the workload",
                ),
            )  # fmt: skip
    alone = [host.host for host in hosts if host.interrupts]
    if alone:
        yield Finding(
            "interrupts",
            "warn",
            Problem(
                "hosts", "should have accelerators for a second version, or a second replica",
                f"neither on {listing(alone)}",
                "while a version changes there, the host answers 503 until the new one has loaded",
                "change hosts one after the other and take them out of DNS: make up ARGS='--parallel 1'",
            ),
        )  # fmt: skip
