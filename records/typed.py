"""Plain data read by type: a value that is not of the type that it should have counts as unknown."""

import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

UNKNOWN: Any = object()  # what ``fitting`` gives for a value of another type


def fitting(value: Any, kind: Any) -> Any:
    """``value`` as a ``kind``, or UNKNOWN.

    ``kind``: str, bool, int, float (any finite number), texts as ``Literal``, Any, ``X | None``, ``tuple[X, ...]`` (of
    a list, without entries of other types), ``Mapping[str, X]`` (likewise), or a class with a method ``of`` that takes
    a mapping.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Literal:
        return value if isinstance(value, str) and value in inner else UNKNOWN
    if origin in (Union, types.UnionType):
        found = (fitting(value, one) for one in inner)
        return next((one for one in found if one is not UNKNOWN), UNKNOWN)
    if kind is types.NoneType:
        return None if value is None else UNKNOWN
    if origin is tuple:
        entries = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None
        return UNKNOWN if entries is None else tuple(_known(entries, inner[0]))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return UNKNOWN
        known = {str(name): fitting(entry, inner[1]) for name, entry in value.items()}
        return {name: entry for name, entry in known.items() if entry is not UNKNOWN}
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else UNKNOWN
    if kind is float:
        return value if isinstance(value, int | float) and _is_finite(value) else UNKNOWN
    if hasattr(kind, "of"):
        return kind.of(value) if isinstance(value, Mapping) else UNKNOWN
    return value if isinstance(value, kind) else UNKNOWN


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that is no float
        return False


def _known(entries: Sequence[Any], kind: Any) -> list[Any]:
    found = (fitting(one, kind) for one in entries)
    return [one for one in found if one is not UNKNOWN]
