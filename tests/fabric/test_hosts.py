"""Host files: golden outputs, and what netplan, systemd and udev say of them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from rackwright.fabric import hosts, nccl, rendering
from tests.fabric.plans import few, plan, rendered, sized, small
from tests.golden import REPOSITORY, assert_golden

GOLDEN = REPOSITORY / "tests" / "golden" / "fabric"
POOL = (hosts.UDEV, hosts.SYSCTL, hosts.LIBRARY_ENV, hosts.QOS_ENV, hosts.UNIT, hosts.SCRIPT)


@pytest.mark.parametrize("path", POOL)
def test_golden_of_a_pool(path: str) -> None:
    _, files = rendered(small())
    assert_golden(GOLDEN / "host" / path, files[f"pools/h200/{path}"])


def test_golden_of_a_node_and_the_tables() -> None:
    _, files = rendered(small())
    assert_golden(GOLDEN / "host" / hosts.NETPLAN, files[f"nodes/h200-02/{hosts.NETPLAN}"])
    assert_golden(GOLDEN / "cables.csv", files["cables.csv"])
    racks = sorted(path for path in files if path.startswith("racks/"))
    assert_golden(GOLDEN / "ports.csv", files[racks[0]])


def test_netplan_accepts_every_node(tmp_path: Path) -> None:
    if shutil.which("netplan") is None:
        pytest.skip("netplan is not installed (Debian, Ubuntu: netplan.io)")
    _, files = rendered(few(sized(), 3))
    rendering.write(files, tmp_path)
    for node in sorted((tmp_path / "nodes").iterdir()):
        done = subprocess.run(
            ["netplan", "generate", "--root-dir", str(node)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), node.name
        made = {p.name for p in (node / "run/systemd/network").iterdir()}
        assert "10-netplan-enp25s0np0.network" in made
        unit = (node / "run/systemd/network/10-netplan-enp25s0np0.network").read_text()
        assert "MTUBytes=9000" in unit and "Table=100" in unit


def test_systemd_accepts_the_unit_without_a_word(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    _, files = rendered(small())
    rendering.write(files, tmp_path)
    root = tmp_path / "pools" / "h200"
    script = root / hosts.SCRIPT
    assert stat.S_IMODE(script.stat().st_mode) & 0o111
    # The unit names where the script will be; systemd looks for it there.
    unit = tmp_path / "rail-qos@enp25s0np0.service"
    text = (root / hosts.UNIT).read_text().replace("/usr/local/sbin/rail-qos", str(script))
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    about = [line for line in (done.stdout + done.stderr).splitlines() if "rail-qos" in line]
    assert (done.returncode, about) == (0, [])
    unit.write_text(text.replace("Type=oneshot", "Type=once"))
    wrong = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert "once" in wrong.stdout + wrong.stderr  # it does judge


def test_the_script_sets_what_the_profile_says(tmp_path: Path) -> None:
    """Run against stand-ins that record: every command, in order, with the plan's values."""
    _, files = rendered(small())
    rendering.write(files, tmp_path / "fabric")
    root = tmp_path / "fabric" / "pools" / "h200"
    sys_, tools = tmp_path / "sys", tmp_path / "bin"
    device = sys_ / "class/net/enp25s0np0/device/infiniband/mlx5_0"
    device.mkdir(parents=True)
    for folder in ("ecn/roce_np/enable", "ecn/roce_rp/enable"):
        (sys_ / "class/net/enp25s0np0" / folder).mkdir(parents=True)
    (sys_ / "class/infiniband/mlx5_0/tc/1").mkdir(parents=True)
    tools.mkdir()
    log = tmp_path / "log"
    for name in ("ip", "mlnx_qos", "cma_roce_tos", "cma_roce_mode"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\n')
        tool.chmod(0o755)
    text = (root / hosts.SCRIPT).read_text().replace("/sys/", f"{sys_}/")
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    for line in (root / hosts.QOS_ENV).read_text().splitlines():
        if not line.startswith("#"):
            key, _, value = line.partition("=")
            env[key] = value.strip('"')
    subprocess.run(["sh", "-c", text, "rail-qos", "enp25s0np0"], env=env, check=True)
    assert log.read_text().splitlines() == [
        "ip link set dev enp25s0np0 mtu 9000",
        "mlnx_qos -i enp25s0np0 --trust dscp --pfc 0,0,0,1,0,0,0,0 --cable_len 5",
        "mlnx_qos -i enp25s0np0 --dscp2prio set,26,3",
        "mlnx_qos -i enp25s0np0 --dscp2prio set,48,6",
        "cma_roce_mode -d mlx5_0 -p 1 -m 2",
        "cma_roce_tos -d mlx5_0 -t 104",
    ]
    net = sys_ / "class/net/enp25s0np0/ecn"
    assert (sys_ / "class/infiniband/mlx5_0/tc/1/traffic_class").read_text() == "104\n"
    assert (net / "roce_np/enable/3").read_text() == (net / "roce_rp/enable/3").read_text() == "1\n"
    assert ((net / "roce_np/cnp_dscp").read_text(), (net / "roce_np/cnp_802p_prio").read_text()) == (
        "48\n",
        "6\n",
    )


def test_the_script_is_posix() -> None:
    _, files = rendered(small())
    done = subprocess.run(
        ["sh", "-n", "-c", files[f"pools/h200/{hosts.SCRIPT}"]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_library_is_told_a_gid_index() -> None:
    fabric, _ = rendered(small())
    env = nccl.libraries(fabric.fabric)
    assert not [name for name in env if "GID" in name]
    assert env["UCX_NET_DEVICES"] == env["NVSHMEM_HCA_LIST"] == "mlx5_0:1,mlx5_1:1"
    assert env["NCCL_IB_TC"] == env["UCX_IB_TRAFFIC_CLASS"] == env["NVSHMEM_IB_TRAFFIC_CLASS"] == "104"


def test_infiniband_has_a_subnet_manager_and_no_lossless_ethernet() -> None:
    fabric, files = rendered(few(plan("hgx-h200-8-ib", "infiniband", pkey=0x22), 2))
    # The subnet manager configures the switches; their cables are planned all the same.
    assert "switches" not in {path.split("/")[0] for path in files}
    assert (
        files["cables.csv"].splitlines()[1] == "h200-01-r0,host,0,400,5,h200-01,ibp25s0,dc1-r01,leaf-g1-r0,1"
    )
    for name in ("partitions.conf", "opensm.conf"):
        assert_golden(GOLDEN / "infiniband" / name, files[f"infiniband/{name}"])
    assert (
        "fab=0x0022, ipoib, mtu=5, rate=21, defmember=full: ALL=full;" in files["infiniband/partitions.conf"]
    )
    # Two limited members of a partition cannot talk, and libraries take the first key, the default one.
    assert "limited" not in "".join(
        line for line in files["infiniband/partitions.conf"].splitlines() if not line.startswith("#")
    )
    assert not [path for path in files if "rail-qos" in path]
    assert "mtu: 4092" in files[f"nodes/h200-01/{hosts.NETPLAN}"]
    assert fabric.fabric.subnet is not None and fabric.fabric.subnet.rate == "NDR"
