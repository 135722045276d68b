"""What a spec's models are made of: their base, and the small types of fields; each error states its fix."""

import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from opduel.frameworks import framework_names, get_framework
from opduel.frameworks.roles import ArrayCases, CommandCases, FunctionCases, PairedCases
from opduel.records.case import CONTEXT_PATTERN, DIRECTIONS, DTYPES, MAX_INPUT_SETS
from opduel.support.text import show

PLACEHOLDERS = ("ID", "OPERATOR", "DTYPE", "CONTEXT", "DIRECTION", "SHAPE", "DRAWN")

# Where operators live. No other module can be reached from a spec: not the framework's own, let alone os.
_FRAMEWORKS = [get_framework(name) for name in framework_names()]
# Frameworks whose operators are functions of any package of the build: their own adaptors look after what a name means.
FUNCTION_FRAMEWORKS = tuple(framework.name for framework in _FRAMEWORKS if isinstance(framework.cases, FunctionCases))
# Of these, frameworks whose arrays are NumPy's.
ARRAY_FRAMEWORKS = tuple(framework.name for framework in _FRAMEWORKS if isinstance(framework.cases, ArrayCases))
# Frameworks whose cases are command lines of a program.
PROGRAM_FRAMEWORKS = tuple(framework.name for framework in _FRAMEWORKS if isinstance(framework.cases, CommandCases))
# Frameworks that are two, one on each side; all others can be on a side.
PAIRED_FRAMEWORKS = tuple(framework.name for framework in _FRAMEWORKS if isinstance(framework.cases, PairedCases))
ONE_SIDED = tuple(framework.name for framework in _FRAMEWORKS if framework.name not in PAIRED_FRAMEWORKS)
NAMESPACES = {root: inner for framework in _FRAMEWORKS for root, inner in framework.cases.namespaces.items()}
ROOTS = tuple(dict.fromkeys(root.partition(".")[0] for root in NAMESPACES))
BLOCK_NAMESPACES = tuple(name for framework in _FRAMEWORKS for name in framework.cases.block_namespaces)
FILES = {root: names for framework in _FRAMEWORKS for root, names in framework.cases.network_files.items()}
CODE_FILES = tuple(name for framework in _FRAMEWORKS for name in framework.cases.code_files)
NOT_OPERATORS = tuple(name for framework in _FRAMEWORKS for name in framework.cases.not_operators)
# Functions that read or write a file, and the argument that says which: a temporary file of ours, never a spec's path.
FILE_ARGUMENTS = {name: takes for framework in _FRAMEWORKS for name, takes in framework.cases.file_arguments.items()}

_NAME = r"_?[A-Za-z][A-Za-z0-9_]*"
# Python's own operators, as methods of arrays; no other special method can be reached from a spec.
_SPECIAL = (
    "__[ir]?(add|sub|mul|truediv|mod|pow|matmul|and|or|xor)__|"
    "__(neg|abs|invert|eq|ne|gt|ge|lt|le|getitem|setitem|len|bool|int|float)__"
)
_ROOTS = "|".join(
    re.escape(root) + (rf"(\.({'|'.join(inner)}))?" if inner else "") for root, inner in NAMESPACES.items()
)
_PLAIN = rf"({_ROOTS})\.(?!({'|'.join(NOT_OPERATORS)})$)({_NAME}|{_SPECIAL})"
OPERATOR_PATTERN = rf"^(?!.{{101}})({'|'.join([_PLAIN, *map(re.escape, FILE_ARGUMENTS)])})$"
# A function of any package, or a method: at least two names, the last of them perhaps a special method's.
DOTTED_PATTERN = rf"^(?!.{{101}}){_NAME}(\.{_NAME})*\.({_NAME}|{_SPECIAL}|__call__)$"
BLOCK_PATTERN = rf"^(?!.{{101}})({'|'.join(map(re.escape, BLOCK_NAMESPACES))})\.{_NAME}$"
_SIZE = r"-?(0|[1-9][0-9]{0,9})"
ARGUMENT_PATTERN = rf"^{_NAME}$"
ANY_FUNCTION_PATTERN = rf"^([a-z][a-z0-9_]{{0,63}}|(?!.{{101}}){_NAME}(\.{_NAME})+)$"
_SUBSCRIPT = rf"({_SIZE}|({_SIZE})?:({_SIZE})?(:({_SIZE})?)?|\.\.\.|None)"
INDEX_PATTERN = rf"^{_SUBSCRIPT}( ?, ?{_SUBSCRIPT})*$"
SIZE_NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,15}$"
PERCENT_PATTERN = r"^[0-9]{1,2}(\.[0-9]+)?%$"
_PLACEHOLDER = rf"\{{({'|'.join(PLACEHOLDERS)})\}}"
IDENTIFIER_PATTERN = rf"^([A-Za-z0-9]|{_PLACEHOLDER})([A-Za-z0-9_.+=,@-]|{_PLACEHOLDER})*$"
IDENTIFIER_LENGTH = 100


def field_error(field: str, message: str) -> PydanticCustomError:
    """Return an error about a field of the model being validated; ``explain`` appends ``field`` to the path."""
    return PydanticCustomError("field", "{message}", {"message": message, "field": field})


class StrictModel(BaseModel):
    """Fields that are not said stay None inside, but a spec may not say null, save where a field is ``nullable``."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    nullable: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _only_known_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise PydanticCustomError("object", "{message}", {"message": f"is {show(data)}: use an object {{...}}"})
        fields = [field.alias or name for name, field in cls.model_fields.items()]
        if cls.model_config.get("extra") == "forbid":
            for key in data:
                if key not in fields:
                    close = get_close_matches(str(key), fields, 1)
                    guess = f"did you mean {close[0]}? " if close else ""
                    raise field_error(key, f"is not a field: {guess}use {', '.join(fields)}")
        return data

    @field_validator("*", mode="before")
    @classmethod
    def _no_null(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.field_name not in cls.nullable:
            raise ValueError("is null: leave the field out, or give a value")
        return value


def optional(description: str) -> Any:
    """Return a field that may be left out."""
    return Field(default=None, description=description)


def matching(pattern: str, fix: str) -> Callable[[Any], Any]:
    """Return a validator: a string that matches ``pattern`` from end to end, or else an error that says ``fix``."""
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"))

    def check(value: Any) -> Any:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise ValueError(f"is {show(value)}: {fix}")
        return value

    return check


def text(pattern: str, fix: str) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return what makes of ``str`` a field that must match ``pattern``; ``fix`` ends the error."""
    return BeforeValidator(matching(pattern, fix)), WithJsonSchema({"type": "string", "pattern": pattern})


def check_name(name: str, framework: str, field: str) -> None:
    """Check that an operator's name is one that the framework may have; PydanticCustomError about ``field`` if not."""
    try:
        (check_dotted if framework in FUNCTION_FRAMEWORKS else check_operator)(name)
    except ValueError as error:
        raise field_error(field, str(error)) from None


def check_dtype(dtype: str, framework: str, field: str) -> None:
    """Check that it is a dtype that the framework's arrays may have; PydanticCustomError about ``field`` if not."""
    if framework in ARRAY_FRAMEWORKS:
        try:
            numpy_name(dtype)
        except ValueError as error:
            raise field_error(field, str(error)) from None
    elif dtype not in DTYPES:
        raise field_error(field, f"is {show(dtype)}: {DTYPE_FIX}")


@lru_cache(maxsize=1024)
def numpy_name(dtype: str) -> str:
    """Return NumPy's name of a dtype: ``float64`` for ``double``; as it is written where that has none. ValueError: it
    is no dtype of NumPy's, or one of bytes without a meaning."""
    import numpy  # takes a while, and only some specs need it

    try:
        parsed = numpy.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        parsed = None
    if parsed is None or (parsed.kind == "V" and parsed.names is None and parsed.subdtype is None):
        fix = "use a dtype of NumPy's, such as float64, complex128, U10 or datetime64[s]"
        raise ValueError(f"is {show(dtype)}: {fix}")
    try:
        return parsed.name if numpy.dtype(parsed.name) == parsed else dtype
    except TypeError:  # str320, which is U10
        return dtype


def some_of(choices: Collection[str], noun: str) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return what makes of ``list[str]`` a field that takes one name, or a list of several, each once."""

    def check(value: Any) -> Any:
        names = value if isinstance(value, list) else [value]
        for name in names:
            if not isinstance(name, str) or name not in choices:
                raise ValueError(f"is {show(name)}: use one of {', '.join(choices)}, or a list of several")
        if not names or len(set(names)) < len(names):
            raise ValueError(f"is {show(value)}: name each {noun} once")
        return names

    item = {"type": "string", "enum": list(choices)}
    several = {"type": "array", "items": item, "minItems": 1, "uniqueItems": True}
    return BeforeValidator(check), WithJsonSchema({"anyOf": [item, several]})


def one_of(names: Collection[str]) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return what makes of ``str`` a field that takes one of these names."""
    check = matching("|".join(map(re.escape, names)), f"use one of {', '.join(names)}")
    return BeforeValidator(check), WithJsonSchema({"type": "string", "enum": list(names)})


def _identifier(value: Any) -> Any:
    if isinstance(value, str):
        for name in re.findall(r"\{([^{}]*)\}", value):
            if name not in PLACEHOLDERS:
                raise ValueError(f"has an unknown placeholder {{{name}}}: use {{{'}, {'.join(PLACEHOLDERS)}}}")
        if len(value) > IDENTIFIER_LENGTH:
            raise ValueError(f"is {len(value)} characters long: use at most {IDENTIFIER_LENGTH}")
    fix = "use letters, digits, any of _ . + = , @ - and placeholders such as {ID}; begin with a letter or digit"
    return matching(IDENTIFIER_PATTERN, fix)(value)


def _threshold(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(PERCENT_PATTERN, value):
        return float(value.removesuffix("%")) / 100
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        fix = 'use a share such as 0.02, or "2%"; at least 0 and less than 1 (100%)'
        raise ValueError(f"is {show(value)}: {fix}")
    return float(value)


Share = Annotated[float, Field(ge=0, le=1)]
Identifier = Annotated[
    str,
    BeforeValidator(_identifier),
    WithJsonSchema({"type": "string", "pattern": IDENTIFIER_PATTERN, "maxLength": IDENTIFIER_LENGTH}),
]
check_operator = matching(OPERATOR_PATTERN, f"use an operator's name such as nd.Convolution, under {', '.join(ROOTS)}")
DOTTED_FIX = "use a function's dotted name, such as package.module.function"
FUNCTION_FIX = "use the name of a function that comes with the framework's adaptor"
check_dotted = matching(DOTTED_PATTERN, DOTTED_FIX)
# Which operators are possible depends on the spec's framework.
Operator = Annotated[str, WithJsonSchema({"type": "string", "pattern": DOTTED_PATTERN})]
DottedName = Annotated[str, *text(DOTTED_PATTERN, DOTTED_FIX)]
DTYPE_FIX = f"use one of {', '.join(DTYPES)}"
Dtype = Annotated[str, *text(r"^.{1,100}$", DTYPE_FIX)]  # which are possible depends on the spec's framework
Context = Annotated[str, *text(CONTEXT_PATTERN, "use cpu, gpu, or one of several such as gpu(1)")]
Index = Annotated[str, *text(INDEX_PATTERN, 'use what is between the brackets, such as "2:5, 0" or "..., ::2"')]
Argument = Annotated[str, *text(ARGUMENT_PATTERN, "use the name of another argument")]
FunctionName = Annotated[str, *text(ANY_FUNCTION_PATTERN, FUNCTION_FIX)]
Direction = Annotated[str, *one_of(DIRECTIONS)]
Threshold = Annotated[
    float,
    BeforeValidator(_threshold),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": PERCENT_PATTERN},
            ]
        }
    ),
]
Seconds = Annotated[float, Field(gt=0, le=86400)]
Slack = Annotated[float, Field(ge=0, allow_inf_nan=False, description="0 or more.")]
InputSets = Annotated[int, Field(ge=1, le=MAX_INPUT_SETS)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
