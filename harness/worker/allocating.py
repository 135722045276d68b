"""The worker that has memory counted: runs inside a build's interpreter, under valgrind's massif.

Standard library and Python 3.6 syntax only, as main.py, whose protocol it speaks.  massif records where memory is
allocated, from the process's start on, and writes it to a file when it is asked to: what lies between two files is of
the calls in between.

Requests and answers in place of main.py's "prepare" and "block":
    {"op": "prepare", "case": {...}, "seed": int}        -> {"call_ns": of one call, under valgrind}
    {"op": "allocations", "discard": int, "calls": int}  -> {"calls": int, "before": path of massif's file, "after":
                                                            and after these calls}; whoever asked removes the files
Where something comes before each call (``before``, main.py), one call is made, whatever was asked for: the two files
must have nothing but the call between them.
"""

import ctypes
import gc
import importlib.util
import os
import sys
import time

PREFIX = "OPDUEL_ALLOCATIONS"  # environment variable: the beginning of the paths that massif writes to
MONITOR_COMMAND = 0x1202  # valgrind.h: a command as gdb would send it; massif's "xtmemory FILE"
FIRST_CALLS = 3  # lazy set-up, before the first count


def load_counting():
    """Return counting.py, which lies beside this file."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counting.py")
    spec = importlib.util.spec_from_file_location("opduel_counting", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


counting = load_counting()


class AllocatingSession(counting.ValgrindSession):
    """Counts what the calls of the case allocate."""

    files = 0

    def prepare(self, case, seed):
        self.call = None
        gc.collect()
        self.call = self.adaptor.make_call(case, seed)
        self.discard(FIRST_CALLS - 1)
        began = time.perf_counter()
        self.discard(1)
        return {"call_ns": (time.perf_counter() - began) * 1e9}

    def allocations(self, discard, calls):
        before = getattr(self.call, "before", None)
        calls = 1 if before else calls
        self.discard(discard)
        call, turns = self.call, range(calls)
        first, second = self.command(), self.command()
        if before:
            before()
        self.write(first)
        for _ in turns:
            call()
        self.write(second)
        return {"calls": calls, "before": first[0], "after": second[0]}

    def command(self):
        """A path that is free, and the request's argument to have a file written there: made beforehand, so that
        nothing is allocated for it between two files."""
        self.files += 1
        path = "{}.{}.{}".format(os.environ[PREFIX], os.getpid(), self.files)
        text = ctypes.create_string_buffer("xtmemory {}".format(path).encode())
        return path, text, ctypes.addressof(text)

    def write(self, command):
        """Have massif write its file."""
        self.valgrind.request(MONITOR_COMMAND, command[2])


if __name__ == "__main__":
    counting.Valgrind()  # better now than after the import
    counting.load("main").main(AllocatingSession)
    sys.exit(0)
