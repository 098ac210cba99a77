"""A check's remedy with the plan's values and the named devices in the place of its examples.

What neither gives is marked ``<like this>``, so that nobody pastes an example value.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checks.registry import Check, expectation
from rackwright.plan import HostExpectation, NotApplicable, Plan

_NOTE = "  # "


@dataclass(frozen=True)
class Value:
    """An example value in a remedy that the plan decides.

    Attributes:
        pattern: the example, its one group being what is replaced.
        path: where the plan says it, below a pool's expectations.
        name: what it is called where the plan does not.
        show: how the plan's value is written in the command.
    """

    pattern: str
    path: str
    name: str
    show: Callable[[Any], str] = str


@dataclass(frozen=True)
class Device:
    """An example device in a remedy that the verdict names.

    Attributes:
        example: the example as it stands in remedies.
        names: devices of this kind in a text; None where the plan's ports list them.
        field: the field of a planned port that names it.
        variable: the shell variable where several are named.
    """

    example: str
    name: str
    variable: str
    names: str | None = None
    field: str = ""

    @property
    def pattern(self) -> str:
        """The example as a word of its own, or as one part of a path."""
        example = re.escape(self.example)
        return rf"(?<![\w/]){example}(?!\w)|(?<=/){example}(?=/)"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _bits(value: Any) -> str:
    return ",".join(str(int(bit)) for bit in value)


VALUES = (
    Value(r"\b(WATTS)\b", "gpu.power_limit_w", "watts", _number),
    Value(r"\b(MODEL_DIR)\b", "storage.model_dir", "model-dir", shlex.quote),
    Value(r"\bmtu (9000)\b", "rdma.mtu", "mtu"),
    Value(r"--trust (dscp)\b", "rdma.trust", "trust"),
    Value(r"--pfc ([01](?:,[01]){7})", "rdma.pfc", "pfc", _bits),
    Value(r"--dscp2prio set,(26),", "rdma.dscp", "dscp"),
    Value(r"--dscp2prio set,[^,\s]+,(3)\b", "rdma.dscp_priority", "priority"),
    Value(r"echo (104) \|", "rdma.traffic_class", "traffic-class"),
    Value(r"frequency-set -g (performance)\b", "os.governor", "governor"),
    Value(r"-mig (0)\b", "gpu.mig", "mig", lambda on: str(int(bool(on)))),
)
DEVICES = (
    Device("eth0", "interface", "nic", field="netdev"),
    Device("mlx5_0", "rdma-device", "device", field="device"),
    Device("/dev/nvme0", "disk", "disk", names=r"(?:/dev/)?(nvme\d+)(?:n\d+)?\b"),
    Device("BRIDGE", "bridge", "bridge", names=r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b"),
    Device("PID", "pid", "pid", names=r"\bpid (\d+)\b"),
)
_OPEN = {"VERSION": "<version>", "BRANCH": "<branch>"}
_NOT_THE_PLANS = {"power-rack-budget": ("WATTS",)}
"""Examples that the plan's value would not mend: a rack over its budget needs a lower limit than planned."""


def filled(item: Check, plan: Plan | None, expected: HostExpectation | None, said: Iterable[str] = ()) -> str:
    """The remedy of ``item`` for a verdict that says ``said`` (its places, message and value)."""
    command, dash, note = item.remedy.partition(_NOTE)
    done: list[str] = []
    values = [v for v in VALUES if not any(name in v.pattern for name in _NOT_THE_PLANS.get(item.id, ()))]
    for value in values:
        command = _put_value(command, value, expected, done)
    branch = _branch(plan, expected)
    if branch and "BRANCH" in command:
        command = re.sub(r"\bBRANCH\b", branch, command)
        done.append("BRANCH")
    text = "\n".join(said)
    loops: dict[str, list[str]] = {}
    for device in DEVICES:
        if re.search(device.pattern, command):
            names = _named(device, expected, text)
            command = re.sub(device.pattern, _shown(device, names), command)
            done += [device.example] if names else []
            loops.update({device.variable: names} if len(names) > 1 else {})
    for example, shown in {**_OPEN, "WATTS": "<watts>"}.items():
        command = re.sub(rf"\b{example}\b", shown, command)
    for variable, names in loops.items():
        words = " ".join(map(shlex.quote, names))
        command = f"for {variable} in {words}; do {command}; done"
    note = _note(note, done)
    return command + (dash + note if note else "")


def marked(item: Check) -> str:
    """The remedy without a plan: every example is marked as one."""
    return filled(item, None, None)


def _put_value(command: str, value: Value, expected: HostExpectation | None, done: list[str]) -> str:
    found = re.search(value.pattern, command)
    if found is None:
        return command
    planned = expectation(expected, value.path) if expected is not None else None
    if planned is None or isinstance(planned, NotApplicable):
        shown = f"<{value.name}>"
    else:
        shown = value.show(planned)
        done.append(found[1])
    return re.sub(value.pattern, lambda m: m[0].replace(m[1], shown, 1), command)


def _shown(device: Device, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f'"${device.variable}"' if names else f"<{device.name}>"


def _named(device: Device, expected: HostExpectation | None, text: str) -> list[str]:
    if device.names is not None:
        found = dict.fromkeys(re.findall(device.names, text))
        return [f"/dev/{n}" if device.example.startswith("/dev/") else n for n in found]
    ports = expected.rdma.ports if expected is not None else None
    if ports is None or isinstance(ports, NotApplicable):
        return []
    words = set(re.split(r"[^\w.-]+", text))
    hit = [port for port in ports if {port.netdev, port.device} & words]
    return list(dict.fromkeys(str(getattr(port, device.field)) for port in hit))


def _branch(plan: Plan | None, expected: HostExpectation | None) -> str:
    pinned = expectation(expected, "gpu.driver_pinned") if expected is not None else None
    version = pinned if isinstance(pinned, str) else ""
    if not version and plan is not None and plan.platform is not None:
        version = plan.platform.driver_version
    return version.partition(".")[0] if version[:1].isdigit() else ""


_EXPLAINS: Mapping[str, str] = {
    "WATTS": r"WATTS: [^;]*",
    "BRANCH": r"BRANCH: [^;]*",
    "eth0": r"the interface that is named",
    "mlx5_0": r"the port that is named",
    "/dev/nvme0": r"the disk that is named",
    "BRIDGE": r"every bridge that is named, at each boot",
}


def _note(note: str, done: Iterable[str]) -> str:
    """The remark without what explains an example that is filled; the rest names what is marked."""
    for example in done:
        if example in _EXPLAINS:
            keep = "at each boot" if example == "BRIDGE" else ""
            note = re.sub(_EXPLAINS[example], keep, note)
    for example, name in {"WATTS": "<watts>", "BRANCH": "<branch>"}.items():
        note = note.replace(f"{example}:", f"{name}:")
    return re.sub(r"^[;,\s]+|[;,\s]+$", "", re.sub(r";\s*(?=;)", "", note))
