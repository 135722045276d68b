"""A single-build run as one strict JSON document: --output-format json writes it, --baseline reads it."""

from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from opduel.records import UsageError
from opduel.records.single import SINGLE_SCHEMA_VERSION, SingleReport
from opduel.reporters.document import json_text
from opduel.reporters.opperf_form import opperf_results
from opduel.support.files import LONGEST_REPORT, UnreadableError, parse_json, read_text
from opduel.support.validation import check_version, explain

KIND = "opduel single-build run"
_ADAPTER: TypeAdapter[SingleReport] = TypeAdapter(SingleReport)
_FIX = "give a file that --output_file wrote"


def single_text(report: SingleReport) -> str:
    """Return the document, ending in a newline. docs/how-to/single.md has its keys."""
    first = {"kind": KIND, "schema_version": report.schema_version, "results": opperf_results(report)}
    return json_text(first | asdict(report))


def read_single(path: Path) -> SingleReport:
    """Read the report that ``path`` holds. Unknown keys are ignored. Raises UsageError: it can't be read, is no such
    document, or has another schema version."""
    try:
        document = parse_json(read_text(path, LONGEST_REPORT))
    except UnreadableError as error:
        raise UsageError(f"{path}: cannot be read ({error}): {_FIX}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"{path}: kind: is not {KIND!r}: {_FIX}")
    check_version(str(path), document, SINGLE_SCHEMA_VERSION, _FIX)
    try:
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error)}: {_FIX}") from None
