"""Every form in which a run can be written, by the name of its option: one module and one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from checks.report import chat, ctrf, junit, markdown, prometheus
from checks.report.findings import Registry
from rackwright.verdict import Results


@dataclass(frozen=True)
class Output:
    title: str
    write: Callable[[Results, Registry], str]


OUTPUTS: Mapping[str, Output] = {
    "markdown": Output("Markdown for a ticket", markdown.summary),
    "junit": Output("JUnit XML for a CI system", junit.document),
    "ctrf": Output("CTRF (JSON) for a test dashboard", ctrf.document),
    "prometheus": Output("metrics for node-exporter's textfile collector", prometheus.document),
    "github": Output("a short summary for a GitHub job", chat.github),
    "slack": Output("a short summary as the body of a Slack webhook", chat.slack),
    "json": Output("the results themselves", lambda results, _registry: results.to_json()),
}
