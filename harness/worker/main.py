"""The worker: runs inside a build's own interpreter and times what the controller asks for.

Standard library and Python 3.6 syntax only (a test checks both): builds bring interpreters from 3.6 up.  It
speaks JSON, one message a line, over two file descriptors of its own; whatever the framework prints goes to
stdout or stderr and can't break the protocol.  The controller may kill it at any moment.

Having imported the framework once, it forks a child for each case, so that no case sees what another left behind;
the child speaks over the same descriptors until it ends, and then the parent tells how.

Requests and answers:
    {"op": "begin", "fork": bool}                                  -> {"pid": int}
    {"op": "prepare", "case": {...}, "seed": int, "inject": share, "slow": bool} -> {"call_ns": ns, "spins": int}
    {"op": "block", "discard": int, "calls": int, "inner": int}    -> {"ns": [ns a call, ...]}
    {"op": "end"}                                                  -> {"ended": exit code, -N for signal N}
    {"op": "pin", "cpus": [int, ...]}                              -> {}
A child that dies answers whatever was asked with {"ended": ...}.  Any answer may instead be {"error": {"kind": str,
"reason": str}}: the framework refused, the child lives on.
"""

import argparse
import contextlib
import ctypes
import gc
import importlib.util
import itertools
import json
import os
import signal
import sys
import time
import traceback

WARM_UP_NS = 20 * 1000 * 1000  # calls before the first block: first calls are not like the rest
WARM_UP_LIMIT_NS = 300 * 1000 * 1000
WARM_UP_CALLS = 12
SPIN_PROBE = 20000  # turns, some 0.1 ms
SPIN_PROBES = 9
SPIN_PROBE_NS = 1000 * 1000

if hasattr(time, "perf_counter_ns"):
    clock = time.perf_counter_ns
else:  # Python 3.6

    def clock():
        return int(time.perf_counter() * 1e9)


def die_with_parent():
    """Ask Linux for SIGKILL when the controller dies, so that a hanging call can't outlive it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def load_adaptor(path):
    """The framework's worker-side module, loaded by path; importing it imports the framework."""
    spec = importlib.util.spec_from_file_location("opduel_adaptor", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pin(cpus):
    """Keep every thread of this process on ``cpus``: those that the framework started, too."""
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(int(task), cpus)


def spin(count):
    """Work of a known kind: ``count`` turns of an empty loop. Used to inject a slowdown."""
    for _ in itertools.repeat(None, count):
        pass


def time_calls(call, calls, inner, spins):
    """Time ``calls`` samples of ``inner`` calls each, ``spins`` turns of work after every call.

    Returns nanoseconds a call. Both sides of a comparison run these same lines.
    """
    samples = []
    inner_range = range(inner)
    for _ in range(calls):
        start = clock()
        for _ in inner_range:
            call()
            spin(spins)
        samples.append((clock() - start) / inner)
    return samples


def lower_quartile(values):
    return sorted(values)[len(values) // 4]


def warm_up(call):
    """Call until caches, pools and lazy set-up have settled; returns the lower quartile of late calls, in ns."""
    samples = []
    begin = clock()
    while True:
        samples.extend(time_calls(call, 1, 1, 0))
        spent = clock() - begin
        if spent >= WARM_UP_NS and (len(samples) >= WARM_UP_CALLS or spent >= WARM_UP_LIMIT_NS):
            return lower_quartile(samples[len(samples) // 2 :])


def spins_for(call, call_ns, share):
    """How many turns of ``spin`` take ``share`` of a call's time.

    Calls and turns are timed in turn, and the median of the ratios is taken: a processor that slows down for a
    while slows both.
    """
    calls = max(1, int(SPIN_PROBE_NS / call_ns))
    ratios = []
    for _ in range(SPIN_PROBES):
        turn = time_calls(lambda: spin(SPIN_PROBE), 1, 1, 0)[0] / SPIN_PROBE
        ratios.append(lower_quartile(time_calls(call, calls, 1, 0)) / turn)
    return max(1, round(share * sorted(ratios)[SPIN_PROBES // 2]))


class Session:
    """The case in preparation, and how to time it."""

    def __init__(self, adaptor):
        self.adaptor = adaptor
        self.call = None
        self.spins = 0

    def prepare(self, case, seed, inject, slow):
        self.call = None
        gc.collect()
        self.call = self.adaptor.make_call(case, seed)
        call_ns = warm_up(self.call)
        spins = spins_for(self.call, call_ns, inject) if inject else 0
        self.spins = spins if slow else 0
        return {"call_ns": call_ns, "spins": self.spins}

    def block(self, discard, calls, inner):
        time_calls(self.call, discard, inner, self.spins)
        return {"ns": time_calls(self.call, calls, inner, self.spins)}


def describe(error, adaptor):
    """One line for an exception; the adaptor knows which line of its framework's messages says what is wrong."""
    text = str(error).strip() or "".join(traceback.format_exception_only(type(error), error)).strip()
    line = adaptor.telling_line(text) if hasattr(adaptor, "telling_line") else text.splitlines()[0].strip()
    name = type(error).__name__
    return line if line.startswith(name) else f"{name}: {line}"


class Channel:
    """Messages to and from the controller, which sends one and waits for its answer.

    Nothing is buffered from one message to the next: a child must not take along what its parent has read.
    """

    def __init__(self, read_fd, write_fd):
        self.read_fd = read_fd
        self.write_fd = write_fd

    def __iter__(self):
        text = b""
        while True:
            chunk = os.read(self.read_fd, 1 << 16)
            if not chunk:
                return
            text += chunk
            if not text.endswith(b"\n"):
                continue
            lines, text = text.splitlines(), b""
            for line in lines:
                try:
                    yield json.loads(line.decode("utf-8"))
                except ValueError:  # the end of what a child was reading when it died
                    continue

    def send(self, message):
        left = json.dumps(message).encode("utf-8") + b"\n"
        while left:
            left = left[os.write(self.write_fd, left) :]


def serve_case(adaptor, channel):
    """Answer what is asked of one case, until it ends."""
    session = Session(adaptor)
    for request in channel:
        name = request.pop("op")
        if name == "end":
            return
        try:
            answer = getattr(session, name)(**request)
        except Exception as error:  # whatever the framework raises is an answer
            answer = {"error": {"kind": getattr(error, "kind", "error"), "reason": describe(error, adaptor)}}
        channel.send(answer)
    os._exit(0)  # the controller has gone


def serve_case_in_child(adaptor, channel):
    """The same in a forked child; returns its exit code, -N for signal N."""
    pid = os.fork()
    if pid == 0:
        die_with_parent()
        channel.send({"pid": os.getpid()})
        serve_case(adaptor, channel)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def serve(adaptor, channel):
    """Answer requests until the controller closes its end.

    What was meant for a child that has died comes here; that the child ended was the answer.
    """
    channel.send({"ready": adaptor.versions()})
    for request in channel:
        if request["op"] == "pin":
            pin(request["cpus"])
            channel.send({})
        elif request["op"] == "begin" and request["fork"]:
            channel.send({"ended": serve_case_in_child(adaptor, channel)})
        elif request["op"] == "begin":
            channel.send({"pid": os.getpid()})
            serve_case(adaptor, channel)
            channel.send({"ended": 0})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adaptor", required=True)
    parser.add_argument("--read_fd", type=int, required=True)
    parser.add_argument("--write_fd", type=int, required=True)
    options = parser.parse_args()
    die_with_parent()
    sys.path.pop(0)  # this file's folder: the framework must not import our modules by accident
    channel = Channel(options.read_fd, options.write_fd)
    adaptor = load_adaptor(options.adaptor)
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()  # what the import left is no garbage: later collections skip it
    gc.disable()
    serve(adaptor, channel)
    os._exit(0)  # frameworks may hang or crash in their exit handlers; all is said


if __name__ == "__main__":
    main()
