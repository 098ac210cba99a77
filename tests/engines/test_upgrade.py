"""What another engine version breaks of a plan: flags, variables, rules, scaling, dashboards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.engines import upgrade
from rackwright.errors import CannotRun, InputErrors
from rackwright.plan import Plan, load_plan
from tests.cli.test_size_errors import Run, rackwright
from tests.golden import REPOSITORY, assert_golden

__all__ = ["rackwright"]

PLAN = REPOSITORY / "inventory" / "h200-10k" / "plan.yaml"
GOLDEN = REPOSITORY / "tests" / "golden" / "engines"


def changed(args: tuple[str, ...] = (), env: dict[str, str] | None = None, version: str = "0.27.1") -> Plan:
    """The example plan as one of another version, its engine started with ``args``."""
    plan = load_plan(PLAN)
    deployment = plan.deployments[0]
    role = deployment.engine.roles[0].model_copy(update={"args": ("/m", *args), "env": env or {}})
    engine = deployment.engine.model_copy(update={"version": version, "roles": (role,)})
    return plan.model_copy(update={"deployments": (deployment.model_copy(update={"engine": engine}),)})


def subjects(plan: Plan, old: str, new: str) -> list[tuple[str, str, str]]:
    return [(e.effect, e.kind, e.subject) for e in upgrade.of_plan(plan, "vllm", old, new)]


class TestPlan:
    def test_a_flag_that_is_gone_and_one_that_is_new(self) -> None:
        plan = changed(("--calculate-kv-scales", "--max-num-seqs=64"))
        assert subjects(plan, "0.27.1", "0.33.0") == [("breaks", "flag", "--calculate-kv-scales")]
        (item,) = upgrade.of_plan(plan, "vllm", "0.27.1", "0.33.0")
        assert item.where == "deployments.0.engine.roles.0.args (server)"
        assert "use a checkpoint that carries KV scales" in item.fix
        assert not item.already

    def test_a_beginning_that_fits_two_flags_on_the_other_version_only(self) -> None:
        plan = changed(("--max-num-p=2",), version="0.20.2")
        assert subjects(plan, "0.20.2", "0.27.1") == [("breaks", "flag", "--max-num-p")]

    def test_short_flags_and_booleans_with_a_value(self) -> None:
        fine = changed(("-tp", "8"))
        assert subjects(fine, "0.27.1", "0.33.0") == []
        found = upgrade.of_plan(changed(("--enable-prefix-caching", "false")), "vllm", "0.27.1", "0.33.0")
        assert [(e.effect, e.already) for e in found] == [("breaks", True)]
        assert "--no-enable-prefix-caching" in found[0].fix

    def test_a_negative_form_that_only_the_newer_version_has(self) -> None:
        plan = changed(("--disable-prefix-caching",), version="0.33.0")
        assert subjects(plan, "0.33.0", "0.27.1") == [("breaks", "flag", "--disable-prefix-caching")]

    def test_no_guess_where_the_name_was_right(self) -> None:
        plan = changed(("--max-num-queued-reqs=9",), version="0.33.0")
        (item,) = upgrade.of_plan(plan, "vllm", "0.33.0", "0.27.1")
        assert item.fix == "leave it out: nothing is known that takes its place"

    def test_a_variable_that_is_no_longer_read(self) -> None:
        gone = sorted(
            set(upgrade.load_matrix("vllm", "0.27.1").env) - set(upgrade.load_matrix("vllm", "0.33.0").env)
        )
        name = next(name for name in gone if name.startswith("VLLM_"))
        plan = changed(env={name: "1", "VLLM_NO_USAGE_STATS": "1"})
        assert subjects(plan, "0.27.1", "0.33.0") == [("breaks", "variable", name)]

    def test_rules_and_scaling_queries(self) -> None:
        plan = load_plan(PLAN)
        assert plan.observability is not None
        name = plan.deployments[0].name
        rules = plan.observability.deployment_rules[name]
        old = 'vllm:admission_rejections_total{reason="queue"} > 0'
        alert = rules[-1].model_copy(update={"alert": "Rejected", "expr": old})
        trigger = plan.scaling[0].triggers[0].model_copy(update={"query": f"sum({old})"})
        plan = plan.model_copy(
            update={
                "observability": plan.observability.model_copy(
                    update={"deployment_rules": {name: (*rules, alert)}}
                ),
                "scaling": (plan.scaling[0].model_copy(update={"triggers": (trigger,)}),),
            }
        )
        found = upgrade.of_plan(plan, "vllm", "0.33.0", "0.27.1")
        assert [(e.kind, e.where) for e in found if e.subject == "vllm:admission_rejections_total"] == [
            ("alert", f"observability.deployment_rules.{name}.{len(rules)} (Rejected)"),
            ("scaling", "scaling.0.triggers.0"),
        ]

    def test_the_other_version_is_the_one_that_does_not_run(self) -> None:
        plan = load_plan(PLAN)
        assert upgrade.versions_of(plan, "vllm", "0.27.1", "0.33.0") == ("0.33.0", "0.27.1")
        assert upgrade.versions_of(plan, "vllm", "0.33.0", "0.27.1") == ("0.33.0", "0.27.1")
        with pytest.raises(InputErrors, match=r"vllm 0\.33\.0"):
            upgrade.versions_of(plan, "vllm", "0.27.1", "0.29.0")
        with pytest.raises(InputErrors, match="one must run sglang"):
            upgrade.versions_of(plan, "sglang", "0.5.22", "0.5.23")

    def test_defaults_that_change_under_a_plan(self) -> None:
        found = upgrade.changed_defaults(load_plan(PLAN), "vllm", "0.27.1", "0.33.0")
        assert '--allowed-origins: ["*"], now []' in found
        assert not any(line.startswith("--max-num-seqs:") for line in found)


class TestFile:
    def dashboard(self, tmp_path: Path, *queries: str) -> Path:
        panels = [{"targets": [{"expr": query}]} for query in queries]
        path = tmp_path / "board.json"
        path.write_text(json.dumps({"panels": panels, "templating": {"list": [{"query": "prometheus"}]}}))
        return path

    def test_a_dashboard(self, tmp_path: Path) -> None:
        board = self.dashboard(
            tmp_path, "vllm:num_requests_running", "rate(vllm:gpu_prefix_cache_hits_total[$__rate_interval])"
        )
        (item,) = upgrade.of_file(board, "vllm", "0.27.1", "0.33.0")
        assert item.where == f"{board}: panels.1.targets.0.expr"
        assert (item.effect, item.already) == ("breaks", True)
        assert item.fix.startswith("use vllm:prefix_cache_hits_total")

    def test_a_variable_of_grafana(self, tmp_path: Path) -> None:
        board = self.dashboard(tmp_path, "label_values(vllm:gone_total, model_name)")
        assert [e.subject for e in upgrade.of_file(board, "vllm", "0.27.1", "0.33.0")] == ["vllm:gone_total"]

    def test_names_that_a_scrape_keeps(self, tmp_path: Path) -> None:
        path = tmp_path / "monitor.yaml"
        path.write_text(
            "spec:\n  podMetricsEndpoints:\n  - metricRelabelings:\n    - action: keep\n"
            "      sourceLabels: [__name__]\n      regex: vllm:num_requests_running|vllm:queue_length\n"
        )
        (item,) = upgrade.of_file(path, "vllm", "0.27.1", "0.33.0")
        assert item.subject == "vllm:queue_length"
        assert "vllm:num_requests_waiting" in item.fix

    @pytest.mark.parametrize("text", ["{", '{"panels": []}', "a: [b"])
    def test_a_file_with_nothing_to_look_at(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "board.json"
        path.write_text(text)
        with pytest.raises(CannotRun, match=r"board\.json"):
            upgrade.of_file(path, "vllm", "0.27.1", "0.33.0")


class TestDifference:
    def test_both_directions(self) -> None:
        there = upgrade.difference("vllm", "0.27.1", "0.33.0")
        back = upgrade.difference("vllm", "0.33.0", "0.27.1")
        assert "--override-attention-dtype" in there.flags_gone
        assert "--override-attention-dtype" in back.flags_new
        assert "--max-num-queued-reqs" in there.flags_new
        assert any(line.startswith("negative forms of known flags: ") for line in there.flags_new)

    def test_a_version_against_itself(self) -> None:
        assert not upgrade.difference("sglang", "0.5.23", "0.5.23").breaks

    def test_sglang(self) -> None:
        found = upgrade.difference("sglang", "0.5.19", "0.5.20")
        assert any(line.startswith("--stream-output: leave it out") for line in found.flags_gone)


class TestCommand:
    def run(self, rackwright: Run, *words: str) -> Any:
        return rackwright("engines", *words)

    @pytest.mark.parametrize("name", ["h200-10k", "roce-100k"])
    def test_diff_of_a_plan(self, rackwright: Run, name: str) -> None:
        plan = f"inventory/{name}/plan.yaml"
        done = self.run(rackwright, "diff", "vllm", "0.27.1", "0.33.0", "--plan", str(REPOSITORY / plan))
        assert (done.returncode, done.stderr) == (1, "")
        assert_golden(GOLDEN / f"{name}-on-0.27.1.txt", done.stdout)

    def test_diff_as_json(self, rackwright: Run) -> None:
        done = self.run(rackwright, "diff", "vllm", "0.33.0", "0.27.1", "--plan", str(PLAN), "--json")
        report = json.loads(done.stdout)
        assert [(e["effect"], e["subject"]) for e in report["effects"]] == [
            ("breaks", "--max-num-queued-reqs")
        ]
        assert (report["old"], report["new"]) == ("0.33.0", "0.27.1")

    def test_nothing_breaks(self, rackwright: Run) -> None:
        done = self.run(rackwright, "diff", "vllm", "0.32.0", "0.33.0", "--plan", str(PLAN))
        assert done.returncode == 0
        assert "nothing breaks" in done.stdout

    def test_it_could_not_be_told(self, rackwright: Run, tmp_path: Path) -> None:
        done = self.run(rackwright, "diff", "vllm", "0.33.0", "9.9.9", "--plan", str(PLAN))
        assert done.returncode == 2
        assert "vllm 9.9.9" in done.stderr
        done = self.run(rackwright, "diff", "vllm", "0.27.1", "0.33.0", "--plan", str(tmp_path / "no.yaml"))
        assert done.returncode == 2

    def test_the_whole_difference(self, rackwright: Run) -> None:
        done = self.run(rackwright, "diff", "sglang", "0.5.22", "0.5.23")
        assert done.returncode == 1
        assert_golden(GOLDEN / "sglang-0.5.22-0.5.23.txt", done.stdout)

    def test_list(self, rackwright: Run) -> None:
        done = self.run(rackwright, "list")
        assert done.returncode == 0
        assert_golden(GOLDEN / "list.txt", done.stdout)
        rows = json.loads(self.run(rackwright, "list", "--json").stdout)
        newest = next(row for row in rows if (row["engine"], row["version"]) == ("sglang", "0.5.23"))
        assert (newest["flags"], newest["metrics"], newest["obtained"]) == (532, 173, "parser")
