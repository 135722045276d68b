"""Errors of validation as one line, for all that pydantic checks."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError, field_validator

from opduel.support.text import LONGEST_LINE, LONGEST_VALUE, show
from opduel.support.validation import explain


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: int = Field(gt=0)
    kind: Literal["a", "b"] = "a"
    name: str = Field("x", pattern="^x")

    @field_validator("name")
    @classmethod
    def _short(cls, value: str) -> str:
        if len(value) > 2:
            raise ValueError("is long: shorten it")
        return value


Parts = Annotated[
    Annotated[list[Part], Field(min_length=1), Tag("<list>")] | Annotated[Part, Tag("<part>")],
    Discriminator(lambda value: "<list>" if isinstance(value, list) else "<part>"),
]


class Document(BaseModel):
    parts: Parts


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ([{}], "parts[0].size is missing: add it"),
        ([{"size": 1}, {"size": "1"}], "parts[1].size is '1': use an integer"),
        ({"size": 0}, "parts.size is 0: use a number greater than 0"),
        ({"size": 1, "sise": 2}, "parts.sise is unknown: remove it or correct its spelling"),
        ({"size": 1, "kind": "c"}, "parts.kind is 'c': use one of 'a' or 'b'"),
        ({"size": 1, "name": 3.9}, "parts.name is 3.9: use a string, in quotes"),
        ({"size": 1, "name": "y"}, "parts.name is 'y': correct its form"),
        ({"size": 1, "name": "xxx"}, "parts.name is long: shorten it"),
        ([], "parts is empty: it needs at least 1"),
        (3, "parts is 3: use an object {...}"),
        ({"size": 0, "kind": "c"}, "parts.size is 0: use a number greater than 0 (and 1 more)"),
        ({"size": 1, "a\nb\x1b[31m": 1}, "parts.a b\\x1b[31m is unknown: remove it or correct its spelling"),
    ],
)
def test_a_line_names_the_field_and_the_fix(parts: Any, line: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate({"parts": parts})
    assert explain(caught.value) == line


def test_what_is_wrong_as_a_whole_has_the_name_that_it_is_given() -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate_json("{")
    assert explain(caught.value, "the file").startswith("the file: invalid JSON: ")
    with pytest.raises(ValidationError) as caught:
        Document.model_validate(3)
    assert explain(caught.value, "the file") == "the file is 3: use an object {...}"


def test_a_line_is_short_whatever_the_value() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for value in ("x" * 10_000_000, ["x"] * 1_000_000, nested, {"x" * 10_000: 1}):
        assert len(show(value)) <= LONGEST_VALUE
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(int).validate_python(value)
        assert len(explain(caught.value)) <= LONGEST_LINE
