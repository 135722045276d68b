"""repo_driver.py around its loop and its bisections: exit codes, and what is asked before anything is measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, fresh_logging
from made_reports import build, comparison

from commands import repo_driver
from driver import flow
from driver.watch import Tally
from records import Commit, Report, RunError

Drive = Callable[..., Outcome]


@pytest.fixture
def drive(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Call ``repo_driver.main`` in a work directory of its own; it opens no repository."""
    monkeypatch.setattr(repo_driver, "open_repository", lambda *_: None)

    def call(*arguments: str) -> Outcome:
        with fresh_logging():
            code = repo_driver.main(["-b", "smoke", "--work_dir", str(home / "work"), *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


def report(*verdicts: Any, **run: Any) -> Report:
    """One that says so of its cases, one verdict each."""
    found = tuple(comparison(verdict, number=number) for number, verdict in enumerate(verdicts))
    how = {"id": "made", "complete": True, "broken": False, "stopped": None, "framework": "mxnet", **run}
    return Report(how, build("a"), build("b"), {}, found)


def loop_that(*steps: flow.Outcome | BaseException) -> type:
    """A stand-in for the loop: what it finds in each pass, or what ends it."""

    class MadeWatch:
        def __init__(self, *parts: Any) -> None:
            self._listener = parts[-1]

        def once(self) -> Tally:
            tally = Tally()
            for step in steps:
                if isinstance(step, BaseException):
                    raise step
                self._listener.found(step, None)
                tally.outcomes.append((Commit("a" * 40, 1_700_000_000, "Ada", "Change"), step))
            return tally

        def for_ever(self, after_pass: Callable[[Tally], None]) -> None:
            self.once()

    return MadeWatch


REGRESSED, QUIET = flow.Outcome(report("regressed")), flow.Outcome(report("unchanged"))
STOPPED, FULL = KeyboardInterrupt("stopped by SIGTERM"), RunError("journal.db: can't be written: free some space")


@pytest.mark.parametrize("interval", [(), ("--interval", "1")], ids=["once", "for ever"])
@pytest.mark.parametrize("end", [STOPPED, FULL], ids=["signal", "journal"])
@pytest.mark.parametrize(("found", "code"), [(REGRESSED, 1), (QUIET, 3)], ids=["regressed", "quiet"])
def test_a_regression_goes_before_what_ended_the_driver(
    drive: Drive,
    monkeypatch: pytest.MonkeyPatch,
    interval: tuple[str, ...],
    end: BaseException,
    found: flow.Outcome,
    code: int,
) -> None:
    monkeypatch.setattr(repo_driver, "Watch", loop_that(found, end))
    outcome = drive("--ab_testing", *interval)
    assert outcome.code == code, outcome.err
    assert outcome.err.splitlines()[-1].startswith("repo_driver.py: ")
    assert str(end) in outcome.err.splitlines()[-1]


@pytest.mark.parametrize(("found", "code"), [(REGRESSED, 1), (QUIET, 0)], ids=["regressed", "quiet"])
def test_a_pass_that_ends_by_itself_says_what_it_found(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, found: flow.Outcome, code: int
) -> None:
    monkeypatch.setattr(repo_driver, "Watch", loop_that(found))
    assert drive("--ab_testing").code == code
