"""Every pitfall of the guides is a rule with a condition, a text and a source; a plan here meets most."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from rackwright.catalog import load_catalog
from rackwright.plan import Plan
from rackwright.plan.cost import Caution
from rackwright.sizing import cautions as warnings
from rackwright.sizing import size as sizing
from rackwright.sizing.cautions import CAUTIONS
from rackwright.sizing.cautions.base import Sized
from rackwright.sizing.pricing import pricing
from tests.sizing.build import workload

CATALOG = load_catalog()

PITFALLS = {
    "memory without bandwidth": "memory-without-bandwidth",
    "prefill ignored": "prefill-heavy",
    "a 5090 is no bigger 4090": "rtx-5090-limits",
    "Macs cannot serve many users": "apple-serves-few",
    "Ascend lags": "ascend-lags",
    "household power": "household-power",
    "consumer-card EULA": "consumer-card",
    "Q4 of a 671B model on one machine": "low-bits-of-a-giant",
    "PCIe TP > 2": "pcie-tensor-parallel",
    "RDMA missing": "rdma-missing",
    "GPU-memory fragmentation": "kv-blocks-half-empty",
    "model load is longer than inference": "load-longer-than-requests",
    "tokenizer cost": "tokenizer-cost",
    "prefix caching": "prefix-sharing",
    "gateway and engine in one zone": "one-zone",
    "log level": "prompts-in-logs",
    "identity is the weights' SHA-256": "weights-unproven",
    "CPU : GPU": "cpus-short",
    "scrape interval": "scrape-memory",
    "health check that generates a token": "health-is-shallow",
}


def plan_of(**changes: object) -> Plan:
    return sizing.size(workload(**changes), CATALOG)


def said(plan: Plan, name: str) -> Caution:
    return next(c for c in plan.cautions if c.id == name)


@cache
def base() -> Sized:
    """What the cautions of an ordinary plan look at, to be changed one way a test."""
    asked = workload()
    decided = sizing._decide(sizing.stand_of(asked, CATALOG), CATALOG)
    costs = sizing.costing(decided.stand, decided.demand, decided.chosen, pricing(asked, CATALOG), CATALOG)
    return sizing._sized(decided, CATALOG, costs, sizing._deployment(decided))


def on(machine: str) -> Sized:
    """The same plan as if it stood on ``machine``, which need not be one that plans can use."""
    entry = CATALOG.machine(machine)
    stand = replace(base().stand, machine=entry, accelerator=CATALOG.accelerator_of(entry))
    return replace(base(), stand=stand)


def test_every_pitfall_has_its_rule() -> None:
    assert set(PITFALLS.values()) <= set(CAUTIONS)
    assert len(PITFALLS) == 20


@pytest.mark.parametrize("name", sorted(CAUTIONS))
def test_ids_are_stable_words_and_say_why_they_are_there(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)
    assert CAUTIONS[name].__doc__


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("memory-without-bandwidth", "dgx-spark-1"),
        ("memory-without-bandwidth", "mac-studio-m3-ultra-512"),
        ("rtx-5090-limits", "rtx5090-2"),
        ("apple-serves-few", "mac-studio-m3-ultra-512"),
        ("ascend-lags", "atlas-800i-a2"),
        ("household-power", "pro6000-2"),
        ("consumer-card", "rtx4090-8"),
        ("domain-too-large", "gb200-nvl72"),
        ("ecc-off-as-shipped", "pro6000-1"),
    ],
)
def test_a_machine_that_calls_for_it(name: str, machine: str) -> None:
    finding = CAUTIONS[name](on(machine))
    assert finding is not None
    assert len(finding[1]) > 60
    assert CAUTIONS[name](on("hgx-h200-8")) is None


def test_few_cores_a_gpu() -> None:
    machine = CATALOG.machine("hgx-h200-8")
    poor = machine.model_copy(update={"cores": machine.cores.model_copy(update={"value": 12.0})})
    stand = replace(base().stand, machine=poor)
    finding = CAUTIONS["cpus-short"](replace(base(), stand=stand))
    assert finding is not None
    assert "12 cores for 8 GPUs" in finding[1]
    assert CAUTIONS["cpus-short"](base()) is None


def test_many_nodes_without_rdma() -> None:
    wide = replace(base(), chosen=replace(base().chosen, nodes=8))
    assert CAUTIONS["rdma-missing"](wide) is not None
    assert CAUTIONS["rdma-missing"](replace(wide, chosen=replace(wide.chosen, nodes=7))) is None


def test_four_bits_of_a_giant_on_one_machine() -> None:
    stand = base().stand
    model = CATALOG.model("deepseek-v3")
    name, weights = next(iter(model.quantisations.items()))
    small = model.model_copy(update={"quantisations": {name: weights.model_copy(update={"bits": 4})}})
    finding = CAUTIONS["low-bits-of-a-giant"](
        replace(base(), stand=replace(stand, model=small, quantisation=name))
    )
    assert finding is not None
    assert "regression test" in finding[1]
    assert CAUTIONS["low-bits-of-a-giant"](base()) is None


def test_flags_that_log_prompts() -> None:
    stand = replace(base().stand, flags={"enable-log-requests": True})
    assert CAUTIONS["prompts-in-logs"](replace(base(), stand=stand)) is not None
    assert CAUTIONS["prompts-in-logs"](base()) is None


def test_half_empty_blocks() -> None:
    stand = replace(base().stand, flags={"block-size": 4096})
    assert CAUTIONS["kv-blocks-half-empty"](replace(base(), stand=stand)) is not None
    assert CAUTIONS["kv-blocks-half-empty"](base()) is None


def test_load_longer_than_any_request() -> None:
    assert CAUTIONS["load-longer-than-requests"](replace(base(), load_s=61)) is not None
    assert CAUTIONS["load-longer-than-requests"](replace(base(), load_s=59)) is None


def test_scraping_many_replicas() -> None:
    wide = replace(base(), chosen=replace(base().chosen, replicas=16))
    assert CAUTIONS["scrape-memory"](wide) is not None


def test_long_prompts_are_tokenised_on_the_cpu() -> None:
    plan = plan_of(users__input_per_session="9000 tokens", slo__ttft_p95="5 s")
    assert "9,000" in said(plan, "tokenizer-cost").text


def test_documents_share_nothing() -> None:
    plan = plan_of(users__scenario="summarisation")
    assert "prefix-sharing" not in {c.id for c in plan.cautions}
    assert "37 %" in said(plan_of(), "prefix-sharing").text


def test_without_a_spare_says_what_is_lost() -> None:
    one = plan_of(users__dau=100)
    assert "losing one stops the service" in said(one, "no-spare").text
    many = plan_of(users__dau=100_000)
    assert re.search(r"takes away \d+ replicas? of \d+, about [\d,]+ tok/s", said(many, "no-spare").text)
    assert "no-spare" not in {c.id for c in plan_of(hardware__spares=1).cautions}


def test_few_users_are_told_of_api_and_rental_in_the_sites_currency() -> None:
    plan = plan_of(users__dau=1, site__country="US")
    text = said(plan, "api-first").text
    assert "USD" in text
    assert "CNY" not in text
    assert said(plan, "rent-before-buying").text.startswith("1 daily user ")


def test_staff_dominates_at_half_a_million() -> None:
    plan = plan_of(users__dau=500_000)
    assert said(plan, "staff-dominates").text.startswith("10 people cost 1,500,000 CNY a month")


def test_no_text_speaks_of_what_is_not_there() -> None:
    from rackwright.cli import group

    commands = set(group.list_commands(None))  # type: ignore[arg-type]
    for plan in (plan_of(), plan_of(users__dau=100), plan_of(users__dau=1_000_000)):
        for caution in plan.cautions:
            assert caution.source
            assert caution.evidence
            named = re.findall(r"rackwright ([a-z-]+)", caution.text)
            assert set(named) <= commands
            assert "1 daily users" not in caution.text


def test_a_new_caution_is_suppressed_with_a_reason() -> None:
    reason = "the gateway generates a token every ten seconds"
    plan = plan_of(overrides__suppress={"health-is-shallow": reason})
    assert said(plan, "health-is-shallow").suppressed == reason
    assert warnings.MINIMUM_REASON == 8
