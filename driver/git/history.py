"""Commits as they follow each other along first parents."""

import re
from bisect import bisect_left
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

from opduel.driver.git.command import Git
from opduel.driver.version_control import CommandFailed
from opduel.records import Commit, UsageError

_FORMAT = "--format=tformat:%H%x00%ct%x00%an <%ae>%x00%s"
_LOG = ("log", "-z", _FORMAT, "--no-color", "--no-show-signature", "--no-notes", "--encoding=UTF-8", "--no-mailmap")
_FIELDS = 4
_CHUNK = 1 << 16  # bytes
_LATEST = 253402300799  # the last second of the year 9999: what a date can hold
# So many commits in a row must be older before older ones end a search by date: git's own limit (revision.c, SLOP).
_SLOP = 5
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class UnknownCommit(UsageError):
    """No commit has that name, or several have."""


class NotAncestor(UsageError):
    """The control is no ancestor of the treatment, so that there is no chain of commits between them."""


def read_commit(git: Git, name: str) -> Commit:
    """Return the commit of an id, or of any other name that git knows for sure; CommandFailed if there is none."""
    fields = git.run(*_LOG, "-1", "--no-walk", name, "--").split(b"\0")
    return _commit(git, fields[:_FIELDS])


def is_ancestor(git: Git, older: str, newer: str) -> bool:
    """Tell whether ``newer`` holds ``older``, by any parents. A commit is its own ancestor."""
    if older == newer:
        return True
    try:
        git.run("merge-base", "--is-ancestor", older, newer)
    except CommandFailed as error:
        if error.status == 1:
            return False
        raise
    return True


@dataclass(frozen=True)
class Commits:
    """The commits of a repository."""

    git: Git

    def commit(self, id: str) -> Commit:
        """Return the commit of a full id; UnknownCommit if it is not in the repository (any more)."""
        try:
            return read_commit(self.git, f"{id}^{{commit}}")
        except CommandFailed:
            raise UnknownCommit(f"{id!r}: no such commit in {self.git.directory}") from None

    def parent(self, commit: Commit) -> Commit | None:
        """Return the first parent; None of a repository's very first commit."""
        ids = self._parents(commit)
        return read_commit(self.git, ids[0]) if ids else None

    def is_ancestor(self, a: Commit, b: Commit) -> bool:
        """Tell whether ``b`` holds ``a``, by any parents; a commit holds itself."""
        return is_ancestor(self.git, a.id, b.id)

    def merge_base(self, a: Commit, b: Commit) -> Commit | None:
        """Return the best common ancestor (git-merge-base); None when the two share no history."""
        ids = self.git.text("merge-base", a.id, b.id, fine=(0, 1)).split()
        return read_commit(self.git, ids[0]) if ids else None

    def since(self, tip: Commit, moment: int) -> list[Commit]:
        """Return the commits from the tip back along first parents until five in a row are before the Unix time, the
        oldest first.

        Those five are left out, so that the oldest one is not before it; some between may be, whose dates are out of
        order.
        """
        commits: list[Commit] = []
        older = 0
        with closing(self._first_parents(tip)) as walk:
            for commit in walk:
                commits.append(commit)
                older = older + 1 if commit.time < moment else 0
                if older == _SLOP:
                    break
        return commits[: len(commits) - older][::-1]

    def chain(self, control: Commit, treatment: Commit) -> list[Commit]:
        """Return the commits after the control up to the treatment, oldest first, each a parent of the next.

        They follow first parents. Where the control is not among those, it came in by a merge: then the chain goes from
        the control to that merge through the merged branch (along first parents again, and so on), and from the merge
        on by first parents. So a chain always leads from the control to the treatment without a gap. NotAncestor: the
        treatment doesn't hold the control.
        """
        chain: list[Commit] = []  # newest first
        tip = treatment
        while True:
            line: list[Commit] = []
            with closing(self._first_parents(tip)) as walk:
                for commit in walk:
                    if commit.id == control.id:
                        return (chain + line)[::-1]
                    line.append(commit)
            if not self.is_ancestor(control, tip):
                raise NotAncestor(
                    f"{control.short} is not an ancestor of {treatment.short}: no chain of commits leads there"
                )
            # The oldest commit that holds the control; the children of such a commit do, too.
            merge = bisect_left(line, True, key=lambda commit: not self.is_ancestor(control, commit)) - 1
            chain += line[: merge + 1]
            parents = self._parents(line[merge])[1:]
            merged = next(parent for parent in parents if is_ancestor(self.git, control.id, parent))
            tip = read_commit(self.git, merged)

    def _parents(self, commit: Commit) -> list[str]:
        return self.git.text("rev-list", "--parents", "-1", commit.id, "--").split()[1:]

    def _first_parents(self, tip: Commit) -> Generator[Commit, None, None]:
        """Yield the tip, its first parent, that one's, and so on: newest first. No date has any part in the order.

        Close it (or read it to the end): a git process stands behind it.
        """
        with self.git.stream(*_LOG, "--first-parent", tip.id, "--") as output:
            unfinished, fields = b"", list[bytes]()
            while chunk := output.read(_CHUNK):
                *complete, unfinished = (unfinished + chunk).split(b"\0")
                fields += complete
                end = len(fields) - len(fields) % _FIELDS
                for start in range(0, end, _FIELDS):
                    yield _commit(self.git, fields[start : start + _FIELDS])
                fields = fields[end:]


def _commit(git: Git, fields: list[bytes]) -> Commit:
    """Make a commit of what git printed; a date that is none is 0, and control characters are spaces."""
    name, time, author, subject = (field.decode("utf-8", "replace") for field in fields)
    if git.ids:  # Mercurial's authors need no mail
        name, author = git.ids.original(name), author.removesuffix(" <>").strip()
    seconds = int(time) if time.lstrip("-").isdigit() else 0
    return Commit(name, max(0, min(seconds, _LATEST)), _CONTROL.sub(" ", author), _CONTROL.sub(" ", subject))
