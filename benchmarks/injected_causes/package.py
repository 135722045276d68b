"""The Python half of the package that causes are injected into: causes.py replaces one passage of it in the treatment.

It is copied into a build as the module ``smallnum`` beside the library that kernels.c is compiled to.
"""

import ctypes
import functools
import math
import os
import re

import numpy as np

_LIBRARY = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsmallnum.so"))
_LIBRARY.sn_total.restype = _LIBRARY.sn_dot.restype = ctypes.c_double
_PAIR = re.compile(r"(\w+)=(\w+)")
_DEFAULTS = {"mode": "edge", "widths": [[1, 1], [2, 2]], "names": {"before": "left", "after": "right"}}


def _address(array):
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def _vector(values):
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError("not a vector")
    return array


# --- what is computed in C -------------------------------------------------------------------------------------------


def total(values):
    """Return the sum without values that are not a number."""
    array = _vector(values)
    return _LIBRARY.sn_total(_address(array), ctypes.c_long(array.size), ctypes.c_long(array.strides[0]))


def dot(first, second):
    """Return the dot product."""
    first, second = _vector(first), _vector(second)
    return _LIBRARY.sn_dot(_address(first), _address(second), ctypes.c_long(first.size))


def _mapped(kernel, values, *more):
    """Return the vector that a kernel computes from another of the same length."""
    array = _vector(values)
    out = np.empty_like(array)
    kernel(_address(array), _address(out), ctypes.c_long(array.size), *more)
    return out


def scale(values):
    """Multiply each value by a factor, and add 1."""
    return _mapped(_LIBRARY.sn_scale, values, ctypes.c_double(1.5))


def smooth(values):
    """Return means of a moving window."""
    return _mapped(_LIBRARY.sn_smooth, values, ctypes.c_long(9))


def reverse(values):
    """Return the values in reverse order."""
    return _mapped(_LIBRARY.sn_reverse, values)


def sort(values):
    """Return the values in increasing order."""
    return _mapped(_LIBRARY.sn_sort, values)


def count_distinct(values):
    """Count the distinct values without 0."""
    array = _vector(values)
    return _LIBRARY.sn_count_distinct(_address(array), ctypes.c_long(array.size))


def polynomial(values, coefficients):
    """Evaluate a polynomial at each value."""
    c = _vector(coefficients)
    return _mapped(_LIBRARY.sn_polynomial, values, _address(c), ctypes.c_long(c.size))


def weigh(values):
    """Multiply each value by its weight."""
    return _mapped(_LIBRARY.sn_weigh, values)


def cube(values):
    """Return third powers."""
    return _mapped(_LIBRARY.sn_cube, values)


def histogram(values):
    """Count the values in each of 64 bins of 0 to 1."""
    array, bins = _vector(values), np.zeros(64, dtype=np.int64)
    _LIBRARY.sn_histogram(_address(array), _address(bins), ctypes.c_long(array.size), ctypes.c_long(bins.size))
    return bins


def normalise(values):
    """Scale the values to 0 to 1."""
    return _mapped(_LIBRARY.sn_normalise, values)


def block_maxima(values):
    """Return the largest of each 64 values."""
    return _mapped(_LIBRARY.sn_block_maxima, values, ctypes.c_long(64))


def column_sums(table):
    """Sum each column."""
    table = np.asarray(table, dtype=np.float64)
    out = np.empty(table.shape[1])
    _LIBRARY.sn_column_sums(_address(table), _address(out), *map(ctypes.c_long, table.shape))
    return out


def convolve(values, kernel):
    """Return the convolution."""
    weights = _vector(kernel)
    array = _vector(values)
    out = np.zeros_like(array)
    sizes = ctypes.c_long(array.size), ctypes.c_long(weights.size)
    _LIBRARY.sn_convolve(_address(array), _address(weights), _address(out), *sizes)
    return out


def mix(values):
    """Return a number that depends on the number of values."""
    return _LIBRARY.sn_mix(ctypes.c_uint64(_vector(values).size))


# --- what is computed in Python --------------------------------------------------------------------------------------


def reshape(array, shape):
    """Return the array in another shape; -1 stands for the remaining size."""
    fixed = int(np.prod([size for size in shape if size >= 0]))
    return array.reshape([array.size // fixed if size < 0 else size for size in shape])


def mean(values):
    """Return the mean of a list of numbers."""
    return math.fsum(values) / len(values)


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


def parse(text):
    """Return ``a=1, b=2`` as a dict."""
    return dict(_PAIR.findall(text))


class Grid:
    """A grid of cells."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.area = rows * columns

    def places(self, turns):
        """Return as many places, around the grid."""
        return [turn % self.area for turn in range(turns)]


def describe(values):
    """Return the range of the values."""
    low, high = min(values), max(values)
    return low, high


def _records(table):
    for row in table:
        yield row * 2


def rows(count):
    """Return the sum of the records."""
    return sum(_records(range(count)))


def increment(turns):
    """Count to ``turns``."""
    count = 0
    for _ in range(turns):
        count += 1
    return count


def encode(values):
    """Return the values as text."""
    return ",".join(map(repr, values))


def _checked(value):
    return value if value >= 0 else -value


def convert(values):
    """Return the values without their signs."""
    return [_checked(value) for value in values]


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


def bind(count):
    """Return names of a function's parameters."""
    return ["values"] * count


def gather(array):
    """Sum the first half."""
    array = np.asarray(array)
    return array[: array.size // 2].sum()
