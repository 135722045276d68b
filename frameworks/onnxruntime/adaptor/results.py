"""What a case computes, written to files; the digest of what it is given."""

import numpy

from opduel_common.results import as_numbers, digest_of, write_all


def write_results(outputs, values, folder, limit):
    """Write a session's ``values`` to ``folder`` as ``write_all`` says; ``outputs`` have their names.

    Raises TypeError for what is no number.
    """
    found = [one for output, value in zip(outputs, values) for one in flat(output.name, value)]
    return write_all(found, folder, limit)


def flat(name, value):
    """``(name, array)`` of each number in an output: also in sequences and maps."""
    if value is None:  # an optional that holds nothing
        return []
    if isinstance(value, dict):
        return [one for key in sorted(value, key=str) for one in flat("{}[{!r}]".format(name, key), value[key])]
    if isinstance(value, list):
        return [one for i, item in enumerate(value) for one in flat("{}[{}]".format(name, i), item)]
    return as_numbers(name, value)


def digest_of_prepared(prepared):
    """The SHA-256 of the graph, if the case has one that was made for it, and of all arrays."""
    arrays = {name: one.astype("U") if one.dtype.kind == "O" else one for name, one in prepared.arrays.arrays.items()}
    if isinstance(prepared.model, bytes):
        arrays["the graph itself"] = numpy.frombuffer(prepared.model, "uint8")
    return digest_of(arrays)
