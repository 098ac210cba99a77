"""Checks of what a fabric of cards needs beside its links: equal clocks, devices that programs can open."""

from __future__ import annotations

import re

from checks.areas._read import (
    Context,
    Finding,
    applies,
    csv_rows,
    fault,
    leaf,
    sections,
    unit_state,
    unread,
    verdict,
)
from checks.commands import SMI_IDENTITY, SMI_LIST
from checks.parsers import parse_once
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan.expectations import RdmaPort
from rackwright.verdict import Outcome, Severity, passed

RDMA_DEVICES = Command(
    "rdma-devices",
    'for f in /dev/infiniband/*; do [ -e "$f" ] && echo "${f##*/}"; done; '
    'for d in /sys/class/infiniband_verbs/uverbs*; do [ -r "$d/ibdev" ] || continue; read -r v <"$d/ibdev"; '
    'echo "${d##*/} $v"; done; echo end',
)
IMEX_UNIT = Command(
    "systemctl-imex", "systemctl show nvidia-imex -p LoadState,ActiveState,SubState", parser="systemctl-show"
)
IMEX_NODES = Command(
    "imex-nodes",
    "echo '== nodes'; command -v nvidia-imex-ctl >/dev/null && timeout 10 nvidia-imex-ctl -N; echo '== end'",
)


@check(
    id="gpu-clocks",
    title="Highest clock of every GPU as planned",
    severity=Severity.WARN,
    commands=[SMI_IDENTITY, SMI_LIST],
    expects="gpu.clocks_uniform",
    remedy="nvidia-smi -q -d CLOCK; sudo nvidia-smi -rgc; sudo nvidia-smi -rmc"
    "  # a card that stays lower has another VBIOS or is another product",
    reversible=True,
    source="gcm (application clocks by model); NVIDIA's tool prints the highest clock of a card",
)
def clocks(view: HostView, want: bool, context: Context) -> Outcome:
    """A group of GPUs is as fast as its slowest card. One that may not clock as high as the others passes
    every test of its own."""
    if not want:
        raise NotMeasured("the plan says false; it should say why clocks do not apply")
    planned = leaf(context, "gpu.clock_max_mhz")
    rows = csv_rows(view, SMI_IDENTITY)
    listed = len(view.facts(SMI_LIST)["gpus"] or [])
    found: list[Finding] = []
    count = context.expectations.gpu.count
    if not len(rows) == listed == count:
        found.append(unread("", f"{len(rows)} of {max(listed, count)} GPUs were read"))
    values: dict[str, int] = {}
    for number, row in enumerate(rows):
        where, text = f"gpu {row.get('index', number)}", row.get("clocks.max.sm", "")
        match = re.fullmatch(r"(\d+)\s*MHz", text)
        if match is None:
            found.append(unread(where, f"highest clock reads {text or 'nothing'}"))
        else:
            values[where] = int(match.group(1))
    usual = planned if applies(planned) else max(values.values(), key=list(values.values()).count, default=0)
    found += [
        fault(where, f"at most {value} MHz instead of {usual:g}")
        for where, value in values.items()
        if value != usual
    ]
    seen = sorted(set(values.values()))
    expected = f"{usual:g} MHz" if applies(planned) else "one highest clock on all"
    return verdict(found, actual=f"{listing([str(v) for v in seen]) or 'no'} MHz", expected=expected)


@check(
    id="ib-devices",
    title="Programs can open the RDMA devices",
    severity=Severity.WARN,
    commands=[RDMA_DEVICES],
    expects="rdma.ports",
    remedy="sudo modprobe -a ib_uverbs ib_umad rdma_ucm; ls -l /dev/infiniband"
    "  # lasting: rdma-core loads them by /etc/rdma/modules",
    reversible=True,
    source="NVSentinel#1663 and #1716: verbs devices are needed, issm devices are not",
)
def rdma_devices(view: HostView, want: tuple[RdmaPort, ...]) -> Outcome:
    """Ports may be up while no program can use them: NCCL then falls back to sockets, at a tenth of the
    rate, and says so in a log that nobody reads."""
    text = view.text(RDMA_DEVICES)
    if not text.rstrip().endswith("end"):
        raise NotMeasured("the list of devices came back incomplete")
    lines = [line.split() for line in text.splitlines()[:-1]]
    nodes = {words[0] for words in lines if len(words) == 1}
    verbs = {words[1]: words[0] for words in lines if len(words) == 2}
    found: list[Finding] = []
    for port in want:
        if port.device not in verbs:
            found.append(fault(port.device, "has no verbs device"))
        elif verbs[port.device] not in nodes:
            found.append(fault(port.device, f"/dev/infiniband/{verbs[port.device]} is missing"))
    if "rdma_cm" not in nodes:
        found.append(fault("", "/dev/infiniband/rdma_cm is missing"))
    if any(p.link_layer == "InfiniBand" for p in want) and not any(n.startswith("umad") for n in nodes):
        found.append(fault("", "no /dev/infiniband/umad device: the fabric's tools do not work"))
    good = len(want) - sum(bool(f.where) for f in found)
    return verdict(found, actual=f"{good} of {len(want)} can be opened", expected="all, and rdma_cm")


@check(
    id="nvlink-imex",
    title="Memory exchange between the trays of a rack ready",
    severity=Severity.MAJOR,
    commands=[IMEX_UNIT, IMEX_NODES],
    expects="nvlink.imex",
    remedy="nvidia-imex-ctl -N; sudo journalctl -u nvidia-imex -b | tail -n 50"
    "  # /etc/nvidia-imex/nodes_config.cfg must be equal on all trays; sudo systemctl restart nvidia-imex",
    reversible=True,
    source="aicr#2641: not ready while no compute domain is active is no fault; NVIDIA IMEX guide",
)
def imex(view: HostView, want: str) -> Outcome:
    """Engines that span trays map each other's memory through this daemon. A tray that it does not know
    makes them hang at start. On Kubernetes it runs only while a compute domain is active."""
    state = unit_state(view, IMEX_UNIT)
    if state != "active" and want == "on-demand":
        word = state or "not installed"
        if state == "failed":
            return verdict([fault("", "the daemon failed")], actual="failed", expected="ready while needed")
        return passed(word, "ready while a compute domain is active", message="no compute domain is active")
    if state != "active":
        return verdict(
            [fault("", f"the daemon is {state or 'not installed'}")],
            actual=state or "none",
            expected="active",
        )
    parts = sections(view.text(IMEX_NODES))
    if list(parts)[-1:] != ["end"] or not parts.get("nodes", "").strip():
        raise NotMeasured("nvidia-imex-ctl did not say how its nodes are")
    parsed = parse_once("imex-nodes", parts["nodes"])
    if not parsed.understood:
        raise NotMeasured(f"nvidia-imex-ctl was not understood: {parsed.problems[0].text}")
    nodes, domain = parsed.facts["nodes"], parsed.facts["domain_state"]
    found = [fault(str(node["address"]), f"is {node['state']}") for node in nodes if node["state"] != "READY"]
    if domain != "UP":
        found.append(fault("", f"the domain is {domain}"))
    ready = sum(node["state"] == "READY" for node in nodes)
    return verdict(
        found, actual=f"{ready} of {len(nodes)} ready, domain {domain}", expected="all ready, domain UP"
    )
