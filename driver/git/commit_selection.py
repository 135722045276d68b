"""Which commits are measured, and against what. It reads the history alone."""

from dataclasses import dataclass

from opduel.driver.git.history import Commits
from opduel.records import Commit, UsageError

_WEEK = 7 * 86400  # seconds
_MONDAY = 4 * 86400  # 1970-01-01 was a Thursday; the first Monday was the 5th


@dataclass(frozen=True)
class Choice:
    """A control, and why it is that one, in words."""

    commit: Commit
    why: str


@dataclass(frozen=True)
class Pending:
    """The commits to measure, oldest first, each followed by later ones only. ``note``: what was not as expected, if
    anything; ``after``: the commit from which the counting went on, None where there was none. ``waiting``: how many
    commits come after the last one to measure, fewer than a step: they are measured when enough others have landed."""

    commits: tuple[Commit, ...]
    after: Commit | None = None
    note: str | None = None
    waiting: int = 0


def week_of(moment: int) -> int:
    """Return the Unix time of the Monday, 00:00 UTC, that begins the week of a Unix time."""
    return moment - (moment - _MONDAY) % _WEEK


def control_of(treatment: Commit, base: Commit | None, exact: bool, repository: Commits) -> Choice:
    """Choose what a commit is compared with: the first commit of its week, or the base if that is later.

    The week is that of the treatment's committer time, from Monday 00:00 UTC. Its first commit is found by going back
    along first parents; single commits with dates out of order don't end that (``Commits.since``). If it is the
    treatment itself, its first parent is taken, so that no commit is left uncompared. Of two commits the later is the
    one that holds the other, and only if neither does, the one with the later committer time. A base that is not before
    the treatment is passed over.
    ``exact``: the base. UsageError: there is no commit to compare with, or the base, asked for exactly, is the
    treatment.
    """
    if exact:
        if base is None:
            raise UsageError("no base commit to compare with exactly: give one")
        if base.id == treatment.id:
            raise UsageError(f"base commit {base.short}: is the treatment itself: choose another one")
        return Choice(base, f"the base commit {base.short}, as asked for")
    first = _first_of_week(treatment, repository)
    if base is None or repository.is_ancestor(treatment, base):
        if first is None:
            raise UsageError(
                f"commit {treatment.short}: is the first of its repository: there is none before it to compare with; "
                "choose a later commit, or another base commit"
            )
        if base is None:
            return first
        return Choice(first.commit, f"{first.why}; the base commit {base.short} is not before {treatment.short}")
    if first is None or _is_later(base, first.commit, repository):
        return Choice(base, f"the base commit {base.short}, which is later than the first commit of the week")
    return first


def pending(
    tip: Commit, last: Commit | None, start: Commit | None, step: int, history: Commits, with_tip: bool = False
) -> Pending:
    """Choose what is measured up to the tip: every ``step``-th commit after ``last``, which was measured last.

    The tip is measured when it is one of these, or ``with_tip``. So commits that land one by one, with a pass for each,
    are counted like those that land together: ``last`` stays where it is until a whole step has landed. Without
    ``last``: every ``step``-th from ``start`` on, itself included; without either: the tip alone. If the branch was
    forced and no longer holds ``last``, it goes on from the last commit that both hold. Only the order of the commits
    counts, never their times. UsageError: a step less than 1, or the tip doesn't hold ``start``
    (`opduel.driver.git.history.NotAncestor`).
    """
    if step < 1:
        raise UsageError(f"step {step}: must be 1 or more")
    after, note = last, None
    if last is not None and not history.is_ancestor(last, tip):
        after = history.merge_base(last, tip)
        if after is None:
            lost = f"{tip.short} shares no history with {last.short}, which was measured last"
            return Pending((tip,), note=f"{lost}: only {tip.short} is measured")
        lost = f"{last.short}, measured last, is no longer on the branch"
        note = f"{lost}: continuing from {after.short}, which is on both"
    if after is not None:
        line, first = history.chain(after, tip), step - 1
    else:
        line, first = [start, *history.chain(start, tip)] if start else [tip], 0
    indices = list(range(first, len(line), step))
    if with_tip and line and indices[-1:] != [len(line) - 1]:
        indices.append(len(line) - 1)
    waiting = len(line) - 1 - indices[-1] if indices else len(line)
    return Pending(tuple(line[index] for index in indices), after, note, waiting)


def _first_of_week(treatment: Commit, repository: Commits) -> Choice | None:
    monday = week_of(treatment.time)
    line = repository.since(treatment, monday)
    first = next((commit for commit in line if monday <= commit.time < monday + _WEEK), treatment)
    if first.id != treatment.id:
        return Choice(first, f"the first commit of the week of {treatment.short}")
    before = repository.parent(treatment)
    return Choice(before, f"the commit before {treatment.short}, which is the first of its week") if before else None


def _is_later(commit: Commit, other: Commit, repository: Commits) -> bool:
    """Tell whether a commit is later than the other: by ancestry, or else by time."""
    if commit.id == other.id or repository.is_ancestor(commit, other):
        return False
    return repository.is_ancestor(other, commit) or commit.time > other.time
