"""OpenMP in forked processes: MXNet's own fork handler switches it off there, and this switches it on again.

https://github.com/apache/mxnet/blob/1.9.1/src/initialize.cc, LibraryInitializer::atfork_child: with it, operators that
MXNet parallelises itself would compute in one thread in a fork, however many were asked for.  The switch is a field of
mxnet::engine::OpenMP (src/engine/openmp.cc) that no function of the C API sets.  The class's constructor, which most
builds export, allocates nothing: called on the object once more, it reads the environment and sets all fields to what
they were after the import.
"""

import ctypes
import os

import mxnet as mx

GET = "_ZN5mxnet6engine6OpenMP3GetEv"
CONSTRUCTOR = "_ZN5mxnet6engine6OpenMPC1Ev"
THREADS = "_ZNK5mxnet6engine6OpenMP28GetRecommendedOMPThreadCountEb"  # of one operator; true: but for reserved ones


def function(name, result, *arguments):
    """A function of libmxnet.so by its mangled name; None where the build doesn't export it, as 1.5.1's wheel."""
    found = getattr(mx.base._LIB, name, None)
    if found is not None:
        found.restype, found.argtypes = result, arguments
    return found


def compute_threads():
    """How many threads an operator that MXNet parallelises gets in this process; 1 where the build can't be asked."""
    get, threads = function(GET, ctypes.c_void_p), function(THREADS, ctypes.c_int, ctypes.c_void_p, ctypes.c_bool)
    return threads(get(), True) if get and threads else 1


def keep_in_forks():
    """Switch OpenMP on again in every process that will be forked from this one. With one thread there is no need."""
    get, construct = function(GET, ctypes.c_void_p), function(CONSTRUCTOR, None, ctypes.c_void_p)
    several = int(os.environ.get("OMP_NUM_THREADS", "1")) > 1
    if several and get and construct and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: construct(get()))
