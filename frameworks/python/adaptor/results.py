"""What a case computes: what its function returns, and the arrays that it changed, written to files."""

from opduel_common.inputs import numpy, seed_generators
from opduel_common.results import as_numbers, write_all


def results(case, seed, inputs, function, args, kwargs, folder, limit):
    """Call the function once, every global generator seeded, and write what came of it to ``folder``, as ``write_all``
    says. Raises TypeError for what is no number.
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
    return as_numbers(name, value)


def is_numbers(value):
    """Whether a list holds numbers alone, so that it is one array."""
    return bool(value) and all(isinstance(one, (bool, int, float)) for one in value)
