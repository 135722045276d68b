"""The command ``opduel``: which command of the scripts a subcommand becomes, its help, its messages."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from command_line import RELEASE, ROOT, SAME_BUILD, Outcome, fresh_logging

from opduel import __version__
from opduel.commands import help, in_build, opduel, subcommand_parsers, subcommands
from opduel.commands.config import config_path, write_config
from opduel.commands.local import BUDGET_S
from opduel.commands.subcommands import COMMANDS, SCRIPTS, SUBCOMMANDS
from opduel.driver.builds import BuildCache
from opduel.frameworks import Framework
from opduel.records import Build, UsageError
from opduel.support.command_names import command_name, named_for

Call = Callable[..., Outcome]
BISECTED = "--ab_testing --regression --exact_base"
STATED = "--statement=f(1)"


@pytest.fixture
def call(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call ``opduel.main`` in an empty folder."""
    (home / "empty").mkdir()
    monkeypatch.chdir(home / "empty")

    def run(*arguments: str) -> Outcome:
        with fresh_logging():
            try:
                code = opduel.main(arguments)
            except SystemExit as end:  # after the server's --help
                code = int(end.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the subcommands hand to harness.py's and repo_driver.py's commands."""
    command_lines: list[list[str]] = []

    def note(program: str, words: list[str]) -> int:
        command_lines.append(list(words))
        return 0

    for name in ("run_harness", "run_driver"):
        monkeypatch.setattr(subcommands, name, note)
    return command_lines


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("compare -b s --control a --treatment b -q", "-b s --control a --treatment b"),
        ("compare -b s", "-b s"),
        ("compare --env A=1 B=2 x==1 y -b s", "--env A=1 B=2 -b s --control=x==1 --treatment=y"),
        ("measure -b s --treatment a --json", "--single -b s --treatment a --output_format=json"),
        ("drive -b s -v", "--ab_testing -b s"),
        ("drive -b s --bisect_releases a,b", "-b s --bisect_releases a,b"),
        ("local /x -b s", "--local /x -b s"),
        ("local -b s", "--local . -b s"),
        ("bisect -b s --bisect_releases a,b", "-b s --bisect_releases a,b"),
        ("bisect --packages a b -s c d e", "--packages a b -s c --statement=d --statement=e"),
        ("bisect -b s --base_commit a --commit b", f"{BISECTED} -b s --base_commit a --commit b"),
        ("bisect -b s --repo_dir r a b", f"{BISECTED} --base_commit=a --commit=b -b s --repo_dir r"),
        ("bisect --repo_dir r a f(1)", f"{BISECTED} --base_commit=a --commit=HEAD --repo_dir r --statement=f(1)"),
        ("bisect --repo_dir r --base_commit a b f(1)", f"{BISECTED} --commit=b --repo_dir r --base_commit a {STATED}"),
    ],
)  # fmt: skip
def test_a_subcommand_is_a_command_of_the_scripts(
    call: Call, handed: list[list[str]], words: str, expected: str
) -> None:
    assert call(*words.split()).code == 0
    assert handed == [expected.split()]


@pytest.mark.parametrize("configured", [False, True])
def test_a_bisection_in_a_checkout_measures_what_local_does(
    call: Call, handed: list[list[str]], configured: bool
) -> None:
    top = Path.cwd()
    (top / ".git").mkdir()
    (top / "suites" / "own").mkdir(parents=True)
    (top / "suites" / "asv.conf.json").write_text("{}")
    if configured:
        (top / "opduel.toml").write_text('[local]\nsuite = "suites/own"\nbench = ["sorts"]\n')
    assert call("bisect", "v1", "v2").code == 0
    (words,) = handed
    assert f"--repo_dir={top}" in words
    chosen = {word for word in words if word.startswith(("--suite", "--bench"))}
    assert chosen == (
        {f"--suite={top / 'suites' / 'own'}", "--bench=sorts"} if configured else {f"--suite={top / 'suites'}"}
    )
    call("bisect", "v1", "v2", "f(1)")
    assert not [word for word in handed[-1] if word.startswith(("--suite", "--bench"))]


def test_commits_by_position_are_of_a_checkout(call: Call) -> None:
    line = call("bisect", "v1", "v2", "f(1)").error_line()
    assert "v1: no checkout holds this folder: call it in one, or add --repo_dir" in line


def test_one_build_is_compared_with_the_control_that_is_configured(call: Call, handed: list[list[str]]) -> None:
    assert call("compare", "-b", "s", "--treatment", "mine").code == 0
    assert handed.pop() == ["-b", "s", "--treatment", "mine"], "harness.py takes the framework's own control"
    write_config(config_path(), {"control": "ours", "treatment": "other"})
    call("compare", "-b", "s", "--treatment", "mine")
    assert handed.pop() == ["--control=ours", "-b", "s", "--treatment", "mine"]
    call("measure", "-b", "s")
    assert handed.pop() == ["--single", "--treatment=other", "-b", "s"]


def test_two_builds_are_compared_and_no_option_changes_that(call: Call) -> None:
    line = call("compare", "-b", "smoke", "--treatment", RELEASE, "--rounds", "2").error_line()
    assert "--rounds: only applies to one build alone" in line


def test_what_measures_one_build_refuses_a_control(call: Call) -> None:
    line = call("measure", "-b", "smoke", "--control", RELEASE, "--treatment", RELEASE).error_line()
    assert "--control: one build alone is measured here" in line


def test_messages_name_subcommands_and_not_the_scripts(call: Call) -> None:
    assert "see opduel compare --help" in call("compare", "--frobnicate").error_line()
    assert "opduel list shows all" in call("compare", "-b", "nothing-like-it").error_line()
    for wrong in ("compare --frobnicate", "drive -b smoke --step x", "convert x --to nothing"):
        assert ".py" not in call(*wrong.split()).error_line()
    assert ".py" not in call("list", "nothing-like-it", "-b", "smoke").error_line()


def test_a_wrong_subcommand_has_a_similar_one(call: Call) -> None:
    assert "did you mean compare?" in call("compair").error_line()


def test_the_version(call: Call) -> None:
    assert call("--version") == Outcome(0, f"opduel {__version__}\n", "")


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.takes_run_options])
def test_the_short_help_shows_options_that_exist(name: str) -> None:
    actions = {action.dest: action for parser in help.parsers_of(name) for action in parser._actions}
    dests = (COMMANDS[name].main_options or "").split()
    text = help.short_help(name)
    assert all(any(option in text for option in actions[dest].option_strings) for dest in dests)


def test_all_help_has_every_option(call: Call) -> None:
    assert "--time_budget SECONDS" in call("compare", "--help").out
    assert "--wipe_cache" not in call("compare", "-h").out
    assert "--wipe_cache" in call("compare", "--help-all").out
    assert "--bisect_releases" in call("drive", "--help-all").out


def test_each_part_of_a_fleet_and_of_the_server_has_a_help_of_its_own(call: Call) -> None:
    for option in ("-h", "--help", "--help-all"):
        assert "--before_run COMMAND" in call("fleet", "worker", option).out
        assert "--dashboard PORT" in call("fleet", "scheduler", option).out
        assert "--days N" in call("fleet", "certificates", option).out
        assert "be a measuring host" in call("fleet", option).out
        assert "--port PORT" in call("serve", option).out
        assert "--expires DAYS" in call("server", "token", "add", option).out


def test_the_help_of_local_has_its_own_defaults(call: Call) -> None:
    for option in ("--help", "--help-all"):
        text = " ".join(call("local", option).out.split())
        assert f"(default: {BUDGET_S:.0f} for a suite or lines of Python, no limit for a spec)" in text
        assert "(default: upstream, origin or the only one)" in text
        assert "(default: where yours left the remote's branch)" in text
        assert "UTC" not in text
    assert "UTC" in call("drive", "--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_an_installed_opduel_names_no_script_and_no_page(call: Call, name: str) -> None:
    """What its user hasn't got. The scripts, of a checkout, name themselves."""
    if name in SCRIPTS:
        assert "docs/" not in help.short_help(name)
        return
    texts = [call(name, "--help").out]
    texts += [call(name, "--help-all").out] if COMMANDS[name].takes_run_options else []
    for text in texts:
        assert "Usage: " in text.replace("usage", "Usage")
        assert not re.search(r"(harness|run_bench|repo_driver)\.py|docs/|\.venv|make setup", " ".join(text.split()))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("list no-such-case -b smoke", "opduel list: error: nothing matches 'no-such-case'"),
        ("send report.json", "opduel send: error: add --remote_reporter"),
        ("spec-from", "are required: NETWORK; see opduel spec-from --help"),
        ("python", "are required: BUILD"),
    ],
)
def test_messages_are_about_what_was_given(call: Call, words: str, expected: str) -> None:
    assert expected in call(*words.split()).error_line()


def test_options_behind_a_build_are_those_of_the_script(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(in_build, "run", lambda framework, build, arguments: calls.append([build, *arguments]) or 0)
    call("python", RELEASE, "script.py", "-v", "-q", "--help")
    assert calls == [[RELEASE, "script.py", "-v", "-q", "--help"]]


@pytest.mark.parametrize(
    ("options", "framework"),
    [(["numpy==2.2.6"], "python"), ([RELEASE], "mxnet"), (["--framework", "torch", "numpy==2.2.6"], "torch")],
)
def test_python_runs_in_a_build_of_the_framework_that_its_name_says(
    call: Call, monkeypatch: pytest.MonkeyPatch, options: list[str], framework: str
) -> None:
    names: list[str] = []

    def note(build: str, build_framework: Framework, cache: BuildCache) -> Build:
        names.append(build_framework.name)
        raise UsageError("noted")

    monkeypatch.setattr(in_build, "resolve_build", note)
    assert call("python", *options).code == 2
    assert names == [framework]


def test_without_its_extra_the_server_says_so_in_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opduel.server.command_line", None)
    for arguments in (["serve"], ["serve", "--help"], ["server", "token", "list"]):
        outcome = call(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert re.fullmatch(r"opduel server: error: .*pip install 'opduel\[server\]'\n", outcome.err)
    assert "serve" in call("completion", "bash").out


HEAVY = ("numpy", "scipy", "pydantic", "rich", "requests", "jinja2", "git", "distributed", "yaml", "psutil")
HEAVY_PACKAGES = ("harness.run", "harness.specs.model", "driver.builds", "driver.git", "reporters.registry")
# Runs each command line of its arguments, JSON lists of a script and words, in a fork of this one interpreter.
FORKING_CODE = f"""
import json, os, sys
from opduel.commands.opduel import main
for argument in sys.argv[1:]:
    script, *words = json.loads(argument)
    reading, writing = os.pipe()
    if not os.fork():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(writing, 2)
        code = main(words, script or None)
        loaded = {{*{HEAVY}, *("opduel." + name for name in {HEAVY_PACKAGES})}} & set(sys.modules)
        sys.stderr.flush()
        os.write(2, f"{{sorted(loaded)}} loaded".encode() if loaded else b"")
        os._exit(code)
    os.close(writing)
    errors = open(reading).read()
    code = os.waitstatus_to_exitcode(os.wait()[1])
    print(json.dumps([code, errors]))
"""


def codes_and_errors(command_lines: Sequence[tuple[str, str]]) -> list[tuple[int, str]]:
    """Return the exit code and the errors of each script's command line; the errors end in what it has loaded, if that
    is what measures."""
    words = [json.dumps([script, *words.split()]) for script, words in command_lines]
    command = [sys.executable, "-c", FORKING_CODE, *words]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in process.stdout.splitlines()]


def test_help_loads_nothing_that_measures() -> None:
    """numpy and the others take a second; what they would be needed for is not known yet."""
    subcommands_with_help = [name for name, command in SUBCOMMANDS.items() if command.parsers]
    command_lines = [
        ("", words) for words in ("--help", "--version", *(f"{name} -h" for name in subcommands_with_help))
    ]
    outcomes = codes_and_errors(command_lines)
    assert dict(zip(command_lines, outcomes, strict=True)) == dict.fromkeys(command_lines, (0, ""))


def test_wrong_usage_is_told_before_what_measures_is_loaded(home: Path) -> None:
    cases = [
        ("", "compare", "nothing to measure"),
        ("", "compare -b nosuch.json", "spec 'nosuch.json' is neither a file"),
        ("", "measure -b smoke --runs 0", "--runs"),
        ("", "drive", "nothing to measure"),
        ("", "bisect -b smoke", "say where to look"),
        ("", "calibrate -b nosuch", "spec 'nosuch'"),
        ("", "convert", "are required: REPORT"),
        ("", "convert nosuch.json --to md", "nosuch.json: cannot be read (No such file or directory)"),
        ("", "explain nosuch.json", "nosuch.json: cannot be read"),
        ("", f"convert {__file__} --to nothing", "--to"),
        ("", "spec-from", "are required: NETWORK"),
        ("", "conformance", "are required: --control"),
        ("", "fleet worker", "are required: ADDRESS"),
        ("", "list --alpha 7", "--alpha"),
        ("", "compair", "did you mean compare?"),
        ("", "compare a b --time-budget x", "argument --time_budget: 'x' is not a number"),
        ("", "measure --treshold 1", "unrecognized arguments: --treshold (did you mean --threshold?)"),
        ("harness.py", "--no_such_option", "unrecognized arguments: --no_such_option"),
        ("harness.py", "-b smoke --verify_after 3", "--verify_after: works only with --verify"),
        ("harness.py", "-b smoke --control a --warmup 3", "or measure one build alone (--single, without --control)"),
        ("", "compare a b 1+1 --warmup 3", "leave it out, or measure one build alone (opduel measure)"),
        ("", "local 1+1 --runs 3", "or measure one build alone (opduel measure)"),
        ("repo_driver.py", "-b smoke", "add --ab_testing"),
        ("run_bench.py", "-b smoke --no_such_option", "unrecognized arguments: --no_such_option"),
        ("run_bench.py", f"--convert {__file__}", "the following arguments are required: --to"),
    ]
    outcomes = codes_and_errors([(script, words) for script, words, _ in cases])
    for (script, words, error), (code, errors) in zip(cases, outcomes, strict=True):
        assert (code, errors.count("\n"), errors[-1:]) == (2, 1, "\n"), (script, words, errors)
        assert error in errors, (script, words)


@pytest.mark.parametrize("shell", subcommand_parsers.SHELLS)
def test_completion(call: Call, shell: str) -> None:
    script = call("completion", shell)
    assert (script.code, script.err) == (0, "")
    for word in ("calibrate", "--time_budget", "--retry_refused", "--open_read", "revoke"):
        assert re.search(rf"\b{word.lstrip('-')}\b", script.out), word
    assert not re.search(r"(harness|run_bench|repo_driver)\.py|docs/[\w/-]+\.md", script.out)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_one_of_its_shell(call: Call, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "script").write_text(call("completion", shell).out, encoding="utf-8")
    process = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


def test_nothing_else_is_printed_beside_json(call: Call) -> None:
    for other in ("--screen_reporter", "--github"):
        line = call("compare", "-b", "smoke", *SAME_BUILD, "--json", other).error_line()
        assert f"--json: {other} prints on standard output, too" in line


def test_a_subcommand_without_a_script_is_named_by_itself_beside_scripts() -> None:
    with named_for("repo_driver.py"):
        assert [command_name(name) for name in ("list", "explain")] == ["run_bench.py --list", "opduel explain"]
