"""What an operator's argument may be in a spec: a shape, shapes, an explicit tensor, or an attribute."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from opduel.harness.specs import fields
from opduel.harness.specs.fields import StrictModel, check_dtype, field_error, matching, one_of, optional, text
from opduel.support.text import show

MAX_DIMENSIONS = 32
MAX_ELEMENTS = 2**40  # beyond what any machine holds; whether this one does is asked where the tensor is made

Init = Literal[
    "normal",
    "uniform",
    "randint",
    "zeros",
    "ones",
    "arange",
    "sorted",
    "symmetric",
    "hermitian",
    "positive_definite",
    "png",
]
StorageType = Literal["default", "row_sparse", "csr", "numpy"]
GradientType = Literal["default", "row_sparse", "csr"]
_FORMS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
SPARSE = tuple(f"{form}_{kind}" for kind in ("array", "matrix") for form in _FORMS)
DENSE = (None, "default", "numpy")
RANGED = (None, "uniform", "randint", "sorted", "symmetric", "hermitian")  # inits that take low and high


def _not_too_large(shape: list[Any]) -> list[Any]:
    elements = math.prod(size for size in shape if isinstance(size, int))
    if elements > MAX_ELEMENTS:
        raise ValueError(f"has {elements} elements: use at most {MAX_ELEMENTS}")
    return shape


def _size(value: Any) -> Any:
    if _is_size_name(value):
        return value
    fix = 'write an attribute as {"value": [...]}'
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"is {show(value)}: use an integer; {fix}")
    if value < 0:
        raise ValueError(f"is {value}: a size is at least 0; {fix}")
    if value > MAX_ELEMENTS:
        raise ValueError(f"is {value}: use at most {MAX_ELEMENTS}")
    return value


def _bound(value: Any) -> Any:
    if not _is_size_name(value) and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"is {show(value)}: use a number")
    return value


def _is_size_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(fields.SIZE_NAME_PATTERN, value) is not None


_NAME_SCHEMA = {"type": "string", "pattern": fields.SIZE_NAME_PATTERN}
_SIZE_SCHEMA = {"type": "integer", "minimum": 0, "maximum": MAX_ELEMENTS}

SizeName = Annotated[str, *text(fields.SIZE_NAME_PATTERN, "name a size such as n")]
Size = Annotated[int | str, PlainValidator(_size), WithJsonSchema({"anyOf": [_SIZE_SCHEMA, _NAME_SCHEMA]})]
Bound = Annotated[float | str, PlainValidator(_bound), WithJsonSchema({"anyOf": [{"type": "number"}, _NAME_SCHEMA]})]
Shape = Annotated[list[Size], Field(max_length=MAX_DIMENSIONS), AfterValidator(_not_too_large)]


class Tensor(StrictModel):
    """A tensor in its long form, where its shape alone is not enough: integer indices, a range, zeros."""

    shape: Shape
    dtype: fields.Dtype | None = optional("Default: the case's dtype.")
    init: Init | None = optional(
        "What the values are; sorted is along the last axis. Default: normal for floating-point and complex dtypes, or "
        "uniform with low and high; random integers, dates, or texts for others."
    )
    low: Bound | None = optional("The smallest value. Default: 0.")
    high: Bound | None = optional("The upper bound, exclusive. Default: 1.0 for uniform, 10 for integers.")

    stype: StorageType | None = optional("How it is stored; numpy is a NumPy array. Default: default, which is dense.")
    sparse: Annotated[str, *one_of(SPARSE)] | None = optional(
        "Of functions of Python packages: the class of scipy.sparse that the array is."
    )
    density: fields.Share | None = optional(
        "The share of elements, or of rows (row_sparse), that are stored. Default: 0.1."
    )
    grad_stype: GradientType | None = optional("How its gradient is stored. Default: like the tensor itself.")
    grad_req: Literal["write", "add", "null"] | None = optional(
        "null: no gradient is computed. Default: write; null for csr and integers."
    )

    @model_validator(mode="after")
    def _settings_fit(self) -> "Tensor":
        """Check what would be ignored otherwise; shapes that an ``init`` or a storage type can't have fail where the
        tensor is made."""
        init, low, high = self.init, self.low, self.high
        if self.density is not None and self.stype in DENSE and not self.sparse:
            raise field_error("density", "is for sparse ones: leave it out")
        if low is None and high is None:
            return self
        if low is None or high is None:
            raise field_error("low" if low is None else "high", "is missing: give both low and high")
        if init not in RANGED:
            fix = f"leave them out, or use {', '.join(filter(None, RANGED))}"
            raise field_error("low", f"and high are not for {init}: {fix}")
        if init == "randint" and (isinstance(low, float) or isinstance(high, float)):
            raise field_error("low", "and high of randint must be integers")
        # Names are looked at again once they have been drawn.
        if not isinstance(low, str) and not isinstance(high, str) and low >= high:
            raise field_error("high", f"is {high}, not more than low: use a larger one")
        return self


def check_tensor(tensor: Tensor, framework: str, field: str) -> None:
    """Check that its dtype is one of the framework's, and that it is stored as arrays of that framework are;
    PydanticCustomError about ``field`` if not."""
    has_numpy_arrays = framework in fields.ARRAY_FRAMEWORKS
    if tensor.dtype is not None:
        check_dtype(tensor.dtype, framework, f"{field}.dtype")
    if tensor.sparse is not None and not has_numpy_arrays:
        raise field_error(f"{field}.sparse", f"needs the framework {' or '.join(fields.ARRAY_FRAMEWORKS)}: use stype")
    for name in ("stype", "grad_stype", "grad_req") if has_numpy_arrays else ():
        if getattr(tensor, name) is not None:
            raise field_error(f"{field}.{name}", 'is not for arrays of NumPy: leave it out, or use "sparse"')


_check_block_name = matching(
    fields.BLOCK_PATTERN, f"use a block's name such as gluon.nn.Dense, under {', '.join(fields.BLOCK_NAMESPACES)}"
)


def _checked_blocks(value: Any) -> Any:
    """Return an attribute's value; ValueError unless every ``{"block": name, ...}`` in it names what may be a block."""
    if isinstance(value, dict) and "block" in value:
        try:
            _check_block_name(value["block"])
        except ValueError as error:
            raise ValueError(f"has a block that {error}") from None
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _checked_blocks(item)
    return value


class Attribute(StrictModel):
    """An attribute in its long form: for lists that are not shapes, such as [-1, 2] or [0.5, 0.5], and for blocks."""

    nullable: ClassVar[frozenset[str]] = frozenset({"value"})

    value: Annotated[JsonValue, AfterValidator(_checked_blocks)]


class Subscript(StrictModel):
    """What stands between the brackets of ``x[...]``, as Python writes it."""

    index: fields.Index


class Device(StrictModel):
    """A context as an argument, such as that which a tensor is copied to."""

    context: fields.Context


class SameAs(StrictModel):
    """The very tensor that another argument is: for results that go into one of the inputs."""

    same_as: fields.Argument


class SizeOf(StrictModel):
    """An attribute that is a size which the test draws, such as FullyConnected's num_hidden."""

    size: SizeName


Part = Annotated[
    Annotated[Shape, Tag("<shape>")] | Annotated[Tensor, Tag("<tensor>")],
    Discriminator(lambda value: "<shape>" if isinstance(value, list) else "<tensor>"),
]
Parts = Annotated[list[Part], Field(min_length=1)]


class FunctionOf(StrictModel):
    """A function as an argument: one of those that the framework's adaptor has, and what it is called with first."""

    function: fields.FunctionName
    args: Parts | None = None


class Several(StrictModel):
    """Several tensors as one argument that is a tuple; a plain list of them is a list."""

    tuple: Parts


class StoredFile(StrictModel):
    """The path of a temporary file: an empty one, or one that holds these tensors, or an encoded picture's bytes."""

    nullable: ClassVar[frozenset[str]] = frozenset({"file"})

    file: Annotated[
        Annotated[Parts, Tag("<shapes>")]
        | Annotated[Tensor, Tag("<tensor>")]
        | Annotated[None, WithJsonSchema({"type": "null"}), Tag("<scalar>")],
        Discriminator(
            lambda value: "<shapes>" if isinstance(value, list) else "<scalar>" if value is None else "<tensor>"
        ),
    ]


class Call(StrictModel):
    """What a function returns, as an argument: made once, before anything is measured. Where the framework's operators
    are functions of any package."""

    call: fields.DottedName
    args: "list[Value] | None" = optional("Positional arguments.")
    kwargs: "dict[fields.Argument, Value] | None" = optional("Arguments by name; self is what a method is called of.")


# Fields that an object has if it isn't a tensor, one for each kind.
_TELLING = ("value", "index", "context", "same_as", "size", "function", "tuple", "file", "call")


def _kind_of_object(value: Any) -> str:
    names = value if isinstance(value, dict) else type(value).model_fields
    return next((f"<{name}>" for name in _TELLING if name in names), "<tensor>")


def _kind_of_value(value: Any) -> str:
    """Return the branch for plain data, and for what it was made into (pydantic asks again when dumping)."""
    if isinstance(value, list):
        return "<shapes>" if value and all(isinstance(item, list | dict | StrictModel) for item in value) else "<shape>"
    if isinstance(value, dict | StrictModel):
        return _kind_of_object(value)
    return "<scalar>"


_SCALAR = {"type": ["boolean", "number", "string", "null"]}

_Written = (
    Annotated[Tensor, Tag("<tensor>")]
    | Annotated[Attribute, Tag("<value>")]
    | Annotated[Subscript, Tag("<index>")]
    | Annotated[Device, Tag("<context>")]
    | Annotated[SameAs, Tag("<same_as>")]
    | Annotated[SizeOf, Tag("<size>")]
    | Annotated[FunctionOf, Tag("<function>")]
    | Annotated[Several, Tag("<tuple>")]
    | Annotated[StoredFile, Tag("<file>")]
    | Annotated[Call, Tag("<call>")]
)

Positional = Annotated[
    Annotated[Shape, Tag("<shape>")] | _Written,
    Discriminator(lambda value: _kind_of_object(value) if isinstance(value, dict | StrictModel) else "<shape>"),
]

Value = Annotated[
    Annotated[Shape, Tag("<shape>")]
    | Annotated[list[Positional], Field(min_length=1), Tag("<shapes>")]
    | _Written
    | Annotated[bool | int | float | str | None, WithJsonSchema(_SCALAR), Tag("<scalar>")],
    Discriminator(_kind_of_value),
]

Call.model_rebuild()


def objects_in(value: Any, path: str) -> Iterator[tuple[str, Call | FunctionOf | Tensor]]:
    """Yield the calls, functions and tensors in an argument, and where they stand."""
    if isinstance(value, Call | FunctionOf | Tensor):
        yield path, value
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from objects_in(item, f"{path}[{index}]")
    for name in ("args", "tuple", "file") if isinstance(value, StrictModel) else ():
        yield from objects_in(getattr(value, name, None), f"{path}.{name}")
    for name, item in (value.kwargs or {}).items() if isinstance(value, Call) else ():
        yield from objects_in(item, f"{path}.kwargs.{name}")
