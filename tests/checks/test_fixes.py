"""Every remedy that the program may apply, run for real on files and tools of a made-up host.

It mends what its check reads, and its inverse restores every byte.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks import registry
from checks.registry import RegistryError, check
from checks.remediate import Action, actions
from rackwright.inventory import Host
from rackwright.plan import Plan
from rackwright.verdict import Outcome, Result, Severity, Status, passed
from tests.preflight.plans import small_plan

SAFE = {name: item for name, item in registry.load().items() if item.fix is not None and item.fix.safe}
STATE = """\
#!/bin/sh
# A tool with one file of state; how it changes is read off the real tool's manual.
s={root}/state-of-{tool}
"""
TOOLS = {
    "nvidia-smi": """case "$*" in
  "-pm 1") sed 's/Disabled/Enabled/' "$s" >"$s.n"; mv "$s.n" "$s" ;;
  "-i "*" -pm 0") sed "s/^$2, Enabled, /$2, Disabled, /" "$s" >"$s.n"; mv "$s.n" "$s" ;;
  "-pl "*) sed "s/[0-9.]*\\$/$2.00/" "$s" >"$s.n"; mv "$s.n" "$s" ;;
  "-i "*" -pl "*) sed "s/^\\($2, .*, \\).*/\\1$4/" "$s" >"$s.n"; mv "$s.n" "$s" ;;
  *persistence_mode*) cut -d, -f1,2 "$s" ;;
  *power.limit*) cut -d, -f1,3 "$s" ;;
  *) exit 9 ;;
esac
""",
    "systemctl": """case "$*" in
  "is-active nvidia-persistenced") cat "$s"; grep -qx active "$s" ;;
  "start nvidia-persistenced") echo active >"$s" ;;
  "stop nvidia-persistenced") echo inactive >"$s" ;;
  *) exit 9 ;;
esac
""",
    "swapoff": """[ "$*" = -a ] && sed -n 1p {root}/proc/swaps >"$s" && cat "$s" >{root}/proc/swaps && : >"$s"
""",
    "tee": """case "$1" in
  */transparent_hugepage/enabled)  # the kernel marks the word that was written
    read -r w; echo 'always madvise never' | sed "s/$w/[$w]/" >"$1" ;;
  *) exec /usr/bin/tee "$@" ;;
esac
""",
    "swapon": """printf '%s file 8388604 0 -2\\n' "$1" >>{root}/proc/swaps
""",
}
FILES = {
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "schedutil\n",
    **{
        f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}/{name}": f"{value}\n"
        for cpu in (0, 1)
        for number, state in enumerate(("POLL", "C1", "C6"))
        for name, value in (("name", state), ("disable", "0"))
    },
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/swaps": "Filename Type Size Used Priority\n/swap.img file 8388604 0 -2\n/swap2 file 8388604 0 -2\n",
    "proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 90 kB\nSwapTotal: 20 kB\nSwapFree: 15 kB\n",
    "state-of-nvidia-smi": "0, Disabled, 500.00\n1, Enabled, 700.00\n",
    "state-of-systemctl": "inactive\n",
    "state-of-swapoff": "",
    "state-of-swapon": "",
}
MENDED = {
    "os-thp": {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"},
    "os-governor": {
        f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "performance\n" for cpu in (0, 1)
    },
    "os-cstates": {f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state2/disable": "1\n" for cpu in (0, 1)},
    "os-numa": {"proc/sys/kernel/numa_balancing": "0\n"},
    "os-swap": {"proc/swaps": "Filename Type Size Used Priority\n"},
    "gpu-persistence": {
        "state-of-nvidia-smi": "0, Enabled, 500.00\n1, Enabled, 700.00\n", "state-of-systemctl": "active\n",
    },
    "gpu-power-limit": {"state-of-nvidia-smi": "0, Disabled, 650.00\n1, Enabled, 650.00\n"},
}  # fmt: skip


def plan() -> Plan:
    made = small_plan(("gpu-01",))
    expected = made.expectations["h200"]
    os_part = expected.os.model_copy(
        update={"governor": "performance", "cstates_allowed": ("POLL", "C1"), "swap": False,
                "numa_balancing": False}
    )  # fmt: skip
    gpu = expected.gpu.model_copy(update={"persistence": True, "power_limit_w": 650.0})
    return made.model_copy(
        update={"expectations": {"h200": expected.model_copy(update={"os": os_part, "gpu": gpu})}}
    )


@dataclass
class Machine:
    root: Path

    def files(self) -> dict[str, str]:
        return {name: (self.root / name).read_text() for name in FILES}

    def run(self, commands: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """As on the host, with the made-up trees in the place of /sys and /proc."""
        text = re.sub(r"(?<![\w/])/(?=sys/|proc/)", f"{self.root}/", "\n".join(commands))
        return subprocess.run(
            [shutil.which("dash") or "sh", "-s"], input=f"set -e\n{text}\n", capture_output=True, text=True,
            check=False, env={**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "LC_ALL": "C"},
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "bin").mkdir()
    for tool, body in TOOLS.items():
        path = tmp_path / "bin" / tool
        path.write_text((STATE + body).replace("{root}", str(tmp_path)).replace("{tool}", tool))
        path.chmod(0o755)
    return Machine(tmp_path)


def action(name: str, made: Plan | None = None) -> Action:
    bad = Result(check=name, subject="gpu-01", severity=Severity.MAJOR, status=Status.FAIL)
    (found,), left = actions(
        made or plan(), [Host("gpu-01", "x", pool="h200", rack="r01")], [SAFE[name]], [bad]
    )
    assert left == {}
    return found


def test_every_safe_remedy_is_proven_here() -> None:
    assert set(MENDED) == set(SAFE)


@pytest.mark.parametrize("name", MENDED)
def test_a_remedy_mends_and_its_inverse_restores(name: str, machine: Machine) -> None:
    todo = action(name)
    assert "{was}" in todo.inverse and not [n for n, _ in SAFE[name].fix.values if f"{{{n}}}" in str(todo)]
    before = machine.run([todo.before])
    assert before.returncode == 0, before.stderr
    assert machine.files() == FILES  # looking changes nothing
    done = machine.run(todo.commands)
    assert done.returncode == 0, done.stderr
    assert machine.files() == {**FILES, **MENDED[name]}
    back = machine.run([todo.inverse.replace("{was}", shlex.quote(before.stdout.strip()))])
    assert back.returncode == 0, back.stderr
    assert machine.files() == FILES


def test_swap_in_use_that_does_not_fit_is_left_on(machine: Machine) -> None:
    (machine.root / "proc/meminfo").write_text("MemAvailable: 90 kB\nSwapTotal: 90 kB\nSwapFree: 10 kB\n")
    done = machine.run(action("os-swap").commands)
    assert done.returncode == 3 and "does not fit" in done.stderr
    assert machine.files()["proc/swaps"] == FILES["proc/swaps"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"swap": True}, "the remedy is for os.swap False; the plan says True"),
        ({"swap": None}, "the remedy is for os.swap False; the plan says None"),
    ],
)
def test_a_plan_that_wants_something_else_is_left_alone(change: dict[str, bool | None], why: str) -> None:
    made = plan()
    expected = made.expectations["h200"]
    os_part = expected.os.model_copy(update=change)
    made = made.model_copy(update={"expectations": {"h200": expected.model_copy(update={"os": os_part})}})
    bad = Result(check="os-swap", subject="gpu-01", severity=Severity.MAJOR, status=Status.FAIL)
    found, left = actions(made, [Host("gpu-01", "x", pool="h200")], [SAFE["os-swap"]], [bad])
    assert (found, left) == ([], {"gpu-01 os-swap": why})


@pytest.mark.parametrize("status", [Status.PASS, Status.NOT_APPLICABLE, Status.ERROR])
def test_only_what_was_measured_and_is_wrong_is_mended(status: Status) -> None:
    result = Result(
        check="os-thp", subject="gpu-01", severity=Severity.MAJOR, status=status, message="timeout"
    )
    found, left = actions(plan(), [Host("gpu-01", "x", pool="h200")], [SAFE["os-thp"]], [result])
    assert found == []
    assert left == ({"gpu-01 os-thp": "could not be measured: timeout"} if status == "error" else {})


def _judge(_view: object, _want: object) -> Outcome:
    """Why."""
    return passed("x")


def test_a_remedy_without_its_inverse_is_refused() -> None:
    with pytest.raises(RegistryError, match="a fix has commands, before and inverse"):
        check(
            id="x-y",
            title="t",
            severity=Severity.MAJOR,
            commands=(),
            expects="",
            remedy="r",
            reversible=True,
            source="s",
            fix=registry.Fix(commands=("reboot",)),
        )(_judge)
