"""The objects of a pool whose nodes are made: a provisioner's templates with the plan's values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rackwright.catalog.provisioner_entries import Instance, PoolTemplate, Provisioner
from rackwright.plan import Plan, Pool, PoolObject, Taint
from rackwright.workload import BareHost, Provisioning, RootDevice

GATE = Taint(key="rackwright.dev/preflight", value="pending", effect="NoSchedule")
"""On a new node until preflight has passed on it."""

_PLACE = re.compile(r"\$\{([a-z_0-9]+)\}")
Values = Mapping[str, Any]


def objects(plan: Plan, pool: Pool, entry: Provisioner, asked: Provisioning) -> tuple[PoolObject, ...]:
    """Every object of ``pool``, in the entry's order."""
    values = _values(plan, pool, entry, asked)
    return tuple(
        _object(template, each)
        for template in entry.objects
        for each in (_of_hosts(pool, asked, values) if template.each == "host" else (values,))
    )


def _object(template: PoolTemplate, values: Values) -> PoolObject:
    return PoolObject(
        api_version=template.api_version,
        kind=template.kind,
        name=str(_filled(template.name, values)),
        namespace=_filled(template.namespace, values) if template.namespace else None,
        labels=_filled(template.labels, values) or {},
        protect=template.protect,
        remakes=template.remakes,
        spec=_filled(template.spec, values) or {},
    )


def _values(plan: Plan, pool: Pool, entry: Provisioner, asked: Provisioning) -> dict[str, Any]:
    """What templates may name. Counts are of nodes; the taint of preflight is a startup taint.
    ``version_hash``: part of the name of an object that its API does not let change."""
    nodes, hot = len(pool.nodes), asked.tier == "hot"
    least = nodes if hot else 0
    instance = entry.instances.get(asked.instance or "")
    gate = gate_of(entry, asked)
    startup = [gate] if gate else []
    inputs = {name: asked.inputs.get(name, given.default) for name, given in entry.inputs.items()}
    fixed = (sorted(inputs.items(), key=str), pool.labels, [str(t) for t in (*pool.taints, *startup)])
    return {
        **inputs,
        "version_hash": hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:8],
        "plan": plan.header.name,
        "pool": pool.name,
        "instance": asked.instance,
        "provider_accelerator": instance.named if instance else None,
        "interfaces": _interfaces(instance) if instance and asked.rdma else None,
        "gpus": pool.gpus_per_node,
        "gpu_resource": pool.gpu_resource,
        "gpu_limit": None if hot else str(nodes * pool.gpus_per_node),
        "static_nodes": nodes if hot else None,
        "static_limit": str(nodes) if hot else None,
        "nodes_min": least,
        "nodes_max": nodes,
        "scales": not hot,
        "scaled_min": None if hot else least,
        "scaled_max": None if hot else nodes,
        "working_nodes": nodes - pool.spares,
        "driver": entry.driver.get("image" if asked.image_driver else "none"),
        "labels": dict(pool.labels),
        "label_text": ",".join(f"{key}={value}" for key, value in pool.labels.items()),
        "taints": [_taint(taint, entry) for taint in pool.taints],
        "startup_taints": [_taint(taint, entry) for taint in startup],
        "all_taints": [_taint(taint, entry) for taint in (*pool.taints, *startup)],
        "taint_texts": [_taint_text(taint) for taint in pool.taints],
        "startup_texts": [_taint_text(taint) for taint in startup],
        "insecure_bmc": None if asked.verify_bmc else True,
    }


def gate_of(entry: Provisioner, asked: Provisioning) -> Taint | None:
    return GATE if entry.startup and asked.gate else None


def _of_hosts(pool: Pool, asked: Provisioning, values: Values) -> Iterator[Values]:
    """Hosts in the order of the plan's nodes."""
    for node, host in zip(pool.nodes, asked.hosts, strict=False):
        yield {**values, "host": node.name, "rack": node.rack, **_machine(host, asked)}


def _machine(host: BareHost, asked: Provisioning) -> dict[str, Any]:
    return {
        "bmc": host.bmc,
        "mac": host.mac,
        "credentials": host.credentials or asked.credentials,
        "root_device": _hints(host.root or asked.root),
    }


def _hints(root: RootDevice | None) -> dict[str, Any] | None:
    if root is None:
        return None
    named = {
        "deviceName": root.device,
        "model": root.model,
        "serialNumber": root.serial,
        "wwn": root.wwn,
        "minSizeGigabytes": root.min_gb,
    }
    return {name: value for name, value in named.items() if value is not None}


def _interfaces(instance: Instance) -> list[dict[str, Any]]:
    """The node's own interface, and one for RDMA on every card (Amazon EC2, several network cards)."""
    own = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    return [
        own,
        *(
            {"networkCardIndex": card, "deviceIndex": int(card == 0), "interfaceType": "efa-only"}
            for card in range(instance.cards)
        ),
    ]


def _taint(taint: Taint, entry: Provisioner) -> dict[str, str]:
    effect = entry.effects.get(taint.effect, taint.effect)
    return {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": effect}


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"


def _filled(template: Any, values: Values) -> Any:
    """``template`` with values in their places; None where nothing is left of it."""
    if isinstance(template, str):
        return _text(template, values)
    if isinstance(template, Mapping):
        if "when" in template and not _filled(template["when"], values):
            return None
        pairs = ((_filled(k, values), _filled(v, values)) for k, v in template.items() if k != "when")
        return {key: value for key, value in pairs if value is not None} or None
    if isinstance(template, (list, tuple)):
        return [item for item in (_filled(item, values) for item in template) if item is not None] or None
    return template


def _text(template: str, values: Values) -> Any:
    """Raises KeyError: the template names a value that there is not; every entry's are tested."""
    if whole := _PLACE.fullmatch(template):
        value = values[whole[1]]
        return None if value in ([], {}) else value
    return _PLACE.sub(lambda place: str(values[place[1]]), template)
