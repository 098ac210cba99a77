"""Inventories that would leak a secret into a message, or run a command on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import InputErrors
from rackwright.inventory import load_inventory

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
