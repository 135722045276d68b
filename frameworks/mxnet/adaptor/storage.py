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

from .profiler import COUNTER, Profiler
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
    return measure_peaks(profiler.new_events(), first_pass_end, marks)


def collect_garbage():
    """Free all garbage; return the time afterwards, in microseconds."""
    gc.collect()
    mx.nd.waitall()
    return microseconds()


def microseconds():
    return int(1e6 * time.time())


def measure_peaks(events, first_pass_end, marks):
    """Return ``{device: bytes}``; ``marks`` are the start of the first call and the ends of all."""
    counted = {}
    for event in events:
        if event["ph"] == "C" and event["name"].startswith(COUNTER):
            device = event["name"][len(COUNTER) :]
            counted.setdefault(device, []).append((event["ts"], event["args"][event["name"]]))
    peak_by_device = {}
    for device, levels in counted.items():
        given_bytes = level(levels, marks[0]) - level(levels, first_pass_end)
        peaks = sorted(peak(levels, start, marks[number + 1]) for number, start in enumerate(marks[:-1]))
        peak_by_device[device] = max(0, peaks[len(peaks) // 2] - given_bytes)
    return peak_by_device


def peak(levels, start, end):
    """Return the counter's peak between two times."""
    return max([level(levels, start)] + [size for when, size in levels if start < when <= end])


def level(levels, moment):
    """Return the counter at a time."""
    before = [size for when, size in levels if when <= moment]
    return before[-1] if before else 0
