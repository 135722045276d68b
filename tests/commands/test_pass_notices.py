"""A driver that fails tells its notifiers once, and once when it works again."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import pytest

from opduel.commands.notifying import Notifications
from opduel.commands.pass_notices import FAILED, WORKS, Line, PassNotices
from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome
from opduel.driver.version_control import RemoteGone
from opduel.driver.watch_settings import Tally
from opduel.records import Commit, RunError, UsageError
from opduel.reporters.alert_text import plain_text, variables
from opduel.reporters.alerts import Alert
from opduel.reporters.notifier import Notifier

COMMITS = [Commit(f"{number:x}" * 40, 1_700_000_000, "Ada <ada@toy.example>", f"Change {number}") for number in (1, 2)]


@dataclass(eq=False)
class Recorder(Notifier):
    """Keeps what it is sent."""

    option: ClassVar[str] = "made_notifier"
    help: ClassVar[str] = "for tests"
    sent: list[Alert] = field(default_factory=list)
    unverified: bool = False

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        return cls()

    def send(self, alert: Alert) -> None:
        self.sent.append(alert)


class Nights:
    """One driver night after night, on one journal."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.recorder = folder, Recorder()

    def notices(self, journal: Journal) -> PassNotices:
        notifications = Notifications(journal, [], [self.recorder])
        return PassNotices(journal, notifications, Line("key", "toy", "smoke", ("release",)))

    def night(self, tally: Tally) -> list[str]:
        """The titles of what is sent."""
        journal = Journal(self.folder / "journal.db")
        before = len(self.recorder.sent)
        self.notices(journal).pass_ended(tally)
        journal.close()
        return [alert.title for alert in self.recorder.sent[before:]]

    def breaks(self, error: RunError | UsageError) -> list[str]:
        journal = Journal(self.folder / "journal.db")
        before = len(self.recorder.sent)
        self.notices(journal).broke(error)
        journal.close()
        return [alert.title for alert in self.recorder.sent[before:]]


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def failed(name: str, text: str = "it can't be built") -> Tally:
    tally = Tally()
    tally.fail(name, text)
    return tally


def measured(commit: Commit) -> Tally:
    tally = Tally()
    tally.outcomes.append((commit, Outcome(None)))  # type: ignore[arg-type]
    return tally


def test_a_night_that_works_is_no_news(nights: Nights) -> None:
    assert nights.night(Tally()) == []
    assert nights.night(measured(COMMITS[0])) == []


@pytest.mark.parametrize("name", ["remote", "branch release", COMMITS[0].id])
def test_what_fails_is_reported_once_and_so_is_that_it_works_again(nights: Nights, name: str) -> None:
    assert nights.night(failed(name)) == [FAILED]
    assert nights.night(failed(name)) == []
    assert nights.night(measured(COMMITS[1])) == [WORKS]
    assert nights.night(measured(COMMITS[1])) == []


def test_another_commit_that_fails_is_news(nights: Nights) -> None:
    assert nights.night(failed(COMMITS[0].id)) == [FAILED]
    assert nights.night(failed(COMMITS[1].id)) == [FAILED]


def test_the_message_says_what_failed_and_where(nights: Nights) -> None:
    nights.night(failed("remote", "the remote can't be reached"))
    (alert,) = nights.recorder.sent
    text = plain_text(alert)
    assert text.startswith(f"opduel: {FAILED}\n")
    assert "the remote can't be reached" in text
    assert "branch     release" in text
    assert "control" not in text
    assert variables(alert)["OPDUEL_BRANCH"] == "release"


def test_an_error_that_ends_the_driver_is_reported_once(nights: Nights) -> None:
    assert nights.breaks(RemoteGone("gone")) == [FAILED]
    assert nights.breaks(RemoteGone("gone")) == []
    assert nights.night(measured(COMMITS[0])) == [WORKS]


def test_wrong_usage_is_news_only_where_it_worked_before(nights: Nights) -> None:
    assert nights.breaks(UsageError("no such branch")) == []
    nights.night(Tally())
    assert nights.breaks(UsageError("no such branch")) == [FAILED]


def test_a_journal_that_can_not_be_written_ends_no_driver(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RunError("journal.db: can't be written: free some space")

    journal = Journal(nights.folder / "journal.db")
    notices = nights.notices(journal)
    monkeypatch.setattr(journal, "queue_notice", full)
    for _ in range(3):
        notices.pass_ended(failed("pass", "the disk is full"))
    assert [alert.lines for alert in nights.recorder.sent] == [("the disk is full",)], "once, not at every pass"
    monkeypatch.undo()
    notices.pass_ended(measured(COMMITS[0]))
    assert len(nights.recorder.sent) == 1
