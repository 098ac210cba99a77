"""The catalog's data: complete, coherent, and honest about its sources."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from rackwright.catalog import Accelerator, Figure, Machine, load_catalog
from rackwright.catalog.entries import PricePoint
from rackwright.errors import InputErrors

CATALOG = load_catalog()
CARDS = sorted(CATALOG.accelerators)
MACHINES = sorted(CATALOG.machines)
KINDS = ["accelerator", "machine", "cabinet", "model", "engine", "prices"]

UNREAD = re.compile(
    r"not re-read|no source read|from memory|assumed|secondary|ask for a quotation", re.IGNORECASE
)


def figures(node: object, path: str = "") -> Iterator[tuple[str, Figure | PricePoint]]:
    if isinstance(node, Figure | PricePoint):
        yield path, node
    elif isinstance(node, BaseModel):
        for name in type(node).model_fields:
            yield from figures(getattr(node, name), f"{path}.{name}")
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from figures(value, f"{path}.{key}")
    elif isinstance(node, tuple):
        for index, value in enumerate(node):
            yield from figures(value, f"{path}[{index}]")


ASKED_CARDS = """
    H100 H200 B200 B300 GB200 GB300 H20 A100-SXM A100-PCIe L40S L4 RTX4090 RTX5090 RTX6000Ada RTXPRO6000
    RTXPRO6000S GB10 Orin32 Orin64 Thor M2Ultra M3Ultra M4Max 910B 910C MI300X MI325X MI350X MI355X MTT-S5000
    BR100 MLU370-X8 B60x2
"""
ASKED_MACHINES = """
    rtx5090-1 rtx5090-2 pro6000-1 pro6000-2 pro6000s-8 rtx6000ada-8 l40s-8 hgx-a100-8 hgx-h20-8 hgx-h100-8
    hgx-h200-8-ib hgx-h200-8-roce hgx-b200-8-ib hgx-b300-8-ib GB200-NVL72 GB300-NVL72 dgx-spark-1 dgx-spark-2
    jetson-orin-32 jetson-thor mac-studio-m2-ultra-192 mac-studio-m3-ultra-512 mac-studio-m4-max-128 mi300x-8
    mi325x-8 mi350x-8 mi355x-8 atlas-800i-a2 atlas-900-a3 mtt-s5000-8 mlu370-x8-8
"""


def test_what_users_ask_for_is_there() -> None:
    for name in ASKED_CARDS.split():
        assert isinstance(CATALOG.accelerator(name), Accelerator)
    for name in ASKED_MACHINES.split():
        assert isinstance(CATALOG.machine(name), Machine)
    assert {"vllm", "sglang", "trtllm", "tgi", "llama.cpp", "mlx", "ollama", "lm-studio", "mindie",
            "vllm-ascend", "vllm-rocm", "transformers"} == set(CATALOG.engines)  # fmt: skip
    assert {"cn", "us", "eu"} == set(CATALOG.prices)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_source_in_words(kind: str) -> None:
    for entry in CATALOG.kinds[kind].values():
        for path, figure in figures(entry):
            assert len(figure.source) > 10, f"{entry.id}{path}: {figure.source} is a key that is not there"
            assert figure.unit
            assert figure.date is not None
            assert "2026" <= figure.date < "2027"


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_not_read_is_not_called_verified(kind: str) -> None:
    for entry in CATALOG.kinds[kind].values():
        for path, figure in figures(entry):
            assert not (figure.verified and UNREAD.search(figure.source)), (
                f"{entry.id}{path}: {figure.source}"
            )


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_is_cited(kind: str) -> None:
    for entry in CATALOG.kinds[kind].values():
        cited = CATALOG.texts[entry.id]
        for key in entry.sources:
            assert re.search(rf"source: {key}\b", cited), f"{entry.id} cites {key} nowhere"


def test_names_are_unique_within_a_kind_whatever_their_case() -> None:
    for kind, entries in CATALOG.kinds.items():
        names = [n.lower() for e in entries.values() for n in {e.id, *e.aliases}]
        assert len(names) == len(set(names)), kind
    ids = [i for entries in CATALOG.kinds.values() for i in entries]
    assert len(ids) == len(set(ids))


def test_corrected_figures_of_the_guide() -> None:
    cards = CATALOG.accelerators
    assert cards["rtx-pro-6000"].power_limit.value == 600
    assert "300 W" in cards["rtx-pro-6000"].note
    assert cards["rtx-pro-6000-max-q"].power_limit.value == 300
    assert cards["rtx-5090"].nvlink is None
    assert cards["rtx-5090"].eula_restricted
    assert cards["m3-ultra"].memory.value == 512 * 1024
    assert cards["m3-ultra"].bandwidth.value == 819
    assert cards["m3-ultra"].memory_gib * 2**30 / 1e6 == pytest.approx(498_216, rel=1e-3), "what Metal offers"
    assert cards["m4-max"].memory_gib * 2**30 / 1e6 == pytest.approx(115_449, rel=1e-3)
    assert cards["m2-ultra"].memory.value == 192 * 1024
    assert "M4 Ultra" in cards["m2-ultra"].note
    assert not any("m4-ultra" in name for name in cards)
    assert cards["mtt-s5000"].memory_nominal.value == 80  # type: ignore[union-attr]
    b300, ascend = cards["b300-sxm"], cards["ascend-910b"]
    assert b300.memory_gib == pytest.approx(268.6, abs=0.05)
    assert (b300.memory_nominal and b300.memory_nominal.value) == 288
    assert (ascend.bandwidth.low, ascend.bandwidth.value, ascend.bandwidth.verified) == (400, 1600, False)
    assert "Qwen3-72B" in CATALOG.model("Qwen2.5-72B").note
    spark = CATALOG.prices["us"].machines["dgx-spark-1"]
    assert (spark.low, spark.value) == (3299, 3999)


@pytest.mark.parametrize(
    ("name", "links", "rate", "topology"),
    [("h100-sxm", 18, 26.562, "NV18"), ("h200-sxm", 18, 26.562, "NV18"), ("a100-sxm", 12, 25, "NV12"),
     ("b200-sxm", 18, 53.125, "NV18"), ("b300-sxm", 18, 53.125, "NV18"), ("gb200", 18, 53.125, "NV18")],
)  # fmt: skip
def test_nvlink_as_nvidia_smi_prints_it(name: str, links: int, rate: float, topology: str) -> None:
    link = CATALOG.accelerators[name].nvlink
    assert link is not None
    assert (link.links.value, link.link_gb_s.value, link.topology) == (links, rate, topology)
    assert link.links.value * link.link_gb_s.value == pytest.approx(link.unidirectional.value, rel=0.07)


def test_links_between_accelerators() -> None:
    def link(name: str) -> tuple[str, float, int, bool] | None:
        found = CATALOG.accelerator(name).interconnect
        return found and (found.kind, found.unidirectional.value, found.domain, found.switched)

    assert link("H200") == ("nvlink", 450, 8, True)
    assert link("GB300") == ("nvlink", 900, 72, True)
    assert link("MI300X") == ("xgmi", 448, 8, False)
    assert link("910B") == ("hccs", 196, 8, False)
    assert link("910C") == ("ub", 392, 384, True)
    assert link("GB10") == ("ethernet", 25, 2, False)
    assert link("RTXPRO6000") is None
    assert link("M3Ultra") is None


@pytest.mark.parametrize("name", CARDS)
def test_accelerators_are_plausible(name: str) -> None:
    card = CATALOG.accelerators[name]
    assert 60 <= card.bandwidth.value <= 10_000
    assert 20 <= card.memory_gib <= 512
    if card.memory_nominal is not None:
        share = card.memory.value * 2**20 / (card.memory_nominal.value * 1e9)
        assert 0.93 <= share <= 1.08, "visible over nominal"
    assert 1 <= card.idle.value < card.power_limit.value <= 1400
    for wide, narrow in ((card.bf16, card.fp8), (card.fp8, card.fp4), (card.bf16, card.int8)):
        if wide is not None and narrow is not None and not narrow.note:
            factor = 4 if card.vendor == "nvidia" and card.memory_class == "gddr" else 2
            assert narrow.value / wide.value == pytest.approx(2, rel=0.02) or narrow.value / wide.value == (
                pytest.approx(factor, rel=0.02)
            ), f"{name}: twice the wider precision unless a note says why not"
    if card.memory_class == "unified":
        assert card.memory_share is not None
        assert card.pcie.value == 0
    else:
        assert card.pcie.value == pytest.approx(
            {3: 16, 4: 32, 5: 64, 6: 128}[int(card.pcie_gen.value)] * card.pcie_width.value / 16, rel=0.12
        )
    assert (card.interconnect is None) or card.interconnect.domain >= 2


def test_product_names_and_pci_ids_tell_cards_apart() -> None:
    cards = [card for card in CATALOG.accelerators.values() if card.product]
    products = [(card.product, card.memory.value) for card in cards]
    assert len(set(products)) == len(products), "one name with two sizes of memory is one chip (M3 Ultra)"
    ids = [pci for card in CATALOG.accelerators.values() for pci in card.pci_ids]
    assert len(set(ids)) == len(ids)
    vendors = {"10de": "nvidia", "1002": "amd", "19e5": "huawei"}
    for card in CATALOG.accelerators.values():
        assert all(vendors[pci[:4]] == card.vendor and len(pci) == 9 for pci in card.pci_ids)


@pytest.mark.parametrize("name", MACHINES)
def test_machines_are_coherent(name: str) -> None:
    machine = CATALOG.machines[name]
    card = CATALOG.accelerator_of(machine)
    gpus = machine.gpus.value
    assert machine.full_load.value > gpus * card.power_limit.value
    assert machine.idle.value > gpus * card.idle.value
    assert machine.threads.value >= machine.cores.value >= 2 * gpus
    assert machine.numa_nodes.value >= machine.sockets.value
    assert (machine.memory.value == 0) == (card.memory_class == "unified"), "one memory, or two"
    if machine.psu_needed is not None and machine.psu_each is not None:
        assert machine.psu_needed.value * machine.psu_each.value >= machine.full_load.value
        assert machine.psu_redundant == (machine.psu_count.value > machine.psu_needed.value)
    if machine.fabric is not None:
        assert len(machine.fabric.nics) == gpus
        assert [n.rail for n in machine.fabric.nics] == list(range(int(gpus)))
        for field in ("hca", "netdev", "pci_address"):
            values = [getattr(n, field) for n in machine.fabric.nics]
            assert len(set(values)) == len(values)
        types = {"ConnectX-6": "101b", "ConnectX-7": "1021", "ConnectX-8": "1023"}
        assert machine.fabric.nic_type == types[machine.fabric.model]


def test_a_rack_of_nvl72_is_one_domain() -> None:
    rack = CATALOG.machine("GB200-NVL72")
    card = CATALOG.accelerator_of(rack)
    assert (rack.gpus.value, rack.nodes, card.nvlink and card.nvlink.domain) == (72, 18, 72)
    assert card.memory_nominal is not None
    assert card.memory_nominal.value * 72 / 1000 == pytest.approx(13.8, abs=0.03)
    assert card.bandwidth.value * 72 / 1000 == 576


def test_every_machine_has_a_price_or_says_why_not() -> None:
    priced = {name for prices in CATALOG.prices.values() for name in prices.machines}
    for machine in CATALOG.machines.values():
        assert (machine.id in priced) != bool(machine.no_price), machine.id


def test_prices_of_the_guide() -> None:
    cn = CATALOG.prices["cn"]
    assert all(price.unit == "CNY" for price in cn.machines.values()), "plans add these up in CNY"
    assert (cn.electricity.value, cn.electricity.unit) == (0.8, "CNY/kWh")
    coast, west = cn.regions["coast"].electricity, cn.regions["west"].electricity
    assert (coast.low, coast.high, west.low, west.high) == (0.7, 1.0, 0.3, 0.5)
    assert (cn.accelerators["h20"].low, cn.accelerators["h20"].high) == (110_000, 130_000)
    assert (cn.machines["atlas-800i-a2"].low, cn.machines["atlas-800i-a2"].high) == (1_200_000, 1_500_000)
    on_demand, reserved = cn.rentals[0], cn.rentals[1]
    assert (on_demand.term, on_demand.price.value, on_demand.price.unit) == ("on-demand", 26.32, "USD/h")
    assert on_demand.price.value * 720 == pytest.approx(18_950, abs=1)
    assert reserved.price.value * 720 == pytest.approx(15_200, abs=1)
    assert (cn.apis[0].blended and cn.apis[0].blended.value) == 0.3
    assert cn.staff is not None
    assert cn.staff.person_month.value * cn.staff.people_from_users[500_000] == 1_500_000
    assert cn.depreciation_months is not None
    assert cn.depreciation_months.value * cn.hours_month.value == 26_280


@pytest.mark.parametrize("name", ["cn", "us", "eu"])
def test_prices_are_coherent(name: str) -> None:
    prices = CATALOG.prices[name]
    for point in (*prices.machines.values(), *prices.accelerators.values(), *prices.cabinets.values()):
        low, high = point.low or point.value, point.high or point.value
        assert 0 < low <= point.value <= high
        assert point.unit == {"cn": "CNY", "us": "USD", "eu": "EUR"}[name]
    for region in prices.regions.values():
        assert region.electricity.unit.endswith("/kWh")
        assert region.pue is None or 1 <= region.pue.value < 2
    for machine in prices.machines:
        card = CATALOG.accelerators[CATALOG.machines[machine].accelerator]
        each = prices.accelerators.get(card.id)
        if each is not None:
            assert prices.machines[machine].value >= each.value * CATALOG.machines[machine].gpus.value


def test_engines_say_what_they_run_on_and_what_for() -> None:
    engines = CATALOG.engines
    assert {"sglang", "vllm"} <= {e.id for e in engines.values() if e.launchable}
    for engine in engines.values():
        if not engine.launchable:
            assert engine.when, engine.id
    assert "encoder-decoder" in engines["tgi"].serves
    assert engines["mindie"].vendors == ("huawei",)
    assert engines["mlx"].vendors == ("apple",)
    assert engines["vllm-rocm"].vendors == ("amd",)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(InputErrors, match=r'did you mean "hgx-h200-8-roce"'):
        CATALOG.machine("hgx-h200-8-rcoe")
    with pytest.raises(InputErrors, match=r'did you mean "deepseek-v3'):
        CATALOG.model("deepseek-v4")
    with pytest.raises(InputErrors, match=r'did you mean "rtx-pro-6000-server"'):
        CATALOG.accelerator("RTXPRO6000SE")
    with pytest.raises(InputErrors, match=r'did you mean "m[23]-ultra"'):
        CATALOG.accelerator("m4-ultra")


def test_a_listing_of_what_there_is_stays_readable() -> None:
    with pytest.raises(InputErrors) as caught:
        CATALOG.model("nothing-like-it")
    assert f"and {len(CATALOG.models) - 12} more" in str(caught.value)
    assert len(str(caught.value)) < 500
    with pytest.raises(
        InputErrors, match="the catalog has gh200-1, hgx-h200-8, hgx-h200-8-ib, hgx-h200-8-roce, "
    ):
        CATALOG.machine("H200")


def test_names_are_found_in_any_case_and_by_alias() -> None:
    assert CATALOG.accelerator("rtxpro6000s").id == "rtx-pro-6000-server"
    assert CATALOG.model("qwen/qwen3-30b-a3b").id == "qwen3-30b-a3b"
    assert CATALOG.model("DeepSeek-V3").id == "deepseek-v3"
    assert CATALOG.engine("TensorRT-LLM").id == "trtllm"


def test_digest_follows_the_entries() -> None:
    assert CATALOG.digest_of("h200-sxm") == CATALOG.digest_of("h200-sxm", "h200-sxm")
    assert CATALOG.digest_of("h200-sxm") != CATALOG.digest_of("h100-sxm")
