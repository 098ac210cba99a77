"""Storage for weights, gateway, autoscaling and observability: one entry a deployment."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section


class WeightVolume(Section):
    """A claim that outlives the deployment (protected)."""

    name: str
    deployment: str
    size_gib: int
    storage_class: str
    access_mode: Literal["ReadOnlyMany", "ReadWriteMany"] = "ReadWriteMany"
    mount_path: str


class Route(Section):
    """One InferencePool and its HTTPRoute. ``weight`` > 0 on ``canary`` splits the traffic."""

    deployment: str
    gateway: str
    gateway_class: str
    hostname: str
    pool: str
    picker_service: str
    picker_port: int
    picker_image: str
    request_timeout: str


class Trigger(Section):
    """A Prometheus trigger; a missing metric never reads as zero."""

    query: str
    threshold: str
    activation: str | None = None
    metric_type: Literal["AverageValue", "Value"]


class Scaling(Section):
    deployment: str
    kind: Literal["Deployment", "LeaderWorkerSet"]
    min_replicas: int
    max_replicas: int
    polling_s: int
    cooldown_s: int
    fallback_replicas: int
    prometheus_url: str
    triggers: tuple[Trigger, ...]


class Rule(Section):
    """A recording rule (``record``) or an alert (``alert``)."""

    record: str | None = None
    alert: str | None = None
    expr: str
    for_: str | None = None
    severity: str | None = None
    summary: str | None = None
    runbook: str | None = None


class Observability(Section):
    """``scrape_s``: seconds between scrapes. Expressions use only metrics the pinned engine exports."""

    scrape_s: int
    scrape_timeout_s: int
    deployment_rules: dict[str, tuple[Rule, ...]]
    node_rules: tuple[Rule, ...] = ()
