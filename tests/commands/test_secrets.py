"""A secret given on the command line, or in the environment, is in nothing that is stored, sent to a results server or
logged: every option of every parser, and every byte that comes of it."""

import contextlib
import itertools
import json
import logging
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
import report_samples as samples
from command_line import harness_main, write_spec
from hook_server import Answer, HookServer
from results_server import REPORTS, running_server

from opduel.commands.driver_log import logging_to
from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.notifying import Notifications
from opduel.commands.options import harness_parser, read_options
from opduel.commands.recorded_options import KEPT_OPTIONS, recorded
from opduel.commands.run_bench import run_bench_parser
from opduel.commands.session import deliver_report, plan_session
from opduel.commands.subcommand_parsers import spec_from_parser
from opduel.commands.suite_selection import suite_of_driver
from opduel.driver.git.access import TOKEN_VARIABLE
from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome
from opduel.records import Failure, RunConfiguration, UsageError
from opduel.reporters.document import to_bytes
from opduel.reporters.formats import FORMATS
from opduel.reporters.notifier import Notifier
from opduel.reporters.remote.reporter import RemoteReporter
from opduel.reporters.reproduce import reproduction

MARKER = "M4rk3rSecret"
DISGUISES = (  # as a secret can stand within a value that is kept
    f"https://user:{MARKER}@host/x",
    f"https://host/x?private_token={MARKER}",
    f"-DAPI_TOKEN={MARKER}",
    f"Authorization: Bearer {MARKER}",
)


def options_with_values() -> list[str]:
    """Every spelling of every option that takes a value, of every parser."""
    parsers = (harness_parser(), driver_parser(), run_bench_parser(), spec_from_parser())
    actions = [action for parser in parsers for action in parser._actions if action.nargs != 0]
    return sorted({name for action in actions for name in action.option_strings})


def spellings(option: str, value: str) -> Iterator[list[str]]:
    """The ways in which the option can be given the value."""
    yield [option, value]
    yield [option, value, value]
    yield [f"{option}={value}"] if option.startswith("--") else [f"{option}{value}"]


def test_there_are_options_to_look_at() -> None:
    assert len(options_with_values()) > 60
    unknown = KEPT_OPTIONS - set(options_with_values())
    assert not unknown, "an option that is gone needs no place in the list"


@pytest.mark.parametrize("option", options_with_values())
def test_no_option_keeps_a_secret(option: str) -> None:
    values = DISGUISES if option in KEPT_OPTIONS else (MARKER, *DISGUISES)
    for value, other_words in itertools.product(values, ([], ["-b", "smoke"])):
        for words in spellings(option, value):
            command = recorded("harness.py", [*other_words, *words, *other_words])
            assert MARKER not in "\n".join(command)
            assert command[1 : 1 + len(other_words)] == other_words, "what is harmless can still be read"
            report = samples.report(command=command)
            ways = reproduction(report)
            assert MARKER not in ways.here + ways.anywhere


@pytest.mark.parametrize(
    "option", ["--notify_command", "--notify_webhook", "--remote_access_token", "--remote_reporter", "--info"]
)
def test_what_may_be_a_secret_as_a_whole_is_not_kept(option: str) -> None:
    assert option not in KEPT_OPTIONS


def test_a_new_option_is_masked_until_somebody_says_that_it_is_harmless() -> None:
    assert recorded("harness.py", ["--env", f"A={MARKER}", f"--new={MARKER}"]) == [
        *("harness.py", "--env", "***", "--new=***")
    ]


def test_a_configuration_has_no_field_for_what_may_be_a_secret() -> None:
    kept_names = {option.removeprefix("--") for option in KEPT_OPTIONS}
    switches = {action.dest for action in harness_parser()._actions if action.nargs in (0, "?")}
    assert {config_field.name for config_field in fields(RunConfiguration)} - kept_names - switches == {
        *("build_program", "env", "command_args", "string_map")
    }
    options = read_options(["--env", f"MINE={MARKER}", "--notify_command", MARKER, "--info", MARKER])
    assert MARKER not in str(options.configuration())


@pytest.mark.usefixtures("nothing_masked")
def test_a_program_s_variables_and_arguments_are_in_no_report(tmp_path: Path) -> None:
    variables, spec = {"API_TOKEN": f"{MARKER}-1", "MODE": f"{MARKER}-2"}, tmp_path / "own.json"
    test = {"command": ["{program}", "{token}"], "env": variables, "identifier": "it"}
    spec.write_text(json.dumps({"framework": "generic", "tests": [test]}), encoding="utf-8")
    arguments = ["-b", str(spec), "--string_map", json.dumps({"token": f"{MARKER}-3"})]
    arguments += ["--command_args", f"--fast --token {MARKER}-4 --api_key={MARKER}-5"]
    session = plan_session(read_options(arguments), {}, recorded("harness.py", arguments))
    (case,) = session.cases
    assert MARKER in str(case.inputs["command"]), "the program itself is given it"
    assert case.inputs["env"] == variables
    configuration = asdict(session.configuration)
    report = samples.report([samples.comparison(case.id)], **asdict(session.labels), configuration=configuration)
    report = replace(report, cases=session.cases).without_secrets()
    ways = reproduction(report)
    assert MARKER not in to_bytes(report).decode() + ways.here + ways.of(report.comparisons[0])
    assert report.cases[0].inputs["command"] == ["{program}", "***", "--fast", "--token", "***", "--api_key=***"]
    printed = Failure("control", "error", f"bad token {MARKER}-1 {MARKER}-2 {MARKER}-3 {MARKER}-4 {MARKER}-5")
    assert printed.reason == "bad token *** *** *** *** ***"


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of somebody who has secrets."""
    for name in ("OPDUEL_GIT_TOKEN", "CI_JOB_TOKEN", "DB_PASSWORD", "SOME_API_KEY"):
        monkeypatch.setenv(name, f"{MARKER}-{name.lower()}")
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("home", "secrets")
def test_no_byte_that_is_stored_or_sent_holds_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every reporter, a results server, the driver's journal and its log; notifiers run, and fail with output."""
    caplog.set_level(logging.INFO)
    storage = tmp_path / "kept"
    # The program repeats its arguments and its input, as curl -v does, and fails.
    failing = shlex.join(["sh", "-c", 'echo "failed: $*"; exit 7', "sh", f"X-Key: {MARKER}", f"{MARKER}-alone"])
    (tmp_path / "server").mkdir()
    with contextlib.ExitStack() as stack:
        server, hook = stack.enter_context(running_server(tmp_path / "server")), stack.enter_context(HookServer())
        answer = {"detail": f"no place for what {server.write_token} sent"}  # it repeats what it was sent
        refusing = stack.enter_context(HookServer(Answer(400, body=json.dumps(answer).encode())))
        arguments = [
            *("-b", write_spec(tmp_path), "--user_identifier", f"nightly https://me:{MARKER}@host/"),
            *("--operators", "exp", "--notify_unverified", "--notify_command", failing),
            *(
                "--notify_webhook",
                hook.url(f"services/{MARKER}"),
            ),
            *("--remote_access_token", server.write_token, "--remote_reporter", f"{server.url}{REPORTS}|nightly"),
            *("--spool", str(storage / "spool")),
            *(
                "--simple_local_reporter",
                str(storage),
                "--local_reporter",
                str(storage / "local"),
                "--simple_screen_reporter",
            ),
            *("--html_reporter", str(storage / "page.html"), "--screen_reporter", *exports(storage)),
        ]
        options = read_options(arguments)
        with logging_to(storage / "driver.log"):
            session = plan_session(options, {}, recorded("harness.py", arguments))
            configuration = asdict(session.configuration)
            reason = f"git: https://me:{MARKER}@host/ is gone"
            labels = asdict(session.labels)
            report = samples.report(**labels, configuration=configuration, stop_reason=reason).without_secrets()
            second = read_options([*arguments, "--remote_reporter", f"{refusing.url('reports')}|nightly"]).reporting
            second = replace(second, remote_reporter=second.remote_reporter[1:])  # a token is for one server
            deliver_report([*session.reporters, *RemoteReporter.from_options(second)], report)
            journal = Journal(storage / "journal.db")
            notifiers = [reporter for reporter in session.reporters if isinstance(reporter, Notifier)]
            Notifications(journal, session.reporters, notifiers).report_outcome(Outcome(report), None)
            journal.record_trouble("item", f"fetching https://me:{MARKER}@host/ failed")
            journal.note("remote gone", f"Authorization: Bearer {MARKER}")
        assert len(hook.posts) == 2
        written = [path for folder in (storage, tmp_path / "server") for path in folder.rglob("*") if path.is_file()]
        names = {path.name for path in written}
        assert names > {"report.json", "report.html", "page.html", "journal.db", "driver.log", "results.sqlite"}
        assert "outbox.db" in {path.name for path in written}, "the report that was refused waits in the spool"
        output = "".join(capsys.readouterr()) + caplog.text
        assert "ended in 7" in output
        assert "no place for what" in output
        for secret in (MARKER, server.write_token):
            assert not [path for path in written if secret.encode() in path.read_bytes()]
            assert secret not in output


def exports(folder: Path) -> list[str]:
    """``--export_reporter`` for every format."""
    names = {name: "{side}." if FORMATS[name].sides == "one" else "" for name in FORMATS}
    return [word for name, side in names.items() for word in ("--export_reporter", f"{name}={folder}/{side}{name}")]


@pytest.mark.usefixtures("home", "secrets")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--remote_acces_token", MARKER],
        [f"--remote_acces_token={MARKER}", "-b", "smoke"],
        ["-b", f"https://me:{MARKER}@host/x"],
        ["-b", "smoke", "--control", f"https://me:{MARKER}@host/x", "--treatment", "x"],
        ["-b", "smoke", "--notify_command", f'curl -H "X: {MARKER}'],
        ["-b", "smoke", "--notify_webhook", f"ftp://host/{MARKER}"],
        ["-b", "smoke", "--remote_reporter", f"me:{MARKER}@host/x|y"],
        ["-b", "smoke", "--remote_access_token", f"{MARKER} {MARKER}", "--remote_reporter", "host/x|y"],
    ],
)
def test_no_error_shows_a_secret(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_main(arguments) == 2
    captured = capsys.readouterr()
    assert MARKER not in captured.out + captured.err


@pytest.mark.parametrize(
    ("repository", "options", "is_refused"),
    [
        ("https://theirs.example/x.git", [], True),
        ("https://theirs.example/x.git", ["--remote_repository", "https://theirs.example/x.git"], False),
        ("..", [], False),
    ],
)
def test_a_suites_configuration_sends_no_git_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str, options: list[str], is_refused: bool
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, MARKER)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "one.py").write_text("def time_it(): pass\n")
    (tmp_path / "asv.conf.json").write_text(json.dumps({"project": "x", "repo": repository}))
    words = ["--ab_testing", "--suite", str(tmp_path), *options]
    refused = pytest.raises(UsageError, match=r"would go to https://theirs\.example, which asv\.conf\.json names")
    with refused if is_refused else contextlib.nullcontext():
        suite_of_driver(parse_driver_options(words))
