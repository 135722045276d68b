"""Errors of validation, pydantic's, as one line that names the field and the fix."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from opduel.records.text import one_line, show

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


def explain(error: ValidationError, whole: str = "the document") -> str:
    """The first of the errors on one line, ``tests[0].inputs is missing: add it``, and how many more there are.

    ``whole`` is what has the error where no field has.
    """
    problems = error.errors(include_url=False)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return explain_problem(problems[0], whole) + more


def explain_problem(problem: Mapping[str, Any], whole: str, skipped: int = 0) -> str:
    """One entry of pydantic's ``errors()``, without the first ``skipped`` parts of its location.

    An error's context may have the key "field", a part of the location, and "message", which is our own.
    """
    context = problem.get("ctx", {})
    location = [*problem["loc"][skipped:], *([context["field"]] if "field" in context else [])]
    said = problem["msg"]
    if fix := _FIXES.get(problem["type"]):
        message = " " + fix.format(input=show(problem["input"]), **context)
    elif "message" in context:
        message = " " + context["message"]
    elif said.startswith("Value error, "):
        message = " " + said.removeprefix("Value error, ")
    else:
        message = f": {said[:1].lower()}{said[1:]}"
    return one_line(f"{_path(location) or whole}{message}")


def _path(location: Sequence[str | int]) -> str:
    """``tests[0].inputs``. A part in <> is no field: it names the branch of a union."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not (part.startswith("<") and part.endswith(">")):
            path += f".{part}" if path else part
    return path
