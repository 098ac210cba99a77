"""The bring-up runbook: the same registry and the same plan as the preflight, as steps for people."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import BaseModel

from checks.collect import variables_for
from checks.registry import Check, Scope, wanted
from checks.remedy import filled
from checks.report import standing_up
from checks.report.findings import Registry
from checks.report.markdown import code, fenced, prose
from checks.report.racks import Budget
from checks.report.text import folded, is_prose, kilowatts, plural, remedy_parts
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.plan import NotApplicable, Plan, Pool, Rack
from rackwright.render import render

TEMPLATE = "runbook/rack-bring-up.md.j2"
SCOPES = {
    Scope.HOST: "on every host",
    Scope.POOL: "on every host of the pool, then compare",
    Scope.RACK: "on every host of the rack, then add up",
}


@dataclass(frozen=True)
class Stage:
    """One step of the bring-up and the areas of checks that prove it."""

    key: str
    title: str
    areas: tuple[str, ...]


STAGES = (
    Stage("rack", "Rack and power", ("power", "thermal")),
    Stage("bmc", "BMC", ("bmc",)),
    Stage("os", "Operating system", ("net", "host", "os", "time")),
    Stage("driver", "Driver and GPUs", ("gpu", "nvlink", "log")),
    Stage("fabric", "Fabric", ("ib", "roce", "rdma", "pcie")),
    Stage("storage", "Storage", ("nvme",)),
    Stage("preflight", "Preflight", ("uniform",)),
    Stage("cluster", "Cluster and operators", ()),
    Stage("stand-up", "Stand up", ()),
    Stage("go-live", "Go live", ()),
)
"""The order where the host image owns the driver; see :func:`stages`."""
_DEFAULT_STAGE = "preflight"
_REBOOT = re.compile(r"\breboot|\bpower[- ]cycle", re.I)


def stages(plan: Plan) -> tuple[Stage, ...]:
    """The steps in the order in which each can be done: an operator that owns the driver comes before it."""
    if plan.platform is None or plan.platform.driver_owner != "gpu-operator":
        return STAGES
    cluster = next(s for s in STAGES if s.key == "cluster")
    rest = [s for s in STAGES if s is not cluster]
    index = next(i for i, s in enumerate(rest) if s.key == "driver")
    return (*rest[:index], cluster, *rest[index:])


def runbook(plan: Plan, registry: Registry, *, plan_file: str = "plan.yaml") -> str:
    """The runbook of all racks of ``plan`` as Markdown.

    Raises:
        InputErrors: a route of the plan leads to no deployment.
    """
    _require_routes(plan)
    return render(TEMPLATE, view(plan, registry, plan_file))


def _require_routes(plan: Plan) -> None:
    known = [deployment.name for deployment in plan.deployments]
    lost = [(i, r.deployment) for i, r in enumerate(plan.routes) if r.deployment not in known]
    if lost:
        raise InputErrors(
            Problem(
                f"routes[{index}].deployment",
                f"must name a deployment of the plan{nearest(name, known)}",
                f'"{name}"; the plan has {listing(known) or "none"}',
                "the step that proves the service would ask for a model that nobody serves",
                "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml",
            )
            for index, name in lost
        )


def view(plan: Plan, registry: Registry, plan_file: str) -> dict[str, Any]:
    """Everything the template prints, decided."""
    file = shlex.quote(plan_file)
    order = stages(plan)
    shown = [_stage(number, s, plan, registry, file) for number, s in enumerate(order, 1)]
    return {
        "name": plan.header.name,
        "digest": plan.digest[:12],
        "plan_file": code(plan_file),
        "generated_by": plan.header.generated_by,
        "hosts": plural(sum(len(p.nodes) for p in plan.pools), "host"),
        "pools": [_pool(p) for p in plan.pools],
        "racks": [_rack(r, site.name, plan) for site in plan.sites for r in site.racks],
        "stages": shown,
        "last": len(order),
        "cautions": [prose(f"{c.id}: {c.text}") for c in plan.cautions if c.suppressed is None],
    }


def _pool(pool: Pool) -> dict[str, str]:
    return {
        "name": code(pool.name),
        "machine": f"{pool.machine}, {pool.gpus_per_node} × {pool.accelerator}",
        "nodes": f"{len(pool.nodes)}" + (f" ({plural(pool.spares, 'spare')})" if pool.spares else ""),
        "full": kilowatts(pool.full_load_w_per_node),
        "idle": kilowatts(pool.idle_w_per_node),
    }


def _rack(rack: Rack, site: str, plan: Plan) -> dict[str, Any]:
    placed = [(node, pool) for pool in plan.pools for node in pool.nodes if node.name in rack.nodes]
    budget = Budget(rack.planned_full_load_w, rack.power_factor, rack.rating_w)
    terms = [
        f"{len(list(same))} × {kilowatts(pool.full_load_w_per_node)}"
        for pool, same in groupby((pool for _, pool in placed), key=lambda p: p)
    ]
    left = rack.rating_w - budget.with_factor_w
    return {
        "name": rack.name,
        "site": site,
        "nodes": [
            {
                "name": code(node.name),
                "pool": pool.name,
                "machine": pool.machine,
                "role": "spare" if node.spare else pool.role,
                "rails": code(", ".join(node.rail_addresses)),
            }
            for node, pool in placed
        ],
        "sum": f"{' + '.join(terms)} = {kilowatts(budget.watts)}" if terms else kilowatts(budget.watts),
        "factor": f"{kilowatts(budget.watts)} × {budget.factor:g} = {kilowatts(budget.with_factor_w)}",
        "rating": kilowatts(rack.rating_w),
        "percent": f"{budget.percent:.0f} %",
        "fits": budget.fits,
        "left": kilowatts(abs(left)),
        "stages": [{"number": n, "title": s.title} for n, s in enumerate(stages(plan), 1)],
    }


def _stage(number: int, stage: Stage, plan: Plan, registry: Registry, file: str) -> dict[str, Any]:
    areas = {area for s in STAGES for area in s.areas}
    mine = [
        c
        for c in registry.values()
        if c.area in stage.areas or (c.area not in areas and stage.key == _DEFAULT_STAGE)
    ]
    mine.sort(key=lambda c: (_position(c.area, stage), c.id))
    shown = [c for c in mine if not _absent(c, plan)]
    return {
        "number": number,
        "title": stage.title,
        "facts": [prose(fact) for fact in _facts(stage.key, plan)],
        "commands": [{"text": prose(t), "command": fenced(c)} for t, c in _commands(stage.key, plan, file)],
        "checks": [_check(c, plan) for c in shown],
        "absent": [
            f"{code(c.id)}: {prose('; '.join(sorted(set(_absent(c, plan)))))}"
            for c in mine
            if _absent(c, plan)
        ],
    }


def _position(area: str, stage: Stage) -> int:
    return stage.areas.index(area) if area in stage.areas else len(stage.areas)


def _absent(check: Check, plan: Plan) -> list[str]:
    """Why no pool needs the check, where none does."""
    if not check.expects:
        return []
    values = [wanted(check, e) for e in plan.expectations.values()]
    reasons = [v.not_applicable for v in values if isinstance(v, NotApplicable)]
    return reasons if values and len(reasons) == len(values) else []


def _facts(key: str, plan: Plan) -> list[str]:
    """What the plan decides for a step, in sentences."""
    makers = {
        "rack": _power_facts,
        "bmc": _bmc_facts,
        "os": _os_facts,
        "driver": _driver_facts,
        "fabric": _fabric_facts,
        "storage": _storage_facts,
    }
    if key in ("cluster", "stand-up"):
        return standing_up.facts(key, plan)
    return makers[key](plan) if key in makers else []


def _power_facts(plan: Plan) -> list[str]:
    racks = list(plan.racks())
    over = [r.name for r in racks if not Budget(r.planned_full_load_w, r.power_factor, r.rating_w).fits]
    if over:
        return [f"Do not switch on {folded(over)}: the planned load exceeds the rating."]
    return [
        "Mount the nodes of the tables above, connect every supply, and switch on one node after the other.",
        "Every rack's planned full load × factor is below its rating; the sums stand with each rack above.",
    ]


def _bmc_facts(plan: Plan) -> list[str]:
    facts = []
    for name, e in plan.expectations.items():
        if isinstance(e.power.bmc, NotApplicable):
            facts.append(f"Pool `{name}`: {e.power.bmc.not_applicable}.")
        elif e.power.bmc:
            facts.append(f"Pool `{name}`: every BMC has its address and answers on its host.")
    return facts


def _os_facts(plan: Plan) -> list[str]:
    facts = []
    for name, e in plan.expectations.items():
        parts: dict[str, Any] = {
            "transparent huge pages": e.os.thp,
            "CPU governor": e.os.governor,
            "swap": e.os.swap,
            "idle states allowed": e.os.cstates_allowed,
            "time servers": e.os.ntp,
        }
        known = [f"{label} {show('', value)}" for label, value in parts.items() if _given(value)]
        if known:
            facts.append(f"Pool `{name}`: {'; '.join(known)}.")
    return facts


def _driver_facts(plan: Plan) -> list[str]:
    if plan.platform is None:
        return []
    p = plan.platform
    owners = {"host": "the host image", "gpu-operator": "the GPU operator, once the cluster stands"}
    driver = f"Driver {p.driver_version} ({p.kernel_module} kernel module)"
    return [f"{driver} is installed by {owners[p.driver_owner]}, and by nothing else."]


def _fabric_facts(plan: Plan) -> list[str]:
    f = plan.fabric
    if f is None:
        return ["The plan has no scale-out fabric."]
    facts = [f"{f.kind}, {plural(len(f.rails), 'rail')} of {f.rate_gbps} Gb/s, MTU {f.mtu} ({f.nic_type})."]
    facts += [f"Rail {r.index}: `{r.netdev}` (`{r.hca}`) in `{r.subnet}`." for r in f.rails]
    if f.qos:
        q = f.qos
        facts.append(
            f"QoS: trust {q.trust}, lossless priority {q.lossless_priority}, DSCP {q.dscp} "
            f"(traffic class {q.tos}), PFC {show('', q.pfc)}, ECN {show('', q.ecn)}; "
            "the switch has the same profile."
        )
    return facts


def _storage_facts(plan: Plan) -> list[str]:
    return [
        f"Pool `{name}`: {show('headroom_bytes', e.storage.headroom_bytes)} free below "
        f"`{e.storage.model_dir}` for two sets of weights."
        for name, e in plan.expectations.items()
        if _given(e.storage.headroom_bytes) and _given(e.storage.model_dir)
    ]


def _commands(key: str, plan: Plan, file: str) -> list[tuple[str, str]]:
    """Commands of a step that are not checks."""
    preflight = "rackwright preflight --hosts hosts.ini"
    steps = {
        "preflight": [
            ("Write the inventory and put in the addresses.", f"rackwright inventory {file} -o hosts.ini"),
            ("Accept each host's SSH key, compared with its console.", "rackwright enrol --hosts hosts.ini"),
            ("Run the whole checklist.", "pytest checks --hosts hosts.ini"),
            ("The same, with a report for the ticket.", f"{preflight} --results preflight"),
        ],
        "cluster": standing_up.cluster_steps(plan, file),
        "stand-up": standing_up.apply_steps(plan, file),
        "go-live": [
            (
                "While the load test runs, take the readings of power and temperature that count.",
                f"{preflight} --only power,thermal,gpu-temperature --load full",
            ),
            *_probes(plan),
        ],
    }
    return steps.get(key, [])


def _probes(plan: Plan) -> list[tuple[str, str]]:
    """One generated token: an engine that only answers /health may be dead behind it."""
    probes = []
    for route in plan.routes:
        served = plan.deployment(route.deployment).served_name
        body = json.dumps({"model": served, "prompt": "1 + 1 =", "max_tokens": 1, "temperature": 0})
        probes.append(
            (
                f"Prove deployment `{route.deployment}` through the gateway: one token within 30 s.",
                f"curl -fsS --max-time 30 {shlex.quote(f'https://{route.hostname}/v1/completions')} "
                "-H 'Content-Type: application/json' -H \"Authorization: Bearer $API_KEY\" "
                f"-d {shlex.quote(body)}",
            )
        )
    return probes


def _check(check: Check, plan: Plan) -> dict[str, Any]:
    only = next(iter(plan.expectations.values())) if len(plan.expectations) == 1 else None
    remedy, note = remedy_parts(filled(check, plan, only))
    return {
        "id": code(check.id),
        "title": prose(check.title),
        "severity": str(check.severity),
        "why": prose(check.why),
        "where": SCOPES[check.scope],
        "root": any(c.root for c in check.commands),
        "commands": [fenced(text) for text in _shells(check, plan)],
        "expected": [
            {"pool": code(name), "value": _expected(check, e, plan)}
            for name, e in sorted(plan.expectations.items())
        ],
        "path": code(f"expectations.POOL.{check.expects}") if check.expects else "",
        "remedy": prose(remedy) if is_prose(remedy) else fenced(remedy),
        "note": prose(note),
        "reversible": "yes" if check.reversible else "no",
        "reboot": "yes"
        if _REBOOT.search(remedy)
        else "perhaps, see the remark"
        if _REBOOT.search(note)
        else "no",
    }


def _shells(check: Check, plan: Plan) -> list[str]:
    """The declared commands; values they read from the plan are set before."""
    out = []
    vendors = {"", *(e.gpu.vendor for e in plan.expectations.values())}
    for command in check.commands:
        if command.vendor not in vendors:
            continue
        settings = {
            f"export {name}={shlex.quote(value)}": pool
            for pool, e in plan.expectations.items()
            for name, value in variables_for([command], e).items()
        }
        several = len(settings) > len(command.variables)
        lines = [f"{line}  # pool {pool}" if several else line for line, pool in settings.items()]
        out.append("\n".join([*lines, command.title]))
    return out


_FORBIDDEN = ("gpu.xid_fatal", "os.kernel_faults")
"""Expectations that list what must not be found."""


def _expected(check: Check, expectations: Any, plan: Plan) -> str:
    if check.scope is Scope.RACK and check.area == "power":
        terms = sorted({(r.power_factor, r.rating_w) for r in plan.racks()})
        return " or ".join(
            f"the rack's sum × {factor:g} below {kilowatts(rating)}" for factor, rating in terms
        )
    if check.scope is Scope.POOL and check.expects == "uniform":
        return "the same on every host of the pool"
    if not check.expects:
        return prose(check.title)
    value = wanted(check, expectations)
    if value is None:
        return "**missing in the plan**: the check will report an error"
    if isinstance(value, NotApplicable):
        return f"not applicable: {prose(value.not_applicable)}"
    if check.expects in _FORBIDDEN and value:
        return f"none of {code(show('', value))}"
    shown = code(show(check.expects.rpartition(".")[2], value))
    return f"{shown}: {prose(check.title)}" if isinstance(value, bool) else shown


def _given(value: Any) -> bool:
    return value is not None and not isinstance(value, NotApplicable) and value != ()


_UNITS = {
    "_w": "W", "_c": "°C", "_gib": "GiB", "_mib": "MiB", "_ms": "ms", "_s": "s", "_percent": "%",
    "_gb_s": "GB/s",
}  # fmt: skip


def show(field: str, value: Any) -> str:
    """An expected value with its unit and its direction, both of which the field's name carries."""
    if isinstance(value, tuple) and value and all(isinstance(v, bool) for v in value):
        return ",".join(str(int(v)) for v in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, BaseModel):
        return " ".join(str(v) for v in value.model_dump().values())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(show("", v) for v in value) or "none"
    return f"{_direction(field)}{_quantity(field, value)}"


def _direction(field: str) -> str:
    if field == "headroom_bytes":
        return "more than "
    if field.endswith("_min"):
        return "at least "
    return "at most " if re.search(r"_max(_|$)", field) or field == "inlet_outlet_delta_c" else ""


def _quantity(field: str, value: Any) -> str:
    if field.endswith("_bytes"):
        return f"{value / 1e12:.2f} TB" if value >= 1e12 else f"{value / 1e9:.1f} GB"
    unit = next(
        (u for suffix, u in sorted(_UNITS.items(), key=lambda i: -len(i[0])) if field.endswith(suffix)), ""
    )
    number = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{number} {unit}".rstrip()
