"""What a case computes: what its function returns, and the arrays that it changed, written to files."""

import contextlib

from opduel_common.inputs import numpy, seed_generators
from opduel_common.results import as_numbers, write_all

DEEPEST = 2  # of objects within objects


def results(case, seed, inputs, function, args, kwargs, folder, limit):
    """Call the function once, every global generator seeded, and write what came of it to ``folder``, as ``write_all``
    says. Raises TypeError for what holds no number and no text.
    """
    if numpy is None:
        raise TypeError("results can be compared only in a build that has NumPy")
    before = {name: one.tobytes() for name, one in inputs.arrays.items()}
    seed_generators(seed)
    found = flat("output", function(*args, **kwargs))
    for name, one in inputs.arrays.items():
        if one.tobytes() != before[name]:
            found.append((name + " after the call", one))
    return write_all(found, folder, limit)


def flat(name, value, depth=0):
    """``(name, array)`` of every number and text in what a function returned: also in lists, tables, sparse arrays, and
    the public attributes of objects.

    Raises TypeError where there is none.
    """
    if value is None:
        return []
    if isinstance(value, (str, bytes)):
        return [(name, numpy.frombuffer(value if isinstance(value, bytes) else value.encode("utf-8"), "uint8"))]
    if isinstance(value, dict):
        return [one for key in sorted(value, key=str) for one in flat(f"{name}[{key!r}]", value[key], depth)]
    if isinstance(value, slice):
        value = [value.start, value.stop, value.step]
    elif isinstance(value, (set, frozenset)):
        value = sorted(value)
    elif hasattr(value, "__next__"):
        value = list(value)
    if isinstance(value, (list, tuple)) and not is_numbers(value):
        return [one for i, item in enumerate(value) for one in flat(f"{name}[{i}]", item, depth)]
    if isinstance(value, (type, numpy.dtype)) or (isinstance(value, int) and abs(value) >= 1 << 63):
        return flat(name, str(value))
    if hasattr(value, "toarray"):  # scipy.sparse
        value = value.toarray()
    elif hasattr(value, "items") and hasattr(value, "columns"):  # a table, column by column
        return [one for key, column in value.items() for one in flat(f"{name}[{key!r}]", column, depth)]
    return of_array(name, value, depth)


def of_array(name, value, depth):
    """The same of one array, or of what can be made one."""
    array = numpy.asarray(value)
    kind = array.dtype.kind
    if kind in "US":
        letters = numpy.ascontiguousarray(array).reshape(-1).view("uint32" if kind == "U" else "uint8")
        return [(name, letters.reshape((*array.shape, -1)))] if array.size else []
    if kind == "V" and array.dtype.names:
        return [one for field in array.dtype.names for one in flat(f"{name}[{field!r}]", array[field], depth)]
    if kind == "O" and isinstance(value, numpy.ndarray):
        return [one for i, item in enumerate(array.reshape(-1)) for one in flat(f"{name}[{i}]", item, depth)]
    found = of_object(name, value, depth) if kind == "O" else as_numbers(name, array)
    if not found:
        raise TypeError(f"{name}: a {type(value).__name__} holds no numbers and no text")
    return found


def of_object(name, value, depth):
    """What the public attributes of an object hold: of those that can't be read or compared, nothing."""
    found = []
    for attribute in dir(value) if depth < DEEPEST else ():
        if attribute.startswith("_"):
            continue
        with contextlib.suppress(Exception):
            held = getattr(value, attribute)
            if not callable(held) or isinstance(held, type):
                found += flat(f"{name}.{attribute}", held, depth + 1)
    return found


def is_numbers(value):
    """Whether a list holds numbers alone, so that it is one array."""
    return bool(value) and all(isinstance(one, (bool, int, float)) for one in value)
