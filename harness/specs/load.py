"""Load a spec: read it, validate it, and turn whatever is wrong into one line that names the field and the mend."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.specs.bundle import gather
from harness.specs.expand import expand_cases
from harness.specs.fields import show
from harness.specs.model import Spec, Test
from harness.specs.read import read_plain
from harness.specs.values import TAGS
from records import UsageError

MAX_MESSAGE = 400

# How to put right what pydantic itself finds; our own validators bring their mend along.
MENDS = {
    "missing": "is missing: add it",
    "bool_type": "is {input}: use true or false",
    "string_type": "is {input}: use a string",
    "int_type": 'is {input}: use an integer; write an attribute as {{"value": [...]}}',
    "float_type": "is {input}: use a number",
    "list_type": "is {input}: use a list",
    "literal_error": "is {input}: use one of {expected}",
    "greater_than": "is {input}: use a number greater than {gt}",
    "greater_than_equal": 'is {input}: a size is at least {ge}; write an attribute as {{"value": [...]}}',
    "less_than_equal": "is {input}: use at most {le}",
    "too_short": "is empty: it needs at least {min_length}",
    "too_long": "has {actual_length} items: use at most {max_length}",
}


def load_spec(path: Path) -> Spec:
    """The spec in a JSON or YAML file, valid through and through: ``expand_cases`` of it can't fail.

    That of a bundle has the tests of all its specs.

    Raises:
        UsageError: one line that names the file, the field (``tests[2].inputs[0].data``) and the mend.
    """
    try:
        spec = _read(path)
        if spec.specs:
            spec = gather(spec, [_member(spec, path, index) for index in range(len(spec.specs))])
        expand_cases(spec)
    except UsageError as error:
        raise UsageError(f"{path}: {_one_line(str(error))}") from None
    return spec


def _read(path: Path) -> Spec:
    """The spec in one file, its own files' locations absolute.

    Raises:
        UsageError: without a file's name.
    """
    spec = validate(read_plain(path))
    return spec.model_copy(update={"tests": [anchored(test, path.absolute().parent) for test in spec.tests]})


def anchored(test: Test, folder: Path) -> Test:
    """The test with its files' locations counted from ``folder``, where they are relative."""
    if not test.files:
        return test
    return test.model_copy(update={"files": {name: file.below(folder) for name, file in test.files.items()}})


def is_bundle(path: Path) -> bool:
    """Whether the spec in a file only lists others.

    Raises:
        UsageError: it can't be read.
    """
    try:
        data = read_plain(path)
    except UsageError as error:
        raise UsageError(f"{path}: {_one_line(str(error))}") from None
    return isinstance(data, dict) and "specs" in data


def _member(bundle: Spec, path: Path, index: int) -> Spec:
    """One of a bundle's specs.

    Raises:
        UsageError: it is not there, not valid, or can't be in this bundle.
    """
    assert bundle.specs
    field, name = f"specs[{index}]", bundle.specs[index]
    if name in bundle.specs[:index]:
        raise UsageError(f"{field} {show(name)} is listed twice: keep one")
    if not name or Path(name).is_absolute():
        raise UsageError(f"{field} is {show(name)}: use a path relative to this file's folder")
    try:
        member = _read(path.parent / name)
        if member.specs:
            raise UsageError("is a bundle itself: list its specs instead")
        if member.framework != bundle.framework:
            raise UsageError(f"is for {member.framework}, the bundle for {bundle.framework}: take it out")
        expand_cases(member)
    except UsageError as error:
        raise UsageError(f"{field}: {name}: {error}") from None
    return member


def validate(data: Any) -> Spec:
    """A spec from plain data.

    Raises:
        UsageError: without a file's name.
    """
    try:
        return Spec.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UsageError(_explain(problems[0]) + more) from None


def _explain(problem: Any) -> str:
    """One of pydantic's errors in a line."""
    context = problem.get("ctx", {})
    location = [*problem["loc"], context["field"]] if "field" in context else problem["loc"]
    mend = MENDS.get(problem["type"])
    if mend:
        message = mend.format(input=show(problem["input"]), **context)
    elif problem["type"] in ("field", "object"):
        message = context["message"]
    else:
        message = problem["msg"].removeprefix("Value error, ")
    return _one_line(f"{_field(location)} {message}")


def _one_line(text: str) -> str:
    """Names from the file may hold line ends, and may be as long as they like."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 3] + "..."


def _field(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in TAGS:
            path += f".{part}" if path else part
    return path or "the spec"
