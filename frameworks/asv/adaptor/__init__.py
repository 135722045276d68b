"""Benchmarks of an asv suite as the worker runs them: one call of a benchmark, with its ``setup`` done.

Runs inside the build: standard library, asv_runner and the suite.  The worker loads this folder as a package of its own
(harness/worker/main.py, load_adaptor).  The environment says where the suite is.
"""

import gc
import os
import platform
import tracemalloc

from asv_runner.benchmarks.mark import SkipNotImplemented

from opduel_common.forks import import_if_safe

from .benchmarks import enter, import_all
from .calls import SKIPPED, ready, value_of
from .calls import make_call as call_of

SUITE, WORK, MODULES = "OPDUEL_SUITE", "OPDUEL_SUITE_WORK", "OPDUEL_SUITE_MODULES"
SkipNotImplemented.kind = SKIPPED  # raised in a benchmark itself: the worker answers with its kind

if SUITE in os.environ:
    enter(os.environ[SUITE])
    import_if_safe(import_all, [name for name in os.environ.get(MODULES, "").split(",") if name])


def versions():
    """What the controller receives once the suite is imported."""
    return {"framework": platform.python_version()}


def places():
    """The suite's folder, and the one that its benchmarks work in. Raises ValueError without a suite."""
    if SUITE not in os.environ:
        raise ValueError("no suite: name one with --suite")
    return os.environ[SUITE], os.environ[WORK]


def make_call(case, seed):
    """A function of no arguments that runs the benchmark once; its attributes say how it is timed (worker/main.py).

    Raises MissingBenchmark, NoCache, Skipped; whatever the suite raises.
    """
    return call_of(ready(case, seed, *places()))


def value(case, seed):
    """What a benchmark that measures by itself says: ``track_*`` a number, ``mem_*`` bytes. Raises as ``make_call``."""
    return value_of(ready(case, seed, *places()))


def memory(case, seed, calls):
    """``{"cpu": bytes}``: the most that tracemalloc saw at once in a call, of Python objects and NumPy's arrays; the
    median over so many calls."""
    call = make_call(case, seed)
    before = getattr(call, "before", lambda: None)
    peaks = []
    try:
        before()
        call()  # what the first call caches is not needed by each
        gc.collect()
        for _ in range(calls):
            before()
            tracemalloc.start()
            held = tracemalloc.get_traced_memory()[0]
            call()
            peaks.append(tracemalloc.get_traced_memory()[1] - held)
            tracemalloc.stop()
    finally:
        tracemalloc.stop()
        call.close()
    return {"cpu": sorted(peaks)[len(peaks) // 2]}
