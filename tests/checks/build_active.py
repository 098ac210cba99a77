"""What active tests print on the healthy host of ``build.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

GPUS = 8


def cuda_gpus(
    gpus: Mapping[int, Mapping[str, Any]] | None = None, count: int = GPUS, code: int = 0,
    memory: float = 4123.4, cut: int = 0,
) -> str:  # fmt: skip
    """``gpus``: rates of single GPUs; ``error``: what one printed in the place of its rates."""
    lines = [f"cuda {code} {count if not code else 0}"]
    for n in range(count if not code else 0):
        g = {
            "memory": memory,
            "to-gpu": 55.21,
            "from-gpu": 55.87,
            "data": "same",
            **((gpus or {}).get(n, {})),
        }
        if "error" in g:
            lines.append(f"gpu {n} {g['error']}")
            continue
        lines += [
            f"gpu {n} context 0",
            f"gpu {n} memory {g['memory']:.1f}",
            f"gpu {n} to-gpu {g['to-gpu']:.2f}",
        ]
        lines += [f"gpu {n} from-gpu {g['from-gpu']:.2f}", f"gpu {n} data {g['data']}"]
    lines.append(f"end {count if not code else 0}")
    return "\n".join(lines[: len(lines) - cut]) + "\n"


def cuda_peers(pairs: Mapping[str, str] | None = None, count: int = GPUS, rate: float = 381.2) -> str:
    """``pairs``: ``"2-5"`` to what stands behind ``pair 2 5``."""
    lines = [f"cuda 0 {count}"]
    for a in range(count):
        for b in range(count):
            said = (pairs or {}).get(f"{a}-{b}", f"rate {rate}")
            lines += [f"pair {a} {b} {said}"] if a != b else []
    return "\n".join([*lines, f"end {count}"]) + "\n"


def nvme_read(disks: Mapping[int, str] | None = None, count: int = 2) -> str:
    """``disks``: the line of a single disk, without its first part."""
    text = ""
    for n in range(count):
        line = (disks or {}).get(n, "2147483648 bytes (2.1 GB, 2.0 GiB) copied, 0.4312 s, 5.0 GB/s")
        text += f"== nvme{n}n1\n128+0 records in\n128+0 records out\n{line}\n"
    return text + f"== end {count}\n"


def diag(tests: Mapping[str, Mapping[int, str]] | None = None, count: int = GPUS, version: int = 4) -> str:
    """DCGM 4, or 3 with its other keys. ``tests``: status of single GPUs in a test."""
    categories = []
    for category, names in (("Deployment", ("software",)), ("Hardware", ("memory", "pcie"))):
        listed = []
        for name in names:
            results = []
            for gpu in range(count):
                status = (tests or {}).get(name, {}).get(gpu, "Pass")
                result: dict[str, Any] = {"status": status}
                result |= {"entity_group": "GPU", "entity_id": gpu} if version == 4 else {"gpu_id": str(gpu)}
                if status != "Pass":
                    result["warnings"] = [{"warning": f"{name} on this GPU: {status}"}]
                results.append(result)
            listed.append({"name": name, "results": results})
        categories.append({"category": category, "tests": listed})
    head = "DCGM Diagnostic" if version == 4 else "DCGM GPU Diagnostic"
    return json.dumps({head: {"test_categories": categories}}, indent=1) + "\n"


_NAMES = "#       size         count      type   redop    root " + (2 * "    time   algbw   busbw #wrong")
_HEAD = f"""# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 8589934592 step: 2(factor) iters: 20
#
{_NAMES}
"""


def all_reduce(busbw: tuple[float, float, float] = (471.2, 470.8, 472.0), wrong: int = 0,
               runs: Mapping[int, str] | None = None) -> str:  # fmt: skip
    """``runs``: what a single run printed instead."""
    text = ""
    for n, value in enumerate(busbw, 1):
        rows = ""
        for power in (30, 31, 32, 33):
            rate = value * (1 - (33 - power) * 0.01)
            rows += (
                f"  {1 << power}     {1 << (power - 2)}     float     sum      -1   3902.1 "
                f"{rate / 1.75:.2f}  {rate:.2f}      {wrong}   3898.4  {rate / 1.75:.2f}  {rate:.2f}      0\n"
            )
        end = f"# Out of bounds values : {wrong} OK\n# Avg bus bandwidth    : {value * 0.985:.3f}\n#\n"
        text += f"== run {n}\n" + (runs or {}).get(n, _HEAD + rows + end)
    return text + "== end\n"


_WRITE = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    140256           0.00               {rate:.2f}               0.046728
status 0
"""
_PINGPONG = """8192000 bytes in 0.01 seconds = 6912.34 Mbit/sec
1000 iters in 0.01 seconds = {rate:.2f} usec/iter
status 0
"""


def _met(
    form: str, usual: float, peers: int, rails: Mapping[int, Any] | None, pairs: Mapping[str, Any] | None,
    there: Mapping[str, str] | None, cut: bool,
) -> str:  # fmt: skip
    """``rails``: what a rail gives with every peer, ``pairs`` (``"3-1"``: rail and peer) with one: a rate, or
    the text of a failure. ``there``: what the other end measured with third hosts."""
    text = ""
    for peer in range(peers):
        for rail in range(GPUS):
            found = (pairs or {}).get(f"{rail}-{peer}", (rails or {}).get(rail, usual))
            others = (there or {}).get(f"{rail}-{peer}", " ".join([f"{usual:g}"] * (peers - 1)))
            body = found if isinstance(found, str) else form.format(rate=found)
            text += f"== mlx5_{rail} peer-{peer} {('client', 'server')[peer % 2]}\n"
            text += f"there {others}".rstrip() + f"\n{body}"
    return text + ("" if cut else f"== end {peers * GPUS}\n")


def ib_write(
    peers: int = 3, rails: Any = None, pairs: Any = None, there: Any = None, cut: bool = False
) -> str:
    return _met(_WRITE, 391.2, peers, rails, pairs, there, cut)


def ib_pingpong(
    peers: int = 3, rails: Any = None, pairs: Any = None, there: Any = None, cut: bool = False
) -> str:
    return _met(_PINGPONG, 9.48, peers, rails, pairs, there, cut)


BUILDERS: dict[str, Any] = {
    "cuda-gpus": cuda_gpus,
    "cuda-peers": cuda_peers,
    "nvme-read": nvme_read,
    "dcgmi-diag": diag,
    "all-reduce": all_reduce,
    "ib-write": ib_write,
    "ib-pingpong": ib_pingpong,
}
