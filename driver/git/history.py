"""Commits as they follow each other along first parents."""

import re
from collections.abc import Iterator

from opduel.driver.git.command import Git, GitFailed
from opduel.records import Commit, UsageError

_FORMAT = "--format=tformat:%H%x00%ct%x00%an <%ae>%x00%s"
_LOG = ("log", "-z", _FORMAT, "--no-color", "--no-show-signature", "--no-notes", "--encoding=UTF-8", "--no-mailmap")
_FIELDS = 4
_CHUNK = 1 << 16  # bytes
_LATEST = 253402300799  # the last second of the year 9999: what a date can hold
# So many commits in a row must be older before older ones end a search by date: git's own limit (revision.c, SLOP).
_SLOP = 5
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class NotAncestor(UsageError):
    """The control is no ancestor of the treatment, so that there is no chain of commits between them."""


def read_commit(git: Git, name: str) -> Commit:
    """The commit of an id (or any other name that git knows for sure).

    Raises:
        GitFailed: there is none.
    """
    fields = git.run(*_LOG, "-1", "--no-walk", name, "--").split(b"\0")
    return _commit(fields[:_FIELDS])


def parents(git: Git, commit: Commit) -> list[str]:
    """The ids of the parents, the first one first."""
    return git.text("rev-list", "--parents", "-1", commit.id, "--").split()[1:]


def first_parents(git: Git, tip: Commit) -> Iterator[Commit]:
    """The tip, its first parent, that one's, and so on: newest first. No date has any part in the order.

    Close the iterator (or read it to the end): a git process stands behind it.
    """
    with git.stream(*_LOG, "--first-parent", tip.id, "--") as output:
        rest, fields = b"", list[bytes]()
        while chunk := output.read(_CHUNK):
            *complete, rest = (rest + chunk).split(b"\0")
            fields += complete
            whole = len(fields) - len(fields) % _FIELDS
            for start in range(0, whole, _FIELDS):
                yield _commit(fields[start : start + _FIELDS])
            fields = fields[whole:]


def since(git: Git, tip: Commit, moment: int) -> list[Commit]:
    """The commits from the tip back along first parents until five in a row are before the Unix time; oldest first.

    Those five are left out, so that the oldest one is not before it; some between may be, whose dates are out of order.
    """
    found: list[Commit] = []
    older = 0
    for commit in (walk := first_parents(git, tip)):
        found.append(commit)
        older = older + 1 if commit.time < moment else 0
        if older == _SLOP:
            break
    walk.close()  # type: ignore[attr-defined]
    return found[: len(found) - older][::-1]


def is_ancestor(git: Git, older: str, newer: str) -> bool:
    """Whether ``newer`` holds ``older``, by any parents. A commit is its own ancestor."""
    try:
        git.run("merge-base", "--is-ancestor", older, newer)
    except GitFailed as error:
        if error.status == 1:
            return False
        raise
    return True


def chain(git: Git, control: Commit, treatment: Commit) -> list[Commit]:
    """The commits after the control up to the treatment, oldest first, each a parent of the next.

    They follow first parents. Where the control is not among those, it came in by a merge: then the chain goes from the
    control to that merge through the merged branch (along first parents again, and so on), and from the merge on by
    first parents. So a chain always leads from the control to the treatment without a gap.

    Raises:
        NotAncestor: the treatment doesn't hold the control.
    """
    found: list[Commit] = []  # newest first
    tip = treatment
    while True:
        line: list[Commit] = []
        for commit in (walk := first_parents(git, tip)):
            if commit.id == control.id:
                walk.close()  # type: ignore[attr-defined]
                return (found + line)[::-1]
            line.append(commit)
        if not is_ancestor(git, control.id, tip.id):
            raise NotAncestor(
                f"{control.short} is not an ancestor of {treatment.short}: no chain of commits leads there"
            )
        merge = _merge_of(git, control, line)
        found += line[: merge + 1]
        holding = (parent for parent in parents(git, line[merge])[1:] if is_ancestor(git, control.id, parent))
        tip = read_commit(git, next(holding))


def _merge_of(git: Git, control: Commit, line: list[Commit]) -> int:
    """The index of the oldest commit that holds the control, in a line newest first of which the first does.

    A child of a commit that holds it does too: found by halving.
    """
    holds, lacks = 0, len(line)
    while lacks - holds > 1:
        middle = (holds + lacks) // 2
        if is_ancestor(git, control.id, line[middle].id):
            holds = middle
        else:
            lacks = middle
    return holds


def _commit(fields: list[bytes]) -> Commit:
    """From what git printed; a date that is none is 0, and control characters are spaces."""
    name, time, author, subject = (field.decode("utf-8", "replace") for field in fields)
    seconds = int(time) if time.lstrip("-").isdigit() else 0
    return Commit(name, max(0, min(seconds, _LATEST)), _CONTROL.sub(" ", author), _CONTROL.sub(" ", subject))
