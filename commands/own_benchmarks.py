"""python -m opduel.commands.own_benchmarks: a framework's own operator benchmarks, from its repository, as a spec.

The benchmarks are code, and are executed in the build: name only a checkout that you trust.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opduel.commands.entry import DONE, log, run_command
from opduel.commands.option_types import path
from opduel.commands.options import Parser
from opduel.commands.overwrite_check import refuse_overwriting
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.registry import ask_build
from opduel.driver.catalogue.write import spec_text
from opduel.driver.documents import write_text
from opduel.frameworks import framework_names, get_framework
from opduel.harness.specs.load import validate
from opduel.records import UsageError
from opduel.support.atomic import check_file
from opduel.support.text import counted

TIMEOUT_S = 1800.0  # each benchmark's inputs are made, and it is called once


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("opduel.commands.own_benchmarks", lambda: _write(arguments))


def own_benchmarks_parser() -> Parser:
    parser = Parser(prog="python -m opduel.commands.own_benchmarks", description=__doc__)
    able = [name for name in framework_names() if get_framework(name).scripts.benchmarks]
    add = parser.options()
    add("folder FOLDER", "the folder of the benchmarks, in a checkout of the framework", type=path)
    add("--framework", "whose benchmarks", choices=able, default=able[0])
    add("--build BUILD", "the build that executes them", required=True)
    add("--tag TAG", "only configurations with this tag, or all; repeatable (default: short)", action="append")
    add("--output FILE", "where the spec is written", type=path, required=True)
    add("--exec_dir DIR", "the build cache (default: in the user's cache folder)", type=path)
    return parser


def _write(arguments: Sequence[str] | None) -> int:
    options = own_benchmarks_parser().parse_args(arguments)
    framework, folder, output = get_framework(options.framework), Path(options.folder), Path(options.output)
    script = framework.scripts.benchmarks
    if script is None or not folder.is_dir():
        raise UsageError(f"{folder}: no such folder: give the one with the benchmarks, in a checkout")
    if output.suffix != ".json":
        raise UsageError(f"--output {output}: the name of a spec must end in .json")
    check_file(output, "output")
    refuse_overwriting({"folder": [folder]}, "--output", [output])
    build = resolve_build(options.build, framework, BuildCache(options.exec_dir))
    command = [script, folder.absolute(), *(options.tag or ["short"])]
    answer = ask_build(build, framework, command, TIMEOUT_S, "can't execute the benchmarks", dict)
    tests, refused = _split_valid(answer["tests"], framework.name)
    _log_result(answer["files"], refused)
    if not tests:
        raise UsageError(f"{folder}: none of its benchmarks becomes a case: give the folder with the benchmarks")
    head = {"framework": framework.name, "description": f"The operator benchmarks of {framework.name} itself."}
    write_text(output, spec_text(head, tests))
    cases = sum(len(test["directions"]) for test in tests)
    log.info("%s: %s, %s", output, counted(len(tests), "test"), counted(cases, "case"))
    return DONE


def _split_valid(tests: Sequence[dict[str, Any]], framework: str) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The tests that a spec can say, and why it can't say the others."""
    valid_tests, refused = [], Counter[str]()
    for test in tests:
        test = {**test, "inputs": [test["inputs"]]}
        try:
            validate({"framework": framework, "tests": [test]})
            valid_tests.append(test)
        except UsageError as error:
            refused[str(error)] += 1
    return valid_tests, refused


def _log_result(files: Mapping[str, Mapping[str, Any]], refused: Mapping[str, int]) -> None:
    """What was left out, a line for each file; and how many files became a part of the spec."""
    complete_files = [name for name, file in files.items() if file["cases"] and not file["left_out"]]
    part = [name for name, file in files.items() if file["cases"] and file["left_out"]]
    for name, file in files.items():
        reasons = "; ".join(f"{why} ({count})" for why, count in file["left_out"].items())
        if reasons or not file["cases"]:
            log.warning("%s: left out: %s", name, reasons or "no configuration has one of the tags")
    for why, count in refused.items():
        log.warning("left out: %s (%d)", why, count)
    none = len(files) - len(complete_files) - len(part)
    log.info("%s: %d as a whole, %d in part, %d not", counted(len(files), "file"), len(complete_files), len(part), none)


if __name__ == "__main__":
    sys.exit(main())
