"""run_bench.py: asks on the first use for what is missing, keeps the answers, and hands everything to harness.py."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from commands.calibrate import calibrate
from commands.config import QUESTIONS, config_path, default_reports, forget_config, read_config, write_config
from commands.convert import convert
from commands.entry import DONE, log, run_command
from commands.harness import run_harness
from commands.listing import list_cases
from commands.options import Parser, harness_parser
from commands.picking import choose
from commands.single import is_single
from commands.spec_from import write_spec_from
from driver.builds import Releases, load_releases
from frameworks import get_framework
from records import RunError, UsageError
from reporters.formats import FORMATS

DESCRIPTION = """Perform one benchmark run. On its first use on a terminal it asks which builds to measure and where to
keep reports, and keeps the answers; every other option is passed through to harness.py (see harness.py --help)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("run_bench.py", lambda: _run_bench(arguments))


def run_bench_parser() -> Parser:
    """The parser of run_bench.py's own options."""
    parser = Parser(
        prog="run_bench.py",
        usage="%(prog)s [-h] [--reset_options] [--calibrate] [--list [PATTERN]] [--spec_from NETWORK] "
        "[--convert REPORT] -b SPEC ...",
        description=DESCRIPTION,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--reset_options", action="store_true", help="forget the kept answers; alone, it does nothing else"
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure one build against itself, plain and slowed: what can this machine find?",
    )
    parser.add_argument(
        "--list",
        metavar="PATTERN",
        nargs="?",
        const="",
        help="show every case that there is, or those where PATTERN is in id, operator or spec's name; with "
        "harness.py's options, those that it would measure",
    )
    parser.add_argument(
        "--spec_from",
        metavar="NETWORK",
        help="write a spec of the operator calls of a saved symbol, or of a model of the zoo; goes with "
        "--shape NAME=SIZES, --build BUILD and --output FILE",
    )
    parser.add_argument("--convert", metavar="REPORT", type=Path, help="print a report.json as what --to says")
    parser.add_argument("--to", choices=list(FORMATS), help="html: a page; md: Markdown; for --convert")
    return parser


def _run_bench(arguments: Sequence[str] | None) -> int:
    options, passed_on = run_bench_parser().parse_known_args(arguments)
    if options.list is not None:
        if options.calibrate or options.reset_options:
            raise UsageError("--list: takes a pattern and harness.py's options alone: leave the others out")
        return list_cases(options.list, harness_parser().parse_args(passed_on) if passed_on else None)
    if options.convert is not None:
        if passed_on or options.to is None:
            raise UsageError(f"--convert: takes a report and --to {'|'.join(FORMATS)}, and no other options")
        return convert(options.convert, options.to)
    if options.reset_options:
        path = config_path()
        log.info("%s answers in %s", "forgot the" if forget_config(path) else "there were no", path)
        if not passed_on and not options.calibrate:
            return DONE
    if options.spec_from is not None:
        if options.calibrate:
            raise UsageError("--spec_from: writes a spec and measures nothing: leave --calibrate out")
        return write_spec_from(["--spec_from", options.spec_from, *passed_on])
    if options.calibrate:
        return calibrate(passed_on)
    if sys.stdin.isatty() and sys.stderr.isatty():
        _ask_for_missing(harness_parser().parse_args(passed_on))
    return run_harness(passed_on)


def _ask_for_missing(options: argparse.Namespace) -> None:
    """Ask for each answer that neither the config nor the command line gives, and keep them when all are there.

    Raises:
        RunError: the input ended before the last answer.
    """
    path = config_path()
    answers = read_config(path)
    asked = [] if is_single(options) else QUESTIONS  # of one build alone nothing needs to be kept
    missing = [name for name in asked if name not in answers and getattr(options, name) is None]
    if not missing:
        return
    releases = load_releases(get_framework(choose(options, 0).spec.framework))
    defaults = {
        "control": releases.default_control,
        "treatment": releases.default_treatment,
        "local_reporter": str(default_reports()),
    }
    print(f"A few questions; Return takes what is in brackets. The answers are kept in {path}", file=sys.stderr)
    for name in missing:
        answers[name] = _ask(name, defaults[name], releases)
    write_config(path, answers)


def _ask(name: str, default: str, releases: Releases) -> str:
    """One answer, asked for until it can be meant."""
    while True:
        print(f"{QUESTIONS[name]} [{default}]: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            raise RunError("the input ended before the last answer: nothing was kept; give it on the command line")
        try:
            return _checked(name, line.strip() or default, releases)
        except UsageError as error:
            print(f"  {error}", file=sys.stderr)


def _checked(name: str, answer: str, releases: Releases) -> str:
    """The answer as it is kept. Paths become absolute: they mean the same place whatever folder a run starts in.

    Raises:
        UsageError: a build that is neither a known release nor a path that is there.
    """
    path = os.path.abspath(os.path.expanduser(answer))
    if name == "local_reporter":
        return path
    package, equals, version = answer.partition("==")
    if equals and os.sep not in answer:
        releases.recipe(package.strip(), version.strip())
        return answer
    if not os.path.exists(path):
        raise UsageError(f"{answer!r} is neither a release nor a path that is there")
    return path
