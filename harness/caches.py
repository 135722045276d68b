"""The processor's caches: how much memory to read so that nothing of a case is left in them, and how long that takes.

The worker does it before each timed call (``wipe`` in harness/worker/main.py), as AI-PEP's --wipe_cache does.
"""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "OPDUEL_WIPE_CACHE"  # tells a worker how many bytes to read
LINE = 64  # bytes
LEAST, USUAL, MOST = 16 << 20, 64 << 20, 256 << 20  # bytes; ``USUAL`` where the host doesn't say what it has
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Wiping:
    """Evicting the caches before each timed call: the bytes that are read, and the nanoseconds that this takes."""

    size: int
    ns: float


def plan_wiping(cpus: Path = _CPUS) -> Wiping:
    """Read twice what the largest cache holds; one time is measured here and now."""
    size = min(MOST, max(LEAST, 2 * largest_cache(cpus) or USUAL))
    memory = bytearray(b"\1") * size
    spent = []
    for _ in range(3):
        began = time.perf_counter_ns()
        _ = memory[::LINE]
        spent.append(time.perf_counter_ns() - began)
    return Wiping(size, float(statistics.median(spent)))


def largest_cache(cpus: Path = _CPUS) -> int:
    """Bytes of the largest cache that any processor has; 0 where the host doesn't say."""
    sizes = [0]
    for path in cpus.glob("cpu[0-9]*/cache/index[0-9]*/size"):
        try:
            text = path.read_text(encoding="ascii").strip()
            sizes.append(int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1))
        except (OSError, ValueError):
            continue
    return max(sizes)
