"""Read a framework's data files: YAML, checked against a model, with errors that name file, field and fix."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from opduel.records import UsageError
from opduel.support.files import UnreadableError, read_text
from opduel.support.validation import explain

# libyaml's takes a seventh of the time, and needs the C stack for what is nested.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 100


class Strict(BaseModel):
    """A part of a data file, without unknown fields and conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


_Model = TypeVar("_Model", bound=Strict)


def read_data(path: Path, model: type[_Model], purpose: str) -> _Model:
    """Return the file's content; ``purpose`` says what the file is for, to whoever must restore it. Raise UsageError if
    it is missing, isn't YAML or does not fit the model."""
    try:
        return model.model_validate(_read(path, purpose))
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error, 'the whole file')}") from None


def _read(path: Path, purpose: str) -> Any:
    try:
        return _parse(read_text(path))
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}: {purpose}; restore it") from None
    except RecursionError:
        raise UsageError(f"{path}: is nested too deeply: correct it") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "not readable"
        raise UsageError(f"{path}: {where}not YAML ({problem}): correct it") from None
    except ValueError as error:  # a number of too many digits, a date that is none
        raise UsageError(f"{path}: not YAML ({error}): correct it") from None


def _parse(text: str) -> Any:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise RecursionError
    return yaml.load(text, Loader=_LOADER)
