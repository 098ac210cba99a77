"""Real servers and every way in which one can fail: one line each, in bounded time, others unharmed."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks.collect import build
from checks.fleet import collect_all, collect_host
from checks.registry import Command
from rackwright.inventory import Host
from remote import sshlib
from remote.transport import Network, Settings, execute
from tests.preflight.servers import Farm, free_port, needs_sshd

pytestmark = [pytest.mark.rack, needs_sshd]

QUICK = [Command("one", "echo 1"), Command("two", "cat /proc/version")]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    farm = Farm(tmp_path_factory.mktemp("farm"))
    yield farm
    farm.stop()


@pytest.fixture(scope="module")
def good(farm: Farm) -> Host:
    return farm.start("good")


def settings(farm: Farm, **changes: object) -> Settings:
    return replace(Settings(known_hosts=farm.known_hosts, inventory="hosts.ini"), **changes)  # type: ignore[arg-type]


def collect(farm: Farm, host: Host, commands: list[Command] | None = None, **changes: object):  # type: ignore[no-untyped-def]
    return collect_host(Network(settings(farm, **changes)), host, build(commands or QUICK, {}))


def test_a_good_host(farm: Farm, good: Host) -> None:
    capture = collect(farm, good)
    assert (capture.problem, capture.cut) == ("", "")
    assert capture.outputs["one"].stdout == "1\n"
    assert capture.outputs["two"].stdout.startswith("Linux version")


def test_a_command_that_hangs(farm: Farm, good: Host) -> None:
    begin = time.monotonic()
    capture = collect(farm, good, [Command("hang", "sleep 600", timeout_s=1), *QUICK])
    assert time.monotonic() - begin < 10
    assert capture.outputs["hang"].state == "timeout" and capture.outputs["one"].stdout == "1\n"


def test_a_hundred_megabytes_of_output(farm: Farm, good: Host) -> None:
    flood = Command("flood", "head -c 100000000 /dev/zero | tr '\\0' x", cap_bytes=2_000_000)
    capture = collect(farm, good, [flood, *QUICK])
    assert capture.outputs["flood"].state == "capped"
    assert len(capture.outputs["flood"].stdout) <= 2_000_000
    assert capture.outputs["two"].state == "done"


def test_a_login_that_floods(farm: Farm) -> None:
    host = farm.start("flooding", force="exec yes")
    capture = collect(farm, host, max_bytes=5_000_000, deadline_s=20.0)
    assert capture.problem.startswith("collection ended early: it sent more than 5,000,000 bytes; 0 of 2")


def test_a_login_that_chats_first(farm: Farm) -> None:
    host = farm.start(
        "chatty",
        force="echo Welcome; printf '\\n@rw 0 end 0\\n'; head -c 3000000 /dev/zero | tr '\\0' x >&2\n"
        'exec sh -c "$SSH_ORIGINAL_COMMAND"',
    )
    assert collect(farm, host).outputs["one"].stdout == "1\n"


def test_a_login_without_a_shell(farm: Farm) -> None:
    capture = collect(farm, farm.start("menu", force="echo 1 status; echo 2 quit; cat >/dev/null"))
    assert "no POSIX shell answered" in capture.problem


def test_nothing_listens(farm: Farm) -> None:
    port = free_port()
    capture = collect(farm, Host("x", "127.0.0.1", port=port))
    assert capture.problem == f"connection refused at 127.0.0.1:{port}: nothing listens there"
    assert capture.problem_next


def test_the_key_is_refused(farm: Farm) -> None:
    host = farm.start("refusing", authorised=False)
    capture = collect(farm, host)
    assert capture.problem.startswith(f"login refused: root@127.0.0.1:{host.port} (tried {farm.key}")
    assert capture.problem_next.startswith(f"try it by hand: ssh -p {host.port} -i")


def test_a_key_file_that_does_not_exist(farm: Farm, good: Host) -> None:
    capture = collect(farm, replace(good, key_file="/nonexistent/key"))
    assert "key file /nonexistent/key does not exist" in capture.problem


def test_an_unknown_host_key_names_the_command_that_enrols_it(farm: Farm) -> None:
    host = farm.start("stranger", enrolled=False)
    capture = collect(farm, host)
    assert capture.problem.startswith(
        f"host key of [127.0.0.1]:{host.port} is not known (ssh-ed25519 SHA256:"
    )
    assert capture.problem_next.startswith("rackwright enrol --hosts hosts.ini")


def test_a_changed_host_key_is_its_own_error(farm: Farm) -> None:
    host = farm.start("impostor", enrolled=False)
    farm.other_key(host.port or 0)
    capture = collect(farm, host)
    assert "has CHANGED" in capture.problem and "known_hosts:" in capture.problem
    assert f"ssh-keygen -R '[127.0.0.1]:{host.port}'" in capture.problem_next


def test_a_name_that_does_not_resolve(farm: Farm) -> None:
    capture = collect(farm, Host("x", "no-such-host.invalid"))
    assert capture.problem.startswith('the name "no-such-host.invalid" cannot be resolved')


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Accepts, and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


def test_a_server_that_never_speaks(farm: Farm, silent_port: int) -> None:
    begin = time.monotonic()
    capture = collect(farm, Host("x", "127.0.0.1", port=silent_port), banner_s=1.0)
    assert time.monotonic() - begin < 6
    assert "accepts connections but does not answer: no SSH banner within 1 s" in capture.problem


def test_a_server_that_speaks_another_protocol(farm: Farm) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)

        def answer() -> None:
            peer, _ = server.accept()
            peer.sendall(b"220 mail.example ESMTP\r\n" * 200)
            peer.close()

        threading.Thread(target=answer, daemon=True).start()
        capture = collect(farm, Host("x", "127.0.0.1", port=server.getsockname()[1]), banner_s=2.0)
    assert "not as an SSH server" in capture.problem


def test_the_deadline_ends_a_server_that_drips(farm: Farm) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)

        def drip() -> None:
            peer, _ = server.accept()
            try:
                while True:
                    peer.sendall(b"x\r\n")
                    time.sleep(0.2)
            except OSError:
                pass

        threading.Thread(target=drip, daemon=True).start()
        begin = time.monotonic()
        capture = collect(
            farm, Host("x", "127.0.0.1", port=server.getsockname()[1]), deadline_s=2.0, banner_s=60.0
        )
    assert time.monotonic() - begin < 8
    assert capture.problem


def test_a_script_that_never_ends_is_ended(farm: Farm) -> None:
    host = farm.start("stuck", force="exec sleep 300")
    begin = time.monotonic()
    capture = collect(farm, host, deadline_s=3.0)
    assert time.monotonic() - begin < 6
    assert "the time allowed for the host was used up" in capture.problem


def test_a_connection_that_is_cut_keeps_what_came(farm: Farm) -> None:
    host = farm.start("cutting", force='(sleep 2; kill -9 $PPID) & exec sh -c "$SSH_ORIGINAL_COMMAND"')
    commands = [Command("first", "echo kept"), Command("slow", "sleep 30; echo lost", timeout_s=60)]
    begin = time.monotonic()
    capture = collect(farm, host, commands)
    assert time.monotonic() - begin < 15
    assert capture.problem == "" and "the connection was cut" in capture.cut and "1 of 2" in capture.cut
    assert (capture.outputs["first"].stdout, capture.outputs["slow"].state) == ("kept\n", "incomplete")


def test_a_login_without_sudo(farm: Farm) -> None:
    host = farm.start(
        "plain-user",
        force="PATH=/usr/bin:/bin exec setpriv --reuid=65534 --regid=65534 --clear-groups "
        'sh -c "$SSH_ORIGINAL_COMMAND"',
    )
    capture = collect(farm, host, [Command("root", "dmesg", root=True), Command("user", "id -u")])
    assert capture.outputs["user"].stdout == "65534\n"
    assert capture.outputs["root"].state == "denied"


def test_bad_hosts_delay_no_good_one(farm: Farm, good: Host, silent_port: int) -> None:
    script = build(QUICK, {})
    hosts = [Host(f"dead-{n}", "127.0.0.1", port=silent_port) for n in range(4)]
    hosts += [replace(good, name=f"good-{n}") for n in range(4)]
    network = Network(settings(farm, banner_s=3.0))
    order = [c.host for c in collect_all(network, [(h, script) for h in hosts], forks=8)]
    assert sorted(order[:4]) == [f"good-{n}" for n in range(4)]
    assert len(order) == 8


def test_the_ssh_configuration_is_honoured_and_the_inventory_wins(
    farm: Farm, good: Host, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu-*\n  HostName 127.0.0.1\n  Port {good.port}\n  User root\n  IdentityFile {farm.key}\n"
        f"  UserKnownHostsFile {farm.known_hosts}\n"
    )
    network = Network(Settings(ssh_config=config))
    assert collect_host(network, Host("gpu-01", "gpu-01"), build(QUICK, {})).outputs["one"].stdout == "1\n"
    refused = collect_host(network, Host("gpu-01", "gpu-01", port=free_port()), build(QUICK, {}))
    assert refused.problem.startswith("connection refused")


def test_match_exec_of_the_ssh_configuration(farm: Farm, good: Host, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f'Match host gpu-01 exec "test %h = gpu-01"\n  HostName 127.0.0.1\n'
        f'Match exec "test %h = gpu-02"\n  Port {free_port()}\n'
        f"Host *\n  Port {good.port}\n  User root\n  IdentityFile {farm.key}\n"
        f"  UserKnownHostsFile {farm.known_hosts}\n"
    )
    at = Network(Settings(ssh_config=config)).endpoint(Host("gpu-01", "gpu-01"))
    assert (at.address, at.port) == ("127.0.0.1", good.port)


def test_a_match_exec_that_hangs_does_not_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.sshlib.MATCH_EXEC_S", 0.2)
    assert sshlib.run("sleep 30").ok is False
    assert (sshlib.run("exit 0").ok, sshlib.run("exit 3").ok) == (True, False)


def test_reaching_hosts_imports_nothing_slow_beside_paramiko() -> None:
    code = (
        "import sys, remote.transport;"
        "print(sorted({'asyncio', 'invoke', 'jinja2', 'pytest', 'unittest'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_jump_host(farm: Farm, good: Host, tmp_path: Path) -> None:
    jump = farm.start("jump")
    config = tmp_path / "config"
    config.write_text(
        f"Host bastion\n  HostName 127.0.0.1\n  Port {jump.port}\n  User root\n"
        f"Host *\n  IdentityFile {farm.key}\n  UserKnownHostsFile {farm.known_hosts}\n"
    )
    network = Network(Settings(ssh_config=config, known_hosts=farm.known_hosts))
    capture = collect_host(network, replace(good, proxy_jump="bastion"), build(QUICK, {}))
    assert capture.outputs.keys() == {"one", "two"}, capture.problem


def test_a_jump_host_that_refuses(farm: Farm, good: Host, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host bastion\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    network = Network(Settings(ssh_config=config, known_hosts=farm.known_hosts))
    capture = collect_host(network, replace(good, proxy_jump="bastion"), build(QUICK, {}))
    assert capture.problem.startswith(
        f"no SSH connection to 127.0.0.1:{good.port} through `ssh -o BatchMode=yes"
    )
    assert "-W '[127.0.0.1]" in capture.problem_next


def test_many_hosts_at_once(farm: Farm, good: Host) -> None:
    script = build(QUICK, {})
    jobs = [(replace(good, name=f"gpu-{n:02}"), script) for n in range(24)]
    captures = list(collect_all(Network(settings(farm)), jobs))
    assert {c.host for c in captures if not c.problem} == {f"gpu-{n:02}" for n in range(24)}


def test_execute_gives_status_and_both_streams(farm: Farm, good: Host) -> None:
    with Network(settings(farm)).connect(good, time.monotonic() + 30) as client:
        assert execute(client, "echo a; echo b >&2; exit 3", timeout_s=10) == (3, b"a\n", b"b\n")
        big = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"
        rc, out, err = execute(client, big, timeout_s=20)
        assert (rc, len(out), len(err)) == (0, 3_000_000, 3_000_000)
