"""Telling all reporters, and choosing them by options."""

import argparse
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

import pytest
import report_samples as samples

from opduel.records import Report, UsageError
from opduel.reporters import Reporter, add_reporter_options, chosen_reporters, report_all
from opduel.reporters.local import LocalReporter, SimpleLocalReporter
from opduel.reporters.notify_command import NotifyCommand
from opduel.reporters.notify_webhook import NotifyWebhook
from opduel.reporters.options import OPTION_BY_NAME, OPTIONS, WEBHOOK_VARIABLE, ReporterOptions
from opduel.reporters.screen import ScreenReporter
from opduel.reporters.simple_screen import SimpleScreenReporter

ROOT = Path(__file__).resolve().parents[2]


class Broken(Reporter):
    """A reporter with a bug."""

    option: ClassVar[str] = "broken_reporter"

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """Make one."""
        return cls()

    def report(self, report: Report) -> str | None:
        """Fail as a bug would."""
        raise ZeroDivisionError("oops")


class Interrupted(Broken):
    """A reporter during which the user presses Ctrl-C."""

    def report(self, report: Report) -> str | None:
        """Be interrupted."""
        raise KeyboardInterrupt


def _options(*words: str) -> ReporterOptions:
    parser = argparse.ArgumentParser()
    add_reporter_options(parser)
    return ReporterOptions.of(parser.parse_args(words))


def _kinds(*words: str, terminal: bool) -> list[Any]:
    return [type(reporter) for reporter in chosen_reporters(_options(*words), terminal)]


def test_one_that_fails_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    outcome = report_all(
        [Broken(), LocalReporter(tmp_path / "file"), SimpleScreenReporter(), SimpleLocalReporter(tmp_path)],
        samples.report(),
    )
    assert outcome.lines == (f"report: {tmp_path / 'report.json'}",)
    assert outcome.failures[0] == "--broken_reporter failed: ZeroDivisionError: oops"
    assert outcome.failures[1].startswith(f"--local_reporter failed: cannot write below {tmp_path / 'file'}")
    assert len(outcome.failures) == 2
    assert "much slower" in capsys.readouterr().out


def test_an_interrupt_is_no_failure_of_a_reporter() -> None:
    with pytest.raises(KeyboardInterrupt):
        report_all([Interrupted()], samples.report())


def test_options_choose_reporters(tmp_path: Path) -> None:
    words = ("--screen_reporter", "--local_reporter", str(tmp_path / "a"), "--simple_local_reporter", str(tmp_path))
    screen, local, simple = chosen_reporters(_options(*words), terminal=False)
    assert isinstance(screen, ScreenReporter)
    assert isinstance(local, LocalReporter)
    assert local.directory == tmp_path / "a"
    assert isinstance(simple, SimpleLocalReporter)
    assert simple.directory == tmp_path


def test_defaults() -> None:
    assert _kinds(terminal=True) == [ScreenReporter]
    assert _kinds(terminal=False) == [ScreenReporter]
    assert _kinds("--tsv", terminal=True) == [SimpleScreenReporter]
    assert _kinds("--simple_screen_reporter", terminal=True) == [SimpleScreenReporter]
    assert _kinds("--local_reporter", "d", terminal=True) == [ScreenReporter, LocalReporter]
    assert _kinds("--local_reporter", "d", terminal=False) == [LocalReporter]


def test_an_empty_directory_is_refused() -> None:
    with pytest.raises(UsageError, match="--local_reporter needs a DIR"):
        chosen_reporters(_options("--local_reporter", ""), terminal=False)


@pytest.mark.parametrize(
    "words",
    [
        ("--local_reporter", "~nosuch/x"),
        ("--simple_local_reporter", "~nosuch/x"),
        ("--html_reporter", "~nosuch/x"),
        ("--export_reporter", "csv=~nosuch/x"),
        ("--notify_webhook", "@~nosuch/x"),
        ("--spool", "~nosuch/x", "--remote_reporter", "h/x|c"),
        ("--remote_access_token_file", "~nosuch/x", "--remote_reporter", "h/x|c"),
    ],
)
def test_a_user_that_is_not_there_is_wrong_usage(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"^{words[0]} .*~nosuch/x: there is no such user: give the full path$"):
        chosen_reporters(_options(*words), terminal=False)


def test_a_notifiers_switch_alone_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^--notify_unverified: goes with --notify_command or --notify_webhook"):
        _kinds("--notify_unverified", terminal=False)
    monkeypatch.setenv(WEBHOOK_VARIABLE, "https://h.example/x")
    assert _kinds("--notify_unverified", terminal=False) == [ScreenReporter, NotifyWebhook]


def test_every_reporter_has_an_option_of_its_own() -> None:
    kinds = [resolve_name(f"opduel.reporters.{option.reporter}") for option in OPTIONS]
    assert {kind.option for kind in kinds} <= {option.name for option in OPTIONS}
    assert len({kind.option for kind in kinds}) == len(set(kinds))
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)
    assert all(getattr(_options(), option.name) in (None, False, ()) for option in OPTIONS)


def test_a_repeatable_option_asks_for_a_reporter_each_time() -> None:
    words = ("--notify_command", "true", "--notify_command", "cat -n")
    assert _kinds(*words, terminal=False) == [ScreenReporter, NotifyCommand, NotifyCommand]
    with pytest.raises(UsageError, match="--notify_command needs a COMMAND"):
        chosen_reporters(_options("--notify_command", " "), terminal=False)


def test_the_names_of_all_options_are_known() -> None:
    assert OPTION_BY_NAME.keys() == vars(_options()).keys() - {"prior_runs"}


def test_options_load_no_reporter() -> None:
    code = """
import argparse, sys
from opduel.reporters import add_reporter_options
add_reporter_options(argparse.ArgumentParser())
print(sorted(name for name in sys.modules if name.startswith("opduel.reporters.")))
print({"rich", "jinja2", "requests", "pydantic", "numpy"} & {*sys.modules})
"""
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "['opduel.reporters.formats', 'opduel.reporters.options']\nset()\n"
