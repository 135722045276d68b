"""The adaptor of asv suites: one call of a benchmark, after its ``setup``.

It needs asv_runner; environment variables say where the suite is.
"""

import os
import platform

from asv_runner.benchmarks.mark import SkipNotImplemented

from opduel_common.forks import import_if_safe
from opduel_common.peaks import peak_of_objects

from .benchmarks import import_all, make_importable
from .calls import SKIPPED, set_up_benchmark, value_of
from .calls import make_call as call_of

SUITE, WORK, MODULES = "OPDUEL_SUITE", "OPDUEL_SUITE_WORK", "OPDUEL_SUITE_MODULES"
SkipNotImplemented.kind = SKIPPED  # the worker reports the kind of what a benchmark raises

if SUITE in os.environ:
    make_importable(os.environ[SUITE])
    import_if_safe(import_all, [name for name in os.environ.get(MODULES, "").split(",") if name])


def versions():
    """Return the version that the controller gets once the suite is imported."""
    return {"framework": platform.python_version()}


def suite_folders():
    """Return the suite's folder, and the one in which its benchmarks run. Raise ValueError without a suite."""
    if SUITE not in os.environ:
        raise ValueError("no suite: name one with --suite")
    return os.environ[SUITE], os.environ[WORK]


def make_call(case, seed):
    """Return a function that runs the benchmark once; its attributes say how to time it (worker/main.py).

    Raise MissingBenchmark, NoCache, Skipped, and whatever the suite raises.
    """
    return call_of(set_up_benchmark(case, seed, *suite_folders()))


def value(case, seed):
    """Return what a benchmark measures itself: a number of ``track_*``, bytes of ``mem_*``. Raise as ``make_call``."""
    return value_of(set_up_benchmark(case, seed, *suite_folders()))


def memory(case, seed, calls):
    """Return ``{"cpu": bytes}``: the peak of Python objects and NumPy arrays in a call, the median of so many calls."""
    call = make_call(case, seed)
    try:
        return peak_of_objects(call, calls, getattr(call, "before", lambda: None))
    finally:
        call.close()
