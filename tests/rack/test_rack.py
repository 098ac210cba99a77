"""Hosts that really run: logins, fake trees, unknown commands, and nothing left behind."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackwright.errors import CannotRun, InputErrors
from tests.golden import REPOSITORY
from tests.rack.judging import require_rack
from tests.rack.plans import plan
from tools.rack import farm
from tools.rack.rack import FaultSpec, load_rack
from tools.rack.run import Rack

pytestmark = pytest.mark.rack
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def ssh(rack: Rack, host: str, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "ssh", "-F", "none", "-o", f"UserKnownHostsFile={rack.known_hosts}",
            "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5",
            "-i", str(rack.key), "-p", str(rack.spec.port), *options,
            f"ops@{rack.hosts[host].address}", command,
        ],
        capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def rack_processes(rack: Rack) -> list[str]:
    found = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    pids = {str(h.pid) for h in rack.hosts.values() if h.pid}
    return [line for line in found.splitlines() if line.split()[0] in pids or str(rack.tree) in line]


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    require_rack()
    with Rack.temporary(plan("roce-100k"), nodes=3, directory=tmp_path_factory.mktemp("rack")) as running:
        yield running


def test_each_host_answers_under_its_own_name(rack: Rack) -> None:
    names = {ssh(rack, host, "hostname; cat /etc/hostname").stdout for host in rack.hosts}
    assert names == {f"{host}\n{host}\n" for host in rack.hosts}


def test_the_fake_trees_are_inside_only(rack: Rack) -> None:
    before = THP.read_text(encoding="ascii") if THP.exists() else ""
    rack.plant("h200-02", "thp-always")
    try:
        assert ssh(rack, "h200-02", f"cat {THP}").stdout == "[always] madvise never\n"
        assert ssh(rack, "h200-01", f"cat {THP}").stdout == "always madvise [never]\n"
        assert (THP.read_text(encoding="ascii") if THP.exists() else "") == before
    finally:
        rack.heal("h200-02")
    assert ssh(rack, "h200-02", f"cat {THP}").stdout == "always madvise [never]\n"
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert str(rack.tree) not in mounts


def test_a_host_shows_nothing_of_the_machine_that_runs_it(rack: Rack) -> None:
    shown = ssh(rack, "h200-01", "uname -r; cat /proc/cmdline; ls /home /root; nproc; ls /proc").stdout
    assert "6.8.0-64-generic" in shown
    assert "intel_iommu=on" in shown
    assert "ops" in shown
    assert "192\n" in shown or str(plan("roce-100k").pools[0].cpus_per_node) in shown
    assert not any(line.isdigit() and int(line) > 1000 for line in shown.split("nproc")[-1].splitlines())


def test_an_unknown_argument_vector_fails_loudly(rack: Rack) -> None:
    answer = ssh(rack, "h200-03", "nvidia-smi --help-query-everything; exit $?")
    assert answer.returncode == 97
    assert "no recording of: nvidia-smi --help-query-everything" in answer.stderr
    assert rack.unknown_commands()["h200-03"] == ["nvidia-smi --help-query-everything"]


def test_any_list_of_gpu_fields_is_answered(rack: Rack) -> None:
    answer = ssh(rack, "h200-01", "nvidia-smi --query-gpu=index,name,power.limit --format=csv")
    lines = answer.stdout.splitlines()
    assert lines[0] == "index, name, power.limit [W]"
    assert lines[1] == "0, NVIDIA H200, 700.00 W"
    assert len(lines) == 9
    refused = ssh(rack, "h200-01", "nvidia-smi --query-gpu=index,nonsense --format=csv")
    assert refused.returncode == 2
    assert 'Field "nonsense" is not a valid field to query.' in refused.stdout


def test_root_only_tools_want_sudo(rack: Rack) -> None:
    assert ssh(rack, "h200-01", "id -u; sudo -n id -u").stdout == "1000\n0\n"
    plain, root = (
        ssh(rack, "h200-01", f"{prefix}ipmitool dcmi power reading") for prefix in ("", "sudo -n ")
    )
    assert plain.returncode == 1
    assert "Instantaneous power reading" in root.stdout
    rack.plant("h200-01", "no-sudo")
    try:
        assert ssh(rack, "h200-01", "sudo -n true").returncode == 1
    finally:
        rack.heal("h200-01")


def test_faults_of_the_login_come_and_go(rack: Rack) -> None:
    for fault in ("host-down", "key-refused", "host-key-changed"):
        rack.plant("h200-02", fault)
        assert ssh(rack, "h200-02", "true").returncode == 255, fault
        rack.heal("h200-02", fault)
        assert ssh(rack, "h200-02", "true").returncode == 0, fault


def test_a_second_rack_in_one_directory_is_refused(rack: Rack) -> None:
    with pytest.raises(CannotRun, match="must not hold a running rack"):
        Rack(rack.spec, rack.directory, plan=rack.plan).up()
    assert all(rack.status().values())


def test_nothing_is_left_after_down(tmp_path: Path) -> None:
    require_rack()
    with Rack.temporary(plan("dev-1k"), directory=tmp_path / "r") as running:
        tree = running.tree
        assert len(rack_processes(running)) >= 1
        kept = dict(running.hosts)
    assert not tree.exists()
    assert [h.name for h in kept.values() if h.proc.alive] == []
    assert not (tmp_path / "r" / "rack.json").exists()
    assert str(tree) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def test_hosts_end_with_the_process_that_owns_them(tmp_path: Path) -> None:
    """A test run that is killed leaves no host behind."""
    require_rack()
    code = (
        "import os, sys; from pathlib import Path; from tests.rack.plans import plan\n"
        "from tools.rack.run import Rack\n"
        f"rack = Rack.temporary(plan('dev-1k'), directory=Path({str(tmp_path / 'r')!r})); rack.up()\n"
        "host = rack.hosts['pro6000-01']; print(host.pid, host.started, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    pid, started = map(int, ended.stdout.split())
    proc = farm.Proc(pid, started)
    for _ in range(100):
        if not proc.alive:
            break
        subprocess.run(["sleep", "0.05"], check=True)
    assert not proc.alive
    Rack.open(tmp_path / "r").down()


def test_the_command_line_from_up_to_down(tmp_path: Path) -> None:
    require_rack()
    where = tmp_path / "lab"
    rack_file = tmp_path / "rack.yaml"
    port = farm.free_port("127.66.0.1")
    rack_file.write_text(
        f"plan: {REPOSITORY}/inventory/roce-100k/plan.yaml\nnodes: 2\nport: {port}\nnetwork: '127.67'\n"
        "faults:\n  - {host: h200-02, fault: swap-on}\n",
        encoding="utf-8",
    )

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tools.rack", *words],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )

    try:
        up = call("up", str(rack_file), "--dir", str(where))
        assert up.returncode == 0, up.stderr
        assert up.stdout.strip() == str(where / "hosts.ini")
        status = call("status", "--dir", str(where))
        assert status.returncode == 0
        assert f"h200-02  127.67.0.2:{port}  up  swap-on" in status.stdout
        assert call("plant", "--dir", str(where), "--host", "h200-01", "--fault", "host-down").returncode == 0
        assert "h200-01  127.67.0.1" in (told := call("status", "--dir", str(where)).stdout)
        assert "down (planted)" in told
        wrong = call("plant", "--dir", str(where), "--host", "h200-01", "--fault", "host-don")
        assert wrong.returncode == 2
        assert 'did you mean "host-down"?' in wrong.stderr
        record = (where / "rack.json").read_bytes()
        second = call("up", str(rack_file), "--dir", str(where))
        assert second.returncode == 2
        assert "must not hold a running rack" in second.stderr
        assert (where / "rack.json").read_bytes() == record
        assert call("status", "--dir", str(where)).returncode == 0
    finally:
        down = call("down", "--dir", str(where))
    assert down.stdout == "1 hosts stopped\n"
    again = call("down", "--dir", str(where))
    assert again.returncode == 2
    assert "python -m tools.rack up" in again.stderr


def test_a_host_that_no_record_names_is_stopped_too(tmp_path: Path) -> None:
    require_rack()
    rack = Rack.temporary(plan("dev-1k"), directory=tmp_path / "r")
    rack.up()
    proc = rack.hosts["pro6000-01"].proc
    rack.hosts["pro6000-01"].pid = rack.hosts["pro6000-01"].started = 0
    rack.down()
    assert not proc.alive


def test_down_ends_hosts_whose_record_is_lost(tmp_path: Path) -> None:
    require_rack()
    rack = Rack.temporary(plan("dev-1k"), directory=tmp_path / "r")
    rack.up()
    proc = rack.hosts["pro6000-01"].proc
    (rack.directory / "rack.json").unlink()
    with pytest.raises(CannotRun, match="must not hold a running rack"):
        Rack.temporary(plan("dev-1k"), directory=rack.directory).up()
    assert proc.alive
    assert Rack.to_end(rack.directory).down() == 1
    assert not proc.alive
    assert not rack.tree.exists()
    assert not rack.inventory.exists()
    with pytest.raises(CannotRun, match="must be the record of a rack"):
        Rack.to_end(rack.directory)


def test_files_of_others_are_not_replaced(tmp_path: Path) -> None:
    require_rack()
    (tmp_path / "id_ed25519").write_text("mine", encoding="ascii")
    with pytest.raises(CannotRun, match="id_ed25519"), Rack.temporary(plan("dev-1k"), directory=tmp_path):
        pass
    assert (tmp_path / "id_ed25519").read_text(encoding="ascii") == "mine"


def test_a_free_port_is_free_on_every_address() -> None:
    with socket.create_server(("127.66.0.2", 0)) as other:
        taken = other.getsockname()[1]
        ports = {farm.free_port("127.66.0.1", "127.66.0.2") for _ in range(20)}
    assert taken not in ports
    assert load_rack(REPOSITORY / "inventory" / "lab" / "rack.yaml").port is None


def test_a_fault_that_its_host_cannot_have_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    require_rack()
    absent = FaultSpec(host="pro6000-01", fault="pfc-off")
    with pytest.raises(InputErrors, match=r"faults\[0\]\.fault · pfc-off must apply"):
        Rack.temporary(plan("dev-1k"), directory=tmp_path / "a", faults=[absent]).up()
    with Rack.temporary(plan("dev-1k"), directory=tmp_path / "b") as rack:
        with pytest.raises(InputErrors, match="--fault · pfc-off must apply to pro6000-01 · found") as caught:
            rack.plant("pro6000-01", "pfc-off")
        assert "no RDMA ports" in str(caught.value)
        assert "next" in str(caught.value)
        with pytest.raises(InputErrors, match="--arg · gpu must be one of pro6000-01"):
            rack.plant("pro6000-01", "ecc-uncorrected", {"gpu": "77"})
        with pytest.raises(InputErrors, match="--arg · must be an argument of"):
            rack.plant("pro6000-01", "ecc-uncorrected", {"gpus": "0"})
        assert rack.hosts["pro6000-01"].faults == []


def test_an_address_in_use_is_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    require_rack()
    with Rack.temporary(plan("dev-1k"), directory=tmp_path / "one") as first:
        second = Rack.temporary(plan("dev-1k"), directory=tmp_path / "two")
        second.spec = second.spec.model_copy(update={"port": first.spec.port})
        with pytest.raises(CannotRun, match="must be free"), second:
            pass
        assert not second.tree.exists()
        assert all(first.status().values())


def test_the_examples_are_racks_of_their_plan() -> None:
    for name, faults in (("rack", 3), ("healthy", 0)):
        spec = load_rack(REPOSITORY / "inventory" / "lab" / f"{name}.yaml")
        assert len(spec.faults) == faults
        assert len(spec.node_names(plan("roce-100k"))) == 8


def test_without_root_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(CannotRun, match="must be started by root") as caught:
        farm.require_machine()
    assert "sudo" in str(caught.value)
