"""Inventories that would leak a secret into a message, or run a command on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import CannotRun, InputErrors
from rackwright.inventory import Host, load_inventory
from remote.transport import Network, Settings, UnreachableError

HEADS = {"vars": "g1\n[all:vars]\n", "hosts": "[g]\n", "children": "[g]\ng1\n[h:children]\n", "top": ""}
LINES = [
    'ansible_become_pass="HUNTER2',
    "ansible_become_pass='my HUNTER2",
    "ansible_become_pass: HUNTER2",
    "ansible_become_pass:HUNTER2==",
    "ansible_become_pass HUNTER2",
    "ansible_become_pass: HUNTER2=",
    "g1 ansible_become_pass=my HUNTER2",
    "g1 ansible_become_pass=my HUNTER2 HUNTER2 x=1",
    "g1 ansible_become_pass = HUNTER2",
    "g1 ansible_become_pass: HUNTER2",
    'g1 "HUNTER2',
    "g1 rack=r1 'HUNTER2 x=y",
    "api_key={{ x }}HUNTER2",
    "api_key=HUNTER2{{ x }}",
    "g1 bmc_pw=HUNTER2{{ x }}",
    "g1 bmc_pw='HUNTER2 {{ x }}",
    "api_key=HUNTER2[1:x]",
    "g1 api_key='HUNTER2",
    "g1 ansible_port='22 bmc_pw=HUNTER2'",
    "ansible_port=22 bmc_pw=HUNTER2",
    "g1 ansible_host='a HUNTER2'",
    "g1 ansible_user='a HUNTER2'",
    "g1 ansible_connection='winrm bmc_pw=HUNTER2'",
    "g1 ansible_password=HUNTER2",
    "g1 bmc_pw=a\ng1 bmc_pw=HUNTER2\n[z]\ng1 bmc_pw=HUNTER2",
    "api_key=a\napi_key=HUNTER2",
    "plan=plan.yaml bmc_pw=HUNTER2",
    "HUNTER2",
    *(
        f"g1 ansible_ssh_common_args='{args}'"
        for args in (
            '-o ProxyCommand="sshpass -p HUNTER2 ssh x"',
            "-o ProxyCommand=sshpass -p HUNTER2 -pHUNTER2",
            "-o SetEnv=TOKEN=HUNTER2",
            "-oHUNTER2",
            "-o ProxyJump=-oProxyCommand=HUNTER2",
            '-o "HUNTER2',
        )
    ),
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("head", HEADS)
def test_no_message_holds_a_value(tmp_path: Path, head: str, line: str) -> None:
    (tmp_path / "plan.yaml").touch()
    path = tmp_path / "hosts.ini"
    path.write_text(f"{HEADS[head]}{line}\n[all:vars]\nplan=plan.yaml\n")
    try:
        inventory = load_inventory(path)
    except InputErrors as error:
        if line != "HUNTER2" or head == "vars":  # a word alone is a group or a host elsewhere
            assert "HUNTER2" not in str(error)
    else:
        assert line == "HUNTER2" or "HUNTER2" not in repr(inventory)


def problems(tmp_path: Path, line: str) -> str:
    (tmp_path / "plan.yaml").touch()
    path = tmp_path / "hosts.ini"
    path.write_text(f"[g]\n{line}\n[all:vars]\nplan=plan.yaml\n")
    with pytest.raises(InputErrors) as caught:
        load_inventory(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'g1 api_key="HUNTER2',
            ':2 · a quoted value must end with its quote · found "g1 api_key=…"',
        ),
        ("g1 api_key=my HUNTER2", "found a word (not shown) after api_key=…"),
        ("g1 api_key=a\n[z]\ng1 api_key=b", 'found "api_key=…", another at line 2'),
        ("g1 ansible_port=ssh", 'found "ssh"'),
        ("g1 ansible_host='$(touch /tmp/x)'", "found \"ansible_host=…\" with the character '$'"),
        ("g1 ansible_user='a;b'", "found \"ansible_user=…\" with the character ';'"),
        ("g1 ansible_host=-oProxyCommand", 'with a leading "-"'),
        ("g1 ansible_ssh_common_args='-o ProxyJump=-oProxyCommand'", "ProxyJump is [user@]host[:port]"),
        ("g1 ansible_ssh_common_args='-J a,$(b)'", "ProxyJump is [user@]host[:port]"),
        ("g1 ansible_port=²²", 'ansible_port is a number from 1 to 65535 · found "²²"'),
        ("g1 ansible_port=" + "9" * 5000, "ansible_port is a number from 1 to 65535"),
        ("g1:99999", "a port is a number from 1 to 65535"),
        ("g[²:³]", "a range is"),
        ("g[1:3:²]", "a range is"),
    ],
)
def test_what_is_said_instead(tmp_path: Path, line: str, said: str) -> None:
    assert said in problems(tmp_path, line)


def network(tmp_path: Path, config: str) -> Network:
    (tmp_path / "config").write_text(config)
    return Network(Settings(ssh_config=tmp_path / "config"))


def test_a_proxy_command_gets_the_inventorys_values(tmp_path: Path) -> None:
    net = network(
        tmp_path, "Host *\n  HostName 10.0.0.9\n  Port 7\n  User x\n  ProxyCommand nc %h %p %r %n 9%%\n"
    )
    at = net.endpoint(Host("g1", "gpu", port=2222, user="ops"))
    assert at.proxy_command == "nc 10.0.0.9 2222 ops gpu 9%"
    assert net.endpoint(Host("g1", "gpu")).proxy_command == "nc 10.0.0.9 7 x gpu 9%"


def test_what_a_configuration_puts_into_a_proxy_command_is_one_word(tmp_path: Path) -> None:
    net = network(tmp_path, "Host *\n  HostName a;$(b)\n  User c`d`\n  ProxyCommand nc %h %r\n")
    assert net.endpoint(Host("g1", "gpu")).proxy_command == "nc 'a;$(b)' 'c`d`'"


@pytest.mark.parametrize("host", [Host("g1", "$(touch pwn)"), Host("g1", "a", user="a;b"), Host("g1", "-o")])
def test_an_address_that_is_none_goes_nowhere(tmp_path: Path, host: Host) -> None:
    with pytest.raises(UnreachableError, match="of g1 holds more than letters"):
        network(tmp_path, "Host *\n  ProxyCommand nc %h %p %r\n").endpoint(host)


def test_the_jump_host_is_no_option(tmp_path: Path) -> None:
    net = network(tmp_path, "Host bad\n  ProxyJump -oProxyCommand=x\nHost good\n  ProxyJump a,ops@b:22\n")
    assert net.endpoint(Host("g1", "good")).proxy_command.endswith(" -J a -p 22 -W '[good]:22' -- ops@b")
    with pytest.raises(UnreachableError, match="begins with -"):
        net.endpoint(Host("g1", "bad"))
    with pytest.raises(UnreachableError, match="begins with -"):
        net.endpoint(Host("g1", "x", proxy_jump="a,-b"))


def test_an_ssh_configuration_that_is_given_must_be_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(CannotRun) as caught:
        Network(Settings(ssh_config=absent))
    said = str(caught.value)
    assert said.startswith(
        f"{absent} · --ssh-config must be a readable ssh configuration · found No such file"
    )
    assert "    why   " in said and "    next  " in said
    with pytest.raises(CannotRun, match="found a line that is none of ssh's"):
        network(tmp_path, "HUNTER2\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Network(Settings()).endpoint(Host("g1", "gpu")).port == 22
