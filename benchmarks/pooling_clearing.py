"""What clearing the argument of oneDNN's transposition costs MXNet's pooling: time with and without it.

    ENVIRONMENT/bin/python benchmarks/pooling_clearing.py

``ENVIRONMENT`` has MXNet for Linux on x86-64; without AVX-512 pooling doesn't transpose. oneDNN's
``jit_uni_pooling.cpp`` transposes blocks of 8 x 8 values, each by a call of a kernel. Since oneDNN 2.4 the struct that
the call gets is cleared first, 152 bytes of which that kernel reads 16. The compiler of MXNet 1.9.1 made that one
instruction, ``rep stos``; here it is replaced by a no-op in memory, and put back, in turn. A library without it, such
as that of 1.8.0, is timed as it is.
"""

import ctypes
import os
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.update(MXNET_ENGINE_TYPE="NaiveEngine", OMP_NUM_THREADS="1")
import mxnet
import numpy

# xor eax,eax; mov rdi,rbx; mov ecx,19; mov r9,[r13+0]; add r14,1; rep stos qword
CODE = bytes.fromhex("31c0 4889df b913000000 4d8b4d00 4983c601 f348ab")
CLEARING, NOTHING = CODE[-3:], bytes.fromhex("0f1f00")
PAGE, READ_WRITE_EXECUTE = 4096, 7
ROUNDS, CALLS = 7, 300
SHAPES = {2: (4, 32, 32, 32), 3: (2, 16, 16, 16, 16)}


def pooling(dimensions: int, kind: str, **options: Any) -> Callable[[], Any]:
    data = mxnet.nd.array(numpy.random.RandomState(0).rand(*SHAPES[dimensions]).astype("float32"))
    return lambda: mxnet.nd.Pooling(data, pool_type=kind, **options)


def half(dimensions: int) -> dict[str, Any]:
    return {"kernel": (2,) * dimensions, "stride": (2,) * dimensions}


def whole(dimensions: int) -> dict[str, Any]:
    return {"kernel": (1,) * dimensions, "global_pool": True}


CASES = {
    **{f"{kind} pooling, {n}D": pooling(n, kind, **half(n)) for n in SHAPES for kind in ("max", "avg")},
    **{f"global {kind} pooling, {n}D": pooling(n, kind, **whole(n)) for n in SHAPES for kind in ("max", "avg")},
    "avg pooling, 2D, 3 x 3, stride 1": pooling(2, "avg", kernel=(3, 3)),
}


def place_of_clearing() -> int | None:
    """The address of the instruction in this process; None where the library has no such code, or several."""
    with open("/proc/self/maps") as lines:
        mapped = [line.split() for line in lines if line.rstrip().endswith("libmxnet.so")]
    for addresses, rights, *_ in mapped:
        if "x" in rights:
            begin, end = (int(one, 16) for one in addresses.split("-"))
            found = [one.end() for one in re.finditer(re.escape(CODE), ctypes.string_at(begin, end - begin))]
            return begin + found[0] - len(CLEARING) if len(found) == 1 else None
    return None


def put(place: int, code: bytes) -> None:
    size = ctypes.c_size_t(2 * PAGE)
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(place - place % PAGE), size, READ_WRITE_EXECUTE):
        raise SystemExit("the library's code can't be made writable")
    ctypes.memmove(place, code, len(code))


def call_us(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call().wait_to_read()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def main() -> None:
    place = place_of_clearing()
    versions = {"as built": CLEARING, "without": NOTHING} if place else {"as built": b""}
    print(
        f"MXNet {mxnet.__version__}, us a call\n\n| pooling | {' | '.join(versions)} |\n|---|{'---|' * len(versions)}"
    )
    for name, call in CASES.items():
        for _ in range(50):
            expected = call().asnumpy()
        times: dict[str, list[float]] = {version: [] for version in versions}
        for _ in range(ROUNDS):
            for version, code in versions.items():
                if place:
                    put(place, code)
                times[version].append(call_us(call))
        if not (call().asnumpy() == expected).all():
            raise SystemExit(f"{name}: another result without the clearing")
        print(f"| {name} | {' | '.join(f'{statistics.median(one):.1f}' for one in times.values())} |", flush=True)


if __name__ == "__main__":
    main()
