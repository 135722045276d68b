"""Sizes that a test draws: their names in its inputs, and log-uniform integers from a seed in their place."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

TRIES = 100  # for each draw that is to differ from those before it


def names_in(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The path and the name of every size in an input's plain data that is a name: ``("data[0]", "n")``."""
    names: list[tuple[str, str]] = []
    for argument, value in inputs.items():
        _filled(value, argument, lambda path, name: names.append((path, name)))
    return names


def filled(inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """An input's plain data with sizes in place of their names."""
    return {argument: _filled(value, argument, lambda _, name: sizes[name]) for argument, value in inputs.items()}


def draws(ranges: Mapping[str, Sequence[int]], count: int, key: str) -> Iterator[dict[str, int]]:
    """Up to ``count`` different draws of all sizes, the same for the same ``key``.

    There are fewer when so many different ones are not to be found.
    """
    rng = random.Random(key)  # seeded by all of the text, the same on every machine
    yielded: set[tuple[int, ...]] = set()
    for _ in range(count * TRIES):
        drawn = {name: _log_uniform(rng, *bounds) for name, bounds in ranges.items()}
        if tuple(drawn.values()) not in yielded:
            yielded.add(tuple(drawn.values()))
            yield drawn
        if len(yielded) == count:
            return


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    """An integer from ``low`` to ``high``, both included; as many below the ends' geometric mean as above it, about."""
    size = int(math.exp(rng.uniform(math.log(low), math.log(high + 1))))
    return max(low, min(high, size))


def _filled(value: Any, path: str, get: Callable[[str, str], int | None]) -> Any:
    """``value`` with ``get(path, name)`` in place of every name; a text that is an attribute, or a call's, is none."""
    if isinstance(value, list):
        return [
            get(f"{path}[{index}]", item) if isinstance(item, str) else _filled(item, f"{path}[{index}]", get)
            for index, item in enumerate(value)
        ]
    if isinstance(value, dict) and "call" in value:
        args = [_filled(item, f"{path}.args[{index}]", get) for index, item in enumerate(value.get("args") or ())]
        kwargs = {
            name: _filled(item, f"{path}.kwargs.{name}", get) for name, item in (value.get("kwargs") or {}).items()
        }
        return {
            **value,
            **({"args": args} if "args" in value else {}),
            **({"kwargs": kwargs} if "kwargs" in value else {}),
        }
    if isinstance(value, dict) and (inner := next((key for key in ("tuple", "file", "args") if key in value), None)):
        return {**value, inner: _filled(value[inner], f"{path}.{inner}", get)}
    if not isinstance(value, dict) or not {"shape", "size"} & set(value):
        return value
    if "size" in value:
        return get(f"{path}.size", value["size"])
    filled = dict(value)
    filled["shape"] = _filled(value["shape"], f"{path}.shape", get)
    for end in ("low", "high"):
        if isinstance(value.get(end), str):
            filled[end] = get(f"{path}.{end}", value[end])
    return filled
