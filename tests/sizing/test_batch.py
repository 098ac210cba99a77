"""Many questions at once: what comes back, what is refused and why, and that results are never read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from rackwright.catalog import load_catalog
from rackwright.cli import main
from rackwright.errors import InputErrors
from rackwright.sizing import batch
from rackwright.sizing.rows import MEASURED
from tests.golden import REPOSITORY

FACTS = REPOSITORY / "tools/fit/measured.csv"
CATALOG = load_catalog()


def answers(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def asked(tmp_path: Path, text: str) -> list[dict[str, str]]:
    path = tmp_path / "in.csv"
    path.write_text(text, encoding="utf-8")
    return answers(batch.written(batch.read(path), CATALOG)[0])


def test_rows_come_back_whole_and_in_order_with_eight_columns_more() -> None:
    table = batch.read(FACTS)
    text, refused = batch.written(table, CATALOG)
    out = answers(text)
    assert len(out) == len(table.rows) == 1108
    assert refused == 4
    assert list(out[0]) == [*table.columns, *batch.ADDED]
    assert [{name: row[name] for name in table.columns} for row in out] == [dict(row) for row in table.rows]
    for row in out:
        if row["reason"]:
            assert row["pred_output_tok_s_total"] == row["pred_lo"] == row["evidence"] == ""
        else:
            assert 0 < float(row["pred_lo"]) < float(row["pred_output_tok_s_total"]) < float(row["pred_hi"])
            assert float(row["pred_ttft_ms"]) > 0
            assert float(row["pred_tpot_ms"]) > 0
            assert 0 < float(row["pred_memory_gb"]) < 600


def test_results_in_the_input_are_never_read() -> None:
    table = batch.read(FACTS)
    blank = batch.Table(table.columns, tuple({**row, **dict.fromkeys(MEASURED, "")} for row in table.rows))
    wrong = batch.Table(
        table.columns, tuple({**row, **dict.fromkeys(MEASURED, "123456")} for row in table.rows)
    )
    said = [list(batch.predictions(t.rows, CATALOG)) for t in (table, blank, wrong)]
    assert said[0] == said[1] == said[2]


def test_the_same_input_gives_the_same_output() -> None:
    table = batch.read(FACTS)
    assert batch.written(table, CATALOG) == batch.written(table, CATALOG)


def test_two_thousand_rows_take_about_a_second_of_cpu() -> None:
    table = batch.read(FACTS)
    many = batch.Table(table.columns, table.rows + table.rows[:892])
    batch.written(many, CATALOG)
    begun = process_time()
    batch.written(many, CATALOG)
    assert len(many.rows) == 2000
    assert process_time() - begun < 1.5


def test_a_subset_of_columns_is_enough_and_others_are_repeated(tmp_path: Path) -> None:
    (row,) = asked(tmp_path, "mine,model,hardware\nx,Llama-3.1-8B,H100\n")
    assert row["mine"] == "x"
    assert row["reason"] == ""
    assert float(row["pred_output_tok_s_total"]) > 1000
    assert row["evidence"] in ("measured", "same-family", "extrapolated")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("H100x,Llama-3.1-8B,vllm,bf16,1,1,100", 'hardware "H100x" is not in the catalog'),
        ("H100,Lama-3.1-8B,vllm,bf16,1,1,100", 'model "Lama-3.1-8B" is not in the catalog'),
        ("H100,Llama-3.1-8B,vlm,bf16,1,1,100", 'engine "vlm" is not in the catalog (did you mean "vllm"?)'),
        ("H100,Llama-3.1-8B,vllm,int3,1,1,100", 'precision "int3" is neither'),
        ("H100,DeepSeek-V3,vllm,fp8,1,1,100", "weights of 673 GB do not fit 86 GB"),
        ("H100,Llama-3.1-8B,vllm,bf16,one,1,100", 'n_gpus "one" is not a number'),
        ("H100,Llama-3.1-8B,vllm,bf16,1.5,1,100", "n_gpus 1.5 is not a whole number"),
        ("H100,Llama-3.1-8B,vllm,bf16,1,-1,100", "concurrency_or_rate"),
        ("H100,Llama-3.1-8B,vllm,bf16,1,often,100", "concurrency_or_rate"),
        ("H100,Llama-3.1-8B,vllm,bf16,1,1,-5", "input_len -5 is out of range"),
        ("H100,Llama-3.1-8B,vllm,bf16,1,1,nan", "input_len nan is out of range"),
    ],
)
def test_what_cannot_be_has_no_prediction_but_a_reason(tmp_path: Path, line: str, reason: str) -> None:
    head = "hardware,model,engine,wprec,n_gpus,concurrency_or_rate,input_len"
    (row,) = asked(tmp_path, f"{head}\n{line}\n")
    assert row["pred_output_tok_s_total"] == ""
    assert reason in row["reason"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("hardware,modell\nH100,x\n", 'must have a column "model" (did you mean "modell"?)'),
        ("hardware,model,model\nH100,x,y\n", "must name every column once"),
        ("hardware,model\nH100,x,y,z\n", "must have at most 2 fields"),
        ("", 'must have a column "hardware"'),
    ],
)
def test_a_table_that_is_none_is_said_so(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputErrors) as error:
        batch.read(path)
    assert any(rule in problem.rule for problem in error.value.problems)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capsys.readouterr()
        return int(done.value.code or 0), out, err

    return ran


def test_one_case_on_the_command_line(run: Run) -> None:
    code, out, _ = run(
        "estimate", "--hardware", "H200", "--gpus", "8", "--tp", "8", "--model", "DeepSeek-V3", "--engine",
        "sglang", "--input", "1000", "--output", "1000", "--concurrency", "64", "--json",
    )  # fmt: skip
    said = json.loads(out)
    assert code == 0
    assert said["hardware"] == "h200-sxm"
    assert said["precision"] == "fp8"
    assert 1_205 <= said["output_tok_s_total"] <= 3_273
    assert said["low"] < said["output_tok_s_total"] < said["high"]


def test_a_batch_on_the_command_line(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    code, out, _ = run("estimate", "--batch", str(FACTS), "-o", str(target))
    assert code == 0
    assert out.startswith("1,104 of 1,108 rows predicted")
    assert len(answers(target.read_text(encoding="utf-8"))) == 1108


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give --hardware and --model, or --batch IN.csv -o OUT.csv"),
        (("--batch", "in.csv"), "add -o OUT.csv"),
        (("--batch", "in.csv", "--tp", "2", "-o", "x"), "drop the options of one case"),
        (("--hardware", "H100", "--model", "DeepSeek-V3"), "do not fit"),
        (("--batch", "/nowhere.csv", "-o", "x"), "must be a file that can be read"),
    ],
)
def test_mistakes_on_the_command_line(run: Run, options: tuple[str, ...], said: str) -> None:
    code, out, err = run("estimate", *options)
    assert code == 2
    assert out == ""
    assert said in " ".join(err.split())
    assert "Traceback" not in err
