"""What active checks must measure at least: by hand, from data sheets and published thresholds."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.plan import NotApplicable
from rackwright.sizing import rates
from rackwright.sizing.expectations import registry_of

ACCELERATORS = load_catalog().accelerators


def test_an_h100_as_azure_and_oracle_demand_it() -> None:
    h100 = ACCELERATORS["h100-sxm"]
    assert h100.nvlink is not None
    assert rates.host(h100) == 48.0  # azurehpc-health-checks, of 64 GB/s
    assert rates.peer(h100.nvlink) == pytest.approx(335, abs=3)  # of 450 GB/s
    assert rates.all_reduce(h100, h100.nvlink, 8) == 440.0  # oci-hpc


@pytest.mark.parametrize(
    ("name", "low", "high"), [("a100-sxm", 184.9, 185.1), ("b200-sxm", 799, 801), ("h200-sxm", 439, 441)]
)
def test_an_all_reduce_is_as_oracle_demands_it(name: str, low: float, high: float) -> None:
    card = ACCELERATORS[name]
    assert card.nvlink is not None
    found = rates.all_reduce(card, card.nvlink, 8)
    assert isinstance(found, float) and low < found < high


def test_where_there_is_nothing_to_compare_with_it_says_so() -> None:
    b300, spark = ACCELERATORS["b300-sxm"], ACCELERATORS["gb10"]
    assert b300.nvlink is not None
    assert isinstance(rates.all_reduce(b300, b300.nvlink, 8), NotApplicable)
    assert isinstance(rates.all_reduce(ACCELERATORS["h100-sxm"], b300.nvlink, 1), NotApplicable)
    assert isinstance(rates.host(spark), NotApplicable)


def test_memory_is_a_share_of_the_data_sheets() -> None:
    assert rates.memory(ACCELERATORS["h200-sxm"]) == 3360.0  # 0.7 × 4,800 GB/s


@pytest.mark.parametrize(
    ("image", "server"),
    [
        ("vllm/vllm-openai", "registry-1.docker.io"),
        ("docker.io/vllm/vllm-openai", "registry-1.docker.io"),
        ("harbor.dc1.internal/llm/vllm", "harbor.dc1.internal"),
        ("mirror:5000/vllm", "mirror"),
        ("localhost/vllm", "localhost"),
        ("vllm", "registry-1.docker.io"),
    ],
)
def test_the_server_of_an_image(image: str, server: str) -> None:
    assert registry_of(image) == server
