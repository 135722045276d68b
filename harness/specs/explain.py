"""From pydantic's errors to one line that names the field and the fix."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from opduel.harness.specs.fields import show
from opduel.harness.specs.values import TAGS

MAX_MESSAGE = 400

# How to fix what pydantic itself finds; our own validators state their fix.
FIXES = {
    "missing": "is missing: add it",
    "bool_type": "is {input}: use true or false",
    "string_type": "is {input}: use a string",
    "int_type": "is {input}: use an integer",
    "float_type": "is {input}: use a number",
    "list_type": "is {input}: use a list",
    "dict_type": "is {input}: use an object {{...}}",
    "literal_error": "is {input}: use one of {expected}",
    "greater_than": "is {input}: use a number greater than {gt}",
    "greater_than_equal": "is {input}: use at least {ge}",
    "less_than_equal": "is {input}: use at most {le}",
    "too_short": "is empty: it needs at least {min_length}",
    "too_long": "has {actual_length} items: use at most {max_length}",
}


def explain(error: ValidationError) -> str:
    """The first of the errors in a line, and how many more there are."""
    problems = error.errors(include_url=False)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return _explain(problems[0]) + more


def one_line(text: str) -> str:
    """Names from a file may hold line ends, and may be as long as they like."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 3] + "..."


def _explain(problem: Any) -> str:
    context = problem.get("ctx", {})
    location = [*problem["loc"], context["field"]] if "field" in context else problem["loc"]
    fix = FIXES.get(problem["type"])
    if fix:
        message = fix.format(input=show(problem["input"]), **context)
    elif problem["type"] in ("field", "object"):
        message = context["message"]
    else:
        message = problem["msg"].removeprefix("Value error, ")
    return one_line(f"{_field(location)} {message}")


def _field(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in TAGS:
            path += f".{part}" if path else part
    return path or "the spec"
