"""The collector script under real shells: deadlines, caps, quoting, missing tools, refused root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from checks import collect, registry
from checks.collect import VARIABLES, build, commands_of, run_order, tool_of, variables_for
from checks.frames import Reader
from checks.registry import Command
from rackwright.plan import NotApplicable
from tests.preflight.plans import small_plan
from tests.preflight.shells import SHELLS, a_check, bin_without, collect_here


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    return SHELLS[request.param]


def test_outputs_come_back_as_printed(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "value").write_text("one\ntwo, no newline at the end")
    commands = [
        Command("file", f"cat {tmp_path}/value"),
        Command("both", "echo out; echo err >&2; exit 3"),
        Command("nothing", "true"),
        Command("glob", f"ls {tmp_path}/val*"),
        Command("bytes", r"printf 'a\377b\000c\r\n'"),
        Command("marker", r"printf '\n@rw 0 end 6\n'"),
    ]
    got, reader, done = collect_here(commands, shell=shell)
    assert reader.ended and done.returncode == 0 and done.stderr == b""
    assert got["file"].stdout == "one\ntwo, no newline at the end"
    assert (got["both"].rc, got["both"].stdout, got["both"].stderr) == (3, "out\n", "err\n")
    assert (got["nothing"].state, got["nothing"].stdout) == ("done", "")
    assert got["glob"].stdout == f"{tmp_path}/value\n"
    assert got["bytes"].stdout == "a\ufffdb\x00c\r\n"
    assert got["marker"].stdout == "\n@rw 0 end 6\n"


def test_a_command_is_stopped_at_its_deadline_with_its_children(shell: list[str]) -> None:
    begin, nap = time.monotonic(), f"sleep 61.{time.monotonic_ns()}"
    got, reader, _ = collect_here(
        [
            Command("slow", f"echo begun; {nap} | cat", timeout_s=1),
            Command("after", "echo still here"),
        ],
        shell=shell,
    )
    assert time.monotonic() - begin < 10
    assert (got["slow"].state, got["slow"].stdout) == ("timeout", "begun\n")
    assert got["after"].stdout == "still here\n" and reader.ended
    assert nap not in subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout


def test_a_host_without_proc_keeps_its_deadlines(shell: list[str]) -> None:
    script = build([Command("slow", "sleep 30", timeout_s=1), Command("fine", "echo x")], {})
    text = script.text("n", 20).replace("/proc/uptime", "/nonexistent")
    done = subprocess.run([*shell, "-s"], input=text.encode(), capture_output=True, timeout=20, check=False)
    reader = Reader(script, "n")
    reader.feed(done.stdout)
    got = reader.finish()
    assert reader.ended and (got["slow"].state, got["fine"].stdout) == ("timeout", "x\n")


def test_a_tool_that_hung_is_not_asked_again() -> None:
    begin = time.monotonic()
    got, _, _ = collect_here(
        [Command("one", "sleep 30", timeout_s=1), Command("two", "sleep 31", timeout_s=20)]
    )
    assert time.monotonic() - begin < 10
    assert got["two"].state == "skipped"
    assert got["two"].stderr == "not started: sleep did not answer an earlier call"


def _tool(directory: Path, name: str, text: str) -> dict[str, str]:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{text}\n")
    (directory / name).chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


def test_a_hang_among_quick_commands_costs_only_itself(shell: list[str], tmp_path: Path) -> None:
    environment = _tool(tmp_path / "bin", "stuck", f"echo $$ >>{tmp_path}/asked; exec sleep 60")
    commands = [
        Command("before", "cat /proc/version"),
        Command("stuck", "stuck -a", timeout_s=2),
        Command("again", "stuck -b", timeout_s=2),
        Command("after", "echo out; echo err >&2; exit 3"),
    ]
    got, reader, _ = collect_here(commands, shell=shell, env=environment)
    assert reader.ended and got["before"].stdout.startswith("Linux")
    assert (got["after"].stdout, got["after"].stderr, got["after"].rc) == ("out\n", "err\n", 3)
    assert (got["stuck"].state, got["again"].state) == ("timeout", "skipped")
    assert len((tmp_path / "asked").read_text().split()) == 1


def test_quick_commands_that_are_slow_together_each_get_their_own_time(
    monkeypatch: pytest.MonkeyPatch, shell: list[str]
) -> None:
    monkeypatch.setattr(collect, "_TOGETHER_S", 1)
    commands = [Command(f"k{n}", f"sleep 0.7; echo {n}") for n in range(3)]
    got, reader, _ = collect_here(commands, shell=shell)
    assert reader.ended
    assert [(out.state, out.stdout) for out in got.values()] == [("done", f"{n}\n") for n in range(3)]


def test_calls_of_one_slow_device_that_hangs_at_the_second(tmp_path: Path) -> None:
    environment = _tool(tmp_path / "bin", "device", "case $1 in -L) echo one ;; *) exec sleep 60 ;; esac")
    commands = [
        Command("list", "device -L", timeout_s=21),
        Command("hangs", "device -q", timeout_s=21),
        Command("never", "device -L", timeout_s=45),
    ]
    text = build(commands, {}).body
    assert "rw_groups - 21 0 1 2" in text
    begin = time.monotonic()
    got, reader, _ = collect_here(commands, env=environment, deadline_s=3)
    assert time.monotonic() - begin < 12 and reader.ended
    assert (got["list"].stdout, got["hangs"].state, got["never"].state) == ("one\n", "timeout", "skipped")
    assert got["never"].stderr == "not started: device did not answer an earlier call" or (
        got["never"].stderr == "not started: the time allowed for the host was used up"
    )


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "slow"])
def test_a_tool_that_ignores_its_end_is_killed(quick: bool, tmp_path: Path) -> None:
    """It stands for one that hangs in a driver: the first signal does nothing."""
    nap = f"sleep 61.{time.monotonic_ns()}"
    environment = _tool(tmp_path / "bin", "deaf", f"trap '' TERM; {nap}; {nap}")
    commands = [Command("deaf", "deaf", timeout_s=1 if quick else 21), Command("x", "echo x")]
    begin = time.monotonic()
    got, reader, _ = collect_here(commands, env=environment, deadline_s=20 if quick else 3)
    assert time.monotonic() - begin < 14 and reader.ended
    assert (got["deaf"].state, got["x"].stdout) == ("timeout", "x\n")
    assert nap not in subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout


def test_a_reader_that_hung_is_asked_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    got, _, _ = collect_here(
        [Command("one", f"cat {tmp_path}/pipe", timeout_s=1), Command("two", f"cat {tmp_path}/file")]
    )
    assert (got["one"].state, got["two"].stdout) == ("timeout", "x")


def test_the_hosts_time_is_shared(shell: list[str]) -> None:
    commands = [
        Command("one", "sh -c 'sleep 30'", timeout_s=20),
        Command("two", "sh -c 'sleep 30'", timeout_s=20),
    ]
    begin = time.monotonic()
    got, reader, _ = collect_here([*commands, Command("three", "echo x")], shell=shell, deadline_s=2)
    assert time.monotonic() - begin < 8
    assert got["one"].state == "timeout" and reader.ended
    assert {got["two"].state, got["three"].state} == {"skipped"}


def test_output_beyond_the_cap_is_cut(shell: list[str]) -> None:
    got, reader, _ = collect_here(
        [
            Command("flood", "head -c 100000000 /dev/zero", cap_bytes=1_000_000),
            Command("pipe", "yes | cat", cap_bytes=10_240),
            Command("after", "echo x"),
        ],
        shell=shell,
    )
    assert reader.ended
    assert got["flood"].state == "capped" and len(got["flood"].stdout) == 64_000
    assert got["pipe"].state == "capped" and len(got["pipe"].stdout) == 10_240
    assert got["after"].stdout == "x\n"


def test_a_missing_tool_is_missing_and_not_a_failure(shell: list[str]) -> None:
    got, _, _ = collect_here(
        [Command("plain", "no-such-tool -q"), Command("inside", "cd /; no-such-tool -q")], shell=shell
    )
    assert {got["plain"].state, got["inside"].state} == {"missing"}


@pytest.mark.parametrize("lacking", [("timeout",), ("timeout", "perl")], ids=["perl", "plain shell"])
def test_deadlines_hold_without_timeout_1(lacking: tuple[str, ...], shell: list[str], tmp_path: Path) -> None:
    path = bin_without(tmp_path / "bin", *lacking)
    commands = [
        Command("slow", "echo a; exec sleep 60", timeout_s=1),
        Command("rc", "exit 7"),
        Command("fine", "echo b"),
    ]
    script = build(commands, {})
    text = re.sub(r"^PATH=.*$", f"PATH={path}; export PATH", script.text("n0", 30), flags=re.MULTILINE)
    begin = time.monotonic()
    done = subprocess.run([shutil.which(shell[0]) or "", *shell[1:], "-s"], input=text.encode(),
                          capture_output=True, timeout=40, env={"PATH": path}, check=False)  # fmt: skip
    reader = Reader(script, "n0")
    reader.feed(done.stdout)
    assert time.monotonic() - begin < 15
    assert reader.ended, done
    got = reader.finish()
    assert (got["slow"].state, got["slow"].stdout) == ("timeout", "a\n")
    assert (got["rc"].rc, got["fine"].stdout) == (7, "b\n")


HOSTILE = "a'; touch {mark}; '$(touch {mark})`touch {mark}`\"\n& \\"


def test_values_of_the_plan_reach_the_commands_quoted(shell: list[str], tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    value = HOSTILE.format(mark=mark)
    command = Command("dir", 'printf %s "$RW_MODEL_DIR"', variables=("RW_MODEL_DIR",))
    got, _, _ = collect_here([command], {"RW_MODEL_DIR": value}, shell=shell)
    assert got["dir"].stdout == value
    assert not mark.exists()


def test_the_script_of_every_registered_check_is_accepted_by_every_shell(shell: list[str]) -> None:
    commands = commands_of(registry.load().values())
    plan = small_plan()
    script = build(commands, variables_for(commands, plan.expectations["h200"]))
    done = subprocess.run(
        [*shell, "-n"], input=script.text("x", 9).encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_script_that_was_cut_on_its_way_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = build([Command("x", f"touch {mark}"), Command("y", "echo y")], {}).text("n", 9)
    for cut in range(0, len(text) - 2, 97):
        subprocess.run(["dash", "-s"], input=text[:cut].encode(), capture_output=True, check=False)
    assert not mark.exists()


def test_commands_are_run_once_and_short_deadlines_first() -> None:
    shared = Command("shared", "nvidia-smi -L", timeout_s=30)
    late = Command("late", "nvidia-smi -q", timeout_s=45)
    first = a_check("a-one", late, shared)
    assert [c.key for c in commands_of([first, a_check("a-two", shared, Command("c", "cat /x"))])] == [
        "c",
        "shared",
        "late",
    ]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("nvidia-smi -q", "nvidia-smi"),
        ("  cat /x", "cat"),
        ("for f in a; do :; done", ""),
        ("[ -e x ] && cat x", ""),
        ("X=1 cat y", ""),
        ("if true; then :; fi", ""),
        ("lspci -vvv 2>/dev/null | grep x", "lspci"),
    ],
)
def test_the_tool_of_a_command(text: str, tool: str) -> None:
    assert tool_of(Command("x", text)) == tool


def test_variables_come_from_the_expectations() -> None:
    command = Command("x", "true", variables=("RW_MODEL_DIR", "RW_NTP"))
    expected = small_plan().expectations["h200"]
    storage = expected.storage.model_copy(update={"model_dir": "/srv/models"})
    os_part = expected.os.model_copy(update={"ntp": ("a", "b")})
    got = variables_for([command], expected.model_copy(update={"storage": storage, "os": os_part}))
    assert got == {"RW_MODEL_DIR": "/srv/models", "RW_NTP": "a b"}
    off = expected.storage.model_copy(update={"model_dir": NotApplicable(not_applicable="no disks")})
    assert variables_for([command], expected.model_copy(update={"storage": off}))["RW_MODEL_DIR"] == ""


def test_every_declared_variable_is_known() -> None:
    declared = {v for item in registry.load().values() for c in item.commands for v in c.variables}
    assert declared <= set(VARIABLES)


def test_no_temporary_directory_is_one_clear_error(tmp_path: Path) -> None:
    script = build([Command("x", "echo x")], {})
    text = script.text("n", 9).replace("/dev/shm", "/nonexistent").replace(" /tmp;", " /nonexistent;")
    done = subprocess.run(["dash", "-s"], input=text.encode(), capture_output=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "TMPDIR": "/nonexistent"})  # fmt: skip
    reader = Reader(script, "n")
    reader.feed(done.stdout)
    assert reader.fatal.startswith("no temporary directory could be made in")
    assert done.returncode == 3


root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.mark.rack
@root
def test_root_is_asked_for_once_and_refused() -> None:
    commands = [Command("a", "id -u", root=True), Command("b", "id -un", root=True), Command("c", "id -u")]
    got, _, _ = collect_here(commands, user=65534, env={"PATH": "/usr/bin:/bin"})
    if shutil.which("sudo") is None:
        assert {got["a"].state, got["b"].state} == {"denied"}
    assert got["c"].stdout == "65534\n"


@pytest.mark.rack
@root
def test_root_commands_go_through_sudo_with_their_variables(tmp_path: Path) -> None:
    fake = tmp_path / "sudo"
    log = tmp_path / "log"
    log.touch()
    log.chmod(0o666)
    fake.write_text(f'#!/bin/sh\nprintf "%s " "$@" >>{log}\necho >>{log}\n[ "$1" = -n ] || exit 9\nshift\n'
                    'exec env -i "$@"\n')  # fmt: skip
    fake.chmod(0o755)
    for parent in (tmp_path, *tmp_path.parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    command = Command("a", 'echo "$RW_TOOLS $LC_ALL"', root=True, variables=("RW_TOOLS",))
    got, _, _ = collect_here(
        [command], {"RW_TOOLS": "x y"}, user=65534, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )
    assert got["a"].stdout == "x y C\n"
    calls = log.read_text().splitlines()
    assert [line for line in calls if line.startswith("-n ")] == [calls[0]], "one sudo for all of them"


@pytest.mark.rack
@root
@pytest.mark.parametrize("user", [0, 65534])
def test_every_kind_of_command_beside_the_others(user: int, shell: list[str], tmp_path: Path) -> None:
    """Quick and slow, of root and of the login, alone and several of one tool: each is run once."""
    log = tmp_path / "bin" / "log"
    environment = _tool(tmp_path / "bin", "sudo", 'shift; exec "$@"')
    for name in ("one", "two"):
        _tool(tmp_path / "bin", name, f'echo "{name} $*" | tee -a {log}')
    log.touch()
    log.chmod(0o666)
    for parent in (tmp_path / "bin", *(tmp_path / "bin").parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    commands = [
        Command(f"{tool}-{n}-{limit}-{privileged}", f"{tool} {n} {limit} {privileged}",
                timeout_s=limit, root=bool(privileged))
        for tool in ("one", "two") for n in (1, 2) for limit in (20, 45) for privileged in (0, 1)
    ]  # fmt: skip
    got, reader, _ = collect_here(commands, shell=shell, user=user, env=environment)
    assert reader.ended
    assert {key: out.stdout for key, out in got.items()} == {c.key: f"{c.shell}\n" for c in commands}
    ran = log.read_text().splitlines()
    assert sorted(ran) == sorted(c.shell for c in commands)
    assert user == 0 or ran == [c.shell for c in run_order(commands)]


@pytest.mark.rack
@root
def test_a_refused_root_keeps_the_rest(tmp_path: Path) -> None:
    environment = _tool(tmp_path / "bin", "sudo", "echo sudo: a password is required >&2; exit 1")
    for parent in (tmp_path / "bin", *(tmp_path / "bin").parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    commands = [
        Command("quick", "id -u", root=True),
        Command("slow", "cat /etc/shadow", root=True, timeout_s=45),
        Command("plain", "echo x"),
        Command("last", "echo y", timeout_s=45),
    ]
    got, reader, _ = collect_here(commands, user=65534, env=environment)
    assert reader.ended
    assert [(k, out.state) for k, out in got.items()] == [
        ("quick", "denied"), ("slow", "denied"), ("plain", "done"), ("last", "done"),
    ]  # fmt: skip


@pytest.mark.rack
@root
def test_a_root_shell_that_dies_is_no_complete_collection(tmp_path: Path) -> None:
    environment = _tool(tmp_path / "bin", "sudo", 'shift; exec "$@"')
    for parent in (tmp_path / "bin", *(tmp_path / "bin").parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    commands = [
        Command("first", "echo 1", root=True, timeout_s=45),
        Command("kills", "kill -9 $(ps -o ppid= -p $PPID)", root=True, timeout_s=45),
        Command("plain", "echo x"),
    ]
    got, reader, _ = collect_here(commands, user=65534, env=environment)
    assert not reader.ended and got["plain"].stdout == "x\n"
    assert got["kills"].state == "incomplete"


_WRITES = re.compile(
    r"(?<![0-9&>])[0-9]?>>?(?!&|\s*/dev/null)\s*\S"
    r"|\b(rm|mv|cp|tee|dd|mkdir|touch|chmod|chown|ln|kill|modprobe|insmod|rmmod"
    r"|systemctl\s+(start|stop|restart|enable|disable))\s"
)


def test_no_registered_command_of_tier_0_writes() -> None:
    guilty = {
        c.key: c.shell
        for item in registry.load().values()
        if item.tier == 0
        for c in item.commands
        if _WRITES.search(re.sub(r"'[^']*'|\"[^\"]*\"", "''", c.shell))
    }
    assert guilty == {}


@pytest.mark.rack
@root
def test_collecting_leaves_nothing_behind(tmp_path: Path) -> None:
    """The whole tier 0 in an overlay of this machine: afterwards the overlay has not one changed file."""
    commands = commands_of(item for item in registry.load().values() if item.tier == 0)
    script = build(commands, variables_for(commands, small_plan().expectations["h200"]))
    text = tmp_path / "script"
    text.write_text(script.text("n", 40))
    upper = tmp_path / "t" / "upper"
    (tmp_path / "t").mkdir()
    inside = (
        f"mount -t tmpfs t {tmp_path}/t && mkdir {upper} {tmp_path}/t/work {tmp_path}/t/root && "
        f"mount -t overlay o -o lowerdir=/,upperdir={upper},workdir={tmp_path}/t/work {tmp_path}/t/root && "
        f"mount --rbind /proc {tmp_path}/t/root/proc && mount --rbind /sys {tmp_path}/t/root/sys && "
        f"mount --rbind /dev {tmp_path}/t/root/dev && mount -t tmpfs shm {tmp_path}/t/root/dev/shm && "
        f"chroot {tmp_path}/t/root sh -s <{text} >/dev/null; "
        f"find {upper} -mindepth 1; ls -A {tmp_path}/t/root/dev/shm"
    )
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", inside],
                          capture_output=True, text=True, timeout=90, check=False)  # fmt: skip
    if "overlay" in done.stderr:
        pytest.skip(f"no overlay mounts here: {done.stderr.splitlines()[0]}")
    assert done.stdout == "", done.stderr


@pytest.mark.rack
@root
@pytest.mark.parametrize("room", [0, 8])
def test_a_full_disk_is_no_measurement(shell: list[str], tmp_path: Path, room: int) -> None:
    """A tool that is not told of a failed write ends with status 0 and half an output: never a fact.

    ``room`` pages are left on the only temporary directory of the host.
    """
    commands = [
        Command("small", "echo never"),
        Command("large", "seq 1 20000; exit 0"),
        Command("after", "echo 1", timeout_s=60),
    ]
    script = build(commands, {})
    reader = Reader(script, "n")
    text = tmp_path / "script"
    text.write_text(script.text("n", 30))
    inside = (
        f"mount -t tmpfs -o size=64k,nr_inodes=60 t /dev/shm && mount --bind /dev/shm /tmp && "
        f"head -c {4096 * (16 - room)} /dev/zero >/dev/shm/fill; exec {' '.join(shell)} -s"
    )
    argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", inside]
    with text.open("rb") as script_file:
        done = subprocess.run(argv, stdin=script_file, capture_output=True, timeout=60, check=False)
    reader.feed(done.stdout)
    got = reader.finish()
    assert reader.ended, done.stderr
    assert got["large"].state == "skipped" and "no space is left" in got["large"].stderr
    assert got["large"].stdout.count("\n") < 20000
    if room:
        assert (got["after"].state, got["after"].stdout) == ("done", "1\n")  # what was sent is let go of
    else:
        assert {out.state for out in got.values()} == {"skipped"}


def test_a_secret_that_a_host_prints_is_not_kept() -> None:
    got, reader, _ = collect_here(
        [
            Command("plain", "echo 'password=hunter2-a url http://u:hunter2-b@h/ --token hunter2-c'"),
            Command("loud", "echo 'Authorization: Bearer hunter2-dddd' >&2; echo fine"),
            Command("key", "for w in BEGIN END; do echo -----$w PRIVATE KEY-----; done | sed '1ahunter2-e'"),
        ]
    )  # fmt: skip
    assert reader.ended
    assert "hunter2" not in "".join(out.stdout + out.stderr for out in got.values())
    assert got["plain"].stdout == "password=[dropped] url http://[dropped]@h/ --token [dropped]\n"
    assert got["key"].stdout == "[dropped]\n" and got["loud"].stdout == "fine\n"
