"""opduel run COMMAND COMMAND: two command lines against each other, without a spec, with hyperfine's options."""

import argparse
import json
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product
from pathlib import Path

import platformdirs

from opduel.driver.documents import write_text
from opduel.harness.specs import validate
from opduel.harness.specs.programs import check_words
from opduel.records import UsageError
from opduel.records.measurement import SIDES
from opduel.support.digests import data_digest

MOST_CASES = 1000
LONGEST_NAME = 100
Parameters = Mapping[str, str]


def plan_commands(options: argparse.Namespace, commands: Sequence[str]) -> tuple[Path, list[str]]:
    """Return a spec of what is run in this folder, and the two command lines.

    Each combination of the parameters' values is a case. Of one command line, the first combination is compared with
    each of the others. UsageError: a parameter is no good, or a command has what only a shell would follow.
    """
    combinations, commands = _combinations(options), list(commands)
    around = {"prepare": options.prepare, "cleanup": options.cleanup}
    if len(commands) != len(SIDES) and not (len(commands) == 1 and len(combinations) > 1):
        raise UsageError(
            "give two commands, each in quotes: opduel run 'gzip -k big' 'bzip2 -k big'; or one with the values to "
            "compare: opduel run -L level 1,9 'gzip -{level} -k big'"
        )
    lines = [*commands, *filter(None, around.values())]
    for name in combinations[0]:
        if not any(f"{{{name}}}" in line for line in lines):
            raise UsageError(f"parameter {name}: no command has {{{name}}}: write it where the value should be")
    if len(commands) == 1:
        for option, line in around.items():
            if line and _fill(line, combinations[0]) != line:
                raise UsageError(f"--{option} {line}: has a parameter, so give both commands that are to be compared")
        first, *combinations = combinations
        commands.insert(0, _fill(commands[0], first))
    programs = [_words(command)[:1] for command in commands]
    if any(_fill(program, combination) != program for [program] in programs for combination in combinations):
        commands = [f"env {command}" for command in commands]  # which program it is, is known when it is run
    tests = [
        {"identifier": name, "parameters": combination} if combination else {"identifier": "run"}
        for name, combination in zip(_names(combinations), combinations, strict=True)
    ]
    return _write_spec(options, around, tests), commands


def _words(command: str) -> list[str]:
    """Return the words of a command line, of which there is one at least."""
    try:
        return check_words(shlex.split(command), 'write sh -c "..." around it') or [""]
    except ValueError as error:
        raise UsageError(f"{command}: {error}") from None


def _names(combinations: Sequence[Parameters]) -> list[str]:
    """Return the names of cases: ``n=1,word=a``, with a number where two would have one name."""
    texts = (",".join(f"{name}={value}" for name, value in combination.items()) for combination in combinations)
    names = [re.sub(r"[^A-Za-z0-9_.+=,@-]+", "_", text)[:LONGEST_NAME] for text in texts]
    numbered = (f"{number}_{name}"[:LONGEST_NAME] for number, name in enumerate(names, 1))
    return [name if names.count(name) == 1 else other for name, other in zip(names, numbered, strict=True)]


def _combinations(options: argparse.Namespace) -> list[Parameters]:
    """Return every combination of the parameters' values, by name; one without any if there are no parameters."""
    if options.parameter_step_size is not None and options.parameter_scan is None:
        raise UsageError("--parameter-step-size: goes with --parameter-scan: add that, or leave it out")
    lists = [(name, re.split(r"(?<!\\),", values)) for name, values in options.parameter_list]
    values_by_name = {name: [value.replace("\\,", ",") for value in values] for name, values in lists}
    if options.parameter_scan is not None:
        lists.append((options.parameter_scan[0], []))
        _, low, high = options.parameter_scan
        values_by_name[lists[-1][0]] = _numbers(low, high, options.parameter_step_size or "1")
    for name, _ in lists:
        if not re.fullmatch(r"(?!program$)[A-Za-z_]\w*", name):
            raise UsageError(f"parameter {name}: give it a name of letters, digits and _, and not program")
    if len(values_by_name) < len(lists):
        raise UsageError("two parameters have one name: give each a name of its own")
    for name, values in values_by_name.items():
        try:
            list(map(shlex.split, values))  # as a word of a command, a value may stand for several
        except ValueError as error:
            raise UsageError(f"parameter {name}: {','.join(values)}: {error}") from None
    if math.prod(map(len, values_by_name.values())) > MOST_CASES:
        raise UsageError(f"the parameters have more than {MOST_CASES} combinations: give fewer values")
    return [dict(zip(values_by_name, values, strict=True)) for values in product(*values_by_name.values())]


def _numbers(low: str, high: str, step: str) -> list[str]:
    """Return the numbers from ``low`` to ``high``, as they are written."""
    option = f"--parameter-scan {low} {high}, by {step}"
    try:
        first, last, distance = map(Decimal, (low, high, step))
        count = int((last - first) / distance) + 1 if distance > 0 else 0
    except (InvalidOperation, ValueError, OverflowError):
        raise UsageError(f"{option}: give numbers, such as 1 8") from None
    if first > last or distance <= 0:
        raise UsageError(f"{option}: is empty: give the smaller number first, and a step above 0")
    return [str(first + place * distance) for place in range(min(count, MOST_CASES + 1))]


def _fill(line: str, parameters: Parameters) -> str:
    """Return a command line with the values of parameters in it."""
    for name, value in parameters.items():
        line = line.replace(f"{{{name}}}", value)
    return line


def _write_spec(
    options: argparse.Namespace, around: Mapping[str, str | None], tests: Sequence[Mapping[str, object]]
) -> Path:
    """Write a spec of cases that run what a build is, and return its path. UsageError: what is run around them is
    none."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise UsageError("this folder was removed: change into one that is there") from None
    fields = {
        "command": ["{program}"],
        "cwd": folder,
        **around,
        "stdin": options.input and os.path.join(folder, options.input),
        "exit_codes": list(range(256)) if options.ignore_failure else None,
    }
    common = {name: value for name, value in fields.items() if value is not None}
    spec = {"framework": "generic", "tests": [{**test, **common} for test in tests]}
    try:
        validate(spec)
    except UsageError as error:
        raise UsageError(re.sub(r"tests\[\d+\]\.", "--", str(error))) from None
    text = json.dumps(spec, indent=1)
    path = platformdirs.user_cache_path("opduel") / "commands" / data_digest(spec)[:12] / "run.json"
    write_text(path, text, "set XDG_CACHE_HOME to another folder")
    return path
