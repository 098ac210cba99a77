"""nginx in front of a host's engines: one virtual host a deployment, one line a replica that serves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rackwright.hosts.model import HostFile, Replica, Settings
from rackwright.plan import Deployment, Plan
from rackwright.render import render

BODY_MAX_MIB = 32
"""Largest request: long prompts and images as data."""
HTTP_PORT, HTTPS_PORT = 8080, 443
CONNECT_S = 2
"""An engine on the loopback accepts at once or not at all."""
RETRY_AFTER_S = 10
FAILS, FAIL_S = 3, 10
"""nginx leaves a replica out for ``FAIL_S`` seconds after ``FAILS`` failures within them."""


def files(plan: Plan, replicas: tuple[Replica, ...], root: str, settings: Settings) -> Iterator[HostFile]:
    """``upstream.conf`` (which engines serve), ``server.conf`` (what clients see), ``front.conf`` (both),
    ``check.conf`` (a whole configuration to test them by), each slot's line, and how each front is asked."""
    view = _view(plan, replicas, root, settings)
    for name in ("upstream", "server", "front", "check"):
        yield HostFile(f"nginx/{name}.conf", render(f"hosts/{name}.conf.j2", view))
    for replica in replicas:
        for slot in replica.slots:
            line = f"server 127.0.0.1:{slot.port} max_fails={FAILS} fail_timeout={FAIL_S}s;\n"
            yield HostFile(f"nginx/{replica.name}-{slot.colour}.conf", line)
    for deployment in _here(plan, replicas):
        scheme = "https" if settings.tls else "http"
        yield HostFile(f"fronts/{deployment.name}", f"{scheme} {hostname(plan, deployment)} {view['port']}\n")
        yield HostFile(f"requests/{deployment.name}.json", _request(deployment))


def hostname(plan: Plan, deployment: Deployment) -> str:
    """The name that clients ask for."""
    routes = (r.hostname for r in plan.routes if r.deployment == deployment.name)
    return next(routes, f"{plan.header.name}.{plan.workload.site.domain}")


def _request(deployment: Deployment) -> str:
    """One token: an engine that answers it generates."""
    asked = {"model": deployment.served_name, "prompt": "ready?", "max_tokens": 1, "temperature": 0}
    return json.dumps(asked) + "\n"


def _here(plan: Plan, replicas: tuple[Replica, ...]) -> list[Deployment]:
    names = {replica.deployment for replica in replicas}
    return [deployment for deployment in plan.deployments if deployment.name in names]


def _view(plan: Plan, replicas: tuple[Replica, ...], root: str, settings: Settings) -> Mapping[str, Any]:
    name = plan.header.name
    return {
        "name": name,
        "root": root,
        "tls": settings.tls,
        "port": HTTPS_PORT if settings.tls else HTTP_PORT,
        "certificate": settings.certificate,
        "certificate_key": settings.certificate_key,
        "body_max_mib": BODY_MAX_MIB,
        "connect_s": CONNECT_S,
        "retry_after_s": RETRY_AFTER_S,
        "deployments": [
            {
                "name": deployment.name,
                "upstream": f"rackwright-{name}-{deployment.name}",
                "zone": f"rackwright-{name}-{deployment.name}".replace("-", "_"),
                "hostname": hostname(plan, deployment),
                "connections": deployment.limits.connections,
                "read_s": math.ceil(deployment.limits.total_cutoff_ms / 1000),
                "ports": [s.port for r in replicas if r.deployment == deployment.name for s in r.slots],
            }
            for deployment in _here(plan, replicas)
        ],
    }
