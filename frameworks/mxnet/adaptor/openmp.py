"""OpenMP in forked processes: MXNet's own fork handler switches it off there, and this switches it on again.

https://github.com/apache/mxnet/blob/1.9.1/src/initialize.cc, LibraryInitializer::atfork_child: with it, operators that
MXNet parallelises itself would compute in one thread in a fork, however many were asked for.  The switch is a field of
mxnet::engine::OpenMP (src/engine/openmp.cc) that no function of the C API sets.  The class's constructor, which most
builds export, allocates nothing: called on the object once more, it reads the environment and sets all fields to what
they were after the import.  1.5.1's wheel does not export it, and does not need it: where OMP_NUM_THREADS is set, the
switch has no effect there.
"""

import ctypes
import os

import mxnet as mx

GET = "_ZN5mxnet6engine6OpenMP3GetEv"
CONSTRUCTOR = "_ZN5mxnet6engine6OpenMPC1Ev"
TASKS = "/proc/self/task"
ELEMENTS, CALLS = 2000000, 20
SHARE = 0.1  # of the busiest thread's processor time, for one that computes; others wake up and wait


def function(name, result, *arguments):
    """A function of libmxnet.so by its mangled name; None where the build doesn't export it, as 1.5.1's wheel."""
    found = getattr(mx.base._LIB, name, None)
    if found is not None:
        found.restype, found.argtypes = result, arguments
    return found


def keep_in_forks():
    """Switch OpenMP on again in every process that will be forked from this one. With one thread there is no need."""
    get, construct = function(GET, ctypes.c_void_p), function(CONSTRUCTOR, None, ctypes.c_void_p)
    several = int(os.environ.get("OMP_NUM_THREADS", "1")) > 1
    if several and get and construct and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: construct(get()))


def compute_threads():
    """How many threads compute in an operator that MXNet parallelises itself: found out by calling one.

    The thread that calls it is none of them: the engine has threads of its own.
    """
    data = mx.nd.ones((ELEMENTS,))
    data.wait_to_read()
    before = processor_ns()
    for _ in range(CALLS):
        mx.nd.exp(data).wait_to_read()
    spent = [time_ns - before.get(task, 0) for task, time_ns in processor_ns().items()]
    return sum(one > SHARE * max(spent) for one in spent)


def processor_ns():
    """What each thread but the first has had of the processors, in nanoseconds (proc(5), schedstat)."""
    found = {}
    for task in os.listdir(TASKS):
        if int(task) != os.getpid():
            with open(os.path.join(TASKS, task, "schedstat")) as stream:
                found[task] = int(stream.read().split()[0])
    return found
