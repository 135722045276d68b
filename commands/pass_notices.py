"""Passes of the driver that fail: notified once, and once when it works again."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from opduel.commands.notifying import Notifications
from opduel.driver.journal import Journal
from opduel.driver.version_control import RemoteGone
from opduel.driver.watch_settings import Tally
from opduel.records import OpduelError, RunError
from opduel.reporters.alerts import Alert

FAILED, WORKS = "the driver failed", "the driver works again"
_MOST_NAMED = 10


@dataclass(frozen=True)
class Line:
    """What a driver does night after night. ``key`` is the same for the same options."""

    key: str
    framework: str
    spec: str
    branches: Sequence[str] = ()


class PassNotices:
    """Notifies of failures, once for each commit, and of the first pass that works after that.

    The journal keeps what was notified, and whether "it works again" is still to be sent.
    """

    def __init__(self, journal: Journal, notifications: Notifications, line: Line) -> None:
        self._journal = journal
        self._notifications = notifications
        self._line = line
        self._prefix = prefix = f"notified/driver/{line.key}/"
        self._failing, self._worked = f"{prefix}failing", f"{prefix}worked"
        self._has_journal = True  # whether the journal could be written last time

    def pass_ended(self, tally: Tally) -> None:
        """Notify of what a pass came to. A journal that can't be written, its disk being full, say, ends no driver."""
        try:
            self._notify(tally)
            self._has_journal = True
        except RunError as error:
            self._send_without_journal([*tally.failed.values()] or [str(error)])

    def _notify(self, tally: Tally) -> None:
        new = {name: text for name, text in tally.failed.items() if self._journal.get_fact(self._item(name)) is None}
        if new:
            self._notifications.queue(self._alert(FAILED, [*new.values()]), [*map(self._item, new), self._failing])
            return
        worked = [commit for commit, _ in tally.outcomes if commit.id not in tally.failed]
        failed_services = {name for name in tally.failed if not _is_commit(name)}
        candidates = [*(commit.id for commit in worked), *self._notified_services()]
        repaired = [self._item(name) for name in candidates if name not in failed_services]
        was_failing = self._journal.get_fact(self._failing) is not None
        if was_failing and not failed_services and (worked or not (tally.waiting or tally.failed)):
            lines = [f"measured {commit.words}" for commit in worked] or ["nothing is left to be measured"]
            self._notifications.queue(self._alert(WORKS, lines), [], [*repaired, self._failing])
        elif repaired:
            self._journal.forget_each(repaired)
        if not tally.failed and self._journal.get_fact(self._worked) is None:
            self._journal.set_fact(self._worked, "yes")

    def broke(self, error: OpduelError) -> None:
        """Notify of a pass, or a start, that an error ended. Wrong usage is reported where the same command has worked
        before."""
        name = "remote" if isinstance(error, RemoteGone) else "pass"
        text = " ".join(str(error).split())
        try:
            is_new = self._journal.get_fact(self._item(name)) is None
            if is_new and (isinstance(error, RunError) or self._journal.get_fact(self._worked) is not None):
                self._notifications.queue(self._alert(FAILED, [text]), [self._item(name), self._failing])
        except RunError:
            self._send_without_journal([text])

    def _send_without_journal(self, lines: Sequence[str]) -> None:
        """Report what can't be kept in the journal, once in a row: what was reported can't be looked up."""
        if self._has_journal:
            self._notifications.send_now(self._alert(FAILED, lines))
        self._has_journal = False

    def _alert(self, title: str, lines: Sequence[str]) -> Alert:
        more = len(lines) - _MOST_NAMED
        return Alert(
            id=secrets.token_hex(8),
            framework=self._line.framework,
            spec=self._line.spec,
            control="",
            treatment="",
            causes=(),
            sure="",
            moment=datetime.now(UTC).isoformat(timespec="seconds"),
            branch=", ".join(self._line.branches),
            title=title,
            lines=(*lines[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])),
        )

    def _notified_services(self) -> list[str]:
        """Return what is no commit and was reported: the remote, a branch, a pass."""
        facts = self._journal.facts(f"{self._prefix}item/")
        names = (name.removeprefix(f"{self._prefix}item/") for name in facts)
        return [name for name in names if not _is_commit(name)]

    def _item(self, name: str) -> str:
        return f"{self._prefix}item/{name}"


def _is_commit(name: str) -> bool:
    return len(name) == 40 and all(digit in "0123456789abcdef" for digit in name)
