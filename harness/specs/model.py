"""The shape of a spec: pydantic models, one field each for everything that a spec can say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    model_validator,
)

from opduel.frameworks import framework_names, get_framework
from opduel.harness.specs.draw import names_in
from opduel.harness.specs.fields import (
    ARGUMENT_PATTERN,
    CODE_FILES,
    DOTTED_FIX,
    FILE_ARGUMENTS,
    FILES,
    FUNCTION_FIX,
    FUNCTION_FRAMEWORKS,
    PROGRAM_FRAMEWORKS,
    Context,
    Direction,
    Dtype,
    Identifier,
    InputSets,
    Operator,
    Seconds,
    Seed,
    Slack,
    StrictModel,
    Threshold,
    check_dotted,
    check_operator,
    field_error,
    optional,
    some_of,
)
from opduel.harness.specs.files import File
from opduel.harness.specs.programs import PROGRAM_DEFAULTS, ProgramTest
from opduel.harness.specs.two_sided import PAIRED_FRAMEWORKS, SideOperator, check_sides, joined
from opduel.harness.specs.values import (
    MAX_ELEMENTS,
    Call,
    FunctionOf,
    Positional,
    SameAs,
    SizeName,
    StoredFile,
    Tensor,
    Value,
)
from opduel.records import METRICS, MODES, UsageError
from opduel.support.text import show

MAX_COUNT = 1000
_ARGUMENT = re.compile(ARGUMENT_PATTERN.removesuffix("$") + r"\Z")


def _known_framework(name: str) -> str:
    try:
        get_framework(name)
    except UsageError:
        raise ValueError(f"is {show(name)}: use one of {', '.join(framework_names())}") from None
    return name


def _unique(directions: list[str]) -> list[str]:
    if len(set(directions)) < len(directions):
        raise ValueError("names a direction twice: name each once")
    return directions


Framework = Annotated[
    str, AfterValidator(_known_framework), WithJsonSchema({"type": "string", "enum": framework_names()})
]
MetricNames = Annotated[list[str], *some_of(METRICS, "metric")]
Modes = Annotated[list[str], *some_of(MODES, "mode")]
Directions = Annotated[
    list[Direction], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(_unique)
]


class Tolerance(StrictModel):
    """How far the treatment's numbers may lie from the control's: atol + rtol times the control's, for the metric
    error."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    rtol: Slack | None = optional("Default: depends on the dtype.")
    atol: Slack | None = optional("Default: depends on the dtype and size.")

    @model_validator(mode="after")
    def _says_something(self) -> "Tolerance":
        if self.rtol is None and self.atol is None:
            raise field_error("rtol", "and atol are both missing: give one of them, or leave the tolerance out")
        return self


class Settings(StrictModel):
    """How to run: may be said for the whole spec (defaults), for a test, and for one input (case); the nearest wins."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["run_backward", "directions"]}})

    dtype: Dtype | None = optional("For tensors without a dtype of their own. Default: float32.")
    context: Context | None = optional("Where to run. Default: cpu.")
    metric: MetricNames | None = optional(f"What to measure, one or a list: {', '.join(METRICS)}. Default: time.")
    run_backward: bool | None = optional("true: two cases, forward and backward. Default: false, forward only.")
    directions: Directions | None = optional("The long form: a case for each of forward, backward, both.")
    mode: Modes | None = optional("How a block runs, one or a list: imperative, hybridized. Default: imperative.")
    threshold: Threshold | None = optional('The smallest change that matters, as a share (0.02) or "2%".')
    timeout: Seconds | None = optional("Seconds for one request. Default: 60.")
    tolerance: Tolerance | None = optional("For the metric error. Default: depends on the dtype.")
    seed: Seed | None = optional("Seed of the random sizes. Default: the run's seed.")
    input_sets: InputSets | None = optional(
        "How many sets of random inputs timed calls take in turn: no processor learns their branches. Default: 1."
    )

    @model_validator(mode="after")
    def _directions_said_once(self) -> "Settings":
        if self.run_backward is not None and self.directions is not None:
            raise field_error("directions", "and run_backward say the same thing: keep one")
        return self


class CaseSettings(Settings):
    """Settings, and perhaps a name, for one input alone."""

    identifier: Identifier | None = optional("In place of the test's.")


class Inputs(StrictModel):
    """An operator's arguments by their own names, and the reserved keys ``case`` and ``args``."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"propertyNames": {"type": "string", "pattern": ARGUMENT_PATTERN}}
    )
    __pydantic_extra__: dict[str, Value] = Field(init=False)

    case: CaseSettings | None = optional("Settings for this input only.")
    args: Annotated[list[Positional], Field(min_length=1)] | None = optional(
        "Positional arguments, such as the tensors that nd.concat joins."
    )

    @model_validator(mode="before")
    @classmethod
    def _names_are_names(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for name in data:
                if not _ARGUMENT.match(name):
                    raise field_error(name, "is not an argument's name: use letters, digits and _")
        return data

    @model_validator(mode="after")
    def _same_as_a_tensor(self) -> "Inputs":
        arguments = self.__pydantic_extra__ or {}
        for name, value in arguments.items():
            if isinstance(value, SameAs) and not isinstance(arguments.get(value.same_as), list | Tensor):
                raise field_error(name, f"is the same as {value.same_as}, which is not a tensor here: name one that is")
        return self


InputsOrList = Annotated[
    Annotated[Inputs, Tag("<object>")] | Annotated[list[Inputs], Field(min_length=1), Tag("<list>")],
    Discriminator(lambda value: "<list>" if isinstance(value, list) else "<object>"),
]


def _range(bounds: list[int]) -> list[int]:
    if len(bounds) != 2 or not 1 <= bounds[0] <= bounds[1] <= MAX_ELEMENTS:
        raise ValueError(f"is {show(bounds)}: use the smallest and the largest size, such as [1, 4096]")
    return bounds


SizeRange = Annotated[list[int], AfterValidator(_range)]


class Test(Settings):
    """One operator on one or several inputs."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["operator"]}, {"required": ["control"]}]})
    __test__ = False  # pytest: not one of yours
    _category: str | None = PrivateAttr(default=None)

    operator: Operator = Field(
        default="", description="As in the framework: nd.Convolution, nd.linalg.gemm2, np.add, npx.relu."
    )
    control: SideOperator | None = optional(
        "Of a spec for two frameworks: what the control calls, in operator's place."
    )
    treatment: SideOperator | None = optional("What the treatment calls.")
    identifier: Identifier | None = optional(
        "Names the cases. {ID} is the input's index in its list; also {OPERATOR}, {DTYPE}, {CONTEXT}, "
        "{DIRECTION}, {SHAPE}. Default: the operator's last part in lower case, then _{ID}."
    )
    inputs: InputsOrList = Field(description="The arguments; a list of several is a short-hand for several cases.")
    files: dict[str, File] | None = optional(
        "For a saved network: symbol, and optionally params. For a block of your own: module."
    )

    @model_validator(mode="before")
    @classmethod
    def _of_one_operator_or_two(cls, data: Any) -> Any:
        return joined(data)

    @property
    def category(self) -> str | None:
        """The name of the spec's file that the test is from, as ``--category`` has it; None where that isn't known."""
        return self._category

    def of_file(self, path: Path) -> "Test":
        """The test as one of the spec in the file at ``path``, which its files' relative locations are counted from."""
        files = self.files and {name: file.below(path.parent) for name, file in self.files.items()}
        copy = self.model_copy(update={"files": files} if files else None)
        copy._category = path.stem
        return copy

    def each_input(self) -> list[tuple[str, Inputs]]:
        """Where each of the inputs is in the test, ``inputs[0]`` or ``inputs``, and the inputs."""
        if isinstance(self.inputs, list):
            return [(f"inputs[{index}]", inputs) for index, inputs in enumerate(self.inputs)]
        return [("inputs", self.inputs)]

    @model_validator(mode="after")
    def _files_fit(self) -> "Test":
        takes = FILES.get(self.operator.partition(".")[0], ())
        for name, file in (self.files or {}).items():
            if name not in takes:
                fix = f"use {', '.join(takes)}" if takes else f"{self.operator} needs none, leave it out"
                raise field_error(f"files.{name}", f"is not a file of {self.operator}: {fix}")
            if name in CODE_FILES and not file.is_path:
                raise field_error(f"files.{name}.location", "is a URL, and the file is code: use a path")
        if takes and takes[0] not in (self.files or ()):
            raise field_error(f"files.{takes[0]}", f"is missing: {self.operator} is made from that file")
        return self

    @model_validator(mode="after")
    def _files_are_temporary(self) -> "Test":
        """A spec names no path: what an operator reads is made for it, and what it writes goes with its process."""
        takes = FILE_ARGUMENTS.get(self.operator)
        for where, inputs in self.each_input():
            values = inputs.__pydantic_extra__ or {}
            for name in [name for name, value in values.items() if isinstance(value, StoredFile) and name != takes]:
                raise field_error(f"{where}.{name}", f"is a file, which {self.operator} doesn't take: leave it out")
            if takes and not isinstance(values.get(takes), StoredFile):
                raise field_error(f"{where}.{takes}", f'of {self.operator} must be {{"file": ...}}: a temporary file')
        return self

    random: Annotated[dict[SizeName, SizeRange], Field(min_length=1)] | None = optional(
        "Sizes that are drawn, log-uniformly: name -> smallest, largest. The name may stand for a size in "
        'any shape, for low and high, and as {"size": name} for an attribute.'
    )
    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = optional(
        "How many different cases are drawn of each input. Default: 1."
    )

    @model_validator(mode="after")
    def _names_are_drawn(self) -> "Test":
        if self.count is not None and not self.random:
            raise field_error("count", "says how many are drawn: add random, or leave it out")
        for where, inputs in self.each_input():
            for path, name in names_in(inputs.model_dump(exclude={"case"}, exclude_unset=True)):
                if name not in (self.random or {}):
                    raise field_error(
                        f"{where}.{path}", f"is {show(name)}: use an integer, or a size that the test draws (random)"
                    )
        return self


def _named_in(value: Any, path: str) -> Iterator[tuple[str, Call | FunctionOf]]:
    """The calls and functions in a test's inputs, or a part of them, and where they stand."""
    if isinstance(value, Call | FunctionOf):
        yield path, value
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _named_in(item, f"{path}[{index}]")
    elif isinstance(value, Inputs):
        for name, item in {"args": value.args, **(value.__pydantic_extra__ or {})}.items():
            yield from _named_in(item, f"{path}.{name}")
    elif isinstance(value, Call):
        yield from _named_in(value.args, f"{path}.args")
        for name, item in (value.kwargs or {}).items():
            yield from _named_in(item, f"{path}.kwargs.{name}")


# What a spec's test is: an operator, or a program's command line.
AnyTest = Annotated[
    Annotated[Test, Tag("<operator>")] | Annotated[ProgramTest, Tag("<program>")],
    Discriminator(lambda value: "<program>" if ProgramTest.is_one(value) else "<operator>"),
]


class Spec(StrictModel):
    """What to measure. How often is the harness's business, and no field here.

    One with ``specs`` is a bundle; ``load_spec`` puts their tests in place.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["tests"]}, {"required": ["specs"]}],
        }
    )

    schema_: str | None = Field(default=None, alias="$schema", description="For editors; not read.")
    framework: Framework
    description: str | None = optional("For people; not read.")
    defaults: Settings = Field(default_factory=Settings, description="Settings for all tests.")
    tests: Annotated[list[AnyTest], Field(min_length=1)] = Field(default_factory=list)
    specs: Annotated[list[str], Field(min_length=1)] | None = optional(
        "Instead of tests: the files of other specs, relative to this file's folder."
    )

    @model_validator(mode="before")
    @classmethod
    def _operators_of_the_framework(cls, data: Any) -> Any:
        tests = data.get("tests") if isinstance(data, dict) and data.get("framework") in framework_names() else None
        for number, test in enumerate(tests if isinstance(tests, list) else ()):
            if not isinstance(test, dict):
                continue
            programs = data["framework"] in PROGRAM_FRAMEWORKS
            if programs and "command" not in test:
                raise field_error(f"tests[{number}].command", f"is missing: {data['framework']} runs programs")
            if not programs and "command" in test:
                raise field_error(
                    f"tests[{number}].command", f"is for the framework {' or '.join(PROGRAM_FRAMEWORKS)} alone"
                )
            check_sides(test, number, data["framework"])
            named = not programs and data["framework"] not in PAIRED_FRAMEWORKS
            if named and isinstance(test.get("operator"), str):
                try:
                    (check_dotted if data["framework"] in FUNCTION_FRAMEWORKS else check_operator)(test["operator"])
                except ValueError as error:
                    raise field_error(f"tests[{number}].operator", str(error)) from None
        return data

    @model_validator(mode="after")
    def _calls_are_possible(self) -> "Spec":
        any_package = self.framework in FUNCTION_FRAMEWORKS
        for number, test in ((number, test) for number, test in enumerate(self.tests) if isinstance(test, Test)):
            for where, inputs in test.each_input():
                for path, value in _named_in(inputs, where):
                    field = f"tests[{number}].{path}"
                    if isinstance(value, FunctionOf):
                        if any_package != ("." in value.function):
                            fix = DOTTED_FIX if any_package else FUNCTION_FIX
                            raise field_error(f"{field}.function", f"is {show(value.function)}: {fix}")
                    elif not any_package:
                        needed = " or ".join(FUNCTION_FRAMEWORKS)
                        raise field_error(
                            field, f"is a call, which needs the framework {needed}: write the value itself"
                        )
        return self

    @model_validator(mode="after")
    def _programs_have_these_defaults(self) -> "Spec":
        for name in Settings.model_fields if self.framework in PROGRAM_FRAMEWORKS else ():
            if name not in PROGRAM_DEFAULTS and getattr(self.defaults, name) is not None:
                raise field_error(f"defaults.{name}", f"a program has none: use {', '.join(PROGRAM_DEFAULTS)} alone")
        return self

    @model_validator(mode="after")
    def _tests_or_specs(self) -> "Spec":
        if self.tests and self.specs:
            raise field_error("specs", "and tests are both given: keep one, and put the tests in a file of their own")
        if not self.tests and not self.specs:
            raise field_error("tests", "is missing: add it")
        return self
