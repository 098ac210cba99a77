"""``rackwright calibrate`` and what it does to estimates, plans and checks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rackwright.catalog import _loaded, load_catalog, read_catalog, using
from rackwright.catalog.calibration_entries import CalibrationEntry
from rackwright.plan import load_plan
from rackwright.sizing import constants, limits
from rackwright.sizing.check import check
from rackwright.sizing.drift import problems as drift_problems
from rackwright.sizing.estimate import Point, Shape, estimate
from rackwright.sizing.joint import plan_of, services_of
from rackwright.sizing.layout import shape_of
from rackwright.sizing.size import size, stand_of
from rackwright.workload import load_workload
from tests.cli.test_size_errors import Ran, rackwright
from tests.golden import REPOSITORY, assert_golden

from . import results

__all__ = ["rackwright"]

GOLDEN = REPOSITORY / "tests" / "golden" / "calibrate"
WORKLOAD = REPOSITORY / "inventory" / "h200-10k" / "workload.yaml"
ID = "h200-sxm-deepseek-v3-fp8-vllm-0.33.0"
Calibrate = Callable[..., Ran]
MISSPELT = (
    "--hardware", "h2000", "--gpus", "8", "--tp", "8", "--model", "deepsek-v3", "--precision", "fp8",
    "--engine", "vlm", "--engine-version", "1",
)  # fmt: skip


@pytest.fixture
def own(tmp_path: Path) -> Path:
    directory = tmp_path / "catalog"
    directory.mkdir()
    return directory


@pytest.fixture
def calibrate(rackwright: Callable[..., Ran], own: Path, tmp_path: Path) -> Calibrate:
    """Runs the command on results; paths in what it prints are as from the directory of the test."""

    def run(*runs: Any, options: tuple[str, ...] = results.FACTS) -> Ran:
        paths = [
            data if isinstance(data, Path) else results.written(tmp_path, f"run{number}.json", data)
            for number, data in enumerate(runs, start=1)
        ]
        done = rackwright("--catalog", str(own), "calibrate", *map(str, paths), *options)
        _loaded.cache_clear()
        return Ran(
            *(done.returncode, *(text.replace(f"{tmp_path}/", "") for text in (done.stdout, done.stderr)))
        )

    return run


def at(shape: Shape, clients: float) -> Any:
    return estimate(shape, Point(1400, 600, clients))


def bare() -> Shape:
    return shape_of(stand_of(load_workload(WORKLOAD), load_catalog()), 8, 1)


def scaled(factor: float, clients: float = 32, shape: Shape | None = None, **changes: Any) -> dict[str, Any]:
    """A run that is ``factor`` of the estimate in throughput, 1/``factor`` in its times."""
    said = at(shape or bare(), clients)
    rate = said.output_tok_s * factor / 600
    data = results.run(
        output_tok_s=rate * 600, ttft_ms=said.ttft_ms / factor, tpot_ms=said.tpot_ms / factor,
        requests_completed=int(20 * clients), **changes,
    )  # fmt: skip
    data["load"] |= {"concurrency": clients, "duration_s": 20 * clients / rate}
    return data


def test_a_sweep_is_one_entry_with_every_number_s_source(calibrate: Calibrate, own: Path) -> None:
    done = calibrate(scaled(0.9, 16), scaled(0.9, 64), options=())
    assert (done.returncode, done.stderr) == (0, "")
    with using([own]):
        entry = load_catalog().calibrations[ID]
    assert isinstance(entry, CalibrationEntry)
    assert [point.concurrency.value for point in entry.points] == [16, 64]
    assert entry.factors.throughput.value == pytest.approx(0.9, abs=0.001)
    assert entry.factors.estimator == constants.digest()[:12]
    for point in entry.points:
        for figure in (point.throughput, point.ttft, point.tpot, point.input):
            assert figure is not None
            assert (figure.verified, figure.date) == (True, "2026-11-30")
            assert figure.source.startswith("go-live run: run")
            assert "sha256 " in figure.source
            assert "catalog" not in figure.source


def test_what_the_command_prints(calibrate: Calibrate, own: Path) -> None:
    first = calibrate(results.vllm())
    again = calibrate(
        results.vllm(), results.aiperf(), results.inference_perf(), options=(*results.FACTS, *results.DATE)
    )
    assert (first.returncode, again.returncode) == (0, 0)
    assert_golden(GOLDEN / "written.txt", first.stdout)
    assert_golden(GOLDEN / "replaced.txt", again.stdout)
    assert_golden(GOLDEN / "entry.yaml", (own / "calibrations" / f"{ID}.yaml").read_text(encoding="utf-8"))


def test_as_json(calibrate: Calibrate, own: Path) -> None:
    done = calibrate(scaled(0.9), options=("--json",))
    said = json.loads(done.stdout)
    assert said["id"] == ID
    assert said["factors"]["throughput"]["value"] == pytest.approx(0.9, abs=0.001)


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("no-facts", results.vllm(), ()),
        ("unknown-names", results.vllm(), MISSPELT),
        ("other-facts-than-the-run", results.run(), ("--hardware", "h100-sxm", "--tp", "4")),
        ("precision-not-offered", results.vllm(), (*results.FACTS, "--precision", "int2")),
        ("weights-that-do-not-fit", results.vllm(), (*results.FACTS, "--gpus", "1", "--tp", "1")),
        ("replicas-not-whole", results.vllm(), (*results.FACTS, "--gpus", "12")),
        ("beyond-belief", results.vllm(max_concurrency=1, mean_ttft_ms=26, mean_tpot_ms=1.03),
         results.FACTS),
        ("not-a-result", {"hello": "world"}, results.FACTS),
        ("many-at-once", results.vllm(failed=40, output_throughput=700.0), (*results.FACTS, "--input", "9")),
    ],
)  # fmt: skip
def test_errors(name: str, data: Any, options: tuple[str, ...], calibrate: Calibrate, own: Path) -> None:
    done = calibrate(data, options=options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert_golden(GOLDEN / f"error-{name}.txt", done.stderr)
    assert list(own.iterdir()) == [], "nothing half-written"


def test_without_a_directory_of_one_s_own(rackwright: Callable[..., Ran], tmp_path: Path) -> None:
    done = rackwright("calibrate", str(results.written(tmp_path, "r.json", results.run())))
    assert done.returncode == 2
    assert done.stderr.startswith(
        "--catalog · must name a directory of your own catalog entries · found nothing"
    )


def test_the_directory_after_the_command_or_in_the_environment(
    rackwright: Callable[..., Ran], tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(results.written(tmp_path, "r.json", results.run()))
    assert rackwright("calibrate", run, "--catalog", str(own)).returncode == 0
    file = own / "calibrations" / f"{ID}.yaml"
    first = file.read_text(encoding="utf-8")
    file.unlink()
    _loaded.cache_clear()
    monkeypatch.setenv("RACKWRIGHT_CATALOG", str(own))
    assert rackwright("calibrate", run).returncode == 0
    assert file.read_text(encoding="utf-8") == first
    _loaded.cache_clear()
    missing = rackwright("calibrate", run, "--catalog", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert "must be a directory of catalog entries · found nothing there" in missing.stderr


def test_runs_of_two_kinds_are_not_one_calibration(calibrate: Calibrate) -> None:
    other = results.run()
    other["under_test"]["engine_version"] = "0.32.0"
    done = calibrate(results.run(), other, options=())
    assert "engine_version · must be that of run1.json (0.33.0) · found 0.32.0" in done.stderr


def calibrated(own: Path, calibrate: Calibrate, *runs: dict[str, Any]) -> Shape:
    assert calibrate(*runs, options=()).returncode == 0
    with using([own]):
        return shape_of(stand_of(load_workload(WORKLOAD), load_catalog()), 8, 1)


def test_the_factor_multiplies_and_the_interval_narrows(calibrate: Calibrate, own: Path) -> None:
    """One run at 0.9 of the estimate: × 0.9 there, ± √2 × 3 %, evidence measured."""
    before = at(bare(), 32)
    after = at(calibrated(own, calibrate, scaled(0.9)), 32)
    assert after.output_tok_s == pytest.approx(0.9 * before.output_tok_s, rel=1e-4)
    assert after.tpot_ms == pytest.approx(before.tpot_ms / 0.9, rel=1e-4)
    assert after.ttft_ms == pytest.approx(before.ttft_ms / 0.9, rel=1e-4)
    assert math.log(after.output_tok_s / after.low) == pytest.approx(math.sqrt(2) * 0.03, rel=1e-3)
    assert (before.evidence, after.evidence) == ("extrapolated", "measured")


def test_measurements_that_differ_narrow_less(calibrate: Calibrate, own: Path) -> None:
    """0.8, 0.9 and 1.0: geometric mean 0.8963; t × deviation of the logarithms 0.1117 × 1.886 × √(4/3)."""
    found = calibrated(own, calibrate, scaled(0.8, 16), scaled(0.9, 32), scaled(1.0, 64)).calibration
    assert found is not None
    assert found.throughput.value == pytest.approx((0.8 * 0.9 * 1.0) ** (1 / 3), rel=1e-3)
    assert found.throughput.spread == pytest.approx(0.11167 * 1.886 * math.sqrt(4 / 3), rel=1e-2)


def test_away_from_the_measured_point_it_widens_again(calibrate: Calibrate, own: Path) -> None:
    shape = calibrated(own, calibrate, scaled(0.9))
    widths = [math.log(at(shape, clients).high / at(shape, clients).low) for clients in (32, 64, 256, 1024)]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[3]
    assert [at(shape, n).evidence for n in (32, 64, 256)] == ["measured", "measured", "extrapolated"]
    plain = at(bare(), 10**6)
    far = at(shape, 10**6)
    assert far.high / far.output_tok_s == pytest.approx(plain.high / plain.output_tok_s)


def test_only_what_was_measured_is_calibrated(calibrate: Calibrate, own: Path) -> None:
    calibrated(own, calibrate, scaled(0.9))
    with using([own]):
        workload = load_workload(WORKLOAD)
        stand = stand_of(workload, load_catalog())
        other = stand_of(load_workload(REPOSITORY / "inventory" / "dev-1k" / "workload.yaml"), load_catalog())
        assert shape_of(stand, 8, 1).calibration is not None
        assert shape_of(other, 1, 1).calibration is None


def test_a_factor_is_of_today_s_estimator_not_of_the_day_it_was_written(
    calibrate: Calibrate, own: Path
) -> None:
    """Factors of the file are for a reader: a file whose factors say otherwise gives the same estimate."""
    before = at(calibrated(own, calibrate, scaled(0.9)), 32)
    file = own / "calibrations" / f"{ID}.yaml"
    text = file.read_text(encoding="utf-8")
    with using([own]):
        value = load_catalog().calibrations[ID].factors.throughput.value
    file.write_text(text.replace(f"value: {value:g}\n    low", "value: 0.9001\n    low"), encoding="utf-8")
    catalog = read_catalog(REPOSITORY / "src" / "rackwright" / "catalog", own)
    assert catalog.calibrations[ID].factors.throughput.value == 0.9001
    assert at(shape_of(stand_of(load_workload(WORKLOAD), catalog), 8, 1), 32) == before


def test_a_plan_says_what_calibrated_it(
    calibrate: Calibrate, own: Path, rackwright: Callable[..., Ran]
) -> None:
    calibrated(own, calibrate, scaled(0.9))
    target = own.parent / "plan.yaml"
    done = rackwright("--catalog", str(own), "size", str(WORKLOAD), "-o", str(target))
    assert f"calibrated by {ID}" in done.stdout
    assert "estimate-not-measured" not in done.stdout
    plan = load_plan(target)
    assert (plan.deployments[0].estimate.calibration, plan.deployments[0].estimate.evidence) == (
        ID,
        "measured",
    )
    step = next(e for e in plan.explanations if e.path == "deployments[0].estimate.calibration")
    assert step.evidence == "measured"
    assert step.source.startswith("go-live run: run1.json (sha256 ")
    assert step.inputs["throughput"] == "× 0.900 (0.863–0.939)"
    explained = rackwright("explain", str(target), "deployments[0].estimate")
    assert "× 0.900 of the calibration" in explained.stdout


def fresh(own: Path) -> Any:
    with using([own]):
        return load_catalog()


def test_check_flags_a_calibration_that_came_and_one_that_went(calibrate: Calibrate, own: Path) -> None:
    plan = size(load_workload(WORKLOAD), load_catalog())
    assert check(plan, load_catalog()) == []
    calibrated(own, calibrate, scaled(0.95))
    found = check(plan, fresh(own))
    assert [p.where for p in found] == ["deployments[0].estimate.calibration"]
    assert found[0].rule == f"must be {ID}, which the catalog has"
    assert found[0].found == "none"
    now = size(load_workload(WORKLOAD), fresh(own))
    assert check(now, fresh(own)) == []
    gone = check(now, load_catalog())
    assert [(p.where, p.found) for p in gone] == [("deployments[0].estimate.calibration", ID)]


def test_check_flags_a_measurement_outside_the_plan_s_interval(calibrate: Calibrate, own: Path) -> None:
    """The plan's low end is × 0.678 of the estimate: 0.6 lies below it, 1.6 above its high end."""
    plan = size(load_workload(WORKLOAD), load_catalog())
    interval = plan.deployments[0].estimate
    for factor, why in ((0.6, "counts on more than was measured"), (1.6, "buys more than the load needs")):
        calibrated(own, calibrate, scaled(factor))
        outside = [p for p in check(plan, fresh(own)) if p.where == "deployments[0].estimate.output_tok_s"]
        assert len(outside) == 1, factor
        assert f"{interval.output_tok_s_low:,.0f}–{interval.output_tok_s_high:,.0f}" in outside[0].rule
        said = re.match(r"([\d,]+) tok/s at 40 requests", outside[0].found)
        assert said is not None
        assert float(said[1].replace(",", "")) == pytest.approx(interval.output_tok_s * factor, rel=2e-3)
        assert why in outside[0].why


def test_check_flags_the_same_entry_measured_anew(calibrate: Calibrate, own: Path) -> None:
    calibrated(own, calibrate, scaled(0.9))
    plan = size(load_workload(WORKLOAD), fresh(own))
    calibrated(own, calibrate, scaled(0.9, 64))
    load_catalog_again = read_catalog(REPOSITORY / "src" / "rackwright" / "catalog", own)
    found = check(plan, load_catalog_again)
    assert found[0].where == "deployments[0].estimate.calibration"
    assert found[0].found == "that entry with other measurements"


def test_check_prints_drift(calibrate: Calibrate, own: Path, rackwright: Callable[..., Ran]) -> None:
    target = own.parent / "plan.yaml"
    assert rackwright("size", str(WORKLOAD), "-o", str(target)).returncode == 0
    calibrated(own, calibrate, scaled(0.7))
    done = rackwright("--catalog", str(own), "check", str(target))
    assert done.returncode == 1
    assert_golden(GOLDEN / "drift.txt", done.stdout.replace(f"{own.parent}/", ""))


def test_a_hand_edit_is_still_told_where_a_calibration_came(calibrate: Calibrate, own: Path) -> None:
    plan = size(load_workload(WORKLOAD), load_catalog())
    calibrated(own, calibrate, scaled(0.95))
    header = plan.header.model_copy(update={"workload_digest": "0" * 64})
    edited = plan.model_copy(update={"header": header})
    assert "header.workload_digest" in [p.where for p in check(edited, fresh(own))]


def test_without_a_change_there_is_no_drift() -> None:
    catalog = load_catalog()
    plan = size(load_workload(WORKLOAD), catalog)
    assert list(drift_problems(plan, size(load_workload(WORKLOAD), catalog), catalog)) == []


def test_the_catalog_digest_covers_calibrations(calibrate: Calibrate, own: Path) -> None:
    before = size(load_workload(WORKLOAD), load_catalog()).header.catalog_digest
    calibrated(own, calibrate, scaled(1.0))
    assert size(load_workload(WORKLOAD), fresh(own)).header.catalog_digest != before


@pytest.mark.parametrize("which", ["fitted", "calibration"])
def test_the_catalog_digest_covers_the_estimator_s_constants(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = size(load_workload(WORKLOAD), load_catalog()).header.catalog_digest
    if which == "fitted":
        monkeypatch.setattr(constants, "FILE", "catalog/engines/vllm.yaml")
    else:
        monkeypatch.setattr(limits, "text", lambda: "noise: 0")
    constants.digest.cache_clear()
    try:
        assert size(load_workload(WORKLOAD), load_catalog()).header.catalog_digest != before
    finally:
        monkeypatch.undo()
        constants.digest.cache_clear()


def test_the_entry_is_listed_and_shown(
    calibrate: Calibrate, own: Path, rackwright: Callable[..., Ran]
) -> None:
    calibrate(scaled(0.9), options=())
    listed = rackwright("--catalog", str(own), "catalog", "list", "calibration").stdout
    assert listed.splitlines()[0].split() == ["ID", "NAME", "THROUGHPUT", "POINTS", "MEASURED"]
    assert "× 0.9" in listed
    shown = rackwright("--catalog", str(own), "catalog", "show", ID).stdout
    assert "points[0].throughput.value" not in shown
    assert "go-live run: run1.json" in shown


def test_a_calibration_of_unknown_hardware_is_told(calibrate: Calibrate, own: Path) -> None:
    calibrate(scaled(0.9), options=())
    file = own / "calibrations" / f"{ID}.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("hardware: h200-sxm", "hardware: h200-smx"), "utf-8"
    )
    with pytest.raises(
        Exception, match=r'must name an entry of the catalog by its id \(did you mean "h200-sxm"'
    ):
        read_catalog(REPOSITORY / "src" / "rackwright" / "catalog", own)


def test_estimate_uses_it_too(calibrate: Calibrate, own: Path, rackwright: Callable[..., Ran]) -> None:
    options = ("--hardware", "h200-sxm", "--gpus", "8", "--tp", "8", "--model", "deepseek-v3",
               "--precision", "fp8", "--input", "1400", "--output", "600", "--concurrency", "32",
               "--json")  # fmt: skip
    before = json.loads(rackwright("estimate", *options).stdout)
    calibrate(scaled(0.9), options=())
    after = json.loads(rackwright("--catalog", str(own), "estimate", *options).stdout)
    assert after["output_tok_s_total"] == pytest.approx(0.9 * before["output_tok_s_total"], rel=1e-3)
    assert (after["calibration"], after["evidence"]) == (ID, "measured")
    assert "calibration" not in before


def test_each_service_of_a_site_has_its_own_calibration_and_its_own_drift(
    calibrate: Calibrate, own: Path
) -> None:
    """The campus serves three models; one of them was measured on its machines, at half of the estimate."""
    workload = load_workload(REPOSITORY / "inventory" / "campus" / "workload.yaml")
    plan = plan_of(workload, load_catalog())
    index, deployment = next(
        (i, d) for i, d in enumerate(plan.deployments) if plan.pool(d.pool).accelerator == "h200-sxm"
    )
    shape = shape_of(
        stand_of(services_of(plan.workload)[index], load_catalog()), deployment.layout.tensor_parallel, 1
    )
    data = scaled(0.5, deployment.estimate.concurrency, shape)
    data["under_test"] |= {
        "gpus": shape.gpus, "tensor_parallel": shape.tp, "model": shape.model.id,
        "precision": shape.quantisation, "kv_cache": "fp8" if shape.kv_bits == 8 else "bf16",
    }  # fmt: skip
    assert calibrate(data, options=()).returncode == 0
    now = plan_of(workload, fresh(own))
    said = [d.estimate.calibration is not None for d in now.deployments]
    assert [i for i, has in enumerate(said) if has] == [index]
    steps = [e.path for e in now.explanations if e.path.endswith("estimate.calibration")]
    assert steps == [f"deployments[{index}].estimate.calibration"]
    found = check(plan, fresh(own))
    assert [p.where for p in found] == [
        f"deployments[{index}].estimate.calibration", f"deployments[{index}].estimate.output_tok_s",
    ]  # fmt: skip
    assert check(now, fresh(own)) == []
