"""Checks of settings that engines and pods meet: names, shared memory, package holds, runtime and kubelet."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import yaml

from checks.areas._read import (
    Context,
    Finding,
    absent,
    applies,
    fault,
    is_number,
    leaf,
    sections,
    unread,
    verdict,
)
from checks.commands import MEMINFO
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity, failed, passed, warned

NAMES = Command(
    "names",
    # All at once: a server that is away costs its deadline once, not once a name.
    "u() { read -r k b </proc/uptime; k=${k%.*}${k#*.}; }; u; m=$k; n=0; "
    "for h in $RW_NAMES; do n=$((n + 1)); "
    '( if r=$(timeout 3 getent ahosts "$h"); then set -- $r; u; k=$((k - m)); echo "$h $1 $k"; '
    'else echo "$h none -"; fi ) & done; wait; ip route show default | sed "s/^/route /"; echo "end $n"',
    variables=("RW_NAMES",),
)
SHM = Command("df-shm", "df -P -B1 /dev/shm", parser="df")
HOLDS = Command(
    "package-holds",
    "if command -v dpkg-query >/dev/null; then echo '== dpkg'; "
    "dpkg-query -W -f '${Status} ${Package}\\n' 'nvidia-*' 'cuda-drivers*' 'linux-*' 2>/dev/null; "
    "echo '== auto'; apt-config dump APT::Periodic::Unattended-Upgrade; "
    "else if command -v rpm >/dev/null; then echo '== locks'; "
    "cat /etc/dnf/plugins/versionlock.list /etc/yum/pluginconf.d/versionlock.list 2>/dev/null; fi; fi; "
    "echo '== end'",
)
RUNTIME_CONFIG = Command(
    "runtime-config",
    "echo '== containerd'; containerd config dump || exit 1; f=/etc/nvidia-container-runtime/config.toml; "
    'if [ -r "$f" ]; then echo "== toolkit"; cat "$f"; fi; echo "== end"',
    ok_rcs=(0, 1),
)
KUBELET = Command(
    "kubelet-config",
    'f=/var/lib/kubelet/config.yaml; if [ -e "$f" ]; then echo \'== file\'; cat "$f" || exit 1; '
    "else echo '== absent'; fi; echo '== end'",
    root=True,
)


def _parts(view: HostView, command: Command) -> dict[str, str]:
    """The sections of a whole output.

    Raises:
        NotMeasured: it came back incomplete.
    """
    found = sections(view.text(command))
    if list(found)[-1:] != ["end"]:
        raise NotMeasured(f"the output of `{command.key}` came back incomplete")
    return found


@check(
    id="net-names",
    title="Names of the plan resolve, and there is a default route",
    severity=Severity.MAJOR,
    commands=[NAMES],
    expects="os.names",
    remedy="resolvectl status; getent ahosts NAME; ip route show default"
    "  # put the site's servers into /etc/systemd/resolved.conf; the route into netplan",
    reversible=True,
    source="preflight practice (deepops): registry and time servers are found before anything is pulled",
)
def names(view: HostView, want: tuple[str, ...], context: Context) -> Outcome:
    """A host that cannot find the registry starts no engine, and one that finds it late starts every
    connection seconds late: both look like a slow network."""
    limit = leaf(context, "os.resolve_max_s")
    *lines, last = view.text(NAMES).splitlines() or [""]
    if last != f"end {len(want)}":
        raise NotMeasured("the list of names came back incomplete")
    routes = [line for line in lines if line.startswith("route ")]
    rows = {parts[0]: parts[1:] for line in lines if len(parts := line.split()) == 3 and parts[0] in want}
    found: list[Finding] = []
    slowest = 0.0
    for name in want:
        address, time = rows.get(name, ("", ""))
        if not address:
            found.append(unread(name, "is not in the output"))
        elif address == "none":
            found.append(fault(name, "does not resolve"))
        elif not time.isdigit():
            found.append(unread(name, f"took {time!r}, which is no time"))
        else:
            seconds = int(time) / 100
            slowest = max(slowest, seconds)
            if applies(limit) and seconds > limit:
                found.append(fault(name, f"took {seconds:.1f} s"))
    if not routes:
        found.append(fault("", "there is no default route"))
    known = sum(row[0] != "none" for row in rows.values())
    return verdict(
        found,
        actual=f"{known} of {len(want)} resolve, slowest {slowest:.1f} s, {len(routes)} default route",
        expected=f"{listing(want)} within {limit:g} s, a default route" if applies(limit) else listing(want),
    )


@check(
    id="os-hugepages",
    title="No memory reserved as static huge pages",
    severity=Severity.WARN,
    commands=[MEMINFO],
    expects="os.hugepages",
    remedy="sysctl vm.nr_hugepages; sudo sysctl -w vm.nr_hugepages=0"
    "  # lasting: take hugepages= off the kernel command line and vm.nr_hugepages out of /etc/sysctl.d",
    reversible=True,
    source="our own: engines do not map hugetlbfs; what is reserved there is missing for weights and caches",
)
def hugepages(view: HostView, want: int) -> Outcome:
    """Static huge pages belong to whoever asks for them by name. No engine does: the memory is lost to page
    cache, offloaded KV caches and loading of weights."""
    total = view.facts(MEMINFO)["hugepages_total"]
    if not is_number(total):
        return verdict([absent("", "HugePages_Total", total)], actual="unknown", expected=f"{want}")
    if total == want:
        return passed(f"{total:g}", f"{want}")
    return failed(f"{total:g}", f"{want}", f"{total:g} static huge pages instead of {want}")


@check(
    id="os-shm",
    title="Shared memory large enough for tensor parallelism",
    severity=Severity.WARN,
    commands=[SHM],
    expects="os.shm_min_gib",
    remedy="sudo mount -o remount,size=50% /dev/shm  # lasting: a line for /dev/shm in /etc/fstab",
    reversible=True,
    source="vLLM's and SGLang's documentation (--ipc=host or --shm-size): NCCL and workers share memory",
)
def shm(view: HostView, want: float) -> Outcome:
    """Workers of one engine hand tensors over in /dev/shm. Where it is small they end with a bus error, at
    the first long prompt."""
    systems = view.facts(SHM)["filesystems"] or []
    if len(systems) != 1:
        raise NotMeasured(f"df shows {len(systems)} file systems for /dev/shm")
    size, source = systems[0]["size_bytes"], str(systems[0]["source"])
    if not is_number(size):
        return verdict([absent("", "size", size)], actual="unknown", expected=f"≥ {want:g} GiB")
    gib = size / 2**30
    found = [] if gib >= want else [fault("", f"{gib:.1f} GiB instead of {want:g}")]
    if source not in ("tmpfs", "shm"):
        found.append(fault("", f"it lies on {source}, not in memory"))
    return verdict(found, actual=f"{gib:.1f} GiB, {source}", expected=f"≥ {want:g} GiB of tmpfs")


_KINDS = {
    "driver": (r"(?:nvidia-(?:driver|dkms|kernel|open|headless)|cuda-drivers)", r"nvidia|cuda-drivers"),
    "fabric-manager": (r"nvidia-fabric-?manager", r"fabric-?manager"),
    "kernel": (r"linux-(?!.*\d+\.\d+\.\d)(?:image|generic|server|lowlatency|nvidia|aws|azure|gcp|oracle)",
               r"kernel"),
}  # fmt: skip
"""Names of packages, and of locks: of kernels the ones without a version, which draw in the newest."""


@check(
    id="os-holds",
    title="Driver and kernel held back from upgrades",
    severity=Severity.WARN,
    commands=[HOLDS],
    expects="os.package_holds",
    remedy="sudo apt-mark hold linux-generic linux-image-generic"
    '  # and the driver\'s packages; switch off: APT::Periodic::Unattended-Upgrade "0";',
    reversible=True,
    source="azhpc-images#86: an unattended upgrade moved the driver and not the fabric manager",
)
def holds(view: HostView, want: tuple[str, ...]) -> Outcome:
    """An upgrade at night changes the libraries under a loaded driver: the next process that starts on a GPU
    fails with a version mismatch, on all hosts within a day."""
    parts = _parts(view, HOLDS)
    if "locks" in parts:
        return _locks(parts["locks"], want)
    if "dpkg" not in parts or "auto" not in parts:
        raise NotMeasured("neither dpkg nor rpm knows the installed packages")
    rows = [row for line in parts["dpkg"].splitlines() if (row := _package(line))]
    if not rows:
        raise NotMeasured("dpkg shows no package of a driver or a kernel")
    found: list[Finding] = []
    held = []
    for kind in want:
        mine = {name: hold for name, hold in rows if re.match(_KINDS[kind][0], name)}
        if mine and not any(mine.values()):
            found.append(fault(kind, f"not held: {listing(sorted(mine), 3)}"))
        held += [name for name, hold in mine.items() if hold]
    auto = re.search(r'Unattended-Upgrade\s+"(\w*)"', parts["auto"])
    if auto and auto.group(1) not in ("", "0", "false", "no"):
        found.append(fault("", "unattended upgrades are on"))
    return verdict(
        found,
        actual=f"held: {listing(sorted(held), 4) or 'none'}",
        expected=f"{listing(want)} held, none unattended",
    )


def _package(line: str) -> tuple[str, bool] | None:
    """Name, and whether it is held; None of a package that is not installed.

    Raises:
        NotMeasured: the line is none of dpkg-query's.
    """
    words = line.split()
    if not words:
        return None
    if len(words) != 4 or words[0] not in ("install", "hold", "deinstall", "purge", "unknown"):
        raise NotMeasured(f"dpkg-query printed {line[:80]!r}")
    return (words[3], words[0] == "hold") if words[2] == "installed" else None


def _locks(text: str, want: tuple[str, ...]) -> Outcome:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#", "!"))]
    found = [
        fault(kind, "no version lock names it")
        for kind in want
        if not any(re.search(_KINDS[kind][1], line) for line in lines)
    ]
    return verdict(found, actual=f"{len(lines)} version locks", expected=f"{listing(want)} locked")


@check(
    id="container-config",
    title="Containers keep their GPUs when systemd reloads",
    severity=Severity.WARN,
    commands=[RUNTIME_CONFIG],
    expects="os.cgroup_driver",
    remedy="containerd config dump | grep -n SystemdCgroup"
    "  # set it to true for every runtime in /etc/containerd/config.toml; sudo systemctl restart containerd",
    reversible=True,
    source="nvidia_gpu_exporter#110: NVML Unknown Error in running containers after systemctl daemon-reload",
)
def runtime_config(view: HostView, want: str) -> Outcome:
    """With cgroupfs beside systemd, a daemon-reload takes the GPU devices away from running containers: the
    engine dies with an unknown error hours after anybody touched the host."""
    out = view.output(RUNTIME_CONFIG)
    if out.rc == 1:
        raise NotMeasured(f"containerd does not print its configuration: {out.stderr.strip()[:120]}")
    parts = _parts(view, RUNTIME_CONFIG)
    runtimes = dict(_runtimes(_toml(parts.get("containerd", ""), "containerd")))
    if not runtimes:
        raise NotMeasured("containerd's configuration names no runtime of pods")
    found = [
        fault(name, "uses cgroupfs (SystemdCgroup is not true)")
        for name, options in runtimes.items()
        if options.get("SystemdCgroup") is not True
    ]
    if "toolkit" in parts:
        tables = [t for t in _toml(parts["toolkit"], "the NVIDIA toolkit").values() if isinstance(t, dict)]
        if any(table.get("no-cgroups") is True for table in tables):
            found.append(fault("", "the NVIDIA toolkit sets no-cgroups: containers of root lose their GPUs"))
    return verdict(found, actual=f"runtimes {listing(sorted(runtimes))}", expected=f"cgroups by {want}")


@lru_cache(maxsize=64)
def _toml(text: str, what: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotMeasured(f"the configuration of {what} is not TOML: {error}") from None


def _runtimes(table: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every runtime that runs containers by runc, with its options; wherever this release nests them."""
    for name, value in table.items():
        if not isinstance(value, dict):
            continue
        if name == "runtimes":
            for runtime, settings in value.items():
                if isinstance(settings, dict) and "runc" in str(settings.get("runtime_type", "runc")):
                    options = settings.get("options")
                    yield runtime, options if isinstance(options, dict) else {}
        else:
            yield from _runtimes(value)


@check(
    id="container-kubelet",
    title="Kubelet pins CPUs and keeps them near the GPUs",
    severity=Severity.MAJOR,
    commands=[KUBELET],
    expects="os.cpu_manager",
    remedy="sudo vi /var/lib/kubelet/config.yaml"
    "  # cpuManagerPolicy: static, topologyManagerPolicy: best-effort, reservedSystemCPUs: 0-3; "
    "then drain, sudo rm /var/lib/kubelet/cpu_manager_state, sudo systemctl restart kubelet",
    reversible=True,
    source="go-gpuallocator#17; Kubernetes documentation: a static policy needs reserved CPUs",
)
def kubelet(view: HostView, want: str, context: Context) -> Outcome:
    """Without pinning, the threads that feed GPUs are moved between sockets, and their memory is far away:
    latency that differs between replicas of one engine."""
    managers = leaf(context, "os.topology_managers")
    near = f", topology {' or '.join(managers)}" if applies(managers) else ""
    expected = f"CPU manager {want}{near}, CPUs reserved"
    parts = _parts(view, KUBELET)
    if "absent" in parts:
        note = "open: the node has not joined a cluster, so there is no /var/lib/kubelet/config.yaml yet"
        return warned("no configuration", expected, note)
    config = _yaml(parts.get("file", ""))
    policy = config.get("cpuManagerPolicy", "none")
    topology = config.get("topologyManagerPolicy", "none")
    found: list[Finding] = []
    if policy != want:
        found.append(fault("", f"cpuManagerPolicy is {policy}"))
    if applies(managers) and topology not in managers:
        found.append(fault("", f"topologyManagerPolicy is {topology}"))
    reserved = [
        name
        for name in ("reservedSystemCPUs", "systemReserved", "kubeReserved")
        if (value := config.get(name)) and (isinstance(value, str) or "cpu" in value)
    ]
    if not reserved:
        found.append(fault("", "no CPU is reserved for the system"))
    return verdict(
        found, actual=f"{policy}, {topology}, {listing(reserved) or 'nothing'} reserved", expected=expected
    )


@lru_cache(maxsize=64)
def _yaml(text: str) -> Mapping[str, Any]:
    """The hosts of a pool have the same file."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NotMeasured(f"the kubelet's configuration is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(value, dict) or value.get("kind") != "KubeletConfiguration":
        raise NotMeasured("the file is no KubeletConfiguration")
    return value
