"""The worker that counts instructions or allocations: runs inside a build's interpreter, under valgrind.

Standard library and Python 3.6 syntax only, as main.py, whose protocol it speaks.  callgrind was given the functions
to count in; it starts with its instrumentation off, so that importing the framework takes seconds and not a minute,
and is switched on here, in the child that a case has to itself.  What was counted since the last time is in the file
that callgrind writes when it is asked to.  Where whole calls are counted, callgrind has no functions to count in: it
is then switched on before the calls and off after them, and what the same lines execute without a call is subtracted.

Requests and answers in place of main.py's "prepare" and "block":
    {"op": "prepare", "case": {...}, "seed": int[, "whole_calls": true]} -> {"count": instructions of one call}
    {"op": "count", "discard": int, "calls": int}         -> {"count": instructions of all these calls}
    {"op": "functions", "discard": int, "calls": int}     -> {"count": the same, "dump": path of callgrind's file of
                                                             these calls, "empty": and of the same lines without one};
                                                             whoever asked removes the files
Under massif, which counts allocations:
    {"op": "prepare", "case": {...}, "seed": int}         -> {"call_ns": of one call, under valgrind}
    {"op": "allocations", "discard": int, "calls": int}   -> {"calls": int, "before": path of massif's file, "after":
                                                             and after these calls}; whoever asked removes the files
Where something comes before each call (``before``, main.py), allocations are those of one call, whatever was asked for:
the two files must have nothing but the call between them.
"""

import contextlib
import ctypes
import gc
import importlib.util
import mmap
import os
import platform
import sys
import time

M_MMAP_THRESHOLD = -3  # malloc.h
LARGEST_IN_LISTS = 1032  # bytes: the largest block that glibc's per-thread lists take, on 64 bits

FIRST_CALLS = 3  # lazy set-up, before the first count
PREFIX = "OPDUEL_COUNTS"  # environment variable: the beginning of the paths that callgrind writes to
ALLOCATIONS_PREFIX = "OPDUEL_ALLOCATIONS"  # the same of massif; only set under it

# valgrind.h: "is this process running on valgrind?"; callgrind.h: 'C' and 'T' in the upper bytes, then a number.
RUNNING_ON_VALGRIND = 0x1001
CALLGRIND = ord("C") << 24 | ord("T") << 16
DUMP_STATS = CALLGRIND + 0
TOGGLE_COLLECT = CALLGRIND + 2
START_INSTRUMENTATION = CALLGRIND + 4
MONITOR_COMMAND = 0x1202  # valgrind.h: a command as gdb would send it; massif's "xtmemory FILE"

# A client request (valgrind.h, __SPECIAL_INSTRUCTION_PREAMBLE, amd64) as a function of its argument block and of the
# value to return without valgrind: mov rax,rdi; mov rdx,rsi; rol rdi,3; rol rdi,13; rol rdi,61; rol rdi,51;
# xchg rbx,rbx; mov rax,rdx; ret.  On a real processor the rotations add up to nothing.
MACHINES = ("x86_64", "AMD64")
REQUEST_CODE = bytes.fromhex("4889f8 4889f2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3".replace(" ", ""))


class Valgrind:
    """Talks to the valgrind that this process runs on.

    Raises RuntimeError when there is none.
    """

    def __init__(self):
        if platform.machine() not in MACHINES:
            raise RuntimeError("instructions are counted only on x86-64, not on " + platform.machine())
        self.code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.code.write(REQUEST_CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.code))
        self.function = ctypes.CFUNCTYPE(ctypes.c_ulonglong, ctypes.c_void_p, ctypes.c_ulonglong)(address)
        if not self.request(RUNNING_ON_VALGRIND):
            raise RuntimeError("not running on valgrind: is the interpreter a script that starts another?")
        self.dumps = 0

    def request(self, number, argument=0):
        """Make a request that takes one argument or none; returns its answer."""
        block = (ctypes.c_ulonglong * 6)(number, argument)
        return self.function(ctypes.addressof(block), 0)

    def start(self):
        """Switch the instrumentation on: from here on calls are counted, and slow."""
        self.request(START_INSTRUMENTATION)

    def toggle(self):
        """Begin or end counting, where there are no functions to count in."""
        self.request(TOGGLE_COLLECT)

    def dump(self):
        """Have callgrind write a file of what was counted since the last time; returns its path."""
        self.request(DUMP_STATS)
        self.dumps += 1
        return "{}.{}.{}".format(os.environ[PREFIX], os.getpid(), self.dumps)

    def count(self):
        """The instructions counted since the last time."""
        path = self.dump()
        total = total_in(path)
        os.unlink(path)
        return total


def total_in(path):
    """The instructions in one of callgrind's files."""
    with open(path, "rb") as dump:
        return total_of(dump)


def total_of(lines):
    """The number in the last line ``totals: N`` of a callgrind file.

    Raises ValueError where there is none.
    """
    totals = [line for line in lines if line.startswith(b"totals:")]
    if not totals:
        raise ValueError("callgrind wrote no totals")
    return int(totals[-1].split()[1])


def load_main():
    """Return main.py, which lies beside this file."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
    spec = importlib.util.spec_from_file_location("opduel_main", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def level_allocator():
    """Have glibc's malloc map each block that is too large for its lists of one size each: the way to a block of other
    bins depends on what was freed before, so that processes of one build would differ."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGEST_IN_LISTS + 1)


class ValgrindSession:
    """The case in preparation, and the valgrind that it runs on."""

    def __init__(self, adaptor, valgrind=None):
        self.adaptor = adaptor
        self.valgrind = valgrind or Valgrind()
        self.call = None

    def discard(self, calls):
        """Make so many calls that are not counted, with what comes before each."""
        before = getattr(self.call, "before", None)
        for _ in range(calls):
            if before:
                before()
            self.call()


class CountingSession(ValgrindSession):
    """Counts the instructions of the case.

    Where a call has a function ``before`` (main.py), it is called before each one, and not counted with whole calls.
    """

    whole_calls = False

    def prepare(self, case, seed, whole_calls=False):
        self.call, self.whole_calls = None, whole_calls
        gc.collect()
        level_allocator()
        self.call = self.adaptor.make_call(case, seed)
        self.discard(FIRST_CALLS)
        self.valgrind.start()
        return {"count": self.count(1, 1)["count"]}

    def count(self, discard, calls):
        self.discard(discard)
        self.valgrind.count()
        self.run(calls)
        counted = self.valgrind.count()
        if self.whole_calls:
            self.run(calls, empty=True)
            counted -= self.valgrind.count()
        return {"count": counted}

    def functions(self, discard, calls):
        """What whole calls execute in each function, as files of callgrind's.

        Calls of functions are counted even while costs are not, and forgotten by a file that costs of theirs are in:
        hence the discarded calls have one, or those before them.
        """
        if discard:
            self.run(discard)
            os.unlink(self.valgrind.dump())
        self.run(calls)
        dump = self.valgrind.dump()
        self.run(calls, empty=True)
        empty = self.valgrind.dump()
        return {"count": total_in(dump) - total_in(empty), "dump": dump, "empty": empty}

    def run(self, calls, empty=False):
        """Make so many calls, and where whole calls are counted, count meanwhile. ``empty``: the same without them."""
        before = getattr(self.call, "before", None)
        at_once = 1 if before else calls
        for _ in range(0, calls, max(1, at_once)):
            if before:
                before()
            if self.whole_calls:
                self.valgrind.toggle()
            for _ in range(0 if empty else at_once):
                self.call()
            if self.whole_calls:
                self.valgrind.toggle()


class AllocatingSession(ValgrindSession):
    """Counts what the calls of the case allocate.

    massif records where memory is allocated, from the process's start on, and writes it to a file when it is asked to:
    what lies between two files is of the calls in between.
    """

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
        path = "{}.{}.{}".format(os.environ[ALLOCATIONS_PREFIX], os.getpid(), self.files)
        text = ctypes.create_string_buffer("xtmemory {}".format(path).encode())
        return path, text, ctypes.addressof(text)

    def write(self, command):
        """Have massif write its file."""
        self.valgrind.request(MONITOR_COMMAND, command[2])


if __name__ == "__main__":
    Valgrind()  # better now than after the import
    load_main().main(AllocatingSession if ALLOCATIONS_PREFIX in os.environ else CountingSession)
    sys.exit(0)
