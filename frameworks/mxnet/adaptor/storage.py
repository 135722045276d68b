"""Measure the storage that a call needs, by MXNet's own counters.

MXNet never frees workspaces (``kTempSpace``), so that a warm call seems to need none.  The counters are therefore
followed from the start.  A first pass makes the call, runs it and drops everything: only the workspaces remain, at
their full size.  A second pass makes the call again: the increase is the call's inputs.  All that the calls then
hold beyond the inputs is theirs, workspaces included.

Workspaces count once, and are the same for every call, only if MXNet has no copies to alternate between
(``MXNET_CPU_TEMP_COPY``: framework.py, memory_environment).
"""

import gc
import time

import mxnet as mx

from opduel_common.peaks import middle

from .profiler import Profiler, level_at, peak_of
from .results import seed_generators


def storage(make, calls, seed):
    """Return ``{device: bytes}``: a call's peak beyond its inputs, the median over so many calls.

    ``make()`` makes the call and its inputs.  Generators of random numbers are seeded, because they may set sizes.
    """
    profiler = Profiler()
    profiler.configure(operators=False)  # before 1.6 the naive engine retains the arrays of profiled operators
    mx.profiler.set_state("run")
    call = make()
    call()
    call = None
    first_pass_end = collect_garbage()
    call = make()
    seed_generators(seed)
    marks = [collect_garbage()]
    for _ in range(calls):
        call()
        mx.nd.waitall()
        marks.append(microseconds())
    mx.profiler.set_state("stop")
    mx.profiler.dump(finished=False)
    profiler.new_events()
    peak_by_device = {}
    for device, levels in profiler.levels.items():
        bytes_of_inputs = level_at(levels, marks[0]) - level_at(levels, first_pass_end)
        peak = middle(peak_of(levels, start, end) for start, end in zip(marks, marks[1:]))  # noqa: RUF007 - Python 3.10
        peak_by_device[device] = max(0, peak - bytes_of_inputs)
    return peak_by_device


def collect_garbage():
    """Free all garbage; return the time afterwards, in microseconds."""
    gc.collect()
    mx.nd.waitall()
    return microseconds()


def microseconds():
    return int(1e6 * time.time())
