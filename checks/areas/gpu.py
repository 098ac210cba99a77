"""Checks of the GPUs themselves: which they are, their driver, memory health, modes, power, temperature."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from checks import fixes
from checks.areas._load import IDLE_PERCENT, load_of, utilisation
from checks.areas._read import (
    COUNT,
    ON_OFF,
    SILICON,
    Context,
    Finding,
    absent,
    applies,
    at_full_load,
    at_least,
    fault,
    gpus,
    is_number,
    leaf,
    line_with,
    notice,
    problems,
    reading,
    shown,
    spread,
    unit_state,
    unread,
    verdict,
)
from checks.commands import (
    CUDNN,
    DRIVER_LOADED,
    LSPCI,
    PERSISTENCED,
    PROCESSES,
    SMI_LIST,
    SMI_LOAD,
    SMI_XML,
)
from checks.parsers import NA
from checks.registry import check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Load, Outcome, Severity, failed, passed

Gpu = Mapping[str, Any]
_DISPLAY = ("3d controller", "vga compatible controller", "display controller", "0300", "0302", "0380")


def _bus(address: Any) -> str:
    """``00000000:19:00.0`` and ``0000:19:00.0`` as one: tools print domains of 8 or 4 digits, or none."""
    parts = str(address).lower().split(":")
    domain = int(parts[0], 16) if len(parts) == 3 else 0
    return f"{domain:x}:{':'.join(parts[-2:])}"


def _cards(view: HostView) -> list[Gpu]:
    return [
        d
        for d in view.facts(LSPCI)["devices"]
        if d["vendor_id"] == "10de" and str(d["class"]).lower().startswith(_DISPLAY)
    ]


def _each(view: HostView, judge: Callable[[str, Gpu], Iterable[Finding]]) -> list[Finding]:
    return [finding for where, gpu in gpus(view, SMI_XML) for finding in judge(where, gpu)]


def _mode(name: str, fact: str, want: bool) -> Callable[[str, Gpu], Iterable[Finding]]:
    """A mode that is as planned now and after the next reset."""

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        now, then = gpu[f"{fact}_current"], gpu[f"{fact}_pending"]
        if not isinstance(now, bool):
            yield absent(where, f"{name} mode", now)
            return
        if now is not want:
            pending = (
                f" ({ON_OFF[then]} after a reboot)" if isinstance(then, bool) and then is not now else ""
            )
            yield fault(where, f"{name} is {ON_OFF[now]}{pending}")
        elif isinstance(then, bool) and then is not now:
            yield fault(where, f"{name} is {ON_OFF[now]}, but reboot pending: {ON_OFF[then]} after it")
        elif not isinstance(then, bool):
            yield absent(where, f"pending {name} mode", then)

    return judge


@check(
    id="gpu-count",
    title="All GPUs present",
    severity=Severity.CRITICAL,
    commands=[SMI_LIST, SMI_XML, LSPCI],
    expects="gpu.count",
    remedy="sudo dmesg -T | grep -iE 'xid|fallen off the bus'; sudo lspci -D -d 10de:"
    "  # then power-cycle the host (reboot); a card that stays away is reseated or exchanged",
    reversible=False,
    source="preflight practice: three sources must agree; gpu-operator#2511 (7 of 8 GPUs noticed by hand)",
)
def count(view: HostView, want: int) -> Outcome:
    """A card that fell off the bus is missing in one list and still in another; the engine then starts on
    fewer GPUs or not at all."""
    listed = len(view.facts(SMI_LIST)["gpus"] or [])
    attached = view.facts(SMI_XML)["attached_gpus"]
    seen = len(_cards(view))
    actual = f"nvidia-smi -L {listed}, driver {shown(attached)}, PCI {seen}"
    expected = f"{want} in all three"
    if listed == attached == seen == want:
        return passed(f"{want}", expected)
    if seen > listed:
        return failed(actual, expected, f"{seen - listed} GPU on the PCI bus that the driver does not show")
    if listed == attached == want:
        return failed(actual, expected, f"the PCI bus shows {seen} GPUs, the driver {listed}")
    return failed(actual, expected, f"{listed} GPUs instead of {want}")


@check(
    id="gpu-model",
    title="GPUs are the planned product",
    severity=Severity.CRITICAL,
    commands=[SMI_XML, LSPCI],
    expects="gpu.product",
    remedy="nvidia-smi --query-gpu=name,pci.device_id --format=csv"
    "  # move the host to a pool of its hardware, or change hardware.machine in the workload and size again",
    reversible=True,
    source="gpud#1206 (a GH200 taken for an H200), gpud#1147 (H100 PCIe taken for SXM)",
)
def model(view: HostView, want: str, context: Context) -> Outcome:
    """A GH200, an H100 NVL or a PCIe card has other memory, links and limits than the part the plan counts
    on, though its name contains the same letters."""
    ids = leaf(context, "gpu.pci_ids")
    wanted = {str(i).lower().removeprefix("0x")[-4:] for i in ids} if applies(ids) else set()
    devices = {_bus(d["address"]): d["device_id"] for d in _cards(view)}

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        name = gpu["product"]
        if not isinstance(name, str):
            yield absent(where, "product name", name)
        elif name != want:
            yield fault(where, f"is a {name}")
        if not wanted:
            return
        device = devices.get(_bus(gpu["pci_bus_id"]))
        if device is None:
            yield unread(where, f"lspci shows no GPU at {gpu['pci_bus_id']}")
        elif device not in wanted:
            yield fault(where, f"has PCI id 10de:{device}")

    found = _each(view, judge)
    names = spread(g["product"] for _, g in gpus(view, SMI_XML))
    seen = spread(f"10de:{d}" for d in devices.values())
    expected = f"{want}, {' or '.join(f'10de:{w}' for w in sorted(wanted))}" if wanted else want
    return verdict(found, actual=f"{names}, {seen}", expected=expected)


_DEAD_DRIVER = ("version mismatch", "couldn't communicate", "failed to initialize nvml")


@check(
    id="gpu-driver",
    title="NVIDIA driver version",
    severity=Severity.CRITICAL,
    commands=[SMI_XML, DRIVER_LOADED],
    expects="gpu.driver_min",
    remedy="sudo apt-get install -y nvidia-driver-BRANCH-server-open && sudo reboot"
    "  # BRANCH: first number of the plan's driver; with the GPU operator set its driver.version instead",
    reversible=False,
    source="deployment checklist, system: driver ≥ 560; azhpc-images#86 (driver and fabric manager drift)",
    ids=["S3"],
    fix=fixes.REBOOT,
)
def driver(view: HostView, want: str, context: Context) -> Outcome:
    """The engine's CUDA needs at least this driver; a library that is newer than the loaded module fails on
    the first kernel launch, hours after an unattended upgrade."""
    out = view.output(SMI_XML)
    dead = line_with(_DEAD_DRIVER, out)
    pinned = context.expectations.gpu.driver_pinned
    expected = f"≥ {want}" + (f", pinned {pinned}" if isinstance(pinned, str) else "")
    if dead:
        return failed("no answer", expected, dead)
    version = view.facts(SMI_XML)["driver_version"]
    if not isinstance(version, str):
        raise NotMeasured("nvidia-smi does not say the driver's version")
    match = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", view.text(DRIVER_LOADED))
    if match is None:
        raise NotMeasured("/proc/driver/nvidia/version does not say the loaded module's version")
    loaded = match.group(1)
    found = []
    if loaded != version:
        found.append(fault("", f"module {loaded} is loaded, the tools are of {version}: reboot pending"))
    if not at_least(version, want):
        found.append(fault("", f"driver {version} is older than {want}"))
    if isinstance(pinned, str) and version != pinned:
        found.append(fault("", f"driver {version} is not the pinned {pinned}"))
    return verdict(found, actual=version, expected=expected)


@check(
    id="gpu-cuda",
    title="CUDA version of the driver",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.cuda_min",
    remedy="sudo apt-get install -y nvidia-driver-BRANCH-server-open && sudo reboot"
    "  # BRANCH: first number of the plan's driver",
    reversible=False,
    source="deployment checklist, system: CUDA ≥ 12.6",
    ids=["S1"],
)
def cuda(view: HostView, want: str) -> Outcome:
    """The engine's image is built for this CUDA; an older driver refuses it at start."""
    version = view.facts(SMI_XML)["cuda_version"]
    if not isinstance(version, str):
        return verdict([absent("", "CUDA version", version)], actual=shown(version), expected=f"≥ {want}")
    found = [] if at_least(version, want) else [fault("", f"CUDA {version} is older than {want}")]
    return verdict(found, actual=version, expected=f"≥ {want}")


@check(
    id="gpu-cudnn",
    title="cuDNN of the host",
    severity=Severity.MAJOR,
    commands=[CUDNN],
    expects="gpu.cudnn_min",
    remedy="sudo apt-get install --only-upgrade cudnn9-cuda-12",
    reversible=True,
    source="deployment checklist, system: current cuDNN (of the host; an engine's image brings its own)",
    ids=["S2"],
)
def cudnn(view: HostView, want: str) -> Outcome:
    """An engine that uses the host's libraries fails, or falls back to slow kernels, with an old cuDNN."""
    text = view.text(CUDNN)
    if "end" not in text.split():
        raise NotMeasured("the list of cuDNN libraries came back incomplete")
    versions = re.findall(r"libcudnn\.so\.(\d+(?:\.\d+)*)\s*$", text, re.M)
    if not versions:
        return failed("none", f"≥ {want}", "cuDNN is not installed")
    oldest = min(versions, key=lambda v: tuple(int(p) for p in v.split(".")))
    found = [] if at_least(oldest, want) else [fault("", f"cuDNN {oldest} is older than {want}")]
    return verdict(found, actual=listing(versions), expected=f"≥ {want}")


@check(
    id="gpu-ecc",
    title="ECC as planned, nothing pending",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.ecc",
    remedy="sudo nvidia-smi -e 1 && sudo reboot",
    reversible=True,
    source="deployment checklist, hardware: ECC on (off by default on workstation cards); gpud#86",
    ids=["H5"],
    fix=fixes.REBOOT,
)
def ecc(view: HostView, want: bool) -> Outcome:
    """Without ECC a flipped bit in the weights or the KV cache gives wrong answers and no error."""
    found = _each(view, _mode("ECC", "ecc", want))
    seen = spread(g["ecc_current"] for _, g in gpus(view, SMI_XML))
    return verdict(found, actual=seen, expected=ON_OFF[want])


@check(
    id="gpu-ecc-errors",
    title="No uncorrectable memory errors since the last reset",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.ecc_uncorrected_max",
    remedy="sudo nvidia-smi -q -d ECC,ROW_REMAPPER"
    "  # then reboot; errors that return mean exchanging the card (RMA)",
    reversible=False,
    source="azurehpc NHC and gcm check the volatile counters; gpud#108 (recovered errors are no fault)",
)
def ecc_errors(view: HostView, want: int) -> Outcome:
    """A card that has just lost data will do so again under load. Errors before the last reset, which were
    remapped, are history and no fault."""

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        value = gpu["ecc_uncorrected_volatile"]
        if gpu["ecc_current"] is False and not is_number(value):
            yield unread(where, "ECC is off, so errors are not counted (see gpu-ecc)")
        elif odd := reading(where, "uncorrectable errors", value, COUNT):
            yield from odd
        elif value > want:
            yield fault(where, f"{value:g} uncorrectable errors since the last reset")

    found = _each(view, judge)
    found += [
        fault(p.where, "the SRAM error threshold is exceeded")
        for p in problems(view, SMI_XML, "gpu-ecc-errors")
        if "threshold" in p.text
    ]
    known = [g["ecc_uncorrected_volatile"] for _, g in gpus(view, SMI_XML)]
    old = [w for w, g in gpus(view, SMI_XML) if is_number(g["ecc_uncorrected_aggregate"])
           and g["ecc_uncorrected_aggregate"] > 0]  # fmt: skip
    note = f"errors before the last reset on {listing(old)}" if old and not found else ""
    worst = max((v for v in known if is_number(v)), default=None)
    return verdict(
        found,
        actual="no count" if worst is None else f"at most {shown(worst)} a GPU",
        expected=f"≤ {want}",
        message=note,
    )


_REPAIRS = ("repair", "unrepairable")


@check(
    id="gpu-remap",
    title="No memory repair pending or failed",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.row_remap",
    remedy="sudo systemctl isolate multi-user.target; sudo nvidia-smi --gpu-reset"
    "  # reboot where the reset is refused; a failed remap means exchanging the card (RMA)",
    reversible=False,
    source="gpud#80, gpud#351 (cards without remapping), eks-node-monitoring-agent#245 (failure unwatched)",
)
def remap(view: HostView, _want: str) -> Outcome:
    """A bad row is only taken out of use at the next reset; until then the next access may hit it. A failed
    remap cannot be repaired."""

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        pending, failure, retired = gpu["remapped_pending"], gpu["remap_failure"], gpu["retired_pending"]
        if pending is True:
            yield fault(where, "row remapping is pending: reset needed")
        if failure is True:
            yield fault(where, "row remapping has failed: exchange the card")
        if retired is True:
            yield fault(where, "page retirement is pending: reset needed")
        if not isinstance(retired, bool):
            for name, value in (("row remapping pending", pending), ("row remapping failure", failure)):
                if not isinstance(value, bool):
                    yield absent(where, name, value)
        elif not isinstance(pending, bool) and not isinstance(pending, NA):
            yield absent(where, "row remapping pending", pending)

    found = _each(view, judge)
    for problem in problems(view, SMI_XML, "gpu-remap"):
        if any(word in problem.text for word in _REPAIRS):
            found.append(fault(problem.where, problem.text.rpartition(": ")[2]))
    bad = len({f.where for f in found})
    return verdict(
        found, actual=f"{bad} GPUs concerned" if bad else "none", expected="none pending, none failed"
    )


@check(
    id="gpu-persistence",
    title="Persistence mode on and its daemon running",
    severity=Severity.MAJOR,
    commands=[SMI_XML, PERSISTENCED, PROCESSES],
    expects="gpu.persistence",
    remedy="sudo systemctl enable --now nvidia-persistenced && sudo nvidia-smi -pm 1",
    reversible=True,
    source="deployment checklist, system: nvidia-persistenced running, persistence mode on",
    ids=["S6", "S7"],
    fix=fixes.PERSISTENCE,
)
def persistence(view: HostView, want: bool) -> Outcome:
    """Without it the driver unloads when nobody uses the GPU: seconds of start-up on each first call, and
    clocks, power limits and ECC counters are lost in between."""

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        mode = gpu["persistence_mode"]
        if not isinstance(mode, bool):
            yield absent(where, "persistence mode", mode)
        elif mode is not want:
            yield fault(where, f"persistence mode is {ON_OFF[mode]}")

    found = _each(view, judge)
    state = unit_state(view, PERSISTENCED)
    running = process_running(view, "nvidia-persistenced")
    if want and state not in ("", "active"):
        found.append(fault("", f"nvidia-persistenced is {state}"))
    elif want and not running:
        found.append(fault("", "nvidia-persistenced is not running"))
    seen = spread(g["persistence_mode"] for _, g in gpus(view, SMI_XML))
    daemon = "daemon running" if running else "no daemon"
    return verdict(found, actual=f"{seen}, {daemon}", expected="on, daemon running" if want else "off")


def process_running(view: HostView, name: str) -> bool:
    """Whether a process of that name runs; the kernel keeps 15 characters of it.

    Raises:
        NotMeasured: the list of processes is empty, which cannot be.
    """
    lines = [line.split(None, 1) for line in view.text(PROCESSES).splitlines() if line.strip()]
    if not lines or not all(len(words) == 2 and words[0].isdigit() for words in lines):
        raise NotMeasured("the list of processes is empty or cannot be read")
    return any(command.startswith(name[:15]) for _, command in lines)


@check(
    id="gpu-mig",
    title="MIG mode as the tenancy plan says",
    severity=Severity.CRITICAL,
    commands=[SMI_XML, SMI_LIST],
    expects="gpu.mig",
    remedy="sudo nvidia-smi -mig 0 && sudo nvidia-smi --gpu-reset  # reboot where the reset is refused",
    reversible=True,
    source="deployment checklist, system: MIG as the tenancy plan says",
    ids=["S8"],
)
def mig(view: HostView, want: bool | Sequence[str]) -> Outcome:
    """A card in MIG mode shows the engine a fraction of its memory and no NVLink. Where the plan divides
    cards, every one must hold the planned instances, or pods find no slice of theirs."""
    on = bool(want)
    found = _each(view, _mode("MIG", "mig", on))
    cards, listed = gpus(view, SMI_XML), gpus(view, SMI_LIST)
    seen = spread(g["mig_current"] for _, g in cards)
    if len(listed) != len(cards):
        raise NotMeasured(f"`{SMI_LIST.shell}` shows {len(listed)} GPUs, the report {len(cards)}")
    if isinstance(want, bool):
        return verdict(found, actual=seen, expected=ON_OFF[on])
    found += [
        fault(where, f"is divided into {_instances(gpu['mig_devices'])}")
        for where, gpu in listed
        if sorted(gpu["mig_devices"]) != sorted(want)
    ]
    divided = spread(_instances(gpu["mig_devices"]) for _, gpu in listed)
    return verdict(found, actual=f"{seen}, {divided}", expected=f"on, {_instances(want)}")


def _instances(names: Sequence[str]) -> str:
    """``2 × 1g.18gb, 1 × 3g.71gb``."""
    counts = Counter(names)
    return ", ".join(f"{counts[name]} × {name}" for name in sorted(counts)) or "no instances"


@check(
    id="gpu-mps",
    title="MPS daemon as the tenancy plan says",
    severity=Severity.MAJOR,
    commands=[PROCESSES],
    expects="gpu.mps",
    remedy="echo quit | sudo nvidia-cuda-mps-control  # to start it: sudo nvidia-cuda-mps-control -d",
    reversible=True,
    source="deployment checklist, system: MPS as the tenancy plan says",
    ids=["S8"],
)
def mps(view: HostView, want: bool) -> Outcome:
    """With MPS several processes share one context: a fault of one kills all. Where the plan shares a card it
    must run, elsewhere it must not."""
    running = process_running(view, "nvidia-cuda-mps")
    actual, expected = ("running" if v else "not running" for v in (running, want))
    found = [] if running is want else [fault("", f"nvidia-cuda-mps-control is {actual}")]
    return verdict(found, actual=actual, expected=expected)


@check(
    id="gpu-power-limit",
    title="Power limit as planned",
    severity=Severity.MAJOR,
    commands=[SMI_XML],
    expects="gpu.power_limit_w",
    remedy="sudo nvidia-smi -pl WATTS"
    "  # WATTS: the plan's expectations.<pool>.gpu.power_limit_w; it is lost at reboot unless a unit sets it",
    reversible=True,
    source="deployment checklist, hardware: full-load power; the rack's budget was derived from this limit",
    fix=fixes.POWER_LIMIT,
)
def power_limit(view: HostView, want: float) -> Outcome:
    """A lower limit costs throughput that the plan counts on; a higher one breaks the rack's power budget."""

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        limit = gpu["power_limit_w"]
        if not is_number(limit):
            yield absent(where, "power limit", limit)
        elif abs(limit - want) > 1.0:
            yield fault(where, f"power limit is {limit:g} W")

    found = _each(view, judge)
    seen = spread(g["power_limit_w"] for _, g in gpus(view, SMI_XML))
    return verdict(found, actual=f"{seen} W", expected=f"{want:g} W ± 1 W")


_BRAKE = "hw_power_brake_slowdown"


def _reasons(view: HostView, allowed: tuple[str, ...], chosen: Callable[[str], bool]) -> list[Finding]:
    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        reasons = gpu["clocks_active_reasons"]
        if not isinstance(reasons, list):
            yield absent(where, "clock event reasons", reasons)
            return
        for name in reasons:
            if chosen(name) and name not in allowed:
                yield fault(where, f"{name.replace('_', ' ')} is active")

    return _each(view, judge)


def _active(view: HostView, chosen: Callable[[str], bool]) -> str:
    names = {n for _, g in gpus(view, SMI_XML) for n in g["clocks_active_reasons"] or () if chosen(n)} if all(
        isinstance(g["clocks_active_reasons"], list) for _, g in gpus(view, SMI_XML)
    ) else {"unknown"}  # fmt: skip
    return ", ".join(sorted(n.replace("_", " ") for n in names)) or "none"


@check(
    id="gpu-power-brake",
    title="No power brake",
    severity=Severity.CRITICAL,
    commands=[SMI_XML],
    expects="gpu.clock_reasons_allowed",
    remedy="sudo ipmitool sdr type 'Power Supply'; sudo ipmitool dcmi power get_limit"
    "  # restore the failed supply, or: sudo ipmitool dcmi power deactivate",
    reversible=True,
    source="gpud hw-slowdown; seen active on 8 of 8 idle H100 at 30 °C: a supply or a BMC power cap",
)
def power_brake(view: HostView, want: tuple[str, ...]) -> Outcome:
    """The chassis pulls the GPUs' power brake when a supply fails or the BMC caps power: clocks fall to a
    fraction, the temperature looks fine, and nothing is logged."""
    found = _reasons(view, want, lambda name: name == _BRAKE)
    return verdict(found, actual=_active(view, lambda n: n == _BRAKE), expected="not active")


@check(
    id="gpu-throttle",
    title="Clocks not held down",
    severity=Severity.MAJOR,
    commands=[SMI_XML],
    expects="gpu.clock_reasons_allowed",
    remedy="nvidia-smi -q -d PERFORMANCE,TEMPERATURE"
    "  # clean filters, check fans and airflow; then repeat the check under load",
    reversible=True,
    source="NVSentinel#890; nvidia_gpu_exporter#123 (both spellings); azurehpc NHC logs it but never fails",
)
def throttle(view: HostView, want: tuple[str, ...]) -> Outcome:
    """A card that slows down drags its whole tensor-parallel group with it."""
    found = _reasons(view, want, lambda name: name != _BRAKE)
    return verdict(
        found, actual=_active(view, lambda n: n != _BRAKE), expected=f"only {', '.join(want) or 'none'}"
    )


@check(
    id="gpu-temperature",
    title="Hottest GPU below its limit at full load",
    severity=Severity.CRITICAL,
    commands=[SMI_LOAD, SMI_XML],
    expects="gpu.temperature_max_c",
    remedy="nvidia-smi --query-gpu=index,temperature.gpu,utilization.gpu --format=csv -l 5"
    "  # while a soak runs; check fans, blanking panels and inlet temperature",
    reversible=True,
    source="deployment checklist, hardware: hottest GPU < 85 °C; gpud temperature (the card's own margin)",
    ids=["H3"],
)
def temperature(view: HostView, want: float, context: Context) -> Outcome:
    """Above it cards throttle and age. NVIDIA has no hotspot sensor: the GPU's temperature and the margin the
    card itself reports are what can be read. Only a reading at full load proves the cooling."""
    load = load_of(view, context)
    found = []
    if len(gpus(view, SMI_LOAD)) != len(gpus(view, SMI_XML)):
        raise NotMeasured("two readings show different numbers of GPUs")
    for where, gpu in gpus(view, SMI_LOAD):
        value = gpu["temperature_c"]
        odd = reading(where, "temperature", value, SILICON)
        found += odd or ([fault(where, f"{value:g} °C")] if value >= want else [])
    for where, gpu in gpus(view, SMI_XML):
        margin = gpu["temperature_tlimit_c"]
        if is_number(margin) and margin <= 0:
            found.append(fault(where, f"no margin left to the card's own limit ({margin:g} °C)"))
    hottest = max(
        (g["temperature_c"] for _, g in gpus(view, SMI_LOAD) if is_number(g["temperature_c"])), default=None
    )
    outcome = verdict(found, actual=f"hottest {shown(hottest)} °C", expected=f"< {want:g} °C", load=load)
    return at_full_load(outcome, load)


@check(
    id="gpu-memory-temperature",
    title="Hottest GPU memory below its limit at full load",
    severity=Severity.CRITICAL,
    commands=[SMI_LOAD, SMI_XML],
    expects="gpu.memory_temperature_max_c",
    remedy="nvidia-smi --query-gpu=index,temperature.memory --format=csv -l 5"
    "  # while a soak runs; check fans and airflow",
    reversible=True,
    source="gpud temperature; deployment checklist, hardware: hottest GPU",
)
def memory_temperature(view: HostView, want: float, context: Context) -> Outcome:
    """Decoding is bound by memory: HBM gets hotter than the GPU, and its errors grow with temperature."""
    load = load_of(view, context)

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        value = gpu["memory_temperature_c"]
        odd = reading(where, "memory temperature", value, SILICON)
        yield from odd or ([fault(where, f"memory at {value:g} °C")] if value >= want else [])

    found = _each(view, judge)
    known = [g["memory_temperature_c"] for _, g in gpus(view, SMI_XML)]
    hottest = max((v for v in known if is_number(v)), default=None)
    outcome = verdict(found, actual=f"hottest {shown(hottest)} °C", expected=f"< {want:g} °C", load=load)
    return at_full_load(outcome, load)


@check(
    id="gpu-idle",
    title="No foreign process on the GPUs",
    severity=Severity.MAJOR,
    commands=[SMI_XML],
    expects="gpu.memory_used_max_mib",
    remedy="nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv; sudo kill PID"
    "  # memory without a process: sudo nvidia-smi --gpu-reset",
    reversible=False,
    source="gcm (memory in use before a job), soperator alloc_gpus_busy",
)
def idle(view: HostView, want: int, context: Context) -> Outcome:
    """Memory that somebody else holds makes the engine fail at start or shrink its KV cache."""
    allowed = leaf(context, "gpu.processes_allowed")
    names = tuple(allowed) if applies(allowed) else ()
    apps = _apps(view)
    found = [
        fault(where, f"process {pid} ({name}) holds {memory}")
        for where, pid, name, memory in apps
        if not (names and name.rpartition("/")[2].startswith(names))
    ]
    engine = {where for where, *_ in apps}
    for where, gpu in gpus(view, SMI_XML):
        used = gpu["memory_used_mib"]
        if odd := reading(where, "memory used", used, COUNT):
            found += odd
        elif used > want and where not in engine:
            found.append(fault(where, f"{used:g} MiB in use by no process"))
    most = max(
        (g["memory_used_mib"] for _, g in gpus(view, SMI_XML) if is_number(g["memory_used_mib"])),
        default=None,
    )
    note = f"the planned engine runs on {listing(sorted(engine))}" if engine and not found else ""
    return verdict(
        found,
        actual=f"{len(apps)} processes, at most {shown(most)} MiB used",
        expected=f"no foreign process, ≤ {want} MiB used",
        message=note,
    )


def _apps(view: HostView) -> list[tuple[str, str, str, str]]:
    """GPU, process id, name and memory of every process but those that only draw."""
    apps = []
    for where, gpu in gpus(view, SMI_XML):
        running = gpu["processes"]
        if not isinstance(running, list):
            raise NotMeasured(f"{where}: the list of processes reads {shown(running)}")
        for process in running:
            if process["process_type"] != "G":
                used = process["used_memory_mib"]
                memory = f"{used:g} MiB" if is_number(used) else shown(used)
                apps.append((where, shown(process["pid"]), process["process_name"] or "?", memory))
    return apps


@check(
    id="gpu-pcie",
    title="PCIe link of each GPU as planned",
    severity=Severity.CRITICAL,
    commands=[SMI_XML, SMI_LOAD],
    expects="gpu.pcie_gen",
    remedy="sudo lspci -vvv -d 10de: | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'"
    "  # reseat the card or riser, set the slot's speed in the BIOS, reboot",
    reversible=False,
    source="rtx6kpro#88, nvtop#6, open-gpu-kernel-modules#1010 (idle links drop to Gen1: no fault)",
    fix=fixes.REBOOT,
)
def pcie(view: HostView, want: int, context: Context) -> Outcome:
    """A link that trained narrow or slow halves the speed at which weights load and KV caches move, and no
    error is logged. An idle card may save power at Gen1: then what card and slot can do is judged."""
    width = leaf(context, "gpu.pcie_width")
    busy = {where: value is not None and value > IDLE_PERCENT for where, value in utilisation(view).items()}

    def judge(where: str, gpu: Gpu) -> Iterable[Finding]:
        lanes = gpu["pcie_width_current"]
        if applies(width):
            if not is_number(lanes):
                yield absent(where, "PCIe width", lanes)
            elif lanes != width:
                yield fault(where, f"x{lanes:g} instead of x{width}")
        if where in busy:
            yield from _generation(where, gpu, want, busy=busy[where])
        else:
            yield unread(where, "its utilisation is not in the output")

    found = _each(view, judge)
    seen = spread(
        f"Gen{shown(g['pcie_gen_current'])} x{shown(g['pcie_width_current'])}" for _, g in gpus(view, SMI_XML)
    )
    expected = f"Gen{want}" + (f" x{width}" if applies(width) else "")
    load = Load.IDLE if not any(busy.values()) else Load.FULL if all(busy.values()) else Load.PARTIAL
    slow = any(g["pcie_gen_current"] != want for _, g in gpus(view, SMI_XML))
    note = "idle links save power; card and slot can do the planned speed" if slow and not found else ""
    return verdict(found, actual=seen, expected=expected, message=note, load=load)


def _generation(where: str, gpu: Gpu, want: int, *, busy: bool) -> Iterable[Finding]:
    current = gpu["pcie_gen_current"]
    if not is_number(current):
        yield absent(where, "PCIe generation", current)
        return
    if current >= want:
        return
    if busy:
        yield fault(where, f"Gen{current:g} under load instead of Gen{want}")
        return
    able = [
        gpu[f"pcie_gen_{n}"] for n in ("max", "device_max", "host_max") if is_number(gpu[f"pcie_gen_{n}"])
    ]
    if not able:
        yield unread(where, f"Gen{current:g} at idle, and what the slot can do is not printed")
    elif min(able) < want:
        yield fault(where, f"card and slot can do Gen{min(able):g} only")
    elif current > 1:
        yield notice(where, f"Gen{current:g} at idle: take a reading under load")
