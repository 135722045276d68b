"""Sizes that a test draws: their names in its inputs, and log-uniform integers from a seed in their place."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

TRIES = 100  # for each draw that is to differ from those before it


def names_in(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the path and the name of every size in an input's plain data that is a name: ``("data[0]", "n")``."""
    names: list[tuple[str, str]] = []
    for argument, value in inputs.items():
        _filled(value, argument, lambda path, name: names.append((path, name)))
    return names


def filled(inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return an input's plain data with sizes in place of their names."""
    return {argument: _filled(value, argument, lambda _, name: sizes[name]) for argument, value in inputs.items()}


def draws(ranges: Mapping[str, Sequence[int]], count: int, key: str) -> Iterator[dict[str, int]]:
    """Yield ``count`` different draws of all sizes, or as many as there are; the same for the same ``key``."""
    rng = random.Random(key)  # seeded by all of the text, the same on every machine
    yielded: set[tuple[int, ...]] = set()
    for _ in range(count * TRIES):
        drawn = {}
        for name, (low, high) in ranges.items():  # one below their geometric mean about as often as one above it
            size = int(math.exp(rng.uniform(math.log(low), math.log(high + 1))))
            drawn[name] = max(low, min(high, size))
        if tuple(drawn.values()) not in yielded:
            yielded.add(tuple(drawn.values()))
            yield drawn
        if len(yielded) == count:
            return


def _filled(value: Any, path: str, get: Callable[[str, str], int | None]) -> Any:
    """Return ``value`` with ``get(path, name)`` in place of every name that stands for a size.

    That is any text in a shape, and at ``size``, ``low`` and ``high``. Other texts, such as attributes, stay.
    """
    if isinstance(value, list):
        return [
            get(f"{path}[{index}]", item) if isinstance(item, str) else _filled(item, f"{path}[{index}]", get)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    if "size" in value:
        return get(f"{path}.size", value["size"])
    filled = dict(value)
    for key, part in value.items():
        place = f"{path}.{key}"
        if key == "args" and "call" in value:  # arguments as they are: a text among them is that text
            filled[key] = [_filled(item, f"{place}[{index}]", get) for index, item in enumerate(part)]
        elif key == "kwargs":
            filled[key] = {name: _filled(item, f"{place}.{name}", get) for name, item in part.items()}
        elif key in ("args", "tuple", "file", "shape"):
            filled[key] = _filled(part, place, get)
        elif key in ("low", "high") and isinstance(part, str):
            filled[key] = get(place, part)
    return filled
