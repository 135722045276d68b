"""Our own repository of a project's commits. Whatever the user has is read, and never written to."""

import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from opduel.driver.git import files, history, mirror, refs, worktree
from opduel.driver.git.access import Access, access_to, check_remote, is_url, split
from opduel.driver.git.alternates import Checkout, inspect
from opduel.driver.git.command import Git
from opduel.driver.lock import explained_disk_errors
from opduel.driver.version_control import NETWORK_SECONDS, PAUSES, CommandFailed, RemoteGone
from opduel.records import Commit, UsageError

log = logging.getLogger(__name__)

# Tags by --tags: a refspec of theirs would have them pruned (git-fetch, "Pruning").
_BRANCHES = f"+refs/heads/*:{refs.BRANCHES}*"
_HEAD = re.compile(r"HEAD([~^].*)?")
_SHALLOW = b"because shallow roots are not allowed"  # with exit code 0


@dataclass(frozen=True)
class Repository(refs.Names, history.Commits, files.Trees):
    """A bare repository, ours alone, with the remote's branches and tags and the user's own. Nothing in it is ever
    lost.

    Commits that no branch holds any more, after a force-push for example, stay: nothing is collected (``gc.auto`` 0).
    One process at a time may use it: a lock of the caller's.
    """

    checkout_of_user: Checkout | None = None

    @property
    def directory(self) -> Path:
        """The bare repository's folder."""
        return self.git.directory

    def fetch(self) -> None:
        """Bring branches and tags up to date, with several attempts; without a remote, the user's own alone.

        A branch that is gone from the remote is removed. A tag that is gone stays, since running jobs and kept reports
        name it; one that was moved, or a forced branch, is taken as it is.
        RemoteGone: every attempt failed, or another one could not succeed. What was there before stays usable.
        UsageError: the remote is shallow, or borrowed objects are gone.
        """
        if url := self.git.access.url:
            self._follow(url)
        mirror.take_local(self.git, self.checkout_of_user)

    def resolve(self, name: str) -> Commit:
        """Resolve as `Names.resolve` does, or as the user's repository does, which ``HEAD`` is always of; without one,
        as the remote does, if it is a folder. UnknownCommit: there is none, or several ids begin so."""
        try:
            if not (_HEAD.fullmatch(name) and self._folder):
                return super().resolve(name)
            unknown = history.UnknownCommit(f"{name!r}: has no commit")
        except history.UnknownCommit as error:
            unknown = error
        commit_id = self._folder.commit_id(name) if self._folder else None
        if commit_id is None:
            raise unknown
        try:
            return history.read_commit(self.git, commit_id)
        except CommandFailed:
            raise history.UnknownCommit(
                f"{name!r}: {commit_id[:12]} is on no branch of {self.git.access.url}: make one, or use --repo_dir"
            ) from None

    @cached_property
    def _folder(self) -> Checkout | None:
        """The user's repository, or the remote, if it is a folder."""
        url = self.git.access.url or ""
        if self.checkout_of_user or self.git.ids or is_url(url) or not os.path.isdir(url):  # with ids it isn't git's
            return self.checkout_of_user
        return inspect(Path(url), self.git, "--remote_repository")

    def checkout(
        self, commit: Commit, folder: Path, patterns: Sequence[str] = (), submodules: Sequence[str] = ()
    ) -> None:
        """Make ``folder`` a worktree at the commit: see `opduel.driver.git.worktree.checkout`."""
        worktree.checkout(self.git, commit, folder, patterns, submodules)

    def _follow(self, url: str) -> None:
        self.git.retry(f"fetching from {url}", self._fetch, lambda: mirror.sweep(self.directory), clones=False)
        if (self.directory / "shallow").exists():
            raise UsageError(f"--remote_repository {url}: {mirror.SHALLOW}")
        self._follow_head()

    def _fetch(self) -> bytes:
        options = ("--quiet", "--prune", "--no-prune-tags", "--tags", "--force", "--no-write-fetch-head")
        try:
            return self.git.run("fetch", *options, "origin", _BRANCHES, network=True, fatal=_SHALLOW)
        except CommandFailed as error:
            if "shallow" in error.reason:
                raise UsageError(f"--remote_repository {self.git.access.url}: {mirror.SHALLOW}") from error
            raise

    def _follow_head(self) -> None:
        """Take over which branch is the remote's default; if it can't be had, the one known before stays."""
        try:
            self.git.run("remote", "set-head", "origin", "--auto", network=True)
        except CommandFailed as error:
            log.info("the remote's default branch is not known: git said: %s", error.reason)


def open_repository(
    work: Path,
    remote: str | None,
    repo_dir: Path | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    time_limit: float = NETWORK_SECONDS,
    retries: bool = True,
) -> Repository:
    """Open the repository at ``work/repository.git``; on first use, clone the remote or borrow from ``repo_dir``.

    Without ``repo_dir``, ``remote`` is a URL or a folder. With it, ``remote`` is the name of one of its remotes, or a
    URL; nothing is fetched before `Repository.fetch`, but what the checkout knows of the remote is there at once. None:
    there is no remote, and nothing is ever fetched.
    ``time_limit`` is for one git command that uses the network, in seconds; ``sleep`` waits between attempts;
    without ``retries`` there is only one.

    Raises:
        UsageError: a remote or folder that can't be meant, is shallow, or holds a secret; borrowed objects that are
        gone; in ``work`` is a repository that was not made here.
        RemoteGone: it could not be cloned, or is a folder that is not there. Once cloned, it is missed by ``fetch``.
        RunError: the folder can't be written, or git is missing.
    """
    place = work.absolute() / "repository.git"
    mirror.check_ours(place)
    with explained_disk_errors(work):
        place.parent.mkdir(parents=True, exist_ok=True)
        git = Git(
            place,
            place.with_name("repository.lock"),
            time_limit=time_limit,
            sleep=sleep,
            pauses=PAUSES if retries else (),
        )
        checkout = inspect(repo_dir, git, "--repo_dir") if repo_dir else None
        git = replace(git, access=_access(git, remote, checkout))
        mirror.prepare(git)
        if not place.exists():
            if checkout:
                mirror.create(git, place, checkout, remote)
            else:
                mirror.clone(git, place)
        mirror.refit(git, checkout)
    return Repository(git, checkout)


def _access(git: Git, remote: str | None, checkout: Checkout | None) -> Access:
    settings = checkout.settings() if checkout else ()
    if remote is None and checkout:
        return Access(config=settings)
    remote = remote or ""
    check_remote(remote)
    url = checkout.url(remote) if checkout else remote
    if url is None:
        return Access(config=settings)
    if not is_url(url):
        expanded = os.path.expanduser(url)
        if expanded.startswith("~"):
            raise UsageError(f"--remote_repository {url}: there is no such user: give the full path")
        path = Path(expanded).absolute()
        if path.is_dir():
            inspect(path, git, "--remote_repository")
        elif not path.exists() and not checkout and not git.directory.exists():
            raise RemoteGone(f"--remote_repository {path}: no such folder: give an existing one, or a URL")
        url = str(path)
    # A rule of the user's, url.<x>.insteadOf, may put credentials into the URL, where the process list would show them.
    reader = replace(git, access=Access(config=settings))
    effective = reader.text("ls-remote", "--get-url", "--", split(url)[0], folder=git.directory.parent)
    return access_to(url, effective, settings)
