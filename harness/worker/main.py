"""The worker: runs inside a build's own interpreter and times what the controller asks for.

Standard library and Python 3.6 syntax only (a test checks both): builds bring interpreters from 3.6 up.  How it speaks
to the controller, and forks a child for each case, is in serving.py.  What a child is asked for, and answers:

    {"op": "prepare", "case": {...}, "seed": int, "inject": share, "slow": bool} -> {"call_ns": ns, "spins": int,
                        "took_ns": ns, for all of it}
                        and of a call that says how it is timed also {"around_ns": ns}, and {"inner": calls} unless it
                        is free, see timing.py;
                        with "sets": int, so many sets of inputs are made, and calls take them in turn
    {"op": "block", "discard": int, "calls": int, "inner": int}    -> {"ns": [ns a call, ...]}
    {"op": "low_block", as "block", "most_ns": float and "share": of the values, those below the one that is asked for}
                        -> {"low": that value, ns a call, "timed_ns": of all the calls, "calls": how many}; calls that
                           the processor executes end after "most_ns", the longest left out
    {"op": "turns", as "low_block" and "turns": [blocks, ...], "first": bool, "read_from": path, "write_to": path}
                        -> {"blocks": [as "low_block" answers, ...]}, taken in turns with the other side
    {"op": "profile", "calls": int}          -> {"calls": [{"operators": {name: [ns, ...]}, "memory": {device: bytes}}]}
                                                (on a device perhaps also "kernels": [name, ...], of the operators)
    {"op": "write_profile", "calls": int, "folder": path, "name": str}
                        -> {"calls": int}; the framework's own files, and output.txt: what the case has printed
    {"op": "resident", "calls": int}                               -> {"bytes": most memory meanwhile, files apart}
    {"op": "results", "case": {...}, "seed": int, "folder": path, "limit": bytes} (unprepared)
                        -> {"arrays": [{"name", "dtype", "shape", "storage", "file", "count"}, ...]}; also "precision"
                           where values are rounded to a dtype that NumPy lacks
    {"op": "digest", "case": {...}, "seed": int} (unprepared)      -> {"digest": of the inputs' values, or empty}
    {"op": "memory", "case": {...}, "seed": int, "calls": int} (unprepared)
                        -> {"bytes": {device: what a call needs beyond what it is given}}
    {"op": "value", "case": {...}, "seed": int} (unprepared)       -> {"value": what the case reports}
    {"op": "cpu_time", "case": {...}, "seed": int} (unprepared)    -> {"value": ns of processor time of one call}
    {"op": "values", "case": {...}, "seed": int} (unprepared)      -> {"values": [{"name", "value", ...}, ...]}, all
                        that the case reports
    {"op": "functions", "calls": int}        -> {"ns": a call, "calls": int, "functions": [{"name", "ns", "calls",
                        "where", "called_at", "callers": {name: share}, "inclusive": ns, "doubt": ns,
                        "inclusive_doubt": ns, "code": fingerprint}, ...],
                        "stacks": [[[place in "functions", ...], ns], ...]}, of a call: functions.py; also "seen_ns"
                        where they don't add up to "ns"
    {"op": "resources", "calls": int}        -> {"calls": int, "counts": {name: a call}, "time": {name: ns a call}}
    {"op": "samples", "calls": int}          -> {"calls": int, "ns": a call in user code, "samples": [[path, place in
                        that file, number], ...]}: samples.py
    {"op": "libraries"}                      -> {"libraries": [...]} that are loaded: libraries.py
    {"op": "threads"} (unprepared)           -> {"lost": [name, ...]}, those that this child's fork has lost, null where
                        they can't be seen: forks.py; "compute": how many an operator gets, null where it is not said
    {"op": "printed", "calls": int}          -> {"calls": int, fewer if they print much,
                        "lines": [...] that they printed, "before": [...] that were printed first}
    {"op": "reach", "case": {...}, "seed": int, "reports": whether it reports a value, "root": folder} (unprepared)
                        -> {"functions": ["path:line", ...], "imported": the same, of what ran before, "modules":
                        [path, ...]}, of files in the folder: reach.py

The function that the adaptor's make_call returns may have attributes:
    before      a function to call before each timed region, untimed
    number      how many calls each timed region is
    sample      a function that times a call by itself, and returns its nanoseconds
    close       a function to call when the case has ended
"""

import contextlib
import ctypes
import functools
import gc
import importlib.util
import itertools
import os
import sys
import types

NEXT_SEED = 2654435761  # from one set of inputs to the next: far away, so that seeds that follow each other share none
# The folder of what adaptors share, the package opduel_common.
COMMON = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))), "frameworks", "common"
)


def beside(name):
    """Return a module of this folder; the others import it as ``opduel_NAME``.

    The folder itself is not on the path, where it could hide a build's modules.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("opduel_" + name, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


serving = beside("serving")
timing = beside("timing")
# Registered before the framework is imported; only in workers that are asked about it.
WATCH = beside("forks").Watch() if os.environ.get("OPDUEL_WATCH_FORKS") else None
RECORDER = beside("reach").Recorder() if os.environ.get("OPDUEL_RECORD_REACH") else None


def load_adaptor(path):
    """The framework's worker-side module or package, loaded by path; importing it imports the framework.

    Raises BadAdaptor when it lacks a function that every run needs.
    """
    if COMMON not in sys.path:
        sys.path.append(COMMON)
    folder = [path] if os.path.isdir(path) else None
    source = os.path.join(path, "__init__.py") if folder else path
    spec = importlib.util.spec_from_file_location("opduel_adaptor", source, submodule_search_locations=folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a package's own modules look for it there
    spec.loader.exec_module(module)
    for name in ("versions()", "make_call(case, seed)"):
        function_of(module, name)
    return module


def function_of(adaptor, signature):
    """A function of the adaptor, by its name and arguments. Raises BadAdaptor when there is none."""
    function = getattr(adaptor, signature.partition("(")[0], None)
    if not callable(function):
        raise serving.BadAdaptor("the adaptor {} has no function {}".format(adaptor.__file__, signature))
    return function


def regions(call):
    """``(number, before)`` of timed regions: how many calls each is, None where that is free, and a function to call
    before each of them, untimed.

    Raises Unseen for a call that times itself, or by a device's clock.
    """
    if hasattr(call, "sample") or timing.is_of_device(call):
        clock_of = "with a clock of its own" if hasattr(call, "sample") else "by a device's clock"
        raise serving.Unseen("the case is timed {}, not call by call".format(clock_of))
    set_up = getattr(call, "before", None)

    def before():
        if set_up:
            set_up()
        timing.wipe()

    return getattr(call, "number", 1 if timing.EVICTING or set_up else None), before


def in_turn(calls):
    """A call that is each of ``calls`` in turn: the same work on other values, as a processor remembers how the
    branches of its latest work went. Raises Unseen where calls say how they are timed: what they are timed by belongs
    to one input."""
    if timing.is_special(calls[0]) or timing.is_process(calls[0]):
        raise serving.Unseen("input_sets: the case is not timed call by call; leave input_sets out")
    following = itertools.cycle(calls).__next__

    def call():
        return following()()

    if timing.is_of_device(calls[0]):
        call.timer = calls[0].timer  # of the device, whatever the input
    if hasattr(calls[0], "close"):

        def close():
            for input_call in calls:
                input_call.close()

        call.close = close
    return call


def resident_peak(call, calls):
    """The most anonymous and shared memory that this process had in so many calls, in bytes. What making the inputs, or
    what comes before a call, has left is given back to the system, and Linux told to forget its peak, if it takes
    that."""
    from opduel_common.peaks import peak_of_process  # on the path since the adaptor was loaded

    before, peaks = getattr(call, "before", None), []
    for number in range(calls):
        if before:
            before()
        if before or not number:
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)
            with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as stream:
                stream.write("5")  # man 5 proc: reset the peak
        call()
        peaks.append(peak_of_process())
    return max(peaks)


class Session:
    """The case in preparation, and how to time it."""

    def __init__(self, adaptor):
        self.adaptor = adaptor
        self.call = None
        self.case = None
        self.spins = 0
        self.imported = RECORDER.take() if RECORDER else []  # code that ran before the case

    def prepare(self, case, seed, inject, slow, sets=1):
        serving.close(self.call)  # on a device, a process has several cases, one after the other
        began, self.call, self.case = timing.clock(), None, case
        gc.collect()
        calls = [self._make_call(case, (seed + number * NEXT_SEED) % 2**32) for number in range(sets)]
        self.call = in_turn(calls) if sets > 1 else calls[0]
        call_ns, around_ns = timing.warm_up(self.call)
        spins = timing.spins_for(self.call, call_ns, inject) if inject else 0
        self.spins = spins if slow else 0
        answer = {"call_ns": call_ns, "spins": self.spins}
        if timing.is_special(self.call) or timing.is_of_device(self.call):
            inner = timing.inner_of(self.call, call_ns)
            if around_ns is None or timing.is_of_device(self.call):
                around_ns = timing.around(self.call, inner)
            answer["around_ns"] = around_ns
            if not timing.is_free(self.call):
                answer["inner"] = inner
        answer["took_ns"] = timing.clock() - began
        return answer

    def _make_call(self, case, seed):
        call = self.adaptor.make_call(case, seed)
        if not callable(call):
            raise serving.BadAdaptor("the adaptor's make_call returned {}, not a function".format(type(call).__name__))
        return call

    def block(self, discard, calls, inner, most_ns=float("inf")):
        if not timing.is_process(self.call):  # of these none leaves anything behind for the next
            timing.time_calls(self.call, discard, inner, self.spins, most_ns)
        return {"ns": timing.time_calls(self.call, calls, inner, self.spins, most_ns)}

    def low_block(self, discard, calls, inner, most_ns, share):
        """What one value says of a block: to send and to read hundreds takes a third of the time of timing them."""
        values = self.block(discard, calls, inner, most_ns)["ns"]
        return {"low": timing.quantile(values, share), "timed_ns": sum(values) * inner, "calls": len(values) * inner}

    def turns(self, turns, first, read_from, write_to, discard, **block_arguments):
        def block(switched):
            return self.low_block(discard if switched else 0, **block_arguments)

        return {"blocks": timing.take_turns(block, turns, first, read_from, write_to)}

    def profile(self, calls):
        return {"calls": function_of(self.adaptor, "profile(call, calls)")(self.call, calls)}

    def write_profile(self, calls, folder, name):
        try:
            self.adaptor.write_profile(self.call, calls, folder, name)
        finally:
            printed = beside("printed")
            printed.flush()
            # From the case's beginning. shutil takes long to load.
            with open(printed.STDOUT, "rb") as source, open(os.path.join(folder, "output.txt"), "wb") as target:
                target.writelines(source)
        return {"calls": calls}

    def results(self, case, seed, folder, limit):
        results = function_of(self.adaptor, "results(case, seed, folder, limit)")
        return {"arrays": results(case, seed, folder, limit)}

    def digest(self, case, seed):
        """Of the values of the case's inputs; empty where the adaptor has none."""
        return {"digest": self.adaptor.digest(case, seed) if hasattr(self.adaptor, "digest") else ""}

    def memory(self, case, seed, calls):
        return {"bytes": function_of(self.adaptor, "memory(case, seed, calls)")(case, seed, calls)}

    def value(self, case, seed):
        return {"value": self._number("value", case, seed)}

    def cpu_time(self, case, seed):
        return {"value": self._number("cpu_time", case, seed)}

    def _number(self, name, case, seed):
        number = function_of(self.adaptor, name + "(case, seed)")(case, seed)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise serving.BadAdaptor("the adaptor's {} returned {}, not a number".format(name, type(number).__name__))
        return number

    def values(self, case, seed):
        return {"values": function_of(self.adaptor, "values(case, seed)")(case, seed)}

    def functions(self, calls):
        if timing.is_process(self.call):
            raise serving.Unseen("each call is a process of its own: its functions can't be seen from here")
        number, before = regions(self.call)
        beside("tracing")
        file = os.path.abspath(self.adaptor.__file__)
        own = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(COMMON)]
        own.append(os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file)
        return beside("functions").functions(self.call, calls, number, before, self._after(), own)

    def resources(self, calls):
        number, before = regions(self.call)
        return beside("resources").resources(
            self.call, calls, number, before, self._after(), children=timing.is_process(self.call)
        )

    def samples(self, calls):
        if timing.is_process(self.call):
            raise serving.Unseen("each call is a process of its own: its code can't be sampled from here")
        number, before = regions(self.call)
        return beside("samples").samples(self.call, calls, number, before, self._after())

    def libraries(self):
        return {"libraries": beside("libraries").libraries()}

    def threads(self):
        compute = self.adaptor.compute_threads() if hasattr(self.adaptor, "compute_threads") else None
        return {"lost": WATCH.lost if WATCH else None, "compute": compute}

    def printed(self, calls):
        number, before = regions(self.call)
        return beside("printed").printed(self.call, calls, number, before, self._after())

    def reach(self, case, seed, reports, root):
        def run():
            if reports:
                self._number("value", case, seed)
                return
            self.call = self._make_call(case, seed)
            before, once = getattr(self.call, "before", None), getattr(self.call, "sample", self.call)
            for _ in range(RECORDER.calls):
                if before:
                    before()
                once()

        reach = RECORDER.reach(run, self.imported, root)
        elsewhere = self.adaptor.runs_elsewhere(case) if hasattr(self.adaptor, "runs_elsewhere") else None
        return dict(reach, unknown=elsewhere or "")

    def _after(self):
        return functools.partial(timing.spin, self.spins) if self.spins else None

    def resident(self, calls):
        """Of this process; or, where the adaptor says so, of the process that a call is."""
        if hasattr(self.adaptor, "resident"):
            return {"bytes": self.adaptor.resident(self.case)}
        return {"bytes": resident_peak(self.call, calls)}


def main(make_session=Session):
    # The adaptor's path, then a word for each channel, the control's first: ``3,4`` or ``3,4,5``, descriptors to read
    # and write, and of a file for what is printed. To load argparse would take long.
    path, *channels = sys.argv[1:]
    serving.die_with_parent()
    sys.path.pop(0)  # this file's folder: the framework must not import our modules by accident
    adaptor = load_adaptor(path)
    sys.modules["opduel_main"] = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")  # which a case's own processes import (multiprocessing)
    serving.freeze_garbage()
    gc.disable()
    control, *slots = (serving.Channel(*map(int, text.split(","))) for text in channels)
    serving.serve(adaptor, control, slots, make_session)
    os._exit(0)  # frameworks may hang or crash in their exit handlers; all is said


if __name__ == "__main__":
    main()
