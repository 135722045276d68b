"""report.json: a Report written as strict JSON, and read back."""

import json
import math
import numbers
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from opduel.records import SCHEMA_VERSION, Report, UsageError
from opduel.support.atomic import write_atomically
from opduel.support.files import LONGEST_REPORT, UnreadableError, parse_json, read_bytes
from opduel.support.validation import check_version, explain

REPORT_NAME = "report.json"
_MOST_DIGITS = 308  # of a whole number: with more it may be no float
_ADAPTER: TypeAdapter[Report] = TypeAdapter(Report)
_JSON: TypeAdapter[Any] = TypeAdapter(Any)  # writes many lines far faster than json
_FIELDS: dict[type, list[str]] = {}  # the fields of dataclasses


def strict(value: Any) -> Any:
    """Return ``value`` as data that strict JSON can hold: numbers that are not finite become None.

    A dataclass becomes its fields; what JSON has no word for (a path, a date) its text: a report is never lost to one
    odd entry of ``run``.
    """
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates are not UTF-8
    if kind is list or kind is tuple:
        return [strict(entry) for entry in value]
    if is_dataclass(kind):
        if kind not in _FIELDS:
            _FIELDS[kind] = [field.name for field in fields(kind)]
        return {name: strict(getattr(value, name)) for name in _FIELDS[kind]}
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {strict(str(key)): strict(entry) for key, entry in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        return [strict(entry) for entry in value]
    plain = getattr(value, "tolist", None)  # numpy's booleans and arrays
    return strict(plain() if callable(plain) else str(value))


def json_text(value: Any, indent: int | None = 1) -> str:
    """Return ``value`` as strict JSON, ending in a newline: on many lines, or without any blank where ``indent`` is
    None."""
    separators = (",", ":") if indent is None else None
    return json.dumps(strict(value), ensure_ascii=False, allow_nan=False, indent=indent, separators=separators) + "\n"


def to_bytes(report: Report) -> bytes:
    """Return the document in UTF-8, ending in a newline. An interval is two numbers, or else null as a whole."""
    document = strict(report)
    verifications = [comparison["verification"] or {} for comparison in document["comparisons"]]
    for figures in (*document["comparisons"], *verifications, *document["run"]["validity"]["aa_checks"]):
        if None in (figures.get("ci") or ()):
            figures["ci"] = None
    document = {"schema_version": document.pop("schema_version"), **document}
    return _JSON.dump_json(document, indent=1) + b"\n"


def write_report(path: Path, report: Report) -> None:
    """Write the document at ``path``, atomically. Raises OSError: it could not be written; whatever was at ``path`` is
    still there."""
    write_atomically(path, to_bytes(report))


def read_report(path: Path) -> Report:
    """Read the report that ``path`` holds. Unknown keys are ignored. Raises UsageError: it can't be read, is no such
    document, or has another schema version."""
    try:
        content = read_bytes(path, LONGEST_REPORT)
    except UnreadableError as error:
        raise UsageError(f"{path}: cannot be read ({error}): give the path of a {REPORT_NAME}") from None
    return _from_bytes(path, content)


def from_text(text: str) -> Report:
    """Return the report that ``to_bytes`` made, as a text. Raises UsageError: it is no such document, or has another
    schema version."""
    return _from_bytes(Path(REPORT_NAME), text.encode("utf-8"))


def _from_bytes(path: Path, content: bytes) -> Report:
    document = _parse(path, content)
    check_version(str(path), document, SCHEMA_VERSION, f"give the path of a {REPORT_NAME} written by opduel")
    try:
        report = _ADAPTER.validate_json(content, strict=True)
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error)}: correct that field, or report the run again") from None
    return replace(report, comparisons=tuple(report.comparisons), cases=tuple(report.cases))


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        document = parse_json(content.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_whole_number)
    except (UnicodeDecodeError, UnreadableError) as error:
        raise UsageError(f"{path}: not a JSON document ({error}): give the path of a {REPORT_NAME}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: holds a {type(document).__name__}, no object: give the path of a {REPORT_NAME}")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON; null is")


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is too large")
    return int(digits)
