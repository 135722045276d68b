"""Tests of a spec whose framework runs programs: a command line each, and what is read of it."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, WithJsonSchema, model_validator

from opduel.harness.specs.fields import Seconds, StrictModel, Threshold, field_error, one_of, optional, some_of, text
from opduel.harness.specs.files import File
from opduel.records import VALUE
from opduel.support.text import show

PROGRAM = "{program}"
FORMATS = ("google_benchmark", "json_lines", "observer", "tflite")
PROGRAM_METRICS = ("time", "cpu_time", "process_memory", VALUE)
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.+=,@-]{0,99}$"
VARIABLE_PATTERN = r"^(?!OPDUEL_)[A-Za-z_][A-Za-z0-9_]*$"
LONGEST_USUAL_NAME = 60
# What a shell would follow.
_OF_SHELLS = re.compile(r"<{1,3}|<[A-Za-z_./~][\w./~-]*|\|&?|[0-9&]?>{1,2}(&[0-9-]|[A-Za-z_./~][\w./~-]*)?|&&|\|\|")
_ONE_PROGRAM = 'name an input file in "stdin", leave out where output goes, and write a test for each program'
_OWN_SHELL = 'start one, as in ["sh", "-c", "cp a b && cp c d"]'
PROGRAM_DEFAULTS = ("metric", "threshold", "timeout")  # the settings that a program has


def _words(command: Any) -> Any:
    if not isinstance(command, str):
        return command
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"is {show(command)} ({error}): quote it as for a shell") from None


def check_words(command: list[str], fix: str = _ONE_PROGRAM) -> list[str]:
    """Return the words of a command line. ValueError: one of them is a shell's; ``fix`` ends the text."""
    if words := [word for word in command if _OF_SHELLS.fullmatch(word)]:
        raise ValueError(f"has {show(words[0])}, and there is no shell: {fix}")
    return command


def _runs_the_program(command: list[str]) -> list[str]:
    if command[0] != PROGRAM:
        raise ValueError(
            f"begins with {show(command[0])}: begin with {show(PROGRAM)}; --control and --treatment say which it is"
        )
    return check_words(command)


CommandLine = Annotated[
    Annotated[list[str], Field(min_length=1)],
    BeforeValidator(_words),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "string"}]}),
]
CommandAround = Annotated[CommandLine, AfterValidator(lambda command: check_words(command, _OWN_SHELL))]
ExitCode = Annotated[int, Field(ge=0, le=255)]
FileName = Annotated[str, *text(r"^[A-Za-z_][A-Za-z0-9_]*$", "use letters, digits and _ in a file's name")]
Variable = Annotated[str, *text(VARIABLE_PATTERN, "use the name of an environment variable, none that begins OPDUEL_")]


class TestOfFile(StrictModel):
    """A test of a spec's file."""

    __test__ = False  # pytest: not one of yours
    _category: str | None = PrivateAttr(default=None)

    @property
    def category(self) -> str | None:
        """The name of the spec's file that the test is from, as ``--category`` has it; None where that isn't known."""
        return self._category

    def _with_category(self, path: Path, changes: dict[str, Any]) -> Self:
        """Return the test of the spec in the file at ``path``, with other values of fields."""
        test = self.model_copy(update=changes)
        test._category = path.stem
        return test


class ProgramTest(TestOfFile):
    """One command line of the program under test."""

    command: Annotated[CommandLine, AfterValidator(_runs_the_program)] = Field(
        description='The program and its arguments, without a shell: ["{program}", "--size", "100"], or a text.'
    )
    identifier: Annotated[str, *text(NAME_PATTERN, "use letters, digits and any of _ . + = , @ -")] | None = optional(
        "Names the case. Default: made of the arguments."
    )
    parse: Annotated[str, *one_of(FORMATS)] | None = optional(
        "The format of the values that the program prints, for the metric value: google_benchmark (its JSON), "
        'json_lines ({"name", "value", "unit", "lower_is_better"} each), observer (lines of AI-PEP\'s observers), '
        "tflite (TensorFlow Lite's benchmark_model)."
    )
    higher_is_better: Annotated[list[str], Field(min_length=1)] | None = optional(
        "Printed values of which more is better, whatever the output says: names, or globs with *."
    )
    metric: Annotated[list[str], *some_of(PROGRAM_METRICS, "metric")] | None = optional(
        f"What to measure, one or a list: {', '.join(PROGRAM_METRICS)}. Default: value with parse, else time."
    )
    files: dict[FileName, File] | None = optional(
        "Files that it needs; {files.NAME} in the command is the path of one."
    )
    parameters: dict[FileName, str] | None = optional(
        "Texts that stand for {NAME} in the command, the build's own arguments, prepare and cleanup."
    )
    env: dict[Variable, str] | None = optional("Environment variables of the program.")
    cwd: Annotated[str, Field(min_length=1)] | None = optional(
        "The folder in which it runs, relative to the spec's. Default: the spec's folder."
    )
    fresh_folder: bool | None = optional(
        "Whether each run has a folder of its own to run in: empty, or a copy of cwd. It is removed afterwards."
    )
    stdin: Annotated[str, Field(min_length=1)] | None = optional(
        "The file that it reads on standard input, relative to the spec's folder. Default: nothing."
    )
    exit_codes: Annotated[list[ExitCode], Field(min_length=1)] | None = optional(
        "The exit codes of a run that counts, on both sides. Default: 0 alone."
    )
    prepare: CommandAround | None = optional(
        "A command before each run, in the same folder and not measured; it may begin with {program}, too."
    )
    cleanup: CommandAround | None = optional("A command after each run, as prepare.")
    threshold: Threshold | None = optional('The smallest change that matters, as a share (0.02) or "2%".')
    timeout: Seconds | None = optional("Seconds for one run. Default: 60.")

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

    @model_validator(mode="after")
    def _files_are_there(self) -> "ProgramTest":
        lines = {"command": self.command, "prepare": self.prepare or [], "cleanup": self.cleanup or []}
        for line, words in lines.items():
            for name in re.findall(r"\{files\.(\w+)\}", " ".join(words)):
                if name not in (self.files or {}):
                    raise field_error(f"files.{name}", f"is missing: {line} names it, so say where the file is")
        return self

    @property
    def operator(self) -> str:
        """What the case is called: the identifier, or the arguments in short."""
        words = re.sub(r"[^A-Za-z0-9_.+=,@]+", "_", " ".join(self.command[1:])).strip("_.+=,@")
        return self.identifier or words[:LONGEST_USUAL_NAME] or "program"

    def of_file(self, path: Path) -> "ProgramTest":
        """Return the test of the spec in the file at ``path``: it runs in that file's folder, or relative to it."""
        folder = path.parent
        is_empty = self.fresh_folder and self.cwd is None
        changes = {
            "files": self.files and {name: file.below(folder) for name, file in self.files.items()},
            "cwd": None if is_empty else str(folder / (self.cwd or ".")),
            "stdin": self.stdin and str(folder / self.stdin),
        }
        return self._with_category(path, changes)

    def inputs(self) -> dict[str, Any]:
        """Return what the worker needs to run it, as plain data."""
        return self.model_dump(exclude={"identifier", "metric", "files", "threshold", "timeout"}, exclude_none=True)
