"""What storage a call needs, by MXNet's own counters.

MXNet keeps workspaces (``kTempSpace``) for the calls to come and never gives them back, so that a warm call seems to
need none.  The counters are therefore followed from before anything is made.  A first pass makes the call, runs it and
drops all of it: what is left are the workspaces, grown as large as they get.  A second pass rebuilds it: what was
added is what the call is given.  All that the calls then hold beyond that is theirs, workspaces included.

They are counted once, and the same for every call, only if MXNet has no copies of them to take turns with
(``MXNET_CPU_TEMP_COPY``): framework.py, memory_environment.
"""

import gc
import time

import mxnet as mx

from .profiler import COUNTER, Profiler
from .results import seed_generators


def storage(make, calls, seed):
    """``{device: bytes}``: the most that a call holds beyond what it is given, the median over so many calls.

    ``make()`` makes the call and all that it works on.  Generators of random numbers are seeded, as sizes may be drawn.
    """
    profiler = Profiler()
    profiler.configure(operators=False)  # before 1.6 the naive engine keeps the arrays of operators that it profiles
    mx.profiler.set_state("run")
    call = make()
    call()
    call = None
    left = settled()
    call = make()
    seed_generators(seed)
    marks = [settled()]
    for _ in range(calls):
        call()
        mx.nd.waitall()
        marks.append(now())
    mx.profiler.set_state("stop")
    mx.profiler.dump(finished=False)
    return held(profiler.new_events(), left, marks)


def settled():
    """When all garbage is gone, in microseconds."""
    gc.collect()
    mx.nd.waitall()
    return now()


def now():
    return int(1e6 * time.time())


def held(events, left, marks):
    """``{device: bytes}``; ``left`` is the end of the first pass, ``marks`` the beginning and ends of the calls."""
    counted = {}
    for event in events:
        if event["ph"] == "C" and event["name"].startswith(COUNTER):
            device = event["name"][len(COUNTER) :]
            counted.setdefault(device, []).append((event["ts"], event["args"][event["name"]]))
    found = {}
    for device, levels in counted.items():
        given = level(levels, marks[0]) - level(levels, left)
        peaks = sorted(peak(levels, start, marks[number + 1]) for number, start in enumerate(marks[:-1]))
        found[device] = max(0, peaks[len(peaks) // 2] - given)
    return found


def peak(levels, start, end):
    """The highest that the counter stood."""
    return max([level(levels, start)] + [one for when, one in levels if start < when <= end])


def level(levels, moment):
    """Where the counter stood."""
    before = [one for when, one in levels if when <= moment]
    return before[-1] if before else 0
