"""What TGI and llama.cpp are started with, and where they differ from the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.catalog import load_catalog
from rackwright.engines import llama_cpp, monitoring, tgi
from rackwright.errors import Infeasible, InputErrors
from rackwright.sizing.search import plan_of
from rackwright.workload import Workload, load_workload
from rackwright.yamlio import load_yaml
from stacks.rendering import render

from .test_launchers import CATALOG, WORKLOADS, planned


def changed(case: str, **overrides: object) -> Workload:
    data = load_workload(WORKLOADS / f"{case}.yaml").as_dict()
    for path, value in overrides.items():
        section, _, name = path.partition("__")
        data[section][name] = value
    return Workload.model_validate(data)


def words(case: str) -> tuple[str, ...]:
    return planned(case).deployments[0].engine.roles[0].args


def test_tgi_serves_an_encoder_decoder_within_its_memory() -> None:
    """A prompt of 511 tokens and one of output fill the context; a batch holds the planned cache."""
    held = planned("tgi").deployments[0].memory
    assert {
        "--model-id=/models/flan-t5-xxl",
        "--num-shard=2",
        "--max-total-tokens=512",
        "--max-input-tokens=511",
        "--max-batch-size=32",
        "--max-concurrent-requests=40",
        f"--max-batch-total-tokens={held.kv_tokens}",
        f"--cuda-memory-fraction={held.utilization}",
        "--graceful-termination-timeout=60",
    } <= set(words("tgi"))
    assert not any("api-key" in word for word in words("tgi"))


def test_a_decoder_only_engine_refuses_the_model_and_names_tgi() -> None:
    with pytest.raises(InputErrors) as caught:
        plan_of(changed("tgi").model_copy(update={"engine": "sglang"}), CATALOG)
    (problem,) = caught.value.problems
    assert (problem.where, problem.next) == ("engine", "set engine to tgi")
    assert plan_of(changed("tgi").model_copy(update={"engine": "auto"}), CATALOG).workload.engine == "tgi"


def test_llama_cpp_keeps_all_layers_and_the_planned_cache_on_one_gpu() -> None:
    """Four slots of 16,384 tokens share one cache; nothing is moved to the host or shrunk to fit."""
    text = " ".join(words("llama.cpp"))
    for part in (
        "--model /models/qwen3-30b-a3b/model.gguf --alias qwen3-30b-a3b --gpu-layers all --fit off",
        "--ctx-size 65536 --parallel 4 --kv-unified --cache-ram 0",
        "--metrics --no-ui --offline",
    ):
        assert part in text
    layout = planned("llama.cpp").deployments[0].layout
    assert (layout.tensor_parallel, layout.pipeline_parallel) == (1, 1)


def test_llama_cpp_is_planned_on_one_gpu() -> None:
    with pytest.raises((InputErrors, Infeasible), match="planned on one GPU"):
        plan_of(changed("llama.cpp", overrides__tensor_parallel=2, hardware__machine="pro6000-2"), CATALOG)


def test_llama_cpp_has_no_cache_in_fp8() -> None:
    with pytest.raises(InputErrors, match=r"model\.kv_cache"):
        plan_of(changed("llama.cpp", model__kv_cache="fp8"), CATALOG)
    assert planned("llama.cpp").deployments[0].memory.kv_bytes_per_token == 2 * 48 * 4 * 128 * 2


def test_tgi_stays_inside_a_node() -> None:
    with pytest.raises(InputErrors, match="whose replicas stay inside a node"):
        plan_of(
            changed(
                "tgi",
                overrides__pipeline_parallel=2,
                overrides__tensor_parallel=8,
                hardware__machine="hgx-h200-8-roce",
                hardware__fabric="roce",
            ),
            CATALOG,
        )


def test_an_engine_that_ends_at_once_waits_for_its_requests_first() -> None:
    """30 s until routers have dropped the pod, then 60 s for the longest request."""
    assert planned("llama.cpp").deployments[0].rollout.drain_s == 90
    assert planned("tgi").deployments[0].rollout.drain_s == 30
    assert {planned(case).deployments[0].rollout.termination_grace_s for case in ("tgi", "llama.cpp")} == {
        120
    }


def test_what_is_not_exported_is_neither_asked_for_nor_hidden() -> None:
    assert llama_cpp.NAMES.missing[:2] == ("time to first token", "time between tokens")
    alerts = {
        rule.alert
        for rule in monitoring.rules(tgi.NAMES, "n", "m", ttft_p95_ms=1, tpot_p50_ms=1, max_num_seqs=9)
    }
    assert "RequestsWaiting" in alerts
    assert "TimeToFirstTokenHigh" not in alerts
    for case in ("tgi", "llama.cpp"):
        said = {c.id: c.text for c in planned(case).cautions}
        assert "time to first token" in said["engine-metrics-missing"]
    assert "engine-metrics-missing" not in {c.id for c in planned("sglang").cautions}


@pytest.mark.parametrize("case", ["tgi", "llama.cpp"])
def test_the_scrape_names_the_model_and_the_picker_weighs_no_load(case: str, tmp_path: Path) -> None:
    render(planned(case), tmp_path / "out")
    (monitor,) = (load_yaml(p).data for p in (tmp_path / "out").rglob("podmonitor-*.yaml"))
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    served = planned(case).deployments[0].served_name
    assert endpoint["relabelings"] == [{"targetLabel": "model_name", "replacement": served}]
    assert ("authorization" in endpoint) == (case == "llama.cpp")
    (config,) = (p.read_text(encoding="utf-8") for p in (tmp_path / "out").rglob("configmap-*picker*.yaml"))
    assert "prefix-cache-scorer" in config
    assert "queue-scorer" not in config


def test_images_are_named_by_their_makers_tags() -> None:
    said = {
        case: next(c.text for c in planned(case).cautions if c.id == "engine-image-unpinned")
        for case in ("tgi", "llama.cpp", "sglang")
    }
    assert "text-generation-inference:3.3.7." in said["tgi"]
    assert "llama.cpp:server-cuda-b11434." in said["llama.cpp"]
    assert "sglang:v0.5.23." in said["sglang"]


def test_versions_are_those_of_the_catalog() -> None:
    entries = load_catalog().engines
    assert (entries["tgi"].version, entries["llama.cpp"].version) == ("3.3.7", "11434")
