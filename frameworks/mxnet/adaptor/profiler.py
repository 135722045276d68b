"""Measure the time of a call's operators, and the peak of its storage, by MXNet's own profiler.

All figures come from the trace that the profiler writes
(https://mxnet.apache.org/versions/1.9.1/api/python/docs/tutorials/performance/backend/profiler.html): times of the
system clock in microseconds, and counters of bytes.  The profiler's table (``dumps``) has only sums of these.

An operator is in the trace twice, as a duration (``B`` and ``E``) and as an asynchronous task (``b`` and ``e``) of the
same name.  Two kinds of work are there only as tasks: the Python code of a custom operator, and calls of the C API.
"""

import bisect
import json
import math
import os
import re
import tempfile
import time

import mxnet as mx

OPERATORS = ("operator", "Custom Operator")  # categories; the second is of operators within a custom operator
# Work of the engine that isn't an operator's.
HELPERS = (
    "WaitForVar",
    "DeleteVariable",
    "DeleteOperator",
    "CustomOperator",  # before 1.6
    "CustomOperatorWait",
    "ResourceRandomSetSeed",
    "ResourceParallelRandomSetSeed",
    "ResourceNativeRandomSetSeed",
)
OWNER = "::"  # between the names of a custom operator and of what it runs
PYTHON = "pure_python"  # a custom operator's Python code
CUSTOM = ("Custom", "_backward_Custom")  # before 1.6: a custom operator with all that it calls
# Functions of the C API that move data without an operator: asnumpy, item, array and the like.
COPIES = ("MXNDArraySyncCopyToCPU", "MXNDArraySyncCopyFromCPU", "MXNDArraySave", "MXNDArrayLoad")
COUNTER = "Memory: "  # prefix of a device's counter

# Kinds of intervals in the trace.  Where several cover the same time, it counts for the first kind: a copy may wait for
# an operator, and Python code for both.
OPERATOR, COPY, CODE = range(3)


class Profiler:
    """The profiler of calls. There can be one a process: MXNet writes all of a process's traces into one file."""

    def __init__(self):
        # A file without a name vanishes with the process. It stays open: MXNet opens it by its descriptor, and does so
        # again when the process exits.
        with tempfile.TemporaryFile() as stream:
            self.trace = os.dup(stream.fileno())
        self.path = f"/proc/self/fd/{self.trace}"
        self.bytes_read = 0
        self.levels = {}  # device -> [(microseconds, bytes), ...] of its counter, which is never reset

    def profile(self, call, calls):
        """Profile so many calls, after one more; return {"operators": ..., "memory": {device: bytes}} for each.

        "operators" is {name: [ns of each run, ...]}, and empty if the profiler sees none; "memory" the peak above the
        counter at the call's start.  A custom operator's Python code is ``<its name>::pure_python``, and a copy between
        an array and Python has the name of the C API's function; of both only the time without operators counts.
        """
        self.configure(api=True)
        (first,) = self.by_call(*self.record(call, 1))
        # The C API makes traces several times as large and calls slower, so it is left out if it copies nothing.
        self.configure(api=any(name in COPIES for name in first["operators"]))
        return self.by_call(*self.record(call, calls))

    def growth(self, call):
        """Run one more call; return ``{device: bytes}``, the peak above the counters at its start."""
        self.configure(operators=False)
        return self.by_call(*self.record(call, 1))[0]["memory"]

    def configure(self, operators=True, api=False):
        """Choose what the trace has besides storage."""
        mx.profiler.set_config(
            profile_symbolic=operators,
            profile_imperative=operators,
            profile_memory=True,
            profile_api=api,
            aggregate_stats=False,
            filename=self.path,
        )

    def record(self, call, calls):
        """Run so many calls; return ``(events, starts)``: the trace's events, and the calls' starts in microseconds."""
        starts = []
        mx.nd.waitall()
        mx.profiler.set_state("run")
        for _ in range(calls):
            starts.append(int(1e6 * time.time()))
            call()
            mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump(finished=False)
        return self.new_events(), starts

    def new_events(self):
        """Return the events that the trace has got since the last time, in order of time."""
        text = os.pread(self.trace, os.fstat(self.trace).st_size - self.bytes_read, self.bytes_read)
        head = b"" if self.bytes_read == 0 else b'{"traceEvents": ['
        self.bytes_read += len(text)
        events = json.loads((head + text.strip().strip(b",") + b"]}").decode("utf-8"))["traceEvents"]
        events = sorted((event for event in events if event["ph"] in "BEbeC"), key=lambda event: event["ts"])
        for event in events:
            if event["ph"] == "C" and event["name"].startswith(COUNTER):  # not a counter of the C API
                level = event["ts"], event["args"][event["name"]]
                self.levels.setdefault(event["name"][len(COUNTER) :], []).append(level)
        return [event for event in events if event["ph"] != "C"]

    def by_call(self, events, starts):
        """Return the profile of each call, from the events between its start and the next one's."""
        intervals, open_starts = [[] for _ in starts], {}
        for event in events:
            number = bisect.bisect_right(starts, event["ts"]) - 1
            if number >= 0:
                add_interval(event, intervals[number], open_starts)
        stops = [*starts[1:], math.inf]
        return [
            {"operators": times_of(intervals[number]), "memory": self.growth_between(start - 1, stop - 1)}
            for number, (start, stop) in enumerate(zip(starts, stops))
        ]

    def growth_between(self, start, end):
        """Return ``{device: bytes}``, the peak above the counter at ``start``, of the devices whose counter changed."""
        return {
            device: peak_of(levels, start, end) - level_at(levels, start)
            for device, levels in self.levels.items()
            if any(start < when <= end for when, _ in levels)
        }


def level_at(levels, moment):
    """Return a counter at a time; ``levels`` are its ``(time, bytes)`` in order."""
    return next((size for when, size in reversed(levels) if when <= moment), 0)


def peak_of(levels, start, end):
    """Return a counter's peak between two times."""
    return max([level_at(levels, start)] + [size for when, size in levels if start < when <= end])


def device_name(context):
    """Return the counters' name of a device, such as ``cpu/0``."""
    return f"{context.device_type}/{context.device_id}"


def kind_of(event):
    """Return the kind of the event's interval, or None if it isn't work, or is a duplicate."""
    name, is_task = event["name"], event["ph"] in "be"
    if is_task:
        if event["cat"] == OPERATORS[1] and name.rpartition(OWNER)[2] == PYTHON:
            return CODE
        return COPY if name in COPIES else None
    if event["cat"] not in OPERATORS or name.rpartition(OWNER)[2] in HELPERS:
        return None
    return CODE if name in CUSTOM else OPERATOR


def add_interval(event, intervals, open_starts):
    """Store the time of a start in ``open_starts``; at the end, append ``(kind, name, start, stop)`` in microseconds.

    A duration starts and ends in one thread, a task has an id.
    """
    kind = kind_of(event)
    if kind is None:
        return
    key = (event["pid"], event["tid"], event.get("id"), event["name"])
    if event["ph"] in "Bb":
        open_starts.setdefault(key, []).append(event["ts"])
    elif open_starts.get(key):
        intervals.append((kind, event["name"], open_starts[key].pop(), event["ts"]))


def times_of(intervals):
    """Return ``{name: [ns, ...]}``: all time of operators, and of other kinds what no earlier kind covers."""
    times = {}
    covered = []
    for kind, name, start, stop in sorted(intervals, key=lambda interval: (interval[0], interval[2])):
        microseconds = stop - start
        if kind != OPERATOR:
            microseconds -= sum(max(0, min(stop, end) - max(start, begin)) for begin, end in merge(covered))
        times.setdefault(name, []).append(1000 * microseconds)
        covered.append((start, stop))
    return times


def merge(intervals):
    """Return the union of intervals, as disjoint ones in order."""
    merged = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def write_profile(call, calls, folder, name):
    """Write the profiler's trace (``trace.json``) and table (``table.txt``) of so many calls. Call it once a process.

    Each call is a task of this name in the trace.  While the profiler runs, a build with NVTX or VTune passes tasks and
    operators to these as ranges.
    """
    trace = os.path.join(folder, "trace.json")
    mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=trace)
    task = mx.profiler.Domain("opduel").new_task(re.sub(r'["\\]', "_", name))  # MXNet doesn't escape them
    mx.nd.waitall()
    mx.profiler.set_state("run")
    for _ in range(calls):
        task.start()
        call()
        mx.nd.waitall()
        task.stop()
    mx.profiler.set_state("stop")
    table = mx.profiler.dumps()
    mx.profiler.dump(finished=True)
    with open(os.path.join(folder, "table.txt"), "w") as stream:
        stream.write(table)
    with open(trace) as stream:  # MXNet doesn't report that it can't write
        json.load(stream)
