"""What active tests print on a simulated host; tests between two hosts meet, over abstract sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.rack.emit import fabric
from tools.rack.emit.core import Recording
from tools.rack.state import HostState

_READ_BYTES = 128 << 24


def recordings(state: HostState) -> Iterator[Recording]:
    yield Recording("python3", "- gpus", _gpus(state))
    yield Recording("python3", "- peers", _peers(state))
    for disk in state.disks:
        rate = state.active.read_of.get(disk.index, state.active.read)
        yield Recording(
            "dd",
            f"if=/dev/nvme{disk.index}n1 of=/dev/null bs=16M count=128 iflag=direct",
            stderr=f"128+0 records in\n128+0 records out\n{_READ_BYTES} bytes (2.1 GB, 2.0 GiB) copied, "
            f"{_READ_BYTES / rate / 1e9:.5f} s, {rate:.1f} GB/s\n",
            root=True,
            refusal="dd: failed to open: Permission denied\n",
        )
    if state.diag_level:
        yield Recording(
            "dcgmi", f"diag -r {state.diag_level} -j", _diag(state), rc=226 if state.active.diag_of else 0
        )
    yield Recording("all_reduce_perf", f"-b 1G -e 8G -f 2 -g {state.planned_gpus}", _all_reduce(state))


def _gpus(state: HostState) -> str:
    mine = state.active
    if mine.cuda:
        return f"cuda {mine.cuda} 0\nend 0\n"
    lines = [f"cuda 0 {len(state.gpus)}"]
    for gpu in state.gpus:
        n = gpu.index
        if n in mine.cuda_of:
            lines.append(f"gpu {n} {mine.cuda_of[n]}")
            continue
        host = mine.host_of.get(n, mine.host)
        lines += [
            f"gpu {n} context 0",
            f"gpu {n} memory {mine.memory_of.get(n, mine.memory):.1f}",
            f"gpu {n} to-gpu {host:.2f}",
            f"gpu {n} from-gpu {host + 0.4:.2f}",
            f"gpu {n} data {'different' if n in mine.damaged else 'same'}",
        ]
    return "\n".join([*lines, f"end {len(state.gpus)}"]) + "\n"


def _peers(state: HostState) -> str:
    mine = state.active
    if mine.cuda:
        return f"cuda {mine.cuda} 0\nend 0\n"
    lines = [f"cuda 0 {len(state.gpus)}"]
    for a in state.gpus:
        for b in state.gpus:
            if a is b:
                continue
            slow = min(mine.peer_of.get(gpu.index, mine.peer) for gpu in (a, b))
            said = f"rate {slow:.1f}" if a.peer_access and b.peer_access else "access 0"
            lines.append(f"pair {a.index} {b.index} {said}")
    return "\n".join([*lines, f"end {len(state.gpus)}"]) + "\n"


def _diag(state: HostState) -> str:
    def results(name: str) -> list[dict[str, object]]:
        bad = state.active.diag_of.get(name)
        return [
            {
                "entity_group": "GPU",
                "entity_group_id": 1,
                "entity_id": gpu.index,
                "status": "Fail" if gpu.index == bad else "Pass",
                "warnings": [{"error_id": 77, "warning": "the card failed"}] if gpu.index == bad else [],
            }
            for gpu in state.gpus
        ]

    tests = {"Deployment": ("software",), "Integration": ("pcie",), "Hardware": ("memory", "diagnostic")}
    categories = [
        {"category": category, "tests": [{"name": name, "results": results(name)} for name in names]}
        for category, names in tests.items()
    ]
    return json.dumps({"DCGM Diagnostic": {"test_categories": categories}}, indent=2) + "\n"


def _all_reduce(state: HostState) -> str:
    top = state.active.all_reduce
    head = (
        "# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 8589934592 step: 2(factor)\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time"
        "   algbw   busbw #wrong\n"
    )
    rows = ""
    for power in (30, 31, 32, 33):
        rate = top * (1 - 0.01 * (33 - power))
        cells = f"{2**power / rate / 1e3:.1f}  {rate / 1.75:.2f}  {rate:.2f}      0"
        rows += f"  {1 << power}  {1 << (power - 2)}     float     sum      -1  {cells}  {cells}\n"
    return f"{head}{rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {top * 0.985:.3f}\n#\n"


def scripts(state: HostState) -> dict[str, str]:
    """Programs that two hosts run at once: one waits, the other comes; what they print follows from both."""
    ports = fabric.present(state)
    if not ports:
        return {}
    table = ", ".join(
        f'"{p.device}" => [{"0" if p.device in state.active.cut or not p.up else "1"}, '
        f'{state.active.write_of.get(p.device, state.active.write):.2f}, "{p.address if p.ethernet else ""}"]'
        for p in ports
    )
    program = _PAIR.replace("%TABLE%", table)
    return {name: program.replace("%NAME%", name) for name in ("ib_write_bw", "ibv_rc_pingpong")}


_PAIR = r"""#!/usr/local/sbin/perl
use Socket;
%rail = (%TABLE%);
while (@ARGV) {
  $_ = shift;
  if (/^-[dipxgDsqn]$/) { $o{$_} = shift } elsif (!/^-/) { $peer = $_ }
}
$r = $rail{$o{"-d"}} or do { print "IB device $o{'-d'} not found\n"; exit 1 };
(undef, undef, $own, $ssh) = split / /, $ENV{SSH_CONNECTION};
($address) = split m{/}, $r->[2] || $own;
sub name { pack_sockaddr_un("\0rack/$ssh/" . shift . "/$o{'-p'}") }
socket(S, PF_UNIX, SOCK_STREAM, 0) or die;
if (!defined $peer) {
  bind(S, name($address)) or do { print "Couldn't listen to port $o{'-p'}\n"; exit 1 };
  listen(S, 1);
  accept(C, S) or die;
  syswrite(C, "$r->[0] $r->[1]\n");
  sysread(C, $_, 9);
  exit 0;
}
connect(S, name($peer)) or do { print "Couldn't connect to $peer:$o{'-p'}\n"; exit 1 };
sysread(S, $_, 99);
($up, $rate) = split;
if (!$up || !$r->[0]) { print " Completion with error at client\n Failed status 12: wr_id 0\n"; exit 1 }
$rate = $r->[1] if $r->[1] < $rate;
if ("%NAME%" eq "ib_write_bw") {
  print " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
  printf " 1048576    140256           0.00               %.2f               0.046\n", $rate;
} else {
  print "8192000 bytes in 0.01 seconds = 6912.34 Mbit/sec\n1000 iters in 0.01 seconds = 9.48 usec/iter\n";
}
"""
