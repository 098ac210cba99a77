"""Active checks of one host's GPUs: CUDA on each, what buses carry, DCGM's tests, an all-reduce."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from checks.areas._read import Context, Finding, fault, notice, sections, unread, verdict
from checks.parsers import parse_once
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity

_PROGRAM = (Path(__file__).parents[1] / "programs" / "cuda_probe.py").read_text(encoding="utf-8")


def _probe(what: str) -> str:
    return f"CUDA_DEVICE_ORDER=PCI_BUS_ID python3 - {what} <<'RW_PROGRAM'\n{_PROGRAM}RW_PROGRAM"


CUDA_GPUS = Command(
    "cuda-gpus", _probe("gpus"), timeout_s=120, shown="python3 - gpus <checks/programs/cuda_probe.py"
)
CUDA_PEERS = Command(
    "cuda-peers", _probe("peers"), timeout_s=120, shown="python3 - peers <checks/programs/cuda_probe.py"
)
DIAG = Command(
    "dcgmi-diag", 'dcgmi diag -r "$RW_DIAG_LEVEL" -j', parser="dcgmi-diag", timeout_s=900,
    ok_rcs=tuple(range(256)), variables=("RW_DIAG_LEVEL",),
)  # fmt: skip
ALL_REDUCE = Command(
    "all-reduce",
    "p=$(command -v all_reduce_perf); for d in /opt /usr/local /usr/share; do for t in nccl rccl; do "
    'f=$d/$t-tests/build/all_reduce_perf; [ "$p" ] || { [ -x "$f" ] && p=$f; }; done; done; '
    '[ "$p" ] || { echo "all_reduce_perf of nccl-tests is not installed" >&2; exit 127; }; '
    'for i in 1 2 3; do echo "== run $i"; "$p" -b 1G -e 8G -f 2 -g "$RW_GPUS" 2>&1 '
    '|| echo "status $?"; done; echo "== end"',
    timeout_s=600,
    variables=("RW_GPUS",),
    shown='all_reduce_perf -b 1G -e 8G -f 2 -g "$RW_GPUS"',
)
LOAD = "uses every GPU for seconds: up to 2 GiB of its memory, 0.5 GiB of pinned host memory"
COLLECTIVE = "loads all GPUs of a host and their links for a minute; nothing else may use them"
_MEANINGS = {
    "2": "out of memory: another process holds it", "3": "the driver is not initialised", "100": "no device",
    "101": "invalid device", "214": "uncorrectable ECC error", "217": "peer access is not supported",
    "719": "the kernel failed to launch", "800": "not permitted",
    "802": "system not yet initialised: the fabric manager has not set up NVLink", "803": "driver mismatch",
}  # fmt: skip
"""Of CUresult (cuda.h): what a person can act on."""


@dataclass
class Probe:
    """What the program printed. ``rates``: GPU to kind to GB/s; ``errors``: GPU to (step, CUDA's number)."""

    count: int
    contexts: set[int] = field(default_factory=set)
    rates: dict[int, dict[str, float]] = field(default_factory=dict)
    errors: dict[int, tuple[str, str]] = field(default_factory=dict)
    different: set[int] = field(default_factory=set)
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    refused: dict[tuple[int, int], str] = field(default_factory=dict)


def meaning(code: str) -> str:
    return f"CUDA error {code}" + (f": {_MEANINGS[code]}" if code in _MEANINGS else "")


class Refused(Exception):
    """CUDA as a whole does not work."""


def read(view: HostView, command: Command) -> Probe:
    """Raises NotMeasured where lines are missing or of no kind, and Refused where CUDA does not start."""
    lines = [line.split() for line in view.text(command).splitlines() if line.strip()]
    if not lines or lines[0][:1] != ["cuda"] or len(lines[0]) != 3 or lines[-1][:1] != ["end"]:
        raise NotMeasured(f"the output of `{command.key}` came back incomplete")
    if lines[0][1] != "0":
        raise Refused(meaning(lines[0][1]))
    probe = Probe(_whole(lines[0][2]))
    for words in lines[1:-1]:
        match words:
            case ["gpu", gpu, "context", "0"]:
                probe.contexts.add(_whole(gpu))
            case ["gpu", gpu, "data", word]:
                probe.rates.setdefault(_whole(gpu), {})["data"] = 0.0
                if word != "same":
                    probe.different.add(_whole(gpu))
            case ["gpu", gpu, ("memory" | "to-gpu" | "from-gpu") as kind, value] if "." in value:
                probe.rates.setdefault(_whole(gpu), {})[kind] = _number(value)
            case ["gpu", gpu, step, code]:
                probe.errors[_whole(gpu)] = (step, code)
            case ["pair", a, b, "rate", value]:
                probe.pairs[_whole(a), _whole(b)] = _number(value)
            case ["pair", a, b, "access", "0"]:
                probe.refused[_whole(a), _whole(b)] = "the driver refuses peer access"
            case ["pair", a, b, _, code]:
                probe.refused[_whole(a), _whole(b)] = meaning(code)
            case ["cuda", _, code]:
                raise Refused(meaning(code))
            case _:
                raise NotMeasured(f"the program printed {' '.join(words)[:80]!r}")
    return probe


def _whole(text: str) -> int:
    if not text.isdigit():
        raise NotMeasured(f"{text!r} is no number of a GPU")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"\d+(?:\.\d+)?", text):
        raise NotMeasured(f"{text!r} is no rate")
    return float(text)


@check(
    id="gpu-cuda-init",
    title="Programs can use every GPU",
    severity=Severity.CRITICAL,
    commands=[CUDA_GPUS],
    expects="gpu.count",
    tier=1,
    active=LOAD,
    remedy="systemctl status nvidia-fabricmanager; sudo dmesg -T | grep -iE 'xid|nvrm' | tail"
    "  # 802: sudo systemctl restart nvidia-fabricmanager; another error: sudo reboot",
    reversible=True,
    source="pytorch#35710 (error 802: fabric manager), Dstack-TEE/dstack#1167 (all green, CUDA dead)",
)
def cuda_init(view: HostView, want: int) -> Outcome:
    """Every tool may be content while no program can start: a context on each GPU, memory on it, and bytes
    that come back as they were sent, are what an engine needs first."""
    expected = f"a context on {want} GPUs, data unchanged"
    try:
        probe = read(view, CUDA_GPUS)
    except Refused as problem:
        return verdict([fault("", str(problem))], actual="CUDA does not start", expected=expected)
    found: list[Finding] = []
    if probe.count != want:
        found.append(fault("", f"CUDA sees {probe.count} GPUs instead of {want}"))
    for gpu in range(probe.count):
        where = f"gpu {gpu}"
        if gpu in probe.errors:
            step, code = probe.errors[gpu]
            told = unread if code == "2" else fault
            found.append(told(where, f"{step}: {meaning(code)}"))
        elif gpu not in probe.contexts or "data" not in probe.rates.get(gpu, {}):
            found.append(unread(where, "not all of its results are in the output"))
        elif gpu in probe.different:
            found.append(fault(where, "bytes came back from it changed"))
    good = len(probe.contexts - set(probe.errors) - probe.different)
    return verdict(found, actual=f"{good} of {want} usable", expected=expected)


def _rates(view: HostView, context: Context, kinds: Sequence[str]) -> dict[str, dict[str, float]]:
    """GPU to the wanted rates.

    Raises:
        NotMeasured: one of them is missing.
    """
    try:
        probe = read(view, CUDA_GPUS)
    except Refused as problem:
        raise NotMeasured(f"{problem}: see gpu-cuda-init") from None
    missing = [
        f"gpu {gpu}"
        for gpu in range(context.expectations.gpu.count)
        if not set(kinds) <= set(probe.rates.get(gpu, {}))
    ]
    if missing:
        raise NotMeasured(f"nothing was measured on {listing(missing, 4)}: see gpu-cuda-init")
    return {f"gpu {gpu}": {kind: rates[kind] for kind in kinds} for gpu, rates in probe.rates.items()}


def _slow(
    rates: Mapping[str, Mapping[str, float]], want: float, names: Mapping[str, str]
) -> Iterable[Finding]:
    for where, kinds in rates.items():
        for kind, value in kinds.items():
            if value < want:
                yield fault(where, f"{names[kind]}{value:.0f} GB/s instead of {want:g}")


@check(
    id="gpu-memory-bandwidth",
    title="Memory of every GPU as fast as planned",
    severity=Severity.MAJOR,
    commands=[CUDA_GPUS],
    expects="gpu.memory_bandwidth_min_gb_s",
    tier=1,
    active=LOAD,
    remedy="nvidia-smi -q -d CLOCK,PERFORMANCE; sudo nvidia-smi -rgc; sudo nvidia-smi -rmc"
    "  # a card that stays slow is exchanged",
    reversible=True,
    source="our own sample (cuMemcpyDtoD); SuperBench gpu-copy-bw compares the same with a baseline",
)
def memory_bandwidth(view: HostView, want: float, context: Context) -> Outcome:
    """Decoding is bound by memory: a card that reads at half the rate halves the tokens of its group, and no
    counter says so."""
    rates = _rates(view, context, ["memory"])
    slowest = min(r["memory"] for r in rates.values())
    found = _slow(rates, want, {"memory": ""})
    return verdict(found, actual=f"slowest {slowest:.0f} GB/s", expected=f"≥ {want:g} GB/s")


@check(
    id="gpu-host-bandwidth",
    title="Copies between host and GPU as fast as planned",
    severity=Severity.MAJOR,
    commands=[CUDA_GPUS],
    expects="gpu.host_bandwidth_min_gb_s",
    tier=1,
    active=LOAD,
    remedy="nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current --format=csv -l 1"
    "  # while it runs; numactl -H; iommu=pt on the kernel command line; reseat the riser",
    reversible=True,
    source="azurehpc-health-checks (H2D and D2H of 48 GB/s on H100)",
)
def host_bandwidth(view: HostView, want: float, context: Context) -> Outcome:
    """Weights are loaded and KV caches offloaded over this link. At idle it may look trained and be slow:
    only bytes that move show it."""
    rates = _rates(view, context, ["to-gpu", "from-gpu"])
    slowest = min(value for r in rates.values() for value in r.values())
    found = _slow(rates, want, {"to-gpu": "to it ", "from-gpu": "from it "})
    return verdict(found, actual=f"slowest {slowest:.0f} GB/s", expected=f"≥ {want:g} GB/s each way")


@check(
    id="nvlink-peer-bandwidth",
    title="Copies between the GPUs of a host as fast as planned",
    severity=Severity.MAJOR,
    commands=[CUDA_PEERS],
    expects="nvlink.peer_bandwidth_min_gb_s",
    tier=1,
    active="copies 256 MiB between every two GPUs of a host, for seconds",
    remedy="nvidia-smi topo -p2p rwn; nvidia-smi nvlink -s; sudo dmesg -T | grep -iE 'xid|sxid|acs|iommu'"
    "  # restart the fabric manager, reset the GPUs; a link that stays slow: exchange the board",
    reversible=True,
    source="azurehpc-health-checks (335 GB/s of an H100's 450), stas00 ml-engineering",
)
def peer_bandwidth(view: HostView, want: float, context: Context) -> Outcome:
    """Every collective of tensor parallelism runs over these links. Links that are up and not routed carry
    nothing, or go through the host at a tenth of the rate."""
    count = context.expectations.gpu.count
    try:
        probe = read(view, CUDA_PEERS)
    except Refused as problem:
        raise NotMeasured(f"{problem}: see gpu-cuda-init") from None
    found: list[Finding] = []
    if probe.count != count:
        found.append(fault("", f"CUDA sees {probe.count} GPUs instead of {count}"))
    for a in range(probe.count):
        for b in range(probe.count):
            where = f"gpu {a} to gpu {b}"
            if a == b:
                continue
            if (a, b) in probe.refused:
                found.append(fault(where, probe.refused[a, b]))
            elif (a, b) not in probe.pairs:
                found.append(unread(where, "is not in the output"))
            elif probe.pairs[a, b] < want:
                found.append(fault(where, f"{probe.pairs[a, b]:.0f} GB/s instead of {want:g}"))
    slowest = f"slowest {min(probe.pairs.values()):.0f} GB/s" if probe.pairs else "nothing copied"
    return verdict(found, actual=slowest, expected=f"≥ {want:g} GB/s between all")


@check(
    id="gpu-diag",
    title="DCGM's diagnostics pass",
    severity=Severity.MAJOR,
    commands=[DIAG],
    expects="gpu.diag_level",
    tier=2,
    active="loads every GPU for minutes; nothing else may use them",
    remedy="dcgmi diag -r 3 -j; sudo dmesg -T | grep -i xid"
    "  # what fails twice is a card to exchange; keep the JSON for the vendor",
    reversible=True,
    source="gcm#38 (DCGM 3 and 4), DCGM#139, #284 (skipped is no pass), DCGM#198 (not enough alone)",
)
def diagnostics(view: HostView, want: int, context: Context) -> Outcome:
    """The vendor's own tests, and the proof that a warranty claim needs. A test that was skipped has tested
    nothing; a pass does not clear NVLink, which has checks of its own."""
    results = view.facts(DIAG)["results"] or []
    found: list[Finding] = []
    passing = 0
    for result in results:
        status, test = str(result["status"]).lower(), str(result["test"])
        gpus = [f"gpu {gpu}" for gpu in result["gpus"]] or [""]
        why = "; ".join(result["warnings"])[:160]
        text = f"{test}: {result['status']}" + (f" ({why})" if why else "")
        if status == "pass":
            passing += 1
        else:
            told = fault if status in ("fail", "error") else notice if status == "warn" else unread
            found += [told(gpu, text) for gpu in gpus]
    if not passing and not found:
        raise NotMeasured("no test gave a result")
    named = {gpu for result in results for gpu in result["gpus"]}
    missing = [f"gpu {gpu}" for gpu in range(context.expectations.gpu.count) if gpu not in named]
    if missing:
        found.append(unread("", f"no test of {listing(missing, 4)} is reported"))
    return verdict(
        found, actual=f"{passing} tests passed, level {want}", expected="all tests pass on all GPUs"
    )


def bus_bandwidth(view: HostView) -> tuple[float, list[Finding]]:
    """Median over the runs of the bus bandwidth at the largest size, in GB/s; and what was wrong in a run.

    Raises:
        NotMeasured: a run is missing or was not understood.
    """
    parts = sections(view.text(ALL_REDUCE))
    runs = [part for name, part in parts.items() if name.startswith("run ")]
    if list(parts)[-1:] != ["end"] or len(runs) != 3:
        raise NotMeasured("the three runs came back incomplete")
    values: list[float] = []
    found: list[Finding] = []
    for number, part in enumerate(runs, 1):
        if failed := re.search(r"^status (\d+)$", part, re.M):
            reason = re.search(r"^.*(?:failure|error|NCCL WARN).*$", part, re.M | re.I)
            text = reason.group(0).strip()[:160] if reason else "it printed no reason"
            found.append(fault(f"run {number}", f"ended with status {failed.group(1)}: {text}"))
            continue
        parsed = parse_once("nccl-tests", part)
        if not parsed.understood:
            raise NotMeasured(f"run {number} was not understood: {parsed.problems[0].text}")
        largest = max(parsed.facts["rows"], key=lambda row: row["size"])
        values.append(largest["busbw_gb_s"])
        if wrong := sum(row["wrong"] or 0 for row in parsed.facts["rows"]):
            found.append(fault(f"run {number}", f"{wrong} wrong values in the results"))
    if not values and not found:
        raise NotMeasured("no run gave a rate")
    return (median(values) if values else 0.0), found


@check(
    id="nvlink-all-reduce",
    title="All-reduce over the GPUs of a host as fast as planned",
    severity=Severity.CRITICAL,
    commands=[ALL_REDUCE],
    expects="nvlink.all_reduce_min_gb_s",
    tier=2,
    active=COLLECTIVE,
    remedy="NCCL_DEBUG=INFO all_reduce_perf -b 8G -e 8G -g 8 2>&1 | grep -E 'NVLS|via|WARN'"
    "  # P2P/IPC or NVLS must stand there, never SHM or NET; then fabric manager and links",
    reversible=True,
    source="oci-hpc active_healthcheck (A100 185, H100 440, B200 800 GB/s), azurehpc NHC (460 on H100)",
)
def all_reduce(view: HostView, want: float) -> Outcome:
    """What tensor parallelism does hundreds of times a token. It is the one test that sees links, routes,
    switches and the library together; the results are checked as well."""
    value, found = bus_bandwidth(view)
    if not found and value < want:
        found.append(fault("", f"{value:.0f} GB/s instead of {want:g}"))
    expected = f"≥ {want:g} GB/s of bus bandwidth"
    return verdict(found, actual=f"{value:.0f} GB/s, median of three", expected=expected)
