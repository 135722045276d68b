"""run_bench.py: asks on the first use for what is missing, keeps the answers, and hands on to the other commands."""

import os
import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opduel.commands.config import (
    ANY_BUILD,
    QUESTIONS,
    config_path,
    default_reports,
    forget_config,
    read_config,
    write_config,
)
from opduel.commands.defaults import (
    CALIBRATE,
    DRIVER,
    HARNESS,
    describes_run,
    is_for_driver,
    store_defaults,
    with_defaults,
)
from opduel.commands.driver_options import parse_driver_options
from opduel.commands.entry import DONE, log
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.launch import run_calibration, run_driver, run_harness
from opduel.commands.option_rules import is_single
from opduel.commands.option_types import path
from opduel.commands.options import Parser, read_options
from opduel.records import RunError, UsageError
from opduel.reporters.formats import described
from opduel.support.atomic import user_path

if TYPE_CHECKING:
    from opduel.driver.builds import Releases
    from opduel.frameworks import Framework

DESCRIPTION = """Perform one benchmark run, or look for regressions in commits. On its first use on a terminal it asks
which builds to measure and where to keep reports, and keeps the answers. Every other option is passed through: to
repo_driver.py if one is repo_driver.py's own, such as --ab_testing or --regression (see repo_driver.py --help), or else
to harness.py (see harness.py --help). Default arguments of both may be kept in the config."""

# What it does in place of a run of two builds: options, each of which calls the subcommand of that name.
INSTEAD = ("list", "convert", "flush", "send", "spec_from", "calibrate")
_TURN_S = 0.2  # of waiting for an answer


@dataclass(frozen=True)
class BenchOptions:
    """run_bench.py's own options; None and False were not given."""

    reset_options: bool = False
    keep_options: bool = False
    calibrate: bool = False
    list: str | None = None  # a pattern
    spec_from: str | None = None  # a network
    convert: Path | None = None  # a report
    flush: bool = False
    send: Sequence[Path] | None = None  # reports


def run_bench_parser() -> Parser:
    parser = Parser(
        prog="run_bench.py",
        usage="%(prog)s [-h] [--reset_options] [--keep_options] [--calibrate] [--list [PATTERN]] [--spec_from NETWORK] "
        "[--convert REPORT --to FORMAT] [--flush] [--send REPORT ...] -b SPEC ...",
        description=DESCRIPTION,
    )
    add = parser.options()
    add("--reset_options", "remove the stored answers; alone, it does nothing else")
    add(
        "--keep_options",
        "keep the options given with it as the defaults of the command that they are passed to; what is measured, "
        "and on which builds, is not kept. With nothing to measure, it does nothing else",
    )
    add(
        "--calibrate",
        "find out which changes this machine can detect: measure one build against itself, as it is and slowed down",
    )
    add(
        "--list PATTERN",
        "list all cases, or those with PATTERN in the id, the operator or the spec's name; with options of harness.py, "
        "the cases that it would measure",
        nargs="?",
        const="",
    )
    add(
        "--spec_from NETWORK",
        "write a spec of the operator calls of a saved symbol, or of a model of the zoo; goes with --shape "
        "NAME=SIZES, --build BUILD and --output FILE",
    )
    add(
        "--convert REPORT",
        "convert a report.json; goes with --to FORMAT, --side SIDE and --output FILE, as opduel convert. "
        f"{described()}",
        type=path,
    )
    add(
        "--flush",
        "send the reports that could not be delivered to results servers yet; goes with --remote_reporter's options, "
        "--retry_refused (send also those that a server refused) and --give_up NUMBER (remove this entry)",
    )
    add(
        "--send REPORT",
        "send reports that are on disk; goes with --remote_reporter, its token and --spool",
        nargs="+",
        type=path,
    )
    return parser


def run_bench(words: Sequence[str], run_subcommand: Callable[[str, Sequence[str]], int]) -> int:
    """Measure as the words say, or do what else they ask for, by a subcommand of ``opduel``; return the exit code."""
    parsed, passed_on = run_bench_parser().parse_known_args(words)
    options = BenchOptions(**vars(parsed))
    instead = _instead_of_a_run(options)
    if options.reset_options:
        path = config_path()
        log.info("%s answers in %s", "forgot the" if forget_config(path) else "there were no", path)
        if instead is None and not passed_on:
            return DONE
    if instead not in (None, "calibrate"):
        value = getattr(options, str(instead))
        words = value if isinstance(value, list) else [value] if value not in ("", True) else []
        return run_subcommand(str(instead).replace("_", "-"), [*map(str, words), *passed_on])
    command = CALIBRATE if options.calibrate else DRIVER if is_for_driver(passed_on) else HARNESS
    if options.keep_options:
        store_defaults(command, passed_on)
        if not describes_run(command, passed_on):
            return DONE
    words = with_defaults(command, passed_on)
    if command == CALIBRATE:
        return run_calibration(command, words)
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if command == DRIVER:
        if asks:
            _ask_for_missing(parse_driver_options(words).harness, ["local_reporter"])
        return run_driver(command, words)
    if asks:
        run = read_options(words)
        _ask_for_missing(run, [] if is_single(run) else list(QUESTIONS))  # one build alone needs nothing kept
    return run_harness(command, words)


def _instead_of_a_run(options: BenchOptions) -> str | None:
    """The option that asks for something else than a run, None for a run; UsageError for several at once."""
    names = [name for name in INSTEAD if getattr(options, name) not in (None, False)]
    if options.keep_options and names not in ([], ["calibrate"]):
        names.append("keep_options")
    if len(names) > 1:
        raise UsageError(f"--{names[0]}: does nothing else: leave --{names[1]} out")
    return names[0] if names else None


def _ask_for_missing(options: HarnessOptions, questions: Sequence[str]) -> None:
    """Ask for each of these answers that neither the config nor the command line gives, and keep them when all are
    there. RunError: the input ended before the last answer."""
    path = config_path()
    open_ones = [name for name in questions if not options.is_given(name)]
    answers = read_config(path) if open_ones else {}
    missing = [name for name in open_ones if name not in answers]
    if not missing:
        return
    from opduel.commands.case_selection import choose_cases
    from opduel.commands.suite_selection import suite_framework
    from opduel.driver.builds import load_releases
    from opduel.frameworks import get_framework

    suite = options.suite is not None
    framework = suite_framework(options.framework) if suite else get_framework(choose_cases(options, 0).framework_name)
    releases = load_releases(framework)
    defaults = {
        "control": releases.default_control,
        "treatment": releases.default_treatment,
        "local_reporter": str(default_reports()),
    }
    print(f"A few questions; press Return for the value in brackets. The answers are stored in {path}", file=sys.stderr)
    for name in missing:
        answers[name] = _ask(name, defaults[name], framework, releases)
    write_config(path, answers)


def _ask(name: str, default: str | None, framework: "Framework", releases: "Releases") -> str:
    """One answer, asked for until it can be meant."""
    while True:
        question = QUESTIONS[name].replace(ANY_BUILD, framework.builds.request_form or ANY_BUILD)
        print(f"{question}{f' [{default}]' if default else ''}: ", end="", file=sys.stderr, flush=True)
        line = _read_line()
        if not line:
            print(file=sys.stderr)
            raise RunError("the input ended before the last answer: nothing was kept; give it on the command line")
        try:
            return _checked(name, line.strip() or default or "", framework, releases)
        except UsageError as error:
            print(f"  {error}", file=sys.stderr)


def _read_line() -> str:
    """Return a line of standard input. On a terminal, wait for it by turns: a signal that comes just before a read
    begins would be acted on only after it."""
    while sys.stdin.isatty() and not select.select([sys.stdin], [], [], _TURN_S)[0]:
        pass
    return sys.stdin.readline()


def _checked(name: str, answer: str, framework: "Framework", releases: "Releases") -> str:
    """The answer as it is kept. Paths become absolute: they mean the same place whatever folder a run starts in.
    UsageError: a build that is neither a known release nor, where the framework measures any package, requirements,
    nor a path that is there."""
    if not answer:
        raise UsageError("there is no default: give the path of a build")
    from opduel.driver.builds.resolve import names_build

    path = os.path.abspath(user_path(answer, QUESTIONS[name]))
    if name == "local_reporter":
        return path
    if not os.path.exists(path) and names_build(answer, framework):
        return answer
    package, equals, version = answer.partition("==")
    if equals and os.sep not in answer:
        releases.recipe(package.strip(), version.strip())
        return answer
    if not os.path.exists(path):
        raise UsageError(f"{answer!r} is neither a release nor an existing path")
    return path
