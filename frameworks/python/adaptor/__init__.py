"""The adaptor of functions of any Python package.

It runs inside the build: standard library, and NumPy if the build has it; Python 3.6 syntax.  The worker loads this
folder as a package (harness/worker/main.py, load_adaptor) and calls the functions of this file.  NumPy and the packages
that the run's cases name (imports.py) are imported before the worker forks.
"""

import contextlib
import functools
import gc
import inspect
import platform
import tracemalloc
from collections import deque

from opduel_common.inputs import Inputs, numpy
from opduel_common.names import resolve_call
from opduel_common.results import digest_of

from . import profiler
from .imports import import_before_forking
from .results import results as results_of

import_before_forking()
_CONTEXT_MANAGER = contextlib.contextmanager(len).__code__

profile = profiler.profile
write_profile = profiler.write_profile


def versions():
    """Return the versions that the controller gets once the framework is imported."""
    versions_by_package = {"framework": platform.python_version()}
    return dict(versions_by_package, numpy=numpy.__version__) if numpy is not None else versions_by_package


def prepare_case(case, seed):
    """Return the case's function, its ``Inputs``, and its ``args`` and ``kwargs``.

    Raise MissingOperator; ValueError for a gradient, a GPU, or an asynchronous function.
    """
    if case["direction"] != "forward":
        raise ValueError("a Python function has no {} direction: use forward".format(case["direction"]))
    if case["context"] != "cpu":
        raise ValueError("Python functions run on cpu, not on {}: leave the context out".format(case["context"]))
    resolve_call(case["operator"], [], {})  # report a missing function before the inputs are made
    inputs = Inputs(case, seed)
    args, kwargs = inputs.arguments()
    inputs.check_dtype()
    function, args = resolve_call(case["operator"], args, kwargs)
    outer = outer_of(function)
    if inspect.iscoroutinefunction(outer) or inspect.isasyncgenfunction(outer):
        raise ValueError("{} is asynchronous, and a call of it executes nothing: name a function that runs it".format(
            case["operator"]))  # fmt: skip
    return function, inputs, args, kwargs


def outer_of(function):
    """Return the function beneath partial arguments; for a callable object, its ``__call__``."""
    if isinstance(function, functools.partial):
        return outer_of(function.func)
    is_itself = inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__wrapped__")
    return function if is_itself else function.__call__


def make_call(case, seed):
    """Return a function without arguments that calls the case's function once. Raise as ``prepare_case`` does.

    A generator is consumed, since the call itself would execute nothing of it.
    """
    function, _, args, kwargs = prepare_case(case, seed)

    def call():
        function(*args, **kwargs)

    def consuming_call():
        deque(function(*args, **kwargs), maxlen=0)

    # A generator function under @contextmanager returns no generator.
    plain = inspect.unwrap(
        outer_of(function), stop=lambda wrapped: getattr(wrapped, "__code__", None) is _CONTEXT_MANAGER
    )
    if inspect.isgeneratorfunction(plain):
        call = consuming_call

    call.operator = case["operator"]
    return call


def results(case, seed, folder, limit):
    """Write to files what the case computes (results.py). Raise as ``make_call`` does."""
    function, inputs, args, kwargs = prepare_case(case, seed)
    return results_of(case, seed, inputs, function, args, kwargs, folder, limit)


def digest(case, seed):
    """Return the SHA-256 of the arrays among the inputs in hexadecimal digits; "" if there are none."""
    return digest_of(prepare_case(case, seed)[1].arrays)


def memory(case, seed, calls):
    """Return ``{"cpu": bytes}``: the peak of Python objects and NumPy arrays in a call, the median over so many calls.

    tracemalloc doesn't see what a library in C allocates for itself: ``process_memory`` does.
    """
    call = make_call(case, seed)
    call()  # fills caches, which later calls don't
    gc.collect()
    peaks = []
    for _ in range(calls):
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        call()
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
    return {"cpu": sorted(peaks)[len(peaks) // 2]}
