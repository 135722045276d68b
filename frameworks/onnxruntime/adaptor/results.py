"""What a case computes, written to files; the digest of what it is given."""

import hashlib
import os

import numpy

KINDS = "biuf"  # of NumPy's dtypes, those that can be compared


def write_results(outputs, values, folder, limit):
    """Write a session's ``values`` to ``folder``; ``outputs`` have their names.

    A list of {"name", "dtype", "shape", "storage", "file", "count"}: a file holds the first ``count`` elements in C
    order, all of them if they are at most ``limit`` bytes. Raises TypeError for what is no number.
    """
    found = [one for output, value in zip(outputs, values) for one in flat(output.name, value)]
    return [write(number, name, array, folder, limit) for number, (name, array) in enumerate(found)]


def flat(name, value):
    """``(name, array)`` of each number in an output: also in sequences and maps."""
    if value is None:  # an optional that holds nothing
        return []
    if isinstance(value, dict):
        return [one for key in sorted(value, key=str) for one in flat("{}[{!r}]".format(name, key), value[key])]
    if isinstance(value, list):
        return [one for i, item in enumerate(value) for one in flat("{}[{}]".format(name, i), item)]
    array = numpy.asarray(value)
    if array.dtype.kind not in KINDS:
        raise TypeError("{}: a tensor of {} is no number".format(name, array.dtype.name))
    return [(name, array)]


def write(number, name, array, folder, limit):
    shape = list(array.shape)
    array = numpy.ascontiguousarray(array)
    count = min(array.size, max(1, limit // array.dtype.itemsize))
    path = os.path.join(folder, "{}.bin".format(number))
    array.reshape(-1)[:count].tofile(path)
    described = {"name": name, "dtype": array.dtype.str, "shape": shape, "storage": "default"}
    return dict(described, file=os.path.basename(path), count=count)


def digest_of(prepared):
    """The SHA-256 of the graph, and of all arrays: names, dtypes, shapes and values."""
    found = hashlib.sha256()
    if isinstance(prepared.model, bytes):
        found.update(prepared.model)
    for name in sorted(prepared.arrays.made):
        array = numpy.ascontiguousarray(prepared.arrays.made[name])
        content = "|".join(array.reshape(-1)).encode("utf-8") if array.dtype.kind == "O" else array.tobytes()
        found.update("{}|{}|{}|".format(name, array.dtype.str, array.shape).encode("utf-8"))
        found.update(content)
    return found.hexdigest()
