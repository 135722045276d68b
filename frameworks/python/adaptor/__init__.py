"""The adaptor of functions of any Python package.

NumPy and the packages that the run's cases name are imported before the worker forks.
"""

import contextlib
import functools
import importlib
import inspect
import os
import platform
import sys
from collections import deque

from opduel_common.forks import import_if_safe
from opduel_common.inputs import Inputs, numpy
from opduel_common.names import is_standard, resolve_call
from opduel_common.peaks import peak_of_objects
from opduel_common.results import digest_of
from opduel_common.statements import STATEMENT, statement_call

from .profiler import profile, write_profile  # noqa: F401 - the worker calls them
from .results import results as results_of

NAMES = "OPDUEL_IMPORTS"  # set by the framework: dotted names, with commas between
_CONTEXT_MANAGER = contextlib.contextmanager(len).__code__


def import_all(names):
    """Import the modules of dotted names; the last parts of a name may be a class."""
    for name in names:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            try:
                importlib.import_module(".".join(parts[:count]))
            except ImportError:
                break  # a class, or missing in this build: then its case says so


def import_before_forking():
    """Import the modules that the run's cases name if that is safe; otherwise each case's process does."""
    names = [name for name in os.environ.get(NAMES, "").split(",") if name and not is_standard(name.split(".")[0])]
    if any(name not in sys.modules for name in names):
        import_if_safe(import_all, names)


import_before_forking()


def versions():
    """Return the versions that the controller gets once the framework is imported."""
    versions_by_package = {"framework": platform.python_version()}
    return dict(versions_by_package, numpy=numpy.__version__) if numpy is not None else versions_by_package


def prepare_case(case, seed):
    """Return the case's function, its ``Inputs``, and its ``args`` and ``kwargs``. Raise MissingOperator; ValueError
    for a gradient, a GPU, or an asynchronous function."""
    if case["direction"] not in ("", "forward"):
        raise ValueError("a Python function has no {} direction: leave it out".format(case["direction"]))
    if case["context"] not in ("", "cpu"):
        raise ValueError("Python functions run on cpu, not on {}: leave the context out".format(case["context"]))
    resolve_call(case["operator"], [], {})  # report a missing function before the inputs are made
    inputs = Inputs(case, seed)
    args, kwargs = inputs.arguments()
    inputs.check_dtype()
    function, args = resolve_call(case["operator"], args, kwargs)
    outer = outer_of(function)
    if inspect.iscoroutinefunction(outer) or inspect.isasyncgenfunction(outer):
        name = case["operator"]
        raise ValueError(f"{name} is asynchronous, and a call of it executes nothing: name a function that runs it")
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
    if case["operator"] == STATEMENT:
        return statement_call(case["inputs"])
    function, _, args, kwargs = prepare_case(case, seed)

    def plain_call():
        function(*args, **kwargs)

    def consuming_call():
        deque(function(*args, **kwargs), maxlen=0)

    def is_context_manager(wrapped):  # a generator function under @contextmanager returns no generator
        return getattr(wrapped, "__code__", None) is _CONTEXT_MANAGER

    innermost = inspect.unwrap(outer_of(function), stop=is_context_manager)
    call = consuming_call if inspect.isgeneratorfunction(innermost) else plain_call
    call.operator = case["operator"]
    return call


def results(case, seed, folder, limit):
    """Write to files what the case computes (results.py). Raise as ``make_call`` does."""
    return results_of(prepare_case(case, seed), seed, folder, limit)


def digest(case, seed):
    """Return the SHA-256 of the arrays among the inputs in hexadecimal digits; "" if there are none."""
    return "" if case["operator"] == STATEMENT else digest_of(prepare_case(case, seed)[1].arrays)


def memory(case, seed, calls):
    """Return ``{"cpu": bytes}``: a call's peak of Python objects and NumPy arrays, the median over so many calls."""
    return peak_of_objects(make_call(case, seed), calls)
