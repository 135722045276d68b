"""The loop: fetch, then measure each branch, once or for ever; nothing that goes wrong ends it."""

import logging
import time
from collections.abc import Callable

from opduel.driver.branch import Branch
from opduel.driver.build_turns import BuildTurns
from opduel.driver.commits_ahead import CommitsAhead
from opduel.driver.lock import explained_disk_errors
from opduel.driver.version_control import RemoteGone
from opduel.driver.watch_settings import Listener, Services, Tally, WatchSettings, record
from opduel.records import Commit, OpduelError, UsageError

__all__ = ["Listener", "Services", "Tally", "Watch", "WatchSettings"]

_POLL_S = 1.0

log = logging.getLogger(__name__)


class Watch:
    """Investigates the commits of one repository."""

    def __init__(
        self, services: Services, settings: WatchSettings, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._services = services
        self._settings = settings
        self._sleep = sleep
        each = settings.per_branch()
        self._turns = BuildTurns(services.builder.stop, services.builder.resume)
        restarted: set[str] = set()
        self.branches = [Branch(services, own, self._turns, restarted, alone=len(each) == 1) for own in each]

    def once(self) -> Tally:
        """Make one pass over the commits that are due. UsageError: the commits asked for are not there, or no branch
        is; KeyboardInterrupt: a signal; what was measured is kept."""
        tally = Tally()
        self._services.builder.resume()  # a pass that was aborted stopped it
        self._services.runs.deliver_all()
        self._services.listener.begin_pass()
        self.fetch(tally)
        harness = self._services.runs.harness
        ahead = CommitsAhead(lambda: harness.hosts, self._turns.stop_given_up, not self._settings.again)
        if len(self.branches) > 1:
            for branch in self.branches:
                branch.expect(ahead)
        try:
            journal = self._services.journal
            self._each(
                tally, lambda branch: branch.measure(tally, ahead), lambda text: record(journal, "branch failed", text)
            )
        finally:
            ahead.close()
        return tally

    def due(self, tally: Tally) -> list[tuple[Branch, Commit]]:
        """Return the commits that a pass would measure, with their branch; nothing is written down. UsageError: the
        commits asked for are not there, or no branch is."""
        commits: list[tuple[Branch, Commit]] = []
        self._each(
            tally,
            lambda branch: commits.extend((branch, commit) for commit in branch.due()),
            lambda text: log.error("error: %s", text),
        )
        return commits

    def _each(self, tally: Tally, act: Callable[[Branch], None], failed: Callable[[str], None]) -> None:
        """Do something with each branch; what is the matter with one holds up no other, unless it is the only one."""
        errors: list[OpduelError] = []
        for name, branch in zip(self._settings.branches or (None,), self.branches, strict=True):
            if self._settings.stop_requested():
                next_item = f"branch {name}" if name else "the first commit"
                log.info("%s contains 0: stopping before %s", self._settings.status_file, next_item)
                break
            try:
                act(branch)
            except OpduelError as error:
                if name is None or len(self.branches) == 1:
                    raise
                errors.append(error)
                failed(f"{name}: {error}")
                tally.fail(f"branch {name}", f"{name}: {error}")
        if len(errors) == len(self.branches) and all(isinstance(error, UsageError) for error in errors):
            raise UsageError("; ".join(map(str, errors)))

    def for_ever(self, after_pass: Callable[[Tally], None]) -> None:
        """Make pass after pass, with at least the interval from one's beginning to the next, until told to stop."""
        while not self._settings.stop_requested():
            began = time.monotonic()
            try:
                with explained_disk_errors(self._settings.work):
                    tally = self.once()
            except OpduelError as error:
                record(self._services.journal, "pass failed", str(error))
                tally = Tally()
                tally.fail("pass", str(error))
            after_pass(tally)
            self._wait(began + (self._settings.interval_s or 0.0))
        log.info("%s contains 0: stopped", self._settings.status_file)

    def fetch(self, tally: Tally) -> None:
        """Fetch; a remote that can't be reached is written down, and the commits at hand have to do. RemoteGone: there
        are none: nothing was ever fetched."""
        try:
            self._services.repository.fetch()
        except RemoteGone as error:
            if not self._services.repository.has_branches():
                raise  # there are no commits at hand
            record(self._services.journal, "remote gone", f"{error}; continuing with the commits fetched before")
            tally.fail("remote", str(error))

    def _wait(self, until: float) -> None:
        """Wait until that moment of the monotonic clock, or until told to stop."""
        while (seconds := until - time.monotonic()) > 0 and not self._settings.stop_requested():
            self._sleep(min(seconds, _POLL_S))
