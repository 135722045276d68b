"""What a case computes: what its function returns, and the arrays that it changed, written to files."""

import contextlib
import hashlib
import os

from .inputs import numpy, seed_generators

DEEPEST = 2  # of objects within objects
KINDS = "biuf"  # of NumPy's dtypes, those that can be compared


def results(case, seed, inputs, function, args, kwargs, folder, limit):
    """Call the function once, every global generator seeded, and write what came of it to ``folder``.

    A list of {"name", "dtype", "shape", "storage", "file", "count"}: a file holds the first ``count`` elements in C
    order, all of them if they are at most ``limit`` bytes. Raises TypeError for what holds no number and no text.
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
    if kind == "c":
        return [(name + ".real", array.real), (name + ".imag", array.imag)]
    if kind in "mM":
        return [(name, array.view("int64"))]
    if kind in "US":
        letters = numpy.ascontiguousarray(array).reshape(-1)
        return (
            [(name, letters.view("uint32" if kind == "U" else "uint8").reshape((*array.shape, -1)))]
            if array.size
            else []
        )
    if kind == "V" and array.dtype.names:
        return [one for field in array.dtype.names for one in flat(f"{name}[{field!r}]", array[field], depth)]
    if kind == "O" and isinstance(value, numpy.ndarray):
        return [one for i, item in enumerate(array.reshape(-1)) for one in flat(f"{name}[{i}]", item, depth)]
    if kind in KINDS:
        return [(name, array)]
    found = of_object(name, value, depth) if kind == "O" else []
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
