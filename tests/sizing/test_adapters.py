"""LoRA adapters: what they take, what the engine is told, how requests find them, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog import load_catalog
from rackwright.engines import adapters as flags
from rackwright.errors import Infeasible, InputErrors
from rackwright.plan import Plan
from rackwright.sizing import lora
from rackwright.sizing.check import check
from rackwright.sizing.joint import plan_of

from .build import workload

CATALOG = load_catalog()
DENSE = CATALOG.models["qwen3-32b"]
MANIFEST = "a" * 64


def adapter(name: str, rank: int = 16, **more: Any) -> dict[str, Any]:
    return {"name": name, "source": f"s3://adapters/{name}", "rank": rank, "manifest": MANIFEST, **more}


def sized(engine: str = "vllm", changes: dict[str, Any] | None = None, **choice: Any) -> Plan:
    found = {"active": 4, "set": [adapter("legal", 16), adapter("medical", 24)], **choice}
    model = {"id": "qwen3-32b", "quantisation": "fp8", "context": "16 ki tokens", "adapters": found}
    return plan_of(workload(model=model, engine=engine, **(changes or {})), CATALOG)


def args(plan: Plan) -> tuple[str, ...]:
    return plan.deployments[0].engine.roles[0].args


def test_a_slot_holds_two_matrices_of_every_linear_layer() -> None:
    """Qwen3 32B: hidden 5,120, 64 × 128 queries, 8 × 128 keys, ffn 25,600; in + out of the seven layers is
    131,072, × 64 layers × rank 32 × 2 B = 512 MiB."""
    assert lora.parameters(DENSE, 32) == 131_072 * 64 * 32
    assert lora.slot_bytes(DENSE, 32, 1) == 512 * 2**20


def test_tensor_parallelism_divides_one_matrix_of_each() -> None:
    """Into o and down and out of the others: 36,864 (q, k, v, gate, up, in) stays whole on every GPU."""
    whole = 5 * 5120 + 2 * 5120
    divided = 8192 + 2 * 1024 + 2 * 25600 + 8192 + 25600
    assert whole + divided == 131_072
    assert lora.slot_bytes(DENSE, 32, 8) == (whole + divided / 8) * 64 * 32 * 2


@pytest.mark.parametrize(("ranks", "slot"), [([8, 16], 16), ([24], 32), ([65], 128), ([257], 320)])
def test_vllm_takes_certain_ranks_only(ranks: list[int], slot: int) -> None:
    assert flags.max_rank("vllm", ranks) == slot
    assert flags.max_rank("sglang", ranks) == max(ranks)


def test_slots_are_weights_and_copies_are_host_memory() -> None:
    plain = plan_of(
        workload(model={"id": "qwen3-32b", "quantisation": "fp8", "context": "16 ki tokens"}), CATALOG
    ).deployments[0]
    served = sized().deployments[0]
    assert served.adapters is not None
    assert (served.adapters.max_rank, served.adapters.slot_mib) == (32, 512.0)
    assert round(served.memory.weights_gib - plain.memory.weights_gib, 2) == 2.0
    assert served.adapters.host_gib == 2.0  # four copies, as many as there are slots
    # 1.2 × 2 GiB more weights, rounded up, and 2 GiB of copies.
    assert served.resources.memory_gib - plain.resources.memory_gib in (4, 5)
    assert served.estimate.evidence == "extrapolated"


def test_adapters_cost_time_in_every_step() -> None:
    """At one concurrency: four slots are 2 GiB more to read beside 32 GB."""
    from rackwright.sizing.estimate import Point, Shape, estimate

    base = Shape(CATALOG.accelerators["h200-sxm"], DENSE, "fp8", CATALOG.engines["vllm"], 1)
    with_slots = Shape(
        CATALOG.accelerators["h200-sxm"], DENSE, "fp8", CATALOG.engines["vllm"], 1, lora=lora.Slots(4, 32)
    )
    at = Point(1400, 600, 1)
    ratio = estimate(with_slots, at).tpot_ms / estimate(base, at).tpot_ms
    assert 1.03 < ratio < 1.08


def test_what_vllm_is_told() -> None:
    told = args(sized())
    assert told[-7:] == (
        "--enable-lora",
        "--max-loras=4",
        "--max-cpu-loras=4",
        "--max-lora-rank=32",
        "--lora-modules",
        "legal=/models/adapters/qwen3-32b/legal",
        "medical=/models/adapters/qwen3-32b/medical",
    )


def test_hot_swap_finds_adapters_by_name_and_restarts_nothing() -> None:
    before = sized(hot_swap=True, cached=8)
    after = sized(
        hot_swap=True, cached=8, set=[adapter("legal", 16), adapter("medical", 24), adapter("retail", 8)]
    )
    role = before.deployments[0].engine.roles[0]
    assert role.env["VLLM_LORA_RESOLVER_CACHE_DIR"] == "/models/adapters/qwen3-32b"
    assert role.env["VLLM_PLUGINS"] == "lora_filesystem_resolver"
    assert "--lora-modules" not in role.args
    assert after.deployments[0].engine == before.deployments[0].engine
    assert after.deployments[0].resources == before.deployments[0].resources
    assert "adapters-swapped-at-run-time" in {c.id for c in before.cautions}


def test_what_sglang_is_told() -> None:
    told = args(sized("sglang"))
    assert "--max-loras-per-batch=4" in told
    assert "--max-lora-rank=24" in told
    assert told[-3:] == (
        "--lora-paths",
        "legal=/models/adapters/qwen3-32b/legal",
        "medical=/models/adapters/qwen3-32b/medical",
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_plan_is_as_its_workload_gives_it(engine: str) -> None:
    assert check(sized(engine), CATALOG) == []


def test_files_have_room_beside_the_base() -> None:
    plan = sized()
    stored = sum(a.bytes for a in plan.deployments[0].adapters.adapters)  # type: ignore[union-attr]
    assert stored == 131_072 * 64 * 2 * (16 + 24)
    assert plan.volumes[0].size_gib * 2**30 >= 2 * (plan.deployments[0].weights.bytes + stored)
    files = plan.deployments[0].weights.bytes + stored
    assert plan.expectations["h200"].storage.headroom_bytes == 2 * files


def test_slots_that_leave_no_room_are_refused() -> None:
    """On an L40S with 45 GiB the weights alone take 32; eight slots of rank 512 are 64 GiB more."""
    with pytest.raises(Infeasible) as error:
        sized(changes={"hardware__machine": "pro6000-1"}, active=8, set=[adapter("huge", 512)])
    assert "memory" in error.value.problems[0].found


@pytest.mark.parametrize(
    ("changes", "choice", "where"),
    [
        ({"engine": "tgi"}, {}, "model.adapters"),
        ({"site__target": "hosts"}, {}, "model.adapters"),
        ({"engine": "sglang"}, {"hot_swap": True}, "model.adapters.hot_swap"),
        ({}, {"cached": 2}, "model.adapters.cached"),
        ({}, {"hot_swap": True}, "model.adapters.cached"),
        ({}, {"set": [adapter("a"), adapter("a")]}, "model.adapters.set[0].name"),
        ({}, {"set": [adapter("qwen3-32b")]}, "model.adapters.set[0].name"),
        ({}, {"set": [adapter("a"), adapter("b", alias="a")]}, "model.adapters.set[1].alias"),
        ({}, {"set": [adapter("a", 1024)]}, "model.adapters.set[0].rank"),
        ({"overrides__engine_flags": {"enable-lora": True}}, {}, "overrides.engine_flags.enable-lora"),
    ],
)
def test_what_cannot_be_served(changes: dict[str, Any], choice: dict[str, Any], where: str) -> None:
    engine = changes.get("engine", "vllm")
    rest = {key: value for key, value in changes.items() if key != "engine"}
    with pytest.raises(InputErrors) as error:
        sized(engine, rest, **choice)
    assert where in {problem.where for problem in error.value.problems}


def test_models_whose_slots_are_not_known_are_refused() -> None:
    found = {"active": 1, "set": [adapter("a")]}
    with pytest.raises(InputErrors) as error:
        plan_of(workload(model={"id": "deepseek-v3", "adapters": found}), CATALOG)
    assert "model.adapters" in {problem.where for problem in error.value.problems}
