"""What a run must be before it calibrates anything: complete, steady, of the lengths that are stated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.calibration.measurement import Measurement
from rackwright.errors import InputErrors, Problem
from rackwright.sizing.limits import limit


@dataclass(frozen=True)
class Stated:
    """What the command's options say of the load; None where they say nothing."""

    concurrency: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None


@dataclass(frozen=True)
class Accepted:
    """A run that may calibrate. ``concurrency``: clients held, or the mean in flight under a rate;
    ``ttft_ms``: None under a rate, whose queue a fixed number of clients does not have."""

    run: Measurement
    concurrency: float
    ttft_ms: float | None
    remarks: tuple[str, ...]


def accepted(run: Measurement, stated: Stated) -> Accepted:
    """``run`` where no rule refuses it, with remarks on what a reader must know.

    Raises:
        InputErrors: every rule that it breaks.
    """
    problems = [*run.against, *_failures(run), *_lengths(run, stated), *_consistency(run)]
    if run.rate is not None:
        problems += _rate(run)
        concurrency: float | None = run.in_flight
    else:
        concurrency = run.concurrency or stated.concurrency
        problems += _clients(run, stated, concurrency)
    if concurrency is not None:
        problems += _too_few(run, concurrency)
    if problems or concurrency is None:
        raise InputErrors(problems)
    ttft = None if run.rate is not None else run.ttft_ms
    return Accepted(run, concurrency, ttft, tuple(_remarks(run, concurrency)))


def _share(name: str) -> float:
    return limit("accepted", name)


def _failures(run: Measurement) -> Iterator[Problem]:
    sent = run.completed + (run.failed or 0)
    if run.failed and run.failed > _share("failed_share") * sent:
        yield Problem(
            f"{run.where} failed requests",
            f"must be at most {_share('failed_share') * 100:g} % of all",
            f"{run.failed:,} of {sent:,} ({100 * run.failed / sent:.1f} %)",
            "what failed took no time of the engine: the rest looks faster than it is",
            "find why they failed, then measure again",
        )


def _lengths(run: Measurement, stated: Stated) -> Iterator[Problem]:
    tolerance = _share("length_tolerance")
    for name, asked, got in (
        ("input", stated.input_tokens or _fact(run, "input"), run.input_tokens),
        ("output", stated.output_tokens or _fact(run, "output"), run.output_tokens),
    ):
        if asked and abs(got / asked - 1) > tolerance:
            why = "answers ended early: " if name == "output" and got < asked else ""
            yield Problem(
                f"{run.where} {name} tokens",
                f"must be within {tolerance * 100:.0f} % of the {asked:,.0f} stated",
                f"{got:,.0f} a request",
                f"{why}it is another load than the one that was meant",
                "measure with --ignore-eos, or state the length that was measured"
                if name == "output"
                else f"state --{name} {got:.0f}, or measure again",
            )


def _fact(run: Measurement, name: str) -> float | None:
    value = run.facts.get(name)
    return float(value) if value is not None else None


def _consistency(run: Measurement) -> Iterator[Problem]:
    derived = run.requests_per_s * run.output_tokens
    if derived > 0 and abs(run.output_tok_s / derived - 1) > _share("consistency"):
        yield Problem(
            f"{run.where} output tokens a second",
            f"must be requests a second × tokens an answer ({derived:,.1f}), within "
            f"{_share('consistency') * 100:.0f} %",
            f"{run.output_tok_s:,.1f}",
            "figures of one result that contradict each other cannot both be right",
            "measure again, or mend the file",
        )


def _rate(run: Measurement) -> Iterator[Problem]:
    assert run.rate is not None
    if run.requests_per_s < _share("served_share") * run.rate:
        yield Problem(
            f"{run.where} requests a second",
            f"must be at least {_share('served_share') * 100:.0f} % of the {run.rate:g} offered",
            f"{run.requests_per_s:.3g}",
            "the rest queued up all along, so that no number of requests was in flight for long",
            "offer a lower rate, or hold a fixed concurrency",
        )


def _clients(run: Measurement, stated: Stated, held: float | None) -> Iterator[Problem]:
    if held is None:
        yield Problem(
            f"{run.where} concurrency",
            "must be known",
            "the requests of all stages in one figure" if run.pooled else "a result that does not say it",
            "throughput means nothing without the load that it was reached under",
            "give the stages (stage_N_lifecycle_metrics.json), or --concurrency N"
            if run.pooled
            else "give --concurrency N, or the JSON result, which says it",
        )
        return
    if run.concurrency and stated.concurrency and not math.isclose(run.concurrency, stated.concurrency):
        yield Problem(
            "--concurrency",
            f"must be what {run.where} says ({run.concurrency:g})",
            f"{stated.concurrency:g}",
            "one of them is another run's",
            "drop the option",
        )
        return
    flying, least = run.in_flight, _share("in_flight_share")
    if flying is not None and not least <= flying / held <= 1 / least:
        yield Problem(
            f"{run.where} requests in flight",
            f"must be within {least:g} and {1 / least:.2g} of {held:g} clients",
            f"{flying:.1f} on average (rate × latency)",
            "the engine was under another load than the one stated",
            "measure longer, or state the concurrency that was held",
        )


def _too_few(run: Measurement, concurrency: float) -> Iterator[Problem]:
    least = _share("requests_per_client")
    if run.completed < least * concurrency:
        yield Problem(
            f"{run.where} requests",
            f"must be at least {least:g} for each of {concurrency:.4g} in flight",
            f"{run.completed:,} ({run.completed / concurrency:.1f} each)",
            "start and end of the run, with fewer requests at a time, weigh too much in its means",
            f"measure with {math.ceil(_share('settled_requests_per_client') * concurrency):,} requests",
        )


def _remarks(run: Measurement, concurrency: float) -> Iterator[str]:
    if run.failed is None:
        yield "the result does not say how many requests failed"
    elif run.failed:
        yield f"{run.failed:,} of {run.completed + run.failed:,} requests failed"
    if not run.warmup:
        said = "does not say whether requests warmed it up" if run.warmup is None else "had no warm-up"
        yield f"the run {said}: first requests may be slower than those that follow"
    if run.completed < _share("settled_requests_per_client") * concurrency:
        yield (
            f"{run.completed / concurrency:.1f} requests for each in flight; "
            f"{_share('settled_requests_per_client'):g} and more settle the means"
        )
    if run.rate is not None:
        yield (
            f"{run.rate:g} requests a second were offered: taken as {concurrency:.1f} in flight (rate × "
            "latency), and the time to first token left out"
        )
