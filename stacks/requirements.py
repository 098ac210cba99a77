"""What a plan must hold before its objects can be declared: every section, and names that lead somewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.plan import Deployment, Plan
from rackwright.plan.links import interface

_SIZE = "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml"


def require(plan: Plan) -> None:
    """Raises InputErrors: the plan is not for a cluster, or lacks what its own parts refer to."""
    problems = [*_targets(plan), *_missing(plan), *_links(plan), *_layouts(plan), *_addresses(plan)]
    if problems:
        raise InputErrors(problems)


def _targets(plan: Plan) -> Iterator[Problem]:
    for site in plan.sites:
        if site.target != "kubernetes":
            yield Problem(
                f"sites.{site.name}.target",
                'must be "kubernetes" for this program',
                f'"{site.target}"',
                "its engines are units on hosts, not objects in a cluster",
                "rackwright render PLAN -o DIR writes the files of its hosts",
            )


def _missing(plan: Plan) -> Iterator[Problem]:
    sections = {
        "sites": (plan.sites, "nodes stand at a site, whose zone they are labelled with"),
        "pools": (plan.pools, "without nodes nothing can run"),
        "platform": (plan.platform, "it names the namespace and the operators that the objects need"),
    }
    for name, (section, why) in sections.items():
        if not section:
            yield Problem(name, "must be given", "nothing", why, _SIZE)


def _links(plan: Plan) -> Iterator[Problem]:
    sites = [site.name for site in plan.sites]
    pools = [pool.name for pool in plan.pools]
    deployments = [deployment.name for deployment in plan.deployments]
    for index, pool in enumerate(plan.pools):
        yield from _link(f"pools[{index}].site", "site", pool.site, sites)
    for index, deployment in enumerate(plan.deployments):
        yield from _link(f"deployments[{index}].pool", "pool", deployment.pool, pools)
    for section in ("volumes", "routes", "scaling"):
        for index, entry in enumerate(getattr(plan, section)):
            yield from _link(f"{section}[{index}].deployment", "deployment", entry.deployment, deployments)


def _link(where: str, noun: str, name: str, known: Sequence[str]) -> Iterator[Problem]:
    if name not in known:
        yield Problem(
            where,
            f"must name a {noun} of the plan{nearest(name, known)}",
            f'"{name}"; the plan has {listing(known) or "none"}',
            "objects would be left out, or made for something that does not exist",
            _SIZE,
        )


def _layouts(plan: Plan) -> Iterator[Problem]:
    for index, deployment in enumerate(plan.deployments):
        size = deployment.layout.nodes_per_replica
        if size < 1:
            yield Problem(
                f"deployments[{index}].layout.nodes_per_replica",
                "must be at least 1",
                str(size),
                "a replica runs on some node",
                _SIZE,
            )
        else:
            yield from _roles(index, deployment)


def _roles(index: int, deployment: Deployment) -> Iterator[Problem]:
    present = [role.role for role in deployment.engine.roles]
    for role in ("leader", "worker") if deployment.layout.nodes_per_replica > 1 else ("server",):
        if role not in present:
            yield Problem(
                f"deployments[{index}].engine.roles",
                f'must hold the command line of the role "{role}"',
                listing(present) or "nothing",
                "its pods would not know what to run",
                _SIZE,
            )


def _addresses(plan: Plan) -> Iterator[Problem]:
    for number, pool in enumerate(plan.pools):
        for index, node in enumerate(pool.nodes):
            for rail, address in enumerate(node.rail_addresses):
                if not _is_interface(address):
                    yield Problem(
                        f"pools[{number}].nodes[{index}].rail_addresses[{rail}]",
                        "must be an IP address with prefix length",
                        f'"{address}"',
                        "the rail's block of the node is computed from it",
                        _SIZE,
                    )


def _is_interface(address: str) -> bool:
    try:
        interface(address)
    except ValueError:
        return False
    return True
