"""Uses every GPU for a moment through libcuda alone, without a toolkit. Argument: ``gpus`` or ``peers``.

One line a result, flushed at once; the last line tells how many GPUs there were. Rates in GB/s (1e9 bytes):
``memory`` counts what a copy reads and what it writes, the others one way. Written for Python 3.6 and later.
"""

import ctypes
import sys
import time
from typing import Any, Callable  # noqa: UP035 - Python 3.6

COPY, HOST, PEER = 1 << 30, 1 << 28, 1 << 28
ROUNDS = 8


def say(*words: object) -> None:
    print(*words)
    sys.stdout.flush()


def load() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        sys.stderr.write(f"no CUDA driver library: {error}\n")
        sys.exit(3)


LIB: Any = load() if __name__ == "__main__" else None
POINTER, SIZE = ctypes.c_uint64, ctypes.c_size_t


def check(what: str, code: int) -> None:
    """Raises RuntimeError with the driver's number and the step that it refused."""
    if code:
        raise RuntimeError(f"{what} {code}")


def context(device: int) -> Any:
    found = ctypes.c_void_p()
    check("context", LIB.cuDevicePrimaryCtxRetain(ctypes.byref(found), ctypes.c_int(device)))
    check("context", LIB.cuCtxSetCurrent(found))
    return found


def alloc(size: int) -> Any:
    found = POINTER()
    check("alloc", LIB.cuMemAlloc_v2(ctypes.byref(found), SIZE(size)))
    return found


def pinned(size: int) -> Any:
    found = ctypes.c_void_p()
    check("host-alloc", LIB.cuMemHostAlloc(ctypes.byref(found), SIZE(size), ctypes.c_uint(0)))
    return found


def rate(what: str, size: int, copy: Callable[[], int]) -> float:
    """GB/s of ``copy``, after one that is not timed."""
    check(what, copy())
    check(what, LIB.cuCtxSynchronize())
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        check(what, copy())
    check(what, LIB.cuCtxSynchronize())
    return ROUNDS * size / max(time.perf_counter() - begin, 1e-9) / 1e9


def memory_of(device: int) -> None:
    first, second = alloc(COPY), alloc(COPY)
    try:
        check("memory", LIB.cuMemsetD8_v2(first, ctypes.c_ubyte(165), SIZE(COPY)))
        once = rate("memory", COPY, lambda: LIB.cuMemcpyDtoD_v2(second, first, SIZE(COPY)))
    finally:
        LIB.cuMemFree_v2(first)
        LIB.cuMemFree_v2(second)
    say("gpu", device, "memory", f"{2 * once:.1f}")


def host_of(device: int) -> None:
    there, sent, back = alloc(HOST), pinned(HOST), pinned(HOST)
    try:
        ctypes.memset(sent, 90, HOST)
        ctypes.memset(back, 0, HOST)
        speed = rate("to-gpu", HOST, lambda: LIB.cuMemcpyHtoD_v2(there, sent, SIZE(HOST)))
        say("gpu", device, "to-gpu", f"{speed:.2f}")
        speed = rate("from-gpu", HOST, lambda: LIB.cuMemcpyDtoH_v2(back, there, SIZE(HOST)))
        say("gpu", device, "from-gpu", f"{speed:.2f}")
        step = 1 << 24
        same = all(
            ctypes.string_at(sent.value + at, step) == ctypes.string_at(back.value + at, step)
            for at in range(0, HOST, step)
        )
        say("gpu", device, "data", "same" if same else "different")
    finally:
        LIB.cuMemFree_v2(there)
        LIB.cuMemFreeHost(sent)
        LIB.cuMemFreeHost(back)


def gpus(count: int) -> None:
    for device in range(count):
        try:
            context(device)
            say("gpu", device, "context", 0)
            memory_of(device)
            host_of(device)
        except RuntimeError as error:
            say("gpu", device, *str(error).split())
        finally:
            LIB.cuDevicePrimaryCtxRelease_v2(ctypes.c_int(device))


def pair(a: int, b: int, contexts: Any, buffers: Any) -> None:
    able = ctypes.c_int()
    check("access", LIB.cuDeviceCanAccessPeer(ctypes.byref(able), ctypes.c_int(a), ctypes.c_int(b)))
    if not able.value:
        say("pair", a, b, "access", 0)
        return
    check("context", LIB.cuCtxSetCurrent(contexts[a]))
    code = LIB.cuCtxEnablePeerAccess(contexts[b], ctypes.c_uint(0))
    check("enable", 0 if code == 704 else code)  # 704: it was enabled before
    speed = rate(
        "copy",
        PEER,
        lambda: LIB.cuMemcpyPeer(buffers[b], contexts[b], buffers[a], contexts[a], SIZE(PEER)),
    )
    say("pair", a, b, "rate", f"{speed:.1f}")


def peers(count: int) -> None:
    contexts = [context(device) for device in range(count)]
    buffers = []
    for each in contexts:
        check("context", LIB.cuCtxSetCurrent(each))
        buffers.append(alloc(PEER))
    for a in range(count):
        for b in range(count):
            if a == b:
                continue
            try:
                pair(a, b, contexts, buffers)
            except RuntimeError as error:
                say("pair", a, b, *str(error).split())
    for device in range(count):
        LIB.cuCtxSetCurrent(contexts[device])
        LIB.cuMemFree_v2(buffers[device])


def main(what: str) -> None:
    code = LIB.cuInit(ctypes.c_uint(0))
    count = ctypes.c_int()
    code = code or LIB.cuDeviceGetCount(ctypes.byref(count))
    say("cuda", code, count.value)
    if not code:
        try:
            {"gpus": gpus, "peers": peers}[what](count.value)
        except RuntimeError as error:
            say("cuda", *str(error).split())
    say("end", count.value)


if __name__ == "__main__":
    main(sys.argv[1])
