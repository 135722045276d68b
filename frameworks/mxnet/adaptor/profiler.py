"""MXNet's own profiler: how long each operator of a call took, and what storage the call allocated at most.

All figures come from the trace that the profiler writes
(https://mxnet.apache.org/versions/1.9.1/api/python/docs/tutorials/performance/backend/profiler.html): the system clock
in microseconds, and counters of bytes.  The profiler's table (``dumps``) sums the same events, with four digits of each
sum and no word on single calls.

An operator is in the trace twice, as a duration (``B`` and ``E``) and as an asynchronous task (``b`` and ``e``) of the
same name.  Two kinds of work are there as tasks alone: the Python code of a custom operator, and calls of the C API.
"""

import json
import os
import re
import tempfile
import time

import mxnet as mx

OPERATORS = ("operator", "Custom Operator")  # categories; the second one is that of what a custom operator calls
# Work of the engine that serves operators and is none itself.
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
OWNER = "::"  # between a custom operator's name and that of what it runs
PYTHON = "pure_python"  # its own Python code
CUSTOM = ("Custom", "_backward_Custom")  # before 1.6: all of a custom operator, with what it calls
# Functions of the C API that move data themselves, without an operator: asnumpy, item, array and the like.
COPIES = ("MXNDArraySyncCopyToCPU", "MXNDArraySyncCopyFromCPU", "MXNDArraySave", "MXNDArrayLoad")
COUNTER = "Memory: "  # then the device

# What an interval of the trace is.  Time is that of the first kind that covers it: a copy may wait for an operator, and
# Python code for both.
OPERATOR, COPY, CODE = range(3)


class Profiler:
    """Profiles calls. One a process: MXNet writes all of a process's traces into one file."""

    def __init__(self):
        # A file without a name leaves nothing behind, however the process ends. It stays open as long as the process
        # lives: MXNet opens it by its descriptor, and does so once more when the process exits.
        self.trace, self.path = nameless_file()
        self.bytes_read = 0
        self.held = {}  # device -> where its counter stands, in bytes: it is never reset

    def profile(self, call, calls):
        """Profile so many calls, after one more; a list with one entry for each of them.

        An entry: {"operators": {name: [ns, ...]}, one for each time that it ran, "memory": {device: bytes}}, the most
        that the counter rose above where it stood when the call began.  A custom operator's Python code is
        ``<its name>::pure_python``, a copy between an array and Python has the name of the function of the C API; of
        either only the time counts in which no operator ran.  No operators: the call ran none that the profiler sees.
        """
        self.configure(api=True)
        (first,) = self.by_call(*self.record(call, 1))
        # The C API makes traces several times as large, and slows calls down: it is left out where it tells nothing.
        self.configure(api=any(name in COPIES for name in first["operators"]))
        return self.by_call(*self.record(call, calls))

    def growth(self, call):
        """``{device: bytes}``: the most that the counters rise above where they stand in one more call."""
        self.configure(operators=False)
        return self.by_call(*self.record(call, 1))[0]["memory"]

    def configure(self, operators=True, api=False):
        """What goes into the trace, besides storage."""
        mx.profiler.set_config(
            profile_symbolic=operators,
            profile_imperative=operators,
            profile_memory=True,
            profile_api=api,
            aggregate_stats=False,
            filename=self.path,
        )

    def record(self, call, calls):
        """``(events, starts)``: the trace's, and when each call began, in microseconds."""
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
        """What the trace has got since the last time, in order of time."""
        text = os.pread(self.trace, os.fstat(self.trace).st_size - self.bytes_read, self.bytes_read)
        head = b"" if self.bytes_read == 0 else b'{"traceEvents": ['
        self.bytes_read += len(text)
        events = json.loads((head + text.strip().strip(b",") + b"]}").decode("utf-8"))["traceEvents"]
        return sorted((event for event in events if event["ph"] in "BEbeC"), key=lambda event: event["ts"])

    def by_call(self, events, starts):
        """The events of each call: those from its start to the start of the next."""
        calls = [{"operators": [], "memory": {}} for _ in starts]
        begun = {}
        at_start = {}
        number = -1
        for event in events:
            while number + 1 < len(starts) and event["ts"] >= starts[number + 1]:
                number += 1
                at_start = dict(self.held)
            if event["ph"] == "C":
                self.note_memory(event, calls[number] if number >= 0 else None, at_start)
            elif number >= 0:
                note_interval(event, calls[number]["operators"], begun)
        for call in calls:
            call["operators"] = times_of(call["operators"])
        return calls

    def note_memory(self, event, call, at_start):
        if not event["name"].startswith(COUNTER):
            return  # one of the C API's
        device = event["name"][len(COUNTER) :]
        self.held[device] = event["args"][event["name"]]
        if call is not None:
            grown = self.held[device] - at_start.get(device, 0)
            call["memory"][device] = max(grown, call["memory"].get(device, 0))


def device_name(context):
    """As the counters call a device: ``cpu/0``."""
    return "{}/{}".format(context.device_type, context.device_id)


def nameless_file():
    """A descriptor of a temporary file that no folder lists, and a path by which this process can open it."""
    with tempfile.TemporaryFile() as stream:
        descriptor = os.dup(stream.fileno())
    return descriptor, "/proc/self/fd/{}".format(descriptor)


def kind_of(event):
    """What the event's interval is; None for what is no work, or is there a second time."""
    name, is_task = event["name"], event["ph"] in "be"
    if is_task:
        if event["cat"] == OPERATORS[1] and name.rpartition(OWNER)[2] == PYTHON:
            return CODE
        return COPY if name in COPIES else None
    if event["cat"] not in OPERATORS or name.rpartition(OWNER)[2] in HELPERS:
        return None
    return CODE if name in CUSTOM else OPERATOR


def note_interval(event, intervals, begun):
    """A beginning is kept in ``begun``; its end makes ``(kind, name, start, stop)`` of it, in microseconds.

    A duration begins and ends in one thread, a task has an id.
    """
    kind = kind_of(event)
    if kind is None:
        return
    key = (event["pid"], event["tid"], event.get("id"), event["name"])
    if event["ph"] in "Bb":
        begun.setdefault(key, []).append(event["ts"])
    elif begun.get(key):
        intervals.append((kind, event["name"], begun[key].pop(), event["ts"]))


def times_of(intervals):
    """``{name: [ns, ...]}``: of operators all their time, of other work what nothing before it in the order covers."""
    times = {}
    covered = []
    for kind, name, start, stop in sorted(intervals, key=lambda one: (one[0], one[2])):
        microseconds = stop - start
        if kind != OPERATOR:
            microseconds -= sum(max(0, min(stop, end) - max(start, begin)) for begin, end in merged(covered))
        times.setdefault(name, []).append(1000 * microseconds)
        covered.append((start, stop))
    return times


def merged(intervals):
    """The same stretches of time, in order, none of which touches another."""
    found = []
    for start, stop in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def write_profile(call, calls, folder, name):
    """The profiler's own trace (``trace.json``) and table (``table.txt``) of so many calls. Once a process.

    Each call is a task of this name in the trace.  A build with NVTX or VTune hands tasks and operators on to these, as
    ranges, while its profiler runs.
    """
    trace = os.path.join(folder, "trace.json")
    mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=trace)
    task = mx.profiler.Domain("opduel").new_task(re.sub(r'["\\]', "_", name))  # which MXNet writes as they are
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
    with open(trace) as stream:  # MXNet says nothing when it can't write
        json.load(stream)
