"""Write arrays to files and compute their digest, as an adaptor's ``results`` and ``digest`` need it."""

import hashlib
import os

from opduel_common.inputs import numpy

COMPARABLE_KINDS = "biuf"  # kinds of NumPy dtypes


def as_numbers(name, value):
    """Return ``(name, array)`` pairs of what NumPy makes an array of: two of a complex one, integers of dates.

    Raise TypeError if it isn't numeric.
    """
    array = numpy.asarray(value)
    if array.dtype.kind == "c":
        return [(name + ".real", array.real), (name + ".imag", array.imag)]
    if array.dtype.kind in "mM":
        array = array.view("int64")
    if array.dtype.kind not in COMPARABLE_KINDS:
        raise TypeError(f"{name}: a {type(value).__name__} is not a number")
    return [(name, array)]


def write_all(arrays, folder, limit, precisions=()):
    """Write ``(name, array)`` pairs to ``folder``.

    Return a list of {"name", "dtype", "shape", "storage", "file", "count"}: a file holds the first ``count`` elements
    in C order, all of them if they take at most ``limit`` bytes. ``precisions`` maps names to dtypes that NumPy lacks,
    such as bfloat16, to which values were rounded: "precision" then says whose tolerance the comparison uses.
    """
    written = [write(number, name, array, folder, limit) for number, (name, array) in enumerate(arrays)]
    return [
        dict(entry, precision=precisions[entry["name"]]) if entry["name"] in precisions else entry for entry in written
    ]


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
    """Return the SHA-256 over names, dtypes, shapes and values of arrays by name; "" if there are none."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = numpy.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest() if arrays else ""
