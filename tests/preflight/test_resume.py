"""A run that is killed loses nothing it had measured, and can be gone on with."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from checks import journal
from checks.capture import Capture
from checks.runner import Options, run
from rackwright.cli import cmd_preflight, cmd_report
from rackwright.errors import CannotRun, InputErrors
from rackwright.plan import load_plan
from rackwright.verdict import Results
from tests.preflight.lab import Lab
from tests.preflight.servers import Farm, needs_sshd
from tests.preflight.test_runner import inventory, keep, os_thp, plan, thp


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    farm = Farm(tmp_path_factory.mktemp("farm"))
    yield farm
    farm.stop()


def _logins(farm: Farm, name: str) -> int:
    file = farm.directory / f"{name}.logins"
    return len(file.read_text().splitlines()) if file.exists() else 0


def _counted(farm: Farm, name: str, then: str = 'exec sh -c "$SSH_ORIGINAL_COMMAND"') -> int:
    """The port of a server that logs each login."""
    return farm.start(name, force=f"echo x >>{farm.directory}/{name}.logins\n{then}").port


@pytest.mark.rack
@needs_sshd
def test_a_killed_run_is_reported_and_gone_on_with(farm: Farm, tmp_path: Path) -> None:
    names = ("gpu-01", "gpu-02", "gpu-03")
    lab = Lab(tmp_path, [], dict.fromkeys(names, "x"))
    ports = {name: _counted(farm, name) for name in names[:2]}
    ports["gpu-03"] = _counted(farm, "gpu-03", "exec sleep 300")

    def write_inventory() -> None:
        hosts = "\n".join(f"{n} ansible_host=127.0.0.1 ansible_port={p}" for n, p in ports.items())
        lab.inventory.write_text(
            f"[h200]\n{hosts}\n[all:vars]\nansible_user=root\nplan=plan.yaml\n"
            f"ansible_ssh_private_key_file={farm.key}\n"
        )

    write_inventory()
    out = tmp_path / "out"
    base = [sys.executable, "-m", "rackwright", "preflight", "--known-hosts", str(farm.known_hosts)]
    first = [*base, "--hosts", str(lab.inventory), "--results", str(out)]
    first += ["--only", "os-thp,uniform-thp,net-reachable"]
    with subprocess.Popen(
        first, env=lab.environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        finished = 0
        while finished < 2:
            finished += process.stderr.readline().startswith("[")
        while not _logins(farm, "gpu-03"):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=30) == -signal.SIGKILL
    assert not (out / "results.json").exists()
    assert [_logins(farm, n) for n in names] == [1, 1, 1]

    page = CliRunner().invoke(cmd_report.command, [str(out / "results.jsonl"), "--markdown"])
    assert page.exit_code == 0
    assert "Preflight: INCOMPLETE" in page.output or "Preflight: NOT READY" in page.output
    assert "the run ended before every verdict was in" in page.output and "gpu-03" in page.output
    before = journal.read(out / "results.jsonl").results
    assert sorted((r.subject, r.check) for r in before.results) == [
        (n, c) for n in names[:2] for c in ("net-reachable", "os-thp")
    ]

    ports["gpu-03"] = _counted(farm, "gpu-03b")
    write_inventory()
    again = subprocess.run(
        [*base, "--resume", str(out)], env=lab.environment(), capture_output=True, text=True, check=False
    )
    assert again.returncode in (0, 1), again.stderr
    assert [_logins(farm, n) for n in (*names, "gpu-03b")] == [1, 1, 1, 1]
    results = Results.from_json((out / "results.json").read_text())
    assert results.complete and results.unreachable == {} and set(results.hosts) == set(names)
    assert all(r in results.results for r in before.results)
    assert sorted((r.subject, r.check) for r in results.results) == sorted(
        [(n, c) for n in names for c in ("net-reachable", "os-thp")] + [("h200", "uniform-thp")]
    )
    (uniform,) = [r for r in results.results if r.check == "uniform-thp"]
    assert [e.host for e in uniform.evidence] == list(names)  # it saw all three
    assert any("resumed: 2 of 3 hosts were kept" in note for note in results.notes)

    third = subprocess.run(
        [*base, "--resume", str(out)], env=lab.environment(), capture_output=True, text=True, check=False
    )
    assert third.returncode == 2 and "there is nothing left to do" in third.stderr


def test_hosts_that_were_not_reached_are_tried_again(tmp_path: Path) -> None:
    captures = tmp_path / "out" / "captures"
    options = Options(captures=tmp_path / "given", results_dir=tmp_path / "out")
    thp("gpu-01").write(tmp_path / "given")
    Capture(host="gpu-02", problem="refused").write(tmp_path / "given")
    first = run(plan(), inventory("gpu-01", "gpu-02"), [os_thp()], options)
    assert first.unreachable == {"gpu-02": "refused"}
    prior = journal.read(tmp_path / "out" / journal.NAME)
    assert (prior.ended, prior.done) == (True, {("gpu-01", 0)})
    assert prior.results == first
    thp("gpu-01").write(captures)
    contacted: list[str] = []
    thp("gpu-02").write(tmp_path / "given")
    second = run(
        plan(), inventory("gpu-01", "gpu-02"), [os_thp()],
        Options(captures=tmp_path / "given", results_dir=tmp_path / "out", resume=prior),
        on_tier=lambda _tier, hosts: contacted.extend(hosts),
    )  # fmt: skip
    assert contacted == ["gpu-02"]
    assert [(r.subject, r.check, r.status) for r in second.results] == [
        ("gpu-01", "os-thp", "pass"), ("gpu-02", "os-thp", "pass"),
    ]  # fmt: skip


def test_a_host_whose_capture_is_gone_is_collected_again(tmp_path: Path) -> None:
    options = keep(tmp_path / "given", thp("gpu-01"))
    options = Options(captures=options.captures, results_dir=tmp_path / "out")
    run(plan(), inventory("gpu-01"), [os_thp()], options)
    prior = journal.read(tmp_path / "out" / journal.NAME)
    contacted: list[str] = []
    resumed = Options(captures=options.captures, results_dir=tmp_path / "out", resume=prior)
    run(plan(), inventory("gpu-01"), [os_thp()], resumed, on_tier=lambda _t, h: contacted.extend(h))
    assert contacted == ["gpu-01"]


def test_a_journal_is_read_wherever_it_was_cut(tmp_path: Path) -> None:
    options = keep(tmp_path / "given", thp("gpu-01"), thp("gpu-02", "always"))
    run(plan(), inventory("gpu-01", "gpu-02"), [os_thp()],
        Options(captures=options.captures, results_dir=tmp_path))  # fmt: skip
    text = (tmp_path / journal.NAME).read_text()
    first = text.index("\n")
    seen = set()
    for cut in range(0, len(text), 7):
        if cut < first:
            with pytest.raises(InputErrors):
                journal.parse(text[:cut], Path("j"))
            continue
        found = journal.parse(text[:cut], Path("j"))
        whole = [
            line for line in text[first:cut].split("\n") if line.startswith('{"check"') and line[-1] == "}"
        ]
        assert len(found.results.results) >= len(whole) - 1
        assert found.results.exit_code == 2 or found.ended
        seen.add(len(found.results.results))
    assert seen == {0, 1, 2}
    noisy = text.replace('"gpu-02"', "\x00\x00", 1)
    assert journal.is_journal(noisy)


@pytest.mark.parametrize("text", ["", "{}", "[]\n", "null\n", '{"stream": "other"}\n', "\x00\n"])
def test_what_is_no_journal_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / journal.NAME).write_text(text)
    with pytest.raises(InputErrors, match="must be a journal"):
        journal.read(tmp_path / journal.NAME)


def _preflight(*args: str) -> object:
    return CliRunner().invoke(cmd_preflight.command, list(args), catch_exceptions=True)


def test_resuming_what_cannot_be_resumed(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ["gpu-01", "gpu-02"])
    done = lab.preflight("--resume", str(tmp_path), "--only", "os-thp", "--tier", "1")
    assert done.returncode == 2 and "leave out --only, --results, --tier" in _sorted_options(done.stderr)
    none = [sys.executable, "-m", "rackwright", "preflight", "--resume", str(tmp_path / "none")]
    done = subprocess.run(none, env=lab.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "must be the journal of a run" in done.stderr
    out = tmp_path / "results"
    lab.preflight(*lab.judged, "--only", "os-thp")
    text = (out / journal.NAME).read_text().splitlines()
    (out / journal.NAME).write_text("\n".join(text[:2]) + "\n")
    changed = load_plan(lab.directory / "plan.yaml").digest
    (out / journal.NAME).write_text((out / journal.NAME).read_text().replace(changed, "f" * 64))
    lab.inventory.write_text("[h200]\ngpu-01\n[all:vars]\nplan=plan.yaml\n")
    argv = [sys.executable, "-m", "rackwright", "preflight", "--resume", str(out)]
    done = subprocess.run(argv, env=lab.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "must go on with the plan of the run (digest ffffffffffff)" in done.stderr
    assert "must name every host of the run · found no gpu-02" in done.stderr


def _sorted_options(text: str) -> str:
    head, _, tail = text.rpartition("leave out ")
    return f"{head}leave out {', '.join(sorted(word.strip() for word in tail.strip().split(',')))}"


def test_two_runs_never_share_a_directory(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ["gpu-01"])
    out = tmp_path / "results"
    out.mkdir()
    with journal.held(out):
        done = lab.preflight(*lab.judged, "--only", "os-thp")
        assert done.returncode == 2 and not (out / "results.json").exists()
        assert f"must not be in use by another run · found process {os.getpid()}, started" in done.stderr
    assert lab.preflight(*lab.judged, "--only", "os-thp").returncode == 0


def test_an_unfinished_journal_survives_the_next_run(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ["gpu-01", "gpu-02"])
    out = tmp_path / "results"
    lab.preflight(*lab.judged, "--only", "os-thp")
    lines = (out / journal.NAME).read_text().splitlines()
    (out / journal.NAME).write_text("\n".join(lines[:3]) + "\n")
    done = lab.preflight(*lab.judged, "--only", "os-thp")
    assert "an unfinished run of" in done.stderr and "(1 of 2 hosts done)" in done.stderr
    (old,) = out.glob("results-*.jsonl")
    assert old.read_text().splitlines() == lines[:3]
    lab.preflight(*lab.judged, "--only", "os-thp")
    assert list(out.glob("results-*.jsonl")) == [old]  # a finished one needs no keeping


@pytest.mark.parametrize(("limit", "judged"), [(1200, "0"), (6_000, "some")])
def test_a_disk_that_fills_up_is_one_message_and_a_summary(tmp_path: Path, limit: int, judged: str) -> None:
    """No file may grow beyond ``limit`` bytes: the kernel refuses the next line as a full disk does."""
    names = [f"gpu-{n:02}" for n in range(1, 21)]
    lab = Lab(tmp_path, names)
    argv = [sys.executable, "-m", "rackwright", "preflight", *lab.judged, "--only", "os-thp,net-reachable"]
    argv += ["--results", str(tmp_path / "results")]

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        argv, env={**lab.environment(), "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True,
        check=False, preexec_fn=small_files,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if " · found " in line]) == 1, done.stderr
    assert "file too large" in done.stderr.lower()
    if judged == "some":
        assert "make room, then judge the captures again" in done.stderr
        assert "INCOMPLETE" in done.stdout and "the run ended before every verdict was in" in done.stdout
        prior = journal.read(tmp_path / "results" / journal.NAME)
        assert 0 < len(prior.done) < 20 and not prior.ended


def test_captures_that_cannot_be_written_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from checks import runner

    def refuse(self: Capture, directory: Path) -> Path:
        from rackwright.files import write_whole

        if self.host == "gpu-02":
            write_whole(Path("/dev/full"), "x" * 10_000)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    captures = [thp("gpu-01"), thp("gpu-02"), thp("gpu-03")]
    monkeypatch.setattr(runner, "collect_all", lambda *_a, **_m: iter(captures))
    monkeypatch.setattr(Capture, "write", refuse)
    with pytest.raises(runner.InterruptedRunError) as stop:
        run(plan(), inventory(), [os_thp()], Options(results_dir=tmp_path / "out"))
    assert stop.value.problem is not None and stop.value.problem.found == "no space left on device"
    assert [r.subject for r in stop.value.results.results] == ["gpu-01", "gpu-02"]
    assert stop.value.results.exit_code == 2


def test_a_journal_that_cannot_be_begun_contacts_no_host(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / journal.NAME).mkdir()
    contacted: list[object] = []
    with pytest.raises(CannotRun):
        run(plan(), inventory(), [os_thp()], Options(results_dir=tmp_path / "out"),
            on_tier=lambda *a: contacted.append(a))  # fmt: skip
    assert contacted == []
