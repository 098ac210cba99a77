"""A plan for hosts through the real engine, on two simulated hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rackwright.plan import Plan
from tests.engine import needs
from tests.golden import REPOSITORY
from tests.hosts.plans import EXAMPLE, KEY, example, fast, with_sequences, write
from tools.engine.env import environment
from tools.engine.stack import ONE_BY_ONE, Stack
from tools.rack.unit_hosts import UnitHosts, absent

pytestmark = [
    pytest.mark.engine,
    pytest.mark.rack,
    needs.engine(),
    pytest.mark.skipif(bool(absent()), reason=absent() or "simulated hosts"),
]

ONE, TWO = "pro6000-01", "pro6000-02"
ROOT = "/etc/rackwright/pro6000-hosts"
ASK = (
    f"curl -sk --resolve pro6000-hosts.llm.internal:443:127.0.0.1 -H 'Authorization: Bearer {KEY}' "
    f"-d @{ROOT}/current/requests/qwen2-5-72b-instruct.json https://pro6000-hosts.llm.internal/v1/completions"
)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[UnitHosts]:
    image = example().deployments[0].engine.image
    with UnitHosts(tmp_path / "hosts", [ONE, TWO], plan=EXAMPLE, images=(image,)) as hosts:
        for host in hosts.hosts.values():
            host.weights("qwen2.5-72b-instruct", 80_000_000)
        yield hosts


def stack_of(directory: Path, hosts: UnitHosts, plan: Plan) -> Stack:
    """The repository's own program, with settings of a directory of its own."""
    folder = directory / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(
        f"name: rackwright\nruntime: python\nmain: {REPOSITORY / 'stacks'}/\n", encoding="utf-8"
    )
    write(plan, directory / "plan.yaml")
    settings = {
        "rackwright:plan": str(directory / "plan.yaml"),
        "rackwright:inventory": str(hosts.inventory),
    }
    (folder / "Pulumi.hosts.yaml").write_text(yaml.safe_dump({"config": settings}), encoding="utf-8")
    stack = Stack("hosts", folder, environment(directory / "pulumi"))
    stack.ensure()
    assert stack.pulumi("config", "set", "--secret", "rackwright:apiKey", KEY).returncode == 0
    return stack


def answered(hosts: UnitHosts, name: str) -> str:
    text: str = json.loads(hosts.shell(name, ASK))["choices"][0]["text"]
    return next(word for word in text.split() if word.startswith("--max-num-seqs"))


def _places(value: object, text: str, at: str = "") -> list[str]:
    """Where ``text`` stands in a state."""
    if isinstance(value, dict):
        return [place for key, item in value.items() for place in _places(item, text, f"{at}.{key}")]
    if isinstance(value, list):
        return [place for index, item in enumerate(value) for place in _places(item, text, f"{at}[{index}]")]
    return [at] if text in str(value) else []


def test_two_hosts_from_nothing_to_nothing(tmp_path: Path, hosts: UnitHosts) -> None:
    plan = fast(example())
    stack = stack_of(tmp_path, hosts, plan)
    up = ("up", "--yes", "--skip-preview", *ONE_BY_ONE["up"])

    # Created on both, and nothing to do afterwards.
    made = stack.pulumi(*up, timeout_s=400)
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr
    assert [answered(hosts, name) for name in (ONE, TWO)] == ["--max-num-seqs=24"] * 2
    same = stack.pulumi("preview", "--refresh", "--expect-no-changes", timeout_s=200)
    assert same.returncode == 0, same.stdout[-4000:]
    assert _places(stack.state(), KEY) == []

    # Drift is shown by a refresh, line by line, and repaired.
    hosts.shell(ONE, f"echo 'limit_rate 1k;' >>{ROOT}/current/nginx/server.conf")
    drift = stack.pulumi("preview", "--refresh", "--diff", timeout_s=200)
    assert "limit_rate 1k;" in drift.stdout
    refreshed = stack.pulumi("refresh", "--yes", "--skip-preview", timeout_s=200)
    assert refreshed.returncode == 0, refreshed.stdout[-4000:]
    repaired = stack.pulumi(*up, timeout_s=400)
    assert repaired.returncode == 0, repaired.stdout[-4000:]
    assert "limit_rate" not in hosts.shell(ONE, f"cat {ROOT}/current/nginx/server.conf")

    # A version that does not serve on one host is rolled back there; the other host is changed.
    hosts[ONE].faults("refuses --max-num-seqs=20")
    write(fast(with_sequences(example(), 20)), tmp_path / "plan.yaml")
    shown = stack.pulumi("preview", "--diff", timeout_s=200)
    assert "--max-num-seqs=20" in shown.stdout
    assert KEY not in shown.stdout
    failed = stack.pulumi(*up, timeout_s=400)
    assert failed.returncode != 0
    assert "rolled back: release" in failed.stdout
    assert "CUDA error: an illegal memory access" in failed.stdout
    assert [answered(hosts, name) for name in (ONE, TWO)] == ["--max-num-seqs=24", "--max-num-seqs=20"]

    # A host that is down fails alone.
    hosts[ONE].faults()
    hosts.stop(TWO)
    write(fast(with_sequences(example(), 18)), tmp_path / "plan.yaml")
    down = stack.pulumi(*up, timeout_s=400)
    assert down.returncode != 0
    assert "pro6000-02 · must be reached by SSH" in down.stdout
    assert "Traceback" not in down.stdout + failed.stdout
    assert answered(hosts, ONE) == "--max-num-seqs=18"
    hosts.start(TWO)
    assert stack.pulumi(*up, timeout_s=400).returncode == 0
    assert answered(hosts, TWO) == "--max-num-seqs=18"

    # Destroyed, nothing is left.
    gone = stack.pulumi("destroy", "--yes", "--skip-preview", timeout_s=300)
    assert gone.returncode == 0, gone.stdout[-4000:]
    assert stack.resources() == [] or {r["type"] for r in stack.resources()} == {"pulumi:pulumi:Stack"}
    for name in (ONE, TWO):
        assert (
            hosts.shell(
                name, "find /etc/rackwright /etc/systemd /etc/nginx 2>/dev/null | grep -c rackwright-p"
            )
            == "0\n"
        )
        assert hosts.shell(name, "ps ax | grep -c '[s]hims.py supervise'") == "0\n"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("rackwright:apiKey", "rackwright:apiKey · must be a key of 16 to 512"),
        ("rackwright:inventory", "rackwright:inventory · must name an inventory"),
        ("plain", "rackwright:apiKey · must be set as a secret"),
    ],
)
def test_settings_that_are_missing_are_named(
    tmp_path: Path, hosts: UnitHosts, missing: str, said: str
) -> None:
    stack = stack_of(tmp_path, hosts, fast(example()))
    file = stack.project / "Pulumi.hosts.yaml"
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    if missing == "plain":
        settings["config"]["rackwright:apiKey"] = KEY
    else:
        del settings["config"][missing]
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    shown = stack.pulumi("preview", timeout_s=200)
    assert shown.returncode != 0
    assert said in shown.stdout
    assert KEY not in shown.stdout


def test_a_stack_of_hosts_is_told_from_one_of_a_cluster() -> None:
    """Without reading the plan: a destroy must work where the plan is gone."""
    assert Stack("pro6000-hosts", REPOSITORY, {}).on_hosts()
    assert not Stack("dev-1k", REPOSITORY, {}).on_hosts()
