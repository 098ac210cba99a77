"""The provider of hosts against simulated ones: real sshd, nginx and systemd-analyze; units that run."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rackwright.hosts import decide
from rackwright.inventory import load_inventory
from rackwright.plan import Plan
from stacks.hosts.over_ssh import DIFFERS, HostFailed
from stacks.hosts.program import plain_properties
from stacks.hosts.provider import HostProvider, _remote
from tests.hosts.plans import EXAMPLE, KEY, beside, example, fast, sized, with_sequences
from tests.stacks.plans import changed
from tools.rack.unit_hosts import UnitHosts, absent

pytestmark = [pytest.mark.rack, pytest.mark.skipif(bool(absent()), reason=absent() or "simulated hosts")]

ONE, TWO = "pro6000-01", "pro6000-02"
ROOT = "/etc/rackwright/pro6000-hosts"
UNIT = "rackwright-pro6000-hosts-qwen2-5-72b-instruct"
PROVIDER = HostProvider()
ASK = (
    "curl -sk --resolve pro6000-hosts.llm.internal:443:127.0.0.1 https://pro6000-hosts.llm.internal{path} "
    "-H 'Authorization: Bearer {key}' -d @{root}/current/requests/qwen2-5-72b-instruct.json {more}"
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnitHosts]:
    image = example().deployments[0].engine.image
    hosts = UnitHosts(tmp_path_factory.mktemp("hosts"), [ONE, TWO], plan=EXAMPLE, images=(image,))
    with hosts:
        for host in hosts.hosts.values():
            host.weights("qwen2.5-72b-instruct", 80_000_000)
        yield hosts


@pytest.fixture
def hosts(running: UnitHosts) -> Iterator[UnitHosts]:
    """Both hosts, with nothing on them."""
    yield running
    for name, host in running.hosts.items():
        host.faults()
        if host.proc is None:
            running.start(name)
        PROVIDER.delete(name, inputs(running, fast(example()), name))


def inputs(hosts: UnitHosts, plan: Plan, name: str = ONE, key: str = KEY) -> dict[str, Any]:
    reached = {host.name: host for host in load_inventory(hosts.inventory, plan=EXAMPLE).hosts}
    found = next(host for host in decide(plan) if host.host == name)
    return {
        **plain_properties(found, reached[name]),
        "modes": plain_properties(found)["modes"],
        "secret_files": {"secrets.env": f"VLLM_API_KEY={key}\n"},
        "sudo_password": "",
    }


def ask(
    hosts: UnitHosts, name: str = ONE, path: str = "/v1/completions", key: str = KEY, more: str = ""
) -> str:
    return hosts.shell(name, ASK.format(path=path, key=key, root=ROOT, more=more))


def answered_with(hosts: UnitHosts, name: str = ONE) -> str:
    """The ``--max-num-seqs`` of the engine that answers."""
    text: str = json.loads(ask(hosts, name))["choices"][0]["text"]
    return next(word for word in text.split() if word.startswith("--max-num-seqs"))


def test_a_host_is_created_serves_behind_its_key_and_shows_no_drift(hosts: UnitHosts) -> None:
    wanted = inputs(hosts, fast(example()))
    created = PROVIDER.create(wanted)
    assert created.id == ONE
    assert answered_with(hosts) == "--max-num-seqs=24"
    assert "Unauthorized" in ask(hosts, key="wrong")
    assert "404" in ask(hosts, path="/metrics")
    seen = PROVIDER.read(ONE, created.outs)
    assert seen.outs == wanted
    assert PROVIDER.diff(ONE, seen.outs, wanted).changes is False
    containers = hosts.shell(ONE, "cat /run/sim/*.argv")
    assert '"device=0\\"' in containers
    assert KEY not in hosts.shell(ONE, "cat /proc/*/cmdline | tr '\\0' ' '")


def test_a_version_is_replaced_without_an_unanswered_request(hosts: UnitHosts) -> None:
    """The second card takes the new version; requests go on all the while."""
    before = inputs(hosts, fast(beside()))
    PROVIDER.create(before)
    codes: list[str] = []
    end = threading.Event()

    def asking() -> None:
        while not end.is_set():
            codes.append(ask(hosts, more="-o /dev/null -w '%{http_code}' --max-time 5"))

    thread = threading.Thread(target=asking)
    thread.start()
    try:
        after = inputs(hosts, fast(with_sequences(beside(), 32)))
        assert PROVIDER.diff(ONE, before, after).changes is True
        PROVIDER.update(ONE, before, after)
    finally:
        time.sleep(0.3)
        end.set()
        thread.join()
    assert len(codes) >= 3
    assert set(codes) == {"200"}
    assert answered_with(hosts) == "--max-num-seqs=32"
    assert hosts[ONE].path(f"{ROOT}/state/qwen2-5-72b-instruct-0").read_text() == "green\n"
    assert hosts.shell(ONE, f"systemctl is-active {UNIT}-0-blue.service; echo $?") == "3\n"
    assert PROVIDER.read(ONE, after).outs == after


def test_replicas_of_a_full_host_are_changed_in_turn(hosts: UnitHosts) -> None:
    PROVIDER.create(inputs(hosts, fast(example())))
    after = inputs(hosts, fast(with_sequences(example(), 20)))
    PROVIDER.update(ONE, {}, after)
    assert answered_with(hosts) == "--max-num-seqs=20"
    assert PROVIDER.read(ONE, after).outs == after
    # The release before is kept for the way back, older ones are not.
    again = inputs(hosts, fast(with_sequences(example(), 18)))
    PROVIDER.update(ONE, after, again)
    assert len(list(hosts[ONE].path(f"{ROOT}/releases").iterdir())) == 2


def test_a_change_of_nginx_alone_restarts_no_engine(hosts: UnitHosts) -> None:
    PROVIDER.create(inputs(hosts, fast(example())))
    pids = hosts.shell(ONE, "cat /run/sim/*.container")
    after = inputs(hosts, fast(example(), deployments__0__limits__connections=7))
    PROVIDER.update(ONE, {}, after)
    assert hosts.shell(ONE, "cat /run/sim/*.container") == pids
    assert PROVIDER.read(ONE, after).outs == after


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("refuses", "generated no token within 4 s; its last answer:"),
        ("ends", "ended [3-9] times"),
    ],
)
@pytest.mark.parametrize("plan", [beside, example], ids=["beside", "instead"])
def test_a_version_that_does_not_generate_is_rolled_back(
    hosts: UnitHosts, plan: Any, fault: str, said: str
) -> None:
    before = inputs(hosts, fast(plan()))
    PROVIDER.create(before)
    hosts[ONE].faults(f"{fault} --max-num-seqs=99")
    new = fast(with_sequences(plan(), 99))
    patient = changed(new, deployments__0__probes__startup_failures=60) if fault == "ends" else new
    with pytest.raises(HostFailed) as caught:
        PROVIDER.update(ONE, before, inputs(hosts, patient))
    told = str(caught.value)
    assert caught.value.rolled_back
    assert re.search(said, told)
    assert ("CUDA error" if fault == "refuses" else "engine core initialization failed") in told
    assert "rolled back: release" in told
    assert KEY not in told
    assert answered_with(hosts) == "--max-num-seqs=24"
    assert PROVIDER.read(ONE, before).outs == before
    assert len(list(hosts[ONE].path(f"{ROOT}/releases").iterdir())) == 1


def test_the_second_replica_takes_the_first_back_with_it(hosts: UnitHosts) -> None:
    before = inputs(hosts, fast(example()))
    PROVIDER.create(before)
    hosts[ONE].faults(f"refuses {UNIT}-1-green")
    with pytest.raises(HostFailed, match=f"{UNIT}-1-green.service generated no token"):
        PROVIDER.update(ONE, before, inputs(hosts, fast(with_sequences(example(), 20))))
    assert {answered_with(hosts) for _ in range(6)} == {"--max-num-seqs=24"}
    assert PROVIDER.read(ONE, before).outs == before


def test_a_first_version_that_does_not_serve_leaves_nothing_running(hosts: UnitHosts) -> None:
    hosts[ONE].faults("ends --max-num-seqs=24")
    with pytest.raises(HostFailed, match="nothing stands there, as before"):
        PROVIDER.create(inputs(hosts, fast(example())))
    assert hosts.shell(ONE, "ls /etc/systemd/system /etc/nginx/conf.d | grep -c rackwright") == "0\n"
    assert PROVIDER.read(ONE, inputs(hosts, fast(example()))).id == ""


def test_drift_is_seen_and_repaired(hosts: UnitHosts) -> None:
    wanted = inputs(hosts, fast(example()))
    PROVIDER.create(wanted)
    release = hosts.shell(ONE, f"readlink {ROOT}/current").strip()
    unit = f"units/{UNIT}-0-blue.service"
    hosts.shell(
        ONE,
        f"sed -i s/--max-num-seqs=24/--max-num-seqs=1/ {release}/{unit}; "
        f"echo 'limit_rate 1k;' >>{release}/nginx/server.conf; rm {release}/requests/*; chmod 644 "
        f"{release}/secrets.env; echo VLLM_API_KEY=other >{release}/secrets.env; "
        f"systemctl stop {UNIT}-1-blue.service; rm /etc/nginx/conf.d/rackwright-pro6000-hosts.conf",
    )
    seen = PROVIDER.read(ONE, wanted).outs
    assert "--max-num-seqs=1 " in seen["files"][unit]
    assert seen["files"]["nginx/server.conf"].endswith("limit_rate 1k;\n")
    assert "requests/qwen2-5-72b-instruct.json" not in seen["files"]
    assert seen["secret_files"] == {"secrets.env": DIFFERS}
    assert seen["modes"]["secrets.env"] == "0644"
    assert seen["state"] == {
        "qwen2-5-72b-instruct-0": "serves",
        "qwen2-5-72b-instruct-1": "is stopped",
        "front": "is not linked",
    }
    assert PROVIDER.diff(ONE, seen, wanted).changes is True
    PROVIDER.update(ONE, seen, wanted)
    assert PROVIDER.read(ONE, wanted).outs == wanted
    assert answered_with(hosts) == "--max-num-seqs=24"


def test_the_preview_shows_lines_and_hides_secrets(
    hosts: UnitHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    before = inputs(hosts, fast(example()))
    after = inputs(hosts, fast(with_sequences(example(), 32)), key="another-key-of-the-rack")
    assert PROVIDER.diff(ONE, before, after).changes is True
    told = capsys.readouterr().err
    assert "-    --max-num-seqs=24 \\\n" in told
    assert "+    --max-num-seqs=32\n" in told
    assert KEY not in told
    assert "another-key" not in told


def test_what_a_check_finds_is_told_all_at_once_and_changes_nothing(hosts: UnitHosts) -> None:
    before = inputs(hosts, fast(example()))
    PROVIDER.create(before)
    certificate = hosts[ONE].path("/etc/rackwright-tls/fullchain.pem")
    kept = certificate.read_text(encoding="ascii")
    broken = inputs(
        hosts,
        fast(
            with_sequences(example(), 32),
            deployments__0__engine__image=f"registry.example/x@sha256:{'1' * 64}",
        ),
    )
    broken["files"][f"units/{UNIT}-0-blue.service"] += "Surprise=yes\n"
    certificate.unlink()
    try:
        with pytest.raises(HostFailed) as caught:
            PROVIDER.update(ONE, before, broken)
    finally:
        certificate.write_text(kept, encoding="ascii")
    told = str(caught.value)
    assert "the image registry.example/x@sha256:1111" in told
    assert "manifest for registry.example/x" in told
    assert "Unknown key" in told
    assert "no file /etc/rackwright-tls/fullchain.pem" in told
    assert "cannot load certificate" in told
    assert "nothing was switched" in told
    assert answered_with(hosts) == "--max-num-seqs=24"
    assert PROVIDER.read(ONE, before).outs == before


def test_a_front_that_leads_nowhere_is_taken_back(hosts: UnitHosts) -> None:
    """All files are right, but the host's own nginx.conf does not include them."""
    before = inputs(hosts, fast(beside()))
    PROVIDER.create(before)
    main = hosts[ONE].path("/etc/nginx/nginx.conf")
    kept = main.read_text(encoding="ascii")
    main.write_text(kept.replace("include /etc/nginx/conf.d/*.conf;", ""), encoding="ascii")
    try:
        with pytest.raises(HostFailed, match="nginx did not lead to qwen2-5-72b-instruct") as caught:
            PROVIDER.update(ONE, before, inputs(hosts, fast(with_sequences(beside(), 32))))
    finally:
        main.write_text(kept, encoding="ascii")
    assert caught.value.rolled_back
    hosts.shell(ONE, "systemctl reload-or-restart nginx.service")
    assert answered_with(hosts) == "--max-num-seqs=24"
    assert PROVIDER.read(ONE, before).outs == before


def test_a_host_that_moved_is_found_at_its_new_address(hosts: UnitHosts) -> None:
    """The name stays: nothing is replaced, and the engines go on."""
    wanted = inputs(hosts, fast(example()))
    PROVIDER.create(wanted)
    elsewhere = {**wanted, "host": {**wanted["host"], "address": "127.67.9.9"}}
    told = PROVIDER.diff(ONE, elsewhere, wanted)
    assert told.changes is True
    assert told.replaces == []
    pids = hosts.shell(ONE, "cat /run/sim/*.container")
    PROVIDER.update(ONE, elsewhere, wanted)
    assert hosts.shell(ONE, "cat /run/sim/*.container") == pids


def test_a_host_that_is_down_fails_alone(hosts: UnitHosts) -> None:
    hosts.stop(TWO)
    with pytest.raises(HostFailed, match="pro6000-02 · must be reached by SSH · found connection refused"):
        PROVIDER.create(inputs(hosts, fast(example()), TWO))
    assert PROVIDER.create(inputs(hosts, fast(example()), ONE)).id == ONE
    with pytest.raises(HostFailed, match="must be reached"):
        PROVIDER.read(TWO, inputs(hosts, fast(example()), TWO))


def test_another_machine_at_the_address_is_refused(hosts: UnitHosts, tmp_path: Path) -> None:
    wanted = inputs(hosts, fast(example()))
    other = hosts.directory.joinpath("known_hosts").read_text(encoding="ascii").splitlines()
    swapped = tmp_path / "known_hosts"
    first, second = (line.split() for line in other)
    swapped.write_text(" ".join([first[0], *second[1:]]) + "\n", encoding="ascii")
    wanted["host"]["known_hosts"] = str(swapped)
    with pytest.raises(HostFailed, match="has CHANGED"):
        PROVIDER.create(wanted)
    swapped.write_text("", encoding="ascii")
    with pytest.raises(HostFailed, match="is not known"):
        PROVIDER.create(wanted)


def test_sudo_is_given_its_password_on_standard_input_only(hosts: UnitHosts) -> None:
    wanted = inputs(hosts, fast(example()))
    password = hosts[ONE].path("/run/sim/sudo-password")
    password.write_text("swordfish\n", encoding="ascii")
    try:
        with pytest.raises(HostFailed, match="rackwright:sudoPassword"):
            PROVIDER.create(wanted)
        with pytest.raises(HostFailed) as caught:
            PROVIDER.create({**wanted, "sudo_password": "halibut"})
        assert "halibut" not in str(caught.value)
        assert PROVIDER.create({**wanted, "sudo_password": "swordfish"}).id == ONE
    finally:
        password.unlink()
    assert answered_with(hosts) == "--max-num-seqs=24"


def test_a_cut_connection_leaves_no_half(hosts: UnitHosts) -> None:
    """The host goes on without us: the new version serves, though nobody waited for it."""
    before = inputs(hosts, fast(beside()))
    PROVIDER.create(before)
    after = inputs(hosts, fast(with_sequences(beside(), 32)))
    remote = _remote(after)
    release = remote.put("cut", {**after["files"], **after["secret_files"]}, after["modes"])
    remote.check(release, deadline_s=60)
    with pytest.raises(HostFailed, match="must stay reachable until it is done"):
        remote.activate(release, deadline_s=1.5)
    end = time.monotonic() + 60
    while "active cut" not in hosts.shell(ONE, f"readlink {ROOT}/current | sed 's,.*/,active ,'"):
        assert time.monotonic() < end
        time.sleep(0.5)
    assert answered_with(hosts) == "--max-num-seqs=32"


def test_two_changes_at_once_are_refused_and_a_dead_one_is_not_waited_for(hosts: UnitHosts) -> None:
    wanted = inputs(hosts, fast(example()))
    hosts.shell(ONE, f"mkdir -p {ROOT}/lock; echo 1 >{ROOT}/lock/pid")
    with pytest.raises(HostFailed, match="another change is under way"):
        PROVIDER.create(wanted)
    hosts.shell(ONE, f"echo 99999 >{ROOT}/lock/pid")
    assert PROVIDER.create(wanted).id == ONE


def test_a_host_that_runs_its_engine_without_docker(hosts: UnitHosts) -> None:
    """A Jetson: the same script, a program below /opt, its weights in one file."""
    plan = fast(sized("jetson"))
    (found,) = decide(plan)
    reached = load_inventory(hosts.inventory, plan=EXAMPLE).host(TWO)
    wanted = {
        **plain_properties(found, reached),
        "secret_files": {"secrets.env": f"LLAMA_API_KEY={KEY}\n"},
        "sudo_password": "",
    }
    with pytest.raises(HostFailed) as caught:
        PROVIDER.create(wanted)
    program = f"/opt/rackwright/engines/llama.cpp-{plan.deployments[0].engine.version}/bin/llama-server"
    assert f"no program {program}: install the engine there" in str(caught.value)
    assert "/var/lib/models/qwen3-8b: no such directory" in str(caught.value)
    hosts[TWO].program(program)
    with (hosts[TWO].weights("qwen3-8b", 8_000_000) / "model.gguf").open("wb") as file:
        file.truncate(8 << 30)
    PROVIDER.create(wanted)
    try:
        assert PROVIDER.read(TWO, wanted).outs == wanted
        told = hosts.shell(
            TWO,
            f"curl -sk --resolve small.llm.internal:443:127.0.0.1 -H 'Authorization: Bearer {KEY}' "
            "-d @/etc/rackwright/small/current/requests/qwen3-8b.json https://small.llm.internal/v1/completions",
        )
        assert "--host 127.0.0.1 --port 18000" in json.loads(told)["choices"][0]["text"]
    finally:
        PROVIDER.delete(TWO, wanted)


def test_a_delete_leaves_nothing_but_the_weights(hosts: UnitHosts) -> None:
    wanted = inputs(hosts, fast(beside()))
    PROVIDER.create(wanted)
    PROVIDER.update(ONE, wanted, inputs(hosts, fast(with_sequences(beside(), 32))))
    PROVIDER.delete(ONE, wanted)
    left = hosts.shell(
        ONE, "find /etc/rackwright /etc/systemd/system /etc/nginx/conf.d 2>/dev/null | grep -c rackwright-"
    )
    assert left == "0\n"
    assert not hosts[ONE].path("/etc/rackwright/x").parent.exists()
    assert hosts.shell(ONE, "ps ax | grep -c '[s]hims.py supervise'") == "0\n"
    assert hosts[ONE].path("/var/lib/models/qwen2.5-72b-instruct/config.json").exists()
    assert PROVIDER.read(ONE, wanted).id == ""
    PROVIDER.delete(ONE, wanted)
