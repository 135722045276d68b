"""Measure a share that isn't known by construction, without a profiler: read clocks around the slowed part.

    PYTHON clocked.py MODULE < EXPRESSIONS

runs in a build. EXPRESSIONS is JSON: ``part`` is the slowed part of what the case's function does within MODULE,
``rest`` everything else, which may use the result, and ``setup`` comes before (default: nothing). Printed are the mean
nanoseconds of the part and of the call, over the second quarter of the calls in the order of their times.
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
FUNCTION = """
{setup}
def clocked(clock):
    start = clock()
    part = {part}
    end = clock()
    result = {rest}
    del part, result
    return end - start, clock() - start
"""


def measure_share(
    pythons: Mapping[str, Path],
    module: str,
    expressions: Mapping[str, Mapping[str, str]],
    environment: Mapping[str, str],
) -> tuple[float, float]:
    """Return the part's share of the difference between the sides, the mean over process pairs, and half of its 95 % t
    interval. Reading the clock costs both sides the same.

    Raises:
        subprocess.CalledProcessError: a process fails.
    """
    shares = []
    for _ in range(PROCESSES):
        times = {}
        for side in SIDES:
            command = [str(pythons[side]), str(Path(__file__).resolve()), module]
            text = json.dumps(expressions[side])
            process = subprocess.run(
                command, input=text, env=dict(environment), capture_output=True, text=True, check=True
            )
            times[side] = json.loads(process.stdout)
        part, call = (after - before for before, after in zip(*(times[side] for side in SIDES), strict=True))
        shares.append(part / call)
    return fmean(shares), T * stdev(shares) / PROCESSES**0.5


def _main() -> None:
    names = vars(importlib.import_module(sys.argv[1]))
    exec(FUNCTION.format(**{"setup": "", **json.load(sys.stdin)}), names)
    times = [names["clocked"](time.perf_counter_ns) for _ in range(CALLS)]
    print(json.dumps([fmean(sorted(values)[CALLS // 4 : CALLS // 2]) for values in zip(*times, strict=True)]))


if __name__ == "__main__":
    _main()
