"""Commits as they follow each other along first parents."""

import re
from bisect import bisect_left
from dataclasses import dataclass

from opduel.driver.git.command import Git
from opduel.driver.version_control import CommandFailed
from opduel.records import Commit, UsageError

_FORMAT = "--format=tformat:%H%x00%P%x00%ct%x00%an <%ae>%x00%s"
_LOG = ("log", "-z", _FORMAT, "--no-color", "--no-show-signature", "--no-notes", "--encoding=UTF-8", "--no-mailmap")
_FIELDS = 5
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
    return _read(git, "-1", "--no-walk", name)[0][0]


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
        _, ids = _read(self.git, "-1", "--no-walk", commit.id)[0]
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
        commits = [commit for commit, _ in _read(self.git, "--first-parent", tip.id)]
        older = 0
        for number, commit in enumerate(commits, 1):
            older = older + 1 if commit.time < moment else 0
            if older == _SLOP:
                commits = commits[:number]
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
        while tip.id != control.id:
            line = _read(self.git, "--first-parent", tip.id, f"^{control.id}")
            if line and line[-1][1][:1] == [control.id]:
                chain += [commit for commit, _ in line]
                break
            if not self.is_ancestor(control, tip):
                raise NotAncestor(
                    f"{control.short} is not an ancestor of {treatment.short}: no chain of commits leads there"
                )
            # The oldest commit that holds the control; the children of such a commit do, too.
            merge = bisect_left(line, True, key=lambda linked: not self.is_ancestor(control, linked[0])) - 1
            chain += [commit for commit, _ in line[: merge + 1]]
            merged = next(parent for parent in line[merge][1][1:] if is_ancestor(self.git, control.id, parent))
            tip = read_commit(self.git, merged)
        return chain[::-1]


def _read(git: Git, *arguments: str) -> list[tuple[Commit, list[str]]]:
    """Return what git-log lists: each commit with the ids of its parents."""
    fields = git.run(*_LOG, *arguments, "--").split(b"\0")[:-1]
    return [_commit(git, fields[start : start + _FIELDS]) for start in range(0, len(fields), _FIELDS)]


def _commit(git: Git, fields: list[bytes]) -> tuple[Commit, list[str]]:
    """Make a commit of what git printed; a date that is none is 0, and control characters are spaces."""
    name, parents, time, author, subject = (field.decode("utf-8", "replace") for field in fields)
    ids = parents.split()
    if git.ids:  # Mercurial's authors need no mail
        name, ids = git.ids.original(name), list(map(git.ids.original, ids))
        author = author.removesuffix(" <>").strip()
    seconds = int(time) if time.lstrip("-").isdigit() else 0
    time_s = max(0, min(seconds, _LATEST))
    return Commit(name, time_s, _CONTROL.sub(" ", author), _CONTROL.sub(" ", subject)), ids
