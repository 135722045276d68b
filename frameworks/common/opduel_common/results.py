"""Arrays of numbers written to files, and their digest: what an adaptor's ``results`` and ``digest`` return."""

import hashlib
import os

from opduel_common.inputs import numpy

KINDS = "biuf"  # of NumPy's dtypes, those that can be compared


def as_numbers(name, value):
    """``(name, array)`` of an array, or of anything that NumPy makes one of: complex ones as two, dates as integers.

    Raises TypeError for what is no number.
    """
    array = numpy.asarray(value)
    if array.dtype.kind == "c":
        return [(name + ".real", array.real), (name + ".imag", array.imag)]
    if array.dtype.kind in "mM":
        array = array.view("int64")
    if array.dtype.kind not in KINDS:
        raise TypeError(f"{name}: a {type(value).__name__} is not a number")
    return [(name, array)]


def write_all(found, folder, limit, precisions=()):
    """Write arrays, ``(name, array)`` each, to ``folder``.

    A list of {"name", "dtype", "shape", "storage", "file", "count"}: a file holds the first ``count`` elements in C
    order, all of them if they are at most ``limit`` bytes. ``precisions``: name -> the dtype that the values are
    rounded to, where NumPy has none of that name: "precision" then says by whose tolerance they are compared.
    """
    written = [write(number, name, array, folder, limit) for number, (name, array) in enumerate(found)]
    return [dict(one, precision=precisions[one["name"]]) if one["name"] in precisions else one for one in written]


def write(number, name, array, folder, limit):
    shape = list(array.shape)
    array = numpy.ascontiguousarray(array)
    count = min(array.size, max(1, limit // array.dtype.itemsize))
    path = os.path.join(folder, f"{number}.bin")
    array.reshape(-1)[:count].tofile(path)
    return {
        "name": name,
        "dtype": array.dtype.str,
        "shape": shape,
        "storage": "default",
        "file": os.path.basename(path),
        "count": count,
    }


def digest_of(arrays):
    """The SHA-256 of arrays by name: names, dtypes, shapes and values; empty without any."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = numpy.ascontiguousarray(arrays[name])
        found.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        found.update(array.tobytes())
    return found.hexdigest() if arrays else ""
