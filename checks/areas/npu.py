"""Checks of Ascend NPUs: npu-smi and hccn_tool. A card may carry two dies; each is a device of its own."""

from __future__ import annotations

from collections.abc import Iterable

from checks.areas._devices import (
    Device,
    at_most,
    below,
    counted,
    driver_of,
    each,
    exactly,
    listed,
    on_bus,
    widest,
)
from checks.areas._devices import at_least as not_less
from checks.areas._load import load_of
from checks.areas._read import (
    COUNT,
    SILICON,
    Context,
    Finding,
    absent,
    applies,
    at_full_load,
    at_least,
    fault,
    is_number,
    leaf,
    notice,
    shown,
    spread,
    unread,
    verdict,
)
from checks.commands import LSPCI
from checks.registry import check
from checks.vendor_commands import NPU_ECC, NPU_INFO, NPU_LINKS
from checks.view import HostView, NotMeasured
from rackwright.verdict import Outcome, Severity, failed

NOUN = "npu"


@check(
    id="npu-count",
    title="All NPU chips present",
    severity=Severity.CRITICAL,
    commands=[NPU_INFO, LSPCI],
    expects="device.chips",
    remedy="sudo lspci -D -d 19e5:; sudo dmesg -T | grep -iE 'davinci|devdrv'"
    "  # then power-cycle the host (reboot); a card that stays away is exchanged",
    reversible=False,
    source="preflight practice (count per tool and bus); vllm-ascend#12980 (two dies a card on 910C)",
)
def count(view: HostView, want: int, context: Context) -> Outcome:
    """A card that is missing leaves its tensor-parallel group without a member. On 910C every card shows two
    chips: they are counted, not the cards."""
    chips = len(listed(view, NPU_INFO, NOUN))
    seen = on_bus(view, context)
    cards = context.expectations.gpu.count
    found = counted("chip", "npu-smi", chips, seen, cards, chips_wanted=want)
    return verdict(found, actual=f"npu-smi {chips} chips, PCI {shown(seen)}", expected=f"{want} chips")


@check(
    id="npu-model",
    title="NPU model as planned",
    severity=Severity.CRITICAL,
    commands=[NPU_INFO],
    expects="gpu.product",
    remedy="npu-smi info -m; npu-smi info -t board -i 0"
    "  # 910B1 to 910B4 are different cards: exchange it, or correct the plan",
    reversible=False,
    source="gpud#1206: exact names; npu-smi outputs show 910A, 910B2C, 910B3, 910B4 as names of their own",
)
def model(view: HostView, want: str) -> Outcome:
    """910B3 and 910B4 differ in compute and memory, 910B2C in its interconnect: the exact name decides."""
    devices = listed(view, NPU_INFO, NOUN)
    found = each(devices, exactly("model", "product", want))
    return verdict(found, actual=spread(d["product"] for _, d in devices), expected=want)


@check(
    id="npu-health",
    title="Every NPU healthy",
    severity=Severity.CRITICAL,
    commands=[NPU_INFO],
    expects="device.health",
    remedy="npu-smi info -t health -i CARD; sudo npu-smi set -t reset -i CARD -c 0"
    "  # CARD: the one named above; an alarm that comes back: exchange it",
    reversible=False,
    source="npu-smi info (OK, Warning, Alarm, Critical, UNKNOWN)",
)
def health(view: HostView, want: str) -> Outcome:
    """The card's own controller says that something is wrong: heat, memory, voltage or a lost link."""
    devices = listed(view, NPU_INFO, NOUN)

    def judge(where: str, device: Device) -> Iterable[Finding]:
        word = device["health"]
        if not isinstance(word, str):
            yield absent(where, "health", word)
        elif word.casefold() == "warning":
            yield notice(where, f"health is {word}")
        elif word != want:
            yield fault(where, f"health is {word}")

    return verdict(each(devices, judge), actual=spread(d["health"] for _, d in devices), expected=want)


@check(
    id="npu-memory",
    title="NPU memory is whole",
    severity=Severity.CRITICAL,
    commands=[NPU_INFO],
    expects="device.memory_min_mib",
    remedy="npu-smi info -t memory -i 0  # a chip that shows less HBM is exchanged",
    reversible=False,
    source="the plan's layout counts on this memory; npu-smi outputs: 65,536 MiB of HBM a 910B",
)
def memory(view: HostView, want: int) -> Outcome:
    """A chip that shows less HBM than the planned model has is another model, or a stack of it is off."""
    devices = listed(view, NPU_INFO, NOUN)
    found = each(devices, not_less("HBM", "memory_total_mib", want, COUNT, " MiB"))
    seen = spread(d["memory_total_mib"] for _, d in devices)
    return verdict(found, actual=f"{seen} MiB", expected=f"≥ {want} MiB")


@check(
    id="npu-driver",
    title="Ascend driver new enough",
    severity=Severity.CRITICAL,
    commands=[NPU_INFO],
    expects="device.driver_min",
    remedy="sudo ./Ascend-hdk-*-npu-driver_*.run --upgrade && sudo reboot"
    "  # the driver that the engine image's CANN release names",
    reversible=False,
    source="CANN's table of drivers; vLLM-Ascend's requirement",
)
def driver(view: HostView, want: str) -> Outcome:
    """CANN in the engine's image asks for a driver of its own age: with an older one the first operator
    fails."""
    version = driver_of(view, [NPU_INFO])
    found = [] if at_least(version, want) else [fault("", f"driver {version} is older than {want}")]
    return verdict(found, actual=version, expected=f"≥ {want}")


@check(
    id="npu-responsive",
    title="npu-smi answers in time",
    severity=Severity.CRITICAL,
    commands=[NPU_INFO],
    expects="response_max_s",
    remedy="sudo dmesg -T | grep -iE 'davinci|devdrv' | tail; sudo reboot"
    "  # a card that hangs again is exchanged",
    reversible=False,
    source="as of nvidia-smi: pai#889 (stale values while the tool hangs)",
)
def responsive(view: HostView, want: float) -> Outcome:
    """A driver that hangs is the plainest sign of a sick NPU: what else is read from the host is then old."""
    out = view.output(NPU_INFO)
    expected = f"an answer within {want:g} s"
    if out.state == "timeout":
        return failed("no answer", expected, f"npu-smi info did not answer in {NPU_INFO.timeout_s} s")
    listed(view, NPU_INFO, NOUN)
    late = [] if out.seconds <= want else [fault("", f"npu-smi info took {out.seconds:.1f} s")]
    return verdict(late, actual=f"{out.seconds:.1f} s", expected=expected)


@check(
    id="npu-ecc",
    title="No uncorrectable memory errors on NPUs",
    severity=Severity.CRITICAL,
    commands=[NPU_ECC],
    expects="gpu.ecc_uncorrected_max",
    remedy="npu-smi info -t ecc -i CARD -c 0; sudo npu-smi set -t reset -i CARD -c 0"
    "  # CARD: the one named above; one that counts again is exchanged",
    reversible=False,
    source="npu-smi info -t ecc; node exporters of Ascend watch the same counters",
)
def ecc(view: HostView, want: int, context: Context) -> Outcome:
    """A double bit error in HBM is a wrong number in the weights or the KV cache, or the loss of the job."""
    corrected = leaf(context, "device.corrected_max")
    chips = leaf(context, "device.chips")
    devices = listed(view, NPU_ECC, NOUN)

    def judge(where: str, device: Device) -> Iterable[Finding]:
        yield from at_most("double bit errors", "uncorrected", want, COUNT)(where, device)
        some = device["corrected"]
        if applies(corrected) and is_number(some) and some > corrected:
            yield notice(where, f"{some:g} single bit errors")

    found = each(devices, judge)
    if applies(chips) and len(devices) != chips:
        found.append(unread("", f"{len(devices)} of {chips} chips were read"))
    seen = spread(d["uncorrected"] for _, d in devices)
    return verdict(found, actual=f"{seen} double bit", expected=f"≤ {want}")


@check(
    id="npu-network",
    title="Every NPU's network port up",
    severity=Severity.CRITICAL,
    commands=[NPU_LINKS],
    expects="device.network_link",
    remedy="sudo hccn_tool -i DEVICE -optical -g; sudo hccn_tool -i DEVICE -ip -g"
    "  # DEVICE: the one named above; cable, module, switch port, address",
    reversible=True,
    source="vLLM-Ascend's multi-node guide (all ports must be UP), hccn_tool -net_health",
)
def network(view: HostView, want: bool, context: Context) -> Outcome:
    """Each NPU has a port of its own: with one down every collective over several hosts waits for it."""
    if not want:
        raise NotMeasured("the plan wants the ports down, which no check proves")
    chips = leaf(context, "device.chips")
    devices = listed(view, NPU_LINKS, NOUN)

    def judge(where: str, device: Device) -> Iterable[Finding]:
        yield from exactly("link", "link", "UP")(where, device)
        word = device["net_health"]
        if not isinstance(word, str):
            yield absent(where, "net health", word)
        elif word.casefold() == "init":
            yield notice(where, "net health is not tested: no address to test is set")
        elif word.casefold() != "success":
            yield fault(where, f"net health is {word}")

    found = each(devices, judge)
    if applies(chips) and len(devices) != chips:
        found.append(unread("", f"{len(devices)} of {chips} devices were read"))
    return verdict(found, actual=spread(d["link"] for _, d in devices), expected="UP, Success")


@check(
    id="npu-temperature",
    title="Hottest NPU below its limit at full load",
    severity=Severity.CRITICAL,
    commands=[NPU_INFO],
    expects="gpu.temperature_max_c",
    remedy="npu-smi info watch -d 5  # while a soak runs; check fans, blanking panels and inlet temperature",
    reversible=True,
    source="deployment checklist, hardware: hottest GPU < 85 °C",
    ids=["H3"],
)
def temperature(view: HostView, want: float, context: Context) -> Outcome:
    """Above it cards throttle and age. Only a reading at full load proves the cooling."""
    load = load_of(view, context)
    devices = listed(view, NPU_INFO, NOUN)
    found = each(devices, below("chip", "temperature_c", want, SILICON, " °C"))
    hottest = widest(devices, "temperature_c")
    outcome = verdict(found, actual=f"hottest {shown(hottest)} °C", expected=f"< {want:g} °C", load=load)
    return at_full_load(outcome, load)


@check(
    id="npu-idle",
    title="No foreign memory on the NPUs",
    severity=Severity.MAJOR,
    commands=[NPU_INFO],
    expects="gpu.memory_used_max_mib",
    remedy="npu-smi info  # the table of processes; sudo kill PID",
    reversible=False,
    source="gcm (memory in use before a job), soperator alloc_gpus_busy",
)
def idle(view: HostView, want: int) -> Outcome:
    """HBM that somebody else holds makes the engine fail at start or shrink its KV cache. A chip that works
    is not judged: it is the planned engine's."""
    devices = listed(view, NPU_INFO, NOUN)

    def judge(where: str, device: Device) -> Iterable[Finding]:
        busy = device["utilisation_percent"]
        if not is_number(busy):
            yield absent(where, "utilisation", busy)
        elif busy <= 0:
            yield from at_most("HBM used", "memory_used_mib", want, COUNT, " MiB")(where, device)

    resting = [(w, d) for w, d in devices if d["utilisation_percent"] == 0]
    most = widest(resting, "memory_used_mib")
    actual = f"at most {shown(most)} MiB on idle chips" if resting else f"{len(devices)} chips work"
    return verdict(each(devices, judge), actual=actual, expected=f"≤ {want} MiB on an idle chip")
