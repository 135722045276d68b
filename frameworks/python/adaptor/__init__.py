"""Functions of any package as the worker runs them: one call of a case, its inputs from a seed.

Runs inside the build: standard library, and NumPy if the build has it; Python 3.6 syntax.  The worker loads this folder
as a package of its own (harness/worker/main.py, load_adaptor) and calls the functions of this file.  NumPy is imported
once, before the worker forks, and so are the packages that the run's cases name (imports.py).
"""

import contextlib
import functools
import gc
import inspect
import platform
import tracemalloc
from collections import deque

from opduel_common.inputs import Inputs, numpy
from opduel_common.names import called
from opduel_common.results import digest_of

from . import profiler
from .imports import import_before_forking
from .results import results as results_of

import_before_forking()
_CONTEXT_MANAGER = contextlib.contextmanager(len).__code__

profile = profiler.profile
write_profile = profiler.write_profile


def versions():
    """What the controller receives once the framework is imported."""
    found = {"framework": platform.python_version()}
    return dict(found, numpy=numpy.__version__) if numpy is not None else found


def made_ready(case, seed):
    """The case's function, its ``Inputs``, and what they come to as ``args`` and ``kwargs``.

    Raises MissingOperator; ValueError for what no Python function has: gradients, a GPU; and for asynchronous ones.
    """
    if case["direction"] != "forward":
        raise ValueError("a Python function has no {} direction: use forward".format(case["direction"]))
    if case["context"] != "cpu":
        raise ValueError("Python functions run on cpu, not on {}: leave the context out".format(case["context"]))
    called(case["operator"], [], {})  # a name that isn't there is reported before the inputs are made
    inputs = Inputs(case, seed)
    args, kwargs = inputs.arguments()
    inputs.check_dtype()
    function, args = called(case["operator"], args, kwargs)
    outer = outer_of(function)
    if inspect.iscoroutinefunction(outer) or inspect.isasyncgenfunction(outer):
        raise ValueError("{} is asynchronous, and a call of it executes nothing: name a function that runs it".format(
            case["operator"]))  # fmt: skip
    return function, inputs, args, kwargs


def outer_of(function):
    """What is called by a name: a function without the arguments that it has been given; of an instance, its method."""
    if isinstance(function, functools.partial):
        return outer_of(function.func)
    is_itself = inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__wrapped__")
    return function if is_itself else function.__call__


def make_call(case, seed):
    """A function of no arguments that calls the case's function once. Raises as ``made_ready``.

    A generator function is run to its end: the call itself would execute nothing of it.
    """
    function, _, args, kwargs = made_ready(case, seed)

    def call():
        function(*args, **kwargs)

    def consuming_call():
        deque(function(*args, **kwargs), maxlen=0)

    # What @contextmanager makes of a generator function returns no generator.
    plain = inspect.unwrap(outer_of(function), stop=lambda one: getattr(one, "__code__", None) is _CONTEXT_MANAGER)
    if inspect.isgeneratorfunction(plain):
        call = consuming_call

    call.operator = case["operator"]
    return call


def results(case, seed, folder, limit):
    """What the case computes, written to files: as results.py says. Raises as ``make_call``."""
    function, inputs, args, kwargs = made_ready(case, seed)
    return results_of(case, seed, inputs, function, args, kwargs, folder, limit)


def digest(case, seed):
    """The SHA-256 of the arrays among the inputs, in hexadecimal digits; empty without any."""
    return digest_of(made_ready(case, seed)[1].arrays)


def memory(case, seed, calls):
    """``{"cpu": bytes}``: the most that tracemalloc saw at once in a call, of Python objects and NumPy's arrays; the
    median over so many calls.

    What a library in C allocates for itself is not seen: ``process_memory`` is for that.
    """
    call = make_call(case, seed)
    call()  # what the first call caches is not needed by each
    gc.collect()
    peaks = []
    for _ in range(calls):
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        call()
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
    return {"cpu": sorted(peaks)[len(peaks) // 2]}
