"""Active checks between hosts: on every rail, each host sends to others, never two at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from checks.areas._read import Context, Finding, fault, notice, sections, unread, verdict
from checks.parsers import parse_once
from checks.parsers.perftest import MEASURES
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan.expectations import RdmaPort
from rackwright.verdict import Outcome, Severity, not_applicable, warned

_SHELL = r"""set -f; exec 3<&0
t=$(mktemp -d) || exit 1; trap 'rm -rf "$t"' EXIT
g() {
  b=/sys/class/infiniband/$1/ports/$2
  for i in $(ls "$b/gid_attrs/types" 2>/dev/null); do
    y=; { read -r y <"$b/gid_attrs/types/$i"; } 2>/dev/null
    [ "$y" = "RoCE v2" ] || continue
    read -r y <"$b/gids/$i"
    case $y in 0000:0000:0000:0000:0000:ffff:*) echo "$i"; return ;; esac
  done
}
n=0 k=
for r in $RW_RAILS; do
  n=$((n + 1)) d=${r%%,*} r=${r#*,}; p=${r%%,*} a=${r#*,}; i=$(g "$d" "$p")
  c="%PROGRAM%"
  if [ "$RW_ROLE" = server ]; then
    timeout -k 2 "$RW_LIMIT" $c >"$t/$n" 2>&1 & k="$k $!"
  else
    (
      for q in 1 2 3 4 5; do
        timeout -k 2 "$RW_LIMIT" $c "$a" >"$t/$n" 2>&1; s=$?
        grep -qiE "couldn't connect|connection refused" "$t/$n" || break
        sleep 1
      done
      echo "status $s" >>"$t/$n"
    ) & k="$k $!"
  fi
done
if [ "$RW_ROLE" = server ]; then
  echo ready
  ( cat <&3 >/dev/null; kill $k ) >/dev/null 2>&1 &
  wait $k
  exit 0
fi
wait $k
n=0
for r in $RW_RAILS; do
  n=$((n + 1)); echo "== ${r%%,*}"
  grep -iE '^ *#bytes|^ *[0-9]+ |^status|bytes in|iters in|error|fail|couldn|unable|cannot|no such' "$t/$n"
done
echo "== end $n"
"""
"""Runs on both ends at once. A server ends with its client, with its deadline, or when the connection that
started it does: whichever is first."""
PINGPONG = Command(
    "ib-pingpong",
    _SHELL.replace(
        "%PROGRAM%", "ibv_rc_pingpong -d $d -i $p -p $((18515 + n)) ${i:+-g $i} -n 1000"
    ),
    root=True,
    timeout_s=15,
    paired=True,
    shown="ibv_rc_pingpong -d mlx5_0 -g 3 -n 1000 PEER",
)  # fmt: skip
WRITE = Command(
    "ib-write",
    _SHELL.replace(
        "%PROGRAM%",
        "ib_write_bw -d $d -i $p -p $((18615 + n)) ${i:+-x $i} -F --report_gbits -D 3 -s 1048576 -q 4",
    ),
    root=True,
    timeout_s=25,
    paired=True,
    shown="ib_write_bw -d mlx5_0 -x 3 -F --report_gbits -D 3 PEER",
)  # fmt: skip


@dataclass(frozen=True)
class Met:
    """One rail towards one host. ``problem``: why there is no value; ``missing``: because of the tool.
    ``there``: what the other end measured on that rail with third hosts, None where it got no value.
    """

    device: str
    peer: str
    value: float | None
    problem: str = ""
    missing: bool = False
    there: tuple[float | None, ...] = ()


def met(view: HostView, command: Command) -> list[Met]:
    """What this host and others found of each other.

    Raises:
        NotMeasured: the tests did not run to their end.
    """
    parts = sections(view.text(command))
    last = (list(parts) or [""])[-1]
    if last != f"end {len(parts) - 1}":
        raise NotMeasured("the tests between hosts came back incomplete")
    del parts[last]
    return [_met(name, text, *MEASURES[command.key]) for name, text in parts.items()]


def _met(name: str, text: str, kind: str, fact: str) -> Met:
    device, peer, _ = name.split(" ")
    first, *lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    status = lines[-1] if lines else ""
    if not re.fullmatch(r"there( (-|[\d.e+]+))*", first) or not re.fullmatch(r"status \d+", status):
        raise NotMeasured(f"the test of {device} with {peer} came back incomplete")
    there = tuple(None if word == "-" else float(word) for word in first.split()[1:])
    if status == "status 127":
        return Met(device, peer, None, f"{kind} is not installed", missing=True, there=there)
    if status == "status 0":
        parsed = parse_once(kind, "\n".join(lines[:-1]) + "\n")
        if not parsed.understood:
            raise NotMeasured(f"{device} with {peer}: {parsed.problems[0].text}")
        return Met(device, peer, parsed.facts[fact], there=there)
    if status == "status 124":
        return Met(device, peer, None, "no answer in time", there=there)
    told = lines[0][:120] if len(lines) > 1 else "it failed and said nothing"
    return Met(device, peer, None, told, there=there)


def _judged(
    results: list[Met], devices: list[str], bad: Callable[[float | None], bool]
) -> tuple[list[Finding], int]:
    """A rail that is bad with more than half of the hosts it met is at fault here. Of the others, those are
    passed over whose other end is bad with more than half of the hosts that it met: it has its own line."""
    found: list[Finding] = []
    good = 0
    for device in devices:
        mine = [result for result in results if result.device == device]
        if not mine:
            found.append(unread(device, "no test of it is in the output"))
            continue
        if missing := [result for result in mine if result.missing]:
            found.append(unread(device, missing[0].problem))
            continue
        wrong = [result for result in mine if bad(result.value)]
        here = 2 * len(wrong) > len(mine)
        left = wrong if here else [result for result in wrong if not _there(result, bad)]
        good += not here
        if not left:
            continue
        one = left[0]
        said = one.problem if one.value is None else f"{one.value:.0f} Gb/s"
        whom = f"with {listing([result.peer for result in left], 3)}: {said}"
        if here:
            found.append(fault(device, f"{len(wrong)} of {len(mine)}, {whom}"))
        else:
            found.append(notice(device, f"{whom}; sound with {len(mine) - len(wrong)} other hosts"))
    return found, good


def _there(result: Met, bad: Callable[[float | None], bool]) -> bool:
    return 2 * (1 + sum(map(bad, result.there))) > 1 + len(result.there)


def _nobody(results: list[Met], context: Context, expected: str) -> Outcome | None:
    if results:
        return None
    if len(context.pool.nodes) < 2:
        return not_applicable("the plan gives this pool one host: there is nobody to send to")
    return warned("no other host", expected, "open: no other host of its pool was tested in this run")


def _peers(results: list[Met]) -> int:
    return len({result.peer for result in results})


@check(
    id="ib-pingpong",
    title="Every rail reaches the same rail of other hosts",
    severity=Severity.CRITICAL,
    commands=[PINGPONG],
    expects="rdma.ports",
    tier=2,
    active="sends 1,000 small messages on each rail, to one host at a time",
    remedy="ibv_devinfo; show_gids; ping -M do -s 8972 PEER"
    "  # subnet, VLAN, routes between leaves, the hosts' firewall (TCP 18515 and on); IB: partition key",
    reversible=True,
    source="preflight practice (ibv_rc_pingpong); CVS (mesh of RDMA tests in groups)",
)
def pingpong(view: HostView, want: tuple[RdmaPort, ...], context: Context) -> Outcome:
    """Links are up, addresses are set, and still a rail may not reach its neighbours: a cable in another
    leaf, a missing route, a partition key. A collective then hangs in its first step."""
    expected = f"{len(want)} rails to every host met"
    results = met(view, PINGPONG)
    if (nobody := _nobody(results, context, expected)) is not None:
        return nobody
    found, good = _judged(results, [p.device for p in want], lambda value: value is None)
    times = [result.value for result in results if result.value is not None]
    slowest = f", slowest {max(times):.1f} us" if times else ""
    return verdict(
        found, actual=f"{good} of {len(want)} rails, {_peers(results)} hosts met{slowest}", expected=expected
    )


@check(
    id="ib-write",
    title="RDMA writes between hosts as fast as the rails",
    severity=Severity.MAJOR,
    commands=[WRITE],
    expects="rdma.write_min_gbps",
    tier=2,
    active="sends at full rate on all rails for three seconds, to one host at a time",
    remedy="sudo mlxlink -d mlx5_0 -m -c; perfquery -x; mlnx_qos -i NETDEV"
    "  # PFC and ECN at both ends, PCIe width of the NIC, optics; then the switch's counters",
    reversible=True,
    source="azurehpc-health-checks (380 of 400 Gb/s), imbue (p2p_ib)",
)
def write(view: HostView, want: float, context: Context) -> Outcome:
    """A rail that is up at its rate may carry half of it: a NIC in a narrow slot, a pause frame too many, a
    dirty fibre that repeats. Only bytes that cross the network show it."""
    ports = context.expectations.rdma.ports
    devices = [p.device for p in ports] if isinstance(ports, tuple) else []
    if not devices:
        raise NotMeasured("the plan names no rails")
    expected = f"≥ {want:g} Gb/s on {len(devices)} rails"
    results = met(view, WRITE)
    if (nobody := _nobody(results, context, expected)) is not None:
        return nobody

    found, _ = _judged(results, devices, lambda value: value is None or value < want)
    rates = [result.value for result in results if result.value is not None]
    slowest = f"slowest {min(rates):.0f} Gb/s" if rates else "nothing sent"
    return verdict(found, actual=f"{slowest}, {_peers(results)} hosts met", expected=expected)
