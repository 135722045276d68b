"""Switch OpenMP on again in forked processes, where MXNet's own fork handler switches it off.

With https://github.com/apache/mxnet/blob/1.9.1/src/initialize.cc, LibraryInitializer::atfork_child, operators that
MXNet parallelises itself compute in one thread in a fork.  The switch is a field of mxnet::engine::OpenMP
(src/engine/openmp.cc) that no function of the C API sets.  The class's constructor, which most builds export, allocates
nothing: called on the object once more, it reads the environment and sets all fields as at the import.  1.5.1's wheel
doesn't export it, but there the switch has no effect if OMP_NUM_THREADS is set.
"""

import ctypes
import os

import mxnet as mx

GET = "_ZN5mxnet6engine6OpenMP3GetEv"
CONSTRUCTOR = "_ZN5mxnet6engine6OpenMPC1Ev"
TASKS = "/proc/self/task"
ELEMENTS, CALLS = 2000000, 20
SHARE = 0.1  # a thread with this share of the busiest one's processor time computes; others only wake up


def function(name, result, *arguments):
    """Return a function of libmxnet.so by its mangled name, or None if the build doesn't export it."""
    library_function = getattr(mx.base._LIB, name, None)
    if library_function is not None:
        library_function.restype, library_function.argtypes = result, arguments
    return library_function


def keep_in_forks():
    """With several threads, switch OpenMP on again in every process that will be forked from this one."""
    get, construct = function(GET, ctypes.c_void_p), function(CONSTRUCTOR, None, ctypes.c_void_p)
    several = int(os.environ.get("OMP_NUM_THREADS", "1")) > 1
    if several and get and construct and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: construct(get()))


def compute_threads():
    """Call an operator that MXNet parallelises itself, and return how many threads compute in it.

    The calling thread doesn't count: the engine has threads of its own.
    """
    data = mx.nd.ones((ELEMENTS,))
    data.wait_to_read()
    before = processor_ns()
    for _ in range(CALLS):
        mx.nd.exp(data).wait_to_read()
    ns_by_thread = [time_ns - before.get(task, 0) for task, time_ns in processor_ns().items()]
    return sum(thread_ns > SHARE * max(ns_by_thread) for thread_ns in ns_by_thread)


def processor_ns():
    """Return the processor time of each thread but the first, in ns (proc(5), schedstat)."""
    ns_by_task = {}
    for task in os.listdir(TASKS):
        if int(task) != os.getpid():
            with open(os.path.join(TASKS, task, "schedstat")) as stream:
                ns_by_task[task] = int(stream.read().split()[0])
    return ns_by_task
