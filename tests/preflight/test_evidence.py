"""Evidence shows the lines that the verdict is about; remedies hold the plan's values and named devices."""

from __future__ import annotations

import re

import pytest

from checks import registry
from checks.capture import Capture, CommandOutput
from checks.evidence import LIMIT, evidence, excerpt, runnable
from checks.registry import Command
from checks.remedy import filled, marked
from checks.view import HostView
from rackwright.plan import NotApplicable
from rackwright.plan.expectations import RdmaExpectation, RdmaPort, StorageExpectation
from rackwright.verdict import Outcome, Status, failed, passed
from tests.preflight.plans import small_plan

CHECKS = registry.load()


def _gpu(index: int, pending: str = "Enabled") -> str:
    return (
        f'<gpu id="00000000:{index:02X}:00.0"><product_name>NVIDIA H200</product_name>'
        f"<inforom_version><ecc_object>7.16</ecc_object></inforom_version>"
        f"<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>{pending}</pending_ecc></ecc_mode>"
        f"<temperature><gpu_temp>{60 + index} C</gpu_temp><memory_temp>70 C</memory_temp></temperature></gpu>"
    )


XML = (
    '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>'
    f"<timestamp>today</timestamp>{_gpu(0)}{_gpu(1, 'Disabled')}{_gpu(2)}</nvidia_smi_log>"
)


def test_of_an_xml_document_the_lines_about_the_verdict_are_shown() -> None:
    said = failed("on", "on", "gpu 1: ECC is on, but reboot pending: off after it", where=("gpu 1",))
    lines = excerpt(XML, CHECKS["gpu-ecc"], said).splitlines()
    assert "gpu 1 00000000:01:00.0 ecc_mode.current_ecc = Enabled" in lines
    assert "gpu 1 00000000:01:00.0 ecc_mode.pending_ecc = Disabled" in lines
    assert all(line.startswith("gpu 1 ") and "ecc" in line for line in lines)


def test_of_a_reading_the_hottest_is_shown() -> None:
    said = failed("hottest 62 °C", "< 60 °C")
    assert (
        excerpt(XML, CHECKS["gpu-temperature"], said) == "gpu 2 00000000:02:00.0 temperature.gpu_temp = 62 C"
    )


@pytest.mark.parametrize(
    "text", ["<?xml ", XML[:200], XML.replace("<nvidia_smi_log>", '<!ENTITY a "b"><nvidia_smi_log>')]
)
def test_a_damaged_document_shows_nothing(text: str) -> None:
    assert excerpt(text, CHECKS["gpu-ecc"], failed("off", "on")) == ""


def test_of_a_long_output_the_named_section_is_shown() -> None:
    sections = "\n".join(f"== nic{n}\n" + "".join(f"  line {i} of {n}\n" for i in range(9)) for n in range(9))
    shown = excerpt(
        sections, CHECKS["roce-qos"], failed("a", "b", "nic4: PFC is on for none", where=("nic4",))
    )
    assert shown.splitlines()[:2] == ["== nic4", "  line 0 of 4"] and "nic5" not in shown


def test_of_a_long_log_the_lines_that_say_it_are_shown() -> None:
    log = "\n".join(
        [f"[{n}] systemd: started unit {n}" for n in range(99)] + ["[9] NVRM: Xid (PCI:0000:18:00): 79"]
    )
    shown = excerpt(log, CHECKS["log-xid"], failed("1", "none", "gpu 0000:18:00: Xid 79"))
    assert "NVRM: Xid (PCI:0000:18:00): 79" in shown and len(shown) <= LIMIT + 2


def test_a_short_output_is_shown_whole_and_a_pass_without_any() -> None:
    command = CHECKS["os-thp"].commands[0]
    out = CommandOutput(key=command.key, command="x", state="done", rc=0, stdout="always [madvise] never\n")
    view = HostView(Capture(host="a", outputs={command.key: out}), pool="p", rack="r", parse=lambda *_: None,
                    commands={})  # fmt: skip
    (bad,) = evidence(CHECKS["os-thp"], [view], failed("madvise", "never"), None)
    (good,) = evidence(CHECKS["os-thp"], [view], passed("madvise"), None)
    assert (bad.excerpt, good.excerpt) == ("always [madvise] never", "")
    both = evidence(CHECKS["os-thp"], [view, view], failed("x", "y"), None)
    assert [e.host for e in both] == ["a", "a"] and bad.host == ""


def test_of_a_pool_the_hosts_that_are_named_are_carried() -> None:
    views = [
        HostView(
            Capture(host=f"gpu-{n:03}", outputs={}), pool="p", rack="r", parse=lambda *_: None, commands={}
        )
        for n in range(500)
    ]
    command = CHECKS["uniform-thp"].commands[0]
    for view in views:
        out = CommandOutput(key=command.key, command="x", state="done", rc=0, stdout="x")
        view.capture = view.capture.model_copy(update={"outputs": {command.key: out}})
    said = failed("two values", "one", "gpu-417 has never", where=("gpu-417",))
    assert [e.host for e in evidence(CHECKS["uniform-thp"], views, said, None)] == ["gpu-417"]
    assert len(evidence(CHECKS["uniform-thp"], views, failed("a", "b"), None)) == 8


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (Command("a", "cat /etc/x"), "cat /etc/x"),
        (Command("a", "dmesg -T", root=True), "sudo dmesg -T"),
        (
            Command("a", "ipmitool sdr type 'Power Supply'", root=True),
            "sudo ipmitool sdr type 'Power Supply'",
        ),
        (Command("a", "a; b > c", root=True), "sudo sh -c 'a; b > c'"),
        (Command("a", "echo $HOME", root=True), "sudo sh -c 'echo $HOME'"),
        (Command("a", "grep 'x;y' f", root=True), """sudo sh -c 'grep '"'"'x;y'"'"' f'"""),
    ],
)
def test_a_command_can_be_pasted(command: Command, shown: str) -> None:
    assert runnable(command) == shown


def test_a_command_carries_the_plans_values() -> None:
    expected = small_plan().expectations["h200"].model_copy(
        update={"storage": StorageExpectation(model_dir="/my models")}
    )  # fmt: skip
    command = Command("a", 'df "$RW_MODEL_DIR"', variables=("RW_MODEL_DIR",))
    assert runnable(command, expected) == """RW_MODEL_DIR='/my models'; df "$RW_MODEL_DIR\""""


# --- remedies ------------------------------------------------------------------------------------------

_EXAMPLES = re.compile(r"\b(?:WATTS|BRANCH|MODEL_DIR|VERSION|BRIDGE|PID|eth0|mlx5_0|nvme0)\b")


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_no_example_value_is_left_to_be_pasted(name: str) -> None:
    text = marked(CHECKS[name])
    command = text.partition("  # ")[0]
    assert not _EXAMPLES.search(command), command
    planned = small_plan()
    assert not _EXAMPLES.search(
        filled(CHECKS[name], planned, planned.expectations["h200"]).partition("  # ")[0]
    )


def _expected(**rdma: object):  # type: ignore[no-untyped-def]
    ports = tuple(
        RdmaPort(device=f"mlx5_{n}", netdev=f"enp{n}s0", rate_gbps=400, link_layer="Ethernet")
        for n in range(4)
    )
    values = {
        "ports": ports, "mtu": 4200, "trust": "dscp", "dscp": 24, "dscp_priority": 5, "traffic_class": 96,
        "pfc": (False,) * 5 + (True,) + (False,) * 2, **rdma,
    }  # fmt: skip
    own = small_plan().expectations["h200"]
    gpu = own.gpu.model_copy(update={"power_limit_w": 650.0, "driver_pinned": "595.91.07"})
    return own.model_copy(
        update={
            "rdma": RdmaExpectation.model_validate(values),
            "gpu": gpu,
            "storage": StorageExpectation(model_dir="/srv/my models"),
        }
    )


@pytest.mark.parametrize(
    ("name", "said", "command"),
    [
        ("gpu-power-limit", "gpu 3: 700 W", "sudo nvidia-smi -pl 650"),
        ("gpu-driver", "", "sudo apt-get install -y nvidia-driver-595-server-open && sudo reboot"),
        ("nvme-headroom", "", "df -h; sudo du -xh --max-depth=1 '/srv/my models' | sort -h | tail"),
        ("roce-mtu", "enp2s0: 1500", "sudo ip link set dev enp2s0 mtu 4200"),
        (
            "roce-qos",
            "enp1s0: PFC is on for none",
            "sudo mlnx_qos -i enp1s0 --trust dscp --pfc 0,0,0,0,0,1,0,0 --dscp2prio set,24,5",
        ),
        (
            "roce-qos",
            "enp1s0, enp3s0: PFC is on for none",
            'for nic in enp1s0 enp3s0; do sudo mlnx_qos -i "$nic" --trust dscp --pfc 0,0,0,0,0,1,0,0 '
            "--dscp2prio set,24,5; done",
        ),
        (
            "roce-tos",
            "mlx5_2: 0",
            "echo 96 | sudo tee /sys/class/infiniband/mlx5_2/tc/1/traffic_class",
        ),
        ("ib-link", "mlx5_3: Down", "ibstat; sudo mlxlink -d mlx5_3 -m -c"),
        ("nvme-health", "nvme2: media errors", "sudo nvme smart-log /dev/nvme2"),
        ("pcie-acs", "0000:17:00.0 redirects", "sudo setpci -s 0000:17:00.0 ECAP_ACS+6.w=0000"),
        ("power-rack-budget", "54 kW", "sudo nvidia-smi -pl <watts>"),
        ("roce-mtu", "", "sudo ip link set dev <interface> mtu 4200"),
    ],
)
def test_remedies_are_filled(name: str, said: str, command: str) -> None:
    remedy = filled(CHECKS[name], small_plan(), _expected(), [said])
    assert remedy.partition("  # ")[0] == command
    assert not re.search(r"\b(?:BRANCH|WATTS):", remedy)


def test_what_the_plan_does_not_say_is_marked() -> None:
    lost = _expected(mtu=NotApplicable(not_applicable="no"), pfc=None)
    assert "mtu <mtu>" in filled(CHECKS["roce-mtu"], small_plan(), lost, ["enp0s0"])
    assert "--pfc <pfc>" in filled(CHECKS["roce-qos"], small_plan(), lost, ["enp0s0"])
    assert "nvidia-driver-<branch>-server" in marked(CHECKS["gpu-driver"])


@pytest.mark.parametrize(
    ("outcome", "has"),
    [
        (failed("always", "never"), True),
        (Outcome(status=Status.WARN, message="open: measured at idle"), False),
        (Outcome(status=Status.WARN, message="not compared, not reached: gpu-02"), False),
        (Outcome(status=Status.WARN, message="a corrected error"), True),
        (Outcome(status=Status.ERROR, message="`x` is not installed on the host"), False),
        (passed("x"), False),
    ],
)
def test_only_what_is_wrong_has_a_remedy(outcome: Outcome, has: bool) -> None:
    from dataclasses import replace

    from checks.bench import Bench
    from tests.preflight.test_runner import inventory, thp

    item = replace(CHECKS["os-thp"], judge=lambda _v, _w: outcome)
    bench = Bench.for_checks(small_plan(("gpu-01", "gpu-02", "gpu-03")), inventory(), [item])
    assert bool(bench.judge_host(item, bench.view(thp("gpu-01"))).remedy) is has
