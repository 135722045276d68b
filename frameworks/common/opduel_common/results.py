"""Name what a case computes, write it to files and compute its digest, for an adaptor's ``results`` and ``digest``."""

import hashlib
import os

from opduel_common.inputs import numpy

COMPARABLE_KINDS = "biuf"  # kinds of NumPy dtypes


def flatten(name, result, leaf):
    """Return the ``(name, value)`` pairs that ``leaf(name, part)`` returns for each part of a result.

    Lists, tuples and dicts are nested; None has no parts.
    """
    if result is None:
        return []
    if isinstance(result, dict):
        parts = [(f"{name}[{key!r}]", result[key]) for key in sorted(result, key=str)]
    elif isinstance(result, (list, tuple)):
        parts = [(f"{name}[{number}]", part) for number, part in enumerate(result)]
    else:
        return leaf(name, result)
    return [pair for part_name, part in parts for pair in flatten(part_name, part, leaf)]


def with_changes(compute, tensors, to_numpy):
    """Return the ``(name, value)`` pairs of ``compute()``, then those of the ``tensors`` whose bytes it has changed."""
    before = {name: to_numpy(tensor).tobytes() for name, tensor in tensors.items()}
    values = compute()
    changed = [name for name, tensor in tensors.items() if to_numpy(tensor).tobytes() != before[name]]
    return values + [(name + " after the call", tensors[name]) for name in changed]


def as_numbers(name, value):
    """Return ``(name, array)`` pairs of what NumPy makes an array of: two of a complex one, integers of dates. Raise
    TypeError if it isn't numeric."""
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
    entries = []
    for number, (name, array) in enumerate(arrays):
        entry = {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "storage": "default"}
        entry["file"] = f"{number}.bin"
        entry["count"] = min(array.size, max(1, limit // array.dtype.itemsize))
        numpy.ascontiguousarray(array).reshape(-1)[: entry["count"]].tofile(os.path.join(folder, entry["file"]))
        if name in precisions:
            entry["precision"] = precisions[name]
        entries.append(entry)
    return entries


def digest_of(arrays):
    """Return the SHA-256 over names, dtypes, shapes and values of arrays by name; "" if there are none."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = numpy.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(repr(array.tolist()).encode("utf-8") if array.dtype.hasobject else array.tobytes())
    return digest.hexdigest() if arrays else ""
