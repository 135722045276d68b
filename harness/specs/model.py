"""The shape of a spec: pydantic models, one field each for everything that a spec can say."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from opduel.frameworks import framework_names
from opduel.harness.specs import fields, values
from opduel.harness.specs.draw import names_in
from opduel.harness.specs.fields import StrictModel, field_error, one_of, optional, some_of, text
from opduel.harness.specs.files import File
from opduel.harness.specs.programs import PROGRAM_DEFAULTS, ProgramTest, TestOfFile
from opduel.records import METRICS, MODES
from opduel.records.measurement import SIDES, Side
from opduel.support.text import show

MAX_COUNT = 1000
BETWEEN = "_against_"  # the operators of two sides, in the name of a case's operator


MetricNames = Annotated[list[str], *some_of(METRICS, "metric")]
Modes = Annotated[list[str], *some_of(MODES, "mode")]
Directions = Annotated[list[fields.Direction], Field(min_length=1, json_schema_extra={"uniqueItems": True})]


class Tolerance(StrictModel):
    """For the metric error: how far numbers may lie from the control's, which is atol + rtol times the control's."""

    rtol: fields.Slack | None = optional("Default: depends on the dtype.")
    atol: fields.Slack | None = optional("Default: depends on the dtype and size.")

    @model_validator(mode="after")
    def _says_something(self) -> "Tolerance":
        if self.rtol is None and self.atol is None:
            raise field_error("rtol", "and atol are both missing: give one of them, or leave the tolerance out")
        return self


class Settings(StrictModel):
    """How to run: may be said for the whole spec (defaults), for a test, and for one input (case); the nearest wins."""

    dtype: fields.Dtype | None = optional(
        "For tensors without a dtype of their own. Default: float32; for functions of Python packages float64."
    )
    context: fields.Context | None = optional("Where to run. Default: cpu.")
    metric: MetricNames | None = optional(f"What to measure, one or a list: {', '.join(METRICS)}. Default: time.")
    run_backward: bool | None = optional("true: two cases, forward and backward. Default: false, forward only.")
    directions: Directions | None = optional("The long form: a case for each of forward, backward, both.")
    mode: Modes | None = optional("How a block runs, one or a list: imperative, hybridized. Default: imperative.")
    threshold: fields.Threshold | None = optional('The smallest change that matters, as a share (0.02) or "2%".')
    timeout: fields.Seconds | None = optional("Seconds for one request. Default: 60.")
    tolerance: Tolerance | None = optional("For the metric error. Default: depends on the dtype.")
    seed: fields.Seed | None = optional("Seed of the random sizes. Default: the run's seed.")
    input_sets: fields.InputSets | None = optional(
        "How many sets of random inputs timed calls take in turn: no processor learns their branches. Default: 1."
    )

    @model_validator(mode="after")
    def _directions_said_once(self) -> "Settings":
        if len(set(self.directions or ())) < len(self.directions or ()):
            raise field_error("directions", "names a direction twice: name each once")
        if self.run_backward is not None and self.directions is not None:
            raise field_error("directions", "and run_backward say the same thing: keep one")
        return self


class CaseSettings(Settings):
    """Settings, and perhaps a name, for one input alone."""

    identifier: fields.Identifier | None = optional("In place of the test's.")


class Inputs(StrictModel):
    """An operator's arguments by their own names, and the reserved keys ``case`` and ``args``."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, values.Value] = Field(init=False)

    case: CaseSettings | None = optional("Settings for this input only.")
    args: Annotated[list[values.Positional], Field(min_length=1)] | None = optional(
        "Positional arguments, such as the tensors that nd.concat joins."
    )

    @model_validator(mode="before")
    @classmethod
    def _names_are_names(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for name in data:
                if not re.fullmatch(fields.ARGUMENT_PATTERN, name):
                    raise field_error(name, "is not an argument's name: use letters, digits and _")
        return data

    @model_validator(mode="after")
    def _same_as_a_tensor(self) -> "Inputs":
        arguments = self.__pydantic_extra__ or {}
        for name, value in arguments.items():
            if isinstance(value, values.SameAs) and not isinstance(arguments.get(value.same_as), list | values.Tensor):
                raise field_error(name, f"is the same as {value.same_as}, which is not a tensor here: name one that is")
        return self


InputsOrList = Annotated[
    Annotated[Inputs, Tag("<object>")] | Annotated[list[Inputs], Field(min_length=1), Tag("<list>")],
    Discriminator(lambda value: "<list>" if isinstance(value, list) else "<object>"),
]


def _range(bounds: list[int]) -> list[int]:
    if len(bounds) != 2 or not 1 <= bounds[0] <= bounds[1] <= values.MAX_ELEMENTS:
        raise ValueError(f"is {show(bounds)}: use the smallest and the largest size, such as [1, 4096]")
    return bounds


SizeRange = Annotated[list[int], AfterValidator(_range)]


class SideOperator(StrictModel):
    """What one side of a case calls: an operator of a framework."""

    framework: Annotated[str, *one_of(fields.ONE_SIDED)] = Field(
        description="Whose operator it is; the side's build is one of this framework."
    )
    operator: Annotated[str, *text(fields.DOTTED_PATTERN, "use the name of an operator of that framework")] = Field(
        description="As in that framework."
    )
    inputs: dict[fields.Argument, values.Attribute | bool | int | float | str | list[int]] | None = optional(
        "Attributes that this side alone has. Tensors are the test's inputs, the same on both sides."
    )


class Test(Settings, TestOfFile):
    """One operator on one or several inputs."""

    __test__ = False  # pytest: not one of yours

    name: fields.Operator | None = Field(
        default=None,
        alias="operator",
        description="As in the framework: nd.Convolution, nd.linalg.gemm2, np.add, npx.relu.",
    )
    control: SideOperator | None = optional(
        "Of a spec for two frameworks: what the control calls, in operator's place."
    )
    treatment: SideOperator | None = optional("What the treatment calls.")
    identifier: fields.Identifier | None = optional(
        "Names the cases. {ID} is the input's index in its list; also {OPERATOR}, {DTYPE}, {CONTEXT}, "
        "{DIRECTION}, {SHAPE}. Default: the operator's last part in lower case, then _{ID}; "
        "for functions of Python packages the call, sort(1000, float64)."
    )
    inputs: InputsOrList = Field(description="The arguments; a list of several is a short-hand for several cases.")
    files: dict[str, File] | None = optional(
        "For a saved network: symbol, and optionally params. For a block of your own: module."
    )

    @property
    def sides(self) -> dict[Side, SideOperator]:
        """What either side calls, of a test of two operators; else empty."""
        return {side: operator for side in SIDES if (operator := getattr(self, side)) is not None}

    @property
    def operator(self) -> str:
        """What is called; of two operators a name for both."""
        return BETWEEN.join(side.operator for side in self.sides.values()) or self.name or ""

    @model_validator(mode="after")
    def _has_one_operator_or_two(self) -> "Test":
        if not self.sides and self.name is None:
            raise field_error("operator", "is missing: add it")
        if self.sides and self.name not in (None, self.operator):
            raise field_error("operator", "is given beside control or treatment, which have operators: leave it out")
        for side in SIDES if self.sides else ():
            if side not in self.sides:
                raise field_error(side, f"is missing: {next(iter(self.sides))} has an operator of its own, so add it")
        return self

    def check_sides(self, framework: str, where: str) -> None:
        """Check that it has two operators if the framework is for these, or else one; PydanticCustomError if not."""
        two = " or ".join(fields.PAIRED_FRAMEWORKS)
        if framework in fields.PAIRED_FRAMEWORKS and not self.sides:
            raise field_error(where, f"lacks control and treatment: {framework} compares an operator of either side")
        for side, operator in self.sides.items():
            if framework not in fields.PAIRED_FRAMEWORKS:
                raise field_error(f"{where}.{side}", f"is for the framework {two}: use operator")
            fields.check_name(operator.operator, operator.framework, f"{where}.{side}.operator")

    def plain_inputs(self, inputs: Inputs) -> dict[str, Any]:
        """Return a case's inputs as JSON data as it was written; of two operators, beside what either side calls."""
        plain = inputs.model_dump(exclude={"case"}, exclude_unset=True)
        sides: dict[str, Any] = {side: call.model_dump(exclude_unset=True) for side, call in self.sides.items()}
        return {**sides, "inputs": plain} if sides else plain

    def of_file(self, path: Path) -> "Test":
        """Return the test of the spec in the file at ``path``, from which its files' relative locations count."""
        files = self.files and {name: file.below(path.parent) for name, file in self.files.items()}
        return self._with_category(path, {"files": files} if files else {})

    def each_input(self) -> list[tuple[str, Inputs]]:
        """Return where each of the inputs is in the test, ``inputs[0]`` or ``inputs``, and the inputs."""
        if isinstance(self.inputs, list):
            return [(f"inputs[{index}]", inputs) for index, inputs in enumerate(self.inputs)]
        return [("inputs", self.inputs)]

    @model_validator(mode="after")
    def _files_fit(self) -> "Test":
        takes = fields.FILES.get(self.operator.partition(".")[0], ())
        for name, file in (self.files or {}).items():
            if name not in takes:
                fix = f"use {', '.join(takes)}" if takes else f"{self.operator} needs none, leave it out"
                raise field_error(f"files.{name}", f"is not a file of {self.operator}: {fix}")
            if name in fields.CODE_FILES and not file.is_path:
                raise field_error(f"files.{name}.location", "is a URL, and the file is code: use a path")
        if takes and takes[0] not in (self.files or ()):
            raise field_error(f"files.{takes[0]}", f"is missing: {self.operator} is made from that file")
        return self

    @model_validator(mode="after")
    def _files_are_temporary(self) -> "Test":
        """A spec names no path: what an operator reads is made for it, and what it writes goes with its process."""
        takes = fields.FILE_ARGUMENTS.get(self.operator)
        for where, inputs in self.each_input():
            arguments = inputs.__pydantic_extra__ or {}
            files = {name for name, value in arguments.items() if isinstance(value, values.StoredFile)}
            for name in sorted(files - {takes}):
                raise field_error(f"{where}.{name}", f"is a file, which {self.operator} doesn't take: leave it out")
            if takes and takes not in files:
                raise field_error(f"{where}.{takes}", f'of {self.operator} must be {{"file": ...}}: a temporary file')
        return self

    random: Annotated[dict[values.SizeName, SizeRange], Field(min_length=1)] | None = optional(
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


def _is_program(test: Any) -> bool:
    return isinstance(test, ProgramTest) or (isinstance(test, dict) and "command" in test)


# What a spec's test is: an operator, or a program's command line.
AnyTest = Annotated[
    Annotated[Test, Tag("<operator>")] | Annotated[ProgramTest, Tag("<program>")],
    Discriminator(lambda value: "<program>" if _is_program(value) else "<operator>"),
]


class Spec(StrictModel):
    """What to measure. How often is the harness's business, and no field here.

    One with ``specs`` is a bundle; ``load_spec`` puts their tests in place.
    """

    schema_: str | None = Field(default=None, alias="$schema", description="For editors; not read.")
    framework: Annotated[str, *one_of(framework_names())]
    description: str | None = optional("For people; not read.")
    defaults: Settings = Field(default_factory=Settings, description="Settings for all tests.")
    tests: Annotated[list[AnyTest], Field(min_length=1)] = Field(default_factory=list)
    specs: Annotated[list[str], Field(min_length=1)] | None = optional(
        "Instead of tests: the files of other specs, relative to this file's folder."
    )

    @model_validator(mode="after")
    def _operators_are_possible(self) -> "Spec":
        self._check_dtype(self.defaults, "defaults")
        for number, test in enumerate(self.tests):
            if isinstance(test, ProgramTest) != (self.framework in fields.PROGRAM_FRAMEWORKS):
                alone = f"is for the framework {' or '.join(fields.PROGRAM_FRAMEWORKS)} alone"
                missing = f"is missing: {self.framework} runs programs"
                raise field_error(f"tests[{number}].command", alone if isinstance(test, ProgramTest) else missing)
            if isinstance(test, Test):
                if test.name is not None and self.framework not in fields.PAIRED_FRAMEWORKS:
                    fields.check_name(test.name, self.framework, f"tests[{number}].operator")
                test.check_sides(self.framework, f"tests[{number}]")
                self._check_dtype(test, f"tests[{number}]")
                for where, inputs in test.each_input():
                    self._check_inputs(inputs, f"tests[{number}].{where}")
        return self

    def _check_inputs(self, inputs: Inputs, where: str) -> None:
        self._check_dtype(inputs.case, f"{where}.case")
        for name, argument in {"args": inputs.args, **(inputs.__pydantic_extra__ or {})}.items():
            for path, value in values.objects_in(argument, f"{where}.{name}"):
                if isinstance(value, values.Tensor):
                    values.check_tensor(value, self.framework, path)
                else:
                    self._check_named(value, path)

    def _check_dtype(self, of: Settings | None, field: str) -> None:
        if of is not None and of.dtype is not None:
            fields.check_dtype(of.dtype, self.framework, f"{field}.dtype")

    def _check_named(self, value: values.Call | values.FunctionOf, field: str) -> None:
        """Check that calls stand only where operators are functions of any package, and functions have such names."""
        any_package = self.framework in fields.FUNCTION_FRAMEWORKS
        if isinstance(value, values.FunctionOf) and any_package != ("." in value.function):
            fix = fields.DOTTED_FIX if any_package else fields.FUNCTION_FIX
            raise field_error(f"{field}.function", f"is {show(value.function)}: {fix}")
        if isinstance(value, values.Call) and not any_package:
            needed = " or ".join(fields.FUNCTION_FRAMEWORKS)
            raise field_error(field, f"is a call, which needs the framework {needed}: write the value itself")

    @model_validator(mode="after")
    def _parts_fit(self) -> "Spec":
        for name in Settings.model_fields if self.framework in fields.PROGRAM_FRAMEWORKS else ():
            if name not in PROGRAM_DEFAULTS and getattr(self.defaults, name) is not None:
                raise field_error(f"defaults.{name}", f"a program has none: use {', '.join(PROGRAM_DEFAULTS)} alone")
        if self.tests and self.specs:
            raise field_error("specs", "and tests are both given: keep one, and put the tests in a file of their own")
        if not self.tests and not self.specs:
            raise field_error("tests", "is missing: add it")
        return self
