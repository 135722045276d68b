"""AI-PEP's options for programs: which file of a build is the program, and what is put into its command lines."""

import dataclasses
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from opduel.commands.harness_options import HarnessOptions
from opduel.frameworks import Framework
from opduel.harness.specs.programs import PROGRAM, check_words
from opduel.records import Case, UsageError
from opduel.support.redaction import mask_everywhere, recorded_variables, secret_arguments, secrets_of

BUILD = "{build}"
COMMAND_LINES = ("command", "prepare", "cleanup")
_WORD = re.compile(r"\{(?!program\}|files\.\w+\})([A-Za-z_][\w.-]*)\}")  # but the worker's own


def refuse_program_options(options: HarnessOptions, framework: Framework) -> None:
    """Raise UsageError if an option for programs is given, and the framework has none; or if it can't be meant."""
    for name, reason in framework.cases.refused_options.items():
        if options.is_given(name):
            raise UsageError(f"--{name}: {reason.format(framework=framework.name)}")
    if options.build_program is not None and BUILD not in options.build_program:
        raise UsageError(
            f"--program {options.build_program}: has no {BUILD}: write it in place of what --control and --treatment "
            f"give, such as out/{BUILD}/bench, or leave the option out"
        )


def program_of(options: HarnessOptions, build: str) -> str:
    """What is asked for by the name of a build: the build itself, or with ``--program`` the file of that build."""
    return build if options.build_program is None else options.build_program.replace(BUILD, build)


def fill_command_lines(cases: Sequence[Case], options: HarnessOptions, spec: Path | None) -> list[Case]:
    """The cases of programs with the words of ``--string_map`` put in place, and ``--command_args`` at their ends.

    A program may print what it is given: from now on the values of its variables, unless these can hold no secret, and
    the words that are called secret, are masked in all texts that are stored or logged.
    """
    if not all(_is_program(case) for case in cases):
        return list(cases)
    for variables in (case.inputs.get("env", {}) for case in cases):
        recorded_by_name = recorded_variables(variables)
        mask_everywhere([value for name, value in variables.items() if recorded_by_name[name] != value])
    words = {name: str(value) for name, value in json.loads(options.string_map or "{}").items()}
    more = shlex.split(options.command_args or "")
    mask_everywhere({*secrets_of(words), *secret_arguments(more)})
    try:
        check_words(more)
    except ValueError as error:
        raise UsageError(f"--command_args: {error}") from None
    return [_fill_words(case, words, more, spec) for case in cases]


def _is_program(case: Case) -> bool:
    command = case.inputs.get("command")
    return isinstance(command, list) and command[:1] == [PROGRAM]


def _fill_words(case: Case, words: Mapping[str, str], more: Sequence[str], spec: Path | None) -> Case:
    def fill(text: str) -> str:
        for name, value in words.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    lines = {name: case.inputs[name] for name in COMMAND_LINES if name in case.inputs}
    for name in _WORD.findall(" ".join(word for line in lines.values() for word in line)):
        if name not in words and name not in case.inputs.get("parameters", {}):
            raise UsageError(
                f"{spec}: {case.id}: nothing replaces {{{name}}} in its command lines: add it to --string_map, "
                f'\'{{"{name}": "TEXT"}}\'; TEXT may be {{{name}}} itself'
            )
    filled = {name: list(map(fill, line)) for name, line in lines.items()}
    filled["command"] += more
    files = {name: dataclasses.replace(file, location=fill(file.location)) for name, file in case.files.items()}
    return dataclasses.replace(case, inputs={**case.inputs, **filled}, files=files)
