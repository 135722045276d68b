"""Write to files what a case computes; the digest of its inputs."""

import numpy

from opduel_common.results import as_numbers, digest_of, write_all


def write_results(outputs, values, folder, limit):
    """Write a session's ``values`` to ``folder`` (``write_all``); ``outputs`` have their names.

    Raise TypeError if one isn't numeric.
    """
    pairs = [pair for output, value in zip(outputs, values) for pair in flatten(output.name, value)]
    return write_all(pairs, folder, limit)


def flatten(name, value):
    """Return ``(name, array)`` pairs of all numbers in an output, also in sequences and maps."""
    if value is None:  # an empty optional
        return []
    if isinstance(value, dict):
        return [pair for key in sorted(value, key=str) for pair in flatten(f"{name}[{key!r}]", value[key])]
    if isinstance(value, list):
        return [pair for i, item in enumerate(value) for pair in flatten(f"{name}[{i}]", item)]
    return as_numbers(name, value)


def digest_of_prepared(prepared):
    """Return the SHA-256 of all arrays, and of the graph if it was made for the case."""
    arrays = {
        name: array.astype("U") if array.dtype.kind == "O" else array for name, array in prepared.arrays.arrays.items()
    }
    if isinstance(prepared.model, bytes):
        arrays["the graph itself"] = numpy.frombuffer(prepared.model, "uint8")
    return digest_of(arrays)
