"""Validate documents: every error is one line that names the field and the fix."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from opduel.support.errors import UsageError
from opduel.support.text import one_line, show

# How to correct what pydantic itself finds; our own validators' messages name the fix.
_FIXES = {
    "missing": "is missing: add it",
    "extra_forbidden": "is unknown: remove it or correct its spelling",
    "bool_type": "is {input}: use true or false",
    "string_type": "is {input}: use a string, in quotes",
    "string_pattern_mismatch": "is {input}: correct its form",
    "int_type": "is {input}: use an integer",
    "int_parsing": "is {input}: use an integer",
    "float_type": "is {input}: use a number",
    "float_parsing": "is {input}: use a number",
    "list_type": "is {input}: use a list",
    "dict_type": "is {input}: use an object {{...}}",
    "dataclass_type": "is {input}: use an object {{...}}",
    "model_type": "is {input}: use an object {{...}}",
    "literal_error": "is {input}: use one of {expected}",
    "greater_than": "is {input}: use a number greater than {gt}",
    "greater_than_equal": "is {input}: use at least {ge}",
    "less_than_equal": "is {input}: use at most {le}",
    "too_short": "is empty: it needs at least {min_length}",
    "too_long": "has {actual_length} items: use at most {max_length}",
}


def check_version(where: str, document: Mapping[str, Any], current: int, fix: str) -> None:
    """Check that a document's ``schema_version`` is the ``current`` one. Raises UsageError: it is not, or is missing;
    the message begins with ``where`` and ends with ``fix`` where it is no version number."""
    version = document.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        words = "is missing" if version is None else f"is {show(version)}, not a whole number"
        raise UsageError(f"{where}: schema_version: {words}: {fix}")
    if version != current:
        age, advice = ("newer", "use a newer opduel") if version > current else ("older", "measure again")
        raise UsageError(f"{where}: schema_version: is {version}, {age} than the {current} known here: {advice}")


def explain(error: ValidationError, document: str = "the document") -> str:
    """Return the first error on one line, ``tests[0].inputs is missing: add it``, and the number of further ones.

    ``document`` is what has the error where no field has.
    """
    problems = error.errors(include_url=False)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return explain_problem(problems[0], document) + more


def explain_problem(problem: Mapping[str, Any], document: str, skipped: int = 0) -> str:
    """Describe one entry of pydantic's ``errors()``, without the first ``skipped`` parts of its location.

    An error's context may have the key "field", a part of the location, and "message", which is our own.
    """
    context = problem.get("ctx", {})
    location = [*problem["loc"][skipped:], *([context["field"]] if "field" in context else [])]
    reason = problem["msg"]
    if fix := _FIXES.get(problem["type"]):
        message = " " + fix.format(input=show(problem["input"]), **context)
    elif "message" in context:
        message = " " + context["message"]
    elif reason.startswith("Value error, "):
        message = " " + reason.removeprefix("Value error, ")
    else:
        message = f": {reason[:1].lower()}{reason[1:]}"
    return one_line(f"{_path(location) or document}{message}")


def _path(location: Sequence[str | int]) -> str:
    """Write a location as ``tests[0].inputs``. A part in <> is no field: it names the branch of a union."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not (part.startswith("<") and part.endswith(">")):
            path += f".{part}" if path else part
    return path
