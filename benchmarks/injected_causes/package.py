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
    """The sum; not a number counts as nothing."""
    array = _vector(values)
    return _LIBRARY.sn_total(_address(array), ctypes.c_long(array.size), ctypes.c_long(array.strides[0]))


def dot(one, other):
    """The dot product."""
    one, other = _vector(one), _vector(other)
    return _LIBRARY.sn_dot(_address(one), _address(other), ctypes.c_long(one.size))


def _mapped(kernel, values, *more):
    """What a kernel makes of a vector: another one of the same length."""
    array = _vector(values)
    out = np.empty_like(array)
    kernel(_address(array), _address(out), ctypes.c_long(array.size), *more)
    return out


def scale(values):
    """Each times a factor, and one more."""
    return _mapped(_LIBRARY.sn_scale, values, ctypes.c_double(1.5))


def smooth(values):
    """Means of a moving window."""
    return _mapped(_LIBRARY.sn_smooth, values, ctypes.c_long(9))


def reverse(values):
    """In the other order."""
    return _mapped(_LIBRARY.sn_reverse, values)


def sort(values):
    """In increasing order."""
    return _mapped(_LIBRARY.sn_sort, values)


def count_distinct(values):
    """How many values there are; 0 isn't counted."""
    array = _vector(values)
    return _LIBRARY.sn_count_distinct(_address(array), ctypes.c_long(array.size))


def polynomial(values, coefficients):
    """The polynomial at each value."""
    c = _vector(coefficients)
    return _mapped(_LIBRARY.sn_polynomial, values, _address(c), ctypes.c_long(c.size))


def weigh(values):
    """Each times its weight."""
    return _mapped(_LIBRARY.sn_weigh, values)


def cube(values):
    """To the third power."""
    return _mapped(_LIBRARY.sn_cube, values)


def histogram(values):
    """How many fall into each of 64 bins of 0 to 1."""
    array, bins = _vector(values), np.zeros(64, dtype=np.int64)
    _LIBRARY.sn_histogram(_address(array), _address(bins), ctypes.c_long(array.size), ctypes.c_long(bins.size))
    return bins


def normalise(values):
    """From 0 to 1."""
    return _mapped(_LIBRARY.sn_normalise, values)


def block_maxima(values):
    """The largest of each 64 values."""
    return _mapped(_LIBRARY.sn_block_maxima, values, ctypes.c_long(64))


def column_sums(table):
    """The sum of each column."""
    table = np.asarray(table, dtype=np.float64)
    out = np.empty(table.shape[1])
    _LIBRARY.sn_column_sums(_address(table), _address(out), *map(ctypes.c_long, table.shape))
    return out


def convolve(values, kernel):
    """The convolution."""
    weights = _vector(kernel)
    array = _vector(values)
    out = np.zeros_like(array)
    sizes = ctypes.c_long(array.size), ctypes.c_long(weights.size)
    _LIBRARY.sn_convolve(_address(array), _address(weights), _address(out), *sizes)
    return out


def mix(values):
    """A number that depends on how many values there are."""
    return _LIBRARY.sn_mix(ctypes.c_uint64(_vector(values).size))


# --- what is computed in Python --------------------------------------------------------------------------------------


def reshape(array, shape):
    """Another shape; -1 stands for what is left over."""
    known = int(np.prod([one for one in shape if one >= 0]))
    return array.reshape([array.size // known if one < 0 else one for one in shape])


def mean(values):
    """The mean of a list of numbers."""
    return math.fsum(values) / len(values)


@functools.lru_cache(maxsize=64)
def _factors(number):
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return tuple(found)


def plan(sizes):
    """The steps of a transform of each size."""
    return [len(_factors(size)) for size in sizes]


def pad(count, **options):
    """As many values as asked for, as the options say."""
    settings = dict(_DEFAULTS, **options)
    return [settings["mode"]] * count


def parse(text):
    """``a=1, b=2`` as a dict."""
    return dict(_PAIR.findall(text))


class Grid:
    """A grid of cells."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.area = rows * columns

    def places(self, turns):
        """As many places, around the grid."""
        return [turn % self.area for turn in range(turns)]


def describe(values):
    """The range of the values."""
    low, high = min(values), max(values)
    return low, high


def _records(table):
    for row in table:
        yield row * 2


def rows(count):
    """What the records come to."""
    return sum(_records(range(count)))


def increment(turns):
    """Count on."""
    count = 0
    for _ in range(turns):
        count += 1
    return count


def encode(values):
    """As text."""
    return ",".join(map(repr, values))


def _checked(value):
    return value if value >= 0 else -value


def convert(values):
    """What the values are without their signs."""
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
    """Weights and labels: the same work under two names, so that their turns are their shares."""
    return _weights(5 * turns) + _labels(5 * turns)


def bind(count):
    """The names of a function's parameters."""
    return ["values"] * count


def gather(array):
    """The first half."""
    array = np.asarray(array)
    return array[: array.size // 2].sum()
