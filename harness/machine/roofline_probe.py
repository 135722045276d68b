"""How fast this machine computes and copies at best: a script of its own, so that its threads are set before numpy.

Prints one line of JSON; harness/machine/cpus.py runs it.  Two arguments: the number of threads, and
the bytes of an array that no cache holds.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

DTYPES = ("float32", "float64")
MATRIX = 768  # rows and columns: large enough that multiplying is all that counts, small enough for a tenth of a second
BUDGET_S = 0.3  # for each figure


def best_of(call: Callable[[], object]) -> float:
    """Return the shortest time of one call, in seconds, of several after a first one that doesn't count."""
    call()
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < BUDGET_S:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def peak_gflops(dtype: str) -> float:
    """Return 10^9 operations a second of a matrix product."""
    generator = np.random.default_rng(0)
    a, b = (generator.random((MATRIX, MATRIX)).astype(dtype) for _ in range(2))
    out = np.empty_like(a)
    return 2e-9 * MATRIX**3 / best_of(lambda: np.matmul(a, b, out=out))


def copy_gbytes(size: int, threads: int) -> float:
    """Return 10^9 bytes a second, read and written, of copying an array of so many bytes in parts, one a thread."""
    source = np.ones(size // 8)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        return 2e-9 * source.nbytes / best_of(lambda: list(pool.map(lambda part: np.copyto(*part), parts)))


def main() -> None:
    threads, size = int(sys.argv[1]), int(sys.argv[2])
    gflops = {dtype: peak_gflops(dtype) for dtype in DTYPES}
    rates = {"gflops": gflops, "gbytes": copy_gbytes(size, threads), "threads": threads, "copied_bytes": size}
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
