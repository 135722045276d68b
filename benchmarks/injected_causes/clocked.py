"""A true share that isn't known by construction, measured without any profiler: clocks are read around the passage.

    PYTHON clocked.py MODULE < TEXT

runs in a build. TEXT defines ``clocked(clock)``, which does what the case's function does, and returns the ns of the
part and of the whole; it runs within MODULE. Printed: the means of both, of the second quarter of the calls in order.
"""

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev

CALLS = 1000
PROCESSES = 5  # of each side, in turn
T = 2.776  # of Student's t with 4 degrees of freedom, 97.5 %
SIDES = ("control", "treatment")


def true_share(
    pythons: Mapping[str, Path], module: str, texts: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[float, float]:
    """The part's share of what the whole differs by between the sides, the mean over process pairs, and how far its
    95 % t interval reaches; what reading the clock costs is on both.

    Raises:
        subprocess.CalledProcessError: it doesn't run.
    """
    shares = []
    for _ in range(PROCESSES):
        found = {}
        for side in SIDES:
            command = [str(pythons[side]), str(Path(__file__).resolve()), module]
            done = subprocess.run(
                command, input=texts[side], env=dict(environment), capture_output=True, text=True, check=True
            )
            found[side] = json.loads(done.stdout)
        part, whole = (after - before for before, after in zip(*(found[side] for side in SIDES), strict=True))
        shares.append(part / whole)
    return fmean(shares), T * stdev(shares) / PROCESSES**0.5


def _main() -> None:
    names = vars(importlib.import_module(sys.argv[1]))
    exec(compile(sys.stdin.read(), "clocked", "exec"), names)
    found = [names["clocked"](time.perf_counter_ns) for _ in range(CALLS)]
    print(json.dumps([fmean(sorted(values)[CALLS // 4 : CALLS // 2]) for values in zip(*found, strict=True)]))


if __name__ == "__main__":
    _main()
