"""Recordings, alerts and scaling triggers of a deployment, over the names that its engine exports.

Written once for all engines: what differs is how an engine calls a thing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rackwright.plan.services import Rule, Trigger

ITL_P95_S = 0.050
"""Inter-token latency p95 above which the guide alerts."""
RUNNING_SHARE = 0.9
KV_ALERT = 0.95
KV_SCALE = 0.90
TTFT_ALERT = 1.5
BY = "namespace, model_name"


@dataclass(frozen=True)
class Names:
    """Series of an engine; None: the engine exports no such thing, and nothing is recorded or alerted on it.

    Attributes:
        ttft, itl, e2e, queue: histograms in seconds, without ``_bucket``: to the first token, between tokens,
            of a whole request, spent waiting.
        generated: counter of output tokens.
        running, waiting: gauges of requests.
        kv_usage: gauge of the share of the KV cache in use, 0 to 1.
        hit_ratio: PromQL of the share of prompt tokens found in the prefix cache, with ``{where}`` for the
            selector and ``{by}`` for the labels to keep.
    """

    generated: str
    running: str
    waiting: str
    e2e: str | None = None
    ttft: str | None = None
    itl: str | None = None
    queue: str | None = None
    kv_usage: str | None = None
    hit_ratio: str | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """What the deployment checklist wants measured and the engine does not export."""
        wanted = {
            "time to first token": self.ttft,
            "time between tokens": self.itl,
            "time of a whole request": self.e2e,
            "time spent waiting": self.queue,
            "use of the KV cache": self.kv_usage,
            "prefix cache hits": self.hit_ratio,
        }
        return tuple(what for what, name in wanted.items() if name is None)


def selector(namespace: str, model_name: str) -> str:
    return f'{{namespace="{namespace}",model_name="{model_name}"}}'


def triggers(names: Names, namespace: str, model_name: str, max_num_seqs: int) -> tuple[Trigger, ...]:
    """When to add replicas: requests wait, the KV cache is nearly full, or most sequences are in use."""
    where = selector(namespace, model_name)
    found = [
        Trigger(
            query=f"sum({names.waiting}{where})",
            threshold=str(max(1, max_num_seqs // 16)),
            activation="1",
            metric_type="AverageValue",
        )
    ]
    if names.kv_usage:
        found.append(
            Trigger(query=f"avg({names.kv_usage}{where})", threshold=f"{KV_SCALE:g}", metric_type="Value")
        )
    found.append(
        Trigger(
            query=f"sum({names.running}{where})",
            threshold=str(max(1, math.floor(RUNNING_SHARE * max_num_seqs))),
            metric_type="AverageValue",
        )
    )
    return tuple(found)


def rules(
    names: Names,
    namespace: str,
    model_name: str,
    *,
    ttft_p95_ms: float,
    tpot_p50_ms: float,
    max_num_seqs: int,
    ranks: int = 1,
) -> tuple[Rule, ...]:
    """Recordings and alerts over the metrics that the pinned version exports.

    ``ranks`` of a replica have a gauge each: requests of a pod are their sum, and its cache is full where
    one of theirs is.
    """
    where = selector(namespace, model_name)
    by = BY

    def quantile(share: float, metric: str) -> str:
        return f"histogram_quantile({share:g}, sum by (le, {by}) (rate({metric}_bucket{where}[5m])))"

    recordings = [
        Rule(record=f"rackwright:{short}_seconds:p{share * 100:.0f}", expr=quantile(share, metric))
        for short, metric, shares in (
            ("ttft", names.ttft, (0.5, 0.95, 0.99)),
            ("itl", names.itl, (0.5, 0.95)),
            ("e2e", names.e2e, (0.95,)),
            ("queue", names.queue, (0.95,)),
        )
        if metric
        for share in shares
    ]
    recordings.append(
        Rule(
            record="rackwright:output_tokens:rate1m",
            expr=f"sum by ({by}) (rate({names.generated}{where}[1m]))",
        )
    )
    if names.hit_ratio:
        recordings.append(
            Rule(
                record="rackwright:prefix_cache_hits:ratio5m",
                expr=names.hit_ratio.format(by=by, where=where),
            )
        )
    itl = max(ITL_P95_S, TTFT_ALERT * tpot_p50_ms / 1000)
    running = math.floor(RUNNING_SHARE * max_num_seqs)
    alerts: list[tuple[str | None, Rule]] = [
        (
            names.ttft,
            Rule(
                alert="TimeToFirstTokenHigh",
                expr=f"rackwright:ttft_seconds:p95{where} > {ttft_p95_ms * TTFT_ALERT / 1000:g}",
                for_="3m",
                severity="critical",
                summary="p95 of the time to first token is 50 % over its objective",
                runbook="runbook/ttft",
            ),
        ),
        (
            names.itl,
            Rule(
                alert="InterTokenLatencyHigh",
                expr=f"rackwright:itl_seconds:p95{where} > {itl:g}",
                for_="3m",
                severity="warning",
                summary=f"p95 between tokens is over {itl * 1000:g} ms",
                runbook="runbook/itl",
            ),
        ),
        (
            names.waiting,
            Rule(
                alert="RequestsWaiting",
                expr=f"sum by ({by}) ({names.waiting}{where}) > 0",
                for_="5m",
                severity="warning",
                summary="requests wait: capacity is short, whatever GPU utilisation says",
                runbook="runbook/waiting",
            ),
        ),
        (
            names.kv_usage,
            Rule(
                alert="KvCacheNearlyFull",
                expr=f"max by ({by}, pod) ({names.kv_usage}{where}) > {KV_ALERT:g}",
                for_="2m",
                severity="warning",
                summary="KV cache over 95 %: running requests will be preempted",
                runbook="runbook/kv-cache",
            ),
        ),
        (
            names.running,
            Rule(
                alert="RunningNearLimit",
                expr=f"{'sum' if ranks > 1 else 'max'} by ({by}, pod) ({names.running}{where}) >= {running}",
                for_="5m",
                severity="warning",
                summary=f"running requests at 0.9 × {max_num_seqs}: add replicas",
                runbook="runbook/scale-out",
            ),
        ),
        (
            names.running,
            Rule(
                alert="EngineMetricsMissing",
                expr=f"absent({names.running}{where})",
                for_="2m",
                severity="critical",
                summary="no engine reports: down, or not scraped",
                runbook="runbook/engine-down",
            ),
        ),
    ]
    return (*recordings, *(rule for series, rule in alerts if series))
