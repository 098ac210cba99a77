"""Checks of AMD accelerators: amd-smi's JSON, and rocm-smi where there is no amd-smi."""

from __future__ import annotations

from collections.abc import Iterable

from checks.areas._devices import (
    Device,
    Named,
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
    reading,
    shown,
    spread,
    unread,
    verdict,
)
from checks.commands import LSPCI
from checks.registry import Command, check
from checks.vendor_commands import AMD_BAD_PAGES, AMD_METRIC, AMD_STATIC, AMD_TOPOLOGY, ROCM_SMI
from checks.view import HostView
from rackwright.verdict import Outcome, Severity, failed


def gpus(view: HostView, command: Command) -> Named:
    """The GPUs that ``command`` of amd-smi lists; of rocm-smi where there is no amd-smi.

    Raises:
        NotMeasured: neither tool gave a list.
    """
    if view.output(command).state == "missing":
        return listed(view, ROCM_SMI, "gpu", "gpus")
    return listed(view, command, "gpu", "gpus")


@check(
    id="amd-count",
    title="All AMD GPUs present",
    severity=Severity.CRITICAL,
    commands=[AMD_STATIC, ROCM_SMI, LSPCI],
    expects="device.chips",
    remedy="sudo dmesg -T | grep -iE 'amdgpu|pcieport'; sudo lspci -D -d 1002:"
    "  # then power-cycle the host (reboot); a card that stays away is exchanged",
    reversible=False,
    source="oci-hpc (amd-smi list = gpus per node), node-scraper amd-smi plugin",
)
def count(view: HostView, want: int, context: Context) -> Outcome:
    """A card that fell off the bus, or that the driver could not start, leaves its tensor-parallel group
    without a member: the engine does not start."""
    found = len(gpus(view, AMD_STATIC))
    seen = on_bus(view, context)
    cards = context.expectations.gpu.count
    findings = counted("GPU", "amd-smi", found, seen, cards, chips_wanted=want)
    return verdict(findings, actual=f"amd-smi {found}, PCI {shown(seen)}", expected=f"{want} in both")


@check(
    id="amd-model",
    title="AMD GPU model as planned",
    severity=Severity.CRITICAL,
    commands=[AMD_STATIC, ROCM_SMI],
    expects="gpu.product",
    remedy="amd-smi static --asic"
    "  # compare with the purchase; the wrong card is exchanged, or the plan is wrong",
    reversible=False,
    source="gpud#1206 (a name that holds another's): exact name and PCI id",
)
def model(view: HostView, want: str, context: Context) -> Outcome:
    """MI300X and MI325X differ in two digits and 64 GB: exact name and PCI id decide, never a part of it."""
    ids = context.expectations.gpu.pci_ids
    devices = gpus(view, AMD_STATIC)

    def judge(where: str, gpu: Device) -> Iterable[Finding]:
        yield from exactly("model", "product", want)(where, gpu)
        if applies(ids):
            seen = gpu["pci_id"]
            if not isinstance(seen, str):
                yield absent(where, "PCI id", seen)
            elif seen not in ids:
                yield fault(where, f"PCI id {seen}")

    named = f"{want} ({', '.join(ids)})" if isinstance(ids, tuple) else want
    return verdict(each(devices, judge), actual=spread(g["product"] for _, g in devices), expected=named)


@check(
    id="amd-memory",
    title="AMD GPU memory is whole",
    severity=Severity.CRITICAL,
    commands=[AMD_STATIC, ROCM_SMI],
    expects="device.memory_min_mib",
    remedy="amd-smi static --vram --partition; sudo amd-smi bad-pages  # a card that shows less is exchanged",
    reversible=False,
    source="the plan's layout counts on this memory; rocm-smi MI300X outputs: 196,592 MiB",
)
def memory(view: HostView, want: int) -> Outcome:
    """A card that shows less, by a partition or by stacks that are off, holds fewer weights than planned."""
    devices = gpus(view, AMD_STATIC)
    found = each(devices, not_less("memory", "memory_total_mib", want, COUNT, " MiB"))
    return verdict(
        found, actual=f"{spread(g['memory_total_mib'] for _, g in devices)} MiB", expected=f"≥ {want} MiB"
    )


@check(
    id="amd-driver",
    title="AMD driver new enough",
    severity=Severity.CRITICAL,
    commands=[AMD_STATIC, ROCM_SMI],
    expects="device.driver_min",
    remedy="sudo amdgpu-install --usecase=dkms && sudo reboot  # the version of the engine image's ROCm",
    reversible=False,
    source="node-scraper amd-smi plugin (driver as planned); vLLM's requirement of ROCm 6",
)
def driver(view: HostView, want: str) -> Outcome:
    """ROCm in the engine's image needs a kernel driver of its own age: an older one starts, then fails in the
    first collective."""
    first = ROCM_SMI if view.output(AMD_STATIC).state == "missing" else AMD_STATIC
    version = driver_of(view, [first])
    found = [] if at_least(version, want) else [fault("", f"driver {version} is older than {want}")]
    return verdict(found, actual=version, expected=f"≥ {want}")


@check(
    id="amd-responsive",
    title="amd-smi answers in time",
    severity=Severity.CRITICAL,
    commands=[AMD_STATIC, ROCM_SMI],
    expects="response_max_s",
    remedy="sudo dmesg -T | grep -i amdgpu | tail; sudo reboot  # a card that hangs again is exchanged",
    reversible=False,
    source="as of nvidia-smi: pai#889 (stale values while the tool hangs)",
)
def responsive(view: HostView, want: float) -> Outcome:
    """A driver that hangs is the plainest sign of a sick GPU: what else is read from the host is then old."""
    out = view.output(AMD_STATIC)
    expected = f"an answer within {want:g} s"
    if out.state == "timeout":
        return failed("no answer", expected, f"amd-smi did not answer in {AMD_STATIC.timeout_s} s")
    used = ROCM_SMI if out.state == "missing" else AMD_STATIC
    gpus(view, AMD_STATIC)
    seconds = view.output(used).seconds
    late = [] if seconds <= want else [fault("", f"`{used.shell}` took {seconds:.1f} s")]
    return verdict(late, actual=f"{seconds:.1f} s", expected=expected)


@check(
    id="amd-ecc",
    title="No uncorrectable memory errors on AMD GPUs",
    severity=Severity.CRITICAL,
    commands=[AMD_METRIC],
    expects="gpu.ecc_uncorrected_max",
    remedy="amd-smi metric --ecc --ecc-blocks; sudo amd-smi reset --gpureset"
    "  # one that counts again is exchanged",
    reversible=False,
    source="oci-hpc, node-scraper amd-smi plugin (ECC analyzer)",
)
def ecc(view: HostView, want: int, context: Context) -> Outcome:
    """An uncorrectable error is a wrong number in the weights or the KV cache, or the loss of the job."""
    corrected = leaf(context, "device.corrected_max")
    devices = listed(view, AMD_METRIC, "gpu", "gpus")

    def judge(where: str, gpu: Device) -> Iterable[Finding]:
        yield from at_most("uncorrectable errors", "ecc_uncorrected", want, COUNT)(where, gpu)
        deferred = gpu["ecc_deferred"]
        if is_number(deferred) and deferred > want:
            yield fault(where, f"{deferred:g} errors deferred: poisoned memory that nothing has read yet")
        some = gpu["ecc_corrected"]
        if applies(corrected) and is_number(some) and some > corrected:
            yield notice(where, f"{some:g} corrected errors")

    seen = spread(g["ecc_uncorrected"] for _, g in devices)
    return verdict(each(devices, judge), actual=f"{seen} uncorrectable", expected=f"≤ {want}")


@check(
    id="amd-bad-pages",
    title="No bad memory pages waiting on AMD GPUs",
    severity=Severity.MAJOR,
    commands=[AMD_BAD_PAGES],
    expects="device.bad_pages_max",
    remedy="sudo reboot  # pending pages are retired then; unreservable ones: exchange the card",
    reversible=False,
    source="node-scraper amd-smi plugin (bad pages), oci-hpc",
)
def bad_pages(view: HostView, want: int) -> Outcome:
    """A page that is known bad and still in use gives the next uncorrectable error."""
    devices = listed(view, AMD_BAD_PAGES, "gpu", "gpus")

    def judge(where: str, gpu: Device) -> Iterable[Finding]:
        for name in ("pending", "unreservable"):
            value = gpu[name]
            odd = reading(where, f"{name} pages", value, COUNT)
            yield from odd or ([fault(where, f"{value} pages {name}")] if value > want else [])

    most = max((g["pending"] for _, g in devices if is_number(g["pending"])), default=None)
    return verdict(each(devices, judge), actual=f"at most {shown(most)} pending", expected=f"≤ {want}")


@check(
    id="amd-links",
    title="Every AMD GPU reaches every other over XGMI",
    severity=Severity.CRITICAL,
    commands=[AMD_TOPOLOGY],
    expects="device.peer_links",
    remedy="amd-smi topology; amd-smi xgmi  # reseat the OAM or exchange the board, then power-cycle",
    reversible=False,
    source="node-scraper amd-smi plugin (XGMI link), ROCm/cvs",
)
def links(view: HostView, want: int) -> Outcome:
    """A pair without its link talks over PCIe: every all-reduce waits for that pair; nothing is logged."""
    devices = listed(view, AMD_TOPOLOGY, "gpu", "gpus")
    counts = []
    found: list[Finding] = []
    for where, gpu in devices:
        peers = [link for link in gpu["links"] if link["type"] != "SELF"]
        good = [link for link in peers if link["type"] == "XGMI" and link["enabled"]]
        counts.append(len(good))
        for link in peers:
            if link["type"] != "XGMI":
                found.append(fault(where, f"GPU {link['gpu']} is reached over {link['type'] or 'nothing'}"))
            elif not link["enabled"]:
                found.append(fault(where, f"the XGMI link to GPU {link['gpu']} is down"))
        if len(peers) < want:
            found.append(fault(where, f"{len(peers)} other GPUs are listed instead of {want}"))
    return verdict(found, actual=f"{spread(counts)} links", expected=f"{want} XGMI links a GPU")


@check(
    id="amd-temperature",
    title="Hottest AMD GPU below its limit at full load",
    severity=Severity.CRITICAL,
    commands=[AMD_METRIC, ROCM_SMI],
    expects="gpu.temperature_max_c",
    remedy="amd-smi monitor -t  # while a soak runs; check fans, blanking panels and inlet temperature",
    reversible=True,
    source="deployment checklist, hardware: hottest GPU < 85 °C; of AMD the junction (hotspot) sensor",
    ids=["H3"],
)
def temperature(view: HostView, want: float, context: Context) -> Outcome:
    """The junction is the hottest point of the die. Only a reading at full load proves the cooling."""
    load = load_of(view, context)
    devices = gpus(view, AMD_METRIC)
    found = each(devices, below("junction", "temperature_junction_c", want, SILICON, " °C"))
    most = leaf(context, "gpu.memory_temperature_max_c")
    if applies(most):
        found += each(devices, below("memory", "temperature_memory_c", most, SILICON, " °C"))
    hottest = widest(devices, "temperature_junction_c")
    outcome = verdict(found, actual=f"hottest {shown(hottest)} °C", expected=f"< {want:g} °C", load=load)
    return at_full_load(outcome, load)


@check(
    id="amd-power-limit",
    title="AMD power cap as planned",
    severity=Severity.MAJOR,
    commands=[AMD_STATIC, ROCM_SMI],
    expects="gpu.power_limit_w",
    remedy="sudo amd-smi set --power-cap WATTS"
    "  # WATTS: the plan's expectations.<pool>.gpu.power_limit_w; it is lost at reboot",
    reversible=True,
    source="deployment checklist, hardware: the rack's budget was derived from this limit",
)
def power_limit(view: HostView, want: float) -> Outcome:
    """A lower cap costs throughput that the plan counts on; a higher one breaks the rack's power budget."""
    devices = gpus(view, AMD_STATIC)

    def judge(where: str, gpu: Device) -> Iterable[Finding]:
        limit = gpu["power_limit_w"]
        if not is_number(limit):
            yield absent(where, "power cap", limit)
        elif abs(limit - want) > 1.0:
            yield fault(where, f"power cap is {limit:g} W")

    seen = spread(g["power_limit_w"] for _, g in devices)
    return verdict(each(devices, judge), actual=f"{seen} W", expected=f"{want:g} W ± 1 W")


@check(
    id="amd-throttle",
    title="AMD clocks not held down",
    severity=Severity.MAJOR,
    commands=[AMD_METRIC],
    expects="device.throttled",
    remedy="amd-smi metric --throttle --clock  # clean filters, check fans and supplies; repeat under load",
    reversible=True,
    source="NVSentinel#890 (throttling of one card slows the group); amd-smi metric throttle_status",
)
def throttle(view: HostView, want: bool) -> Outcome:
    """A card that slows down drags its whole tensor-parallel group with it."""
    devices = listed(view, AMD_METRIC, "gpu", "gpus")
    words = {"UNTHROTTLED": False, "THROTTLED": True}

    def judge(where: str, gpu: Device) -> Iterable[Finding]:
        word = gpu["throttle"]
        if not isinstance(word, str):
            yield absent(where, "throttle status", word)
        elif word.upper() not in words:
            yield unread(where, f"throttle status reads {word}")
        elif words[word.upper()] and not want:
            yield fault(where, "clocks are held down")

    seen = spread(g["throttle"] for _, g in devices)
    return verdict(each(devices, judge), actual=seen, expected="UNTHROTTLED")


@check(
    id="amd-pcie",
    title="PCIe link of each AMD GPU as planned",
    severity=Severity.CRITICAL,
    commands=[AMD_METRIC],
    expects="gpu.pcie_gen",
    remedy="sudo lspci -vvv -d 1002: | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'"
    "  # reseat the card or riser, set the slot's speed in the BIOS, reboot",
    reversible=False,
    source="node-scraper pcie plugin (generation and width as expected)",
)
def pcie(view: HostView, want: int, context: Context) -> Outcome:
    """A link that trained narrow or slow halves the speed at which weights load, and no error is logged.
    These cards keep their link at full speed when idle."""
    width = leaf(context, "gpu.pcie_width")
    devices = listed(view, AMD_METRIC, "gpu", "gpus")

    def judge(where: str, gpu: Device) -> Iterable[Finding]:
        yield from not_less("PCIe generation", "pcie_gen_current", want, COUNT)(where, gpu)
        if applies(width):
            yield from exactly("PCIe width", "pcie_width_current", width)(where, gpu)

    seen = spread(f"Gen{shown(g['pcie_gen_current'])} x{shown(g['pcie_width_current'])}" for _, g in devices)
    return verdict(each(devices, judge), actual=seen, expected=f"Gen{want} x{shown(width)}")


@check(
    id="amd-partition",
    title="AMD GPUs partitioned as planned",
    severity=Severity.CRITICAL,
    commands=[AMD_STATIC],
    expects="device.compute_partition",
    remedy="sudo amd-smi set --compute-partition SPX && sudo amd-smi set --memory-partition NPS1"
    "  # no process may hold a GPU",
    reversible=True,
    source="MI300 partition modes; vLLM is measured with one device a card",
)
def partition(view: HostView, want: str, context: Context) -> Outcome:
    """In CPX a card is eight devices with an eighth of the memory each: the planned layout does not fit."""
    memory_mode = leaf(context, "device.memory_partition")
    devices = listed(view, AMD_STATIC, "gpu", "gpus")
    found = each(devices, exactly("compute partition", "compute_partition", want))
    if applies(memory_mode):
        found += each(devices, exactly("memory partition", "memory_partition", memory_mode))
    seen = spread(f"{shown(g['compute_partition'])}/{shown(g['memory_partition'])}" for _, g in devices)
    return verdict(found, actual=seen, expected=f"{want}/{shown(memory_mode)}")


@check(
    id="amd-idle",
    title="No foreign memory on the AMD GPUs",
    severity=Severity.MAJOR,
    commands=[AMD_METRIC, ROCM_SMI],
    expects="gpu.memory_used_max_mib",
    remedy="amd-smi process; sudo kill PID  # memory without a process: sudo amd-smi reset --gpureset",
    reversible=False,
    source="gcm (memory in use before a job), soperator alloc_gpus_busy",
)
def idle(view: HostView, want: int) -> Outcome:
    """Memory that somebody else holds makes the engine fail at start or shrink its KV cache. A GPU that works
    is not judged: it is the planned engine's."""
    devices = gpus(view, AMD_METRIC)

    def judge(where: str, gpu: Device) -> Iterable[Finding]:
        busy = gpu["utilisation_percent"]
        if not is_number(busy):
            yield absent(where, "utilisation", busy)
        elif busy <= 0:
            yield from at_most("memory used", "memory_used_mib", want, COUNT, " MiB")(where, gpu)

    working = sum(
        1 for _, g in devices if is_number(g["utilisation_percent"]) and g["utilisation_percent"] > 0
    )
    most = widest([(w, g) for w, g in devices if g["utilisation_percent"] == 0], "memory_used_mib")
    actual = f"at most {shown(most)} MiB on idle GPUs" if most is not None else f"{working} GPUs work"
    return verdict(each(devices, judge), actual=actual, expected=f"≤ {want} MiB on an idle GPU")
