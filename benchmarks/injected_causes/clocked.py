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
from statistics import fmean

CALLS = 1000
PROCESSES = 5  # of each side, in turn
SIDES = ("control", "treatment")


def true_share(
    pythons: Mapping[str, Path], module: str, texts: Mapping[str, str], environment: Mapping[str, str]
) -> float:
    """The part's share of what the whole differs by between the sides; what reading the clock costs is on both.

    Raises:
        subprocess.CalledProcessError: it doesn't run.
    """
    part = dict.fromkeys(SIDES, 0.0)
    whole = dict.fromkeys(SIDES, 0.0)
    for _ in range(PROCESSES):
        for side in SIDES:
            command = [str(pythons[side]), str(Path(__file__).resolve()), module]
            done = subprocess.run(
                command, input=texts[side], env=dict(environment), capture_output=True, text=True, check=True
            )
            one, all_ = json.loads(done.stdout)
            part[side] += one / PROCESSES
            whole[side] += all_ / PROCESSES
    return (part["treatment"] - part["control"]) / (whole["treatment"] - whole["control"])


def _main() -> None:
    names = vars(importlib.import_module(sys.argv[1]))
    exec(compile(sys.stdin.read(), "clocked", "exec"), names)
    found = [names["clocked"](time.perf_counter_ns) for _ in range(CALLS)]
    print(json.dumps([fmean(sorted(values)[CALLS // 4 : CALLS // 2]) for values in zip(*found, strict=True)]))


if __name__ == "__main__":
    _main()
