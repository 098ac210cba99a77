"""The catalog's data: complete, coherent, and honest about its sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from rackwright.catalog import Catalog, Figure, load_catalog, read_catalog
from rackwright.errors import InputErrors

CATALOG = load_catalog()
MACHINES = sorted(CATALOG.machines)
MODELS = sorted(CATALOG.models)


def figures(node: object) -> Iterator[Figure]:
    if isinstance(node, Figure):
        yield node
    elif isinstance(node, BaseModel):
        for name in type(node).model_fields:
            yield from figures(getattr(node, name))
    elif isinstance(node, dict):
        for value in node.values():
            yield from figures(value)
    elif isinstance(node, tuple):
        for value in node:
            yield from figures(value)


def test_what_must_be_there() -> None:
    assert {
        "h200-sxm",
        "h100-sxm",
        "rtx-pro-6000",
        "rtx-pro-6000-max-q",
        "rtx-pro-6000-server",
        "rtx-5090",
    } <= set(CATALOG.accelerators)
    assert {"hgx-h200-8-roce", "hgx-h200-8-ib", "hgx-h200-8", "pro6000-1", "pro6000-2"} <= set(MACHINES)
    assert {"qwen2.5-72b-instruct", "qwen3-32b", "qwen3-235b-a22b", "deepseek-v3", "kimi-k2-instruct",
            "llama-3.3-70b-instruct"} <= set(MODELS)  # fmt: skip


@pytest.mark.parametrize("group", ["accelerators", "machines", "models", "engines", "prices"])
def test_every_number_has_a_source_in_words(group: str) -> None:
    for entry in getattr(CATALOG, group).values():
        for figure in figures(entry):
            assert len(figure.source) > 10, f"{entry.id}: {figure} names a source key that is not there"
            assert figure.unit


def test_corrected_figures_of_the_guide() -> None:
    cards = CATALOG.accelerators
    assert cards["rtx-pro-6000"].power_limit.value == 600
    assert cards["rtx-pro-6000-max-q"].power_limit.value == 300
    assert cards["rtx-5090"].nvlink is None
    assert cards["rtx-5090"].eula_restricted


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm"])
def test_nvlink_as_nvidia_smi_prints_it(name: str) -> None:
    link = CATALOG.accelerators[name].nvlink
    assert link is not None
    assert link.links.value == 18
    assert link.link_gb_s.value == 26.562
    assert link.links.value * link.link_gb_s.value == pytest.approx(478, abs=1)
    assert link.topology == "NV18"


def test_product_names_do_not_contain_each_other_by_accident() -> None:
    products = [card.product for card in CATALOG.accelerators.values()]
    assert len(set(products)) == len(products)
    ids = [pci for card in CATALOG.accelerators.values() for pci in card.pci_ids]
    assert len(set(ids)) == len(ids)
    assert all(pci.startswith("10de:") and len(pci) == 9 for pci in ids)


@pytest.mark.parametrize("name", MACHINES)
def test_machines_are_coherent(name: str) -> None:
    machine = CATALOG.machines[name]
    card = CATALOG.accelerator_of(machine)
    gpus = machine.gpus.value
    assert machine.full_load.value > gpus * card.power_limit.value
    assert machine.idle.value > gpus * card.idle.value
    assert machine.threads.value >= machine.cores.value >= 2 * gpus
    assert machine.numa_nodes.value >= machine.sockets.value
    if machine.fabric is not None:
        assert len(machine.fabric.nics) == gpus
        assert [n.rail for n in machine.fabric.nics] == list(range(int(gpus)))
        for field in ("hca", "netdev", "pci_address"):
            values = [getattr(n, field) for n in machine.fabric.nics]
            assert len(set(values)) == len(values)
        assert machine.fabric.nic_type == "1021"


@pytest.mark.parametrize("name", MODELS)
def test_models_add_up(name: str) -> None:
    model = CATALOG.models[name]
    active = model.always_read.value
    if model.experts is not None:
        active += model.experts.top_k * model.experts.each.value * model.experts.layers / 1000
        experts = model.experts.count * model.experts.each.value * model.experts.layers / 1000
        assert model.total.value == pytest.approx(experts + model.always_read.value, rel=0.02)
    assert model.active.value == pytest.approx(active, rel=0.005)
    assert model.default_quantisation in model.quantisations
    for label, weights in model.quantisations.items():
        least = model.total.value * weights.bits / 8
        assert least * 0.99 <= weights.loaded.value <= least * 1.25, label
        assert weights.disk.value >= weights.loaded.value


def test_remote_code_only_where_needed() -> None:
    assert [m for m in MODELS if CATALOG.models[m].trust_remote_code] == ["kimi-k2-instruct"]


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(InputErrors, match=r'did you mean "hgx-h200-8-roce"'):
        CATALOG.machine("hgx-h200-8-rcoe")
    with pytest.raises(InputErrors, match=r'did you mean "deepseek-v3"'):
        CATALOG.model("deepseek-v4")


def test_digest_follows_the_entries() -> None:
    assert CATALOG.digest_of("h200-sxm") == CATALOG.digest_of("h200-sxm", "h200-sxm")
    assert CATALOG.digest_of("h200-sxm") != CATALOG.digest_of("h100-sxm")


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def broken(tmp_path: Path, text: str) -> InputErrors:
    write(tmp_path, "hardware/x.yaml", text)
    with pytest.raises(InputErrors) as caught:
        read_catalog(tmp_path)
    return caught.value


def test_an_entry_of_unknown_kind(tmp_path: Path) -> None:
    assert "must have a kind of" in str(broken(tmp_path, "id: x\nkind: toaster\nname: X\n"))


def test_a_figure_in_the_wrong_unit(tmp_path: Path) -> None:
    text = (
        "id: x\nkind: machine\nname: X\nidle: {value: 1, unit: kW, source: somewhere, verified: true}\n"
        "full_load: {value: -1, unit: W, source: somewhere, verified: true}\n"
    )
    message = str(broken(tmp_path, text))
    assert "idle · must be in W" in message
    assert "full_load · must not be negative" in message


def test_an_empty_catalog_is_a_catalog(tmp_path: Path) -> None:
    assert isinstance(read_catalog(tmp_path), Catalog)
