"""From a file to plain data: JSON or YAML, strictly, with nothing in it that the other could not say."""

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from opduel.records import UsageError
from opduel.support.files import TooLargeError, UnreadableError, read_text

MAX_BYTES = 2 * 1024 * 1024
MAX_VALUES = 500_000  # after YAML's aliases have been followed
MAX_DEPTH = 32
MAX_INT = 2**63 - 1
# Control characters other than white space, and halves of surrogate pairs.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class SpecObject(dict[str, Any]):
    """An object as read; ``repeated`` is the last key that was given more than once."""

    repeated: str | None = None

    def filled(self, pairs: Iterable[tuple[str, Any]]) -> "SpecObject":
        """Put pairs into the object, and return it."""
        for key, value in pairs:
            if key in self:
                self.repeated = key
            self[key] = value
        return self


def read_plain(path: Path) -> Any:
    """Return the file's content as dicts, lists, strings, finite numbers, booleans and None. Raises UsageError: what is
    wrong, where, and the fix, on one line. The text does not name the file."""
    try:
        text = read_text(path, MAX_BYTES)
    except TooLargeError as error:
        raise UsageError(f"{error}: split it into several specs") from None
    except UnreadableError as error:
        raise UsageError(f"cannot be read: {error}: check the path and its permissions") from None
    if not text.strip():
        raise UsageError('the file is empty: a spec is an object such as {"framework": ..., "tests": [...]}')
    return plain_of(text, yaml=path.suffix in (".yaml", ".yml"))


def plain_of(text: str, *, yaml: bool = False) -> Any:
    """Return the same of a text, which is JSON unless it is said to be YAML. UsageError: as ``read_plain``."""
    try:
        data = _parse_yaml(text) if yaml else _parse_json(text)
    except RecursionError:
        raise UsageError(f"nested more than {MAX_DEPTH} deep: make it flatter") from None
    _check(data, "", 0, itertools.count(1))
    return data


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: SpecObject().filled(pairs))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"not JSON: {where}: {error.msg}: correct the syntax there") from None
    except ValueError:  # Python's own limit on digits
        raise UsageError("not JSON: a number has too many digits: use a smaller one") from None


class _SpecLoader(yaml.SafeLoader):
    """YAML's JSON schema (YAML 1.2, chapter 10): no dates, no octal numbers, no ``yes`` that means true."""


_SpecLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("bool", r"^(?:true|false)$", ["t", "f"]),
    ("int", r"^-?(?:0|[1-9][0-9]*)$", list("-0123456789")),
    ("float", r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$", list("-0123456789")),
):
    _SpecLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def _construct_object(loader: _SpecLoader, node: yaml.MappingNode) -> Iterable[SpecObject]:
    result = SpecObject()
    yield result  # first, so that an object that holds itself ends here and not in a loop
    result.filled(
        (loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
        for key, value in node.value
    )


_SpecLoader.add_constructor("tag:yaml.org,2002:map", _construct_object)


def _parse_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_SpecLoader)  # a SafeLoader with less in it
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UsageError(f"not YAML: {where}{error.problem}: correct the syntax there") from None
    # the last three: a list as a field's name, "!!bool maybe", "!!int ''"
    except (yaml.YAMLError, ValueError, TypeError, KeyError, IndexError) as error:
        raise UsageError(f"not YAML: {' '.join(str(error).split())}: correct the syntax there") from None


def _check(data: Any, path: str, depth: int, values: Iterator[int]) -> None:
    """Walk the data, aliases followed, and refuse what a spec can't mean; ``values`` counts them."""
    if next(values) > MAX_VALUES:
        raise UsageError(f"more than {MAX_VALUES} values: split the spec, or use fewer YAML aliases")
    if depth > MAX_DEPTH:
        raise UsageError(f"{path[:60]}... is nested more than {MAX_DEPTH} deep: make it flatter")
    if isinstance(data, SpecObject):
        prefix = f"{path}." if path else ""
        if data.repeated is not None:
            raise UsageError(f"{prefix}{data.repeated} is given twice: keep one")
        for key, value in data.items():
            if not isinstance(key, str):
                raise UsageError(f"{path or 'the spec'} has a field {key!r}: put its name in quotes")
            if _CONTROL.search(key):
                raise UsageError(f"{path or 'the spec'} has a field {key!r}: remove the control characters")
            _check(value, f"{prefix}{key}", depth + 1, values)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            _check(item, f"{path}[{index}]", depth + 1, values)
    elif isinstance(data, int) and abs(data) > MAX_INT:
        raise UsageError(f"{path or 'the spec'} is beyond 64 bits: use a smaller number")
    elif isinstance(data, float) and not math.isfinite(data):
        raise UsageError(f"{path or 'the spec'} is not a finite number: JSON has no NaN and no infinity")
    elif isinstance(data, str) and _CONTROL.search(data):
        raise UsageError(f"{path or 'the spec'} contains control characters: remove them")
    elif not isinstance(data, str | int | float | None):
        raise UsageError(f"{path or 'the spec'} is a {type(data).__name__}: use plain YAML, without tags")
