"""AI-PEP's specs, as they are: a model with its files and tests, or a list of benchmarks, as a spec of programs.

https://github.com/facebook/FAI-PEP: specifications/models, and benchmarking/frameworks/framework_base.py, caffe2.py and
tflite.py, whose rules for words in braces and for command lines made of inputs are these.
"""

import json
import logging
import re
import shlex
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from opduel.records import UsageError
from opduel.support.text import show
from opduel.support.validation import explain

FRAMEWORK = "generic"
FORMAT_BY_MODEL = {"tflite": "tflite"}  # the format of what a program prints, by that of its model
USUAL_FORMAT = "observer"
TIMEOUT_S = 300.0  # AI-PEP's usual one
WORD = re.compile(r"\{([\w.]+)\}")
LONGEST = 100_000  # characters of a word, once its words in braces are replaced
OUTPUT_FOLDER = "{TGTDIR}"
DEEPEST = 8  # words that stand for texts with words in them
# Fields that can't be followed -> why, and what to do.
_REFUSED = {
    "preprocess": "are commands for the host: run them yourself beforehand, and take the field out",
    "postprocess": "are commands that read the program's files: let the program print its values, and take it out",
    "repeat": "belongs to preprocess: take it out",
    "converter": "is code of AI-PEP's: use parse in a spec of opduel's own (docs/how-to/programs.md)",
    "libraries": "are for phones: name what a build needs with --shared_libs",
}
_OF_PHONES = ("platform_args", "cpu-list")  # which processors: opduel chooses them
_THREADS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")

log = logging.getLogger(__name__)


class _Fields(BaseModel):
    """Further fields are words that command lines may have in braces."""

    model_config = ConfigDict(extra="allow", frozen=True)

    files: dict[str, dict[str, Any]] = Field(default_factory=dict)
    timeout: float | None = None

    def __contains__(self, name: str) -> bool:
        return bool((self.__pydantic_extra__ or {}).get(name))


class _Model(_Fields):
    name: str
    format: str = ""
    command_args: str = ""


class _Tensor(BaseModel):
    shapes: list[list[int]] = Field(min_length=1)
    type: str


class _Test(_Fields):
    identifier: str
    metric: str = "delay"
    commands: list[str] | str | dict[str, dict[str, Any]] = Field(default_factory=dict)
    command: str | None = None
    arguments: str | None = None
    inputs: dict[str, _Tensor] = Field(default_factory=dict)
    input_files: dict[str, dict[str, Any]] = Field(default_factory=dict)
    env: dict[str, str | int | float] = Field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """The command lines; none where one is to be made of the inputs."""
        if self.arguments is not None:
            return [f"{{program}} {self.arguments}"]
        lines = self.commands if self.command is None else self.command
        return [lines] if isinstance(lines, str) else lines if isinstance(lines, list) else []


class _Document(BaseModel):
    model: _Model
    tests: list[_Test] = Field(min_length=1)


def from_ai_pep(data: Any) -> Any:
    """Return the spec of programs that a spec of AI-PEP's says; anything else as it is. Raises UsageError: it says what
    can't be done here; names the field and the fix."""
    if not isinstance(data, dict) or "framework" in data or not data.keys() & {"model", "benchmarks"}:
        return data
    if "benchmarks" in data:
        return {"framework": FRAMEWORK, "specs": data["benchmarks"]}
    try:
        document = _Document.model_validate(data)
    except ValidationError as error:
        raise UsageError(explain(error, "the spec")) from None
    model = document.model
    _refuse(model, "model")
    converted_tests: list[dict[str, Any]] = []
    for number, test in enumerate(document.tests):
        where = f"tests[{number}]"
        _refuse(test, where)
        if test.metric == "power":
            raise UsageError(f'{where}.metric is "power", which is measured on phones alone: use "delay"')
        for test_of_shape in _of_each_shape(test, where):
            converted_tests.append(_converted(test_of_shape, model, len(converted_tests), where))
    for name in _OF_PHONES:
        if name in model or any(name in test for test in document.tests):
            log.warning("%s: %s: is for phones, and ignored: opduel chooses the processors", model.name, name)
    return {"framework": FRAMEWORK, "tests": converted_tests}


def _refuse(fields: _Fields, where: str) -> None:
    for name, why in _REFUSED.items():
        if name in fields:
            raise UsageError(f"{where}.{name}: {why}")


def _of_each_shape(test: _Test, where: str) -> list[_Test]:
    """Return the test, or one for each of the shapes of its inputs, if its command line is made of these."""
    if test.lines:
        return [test]
    counts = {len(tensor.shapes) for tensor in test.inputs.values()}
    if not counts:
        raise UsageError(f"{where}.commands is missing: give the command line that runs the program")
    if len(counts) > 1:
        raise UsageError(f"{where}.inputs have different numbers of shapes: give each input as many")
    tensors = [
        {name: tensor.model_copy(update={"shapes": [tensor.shapes[index]]}) for name, tensor in test.inputs.items()}
        for index in range(counts.pop())
    ]
    return [test.model_copy(update={"inputs": inputs}) for inputs in tensors]


def _converted(test: _Test, model: _Model, number: int, where: str) -> dict[str, Any]:
    files = {**model.files, **test.input_files, **test.files}
    threads = {name: (test.__pydantic_extra__ or {})[name] for name in _THREADS if name in test}
    env = {name: str(value) for name, value in {**threads, **test.env}.items()}
    places = [fields.model_dump(exclude={"files", "input_files"}) for fields in (test, model)]
    *earlier, command = [[_resolve(word, places) for word in line] for line in _commands_of(test, model, where)]
    in_output_folder = any(OUTPUT_FOLDER in word for word in command)
    return {
        "command": [word.replace(OUTPUT_FOLDER, ".") for word in command],
        "identifier": _name(model.name, test.identifier.replace("{ID}", str(number))),
        "parse": FORMAT_BY_MODEL.get(model.format, USUAL_FORMAT),
        "timeout": test.timeout or model.timeout or TIMEOUT_S,
        **({"prepare": earlier[0]} if earlier else {}),
        **({"fresh_folder": True} if in_output_folder else {}),
        **({"files": files} if files else {}),
        **({"env": env} if env else {}),
    }


def _name(model: str, identifier: str) -> str:
    """Return a case's name, which has the model's: identifiers are those of one file."""
    name = identifier if identifier.startswith(model) else f"{model}-{identifier}"
    return re.sub(r"[^A-Za-z0-9_.+=,@-]+", "_", name).lstrip("_.+=,@-")


def _commands_of(test: _Test, model: _Model, where: str) -> list[list[str]]:
    """Return the words of the test's command lines: the one that is measured, and perhaps one before it."""
    if not test.lines:
        return [(_tflite_command if model.format == "tflite" else _caffe2_command)(test, model)]
    if len(test.lines) > 2:
        raise UsageError(f"{where}.commands: use two at most: one that prepares, and the one that is measured")
    commands = []
    for line in test.lines:
        more = model.command_args if "{program}" in line else ""
        try:
            commands.append(shlex.split(f"{line} {more}".replace("{input_files.", "{files.")))
        except ValueError as error:
            raise UsageError(f"{where}.commands has {show(line)} ({error}): quote it as for a shell") from None
    return commands


def _caffe2_command(test: _Test, model: _Model) -> list[str]:
    shapes = ";".join(",".join(map(str, tensor.shapes[0])) for tensor in test.inputs.values())
    paths = ",".join(f"{{files.{name}}}" for name in test.input_files)
    command = ["{program}", "--net", "{files.predict}", "--warmup", "{warmup}", "--iter", "{iter}"]
    command += ["--init_net", "{files.init}"] if "init" in model.files else []
    command += ["--input_file", paths] if paths else ["--input_dims", shapes]
    command += ["--input", ",".join(test.input_files or test.inputs)]
    command += ["--input_type", next(iter(test.inputs.values())).type]
    flags = test.commands.get("caffe2", {}) if isinstance(test.commands, dict) else {}
    return command + [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def _tflite_command(test: _Test, model: _Model) -> list[str]:
    name, tensor = list(test.inputs.items())[-1]
    shape = ",".join(map(str, tensor.shapes[0]))
    settings = "--graph={files.graph}", "--warmup_runs={warmup}", "--num_runs={iter}"
    return ["{program}", *settings, f"--input_layer={name}", f"--input_layer_shape={shape}"]


def _resolve(text: str, places: Sequence[dict[str, Any]]) -> str:
    """Return the text with what its words in braces stand for, in the first of the places that has it. Others stay:
    files and the program are known where it runs. UsageError: it becomes too long."""
    length = len(text)

    def resolve(match: re.Match[str]) -> str:
        nonlocal length
        for place in places:
            value: Any = place
            for name in match[1].split("."):
                value = value.get(name) if isinstance(value, dict) else None
            if isinstance(value, str | int | float):
                word = value if isinstance(value, str) else json.dumps(value)
                length += len(word)
                if length > LONGEST:
                    raise UsageError(f"{match[0]} makes a command line of more than {LONGEST} characters: shorten it")
                return word
        return match[0]

    for _ in range(DEEPEST):
        text, previous = WORD.sub(resolve, text), text
        if text == previous:
            break
    return text
