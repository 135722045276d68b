"""What Python's own profiler sees of a call: how long each Python function, and each function in C, took by itself.

A function's time is without that of the functions that it calls, so that the times add up to the call.  Python reports
functions in C by their names, but not ufuncs, nor what a library does within: that counts for whoever called them.
Watching costs time for each function: small ones look larger than they are.
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
    """The times of one call: a function of the events that ``sys.setprofile`` reports."""

    def __init__(self, operator):
        self.operator = operator  # the name of the outermost function, which is our own
        self.stack = []  # of [name, when it began, time of the functions that it called]
        self.times = {}

    def __call__(self, frame, event, function):
        now = clock()
        if event in ("call", "c_call"):
            name = name_of_frame(frame) if event == "call" else name_of_builtin(function)
            self.stack.append([name if self.stack else self.operator, now, 0])
        elif self.stack:
            name, began, within = self.stack.pop()
            self.times.setdefault(name, []).append(now - began - within)
            if self.stack:
                self.stack[-1][2] += now - began
        if self.stack:
            self.stack[-1][2] += clock() - now  # our own time is nobody's


def profile(call, calls):
    """Profile so many calls; a list with one entry for each of them: {"operators": {name: [ns, ...]}, "memory": {}}."""
    found = []
    for _ in range(calls):
        recorder = Recorder(call.operator)
        sys.setprofile(recorder)
        try:
            call()
        finally:
            sys.setprofile(None)
        found.append({"operators": recorder.times, "memory": {}})
    return found


def write_profile(call, calls, folder, name):
    """cProfile's table of so many calls (``table.txt``), and its figures for other tools (``profile.pstats``)."""
    recorder = cProfile.Profile()
    recorder.enable()
    try:
        for _ in range(calls):
            call()
    finally:
        recorder.disable()
    recorder.dump_stats(os.path.join(folder, "profile.pstats"))
    with open(os.path.join(folder, "table.txt"), "w") as stream:
        stream.write("{}: {} calls\n".format(name, calls))
        pstats.Stats(recorder, stream=stream).sort_stats("tottime").print_stats()
