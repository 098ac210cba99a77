"""Checks of what everything else needs: privilege, tools, a driver that answers, the right time."""

from __future__ import annotations

import re

from checks.areas._read import fault, line_with, verdict
from checks.commands import CHRONY, PRIVILEGE, SMI_LIST, TIMEDATE, TIMESYNC, TOOLS
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity, could_not_measure, failed, not_applicable, passed

_DEAD = (
    "gpu is lost", "unable to determine the device handle", "couldn't communicate with the nvidia driver",
    "failed to initialize nvml", "gpu requires reset", "no devices were found", "fallen off the bus",
)  # fmt: skip


@check(
    id="host-privilege",
    title="Root without a password for the collector",
    severity=Severity.CRITICAL,
    commands=[PRIVILEGE],
    expects="root",
    remedy='echo "$USER ALL=(root) NOPASSWD: ALL" | sudo tee /etc/sudoers.d/rackwright'
    " && sudo visudo -c && sudo chmod 440 /etc/sudoers.d/rackwright",
    reversible=True,
    source="preflight practice: kernel log, PCI capabilities and the BMC need root; pynvml#19, ucx#11412",
)
def privilege(view: HostView, want: bool) -> Outcome:
    """Kernel log, PCI capabilities and the management controller can only be read by root; without it those
    lines of the checklist stay open."""
    if not want:
        return not_applicable("the plan does not ask for root on the hosts")
    out = view.output(PRIVILEGE)
    if out.state == "denied":
        return failed("sudo -n refused", "root", "sudo -n needs a password: checks that need root cannot run")
    user = view.text(PRIVILEGE).strip()
    if user == "0":
        return passed("root", "root")
    return failed(f"user id {user or 'unknown'}", "root", "commands do not run as root")


@check(
    id="host-tools",
    title="Tools that the checks need are installed",
    severity=Severity.MAJOR,
    commands=[TOOLS],
    expects="tools",
    remedy="sudo apt-get install -y pciutils iproute2 procps util-linux chrony ipmitool nvme-cli"
    " smartmontools rdma-core ibverbs-utils infiniband-diags",
    reversible=True,
    source="gpud#420: a missing tool counted as healthy while thresholds were set",
)
def tools(view: HostView, want: tuple[str, ...]) -> Outcome:
    """A check whose tool is absent has measured nothing. Better to know it from one line than from twenty."""
    if not view.text(TOOLS).rstrip().endswith("end"):
        raise NotMeasured("the list of tools came back incomplete")
    seen = dict(line.split(None, 1) for line in view.text(TOOLS).splitlines() if len(line.split()) == 2)
    unknown = [t for t in want if t not in seen]
    missing = [t for t in want if seen.get(t) == "no"]
    expected = f"{len(want)} tools"
    if missing:
        note = f"not installed: {listing(missing)}"
        return failed(f"{len(missing)} missing", expected, note, where=missing)
    if unknown:
        return could_not_measure(
            f"it is not known whether {listing(unknown)} is installed", expected=expected
        )
    return passed(f"{len(want)} present", expected)


@check(
    id="host-responsive",
    title="nvidia-smi answers in time",
    severity=Severity.CRITICAL,
    commands=[SMI_LIST],
    expects="response_max_s",
    remedy="sudo dmesg -T | grep -i xid | tail; sudo reboot  # a card that is lost again is exchanged",
    reversible=False,
    source="OWOD#81, NVSentinel#1748, pai#889 (stale values while nvidia-smi hangs)",
)
def responsive(view: HostView, want: float) -> Outcome:
    """A driver that hangs or has lost a card is the plainest sign of a sick GPU: whatever else is read from
    this host is then old or wrong."""
    expected = f"an answer within {want:g} s"
    out = view.output(SMI_LIST)
    if out.state == "timeout" or out.rc == 124:
        limit = out.seconds or SMI_LIST.timeout_s
        return failed("no answer", expected, f"nvidia-smi -L did not answer in {limit:g} s")
    dead = line_with(_DEAD, out)
    if dead:
        return failed("GPU or driver lost", expected, dead)
    found = view.facts(SMI_LIST)["gpus"]
    if not found:
        return failed("no GPU", expected, "nvidia-smi -L shows no GPU")
    actual = f"{out.seconds:.1f} s"
    late = [] if out.seconds <= want else [fault("", f"nvidia-smi -L took {out.seconds:.1f} s")]
    return verdict(late, actual=actual, expected=expected)


@check(
    id="time-sync",
    title="Clock synchronised",
    severity=Severity.MAJOR,
    commands=[CHRONY, TIMEDATE, TIMESYNC],
    expects="os.clock_offset_max_ms",
    remedy="sudo systemctl enable --now chrony && sudo chronyc makestep",
    reversible=True,
    source="preflight practice (deepops chrony role): logs, traces and certificates need one time",
)
def time_sync(view: HostView, want: float) -> Outcome:
    """With clocks apart traces do not fit together, tokens are refused as not yet valid, and the order of
    events in an incident cannot be told."""
    expected = f"synchronised, offset < {want:g} ms"
    offset, source = clock_offset(view)
    if offset is None:
        return failed("not synchronised", expected, f"{source} says that the clock is not synchronised")
    actual = f"{abs(offset):.3g} ms"
    if abs(offset) < want:
        return passed(actual, expected, message=f"by {source}")
    return failed(actual, expected, f"the clock is {actual} off, by {source}")


_TIMESYNC_OFFSET = re.compile(r"^\s*Offset:\s*([+-]?\d+(?:\.\d+)?)\s*(us|µs|ms|s|min)\s*$", re.M)
_LENGTHS = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "min": 60e3}


def clock_offset(view: HostView) -> tuple[float | None, str]:
    """(offset in ms, or None where the clock is not synchronised; who said it): chrony, else timesyncd.

    Raises:
        NotMeasured: neither gives an offset.
    """
    if view.output(CHRONY).state == "done" and view.output(CHRONY).rc == 0:
        facts = view.facts(CHRONY)
        if facts["leap"] not in ("Normal", "Insert second", "Delete second"):
            return None, "chrony"
        if facts["reference"] is None or str(facts["reference"]).startswith("127.127."):
            return None, "chrony, which follows the machine's own clock,"
        if not 1 <= facts["stratum"] <= 15:
            return None, f"chrony, at stratum {facts['stratum']},"
        if not isinstance(facts["offset_s"], int | float):
            raise NotMeasured("chronyc tracking does not say the offset")
        return facts["offset_s"] * 1000.0, "chrony"
    synchronised = view.facts(TIMEDATE)["ntp_synchronized"]
    if synchronised is False:
        return None, "timedatectl"
    if synchronised is not True:
        raise NotMeasured("timedatectl does not say whether the clock is synchronised")
    match = _TIMESYNC_OFFSET.search(view.text(TIMESYNC))
    if match is None:
        raise NotMeasured("the clock is synchronised, but neither chrony nor timesyncd says its offset")
    return float(match.group(1)) * _LENGTHS[match.group(2)], "timesyncd"


TIME_SOURCES = Command(
    "chronyc-sources", "chronyc -c -N sources 2>/dev/null || chronyc -c -n sources", ok_rcs=(0, 1)
)
TIME_SERVER = Command("timesync-server", "timedatectl show-timesync -p ServerName -p ServerAddress")


@check(
    id="time-source",
    title="The clock's servers are the planned ones",
    severity=Severity.MAJOR,
    commands=[TIME_SOURCES, TIME_SERVER],
    expects="os.ntp",
    remedy="chronyc -N sources  # put the plan's servers into /etc/chrony/chrony.conf as: server NAME iburst;"
    " sudo systemctl restart chrony",
    reversible=True,
    source="preflight practice (deepops chrony role): every host of a cluster follows the same servers",
)
def time_source(view: HostView, want: tuple[str, ...]) -> Outcome:
    """Two hosts that follow different clocks are both synchronised and still apart; the default pool of a
    distribution is not reachable from most racks, and nobody's to account for."""
    expected = " or ".join(want)
    followed, known, who = _followed(view)
    if followed is None:
        planned = [name for name in known if name in want]
        if planned:
            return passed(
                listing(planned), expected, message=f"{who} has it, but follows none: see time-sync"
            )
        return failed(listing(known) or "none", expected, f"{who} has none of the planned servers")
    if followed in want:
        return passed(followed, expected, message=f"by {who}")
    return failed(followed, expected, f"{who} follows {followed}, which the plan does not name")


def _followed(view: HostView) -> tuple[str | None, list[str], str]:
    """(the server that is followed, or None where none is; all that are set; who said it): chrony, else
    timesyncd.

    Raises:
        NotMeasured: neither answers.
    """
    out = view.output(TIME_SOURCES)
    if out.state == "done" and out.rc == 0:
        rows = [line.split(",") for line in view.text(TIME_SOURCES).splitlines() if line.strip()]
        if not rows or any(len(row) < 8 or row[0] not in ("^", "=", "#") for row in rows):
            raise NotMeasured("chronyc sources was not understood")
        selected = next((row[2] for row in rows if row[1] == "*"), None)
        if selected is None and any(row[1] in ("+", "-") for row in rows):
            raise NotMeasured("chronyc sources shows servers beside the selected one, and not that one")
        return selected, [row[2] for row in rows], "chrony"
    values = dict(line.strip().split("=", 1) for line in view.text(TIME_SERVER).splitlines() if "=" in line)
    if not {"ServerName", "ServerAddress"} & set(values):
        raise NotMeasured("neither chrony nor timesyncd says which server it follows")
    server = values.get("ServerName") or values.get("ServerAddress") or None
    return server, [server] if server else [], "timesyncd"
