"""The adaptor of asv suites: one call of a benchmark, after its ``setup``.

It needs asv_runner; environment variables say where the suite is.
"""

import os
import platform
import sys

from asv_runner.benchmarks.mark import SkipNotImplemented

from opduel_common.forks import import_here, import_if_safe
from opduel_common.peaks import peak_of_objects

from .benchmarks import cache_name, find_benchmark, import_all, make_importable, module_files
from .calls import SKIPPED, set_up_benchmark, value_of
from .calls import make_call as call_of

SUITE, WORK = "OPDUEL_SUITE", "OPDUEL_SUITE_WORK"
PRELOADED = "OPDUEL_SUITE_PRELOADED"  # packages that both builds import safely before they fork
SkipNotImplemented.kind = SKIPPED  # the worker reports the kind of what a benchmark raises

if SUITE in os.environ:
    make_importable(os.environ[SUITE])
    import_all(filter(None, os.environ.get(PRELOADED, "").split(",")))
    import_if_safe(import_all, [os.path.basename(os.environ[SUITE])])


def versions():
    """Return the version that the controller gets once the suite is imported."""
    return {"framework": platform.python_version()}


def modules_of(case):
    """Return the module of the case's benchmark, which its process imports, and no other of the suite."""
    return module_files(os.environ[SUITE], case["operator"])[:1] if SUITE in os.environ else []


def import_modules(names):
    """Import them for several cases, and return whether this process can then be forked. A module that raises is
    imported by its cases, which report the error."""
    return import_here(import_all, names) and all(name in sys.modules for name in names)


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


def runs_elsewhere(case):
    """Return what of the case runs in another process, where it isn't seen; None if nothing does."""
    benchmark = find_benchmark(suite_folders()[0], case["operator"])
    return "its setup_cache runs in a process of its own" if cache_name(benchmark) else None


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
