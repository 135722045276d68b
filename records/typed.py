"""Plain data read by type: a value of another type than declared counts as unknown."""

import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

UNKNOWN: Any = object()  # the result of ``fitting`` for a value of another type


def fitting(value: Any, kind: Any) -> Any:
    """Return ``value`` as a ``kind``, or UNKNOWN.

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
        values = (fitting(value, option) for option in inner)
        return next((fitted for fitted in values if fitted is not UNKNOWN), UNKNOWN)
    if kind is types.NoneType:
        return None if value is None else UNKNOWN
    if origin is tuple:
        entries = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None
        return UNKNOWN if entries is None else tuple(_fitting_entries(entries, inner[0]))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return UNKNOWN
        fitted_entries = {str(name): fitting(entry, inner[1]) for name, entry in value.items()}
        return {name: entry for name, entry in fitted_entries.items() if entry is not UNKNOWN}
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
    except OverflowError:  # an integer too large for a float
        return False


def _fitting_entries(entries: Sequence[Any], kind: Any) -> list[Any]:
    fitted_entries = (fitting(entry, kind) for entry in entries)
    return [entry for entry in fitted_entries if entry is not UNKNOWN]
