"""run_bench.py: asks on the first use for what is missing, keeps the answers, and hands everything to harness.py."""

import sys
from collections.abc import Sequence

from commands import harness
from commands.config import QUESTIONS, config_path, default_reports, forget_config, read_config, write_config
from commands.entry import DONE, run_command
from commands.options import Parser
from driver.builds import load_releases
from frameworks import framework_names, get_framework

DESCRIPTION = """Perform one benchmark run. On its first use on a terminal it asks which builds to measure and where to
keep reports, and keeps the answers; every other option is passed through to harness.py (see harness.py --help)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("run_bench.py", lambda: _run_bench(arguments))


def _run_bench(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="run_bench.py", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--reset_options", action="store_true", help="forget the kept answers")
    options, passed_on = parser.parse_known_args(arguments)
    path = config_path()
    if options.reset_options:
        found = forget_config(path)
        print(f"{'forgot' if found else 'there were no'} answers in {path}", file=sys.stderr)
        if not passed_on:
            return DONE
    _ask_for_missing(passed_on)
    return harness.main(passed_on)


def _ask_for_missing(passed_on: Sequence[str]) -> None:
    """Ask for each answer that neither the config nor the command line gives; only where someone can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    path = config_path()
    answers = read_config(path)
    given = {argument.partition("=")[0].removeprefix("--") for argument in passed_on if argument.startswith("--")}
    missing = [name for name in QUESTIONS if name not in answers and name not in given]
    if not missing:
        return
    defaults = _defaults()
    print("First use: a few questions. The answers are kept in " + str(path), file=sys.stderr)
    for name in missing:
        print(f"{QUESTIONS[name]} [{defaults[name]}]: ", end="", file=sys.stderr, flush=True)
        answers[name] = sys.stdin.readline().strip() or defaults[name]
    write_config(path, answers)


def _defaults() -> dict[str, str]:
    releases = load_releases(get_framework(framework_names()[0]))
    return {
        "control": releases.default_control,
        "treatment": releases.default_treatment,
        "local_reporter": str(default_reports()),
    }
