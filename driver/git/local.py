"""A contributor's checkout: where its branch left the remote's, and its work tree as a commit.

Uncommitted changes become a commit of our own repository, by an index of our own: no ref, index, object or file of the
user's is written.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opduel.driver.git import history, refs
from opduel.driver.git.alternates import Checkout
from opduel.driver.git.command import Git
from opduel.driver.git.mirror import take_tracked
from opduel.driver.git.repository import Repository
from opduel.driver.lock import explained_disk_errors
from opduel.records import Commit, UsageError
from opduel.support.project_file import top_of_checkout

PREFERRED = ("upstream", "origin")  # remotes, where several are there: a fork's own one comes last
_SHOWN = 5  # branches in a line
_NAME, _EMAIL = "opduel", "opduel@localhost"


@dataclass(frozen=True)
class Snapshot:
    """The work tree as a commit: HEAD itself when nothing is changed.

    ``changed``: files with uncommitted changes, those that are new included. ``left_out``: files that git doesn't
    track, outside of the folders that it tracks: they are not in the commit. ``within``: submodules with changes of
    their own, which are not in it either.
    """

    commit: Commit
    head: Commit
    branch: str  # empty for a detached HEAD
    changed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    within: tuple[str, ...] = ()


@dataclass(frozen=True)
class Base:
    """Where a branch began; ``name`` is that of the branch that it left, as git writes it."""

    commit: Commit
    name: str


def top_of(folder: Path) -> Path:
    """Return the top of the checkout that a folder is in; UsageError if it is in none."""
    place = Path(os.path.abspath(folder))
    if not place.is_dir():
        raise UsageError(f"{place}: no such folder: give a git checkout, or a folder in one")
    if (top := top_above(place)) is None:
        raise UsageError(f"{place}: is not in a git checkout: give one, or a folder in one")
    return top


def top_above(folder: Path) -> Path | None:
    """Return the top of the checkout that a folder is in; None if it is in none."""
    return top_of_checkout(Path(os.path.realpath(folder)))


def snapshot(repository: Repository) -> Snapshot:
    """Make a commit of the checkout's work tree as it is now.

    The same work tree on the same HEAD gives the same commit, whenever it is taken. UsageError: there is no commit yet,
    or a merge with conflicts is going on.
    """
    checkout, ours = _of(repository), repository.git
    head_id = checkout.commit_id("HEAD")
    if head_id is None:
        raise UsageError(f"{checkout.folder}: has no commit yet: commit something")
    head = history.read_commit(ours, head_id)
    branch = checkout.head().removeprefix("refs/heads/")
    with _scratch(checkout, ours) as scratch:
        scratch.copy_index()
        left_out = scratch.add_all()
        within = scratch.changed_submodules()
        tree = scratch.write_tree()
        if tree == ours.text("rev-parse", f"{head.id}^{{tree}}"):
            return Snapshot(head, head, branch, left_out=left_out, within=within)
        commit = _commit(ours, tree, head, f"uncommitted changes on {branch or head.short}")
    return Snapshot(commit, head, branch, tuple(changed_files(ours, head, commit)), left_out, within)


def changed_files(git: Git, older: Commit, newer: Commit) -> list[str]:
    """Return the paths of all files that differ between two commits, submodules included."""
    return _paths(git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", older.id, newer.id))


def base_of(repository: Repository, head: Commit, remote: str | None, branch: str | None) -> Base:
    """Return the merge base of HEAD and a branch of a remote, as the checkout knows it; nothing is fetched.

    ``remote``: its name; None for upstream, origin or the only one. ``branch``: its name; None for the remote's
    default. A checkout without remotes has its own branches in their place. UsageError: there is no such remote or
    branch, or they share no history.
    """
    checkout, ours = _of(repository), repository.git
    name = remote or _remote(checkout)
    take_tracked(ours, checkout, name)
    tips = {ref.removeprefix(refs.BRANCHES): id for ref, id in refs.read_refs(ours, refs.BRANCHES).items()}
    prefix = f"{name}/"
    if not tips:  # no remote, or one that was never fetched
        if remote is not None:
            raise UsageError(f"--remote_repository {remote}: the checkout has no branch of it: run git fetch {remote}")
        prefix, tips = "", {ref.removeprefix(refs.LOCAL): id for ref, id in checkout.branches().items()}
    if branch is None:
        branch = _default(ours, tips, prefix, checkout)
    if branch not in tips:
        branches = ", ".join([*sorted(tips)[:_SHOWN], *(["..."] if len(tips) > _SHOWN else [])]) or "none"
        raise UsageError(
            f"--branch {branch}: {name if prefix else 'the checkout'} has no such branch, as far as is known here "
            f"({branches}): run git fetch, or name another"
        )
    merge_bases = ours.text("merge-base", tips[branch], head.id, fine=(0, 1)).split()
    if not merge_bases:
        raise UsageError(f"--branch {branch}: {prefix}{branch} and {head.short} share no history: name another branch")
    return Base(history.read_commit(ours, merge_bases[0]), f"{prefix}{branch}")


@dataclass(frozen=True)
class _Scratch:
    """Git commands on the user's work tree with an index of our own, which write objects to our repository."""

    checkout: Checkout
    ours: Git
    folder: Path

    def run(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        """Run git on the work tree."""
        # A split index would be written beside the user's own.
        settings = ("-c", "core.splitIndex=false", "-c", "core.untrackedCache=false")
        places = {"GIT_INDEX_FILE": f"{self.folder}/index", "GIT_OBJECT_DIRECTORY": f"{self.ours.directory}/objects"}
        places["GIT_OPTIONAL_LOCKS"] = "0"
        return self.checkout.git.run(*settings, *arguments, folder=self.checkout.folder, stdin=stdin, variables=places)

    def write_tree(self) -> str:
        """Write the tree of what was added to our repository, and return its id."""
        return os.fsdecode(self.run("write-tree", "--missing-ok")).strip()

    def copy_index(self) -> None:
        """Begin with the user's index: it knows what a sparse checkout leaves out. UsageError: it has conflicts."""
        theirs = self.checkout.folder / self.checkout.text("rev-parse", "--git-path", "index")
        if theirs.exists():
            # With its time: by that git knows which files may have changed within the second after it was written
            # (gitformat-index, "racy git").
            shutil.copy2(theirs, self.folder / "index")
        else:
            self.run("read-tree", "HEAD")
        if conflicts := _paths(self.run("diff", "--name-only", "-z", "--diff-filter=U")):
            raise UsageError(
                f"{self.checkout.folder}: {conflicts[0]} has conflicts of a merge: resolve them, or commit"
            )

    def add_all(self) -> tuple[str, ...]:
        """Add what is changed, and new files in folders that git tracks; returns the others that it doesn't ignore."""
        self.run("add", "--update", "--", ".")
        untracked = _paths(self.run("ls-files", "--others", "--exclude-standard", "-z"))
        folders = set(_paths(self.run("ls-tree", "-d", "-z", "--name-only", "HEAD")))
        new = [path for path in untracked if path.partition("/")[0] in folders and not path.endswith("/")]
        if new:
            listing = b"".join(os.fsencode(path) + b"\0" for path in new)
            self.run("update-index", "--add", "-z", "--stdin", stdin=listing)
        return tuple(sorted(set(untracked) - set(new)))

    def changed_submodules(self) -> tuple[str, ...]:
        """Return the submodules with changes that are not committed there."""
        lines = _paths(self.run("status", "--porcelain=v2", "-z", "--untracked-files=no", "--ignore-submodules=none"))
        entries = [line.split(" ", 8) for line in lines if line.startswith("1 ")]
        return tuple(parts[8] for parts in entries if parts[2][0] == "S" and parts[2][2:] != "..")


@contextmanager
def _scratch(checkout: Checkout, ours: Git) -> Iterator[_Scratch]:
    """Use a folder that is there as long as the context is."""
    folder = ours.directory.with_name("local.scratch")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with explained_disk_errors(folder):
            folder.mkdir(parents=True)
            yield _Scratch(checkout, ours, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _of(repository: Repository) -> Checkout:
    checkout = repository.checkout_of_user
    assert checkout is not None, "it was opened with one"
    return checkout


def _commit(ours: Git, tree: str, head: Commit, subject: str) -> Commit:
    """Make a commit of a tree on top of HEAD, of HEAD's time: the same each time."""
    variables = {
        f"GIT_{role}_{name}": value
        for role in ("AUTHOR", "COMMITTER")
        for name, value in (("NAME", _NAME), ("EMAIL", _EMAIL), ("DATE", f"{head.time} +0000"))
    }
    options = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", "--no-gpg-sign", tree, "-p", head.id, "-m", subject)
    return history.read_commit(ours, os.fsdecode(ours.run(*options, variables=variables)).strip())


def _remote(checkout: Checkout) -> str:
    """Return the remote that branches begin from; UsageError if there are several, and none of the usual names."""
    names = checkout.text("remote").splitlines()
    name = refs.usual_name(names, PREFERRED)
    if names and name is None:
        raise UsageError(f"the checkout's remotes are {', '.join(names)}: name one with --remote_repository")
    return name or "origin"


def _default(ours: Git, tips: Mapping[str, str], prefix: str, checkout: Checkout) -> str:
    """Return the remote's default branch, one of a usual name, or the only other one; UsageError: there is none."""
    default = refs.read_default(ours) if prefix else ""
    if name := refs.usual_name(tips, (default, *refs.USUAL_BRANCHES)):
        return name
    candidates = [name for name in tips if f"refs/heads/{name}" != checkout.head()]
    if not prefix and len(candidates) == 1:
        return candidates[0]
    raise UsageError(
        f"{checkout.folder}: which branch did yours begin from? Name it with --branch, or a commit with --base_commit"
    )


def _paths(listing: bytes) -> list[str]:
    return [os.fsdecode(path) for path in listing.split(b"\0") if path]
