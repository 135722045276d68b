"""JSON objects whose keys are typed attributes.

All of an object stays as it was read: unknown keys are kept, and so is a value of another type than it should have,
whose attribute is as if it were missing.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, get_type_hints

from opduel.records.typed import UNKNOWN, fitting


class JsonObject(Mapping[str, Any]):
    """A JSON object. Subclasses annotate its keys: with the type, and the value where the key is missing."""

    def __init__(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        object.__setattr__(self, "_values", {**(values or {}), **more})
        for name, kind in _kinds(type(self)).items():
            value = fitting(self[name], kind) if name in self else UNKNOWN
            if value is not UNKNOWN:
                object.__setattr__(self, name, value)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the record of ``values``; the same object if they are one already."""
        return values if type(values) is cls else cls(values)

    def __getitem__(self, key: str) -> Any:
        values: Mapping[str, Any] = self.__dict__["_values"]
        return values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_values"])

    def __len__(self) -> int:
        return len(self.__dict__["_values"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__['_values']!r})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: make another one")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """For pydantic it is any JSON object; the record that holds it makes it one of these."""
        return handler(dict[str, Any])

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Name the record in the schema of what holds it."""
        return {**handler(schema), "title": cls.__name__}


@functools.cache
def _kinds(record: type[JsonObject]) -> dict[str, Any]:
    return get_type_hints(record)
