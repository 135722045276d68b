"""Names of commits: branches and tags of the remote, branches and tags of the user's own repository, ids."""

import difflib
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opduel.driver.git.command import Git
from opduel.driver.git.history import UnknownCommit, read_commit
from opduel.driver.version_control import CommandFailed
from opduel.records import Commit, UsageError

log = logging.getLogger(__name__)

BRANCHES = "refs/remotes/origin/"
REMOTE_HEAD = BRANCHES + "HEAD"
TAGS = "refs/tags/"
LOCAL = "refs/local/heads/"
LOCAL_TAGS = "refs/local/tags/"
LOCAL_HEAD = "refs/local/HEAD"
USUAL_BRANCHES = ("main", "master", "develop", "trunk")

_FULL_ID = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[0-9a-f]{4,40}")
_REVISION = re.compile(r"(?P<name>.+?)(?P<steps>([~^]\d*)*)")  # main~2, v1.0^: gitrevisions
_SIMILAR = 5
_LIKENESS = 0.7  # from which on names are similar: mian and main, not v9.9 and v0.0.9


def read_refs(git: Git, under: str = "refs/") -> dict[str, str]:
    """Return every ref but the symbolic ones, with the id that it holds (of a tag object, if it is one)."""
    lines = git.text("for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)", under).splitlines()
    refs = (line.split("\0") for line in lines)
    return {name: target for name, target, symbolic in refs if not symbolic}


def write_refs(git: Git, targets: Mapping[str, str], unwanted: set[str]) -> None:
    """Set and remove refs. All are removed first: a branch "a" makes room for a branch "a/b"."""
    for commands in ([f"delete {name}\n" for name in unwanted], [f"update {n} {i}\n" for n, i in targets.items()]):
        if commands:
            git.run("update-ref", "--stdin", "--no-deref", stdin="".join(commands).encode("utf-8", "surrogateescape"))


def drop_dangling(git: Git) -> None:
    """Remove refs whose object is gone: the user's repository, from which it was borrowed, was cleaned up meanwhile."""
    refs = read_refs(git)
    lost = missing(git, set(refs.values()))
    dangling = {name for name, target in refs.items() if target in lost}
    for name in sorted(dangling):
        log.warning("%s: its commit %s is no longer in the repository: dropped", name, refs[name][:12])
    write_refs(git, {}, dangling)


def mirror(git: Git, targets: Mapping[str, str], under: str) -> None:
    """Make the refs below a prefix equal to those given, except any whose object isn't there."""
    present = read_refs(git, under)
    lost = missing(git, set(targets.values()) - set(present.values()))
    usable = {name: target for name, target in targets.items() if target not in lost}
    changed = {name: target for name, target in usable.items() if present.get(name) != target}
    write_refs(git, changed, present.keys() - usable.keys())


@dataclass(frozen=True)
class Names:
    """What the commits of a repository are called."""

    git: Git

    def resolve(self, name: str) -> Commit:
        """Return the commit of a branch of the remote, its tag, a tag of the user's, a branch of theirs, an id or its
        beginning, or the remote's ``HEAD``, in that order; or one so many steps before (``main~2``). UnknownCommit:
        there is none, or several ids begin so."""
        revision = _REVISION.fullmatch(name)
        base, steps = (revision["name"], revision["steps"]) if revision else (name, "")
        prefixes = (BRANCHES, TAGS, LOCAL_TAGS, LOCAL)
        names = [prefix + base for prefix in prefixes]
        id = base.lower()
        if is_id := _ID.fullmatch(id) is not None:
            names += self.git.ids.beginning(id) if self.git.ids else [id]
        if base == "HEAD":
            names.append(BRANCHES + self.default_branch())
        if commit := self._first_commit(f"{candidate}{steps}" for candidate in names):
            return commit
        several = ", or several commits begin so: give all 40 digits" if is_id else ""
        hint = _similar(name, read_refs(self.git), prefixes)
        raise UnknownCommit(f"{name!r}: no branch, tag or commit of that name{several}{hint}")

    def branch(self, name: str) -> Commit:
        """Return the newest commit of a branch of the remote, or else of the user's own; or the commit of a full id.
        UnknownCommit: there is none; a tag of that name, or an id that begins so, does not stand in for it."""
        if _FULL_ID.fullmatch(name):
            return Names.resolve(self, name)
        if commit := self._first_commit(prefix + name for prefix in (BRANCHES, LOCAL)):
            return commit
        raise UnknownCommit(f"{name!r}: no branch of that name{_similar(name, read_refs(self.git), (BRANCHES, LOCAL))}")

    def has_branches(self) -> bool:
        """Tell whether there are any commits at hand: branches of the remote, or of the user's repository."""
        return any(read_refs(self.git, under) for under in (BRANCHES, LOCAL))

    def default_branch(self) -> str:
        """Return the remote's; if that is not known: main or master, or the only one, or what the user has checked out.
        UsageError: none of these, or the remote's default branch was deleted."""
        refs = read_refs(self.git)
        if head := read_default(self.git):
            if BRANCHES + head not in refs:
                raise UsageError(f"the remote's default branch {head!r} was deleted: name a branch with --branch")
            return head
        branches = [name.removeprefix(BRANCHES) for name in refs if name.startswith(BRANCHES)]
        if name := usual_name(branches, USUAL_BRANCHES):
            return name
        if (head := _target(self.git, LOCAL_HEAD)) in refs:
            return head.removeprefix(LOCAL)
        raise UsageError(f"the repository has no default branch ({len(branches)} branches): name one with --branch")

    def _first_commit(self, revisions: Iterable[str]) -> Commit | None:
        """Return the commit of the first revision that has one."""
        return next(filter(None, (_peeled(self.git, revision) for revision in revisions)), None)


def usual_name(names: Collection[str], preferred: Iterable[str]) -> str | None:
    """Return the first preferred name that is among the names, or else the only one."""
    return next((name for name in preferred if name in names), None) or (next(iter(names)) if len(names) == 1 else None)


def read_default(git: Git) -> str:
    """Return the name of the remote's default branch as last fetched, whether or not the branch is still there."""
    return _target(git, REMOTE_HEAD).removeprefix(BRANCHES)


def _target(git: Git, symbolic: str) -> str:
    return git.text("symbolic-ref", "--quiet", symbolic, fine=(0, 1))


def _peeled(git: Git, id: str) -> Commit | None:
    """Return the commit of an id or of a tag's; None for a tag of something else, or an unknown id."""
    try:
        return read_commit(git, f"{id}^{{commit}}")
    except CommandFailed as error:
        if error.status == 128:
            return None
        raise


def missing(git: Git, ids: set[str]) -> set[str]:
    """Return those of the ids of which the repository has no object."""
    answer = git.run("cat-file", "--batch-check", stdin="\n".join(sorted(ids)).encode()) if ids else b""
    return {line.split()[0] for line in answer.decode().splitlines() if line.endswith("missing")}


def _similar(name: str, refs: Iterable[str], prefixes: Sequence[str]) -> str:
    """Return a hint at names that are nearly the same, if there are any."""
    names = {ref.removeprefix(prefix) for ref in refs for prefix in prefixes if ref.startswith(prefix)}
    similar = difflib.get_close_matches(name, sorted(names), _SIMILAR, _LIKENESS)
    return f"; similar: {', '.join(similar)}" if similar else ""
