"""The commands: preflight, enrol, inventory and parse, as they are typed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from checks import fleet
from checks.capture import Capture
from checks.collect import build
from rackwright.cli import cmd_enrol, cmd_inventory, cmd_parse, cmd_preflight
from rackwright.errors import CannotRun
from rackwright.inventory import Host, bind, load_inventory
from rackwright.plan import load_plan, save_plan
from rackwright.verdict import Results
from remote.transport import Network, Settings
from tests.preflight.lab import Lab
from tests.preflight.plans import small_plan
from tests.preflight.servers import Farm, needs_sshd


def invoke(module: object, *args: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(module.command, args, input=text)  # type: ignore[attr-defined]


# --- preflight -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"), ["gpu-01", "gpu-02"], {"gpu-03": "connection refused at x:22"})


def test_preflight_streams_and_writes(lab: Lab) -> None:
    done = lab.preflight(*lab.judged, "--only", "os-thp,net-reachable")
    assert done.returncode == 1, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("3 hosts, 2 checks: judging the captures")
    assert lines[1:] == [
        "[1/3] gpu-01: 2 pass (1.0 s)",
        "[2/3] gpu-02: 2 pass (1.0 s)",
        "[3/3] gpu-03: not reached: connection refused at x:22",
    ]
    out = lab.directory / "results"
    results = Results.from_json((out / "results.json").read_text())
    assert (out / "report.html").exists() and not (out / "captures").exists()
    assert [r.status for r in results.results] == ["pass", "pass", "pass", "pass", "error"]
    assert "gpu-03" in done.stdout


def test_preflight_of_some_hosts(lab: Lab) -> None:
    done = lab.preflight(*lab.judged, "--only", "os-thp", "--limit", "gpu-02", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert Results.from_json((lab.directory / "results/results.json").read_text()).hosts == ("gpu-02",)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--only", "os-tph"], 'did you mean "os-thp"'),
        (["--limit", "gpu-9"], "--limit"),
        (["--plan", "none.yaml"], "none.yaml"),
    ],
)
def test_preflight_says_what_is_wrong(lab: Lab, args: list[str], words: str) -> None:
    done = lab.preflight(*lab.judged, *args)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file/x", "Not a directory"),
        ("/proc/x", "No such file or directory: /proc/x"),
        ("captures-is-a-file", "File exists"),
        ("report-is-a-directory", "a directory: "),
    ],
)
def test_results_that_cannot_be_written_are_said_before_a_host_is_contacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, words: str
) -> None:
    lab = Lab(tmp_path, ["gpu-01"])
    (tmp_path / "file").touch()
    (tmp_path / "captures-is-a-file").mkdir()
    (tmp_path / "captures-is-a-file" / "captures").touch()
    (tmp_path / "report-is-a-directory" / "report.html").mkdir(parents=True)
    monkeypatch.setattr("checks.runner.run", lambda *_args, **_more: pytest.fail("a host was contacted"))
    with pytest.raises(CannotRun) as stop:
        CliRunner().invoke(
            cmd_preflight.command,
            ["--hosts", str(lab.inventory), "--only", "os-thp", "--results", str(tmp_path / place)],
            catch_exceptions=False,
        )
    (problem,) = stop.value.problems
    assert stop.value.exit_code == 2 and words in problem.found
    assert problem.where == f"--results {tmp_path / place}" and "no host was contacted" in problem.why


def test_unwritable_results_are_one_message(lab: Lab) -> None:
    done = lab.preflight(*lab.judged, "--only", "os-thp", "--results", str(lab.inventory / "x"))
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 3
    assert done.stderr.startswith(f"--results {lab.inventory}/x · must be a directory")


@pytest.mark.parametrize("full", [{"report.html"}, {"results.json", "report.html"}])
def test_a_full_disk_costs_no_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: set[str]
) -> None:
    lab, out = Lab(tmp_path, ["gpu-01"]), tmp_path / "out"
    replace = Path.replace

    def write(part: Path, target: Path) -> Path:
        if target.name in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", write)
    done = CliRunner().invoke(cmd_preflight.command, [*lab.judged, "--only", "os-thp", "--results", str(out)])
    assert isinstance(done.exception, CannotRun) and done.exception.exit_code == 2
    assert {Path(problem.where).name for problem in done.exception.problems} == full
    assert all(problem.found == "no space left on device" for problem in done.exception.problems)
    assert done.stdout.startswith("Preflight · ") and "1 host · 1 check" in done.stdout
    assert not list(out.glob("**/.*.part")) and (out / "results.json").exists() == (
        "results.json" not in full
    )


@pytest.mark.parametrize("forks", [0, -3, 2])
def test_any_number_of_forks_collects_every_host(monkeypatch: pytest.MonkeyPatch, forks: int) -> None:
    monkeypatch.setattr(fleet, "collect_host", lambda _network, host, _script: Capture(host=host.name))
    jobs = [(Host(name, name), build([], {})) for name in ("a", "b", "c")]
    got: list[str] = []
    thread = threading.Thread(
        target=lambda: got.extend(c.host for c in fleet.collect_all(Network(Settings()), jobs, forks=forks)),
        daemon=True,
    )
    thread.start()
    thread.join(10)
    assert sorted(got) == ["a", "b", "c"]


# --- enrol ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    farm = Farm(tmp_path_factory.mktemp("farm"))
    yield farm
    farm.stop()


@pytest.mark.rack
@needs_sshd
def test_enrolment(farm: Farm, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("other.example ssh-ed25519 AAAA")
    host = farm.start("gpu-01", enrolled=False)
    (tmp_path / "plan.yaml").touch()
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(
        f"[h200]\ngpu-01 ansible_host=127.0.0.1 ansible_port={host.port}\n[all:vars]\nplan=plan.yaml\n"
    )
    arguments = ["--hosts", str(inventory), "--known-hosts", str(known)]
    shown = subprocess.run(
        ["ssh-keygen", "-lf", f"{farm.directory}/gpu-01.host.pub"], capture_output=True, text=True, check=True
    ).stdout.split()[1]

    refused = invoke(cmd_enrol, *arguments, text="n\n")
    assert refused.exit_code == 1 and shown in refused.output
    assert known.read_text() == "other.example ssh-ed25519 AAAA"

    assert invoke(cmd_enrol, *arguments, text="y\n").exit_code == 0
    assert known.read_text().startswith(
        f"other.example ssh-ed25519 AAAA\n[127.0.0.1]:{host.port} ssh-ed25519 "
    )

    again = invoke(cmd_enrol, *arguments)
    assert again.exit_code == 0 and "known" in again.output
    assert len(known.read_text().splitlines()) == 2

    known.write_text(f"[127.0.0.1]:{host.port} " + farm.key.with_suffix(".pub").read_text())
    before = known.read_text()
    changed = invoke(cmd_enrol, *arguments, "--yes")
    assert changed.exit_code == 1 and "has CHANGED" in changed.output and known.read_text() == before


@pytest.mark.rack
@needs_sshd
def test_a_run_that_is_ended_keeps_what_it_has(farm: Farm, tmp_path: Path) -> None:
    lab = Lab(tmp_path, [], {"gpu-01": "x", "gpu-02": "x"})
    good, stuck = farm.start("good"), farm.start("stuck", force="exec sleep 300")
    lab.inventory.write_text(
        f"[h200]\ngpu-01 ansible_port={good.port}\ngpu-02 ansible_port={stuck.port}\n[all:vars]\n"
        f"ansible_host=127.0.0.1\nansible_user=root\nplan=plan.yaml\nansible_ssh_private_key_file={farm.key}\n"
    )
    out = tmp_path / "out"
    argv = [
        sys.executable,
        "-m",
        "rackwright",
        "preflight",
        "--hosts",
        str(lab.inventory),
        "--results",
        str(out),
    ]
    argv += ["--known-hosts", str(farm.known_hosts), "--only", "os-thp"]
    with subprocess.Popen(argv, env=lab.environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          text=True) as process:  # fmt: skip
        assert process.stderr is not None
        while "gpu-01" not in process.stderr.readline():
            pass
        lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()[1:]]
        assert [line["subject"] for line in lines if "check" in line] == ["gpu-01"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 2
    results = Results.from_json((out / "results.json").read_text())
    assert [(r.subject, r.check) for r in results.results] == [("gpu-01", "os-thp")]
    assert results.notes == ("interrupted: what had come in by then",)


# --- inventory -----------------------------------------------------------------------------------------


def test_an_inventory_is_written_and_reads_back(tmp_path: Path) -> None:
    plan_file, out = tmp_path / "plans" / "plan.yaml", tmp_path / "env" / "hosts.ini"
    save_plan(small_plan(), plan_file)
    done = invoke(cmd_inventory, str(plan_file), "-o", str(out))
    assert done.exit_code == 0 and "2 hosts" in done.output
    inventory = load_inventory(out)
    assert inventory.plan_path.resolve() == plan_file
    assert bind(inventory, load_plan(plan_file)).problems == ()
    with pytest.raises(CannotRun, match="addresses added by hand"):
        CliRunner().invoke(cmd_inventory.command, [str(plan_file), "-o", str(out)], catch_exceptions=False)
    assert invoke(cmd_inventory, str(plan_file), "-o", str(out), "--force").exit_code == 0


def test_an_inventory_on_standard_output(tmp_path: Path) -> None:
    save_plan(small_plan(), tmp_path / "plan.yaml")
    done = invoke(cmd_inventory, str(tmp_path / "plan.yaml"))
    assert "[h200]\ngpu-01\ngpu-02\n" in done.output


# --- parse ---------------------------------------------------------------------------------------------


def test_parse_gives_one_json_object(tmp_path: Path) -> None:
    file = tmp_path / "thp"
    file.write_text("always [madvise] never\n")
    done = invoke(cmd_parse, "thp", str(file), "--json")
    assert done.exit_code == 0
    data = json.loads(done.output)
    assert set(data) == {"kind", "facts", "problems", "understood"}
    assert (data["kind"], data["understood"], data["facts"]["selected"]) == ("thp", True, "madvise")


def test_parse_reads_standard_input_and_finds_the_kind() -> None:
    done = invoke(cmd_parse, "auto", "-", "--json", text="always madvise [never]\n")
    assert json.loads(done.output)["kind"] == "thp"


def test_parse_in_words() -> None:
    done = invoke(cmd_parse, "thp", "-", text="always madvise [never]\n")
    assert 'selected = "never"' in done.output and "understood  yes" in done.output


def test_what_is_not_understood_is_2() -> None:
    done = invoke(cmd_parse, "thp", "-", "--json", text="hello\n")
    assert done.exit_code == 2 and json.loads(done.output)["understood"] is False
    nothing = invoke(cmd_parse, "auto", "-", "--json", text="hello\n")
    assert nothing.exit_code == 2 and json.loads(nothing.output)["kind"] is None


def test_bytes_of_any_kind_are_no_traceback() -> None:
    assert invoke(cmd_parse, "auto", "-", text=bytes(range(256))).exit_code == 2
    assert invoke(cmd_parse, "thp", "-", text="always [never]\n".encode("utf-16")).exit_code in (0, 2)


def test_half_a_surrogate_pair_is_printed_as_an_escape() -> None:
    text = '{"blockdevices":[{"name":"\\ud800"}]}'
    shown = invoke(cmd_parse, "auto", "-", text=text)
    assert "\\ud800" in shown.output and not isinstance(shown.exception, UnicodeError)
    data = json.loads(invoke(cmd_parse, "auto", "-", "--json", text=text).output)
    assert data["kind"] == "lsblk" and data["facts"]["devices"][0]["name"] == "\ud800"


def test_something_wrong_is_1() -> None:
    text = "/dev/md0: not a thing\n"
    sxid = "[1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert invoke(cmd_parse, "dmesg", "-", text=sxid).exit_code == 1
    assert invoke(cmd_parse, "thp", "-", text=text).exit_code == 2


def test_the_kinds_are_listed() -> None:
    listed = invoke(cmd_parse, "--list")
    assert listed.exit_code == 0 and "nvidia-smi-qx" in listed.output
    assert "nvidia-smi-qx" in {
        row["kind"] for row in json.loads(invoke(cmd_parse, "--list", "--json").output)
    }


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(CannotRun, match='did you mean "nvidia-smi-q'):
        CliRunner().invoke(cmd_parse.command, ["nvidia-smi-xq", "-"], input="", catch_exceptions=False)
