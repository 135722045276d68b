"""The loop: fetch, choose commits, investigate each, once or for ever; nothing that goes wrong ends it."""

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from driver.builds.commit_builder import CommitBuilder
from driver.commit_file import kept_commit
from driver.descriptor import info_document
from driver.flow import Investigation, Outcome, guilty_document, why_open
from driver.git.choice import Pending, control_of, pending
from driver.git.command import RemoteGone
from driver.git.repository import Repository
from driver.journal import Journal
from driver.lock import ANOTHER_FOLDER
from driver.points import CommitPoint, UnbuildableError
from driver.runs import NotSettled, Runs
from records import Commit, NoSpaceError, OpduelError, RunError, UsageError, Verdict, disk_error
from records.files import UnreadableError, read_text

CLOCK_JUMP_S = 60.0
_POLL_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatchSettings:
    """Which commits are measured, against what, and what follows.

    ``sought``: the verdicts that are verified and bisected; none for a benchmark alone. ``interval_s``: None for one
    pass. ``ahead``: processors on which the next commit is built while one is measured; none for not at all.
    ``identity`` stands for all else that a run depends on.
    """

    work: Path
    branch: str | None = None
    commit: str | None = None
    base: str | None = None
    base_why: str = ""  # why it is that one, in words
    exact_base: bool = False
    step: int = 1
    interval_s: float | None = None
    commit_file: Path | None = None
    status_file: Path | None = None
    sought: Sequence[Verdict] = ()
    ahead: frozenset[int] = frozenset()
    identity: str = ""
    again: bool = False
    retries: bool = True  # whether commits that failed in an earlier pass are tried again

    @property
    def digest(self) -> str:
        """Stands for all that decides what comes of a commit: with another one it is another matter."""
        told = [self.identity, self.base, self.exact_base, sorted(self.sought)]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:8]


@dataclass
class Tally:
    """What a pass came to."""

    outcomes: list[tuple[Commit, Outcome]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Listener(Protocol):
    """Who hears of what the loop finds, besides the reporters."""

    def looks(self) -> None:
        """A pass begins."""

    def begins(self, control: Commit, treatment: Commit, why: str, line: Sequence[Commit], strategy: str) -> None:
        """A line is about to be measured."""

    def found(self, outcome: Outcome, document: Path | None) -> None:
        """It was; ``document`` names the culprits."""


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
        self._dealt_with: Commit | None = None

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
        chosen = self._pending()
        self._go_on_after(chosen)
        new = self._not_waiting(chosen)
        queue = new + self._to_retry(new)
        if not queue:
            waiting = len(self._troubled())
            log.info("nothing to measure%s", f"; {waiting} to be tried again later" if waiting else "")
        held = False  # a commit is to be measured on, and the commit file stays before it
        for position, commit in enumerate(queue):
            if self.is_told_to_stop():
                log.info("%s says 0: stopping before %s", self._settings.status_file, commit.short)
                break
            with self._building_ahead(queue[position + 1 : position + 2]):
                settled = self._was_settled(commit) or self._attempt(commit, tally, alone=len(queue) == 1)
                held |= not settled
                if position >= len(new):  # one that is tried again may be on no branch any more, or on another
                    continue
                if not held:
                    self._finish(commit)
                elif settled:
                    self._journal.remember(self._beyond(commit), "")
        return tally

    def for_ever(self, after_pass: Callable[[Tally], None]) -> None:
        """Pass after pass, with at least the interval from one's beginning to the next, until told to stop."""
        while not self.is_told_to_stop():
            began = time.monotonic()
            try:
                tally = self.once()
            except (OpduelError, OSError) as error:
                text = str(self._explained(error) if isinstance(error, OSError) else error)
                self._record("pass failed", text)
                tally = Tally(failures=[text])
            after_pass(tally)
            self._wait(began + (self._settings.interval_s or 0.0))
        log.info("%s says 0: stopped", self._settings.status_file)

    def due(self) -> list[Commit]:
        """The commits to measure in this pass, oldest first; those that failed before and are due again at the end."""
        chosen = self._pending()
        if chosen.note:
            log.warning("history: %s", chosen.note)
        new = self._not_waiting(chosen)
        return new + self._to_retry(new)

    def _pending(self) -> Pending:
        """The commits that come after the last one dealt with."""
        settings, repository = self._settings, self._repository
        tip = self._named("--branch", settings.branch or repository.default_branch())
        start, last = None, self._last()
        once = settings.interval_s is None
        if settings.commit is not None:
            start = self._named("--commit", settings.commit)
            if once or not repository.is_ancestor(start, tip):
                tip, start = start, None
            if once and last is not None and last != tip and repository.is_ancestor(tip, last):
                last = None  # an older one is asked for: that one alone
        asked = once and settings.commit is not None
        chosen = pending(tip, last, start, settings.step, repository, with_tip=asked)
        if chosen.waiting:
            log.info("%d of %d commits have landed since the last one to measure", chosen.waiting, settings.step)
        return chosen

    def _go_on_after(self, chosen: Pending) -> None:
        """Where the branch no longer holds the last commit dealt with, say so, once, and take the one that it holds."""
        if chosen.note:
            self._record("history", chosen.note)
            if chosen.after is not None:
                self._write_down(chosen.after)

    def _not_waiting(self, chosen: Pending) -> list[Commit]:
        """Going on for ever, without those that failed and are not due yet."""
        later = {id for id, item in self._troubled().items() if not self._journal.is_due(item)}
        return [one for one in chosen.commits if one.id not in later or self._settings.interval_s is None]

    def plan(self, treatment: Commit) -> tuple[Commit, str, list[Commit], str]:
        """For a treatment: its control, why that one, the commits of the line (control first), and the strategy."""
        settings = self._settings
        base = None if settings.base is None else self._named("--base_commit", settings.base)
        choice = control_of(treatment, base, settings.exact_base, self._repository)
        line = [choice.commit, treatment]
        if settings.sought:
            line = [choice.commit, *self._repository.chain(choice.commit, treatment)]
        return choice.commit, settings.base_why or choice.why, line, self._builder.strategy(line)

    def _named(self, option: str, name: str) -> Commit:
        """The commit that an option names.

        Raises:
            UsageError: there is none.
        """
        try:
            return self._repository.resolve(name)
        except UsageError as error:
            raise UsageError(f"{option} {error}") from None

    def is_told_to_stop(self) -> bool:
        """Whether the status file says 0."""
        path = self._settings.status_file
        try:
            return path is not None and read_text(path, pipes=False).strip() == "0"
        except UnreadableError:
            return False

    def _attempt(self, commit: Commit, tally: Tally, alone: bool) -> bool:
        """Investigate a commit; whatever is the matter with it stops no other. False if it is to be measured on."""
        try:
            outcome = self._investigate(commit)
        except NotSettled as error:
            text = f"{commit.short}: {error}"
            tally.failures.append(text)
            if error.report.run.get("run_type") == "benchmark":
                tally.outcomes.append((commit, Outcome(error.report)))
            self._record("not settled", text)
            return False
        except (UsageError, NoSpaceError) as error:
            if alone and self._settings.interval_s is None:
                raise
            self._fail(commit, error, tally)
        except RunError as error:
            self._fail(commit, error, tally)
        else:
            tally.outcomes.append((commit, outcome))
            if reason := why_open(outcome):
                self._fail(commit, RunError(f"{commit.short}: {reason}"), tally)
            else:
                self._journal.clear_trouble(self._item(commit))
                self._journal.clear_trouble(commit.id)
        return True

    def _was_settled(self, commit: Commit) -> bool:
        """Whether an earlier pass dealt with a commit that the commit file is not to pass yet."""
        settings = self._settings
        if settings.again or (settings.commit is not None and settings.interval_s is None):
            return False
        trouble = self._troubled().get(commit.id)
        is_due = trouble is not None and self._journal.is_due(trouble)
        return not is_due and self._journal.recall(self._beyond(commit)) is not None

    def _beyond(self, commit: Commit) -> str:
        """The fact that a commit was dealt with while the commit file stayed before an earlier one."""
        return f"beyond the commit file/{self._item(commit)}"

    def _fail(self, commit: Commit, error: OpduelError, tally: Tally) -> None:
        tally.failures.append(str(error))
        soon = isinstance(error, NoSpaceError)
        trouble = self._journal.record_trouble(self._item(commit), str(error), soon)
        kind = "unbuildable" if isinstance(error, UnbuildableError) else "failed"
        when = time.strftime("after %Y-%m-%d %H:%M UTC", time.gmtime(trouble.retry_at))
        self._record(kind, f"{error}; to be tried again {'at the next pass' if soon else when}")

    def _investigate(self, treatment: Commit) -> Outcome:
        """
        Raises:
            OpduelError: what is the matter.
        """
        try:
            return self._followed_up(treatment)
        except OSError as error:
            raise self._explained(error) from error

    def _explained(self, error: OSError) -> RunError:
        return disk_error(self._settings.work, error, ANOTHER_FOLDER)

    def _followed_up(self, treatment: Commit) -> Outcome:
        settings = self._settings
        control, why, line, strategy = self.plan(treatment)
        self._listener.begins(control, treatment, why, line, strategy)
        points = [CommitPoint(one, self._builder, strategy) for one in line]
        investigation = Investigation(points, self._runs, self._journal, settings.identity)
        if settings.again:
            self._runs.forget(investigation.name)
        builds = points[0].build(), points[-1].build()
        info = settings.work / "info" / f"{control.short}..{treatment.short}.json"
        write_document(info, info_document(*builds))
        outcome = investigation.investigate(settings.sought)
        document = None
        if outcome.guilty is not None or outcome.known:
            document = settings.work / "culprits" / f"{investigation.name.replace('/', '-')}.json"
            write_document(document, guilty_document(outcome, investigation.name))
            culprits = (*outcome.known, *(outcome.guilty or ()))
            named = [one.points[-1].commit for one in culprits if one.culprit.named]
            write_document(info, info_document(*builds, [commit for commit in named if commit]))
        self._listener.found(outcome, document)
        return outcome

    def fetch(self, tally: Tally) -> None:
        """Fetch; a remote that can't be reached is written down, and the commits at hand have to do."""
        try:
            fetched = self._repository.fetch()
        except RemoteGone as error:
            self._record("remote gone", f"{error}; going on with the commits at hand")
            tally.failures.append(str(error))
            return
        for moved in fetched.moved:
            self._record("history", f"branch {moved.branch} was forced from {moved.old.short} to {moved.new.short}")
        if fetched.default is not None and self._settings.branch is None:
            before, now = fetched.default
            self._record("history", f"the remote's default branch is {now} now, and was {before}")

    def _finish(self, commit: Commit) -> None:
        """Write the commit down as the last one that was dealt with, unless one after it already is."""
        last = self._last()
        if last is None or not self._repository.is_ancestor(commit, last):
            self._write_down(commit)

    def _write_down(self, commit: Commit) -> None:
        """As the last one that was dealt with."""
        self._dealt_with = commit
        if self._settings.commit_file is not None:
            _write_text(self._settings.commit_file, f"{commit.id}\n")
        elif self._counts():
            self._journal.remember(self._counted, commit.id)

    def _last(self) -> Commit | None:
        """The last commit dealt with, by the commit file, or in this process; None without one.

        Raises:
            UsageError: the commit file is a file of somebody else's.
        """
        path = self._settings.commit_file
        if path is None:
            return self._dealt_with or self._last_counted()
        return kept_commit(path, self._repository.resolve)

    @property
    def _counted(self) -> str:
        """What the journal calls the commit from which the next step is counted."""
        return f"step/{self._settings.branch or ''}/{self._settings.digest}"

    def _counts(self) -> bool:
        """Whether commits are thinned, and no file keeps from which one they are counted."""
        return self._settings.step > 1 and self._settings.commit is None and self._settings.commit_file is None

    def _last_counted(self) -> Commit | None:
        """The last commit that an earlier start dealt with, where commits are thinned."""
        kept = self._journal.recall(self._counted) if self._counts() and not self._settings.again else None
        try:
            return None if kept is None else self._repository.commit(kept)
        except UsageError:  # of another repository
            return None

    def _to_retry(self, new: Sequence[Commit]) -> list[Commit]:
        found: list[Commit] = []
        if not self._settings.retries:
            return found
        known = {one.id for one in new}
        for id, item in self._troubled().items():
            if id in known or not self._journal.is_due(item):
                continue
            try:
                found.append(self._repository.commit(id))
            except UsageError:
                continue  # of another repository
        return found

    def _item(self, commit: Commit) -> str:
        """What the journal calls the commit when it fails with these settings."""
        return f"{commit.id}/{self._settings.digest}"

    def _troubled(self) -> dict[str, str]:
        """Commit id -> the journal's item, of those that failed with these settings.

        An older driver wrote down the id alone: then it is anybody's to try again.
        """
        found: dict[str, str] = {}
        for item in self._journal.troubled():
            id, _, digest = item.partition("/")
            if digest == self._settings.digest:
                found[id] = item
            elif not digest:
                found.setdefault(id, item)
        return found

    @contextmanager
    def _building_ahead(self, following: Sequence[Commit]) -> Iterator[None]:
        """Within it the next commit's builds are made on other processors; it ends with them, or stops them."""
        if not following or not self._settings.ahead:
            yield
            return
        thread = threading.Thread(target=self._build_quietly, args=(following[0],), daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            self._builder.stop()
            raise
        finally:
            thread.join()

    def _build_quietly(self, commit: Commit) -> None:
        try:
            _, _, line, strategy = self.plan(commit)
            for one in (line[0], line[-1]):
                CommitPoint(one, self._builder, strategy, self._settings.ahead).build()
        except Exception as error:  # it will be said when it is that commit's turn
            log.debug("building ahead: %s", error)

    def _notice_the_clock(self) -> None:
        offset = time.time() - time.monotonic()
        if abs(offset - self._offset) > CLOCK_JUMP_S:
            self._record("clock jump", f"the clock was moved by {offset - self._offset:+.0f} s")
            self._offset = offset

    def _wait(self, until: float) -> None:
        """Until that moment of the monotonic clock, or until told to stop."""
        while (left := until - time.monotonic()) > 0 and not self.is_told_to_stop():
            self._sleep(min(left, _POLL_S))

    def _record(self, kind: str, text: str) -> None:
        log.warning("%s: %s", kind, text)
        try:
            self._journal.note(kind, text)
        except RunError as error:
            log.error("%s", error)


def write_document(path: Path, document: object) -> None:
    """Write plain JSON data, whole or not at all.

    Raises:
        RunError: it can't be written.
    """
    _write_text(path, json.dumps(document, indent=2) + "\n")


def _write_text(path: Path, text: str) -> None:
    """Whole or not at all.

    Raises:
        RunError: it can't be written.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise disk_error(path, OSError(error.errno, error.strerror), "name another file or folder") from None
