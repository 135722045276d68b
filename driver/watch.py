"""The loop: fetch, then measure each branch, once or for ever; nothing that goes wrong ends it."""

import logging
import time
from collections.abc import Callable

from driver.branch import Branch
from driver.builds.commit_builder import CommitBuilder
from driver.git.command import RemoteGone
from driver.git.repository import Repository
from driver.journal import Journal
from driver.runs import Runs
from driver.watch_settings import Listener, Tally, WatchSettings, explained, record
from records import OpduelError

__all__ = ["Listener", "Tally", "Watch", "WatchSettings"]

CLOCK_JUMP_S = 60.0
_POLL_S = 1.0

log = logging.getLogger(__name__)


class Watch:
    """Investigates the commits of one repository."""

    def __init__(
        self,
        repository: Repository,
        builder: CommitBuilder,
        runs: Runs,
        journal: Journal,
        settings: WatchSettings,
        listener: Listener,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._repository = repository
        self._builder = builder
        self._runs = runs
        self._journal = journal
        self._settings = settings
        self._listener = listener
        self._sleep = sleep
        self._offset = time.time() - time.monotonic()
        each = settings.each()
        parts = repository, builder, runs, journal
        self.branches = [Branch(*parts, one, listener, alone=len(each) == 1) for one in each]

    def once(self) -> Tally:
        """One pass over the commits that are due.

        Raises:
            UsageError: the commits asked for are not there.
            KeyboardInterrupt: a signal; what was measured is kept.
        """
        tally = Tally()
        self._builder.resume()  # a pass that was broken off stopped it
        self._notice_the_clock()
        self._runs.tell_all()
        self._listener.looks()
        self.fetch(tally)
        for name, branch in zip(self._settings.branches or (None,), self.branches, strict=True):
            if branch.is_told_to_stop():
                what = f"branch {name}" if name else "the first commit"
                log.info("%s says 0: stopping before %s", self._settings.status_file, what)
                break
            try:
                branch.measure(tally)
            except OpduelError as error:  # what is the matter with one branch holds up no other
                if name is None or len(self.branches) == 1:
                    raise
                record(self._journal, "branch failed", f"{name}: {error}")
                tally.fail(f"branch {name}", f"{name}: {error}")
        return tally

    def is_told_to_stop(self) -> bool:
        """Whether the status file says 0."""
        return self.branches[0].is_told_to_stop()

    def for_ever(self, after_pass: Callable[[Tally], None]) -> None:
        """Pass after pass, with at least the interval from one's beginning to the next, until told to stop.

        Raises:
            UsageError: a commit file is that of another branch; before the first pass.
        """
        for branch in self.branches:
            if branch.is_there():
                branch.check_commit_file()
        while not self.is_told_to_stop():
            began = time.monotonic()
            try:
                tally = self.once()
            except (OpduelError, OSError) as error:
                text = str(explained(self._settings, error) if isinstance(error, OSError) else error)
                record(self._journal, "pass failed", text)
                tally = Tally()
                tally.fail("pass", text)
            after_pass(tally)
            self._wait(began + (self._settings.interval_s or 0.0))
        log.info("%s says 0: stopped", self._settings.status_file)

    def fetch(self, tally: Tally) -> None:
        """Fetch; a remote that can't be reached is written down, and the commits at hand have to do."""
        try:
            fetched = self._repository.fetch()
        except RemoteGone as error:
            record(self._journal, "remote gone", f"{error}; going on with the commits at hand")
            tally.fail("remote", str(error))
            return
        for moved in fetched.moved:
            text = f"branch {moved.branch} was forced from {moved.old.short} to {moved.new.short}"
            record(self._journal, "history", text)
        if fetched.default is not None and not self._settings.branches:
            before, now = fetched.default
            record(self._journal, "history", f"the remote's default branch is {now} now, and was {before}")

    def _notice_the_clock(self) -> None:
        offset = time.time() - time.monotonic()
        if abs(offset - self._offset) > CLOCK_JUMP_S:
            record(self._journal, "clock jump", f"the clock was moved by {offset - self._offset:+.0f} s")
            self._offset = offset

    def _wait(self, until: float) -> None:
        """Until that moment of the monotonic clock, or until told to stop."""
        while (left := until - time.monotonic()) > 0 and not self.is_told_to_stop():
            self._sleep(min(left, _POLL_S))
