"""What an operator's argument may be in a spec: a shape, shapes, an explicit tensor, or an attribute."""

import math
import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from harness.specs.fields import SIZE_NAME_PATTERN, Dtype, matching, show
from harness.specs.strict import StrictModel, field_error

MAX_DIMENSIONS = 32
MAX_ELEMENTS = 2**40  # beyond what any machine holds; whether this one does is asked where the tensor is made

# Tags name a union's branches; load.py takes them out of a field's path before a user sees it.
TAGS = frozenset({"<shape>", "<shapes>", "<tensor>", "<attribute>", "<size>", "<scalar>", "<object>", "<list>"})

Init = Literal["normal", "uniform", "randint", "zeros", "ones", "arange", "positive_definite"]
INTEGERS = ("int8", "int32", "int64", "uint8")


def _not_too_large(shape: list[Any]) -> list[Any]:
    elements = math.prod(size for size in shape if isinstance(size, int))
    if elements > MAX_ELEMENTS:
        raise ValueError(f"has {elements} elements: use at most {MAX_ELEMENTS}")
    return shape


def _size(value: Any) -> Any:
    """A size, or the name of one that the test draws."""
    if isinstance(value, str) and _NAME.match(value):
        return value
    mend = 'write an attribute as {"value": [...]}'
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"is {show(value)}: use an integer; {mend}")
    if value < 0:
        raise ValueError(f"is {value}: a size is at least 0; {mend}")
    if value > MAX_ELEMENTS:
        raise ValueError(f"is {value}: use at most {MAX_ELEMENTS}")
    return value


def _bound(value: Any) -> Any:
    """A number, or the name of a size that the test draws."""
    if isinstance(value, str) and _NAME.match(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"is {show(value)}: use a number")
    return value


_NAME = re.compile(SIZE_NAME_PATTERN.removesuffix("$") + r"\Z")
_NAME_SCHEMA = {"type": "string", "pattern": SIZE_NAME_PATTERN}
_SIZE_SCHEMA = {"type": "integer", "minimum": 0, "maximum": MAX_ELEMENTS}

SizeName = Annotated[
    str, BeforeValidator(matching(SIZE_NAME_PATTERN, "name a size such as n")), WithJsonSchema(_NAME_SCHEMA)
]
Size = Annotated[int | str, PlainValidator(_size), WithJsonSchema({"anyOf": [_SIZE_SCHEMA, _NAME_SCHEMA]})]
Bound = Annotated[float | str, PlainValidator(_bound), WithJsonSchema({"anyOf": [{"type": "number"}, _NAME_SCHEMA]})]
Shape = Annotated[list[Size], Field(max_length=MAX_DIMENSIONS), AfterValidator(_not_too_large)]


class Tensor(StrictModel):
    """A tensor said in full, where its shape alone is not enough: integer indices, a range, zeros."""

    model_config = ConfigDict(
        json_schema_extra={
            "dependentRequired": {"low": ["high"], "high": ["low"]},
            "if": {"required": ["low"]},
            "then": {
                "anyOf": [
                    {"properties": {"init": {"enum": ["uniform", "randint"]}}, "required": ["init"]},
                    {
                        "properties": {"dtype": {"enum": list(INTEGERS)}},
                        "required": ["dtype"],
                        "not": {"required": ["init"]},
                    },
                ]
            },
        }
    )

    shape: Shape
    dtype: Dtype | None = Field(default=None, description="Default: the case's dtype.")
    init: Init | None = Field(
        default=None, description="Default: normal for floating-point dtypes, randint for the others."
    )
    low: Bound | None = Field(
        default=None, description="Of uniform (default 0.0) and randint (default 0): the smallest value."
    )
    high: Bound | None = Field(
        default=None, description="Of uniform (default 1.0) and randint (default 10): no value reaches it."
    )

    @model_validator(mode="after")
    def _shape_fits(self) -> "Tensor":
        if self.init == "positive_definite" and (len(self.shape) < 2 or self.shape[-1] != self.shape[-2]):
            raise field_error("shape", "of positive_definite must end in two equal sizes")
        return self

    @model_validator(mode="after")
    def _range_fits(self) -> "Tensor":
        init = self.init or ("randint" if self.dtype in INTEGERS else None)
        for here, other in (("low", "high"), ("high", "low")):
            if getattr(self, here) is not None and getattr(self, other) is None:
                raise field_error(other, f"is missing beside {here}: give both")
        if self.low is None or self.high is None:
            return self
        if init not in ("uniform", "randint"):
            raise field_error("low", 'needs "init": "uniform" or "randint"')
        if init == "randint" and not (isinstance(self.low, int | str) and isinstance(self.high, int | str)):
            raise field_error("low", "and high of randint must be integers")
        if isinstance(self.low, str) or isinstance(self.high, str):
            return self  # looked at again once it has been drawn
        if self.low >= self.high:
            raise field_error("high", f"is {self.high}, not more than low: use a larger one")
        return self


class Attribute(StrictModel):
    """An attribute said in full: needed for lists that are not shapes, such as [-1, 2] or [0.5, 0.5]."""

    nullable: ClassVar[frozenset[str]] = frozenset({"value"})

    value: JsonValue


class SizeOf(StrictModel):
    """An attribute that is a size which the test draws, such as FullyConnected's num_hidden."""

    size: SizeName


def _kind_of_value(value: Any) -> str:
    """The branch for plain data, and for what it was made into (pydantic asks again when dumping)."""
    if isinstance(value, list):
        return "<shapes>" if value and all(isinstance(item, list | dict | Tensor) for item in value) else "<shape>"
    if isinstance(value, Attribute) or (isinstance(value, dict) and "value" in value):
        return "<attribute>"
    if isinstance(value, SizeOf) or (isinstance(value, dict) and "size" in value):
        return "<size>"
    if isinstance(value, dict | Tensor):
        return "<tensor>"
    return "<scalar>"


_SCALAR = {"type": ["boolean", "number", "string", "null"]}

VariadicTensor = Annotated[
    Annotated[Shape, Tag("<shape>")] | Annotated[Tensor, Tag("<tensor>")],
    Discriminator(lambda value: "<tensor>" if isinstance(value, dict | Tensor) else "<shape>"),
]

Value = Annotated[
    Annotated[Shape, Tag("<shape>")]
    | Annotated[list[VariadicTensor], Field(min_length=1), Tag("<shapes>")]
    | Annotated[Tensor, Tag("<tensor>")]
    | Annotated[Attribute, Tag("<attribute>")]
    | Annotated[SizeOf, Tag("<size>")]
    | Annotated[bool | int | float | str | None, WithJsonSchema(_SCALAR), Tag("<scalar>")],
    Discriminator(_kind_of_value),
]
