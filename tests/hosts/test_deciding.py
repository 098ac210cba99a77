"""What stands on hosts: placing, ports, command lines, refusals, secrets."""

from __future__ import annotations

import plistlib
from collections.abc import Callable
from typing import Any

import pytest

from rackwright.errors import InputErrors
from rackwright.hosts import Settings, decide, unified
from rackwright.hosts.words import shell, systemd, with_option
from rackwright.plan import Plan
from tests.golden import REPOSITORY, assert_golden
from tests.hosts.plans import beside, example, sized
from tests.stacks.plans import changed, multi

GOLDEN = REPOSITORY / "tests" / "golden" / "hosts"


def test_the_example_is_as_reviewed() -> None:
    first, second = decide(example())
    for file in first.files:
        assert_golden(GOLDEN / "pro6000-hosts" / file.path, file.content)
    assert [(f.path, f.content) for f in first.files] == [(f.path, f.content) for f in second.files]


@pytest.mark.parametrize("name", ["jetson", "mac", "spark"])
def test_units_of_small_machines_are_as_reviewed(name: str) -> None:
    (host,) = decide(sized(name))
    for file in host.files:
        if file.path.startswith(("units/", "run/")) and "blue" in file.path:
            assert_golden(GOLDEN / name / file.path, file.content)


def test_replicas_are_spread_evenly_and_their_ports_and_cards_differ() -> None:
    hosts = decide(example())
    assert [len(host.replicas) for host in hosts] == [2, 2]
    slots = [slot for replica in hosts[0].replicas for slot in replica.slots]
    assert [slot.port for slot in slots] == [18000, 18001, 18002, 18003]
    assert [slot.gpus for slot in slots] == [(0,), (0,), (1,), (1,)]
    assert not any(replica.side_by_side for replica in hosts[0].replicas)
    assert hosts[0].interrupts == ()


def test_a_free_card_is_where_the_next_version_starts() -> None:
    (host, _) = decide(beside())
    (replica,) = host.replicas
    assert replica.side_by_side
    assert [slot.gpus for slot in replica.slots] == [(0,), (1,)]


def test_a_single_replica_without_a_free_card_interrupts() -> None:
    plan = changed(beside(), pools__0__gpus_per_node=1)
    assert [host.interrupts for host in decide(plan)] == [("qwen2-5-72b-instruct-0",)] * 2


def test_a_spare_host_gets_nothing() -> None:
    plan = changed(example(), pools__0__nodes__1__spare=True, deployments__0__layout__replicas=2)
    assert [host.host for host in decide(plan)] == ["pro6000-01"]


def test_the_image_and_every_argument_of_the_plan_stand_in_the_unit() -> None:
    unit = next(f for f in decide(example())[0].files if f.path.endswith("-0-blue.service")).content
    engine = example().deployments[0].engine
    for word in (engine.image, *engine.roles[0].args):
        assert f" {word}" in unit
    assert "--publish=127.0.0.1:18000:8000" in unit
    assert '"--gpus=\\"device=0\\""' in unit


def test_a_native_engine_listens_on_the_loopback_and_reads_the_weights_of_the_host() -> None:
    (host,) = decide(sized("jetson"))
    unit = host.file("units/rackwright-small-qwen3-8b-0-green.service").content
    line = " ".join(unit.replace("\\\n", " ").split())
    assert "/bin/llama-server --model /var/lib/models/qwen3-8b/model.gguf " in line
    assert " --host 127.0.0.1 --port 18001 " in line
    assert "docker" not in unit


def test_a_property_list_is_read_as_one() -> None:
    (host,) = decide(sized("mac"))
    unit = "rackwright-small-qwen3-8b-0-blue.plist"
    read = plistlib.loads(host.file(f"units/{unit}").content.encode())
    assert read["Label"] == unit.removesuffix(".plist")
    assert read["ProgramArguments"] == [
        "/bin/sh",
        f"/usr/local/etc/rackwright/small/slots/qwen3-8b-0-blue/run/{unit}.sh",
    ]


REFUSED: dict[str, tuple[Callable[[], Plan], str, str]] = {
    "owner": (
        lambda: changed(example(), platform__driver_owner="gpu-operator"), "hardware.driver_owner", "host",
    ),
    "too many": (
        lambda: changed(example(), deployments__0__layout__replicas=6), "pools.pro6000.nodes.pro6000-01", "3",
    ),
    "nodes": (
        lambda: changed(multi(), sites__0__target="hosts", platform__driver_owner="host"),
        "deployments[0].layout.nodes_per_replica", "must be 1 on hosts",
    ),
    "engine": (
        lambda: changed(example(), deployments__0__engine__name="triton"),
        "deployments[0].engine.name", "must be an engine that plans start",
    ),
    "quotes": (
        lambda: changed(example(), deployments__0__engine__roles__0__env={"A": 'b "c"'}),
        "deployments[0].engine.roles[0].env.A", "must need no quotes",
    ),
    "reference": (
        lambda: changed(example(), deployments__0__engine__roles__0__args=["/models/m", "--x=$(POD_IP)"]),
        "deployments[0].engine.roles[0].args", "variables that the host has",
    ),
    "accelerator": (
        lambda: changed(example(), pools__0__gpu_resource="amd.com/gpu"),
        "pools.pro6000.accelerator", "NVIDIA",
    ),
    "port": (
        lambda: changed(sized("mac"), deployments__0__engine__roles__0__args=["/models/m"]),
        "deployments[0].engine.roles[0].args", "must hold --port",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_stand_on_hosts_is_refused(name: str) -> None:
    plan, where, rule = REFUSED[name]
    with pytest.raises(InputErrors) as caught:
        decide(plan())
    found = [p for p in caught.value.problems if p.where == where]
    assert found, str(caught.value)
    assert any(rule in problem.rule for problem in found)
    assert all(problem.next for problem in found)


def test_a_secret_on_a_command_line_is_refused() -> None:
    args = example().deployments[0].engine.roles[0].args
    with pytest.raises(InputErrors, match="must not hold a secret") as caught:
        decide(changed(example(), deployments__0__engine__roles__0__args=[*args, "--api-key=swordfish"]))
    assert "swordfish" not in str(caught.value)


def test_a_path_that_nginx_would_read_as_more_than_one_word_is_refused() -> None:
    with pytest.raises(InputErrors, match="must be an absolute path"):
        decide(example(), Settings(certificate="/etc/x; include /etc/shadow"))


@pytest.mark.parametrize(
    ("word", "unit", "line"),
    [
        ("--port=8000", "--port=8000", "--port=8000"),
        ("a b", '"a b"', "'a b'"),
        ('{"a": 1}', '"{\\"a\\": 1}"', "'{\"a\": 1}'"),
        ("50%", '"50%%"', "50%"),
        ("$HOME", '"$$HOME"', "'$HOME'"),
        ("--key=$(API_KEY)", '"--key=${API_KEY}"', '--key="${API_KEY}"'),
        ("a;b", '"a;b"', "'a;b'"),
        ("", '""', "''"),
    ],
)
def test_words_keep_their_meaning(word: str, unit: str, line: str) -> None:
    assert systemd(word) == unit
    assert shell(word) == line


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (("m", "--port=1"), ("m", "--port=2")),
        (("m", "--port", "1", "x"), ("m", "--port", "2", "x")),
        (("m", "--portal=1"), None),
    ],
)
def test_an_option_is_given_another_value_in_its_own_spelling(args: Any, given: Any) -> None:
    assert with_option(args, "--port", "2") == given


def test_a_diff_shows_lines_and_no_secret() -> None:
    old = {"env/a.env": "A=1\nAPI_KEY=swordfish\n", "secrets.env": "K=old\n", "gone": "x\n"}
    new = {"env/a.env": "A=2\nAPI_KEY=halibut\n", "secrets.env": "K=new\n"}
    told = unified(old, new, secret=frozenset({"secrets.env"}))
    assert "-A=1\n+A=2\n" in told
    assert "--- host/gone\n+++ /dev/null\n" in told
    assert "secrets.env: changed, a value that is not shown\n" in told
    assert not any(word in told for word in ("swordfish", "halibut", "old", "new"))
