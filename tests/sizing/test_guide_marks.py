"""What the guides say wrongly, and where this program says it rightly: one check a mark."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from rackwright.catalog import load_catalog
from rackwright.errors import Infeasible, InputErrors
from rackwright.sizing import economics
from rackwright.sizing.cautions.guide import TIERS
from rackwright.sizing.economics import Tokens
from rackwright.sizing.size import size
from tests.golden import SHARED
from tests.sizing.build import workload

CATALOG = load_catalog()
CN = CATALOG.prices["cn"]
FACTS = SHARED / "reference" / "guide-facts.md"


def no_m4_ultra() -> None:
    """The machine of 192 GB is an M2 Ultra; no M4 Ultra exists."""
    assert not [name for name in CATALOG.accelerators if name.startswith("m4-ultra")]
    assert CATALOG.machine("mac-studio-m2-ultra-192").accelerator == "m2-ultra"
    assert "does not exist" in CN.machines["mac-studio-m2-ultra-192"].note


def tiers_imply_rates() -> None:
    """750 tok/s a thousand users over the guide's nodes."""
    implied = [round(t.dau * 0.75 / t.nodes) for t in TIERS if t.nodes and t.dau >= 10_000]
    assert implied == [7_500, 9_375, 9_375, 11_719]


def cost_a_user_by_formula() -> None:
    """(CapEx / 36 + OpEx) / DAU of the guide's 10k tier is 16.2, its peak; ours is the same formula."""
    assert pytest.approx(16.2, abs=0.05) == (3_850_000 / 36 + 55_000) / 10_000
    cost = size(workload(), CATALOG).cost
    assert cost is not None
    running = cost.power_month.amount + cost.space_month.amount + cost.staff_month.amount
    assert cost.month.amount == pytest.approx(cost.capex.amount / 36 + running, abs=2)


def node_counts_follow_from_throughput() -> None:
    """8 × H200 give no 7,500 tok/s of DeepSeek V3: the plan takes more nodes, and a caution says why."""
    plan = size(workload(model__id="deepseek-v3"), CATALOG)
    assert len(plan.pools[0].nodes) > 1
    assert "7,500 tok/s of each" in next(c.text for c in plan.cautions if c.id == "guide-node-count")


def by_formula(machine: str, tok_s: float) -> float:
    """CNY a million output tokens: hardware and power over three years at 70 %."""
    a = economics.assumptions(CATALOG.machine(machine), CN, users=1000, currency="CNY")
    bare = replace(a, pue=1.0, space=0.0, people=0.0)
    return economics.per_million(bare, 1, tok_s * 86_400 * 0.7)


def pro_6000_price_of_tokens() -> None:
    """CNY 6.3, which is $0.88: neither CNY 1.3 nor $1.3."""
    assert by_formula("pro6000-1", 575) == pytest.approx(6.3, rel=0.05)
    cost = size(workload(), CATALOG).cost
    assert cost is not None
    assert cost.per_million_guide.currency == "CNY"


def h200_price_of_tokens() -> None:
    """$4.26 at 2,000 tok/s and $0.91 at 9,375."""
    assert by_formula("hgx-h200-8", 2_000) / 7.2 == pytest.approx(4.26, rel=0.06)
    assert by_formula("hgx-h200-8", 9_375) / 7.2 == pytest.approx(0.91, rel=0.06)


def rental_pays_back_later() -> None:
    """43–52 months on demand and 64–77 reserved with 55k a month of OpEx, not 18–24."""
    months = []
    for capex in (3_500_000, 4_200_000):
        a = economics.Assumptions("CNY", capex, 0, 0, 1, 0, 55_000, 1, 0.7, 36, 730, 0, 0)
        months += [economics.break_even_month(a, 1, usd * 7.2) or 0 for usd in (18_950, 15_200)]
    assert months == [43, 65, 52, 78]  # the first whole month after 43.0, 64.3, 51.6 and 77.2


def prices_in_two_places() -> None:
    """One middle, with the other range in its note."""
    for name, value, other in (("pro6000-1", 225_000, "180–250k"), ("pro6000-2", 360_000, "280–380k")):
        assert CN.machines[name].value == value
        assert other in CN.machines[name].note


def atlas_has_its_whole_range() -> None:
    price = CN.machines["atlas-800i-a2"]
    assert (price.low, price.value, price.high) == (1_200_000, 1_300_000, 1_500_000)


def two_hundred_users_by_api() -> None:
    machine = CATALOG.machine("pro6000-1")
    (api,) = economics.offers(machine, CN, 1, Tokens("any", 200 * 20 * 1400, 200 * 20 * 600), "USD")
    assert api.month == pytest.approx(73, abs=1)


def m3_ultra_has_512() -> None:
    nominal = CATALOG.accelerator("m3-ultra").memory_nominal
    assert nominal is not None
    assert nominal.value == pytest.approx(512, rel=0.08)
    assert CATALOG.machine("mac-studio-m3-ultra-512").accelerator == "m3-ultra"


def pro_6000_power() -> None:
    """600 W; 300 W is the Max-Q."""
    assert CATALOG.accelerator("rtx-pro-6000").power_limit.value == 600
    assert CATALOG.accelerator("rtx-pro-6000-max-q").power_limit.value == 300
    assert CATALOG.machine("pro6000-1").full_load.value > 500


def no_128k_context_on_one_card() -> None:
    with pytest.raises((Infeasible, InputErrors)) as error:
        size(
            workload(
                model__id="llama-3.3-70b-instruct",
                model__quantisation="fp8",
                model__context="128 ki tokens",
                hardware__machine="pro6000-1",
                slo__tpot_p50="200 ms",
                slo__ttft_p95="60 s",
                users__dau=1,
            ),
            CATALOG,
        )
    assert error.value.problems[0].where in ("model.context", "hardware.machine")


def no_qwen3_72b() -> None:
    with pytest.raises(InputErrors, match=r"model\.id"):
        CATALOG.model("qwen3-72b")


def dead_flags_are_refused() -> None:
    """``--disable-log-requests``, dead in between, is a negative of the pinned version again."""
    for flag in ("enable-prometheus-exporter", "worker-use-ray", "enable-ep-moe", "disable-radix-cache"):
        with pytest.raises(InputErrors, match=flag):
            size(workload(overrides__engine_flags={flag: True}), CATALOG)


def no_fp8_on_a100() -> None:
    assert CATALOG.accelerator("a100-sxm").fp8 is None
    assert CATALOG.accelerator("h100-sxm").fp8 is not None


def orin_of_32_has_32() -> None:
    card = CATALOG.accelerator("jetson-agx-orin-32")
    assert 24 < card.memory_gib <= 32


def seven_billion_in_four_bits_is_over_3_gb() -> None:
    model = CATALOG.model("qwen2.5-7b-instruct")
    assert model.total.value * 4 / 8 > 3


def nccl_advice_is_never_given() -> None:
    plan = size(
        workload(
            model__id="kimi-k2-instruct",
            hardware__machine="hgx-h200-8-roce",
            hardware__fabric="roce",
            slo__tpot_p50="60 ms",
            slo__ttft_p95="1 s",
        ),
        CATALOG,
    )
    names = {name for role in plan.deployments[0].engine.roles for name in role.env}
    assert any(name.startswith("NCCL_") for name in names)
    assert not names & {"NCCL_SOCKET_TIMEOUT", "NCCL_IB_DISABLE"}


MARKS: dict[str, tuple[Callable[[], None], ...]] = {
    "called M4 Ultra": (no_m4_ultra,),
    "tiers imply": (tiers_imply_rates,),
    "Cost per DAU": (cost_a_user_by_formula,),
    "node counts": (node_counts_follow_from_throughput,),
    "CNY 1.3": (pro_6000_price_of_tokens,),
    "CapEx 3.5": (rental_pays_back_later,),
    "wall table 220": (prices_in_two_places,),
    "1.5M elsewhere": (atlas_has_its_whole_range,),
    "own formula": (pro_6000_price_of_tokens, h200_price_of_tokens),
    "200 daily users": (two_hundred_users_by_api,),
    "max 192 GB": (m3_ultra_has_512,),
    "that it exists": (no_m4_ultra,),
    "guide says 300 W": (pro_6000_power,),
    "600 W card": (pro_6000_power,),
    "128K context": (no_128k_context_on_one_card,),
    "Qwen3-72B": (no_qwen3_72b,),
    "flags in the guides": (dead_flags_are_refused,),
    "FP8 on A100": (no_fp8_on_a100,),
    "32 GB Orin": (orin_of_32_has_32, seven_billion_in_four_bits_is_over_3_gb),
    "NCCL advice": (nccl_advice_is_never_given,),
}
"""A word of the mark to what proves that it is handled."""


@pytest.mark.parametrize(("mark", "proof"), [(m, p) for m, ps in MARKS.items() for p in ps])
def test_a_mark_is_handled(mark: str, proof: Callable[[], None]) -> None:
    proof()


@pytest.mark.skipif(not FACTS.is_file(), reason="no reference texts beside the checkout")
@pytest.mark.parametrize("section", [1, 2, 3, 4, 5, 10])
def test_every_mark_of_a_section_is_listed(section: int) -> None:
    text = FACTS.read_text(encoding="utf-8")
    body = re.search(rf"^## {section}\. .*?(?=^## |\Z)", text, re.S | re.M)
    assert body
    missing = []
    for found in re.finditer(r"\(!\)", body[0]):
        near = body[0][found.end() : found.end() + 130]
        if not any(mark in near for mark in MARKS):
            missing.append(near[:60])
    assert missing == []
