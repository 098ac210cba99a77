"""Scrapes and rules: what the plan wants measured, recorded and alerted on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Observability as ObservabilitySection
from rackwright.plan.services import Rule
from stacks.model import Model, Served
from stacks.pods import HTTP


class Observability(pulumi.ComponentResource):
    """A PodMonitor and the rules of each deployment; the rules of nodes once."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:Observability", name, None, opts)
        section = model.observability
        if section is not None:
            for served in model.served:
                _pod_monitor(self, model, section, served)
            for deployment, rules in section.deployment_rules.items():
                _rules(self, model, deployment, rules)
            if section.node_rules:
                _rules(self, model, f"{model.plan.header.name}-nodes", section.node_rules)
        self.register_outputs({})


def _pod_monitor(
    parent: pulumi.Resource, model: Model, section: ObservabilitySection, served: Served
) -> None:
    """Only pods that answer export metrics: a replica's worker has no server."""
    endpoint: dict[str, Any] = {
        "port": HTTP,
        "path": "/metrics",
        "interval": f"{section.scrape_s}s",
        "scrapeTimeout": f"{section.scrape_timeout_s}s",
    }
    if not served.traits.labels_model:
        model_name = {"targetLabel": "model_name", "replacement": served.deployment.served_name}
        endpoint["relabelings"] = [model_name]
    if served.traits.metrics_need_key:
        key = model.environment.api_key
        endpoint["authorization"] = {"credentials": {"name": key.name, "key": key.key}}
    k8s.apiextensions.CustomResource(
        served.name,
        api_version="monitoring.coreos.com/v1",
        kind="PodMonitor",
        metadata=model.metadata(served.name, "observability", namespace=model.namespace),
        spec={
            "selector": {"matchLabels": served.front},
            "podMetricsEndpoints": [endpoint],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _rules(parent: pulumi.Resource, model: Model, name: str, rules: Iterable[Rule]) -> None:
    k8s.apiextensions.CustomResource(
        f"{name}-rules",
        api_version="monitoring.coreos.com/v1",
        kind="PrometheusRule",
        metadata=model.metadata(name, "observability", namespace=model.namespace),
        spec={"groups": [{"name": name, "rules": [_rule(rule) for rule in rules]}]},
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _rule(rule: Rule) -> dict[str, Any]:
    if rule.record is not None:
        return {"record": rule.record, "expr": rule.expr}
    annotations = {"summary": rule.summary, "runbook_url": rule.runbook}
    fields = {
        "alert": rule.alert,
        "expr": rule.expr,
        "for": rule.for_,
        "labels": {"severity": rule.severity} if rule.severity else None,
        "annotations": {key: text for key, text in annotations.items() if text} or None,
    }
    return {key: value for key, value in fields.items() if value is not None}
