"""The subcommands of ``opduel``: each is one of the scripts' commands, with a project's settings before its options."""

import argparse
import logging
from collections.abc import Callable, Mapping, Sequence

from opduel.commands.config import StoredAnswers, config_path
from opduel.commands.defaults import CALIBRATE, DRIVER, HARNESS, with_defaults
from opduel.commands.driver_options import driver_parser
from opduel.commands.entry import run_command
from opduel.commands.fleet import run_fleet_command
from opduel.commands.harness import run_harness
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.in_build import run as run_in_build
from opduel.commands.option_rules import refuse_options
from opduel.commands.options import read_options
from opduel.commands.project import Setting, project_settings, resolve_setting
from opduel.commands.subcommand_parsers import (
    CONFIGURED,
    completion_parser,
    convert_parser,
    explain_parser,
    flush_parser,
    merged_parser,
    network_parser,
    send_parser,
    whole_parser,
)
from opduel.records import UsageError
from opduel.records.measurement import SIDES


def run_subcommand(name: str, arguments: Sequence[str]) -> int:
    """Run a subcommand of ``opduel.commands.subcommand_names.SUBCOMMANDS``; returns its exit code."""
    if name == "python":  # its options end at the build: all others are the script's
        return run_command("opduel python", lambda: run_in_build(arguments, "opduel python"))
    remaining, level = _without_level(arguments)
    if name in ("serve", "server"):
        return _server(name, remaining)
    if "--help-all" in remaining and name in CONFIGURED:
        return run_command(f"opduel {name}", lambda: _help(name), level)
    actions: Mapping[str, Callable[[Sequence[str]], int]] = {
        "compare": _compare,
        "measure": _measure,
        "local": lambda words: _drive("local", words),
        "drive": lambda words: _drive("drive", words),
        "bisect": lambda words: _drive("bisect", words),
        "calibrate": _calibrate,
        "list": _list,
        "spec-from": _spec_from,
        "conformance": _conformance,
        "convert": _convert,
        "explain": _explain,
        "fleet": run_fleet_command,
        "send": _send,
        "flush": _flush,
        "completion": _completion,
    }
    return run_command(f"opduel {name}", lambda: actions[name](remaining), level)


def _without_level(arguments: Sequence[str]) -> tuple[list[str], int]:
    """The arguments without -q and -v, and the level of the messages that are shown."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    levels, remaining = [], []
    for word in arguments:
        levels_of_word, unparsed = parser.parse_known_args([word])
        levels += [logging.WARNING] * levels_of_word.quiet + [logging.DEBUG] * levels_of_word.verbose
        remaining += unparsed
    return remaining, levels[-1] if levels else logging.INFO


def _settings(name: str) -> tuple[list[Setting], dict[str, str]]:
    """A project's settings of a subcommand but for its builds; and the builds, by side, of which the user's own answers
    override the project's. UsageError: the file is no good."""
    settings = project_settings(name, CONFIGURED)
    builds: dict[str, str] = {}
    for setting in settings:
        if setting.name in SIDES:
            value = resolve_setting(setting, is_path=False)
            if not isinstance(value, str) or not value:
                raise UsageError(f"{setting.where}: give a release, such as NAME==VERSION, or a path")
            builds.setdefault(setting.name, value)
    answers = StoredAnswers(config_path())
    builds.update({side: answers[side] for side in SIDES if side in answers})
    return [setting for setting in settings if setting.name not in SIDES], builds


def _usual(options: HarnessOptions, builds: Mapping[str, str], sides: Sequence[str] = ("treatment",)) -> list[str]:
    """The options that name the builds of these sides that a command line leaves open."""
    return [f"--{side}={builds[side]}" for side in sides if not options.is_given(side) and side in builds]


def _compare(arguments: Sequence[str]) -> int:
    """Two builds: those of the command line, the user's, the project's or the framework's, in this order."""
    words = _json_by_its_format(arguments)
    options = read_options(words, "opduel compare")
    settings, builds = _settings("compare")
    if options.golden is None:
        refuse_options(options, "two builds")
        if options.info is None:
            words = [*_usual(options, builds, SIDES), *words]
    return run_harness(with_defaults(HARNESS, words, settings), "opduel compare")


def _json_by_its_format(arguments: Sequence[str]) -> list[str]:
    """``--output-format json``, as other tools have it, is ``--json`` where two builds are compared."""
    words = list(arguments)
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("--output-format", "--output_format", "-f"):
            form = value if equals else "".join(words[place + 1 : place + 2])
            if form == "json":
                return [*words[:place], "--json", *words[place + (1 if equals else 2) :]]
    return words


def _measure(arguments: Sequence[str]) -> int:
    """One build alone: --treatment, or the user's, the project's or the framework's."""
    words = ["--output_format=json" if word == "--json" else word for word in arguments]
    options = read_options(words, "opduel measure")
    for name in ("control", "info"):
        if options.is_given(name):
            raise UsageError(f"--{name}: one build alone is measured here: leave it out, or use opduel compare")
    settings, builds = _settings("measure")
    words = ["--single", *_usual(options, builds), *words]
    return run_harness(with_defaults(HARNESS, words, settings), "opduel measure")


def _drive(name: str, arguments: Sequence[str]) -> int:
    from opduel.commands.repo_driver import run_driver  # most runs don't need it, and its imports take their time

    settings, _ = _settings(name)
    words = list(arguments)
    parser = driver_parser()
    parser.prog = f"opduel {name}"
    parsed, _remaining = parser.parse_known_args(words)
    own = CommitOptions.of(parsed)
    if name == "local" and own.local is None:
        place = [words.pop(0)] if words and not words[0].startswith("-") else ["."]
        words = ["--local", *place, *words]
    elif name == "bisect":
        words = [*_bisecting(own), *words]
    elif own.local is None and own.bisect_releases is None and not own.ab_testing:
        words = ["--ab_testing", *words]
    return run_driver(with_defaults(DRIVER, words, settings), f"opduel {name}")


def _bisecting(own: CommitOptions) -> list[str]:
    """What asks for a bisection beside the commits or the releases; UsageError if neither was given."""
    if own.bisect_releases is not None:
        return []
    if own.base_commit is None or own.commit is None:
        raise UsageError(
            "say where to look: --bisect_releases A,B,..., the oldest first, or --base_commit GOOD --commit BAD"
        )
    return ["--ab_testing", "--regression", *([] if own.exact_base else ["--exact_base"])]


def _calibrate(arguments: Sequence[str]) -> int:
    from opduel.commands.calibrate import calibrate

    settings, builds = _settings("calibrate")
    usual = _usual(read_options(arguments, "opduel calibrate"), builds)
    return calibrate(with_defaults(CALIBRATE, [*usual, *arguments], settings))


def _list(arguments: Sequence[str]) -> int:
    from opduel.commands.listing import list_cases

    words = list(arguments)
    pattern = words.pop(0) if words and not words[0].startswith("-") else ""
    return list_cases(pattern, read_options(words, "opduel list") if words else None)


def _spec_from(arguments: Sequence[str]) -> int:
    from opduel.commands.spec_from import write_spec_from

    return write_spec_from(arguments, network_parser())


def _conformance(arguments: Sequence[str]) -> int:
    from opduel.commands.conformance import conformance_parser, run_conformance

    return run_conformance(arguments, conformance_parser())


def _convert(arguments: Sequence[str]) -> int:
    from opduel.commands.convert import convert

    options = convert_parser().parse_args(list(arguments))
    return convert(options.report, options.to, options.side, options.output)


def _explain(arguments: Sequence[str]) -> int:
    from opduel.commands.explain import explain

    options = explain_parser().parse_args(list(arguments))
    return explain(options.report, options.case, options.json)


def _send(arguments: Sequence[str]) -> int:
    from opduel.commands.sending import send

    options, remaining = send_parser().parse_known_args(list(arguments))
    return send(options.reports, remaining)


def _flush(arguments: Sequence[str]) -> int:
    from opduel.commands.sending import flush

    options, remaining = flush_parser().parse_known_args(list(arguments))
    return flush(remaining, options.retry_refused, options.give_up or ())


def _server(name: str, arguments: Sequence[str]) -> int:
    from opduel.server.__main__ import start

    return start([*(["serve"] if name == "serve" else []), *arguments], "opduel server")


def _completion(arguments: Sequence[str]) -> int:
    import shtab

    from opduel.reporters.stream import print_result

    options = completion_parser().parse_args(list(arguments))
    print_result(shtab.complete(whole_parser(), options.shell))
    return 0


def _help(name: str) -> int:
    """All options of a subcommand."""
    parser = merged_parser(name)
    parser.prog, parser.usage = f"opduel {name}", "%(prog)s [OPTIONS]"
    parser.print_help()
    return 0
