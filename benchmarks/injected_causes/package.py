"""The Python half of the package that causes are injected into: causes.py replaces one passage of it in the treatment.

It is copied into a build as the module ``smallnum`` beside the library that kernels.c is compiled to.
"""

import ctypes
import functools
import os

import numpy as np

_LIBRARY = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsmallnum.so"))
_LIBRARY.sn_dot.restype = ctypes.c_double
_DEFAULTS = {"mode": "edge", "widths": [[1, 1], [2, 2]], "names": {"before": "left", "after": "right"}}


def _address(array):
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def _vector(values):
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError("not a vector")
    return array


def _mapped(kernel, values, *more):
    """Return the vector that a kernel computes from another of the same length."""
    array = _vector(values)
    out = np.zeros_like(array)
    kernel(_address(array), _address(out), ctypes.c_long(array.size), *more)
    return out


# --- what is computed in C -------------------------------------------------------------------------------------------


def reverse(values):
    """Return the values in reverse order."""
    return _mapped(_LIBRARY.sn_reverse, values)


def smooth(values):
    """Return means of a moving window."""
    return _mapped(_LIBRARY.sn_smooth, values, ctypes.c_long(9))


def dot(first, second):
    """Return the dot product."""
    first, second = _vector(first), _vector(second)
    return _LIBRARY.sn_dot(_address(first), _address(second), ctypes.c_long(first.size))


def column_sums(table):
    """Sum each column."""
    table = np.asarray(table, dtype=np.float64)
    out = np.empty(table.shape[1])
    _LIBRARY.sn_column_sums(_address(table), _address(out), *map(ctypes.c_long, table.shape))
    return out


def convolve(values, kernel):
    """Return the convolution."""
    weights = _vector(kernel)
    return _mapped(_LIBRARY.sn_convolve, values, _address(weights), ctypes.c_long(weights.size))


def mix(values):
    """Return a number that depends on the number of values."""
    return _LIBRARY.sn_mix(ctypes.c_uint64(_vector(values).size))


# --- what is computed in Python --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _factors(number):
    factors, factor = [], 2
    while number > 1:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor += 1
    return tuple(factors)


def plan(sizes):
    """Return the number of steps of a transform of each size."""
    return [len(_factors(size)) for size in sizes]


def pad(count, **options):
    """Return ``count`` values, as the options say."""
    settings = dict(_DEFAULTS, **options)
    return [settings["mode"]] * count


def _records(table):
    for row in table:
        yield row * 2


def rows(count):
    """Return the sum of the records."""
    return sum(_records(range(count)))


def _spin(turns):
    total = 0
    for turn in range(turns):
        total += turn & 7
    return total


def _weights(turns):
    return _spin(turns)


def _labels(turns):
    return _spin(turns)


def tags(turns):
    """Sum weights and labels: the same work under two names, so that their turns are their shares."""
    return _weights(5 * turns) + _labels(5 * turns)
