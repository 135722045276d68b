"""MXNet's own profiler: how long each operator of a call took, and what storage the call held at most.

All figures come from the trace that the profiler writes
(https://mxnet.apache.org/versions/1.9.1/api/python/docs/tutorials/performance/backend/profiler.html): the system clock
in microseconds, and counters of bytes.  The profiler's table (``dumps``) sums the same events, with four digits of each
sum and no word on single calls.
"""

import json
import os
import tempfile
import time

import mxnet as mx

# The engine's own; the last fills the gradient with ones that a backward pass begins with.
NOT_OPERATORS = ("WaitForVar", "DeleteVariable", "ResourceParallelRandomSetSeed", "SetValueOp")
COUNTER = "Memory: "  # then the device


class Profiler:
    """Profiles calls. One a process: MXNet writes all of a process's traces into one file."""

    def __init__(self):
        # A file without a name leaves nothing behind, however the process ends. It stays open as long as the process
        # lives: MXNet opens it by its descriptor, and does so once more when the process exits.
        self.trace, path = nameless_file()
        self.bytes_read = 0
        self.held = {}  # device -> where its counter stands, in bytes: it is never reset
        mx.profiler.set_config(
            profile_symbolic=True,
            profile_imperative=True,
            profile_memory=True,
            profile_api=False,
            aggregate_stats=False,
            filename=path,
        )

    def profile(self, call, calls):
        """Profile so many calls; a list with one entry for each of them.

        An entry: {"operators": {name: [ns, ...]}, one for each time that it ran, "memory": {device: bytes}}, the most
        that the call held of what it had allocated itself.
        """
        starts = []
        mx.nd.waitall()
        mx.profiler.set_state("run")
        for _ in range(calls):
            starts.append(int(1e6 * time.time()))
            call()
            mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump(finished=False)
        return self.by_call(self.new_events(), starts)

    def new_events(self):
        """What the trace has got since the last time, in order of time."""
        text = content(self.trace, self.bytes_read)
        head = b"" if self.bytes_read == 0 else b'{"traceEvents": ['
        self.bytes_read += len(text)
        events = json.loads((head + text.strip().strip(b",") + b"]}").decode("utf-8"))["traceEvents"]
        return sorted((event for event in events if event["ph"] in "BEC"), key=lambda event: event["ts"])

    def by_call(self, events, starts):
        """The events of each call: those from its start to the start of the next."""
        calls = [{"operators": {}, "memory": {}} for _ in starts]
        begun = {}
        at_start = {}
        number = -1
        for event in events:
            while number + 1 < len(starts) and event["ts"] >= starts[number + 1]:
                number += 1
                at_start = dict(self.held)
            if event["ph"] == "C":
                self.note_memory(event, calls[number] if number >= 0 else None, at_start)
            elif number >= 0 and event["name"] not in NOT_OPERATORS:
                note_operator(event, calls[number], begun)
        return calls

    def note_memory(self, event, call, at_start):
        device = event["name"][len(COUNTER) :]
        self.held[device] = event["args"][event["name"]]
        if call is not None:
            grown = self.held[device] - at_start.get(device, 0)
            call["memory"][device] = max(grown, call["memory"].get(device, 0))


def nameless_file():
    """A descriptor of a temporary file that no folder lists, and a path by which this process can open it."""
    with tempfile.TemporaryFile() as stream:
        descriptor = os.dup(stream.fileno())
    return descriptor, "/proc/self/fd/{}".format(descriptor)


def content(descriptor, start):
    """What the file holds from ``start`` on."""
    return os.pread(descriptor, os.fstat(descriptor).st_size - start, start)


def note_operator(event, call, begun):
    """An operator's beginning or end; it begins and ends in one thread."""
    key = (event["pid"], event["tid"], event["name"])
    if event["ph"] == "B":
        begun.setdefault(key, []).append(event["ts"])
    elif begun.get(key):
        nanoseconds = 1000 * (event["ts"] - begun[key].pop())
        call["operators"].setdefault(event["name"], []).append(nanoseconds)
