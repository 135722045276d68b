"""What a case computes: what its function returns, and the arrays that it changed, written to files."""

import hashlib
import os

from .inputs import numpy, seed_generators

KINDS = "biuf"  # of NumPy's dtypes, those that can be compared


def results(case, seed, inputs, function, args, kwargs, folder, limit):
    """Call the function once, every global generator seeded, and write what came of it to ``folder``.

    A list of {"name", "dtype", "shape", "storage", "file", "count"}: a file holds the first ``count`` elements in C
    order, all of them if they are at most ``limit`` bytes. Raises TypeError for what is no number.
    """
    if numpy is None:
        raise TypeError("results can be compared only in a build that has NumPy")
    before = {name: one.tobytes() for name, one in inputs.arrays.items()}
    seed_generators(seed)
    found = flat("output", function(*args, **kwargs))
    for name, one in inputs.arrays.items():
        if one.tobytes() != before[name]:
            found.append((name + " after the call", one))
    return [write(number, name, array, folder, limit) for number, (name, array) in enumerate(found)]


def digest_of(inputs):
    """The SHA-256 of all arrays: names, dtypes, shapes and values."""
    found = hashlib.sha256()
    for name in sorted(inputs.arrays):
        array = numpy.ascontiguousarray(inputs.arrays[name])
        found.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        found.update(array.tobytes())
    return found.hexdigest() if inputs.arrays else ""


def flat(name, value):
    """``(name, array)`` of every number in what a function returned: also in lists, tables and sparse arrays.

    Raises TypeError for what is no number.
    """
    if value is None:
        return []
    if isinstance(value, dict):
        return [one for key in sorted(value, key=str) for one in flat(f"{name}[{key!r}]", value[key])]
    if isinstance(value, (list, tuple)) and not is_numbers(value):
        return [one for i, item in enumerate(value) for one in flat(f"{name}[{i}]", item)]
    if hasattr(value, "toarray"):  # scipy.sparse
        value = value.toarray()
    elif hasattr(value, "items") and hasattr(value, "columns"):  # a table, column by column
        return [one for key, column in value.items() for one in flat(f"{name}[{key!r}]", column)]
    array = numpy.asarray(value)
    if array.dtype.kind == "c":
        return [(name + ".real", array.real), (name + ".imag", array.imag)]
    if array.dtype.kind in "mM":
        array = array.view("int64")
    if array.dtype.kind not in KINDS:
        raise TypeError(f"{name}: a {type(value).__name__} is not a number")
    return [(name, array)]


def is_numbers(value):
    """Whether a list holds numbers alone, so that it is one array."""
    return bool(value) and all(isinstance(one, (bool, int, float)) for one in value)


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
