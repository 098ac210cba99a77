"""What must hold before the first change: the rules of a render, on every object of the plan.

Images by digest, no privileged pod outside the allow-list, limits set, no secret in clear, and the rest of
``rackwright.render_rules``. `rackwright render` runs the same; here they also stand before `make up`.
"""

from __future__ import annotations

from rackwright.crds import Schemas
from rackwright.errors import InputErrors
from rackwright.hosts import decide
from rackwright.plan import Plan
from rackwright.plan.sites import on_hosts
from stacks.rendering import judged, manifests_of


def require(plan: Plan) -> int:
    """The number of objects, or of files of hosts, that were judged.

    Raises:
        InputErrors: one breaks a rule; every violation is told. Warnings are left to the render.
    """
    if on_hosts(plan.sites):
        return sum(len(host.files) for host in decide(plan))
    found = manifests_of(plan)
    judgement = judged(plan, found, (), Schemas())
    problems = [finding.problem for finding in judgement.findings if finding.severity == "error"]
    if problems:
        raise InputErrors(problems)
    return len(found)
