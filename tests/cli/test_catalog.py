"""``rackwright catalog``: lists, one entry with its sources, a model added and used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackwright.catalog import load_catalog
from rackwright.cli.cmd_catalog import KINDS
from tests.catalog.files import QWEN3_8B
from tests.golden import REPOSITORY

from .test_size_errors import Run, rackwright

__all__ = ["rackwright"]

WORKLOAD = (REPOSITORY / "inventory" / "dev-1k" / "workload.yaml").read_text(encoding="utf-8")


def test_a_list_of_one_kind(rackwright: Run) -> None:
    out = rackwright("catalog", "list", "accelerator")
    assert out.returncode == 0
    lines = out.stdout.splitlines()
    assert lines[0].split() == ["ID", "NAME", "MEMORY", "BANDWIDTH", "BF16", "POWER"]
    row = next(line for line in lines if line.startswith("b300-sxm "))
    assert "268.6 GiB" in row
    assert "8,000 GB/s" in row
    assert "1,100 W" in row


def test_every_kind_of_the_catalog_can_be_listed() -> None:
    assert set(KINDS) == set(load_catalog().kinds)


def test_a_list_of_all_has_every_kind(rackwright: Run) -> None:
    out = rackwright("catalog", "list")
    assert out.returncode == 0
    for kind in ("accelerators", "machines", "cabinets", "models", "engines", "prices", "platforms"):
        assert f"{kind}\n" in out.stdout
    assert "atlas-900-a3" in out.stdout
    assert "no price" in out.stdout


def test_an_entry_by_alias_with_its_sources(rackwright: Run) -> None:
    out = rackwright("catalog", "show", "openai/gpt-oss-120B")
    assert out.returncode == 0
    assert out.stdout.startswith("gpt-oss-120b: gpt-oss-120b (model)\n")
    assert "KV cache, 16 bit: 36,864 bytes a further token; 0.29 GiB at 8,192 tokens" in out.stdout
    assert "?" in out.stdout
    machine = rackwright("catalog", "show", "GB200-NVL72").stdout
    assert "price in China, 2026: 25,000,000 CNY, ? assumed" in machine
    assert "no price: the guide advises against it" in rackwright("catalog", "show", "rtx4090-8").stdout


def test_an_entry_as_its_file(rackwright: Run) -> None:
    out = rackwright("catalog", "show", "deepseek-v3", "--yaml")
    file = REPOSITORY / "src" / "rackwright" / "catalog" / "models" / "deepseek-v3.yaml"
    assert out.stdout == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "H1000"], 'must be an entry of the catalog (did you mean "h100-sxm"?) · found "H1000"'),
        (["list", "gpu"], "'gpu' is not one of 'accelerator', 'machine'"),
        (["add-model", "nowhere/config.json"], "must be a file that can be read · found no such file"),
        (["--catalog", "nowhere", "list"], "must be a directory of catalog entries · found nothing there"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: list[str], expected: str, rackwright: Run) -> None:
    out = rackwright("catalog", *arguments)
    assert out.returncode == 2
    assert expected in out.stderr
    assert "Traceback" not in out.stderr
    assert out.stdout == ""


def test_a_model_is_added_and_sized(tmp_path: Path, rackwright: Run) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_8B))
    own = tmp_path / "own" / "eight.yaml"
    added = rackwright("catalog", "add-model", str(tmp_path), "--hf-id", "ours/Eight-8B", "-o", str(own))
    assert added.returncode == 0, added.stderr
    assert "8.19 × 10⁹ parameters, 7.57 active; 16.38 GB in bf16; 147,456 bytes of 16-bit KV" in added.stdout
    assert f"rackwright --catalog {own.parent} catalog show eight-8b" in added.stdout
    shown = rackwright("--catalog", str(own.parent), "catalog", "show", "ours/Eight-8B")
    assert shown.returncode == 0, shown.stderr
    assert "config.json, read 20" in shown.stdout
    workload = tmp_path / "w.yaml"
    workload.write_text(WORKLOAD.replace("qwen2.5-72b-instruct", "Eight-8B").replace("fp8", "bf16"))
    assert "must be a model of the catalog" in rackwright("size", str(workload)).stderr
    sized = rackwright("--catalog", str(own.parent), "size", str(workload))
    assert sized.returncode == 0, sized.stderr
    assert "eight-8b bf16" in sized.stdout
    again = rackwright(
        "--catalog", str(own.parent), "catalog", "add-model", str(tmp_path), "--hf-id", "ours/Eight-8B"
    )
    assert "must be no name of another entry" in again.stderr


def test_without_an_output_the_entry_is_printed(tmp_path: Path, rackwright: Run) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_8B))
    out = rackwright("catalog", "add-model", str(tmp_path / "config.json"), "--id", "mine", "--hf-id", "a/B")
    assert out.returncode == 0
    assert out.stdout.startswith("id: mine\nkind: model\nname: B\n")
    assert 'total: {value: 8.191, unit: "1e9", source: shape, verified: true}' in out.stdout


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("pro6000-2", "mi300x-8"), "must have accelerators that plans for vllm know · found mi300x-8 with"),
        (
            ("pro6000-2", "gb200-nvl72"),
            "must be a machine of one node unless devices.model is dra · found gb200-nvl72, 18 nodes",
        ),
        (
            ("pro6000-2", "rtx4090-1"),
            "must have a price in the price list of this site (cn) · found rtx4090",
        ),
        (("engine: vllm", "engine: mindie"), 'must be an engine that plans can launch · found "mindie"'),
        (("qwen2.5-72b-instruct", "T5-XXL"), "must be tgi for an encoder-decoder model such as T5 · found"),
    ],
)
def test_what_no_plan_can_use_yet_is_said(
    change: tuple[str, str], expected: str, tmp_path: Path, rackwright: Run
) -> None:
    before, after = change
    text = WORKLOAD if before in WORKLOAD else WORKLOAD + f"\n{before}\n"
    (tmp_path / "w.yaml").write_text(text.replace(before, after))
    out = rackwright("size", str(tmp_path / "w.yaml"))
    assert out.returncode == 2
    assert expected in out.stderr
