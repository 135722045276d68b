"""One branch: which of its commits are due, each investigated; what goes wrong with one holds up no other."""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from opduel.driver.build_turns import BuildTurns
from opduel.driver.commit_file import kept_commit
from opduel.driver.commits_ahead import CommitsAhead
from opduel.driver.descriptor import info_document
from opduel.driver.documents import write_document, write_text
from opduel.driver.git.commit_selection import Pending, control_of, pending
from opduel.driver.investigation import Investigation
from opduel.driver.lock import explained_disk_errors
from opduel.driver.outcome import Outcome, add_changed_code, write_culprits
from opduel.driver.revisions import UnbuildableError, commit_revision
from opduel.driver.runs import NotSettled
from opduel.driver.suites.source import SuiteChangedError
from opduel.driver.watch_settings import Services, Tally, WatchSettings, record
from opduel.records import Commit, NoSpaceError, OpduelError, RunError, UsageError

log = logging.getLogger(__name__)


class Branch:
    """Investigates the commits of one branch."""

    def __init__(
        self, services: Services, settings: WatchSettings, turns: BuildTurns, restarted: set[str], alone: bool = True
    ) -> None:
        """``turns``: in which all branches make their builds. ``restarted``: names of investigations that --again
        has restarted in this start, on any branch. ``alone``: the pass measures no other branch."""
        self._repository, self._builder, self._runs = services.repository, services.builder, services.runs
        self._restarted = restarted
        self._journal, self._listener = services.journal, services.listener
        self._settings = settings
        self._turns = turns
        self._alone = alone
        self._processed: Commit | None = None

    def measure(self, tally: Tally, ahead: CommitsAhead) -> None:
        """Investigate the commits that are due, the next ones being begun ahead meanwhile. UsageError: the commits
        asked for are not there; KeyboardInterrupt: a signal; what was measured is kept."""
        selection = self._select()
        if selection.note:  # the branch no longer contains the last commit processed: logged once
            record(self._journal, "history", selection.note)
            if selection.after is not None:
                self._write_down(selection.after)
        new, retried = self._queue(selection)
        queue = new + retried
        if not queue:
            waiting = len(self._troubled())
            log.info("nothing to measure%s", f"; {waiting} to be tried again later" if waiting else "")
        self._expect(queue, ahead)
        has_open = False  # a commit is to be measured on, and the commit file stays before it
        for position, commit in enumerate(queue):
            if self._settings.stop_requested():
                log.info("%s contains 0: stopping before %s", self._settings.status_file, commit.short)
                break
            alone = self._alone and len(queue) == 1
            has_open |= not self._attempt(commit, tally, alone, ahead)
            if position < len(new) and not has_open:  # one that is tried again may be on no branch any more
                self._finish(commit)
        tally.waiting += len(self._troubled())

    def due(self) -> list[Commit]:
        """Return the commits to measure in this pass, oldest first; those that failed before and are due again at the
        end."""
        selection = self._select()
        if selection.note:
            log.warning("history: %s", selection.note)
        new, retried = self._queue(selection)
        return new + retried

    def expect(self, ahead: CommitsAhead) -> None:
        """Tell what is begun ahead of the commits that ``measure`` will choose, as far as that is known now."""
        with suppress(OpduelError, OSError):  # it will be said when it is this branch's turn
            new, retried = self._queue(self._pending())
            self._expect(new + retried, ahead)

    def _expect(self, queue: Sequence[Commit], ahead: CommitsAhead) -> None:
        if self._settings.ahead:
            ahead.expect(queue, self._begin_ahead)

    def _begin_ahead(self, commit: Commit, rank: int, measures: bool, given_up: threading.Event) -> None:
        """Build a commit before its turn, on the processors for that, and perhaps measure it."""
        _, line, strategy = self.plan(commit)
        self._investigation(line, strategy, self._settings.ahead).begin_ahead(rank, measures, given_up)

    def _select(self) -> Pending:
        """Return the commits that come after the last one processed; it is logged how many wait for more."""
        selection = self._pending()
        if selection.waiting:
            log.info(
                "%d of %d commits have landed since the last one to measure", selection.waiting, self._settings.step
            )
        return selection

    def _pending(self) -> Pending:
        """Return the commits that come after the last one processed."""
        settings, repository = self._settings, self._repository
        tip = self._tip()
        start, last = None, self._last()
        once = settings.interval_s is None
        if settings.commit is not None:
            start = self._named("--commit", settings.commit)
            if once or not repository.is_ancestor(start, tip):
                tip, start = start, None
            if once and last is not None and last != tip and repository.is_ancestor(tip, last):
                last = None  # an older one is asked for: that one alone
        with_tip = once and settings.commit is not None
        return pending(tip, last, start, settings.step, repository, with_tip)

    def _queue(self, selection: Pending) -> tuple[list[Commit], list[Commit]]:
        """Return the chosen commits, and those that failed in earlier passes and are due again. Unless a commit was
        asked for, chosen ones that failed and are not due yet are left out."""
        is_due = {id: self._journal.is_due(item) for id, item in self._troubled().items()}
        settings = self._settings
        is_asked = settings.interval_s is None and (settings.commit is not None or not settings.retries)
        new = [commit for commit in selection.commits if is_asked or is_due.get(commit.id, True)]
        new_ids = {commit.id for commit in new}
        retried: list[Commit] = []
        for id, due in is_due.items() if self._settings.retries else ():
            if due and id not in new_ids:
                with suppress(UsageError):  # of another repository
                    retried.append(self._repository.commit(id))
        return new, retried

    def plan(self, treatment: Commit) -> tuple[str, list[Commit], str]:
        """Return why a treatment's control is that one, the commits of the line (control first), and the strategy."""
        settings = self._settings
        base = None if settings.base is None else self._named("--base_commit", settings.base)
        choice = control_of(treatment, base, settings.exact_base, self._repository)
        line = [choice.commit, treatment]
        if settings.sought:
            line = [choice.commit, *self._repository.chain(choice.commit, treatment)]
        return settings.base_why or choice.why, line, self._builder.strategy(line)

    def _tip(self) -> Commit:
        """Return the branch's newest commit; UsageError if there is no such branch (any more)."""
        try:
            return self._repository.branch(self.name)
        except UsageError as error:
            raise UsageError(f"--branch {error}") from None

    @property
    def name(self) -> str:
        """The branch's name; UsageError if none was given, and the remote has no default branch."""
        return self._settings.branch or self._repository.default_branch()

    def holder(self, commit: Commit) -> str | None:
        """Return the branch, if it holds the commit: another one may have been asked for by its name."""
        name = self.name
        return name if name != commit.id and self._repository.is_ancestor(commit, self._tip()) else None

    def _named(self, option: str, name: str) -> Commit:
        """Return the commit that an option names; UsageError if there is none."""
        try:
            return self._repository.resolve(name)
        except UsageError as error:
            raise UsageError(f"{option} {error}") from None

    def _attempt(self, commit: Commit, tally: Tally, alone: bool, ahead: CommitsAhead) -> bool:
        """Investigate a commit; whatever is the matter with it stops no other. False if it is to be measured on."""
        try:
            with explained_disk_errors(self._settings.work):
                outcome = self._investigate(commit, ahead)
        except (NotSettled, SuiteChangedError) as error:  # the commit is not at fault, and the next start goes on
            text = f"{commit.short}: {error}"
            tally.fail(commit.id, text)
            if isinstance(error, NotSettled) and error.report.configuration.run_type == "benchmark":
                tally.outcomes.append((commit, Outcome(error.report)))
            record(self._journal, "not settled" if isinstance(error, NotSettled) else "failed", text)
            return False
        except (UsageError, RunError) as error:
            is_told = isinstance(error, UsageError | NoSpaceError) or not self._settings.retries
            if alone and self._settings.interval_s is None and is_told:
                raise
            self._fail(commit, error, tally)
        else:
            tally.outcomes.append((commit, outcome))
            if reason := outcome.why_open:
                soon = outcome.goes_on and reason == outcome.unfinished
                self._fail(commit, RunError(f"{commit.short}: {reason}"), tally, soon, kind="not settled")
            else:  # it no longer fails
                self._journal.clear_trouble(self._item(commit))
        return True

    def _fail(self, commit: Commit, error: OpduelError, tally: Tally, soon: bool = False, kind: str = "failed") -> None:
        """Write down that a commit failed, or isn't settled: to be tried again by the next pass (``soon``), or after a
        pause."""
        tally.fail(commit.id, str(error))
        soon = soon or isinstance(error, NoSpaceError)
        trouble = self._journal.record_trouble(self._item(commit), str(error), soon)
        kind = "unbuildable" if isinstance(error, UnbuildableError) else kind
        when = time.strftime("after %Y-%m-%d %H:%M UTC", time.gmtime(trouble.retry_at))
        again = "the next pass tries again" if soon else f"to be tried again {when}"
        is_one = self._settings.commit is not None and self._settings.interval_s is None
        if is_one or not self._settings.retries:  # somebody waits for it
            again = "repeat the command to try again"
        record(self._journal, kind, f"{error}; {again}")

    def _investigate(self, treatment: Commit, ahead: CommitsAhead) -> Outcome:
        settings = self._settings
        why, line, strategy = self.plan(treatment)
        self._listener.begin_line(why, line, strategy, self.holder(treatment))
        investigation = self._investigation(line, strategy)
        if settings.again and investigation.name not in self._restarted:  # once in this start, whatever its passes
            self._runs.forget(investigation.name)
        self._restarted.add(investigation.name)
        builds = investigation.build_ends()
        info = settings.work / "info" / f"{line[0].short}..{treatment.short}.json"
        write_document(info, info_document(*builds))
        with ahead.turn_of(treatment):
            outcome = add_changed_code(investigation.investigate(settings.sought), self._repository)
        path = settings.work / "culprits" / f"{investigation.name.replace('/', '-')}.json"
        if document := write_culprits(path, outcome, investigation.name):
            culprits = (*outcome.known_culprits, *(outcome.culprits or ()))
            commits = [finding.revisions[-1].commit for finding in culprits if finding.range.is_named]
            write_document(info, info_document(*builds, [commit for commit in commits if commit]))
        self._listener.report_outcome(outcome, document)
        return outcome

    def _investigation(
        self, line: Sequence[Commit], strategy: str, processors: frozenset[int] | None = None
    ) -> Investigation:
        """Return the investigation of a line, the treatment being last; builds are compiled on ``processors``."""
        revisions = [commit_revision(commit, self._builder, strategy, processors) for commit in line]
        branch = self.holder(line[-1])
        return Investigation(revisions, self._runs, self._journal, self._settings.identity, branch, self._turns)

    def _finish(self, commit: Commit) -> None:
        """Record the commit as the last one processed, unless a later one already is."""
        last = self._last()
        if last is None or not self._repository.is_ancestor(commit, last):
            self._write_down(commit)

    def _write_down(self, commit: Commit) -> None:
        """Record it as the last commit processed."""
        self._processed = commit
        if (path := self._commit_file) is not None:
            write_text(path, f"{commit.id}\n")

    def _last(self) -> Commit | None:
        """Return the last commit processed, by the commit file or in this process; UsageError for a foreign file."""
        path = self._commit_file
        return self._processed if path is None else kept_commit(path, self._repository.resolve)

    @property
    def _commit_file(self) -> Path | None:
        """With the name of the remote's default branch in it, if no branch was given."""
        path = self._settings.commit_file
        return self._settings.commit_file_of(self.name) if path and self._settings.branch is None else path

    def _item(self, commit: Commit) -> str:
        """Name the journal's entry of the commit when it fails with these settings, on this branch."""
        return f"{commit.id}/{self._settings_on_branch}"

    @property
    def _settings_on_branch(self) -> str:
        return f"{self._settings.digest}/{self.name}"

    def _troubled(self) -> dict[str, str]:
        """Return commit id -> the journal's item, of those that failed with these settings, on this branch."""
        own = self._settings_on_branch
        return {item.partition("/")[0]: item for item in self._journal.troubled() if item.partition("/")[2] == own}
