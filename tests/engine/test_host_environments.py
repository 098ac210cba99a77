"""Example environments on plain hosts through the whole life of a stack: real engine, simulated hosts.

In turn: created, nothing to change, drift shown and repaired, destroyed. A run of the suite takes one; all of
them: RACKWRIGHT_ENVIRONMENTS=all. Macs are not among them: no stand-in plays launchd.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rackwright.hosts import decide
from rackwright.hosts.families import MAC, family_of
from rackwright.plan import Plan, load_plan
from tests.engine import needs
from tests.engine.test_hosts import stack_of
from tests.golden import REPOSITORY
from tests.hosts.plans import KEY, fast
from tools.engine.stack import ONE_BY_ONE
from tools.rack.unit_hosts import UnitHosts, absent

pytestmark = [
    pytest.mark.engine,
    pytest.mark.rack,
    needs.engine(),
    pytest.mark.skipif(bool(absent()), reason=absent() or "simulated hosts"),
]


def on_systemd(plan: Plan) -> bool:
    return plan.sites[0].target == "hosts" and family_of(plan.pools[0]) != MAC


ALL = sorted(
    path.parent.name for path in REPOSITORY.glob("inventory/*/plan.yaml") if on_systemd(load_plan(path))
)
TAKEN = ALL if os.environ.get("RACKWRIGHT_ENVIRONMENTS") == "all" else ["dgx-spark"]


def test_every_row_of_a_person_or_a_team_is_among_them() -> None:
    assert {"workstation-5090", "dgx-spark", "pro6000-team", "pro6000-235b", "pro6000-hosts"} <= set(ALL)


@pytest.mark.parametrize("name", TAKEN)
def test_the_whole_life_of_hosts(name: str, tmp_path: Path) -> None:
    path = REPOSITORY / "inventory" / name / "plan.yaml"
    plan = fast(load_plan(path))
    found, deployment = decide(plan), plan.deployments[0]
    names = [host.host for host in found]
    with UnitHosts(tmp_path / "hosts", names, plan=path, images=(deployment.engine.image,)) as hosts:
        for host in hosts.hosts.values():
            folder = host.weights(deployment.model, deployment.weights.bytes // 1000)
            if deployment.weights.quantisation.startswith("q"):
                (folder / "model.safetensors").rename(folder / "model.gguf")
        stack = stack_of(tmp_path, hosts, plan)
        up = ("up", "--yes", "--skip-preview", *ONE_BY_ONE["up"])

        began = time.monotonic()
        made = stack.pulumi(*up, timeout_s=400)
        assert made.returncode == 0, made.stdout[-4000:] + made.stderr
        print(f"{name}: {len(stack.resources())} resources, up in {time.monotonic() - began:.1f} s")
        root = found[0].root
        host_name = next(
            line.split()[1].rstrip(";")
            for line in found[0].file("nginx/server.conf").content.splitlines()
            if line.split()[:1] == ["server_name"]
        )
        ask = (
            f"curl -sk --resolve {host_name}:443:127.0.0.1 -H 'Authorization: Bearer {KEY}' "
            f"-d @{root}/current/requests/{deployment.name}.json https://{host_name}/v1/completions"
        )
        for each in names:
            assert "--port" in json.loads(hosts.shell(each, ask))["choices"][0]["text"]
        again = stack.pulumi(*up, "--expect-no-changes", timeout_s=400)
        assert again.returncode == 0, again.stdout[-4000:]

        server = f"{root}/current/nginx/server.conf"
        hosts.shell(names[0], f"echo 'limit_rate 1k;' >>{server}")
        drift = stack.pulumi("preview", "--refresh", "--diff", timeout_s=200)
        assert "limit_rate 1k;" in drift.stdout
        repaired = stack.pulumi(*up, "--refresh", timeout_s=400)
        assert repaired.returncode == 0, repaired.stdout[-4000:]
        assert hosts.shell(names[0], f"cat {server}") == found[0].file("nginx/server.conf").content

        gone = stack.pulumi("destroy", "--yes", "--skip-preview", timeout_s=300)
        assert gone.returncode == 0, gone.stdout[-4000:]
        for each in names:
            left = "find /etc/rackwright /etc/systemd /etc/nginx 2>/dev/null | grep -c rackwright-"
            assert hosts.shell(each, left) == "0\n"
            assert hosts.shell(each, "ps ax | grep -c '[s]hims.py supervise'") == "0\n"
