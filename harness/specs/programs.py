"""Tests of a spec whose framework runs programs: a command line each, and what is read of it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from opduel.harness.specs.fields import Seconds, StrictModel, Threshold, field_error, one_of, optional, some_of, text
from opduel.records import METRICS, VALUE, Case, UsageError, case_id_for
from opduel.support.text import show

PROGRAM = "{program}"
FORMATS = ("google_benchmark", "json_lines", "observer")
PROGRAM_METRICS = ("time", "cpu_time", "process_memory", VALUE)
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.+=,@-]{0,99}$"
VARIABLE_PATTERN = r"^(?!OPDUEL_)[A-Za-z_][A-Za-z0-9_]*$"
LONGEST_USUAL_NAME = 60
DEFAULT_TIMEOUT_S = 60.0
# What the command line may put in place of a spec's settings, and no program has.
_NOT_OF_PROGRAMS = {"dtype": "--dtype", "context": "--ctx", "directions": "--directions"}


def _runs_the_program(command: list[str]) -> list[str]:
    if command[0] != PROGRAM:
        raise ValueError(
            f"begins with {show(command[0])}: begin with {show(PROGRAM)}; --control and --treatment say which it is"
        )
    return command


Variable = Annotated[str, *text(VARIABLE_PATTERN, "use the name of an environment variable, none that begins OPDUEL_")]


class ProgramTest(StrictModel):
    """One command line of the program under test."""

    _category: str | None = PrivateAttr(default=None)

    command: Annotated[list[str], Field(min_length=1), AfterValidator(_runs_the_program)] = Field(
        description='The program and its arguments, without a shell: ["{program}", "--size", "100"].'
    )
    identifier: Annotated[str, *text(NAME_PATTERN, "use letters, digits and any of _ . + = , @ -")] | None = optional(
        "Names the case. Default: made of the arguments."
    )
    parse: Annotated[str, *one_of(FORMATS)] | None = optional(
        "The format of the values that the program prints, for the metric value: google_benchmark (its JSON), "
        'json_lines ({"name", "value", "unit", "lower_is_better"} each), observer (lines of AI-PEP\'s observers).'
    )
    higher_is_better: Annotated[list[str], Field(min_length=1)] | None = optional(
        "Printed values of which more is better, whatever the output says: names, or globs with *."
    )
    metric: Annotated[list[str], *some_of(PROGRAM_METRICS, "metric")] | None = optional(
        f"What to measure, one or a list: {', '.join(PROGRAM_METRICS)}. Default: value with parse, else time."
    )
    env: dict[Variable, str] | None = optional("Environment variables of the program.")
    cwd: Annotated[str, Field(min_length=1)] | None = optional(
        "The folder in which it runs, relative to the spec's. Default: the spec's folder."
    )
    threshold: Threshold | None = optional('The smallest change that matters, as a share (0.02) or "2%".')
    timeout: Seconds | None = optional("Seconds for one run. Default: 60.")

    @staticmethod
    def is_one(value: Any) -> bool:
        """Whether a test, as data or read already, is one of a program."""
        return isinstance(value, ProgramTest) or (isinstance(value, dict) and "command" in value)

    @model_validator(mode="after")
    def _values_are_read(self) -> "ProgramTest":
        if self.parse is None:
            if VALUE in (self.metric or ()):
                raise field_error("parse", f"is missing: the metric value needs it, use one of {', '.join(FORMATS)}")
            if self.higher_is_better:
                raise field_error("higher_is_better", "is for printed values: add parse, or leave it out")
        elif self.metric is not None and VALUE not in self.metric:
            raise field_error("parse", "is for the metric value: add that, or leave parse out")
        return self

    @property
    def operator(self) -> str:
        """What the case is called: the identifier, or the arguments in short."""
        words = re.sub(r"[^A-Za-z0-9_.+=,@]+", "_", " ".join(self.command[1:])).strip("_.+=,@")
        return self.identifier or words[:LONGEST_USUAL_NAME] or "program"

    @property
    def category(self) -> str | None:
        """The name of the spec's file that the test is from; None where that isn't known."""
        return self._category

    def of_file(self, path: Path) -> "ProgramTest":
        """The test as one of the spec in the file at ``path``: it runs in that file's folder, or relative to it."""
        copy = self.model_copy(update={"cwd": str(path.parent / (self.cwd or "."))})
        copy._category = path.stem
        return copy

    def inputs(self) -> dict[str, Any]:
        """What the worker needs to run it, as plain data."""
        fields = self.model_dump(include={"command", "parse", "higher_is_better", "env", "cwd"})
        return {name: value for name, value in fields.items() if value is not None}


PROGRAM_DEFAULTS = ("metric", "threshold", "timeout")


class _Settings(Protocol):
    """What a spec, or the command line, may say for all tests."""

    @property
    def metric(self) -> list[str] | None: ...
    @property
    def threshold(self) -> float | None: ...
    @property
    def timeout(self) -> float | None: ...


def program_cases(
    test: ProgramTest,
    origin: str,
    defaults: _Settings,
    overriding: Any,
    thresholds: Mapping[str, float],
    metrics: Sequence[str],
) -> Iterator[Case]:
    """The cases of one command line, one for each metric; the arguments are those of ``expand_cases``.

    Raises:
        UsageError: a metric that no program has, or that needs ``parse``; a setting that no program has.
    """
    for name, option in _NOT_OF_PROGRAMS.items():
        if overriding is not None and getattr(overriding, name) is not None:
            raise UsageError(f"{option}: a program has none: leave it out")
    usual = [VALUE] if test.parse else ["time"]
    share = defaults.threshold if test.threshold is None else test.threshold
    timeout = next(
        (candidate for candidate in (test.timeout, defaults.timeout) if candidate is not None), DEFAULT_TIMEOUT_S
    )
    for metric in metrics or test.metric or defaults.metric or usual:
        if metric not in PROGRAM_METRICS:
            raise UsageError(f"{origin}: the metric {metric} isn't for programs: use {', '.join(PROGRAM_METRICS)}")
        if metric == VALUE and test.parse is None:
            raise UsageError(f"{origin}: has no parse, which the metric value needs: add one of {', '.join(FORMATS)}")
        yield Case(
            id=case_id_for(metric, f"{test.operator}/forward"),
            operator=test.operator,
            direction="forward",
            inputs=json.loads(json.dumps(test.inputs())),
            dtype="float32",
            context="cpu",
            threshold=thresholds.get(metric, METRICS[metric].threshold) if share is None else share,
            timeout_s=timeout,
            metric=metric,
            category=test.category,
        )
