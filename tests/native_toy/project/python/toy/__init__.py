"""A toy framework: three operators in C, with a front end in Python each."""

import ctypes
import os

__version__ = "1.0"

REVISION = 0
# What the front ends do besides calling C: turns of an empty loop.
TURNS = {
    "add": 500,
    "mul": 500,
    "sum": 500,
}

_library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtoy.so"))


def array(values):
    """The values as the operators take them."""
    return (ctypes.c_double * len(values))(*values)


def _front_end(name):
    function = getattr(_library, "toy_" + name)
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.POINTER(ctypes.c_double), ctypes.c_int]
    turns = TURNS[name]

    def operator(data):
        for _ in range(turns):
            pass
        return function(data, len(data))

    return operator


add = _front_end("add")
mul = _front_end("mul")
sum = _front_end("sum")
last_steps = _library.toy_last_steps
