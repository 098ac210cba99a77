"""The program that uses every GPU, run against a stand-in of the driver's library, and read by its judges."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from checks.areas import active_gpu
from checks.capture import Capture, CommandOutput
from checks.parsers import parse
from checks.registry import Command
from checks.view import HostView, NotMeasured

SOURCE = Path(__file__).parent / "fake_cuda.c"
SMALL = "COPY, HOST, PEER = 1 << 16, 1 << 24, 1 << 16"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the stand-in of the driver's library cannot be built")
    directory = tmp_path_factory.mktemp("cuda")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(directory / "libcuda.so.1"), str(SOURCE)], check=True
    )
    return directory


def run(library: Path, command: Command, **fake: Any) -> HostView:
    text = command.shell.replace("COPY, HOST, PEER = 1 << 30, 1 << 28, 1 << 28", SMALL)
    assert text != command.shell
    done = subprocess.run(
        ["sh", "-c", text], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library),
             **{f"CUDA_FAKE_{k.upper()}": str(v) for k, v in fake.items()}},
    )  # fmt: skip
    out = CommandOutput(
        key=command.key, command=command.shell, state="done", rc=done.returncode, stdout=done.stdout,
        stderr=done.stderr,
    )  # fmt: skip
    capture = Capture(host="node-1", outputs={command.key: out})
    return HostView(capture, pool="hot", rack="r1", parse=parse, commands={command.key: command})


def test_every_gpu_is_used_and_its_bytes_come_back(library: Path) -> None:
    probe = active_gpu.read(run(library, active_gpu.CUDA_GPUS, gpus=3), active_gpu.CUDA_GPUS)
    assert probe.count == 3 and probe.contexts == {0, 1, 2}
    assert probe.errors == {} and probe.different == set()
    assert all(set(rates) == {"memory", "to-gpu", "from-gpu", "data"} for rates in probe.rates.values())
    assert all(rates["memory"] > 0.1 for rates in probe.rates.values())


def test_a_damaged_byte_is_seen(library: Path) -> None:
    probe = active_gpu.read(run(library, active_gpu.CUDA_GPUS, flip=1), active_gpu.CUDA_GPUS)
    assert probe.different == {1}


def test_without_fabric_manager_it_names_it(library: Path) -> None:
    with pytest.raises(active_gpu.Refused, match=r"802.*fabric manager"):
        active_gpu.read(run(library, active_gpu.CUDA_GPUS, init=802), active_gpu.CUDA_GPUS)


def test_one_gpu_that_refuses_does_not_hide_the_others(library: Path) -> None:
    probe = active_gpu.read(
        run(library, active_gpu.CUDA_GPUS, gpus=3, context=1, alloc=2), active_gpu.CUDA_GPUS
    )
    assert probe.errors == {1: ("context", "802"), 2: ("alloc", "2")}
    assert "data" in probe.rates[0]


def test_every_way_between_gpus_is_copied_once(library: Path) -> None:
    probe = active_gpu.read(run(library, active_gpu.CUDA_PEERS, gpus=4), active_gpu.CUDA_PEERS)
    assert set(probe.pairs) == {(a, b) for a in range(4) for b in range(4) if a != b}
    assert probe.refused == {}


def test_a_gpu_without_peer_access_is_named_both_ways(library: Path) -> None:
    probe = active_gpu.read(run(library, active_gpu.CUDA_PEERS, gpus=3, no_peer=2), active_gpu.CUDA_PEERS)
    assert set(probe.refused) == {(0, 2), (2, 0), (1, 2), (2, 1)}
    assert set(probe.pairs) == {(0, 1), (1, 0)}


def test_without_the_library_nothing_was_measured(tmp_path: Path) -> None:
    if Path("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists():
        pytest.skip("this machine has the driver's library")
    with pytest.raises(NotMeasured, match="no CUDA driver library"):
        active_gpu.read(run(tmp_path, active_gpu.CUDA_GPUS), active_gpu.CUDA_GPUS)
