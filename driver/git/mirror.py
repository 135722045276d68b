"""Our own bare repository: made completely or not at all, and repaired after a kill."""

import logging
import os
import shutil
from pathlib import Path

from opduel.driver.git import refs
from opduel.driver.git.alternates import Checkout
from opduel.driver.git.borrowing import borrow, check_borrowed
from opduel.driver.git.command import Git, wait_for_leftovers
from opduel.records import UsageError
from opduel.support.files import UnreadableError, read_text

log = logging.getLogger(__name__)

_ATTRIBUTES = "* -export-ignore -export-subst\n"  # in info/attributes of ours, by which it is known
_UNFINISHED = (
    *("**/*.lock", "packed-refs.new", "objects/tmp_objdir-*", "objects/incoming-*"),
    *("objects/*/tmp_*", "objects/pack/.tmp-*"),
)
SHALLOW = "a shallow repository, without history: run `git fetch --unshallow` there, or give a complete one"


def check_ours(place: Path) -> None:
    """Raise UsageError if what is at ``place`` was not made here: nothing else may be written to."""
    if not os.path.lexists(place):
        return
    try:
        ours = read_text(place / "info" / "attributes", pipes=False) == _ATTRIBUTES
    except UnreadableError:
        ours = False
    if not ours:
        raise UsageError(f"{place}: is not the driver's own repository: give another folder with --work_dir")


def aside(place: Path) -> Path:
    """Return where it is made."""
    return place.with_name(place.name + ".making")


def clone(git: Git, place: Path) -> None:
    """Clone the remote. A folder is cloned with hard links, and with the places from which it borrows objects itself.
    RemoteGone: every attempt failed, or another one could not succeed; UsageError: the remote is shallow."""
    clone, url = aside(place), git.access.url or ""
    options = ("--quiet", "--no-checkout", "--origin=origin", "--template=")
    command = ("clone", *options, "--", url, str(clone))
    git.retry(
        f"cloning {url}",
        lambda: git.run(*command, folder=place.parent, network=True),
        lambda: shutil.rmtree(clone, ignore_errors=True),
        clones=True,
    )
    if (clone / ".git" / "shallow").exists():
        shutil.rmtree(clone)
        raise UsageError(f"--remote_repository {url}: {SHALLOW}")
    ours = Git(clone / ".git", git.lock)
    refs.write_refs(ours, {}, set(refs.read_refs(ours, "refs/heads/")))
    for section in ours.text("config", "--name-only", "--get-regexp", r"^branch\.", fine=(0, 1)).splitlines():
        ours.run("config", "--unset-all", section)
    _make_bare(ours)
    (clone / ".git").rename(place)
    clone.rmdir()


def create(git: Git, place: Path, checkout: Checkout | None = None, remote: str | None = None) -> None:
    """Create an empty repository that borrows the checkout's objects, with what the checkout knows of the remote."""
    empty = aside(place)
    git.run("init", "--quiet", "--bare", "--template=", str(empty), folder=place.parent)
    if checkout:
        borrow(empty, checkout.objects)
    ours = Git(empty, git.lock)
    if checkout and remote is not None:
        take_tracked(ours, checkout, remote)
    _make_bare(ours)
    empty.rename(place)


def take_tracked(git: Git, checkout: Checkout, remote: str) -> None:
    """Take over what the checkout knows of a remote of its: branches, and which of them is the default."""
    refs.mirror(git, checkout.tracked(remote), refs.BRANCHES)
    if (head := checkout.head(f"refs/remotes/{remote}/HEAD")).startswith(f"refs/remotes/{remote}/"):
        git.run("symbolic-ref", refs.REMOTE_HEAD, refs.BRANCHES + head.removeprefix(f"refs/remotes/{remote}/"))
    else:
        git.run("symbolic-ref", "--delete", refs.REMOTE_HEAD, fine=(0, 1, 128))


def refit(git: Git, checkout: Checkout | None) -> None:
    """Bring a repository that is there up to what was asked for: the remote's URL, the user's own branches and tags.
    UsageError: objects that it borrows are gone."""
    if checkout:
        borrow(git.directory, checkout.objects)
    check_borrowed(git.directory)
    refs.drop_dangling(git)
    configured = git.text("config", "--get", "remote.origin.url", fine=(0, 1))
    if configured != (git.access.url or ""):
        if configured:  # what is known of another remote must not pass for this one's
            refs.write_refs(git, {}, set(refs.read_refs(git, refs.BRANCHES)))
            git.run("update-ref", "--no-deref", "-d", refs.REMOTE_HEAD)
        if git.access.url is None:
            git.run("config", "--unset-all", "remote.origin.url", fine=(0, 5))
        else:
            if not configured:
                refs.mirror(git, {}, refs.TAGS)  # those of the user, as there was no remote
            git.run("config", "--replace-all", "remote.origin.url", git.access.url)
    take_local(git, checkout)


def take_local(git: Git, checkout: Checkout | None) -> None:
    """Take over the user's own branches, below refs/local/heads, and their tags, below refs/local/tags.

    Without a remote refs/tags has these, too: builds ask git how their commit is described.
    """
    refs.mirror(git, checkout.branches() if checkout else {}, refs.LOCAL)
    refs.mirror(git, checkout.refs_as(refs.TAGS, refs.LOCAL_TAGS) if checkout else {}, refs.LOCAL_TAGS)
    if checkout is None:
        return
    if git.access.url is None:
        refs.mirror(git, refs.read_refs(checkout.git, refs.TAGS), refs.TAGS)
    if (head := checkout.head()).startswith("refs/heads/"):
        git.run("symbolic-ref", refs.LOCAL_HEAD, refs.LOCAL + head.removeprefix("refs/heads/"))


def prepare(git: Git) -> None:
    """Clear away what a killed process left."""
    wait_for_leftovers(git.lock)
    sweep(git.directory)


def sweep(place: Path) -> None:
    """Remove what killed git commands left: locks that nobody holds any more, and unfinished files.

    Only for a repository on which no command runs: see `opduel.driver.git.command.wait_for_leftovers`.
    """
    shutil.rmtree(aside(place), ignore_errors=True)
    paths = {path for pattern in _UNFINISHED for path in place.glob(pattern)}
    paths |= {path for path in place.glob("refs/**/*") if path.is_file() and path.stat().st_size == 0}
    paths |= {path for path in place.glob("worktrees/*/locked") if path.read_text() == "initializing"}
    for path in sorted(paths):
        log.info("removing %s, left by a killed process", path)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _make_bare(git: Git) -> None:
    """Make it a bare repository whose worktrees have settings of their own (git-worktree, "Configuration file")."""
    (git.directory / "index").unlink(missing_ok=True)
    git.run("config", "extensions.worktreeConfig", "true")
    git.run("config", "--unset-all", "core.bare", fine=(0, 5))
    git.run("config", "--file", str(git.directory / "config.worktree"), "core.bare", "true")
    git.run("config", "gc.auto", "0")
    git.run("config", "remote.origin.fetch", f"+refs/heads/*:{refs.BRANCHES}*")
    info = git.directory / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
