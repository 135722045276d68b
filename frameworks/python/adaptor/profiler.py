"""Profile a call with Python's own profiler: the time that each function, in Python or C, took by itself.

A function's time excludes that of the functions it calls, so that the times add up to the call.  Python doesn't report
ufuncs, nor what happens within a library: that time counts for the caller.  Profiling costs time for each function, so
that small functions look larger than they are.
"""

import cProfile
import os
import pstats
import sys
import time

clock = time.perf_counter_ns if hasattr(time, "perf_counter_ns") else lambda: int(time.perf_counter() * 1e9)


def name_of_frame(frame):
    code = frame.f_code
    return "{}.{}".format(frame.f_globals.get("__name__", "?"), getattr(code, "co_qualname", code.co_name))


def name_of_builtin(function):
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or type(owner).__module__
    return "{}.{}".format(module, getattr(function, "__qualname__", getattr(function, "__name__", "?")))


class Recorder:
    """Record the times of one call from the events of ``sys.setprofile``."""

    def __init__(self, operator):
        self.operator = operator  # replaces the name of the outermost function, which is the adaptor's own
        self.stack = []  # [name, start, time of the functions that it called] of each open call
        self.times = {}

    def __call__(self, frame, event, function):
        now = clock()
        if event in ("call", "c_call"):
            name = name_of_frame(frame) if event == "call" else name_of_builtin(function)
            self.stack.append([name if self.stack else self.operator, now, 0])
        elif self.stack:
            name, start, inner_time = self.stack.pop()
            self.times.setdefault(name, []).append(now - start - inner_time)
            if self.stack:
                self.stack[-1][2] += now - start
        if self.stack:
            self.stack[-1][2] += clock() - now  # exclude the profiler's own time


def profile(call, calls):
    """Profile so many calls; return {"operators": {name: [ns, ...]}, "memory": {}} for each."""
    profiles = []
    for _ in range(calls):
        recorder = Recorder(call.operator)
        sys.setprofile(recorder)
        try:
            call()
        finally:
            sys.setprofile(None)
        profiles.append({"operators": recorder.times, "memory": {}})
    return profiles


def write_profile(call, calls, folder, name):
    """Write cProfile's table of so many calls (``table.txt``) and its data for other tools (``profile.pstats``)."""
    recorder = cProfile.Profile()
    recorder.enable()
    try:
        for _ in range(calls):
            call()
    finally:
        recorder.disable()
    recorder.dump_stats(os.path.join(folder, "profile.pstats"))
    with open(os.path.join(folder, "table.txt"), "w") as stream:
        stream.write(f"{name}: {calls} calls\n")
        pstats.Stats(recorder, stream=stream).sort_stats("tottime").print_stats()
