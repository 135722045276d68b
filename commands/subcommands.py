"""The subcommands of ``opduel``, and a checkout's scripts, which stand for some of them: what each takes, and does.

What measures is imported when the words have been parsed and checked: it takes a second.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name

from opduel.commands import subcommand_parsers
from opduel.commands.config import StoredAnswers
from opduel.commands.defaults import CALIBRATE, DRIVER, HARNESS, with_defaults
from opduel.commands.driver_options import driver_parser
from opduel.commands.fleet_options import FleetPart
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.launch import run_calibration, run_driver, run_harness
from opduel.commands.option_rules import refuse_options
from opduel.commands.options import Parser, harness_parser, read_options
from opduel.commands.project import OF_CHECKOUT, OF_SUITE, SAYS_WHAT, Setting, project_settings
from opduel.commands.run_bench import DESCRIPTION, run_bench, run_bench_parser
from opduel.commands.words import options_and_others, words_of_bisection, words_of_checkout, words_of_init
from opduel.records import UsageError
from opduel.records.measurement import SIDES
from opduel.reporters.options import ReporterOptions
from opduel.support.command_names import command_name

Words = Sequence[str]


@dataclass(frozen=True)
class Command:
    """A subcommand, or a script: what it does in words, what it is called with, and the functions behind it.

    ``run`` gets its name as the user called it, and the words behind that. ``main_options``: of the short help; None
    for all. ``own_help``: of options that mean something else here, by their name.
    """

    summary: str
    usage: str
    run: Callable[[str, Words], int]
    parsers: Sequence[Callable[[], Parser]]
    main_options: str | None = None
    own_help: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_run_options(self) -> bool:
        """Whether it takes the options of a run, which are too many for one help; a project's file may set them."""
        return self.main_options is not None


def _command(summary: str, usage: str, make_parser: Callable[[], Parser], function: str) -> Command:
    """Return a subcommand with options of its own, which ``function`` gets by name: one of a module of this package, as
    ``convert:convert``, which is imported when the words have been parsed."""

    def run(program: str, words: Words) -> int:
        options = vars(make_parser().parse_args(words))
        return int(resolve_name(f"opduel.commands.{function}")(**options))

    return Command(summary, usage, run, (make_parser,))


def _compare(program: str, words: Words) -> int:
    """Two builds: those of the command line, the user's or the framework's, in this order."""
    words = _named(words, SIDES)
    options = read_options(words, program)
    if options.golden is None:
        refuse_options(options, "two builds")
        if options.info is None:
            words = [*_usual(options, SIDES), *words]
    return run_harness(program, with_defaults(HARNESS, words, _settings("compare")))


def _named(words: Words, sides: Words) -> list[str]:
    """Give words without an option's name one: builds of the sides that none names, and then statements."""
    options, unnamed = options_and_others(words, harness_parser())
    open_sides = [side for side in sides if not any(option[0].partition("=")[0] == f"--{side}" for option in options)]
    for word in unnamed[: len(open_sides)]:
        if "(" in word and not os.path.lexists(word):
            raise UsageError(f"{word}: is in a build's place: before lines of Python name {' and '.join(sides)}")
    names = [*open_sides, *["statement"] * max(0, len(unnamed) - len(open_sides))]
    named = (f"--{name}={word}" for name, word in zip(names, unnamed, strict=False))
    return [*(word for option in options for word in option), *named]


def _run_commands(program: str, words: Words) -> int:
    """Two command lines, in this folder; or one, with several values of a parameter."""
    parser = subcommand_parsers.run_parser()
    options, other_words = parser.parse_known_args(words)
    compared, commands = options_and_others(other_words, harness_parser())
    for name in (option[0].partition("=")[0] for option in compared):
        if not {name, name[:2]} & harness_parser()._option_string_actions.keys():  # its value is among the commands
            parser.error(f"unrecognized arguments: {name}")
        if name in ("--control", "--treatment", "--info", "-b", "--benchmark_file"):
            raise UsageError(f"{name}: the two commands say what is measured: leave it out")
    from opduel.commands.two_commands import plan_commands

    spec, commands = plan_commands(options, commands)
    builds = [f"--{side}={command}" for side, command in zip(SIDES, commands, strict=True)]
    files = {"hyperfine": options.export_json, "csv": options.export_csv, "md": options.export_markdown}
    exports = [f"--export_reporter={form}={file}" for form, file in files.items() if file is not None]
    others = (word for option in compared for word in option)
    return _compare("opduel compare", ["-b", str(spec), *builds, *exports, *others])


def _measure(program: str, words: Words) -> int:
    """One build alone: --treatment, or the user's or the framework's."""
    words = _named(["--output_format=json" if word == "--json" else word for word in words], ["treatment"])
    options = read_options(words, program)
    options.refuse(("control", "info"), "one build alone is measured here: leave it out, or use opduel compare")
    return run_harness(program, with_defaults(HARNESS, ["--single", *_usual(options), *words], _settings("measure")))


def _settings(name: str, folder: str = ".") -> list[Setting]:
    """A project's settings of a subcommand. UsageError: the file is no good."""
    configured = [name for name, command in SUBCOMMANDS.items() if command.takes_run_options]
    return project_settings(name, configured, Path(folder))


def _usual(options: HarnessOptions, sides: Words = ("treatment",)) -> list[str]:
    """The options that name the user's own builds of these sides where a command line leaves them open."""
    answers = StoredAnswers()
    return [f"--{side}={answers[side]}" for side in sides if not options.is_given(side) and side in answers]


def _drive(program: str, arguments: Words) -> int:
    name, words = program.partition(" ")[2], list(arguments)
    settings = _settings(name)
    if name == "bisect":
        words = words_of_bisection(words)
    own = CommitOptions.of(driver_parser(program).parse_known_args(words)[0])
    if name == "bisect":
        words = [*_bisecting(own), *words]
        if own.repo_dir and not _says_what(program, words):
            words, settings = _as_local(words, settings, own.repo_dir)
    elif own.local is None and own.bisect_releases is None and own.packages is None and not own.ab_testing:
        words = ["--ab_testing", *words]
    return run_driver(program, with_defaults(DRIVER, words, settings))


def _measure_checkout(program: str, arguments: Words) -> int:
    """The work tree of a checkout, whose file may also say what is measured where the command line does not."""
    folder, words = words_of_checkout(arguments)
    parsed, _ = harness_parser(program).parse_known_args(words)
    replaced = ("statement", "setup", "suite", *(() if parsed.suite else OF_SUITE))
    replaced = replaced if _says_what(program, words) else ()
    settings = [setting for setting in _settings("local", folder) if setting.name not in replaced]
    return run_driver(program, with_defaults(DRIVER, ["--local", folder, *words], settings))


def _says_what(program: str, words: Words) -> bool:
    """Return whether options say what is measured."""
    parsed, _ = harness_parser(program).parse_known_args(words)
    return any(getattr(parsed, name) for name in SAYS_WHAT)


def _as_local(words: list[str], settings: list[Setting], folder: Path) -> tuple[list[str], list[Setting]]:
    """Return words and settings that also say what is measured in a checkout: the same as by ``opduel local``."""
    of_local = [setting for setting in _settings("local", str(folder)) if setting.name in {*OF_CHECKOUT, *OF_SUITE}]
    if not any(setting.name in SAYS_WHAT for setting in of_local):
        from opduel.commands.checkout import find_suite

        suite = find_suite(folder)
        words = [*words, *([f"--suite={suite.folder}"] if suite else [])]
    return words, [*settings, *of_local]


def _bisecting(own: CommitOptions) -> list[str]:
    """What asks for a bisection beside the commits or the releases; UsageError if neither was given."""
    if own.bisect_releases is not None or own.packages is not None:
        return []
    if own.base_commit is None or own.commit is None:
        places = "GOOD BAD, two commits of this checkout, --packages OLD NEW, or --bisect_releases OLDEST,...,NEWEST"
        raise UsageError(f"say where to look: {places}")
    return ["--ab_testing", "--regression", *([] if own.exact_base else ["--exact_base"])]


def _calibrate(program: str, words: Words) -> int:
    usual = _usual(read_options(words, program))
    return run_calibration(program, with_defaults(CALIBRATE, [*usual, *words], _settings("calibrate")))


def _list(program: str, arguments: Words) -> int:
    words = list(arguments)
    pattern = words.pop(0) if words and not words[0].startswith("-") else ""
    options = read_options(words, program) if words else None
    from opduel.commands.listing import list_cases

    return list_cases(pattern, options)


def _init(program: str, words: Words) -> int:
    options = subcommand_parsers.init_parser().parse_args(words_of_init(words, subcommand_parsers.init_parser()))
    from opduel.commands.init import InitOptions, init

    return init(InitOptions(**vars(options)))


def _send(program: str, words: Words) -> int:
    options = subcommand_parsers.send_parser().parse_args(words)
    from opduel.commands.sending import send

    return send(options.reports, ReporterOptions.of(options))


def _flush(program: str, words: Words) -> int:
    options = subcommand_parsers.flush_parser().parse_args(words)
    from opduel.commands.sending import flush

    return flush(ReporterOptions.of(options), options.work_dir, options.retry_refused, options.give_up)


def _fleet(program: str, words: Words) -> int:
    options = subcommand_parsers.fleet_parser().parse_args(words)
    from opduel.commands.fleet import run_fleet_command

    return run_fleet_command(FleetPart(**vars(options)))


def _serve(program: str, words: Words) -> int:
    from opduel.server.__main__ import start

    return start([*(["serve"] if program.endswith(" serve") else []), *words], "opduel server")


_COMPARED = (
    "benchmark_file control treatment statement setup suite operators category dtype ctx directions metric threshold "
    "time_budget max_rounds verify busy_host seed json local_reporter html_reporter export_reporter remote_reporter "
    "notify_webhook github gitlab"
)
_OF_HARNESS, _OF_DRIVER = (harness_parser,), (driver_parser, harness_parser)
# In the order in which the help shows them.
SUBCOMMANDS: Mapping[str, Command] = {
    "compare": Command(
        "measure two builds against each other",
        "BUILD BUILD {[-s SETUP] STATEMENT... | --suite SUITE | -b SPEC} [OPTIONS]",
        _compare,
        _OF_HARNESS,
        _COMPARED,
    ),
    "run": Command(
        "measure two command lines against each other",
        "COMMAND COMMAND [--prepare COMMAND] [-P NAME MIN MAX | -L NAME A,B,...] [OPTIONS OF opduel compare]",
        _run_commands,
        (subcommand_parsers.run_parser,),
    ),
    "measure": Command(
        "measure one build alone",
        "-b SPEC --treatment BUILD [OPTIONS]",
        _measure,
        _OF_HARNESS,
        "benchmark_file treatment operators category dtype ctx directions rounds warmup runs profiler output_format "
        "output_file baseline threshold golden seed",
    ),
    "local": Command(
        "measure your package as it is now against where it left the main branch",
        "[PATH] {[-s SETUP] STATEMENT... | [--suite SUITE] [--bench REGEX] | -b SPEC} [OPTIONS]",
        _measure_checkout,
        _OF_DRIVER,
        "statement setup suite bench benchmark_file branch remote_repository base_commit metric threshold time_budget "
        "with_packages regression github gitlab json local_reporter html_reporter again dry_run",
        {
            "branch": "the remote's branch that yours left (default: its default branch)",
            "remote_repository": "the name of the remote of that branch (default: upstream, origin or the only one)",
            "base_commit": "the control: commit, tag or branch (default: where yours left the remote's branch)",
            "time_budget": "measure for at most this long, with --regression in each comparison; cases that are still "
            "open are reported as inconclusive (default: 180 for a suite or lines of Python, no limit for a spec)",
        },
    ),
    "init": Command(
        "write the settings and the workflow by which a package is measured",
        "[FOLDER] [[-s SETUP] STATEMENT...] [--ci {github,gitlab,none}] [--dry_run]",
        _init,
        (subcommand_parsers.init_parser,),
    ),
    "drive": Command(
        "measure the commits of a repository, once or continuously",
        "-b SPEC [OPTIONS]",
        _drive,
        _OF_DRIVER,
        "benchmark_file repo_dir remote_repository branch commit base_commit interval regression improved work_dir "
        "operators time_budget local_reporter remote_reporter notify_webhook dry_run",
    ),
    "bisect": Command(
        "find the commit, the release, or the package of an environment, that caused a change",
        "{GOOD [BAD] | --packages OLD NEW | --bisect_releases A,B,...} "
        "{[-s SETUP] STATEMENT... | [--suite SUITE] [--bench REGEX] | -b SPEC} [OPTIONS]",
        _drive,
        _OF_DRIVER,
        "packages bisect_releases base_commit commit statement setup suite benchmark_file repo_dir remote_repository "
        "operators improved time_budget "
        "work_dir local_reporter",
    ),
    "calibrate": Command(
        "find out which changes this machine can detect",
        "[-b SPEC] [OPTIONS]",
        _calibrate,
        _OF_HARNESS,
        "benchmark_file treatment operators threshold time_budget max_rounds local_reporter",
    ),
    "list": Command(
        "list all cases", "[PATTERN] [OPTIONS OF opduel compare]", _list, (subcommand_parsers.list_parser,)
    ),
    "spec-from": _command(
        "write a spec of the operator calls of a network",
        "NETWORK [OPTIONS]",
        subcommand_parsers.spec_from_parser,
        "networks:write_spec_from",
    ),
    "conformance": _command(
        "test whether a framework keeps what opduel relies on",
        "-b SPEC --control BUILD [OPTIONS]",
        subcommand_parsers.conformance_parser,
        "conformance:run_conformance",
    ),
    "convert": _command(
        "write a report in the format of another tool",
        "REPORT --to FORMAT [OPTIONS]",
        subcommand_parsers.convert_parser,
        "convert:convert",
    ),
    "explain": _command(
        "say why a case of a report changed",
        "REPORT [CASE] [OPTIONS]",
        subcommand_parsers.explain_parser,
        "explain:explain",
    ),
    "send": Command(
        "send reports on disk to a results server",
        "REPORT ... --remote_reporter PLACE [OPTIONS]",
        _send,
        (subcommand_parsers.send_parser,),
    ),
    "flush": Command(
        "send the reports that wait for a results server", "[OPTIONS]", _flush, (subcommand_parsers.flush_parser,)
    ),
    "fleet": Command(
        "run the parts of a fleet of measuring hosts: worker, scheduler, certificates",
        "SUBCOMMAND [OPTIONS]",
        _fleet,
        (subcommand_parsers.fleet_parser,),
    ),
    "serve": Command("start the results server", "[OPTIONS]", _serve, ()),
    "server": Command("manage the results server: migrate, token, alert, run", "SUBCOMMAND [OPTIONS]", _serve, ()),
    "python": _command(
        "run Python in a build's environment, with opduel importable",
        "[--framework NAME] BUILD [SCRIPT | -c CODE] ...",
        subcommand_parsers.python_parser,
        "in_build:run",
    ),
    "completion": _command(
        "print a completion script for a shell",
        "SHELL",
        subcommand_parsers.completion_parser,
        "completion:print_completion",
    ),
}
# With AI-PEP's names and defaults: a project's settings, and the config's default arguments, have no say.
SCRIPTS: Mapping[str, Command] = {
    "harness.py": Command(
        "measure two builds of a framework against each other on the cases of a spec, or with --single one build "
        "alone. A build that is not given is the one that is configured, or else the framework's default",
        "BUILD BUILD {[-s SETUP] STATEMENT... | --suite SUITE | -b SPEC} [OPTIONS]",
        run_harness,
        _OF_HARNESS,
        f"{_COMPARED} rounds output_format output_file",
    ),
    "repo_driver.py": Command(
        "pull a framework's repository, build a control and a treatment commit, and measure them against each other, "
        "once or continuously",
        "--ab_testing -b SPEC [OPTIONS], or --local [PATH], or --bisect_releases A,B,..., or --packages OLD NEW",
        run_driver,
        _OF_DRIVER,
        "benchmark_file ab_testing local bisect_releases packages repo_dir remote_repository branch commit base_commit "
        "interval regression improved work_dir operators time_budget local_reporter remote_reporter notify_webhook "
        "dry_run",
    ),
    "run_bench.py": Command(
        " ".join(DESCRIPTION.split()),
        "-b SPEC [OPTIONS]",
        lambda program, words: run_bench(words, lambda name, words: SUBCOMMANDS[name].run(command_name(name), words)),
        (run_bench_parser,),
    ),
}
COMMANDS = {**SUBCOMMANDS, **SCRIPTS}
