"""Write what a case computes to files: what its function returns, and the arrays that it changed."""

import contextlib

from opduel_common.inputs import numpy
from opduel_common.results import as_numbers, with_changes, write_all
from opduel_common.scripts import seed_generators

MAX_DEPTH = 2  # of objects within objects


def results(prepared, seed, folder, limit):
    """Seed every global generator, call a case's function once, and write its results to ``folder`` (``write_all``).
    Raise TypeError for a result that holds no number and no text."""
    if numpy is None:
        raise TypeError("results can be compared only in a build that has NumPy")
    function, inputs, args, kwargs = prepared
    seed_generators(seed)

    def compute():
        return flatten("output", function(*args, **kwargs))

    return write_all(with_changes(compute, inputs.arrays, numpy.asarray), folder, limit)


def flatten(name, value, depth=0):
    """Return ``(name, array)`` pairs of all numbers and texts in a value, also in lists, tables, sparse arrays, and
    public attributes of objects. Raise TypeError if there are none."""
    if value is None:
        return []
    if isinstance(value, (str, bytes)):
        return [(name, numpy.frombuffer(value if isinstance(value, bytes) else value.encode("utf-8"), "uint8"))]
    if isinstance(value, dict):
        return [pair for key in sorted(value, key=str) for pair in flatten(f"{name}[{key!r}]", value[key], depth)]
    if isinstance(value, slice):
        value = [value.start, value.stop, value.step]
    elif isinstance(value, (set, frozenset)):
        value = sorted(value)
    elif hasattr(value, "__next__"):
        value = list(value)
    if isinstance(value, (list, tuple)) and not is_numbers(value):
        return [pair for i, item in enumerate(value) for pair in flatten(f"{name}[{i}]", item, depth)]
    if isinstance(value, (type, numpy.dtype)) or (isinstance(value, int) and abs(value) >= 1 << 63):
        return flatten(name, str(value))
    if hasattr(value, "toarray"):  # scipy.sparse
        value = value.toarray()
    elif hasattr(value, "items") and hasattr(value, "columns"):  # a table, column by column
        return [pair for key, column in value.items() for pair in flatten(f"{name}[{key!r}]", column, depth)]
    return flatten_array(name, value, depth)


def flatten_array(name, value, depth):
    """Do the same for one array, or anything that NumPy makes an array of."""
    array = numpy.asarray(value)
    kind = array.dtype.kind
    if kind in "US":
        letters = numpy.ascontiguousarray(array).reshape(-1).view("uint32" if kind == "U" else "uint8")
        return [(name, letters.reshape((*array.shape, -1)))] if array.size else []
    if kind == "V" and array.dtype.names:
        return [pair for field in array.dtype.names for pair in flatten(f"{name}[{field!r}]", array[field], depth)]
    if kind == "O" and isinstance(value, numpy.ndarray):
        return [pair for i, item in enumerate(array.reshape(-1)) for pair in flatten(f"{name}[{i}]", item, depth)]
    pairs = flatten_attributes(name, value, depth) if kind == "O" else as_numbers(name, array)
    if not pairs:
        raise TypeError(f"{name}: a {type(value).__name__} holds no numbers and no text")
    return pairs


def flatten_attributes(name, value, depth):
    """Do the same for the public attributes of an object, without those that can't be read or compared."""
    pairs = []
    for attribute in dir(value) if depth < MAX_DEPTH else ():
        if attribute.startswith("_"):
            continue
        with contextlib.suppress(Exception):
            content = getattr(value, attribute)
            if not callable(content) or isinstance(content, type):
                pairs += flatten(f"{name}.{attribute}", content, depth + 1)
    return pairs


def is_numbers(value):
    """Return whether a list holds numbers alone, so that it is one array."""
    return bool(value) and all(isinstance(item, (bool, int, float)) for item in value)
