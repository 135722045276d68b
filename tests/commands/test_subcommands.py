"""The command ``opduel``: which command of the scripts a subcommand becomes, its help, its messages."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import RELEASE, ROOT, SAME_BUILD, Outcome, fresh_logging

from opduel import __version__
from opduel.commands import opduel, repo_driver, short_help, subcommand_names, subcommand_parsers, subcommands
from opduel.commands.config import config_path, write_config

Call = Callable[..., Outcome]
BISECTED = "--ab_testing --regression --exact_base"


@pytest.fixture
def call(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call ``opduel.main`` in an empty folder."""
    (home / "empty").mkdir()
    monkeypatch.chdir(home / "empty")

    def run(*arguments: str) -> Outcome:
        with fresh_logging():
            code = opduel.main(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the subcommands hand to harness.py's and repo_driver.py's commands."""
    found: list[list[str]] = []

    def note(arguments: list[str], program: str) -> int:
        found.append(list(arguments))
        return 0

    monkeypatch.setattr(subcommands, "run_harness", note)
    monkeypatch.setattr(repo_driver, "run_driver", note)
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("compare -b s --control a --treatment b -q", "-b s --control a --treatment b"),
        ("compare -b s", "-b s"),
        ("compare -b s --output-format json", "-b s --json"),
        ("measure -b s --treatment a --json", "--single -b s --treatment a --output_format=json"),
        ("drive -b s -v", "--ab_testing -b s"),
        ("drive -b s --bisect_releases a,b", "-b s --bisect_releases a,b"),
        ("local /x -b s", "--local /x -b s"),
        ("local -b s", "--local . -b s"),
        ("bisect -b s --bisect_releases a,b", "-b s --bisect_releases a,b"),
        ("bisect -b s --base_commit a --commit b", f"{BISECTED} -b s --base_commit a --commit b"),
    ],
)  # fmt: skip
def test_a_subcommand_is_a_command_of_the_scripts(
    call: Call, handed: list[list[str]], given: str, expected: str
) -> None:
    assert call(*given.split()).code == 0
    assert handed == [expected.split()]


def test_one_build_is_compared_with_the_control_that_is_configured(call: Call, handed: list[list[str]]) -> None:
    assert call("compare", "-b", "s", "--treatment", "mine").code == 0
    assert handed.pop() == ["-b", "s", "--treatment", "mine"], "harness.py takes the framework's own control"
    Path("opduel.toml").write_text('control = "theirs"\ntreatment = "other"\n')
    call("compare", "-b", "s", "--treatment", "mine")
    assert handed.pop() == ["--control=theirs", "-b", "s", "--treatment", "mine"]
    write_config(config_path(), {"control": "ours"})
    call("compare", "-b", "s", "--treatment", "mine")
    assert handed.pop()[0] == "--control=ours", "the user's config overrides a project's"
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
    for wrong in ("compare --frobnicate", "drive -b smoke --step x", "convert x --to nothing", "list nothing-like-it"):
        assert ".py" not in call(*wrong.split()).error_line()


def test_a_wrong_subcommand_has_a_similar_one(call: Call) -> None:
    assert "did you mean compare?" in call("compair").error_line()


def test_the_version(call: Call) -> None:
    assert call("--version") == Outcome(0, f"opduel {__version__}\n", "")


def test_the_short_help_is_that_of_the_parsers() -> None:
    stored = short_help.FILE.read_text(encoding="utf-8")
    assert stored == short_help.short_help_text(), "run: python -m opduel.commands.short_help --write"
    assert set(json.loads(stored)) == {*subcommand_names.SUBCOMMANDS, *subcommand_parsers.SCRIPTS}


def test_all_help_has_every_option(call: Call) -> None:
    assert "--time_budget SECONDS" in call("compare", "--help").out
    assert "--wipe_cache" not in call("compare", "-h").out
    assert "--wipe_cache" in call("compare", "--help-all").out
    assert "--bisect_releases" in call("drive", "--help-all").out


@pytest.mark.parametrize("name", [*subcommand_names.SUBCOMMANDS, *subcommand_parsers.SCRIPTS])
def test_an_installed_opduel_names_no_script_and_no_page(call: Call, name: str) -> None:
    """What its user hasn't got. The scripts, of a checkout, name themselves."""
    if name in subcommand_parsers.SCRIPTS:
        assert "docs/" not in short_help.short_help(name)
        return
    texts = [call(name, "--help").out]
    texts += [call(name, "--help-all").out] if name in subcommand_parsers.CONFIGURED else []
    for text in texts:
        assert "Usage: " in text.replace("usage", "Usage")
        assert not re.search(r"(harness|run_bench|repo_driver)\.py|docs/|\.venv|make setup", " ".join(text.split()))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("list no-such-case", "opduel list: error: nothing matches 'no-such-case'"),
        ("send report.json", "opduel send: error: add --remote_reporter"),
        ("spec-from", "are required: NETWORK; see opduel spec-from --help"),
        ("python", "are required: BUILD"),
    ],
)
def test_messages_are_about_what_was_given(call: Call, given: str, expected: str) -> None:
    assert expected in call(*given.split()).error_line()


def test_options_behind_a_build_are_those_of_the_script(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[str]] = []
    monkeypatch.setattr(subcommands, "run_in_build", lambda words, _: found.append(list(words)) or 0)
    call("python", RELEASE, "script.py", "-v", "-q", "--help")
    assert found == [[RELEASE, "script.py", "-v", "-q", "--help"]]


def test_without_its_extra_the_server_says_so_in_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opduel.server.command_line", None)
    for arguments in (["serve"], ["server", "token", "list"]):
        found = call(*arguments)
        assert (found.code, found.out) == (2, "")
        assert re.fullmatch(r"opduel server: error: .*pip install 'opduel\[server\]'\n", found.err)
    assert call("serve", "--help").code == 0
    assert "serve" in call("completion", "bash").out


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name, "-h"] for name in subcommand_names.SUBCOMMANDS)]
)
def test_help_loads_nothing_that_measures(arguments: list[str]) -> None:
    """numpy and the others take a second; what they would be needed for is not known yet."""
    code = (
        "import sys; from opduel.commands.opduel import main; code = main(sys.argv[1:]); "
        "sys.exit(code or any(name in sys.modules for name in ('numpy', 'pydantic', 'rich', 'requests', 'jinja2')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


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
    done = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_else_is_printed_beside_json(call: Call) -> None:
    for other in ("--screen_reporter", "--github"):
        line = call("compare", "-b", "smoke", *SAME_BUILD, "--json", other).error_line()
        assert f"--json: {other} prints on standard output, too" in line
