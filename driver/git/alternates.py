"""The user's own repository, only read: where its objects are, and what its branches, tags and remotes are."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opduel.driver.git.access import is_url
from opduel.driver.git.command import Git
from opduel.driver.git.refs import BRANCHES, LOCAL, read_refs
from opduel.driver.version_control import CommandFailed
from opduel.records import RunError, UsageError

# The settings of the repository's own that decide how a remote is reached; the user's and the system's apply anyway.
_CARRIED = r"^(url\..*|http\..*|credential\..*|protocol\..*|core\.sshcommand)$"


@dataclass(frozen=True)
class Checkout:
    """A repository of the user's: a checkout, a linked worktree of one, or a bare repository."""

    folder: Path  # as the user gave it, absolute
    git: Git  # reads it; never writes

    @property
    def objects(self) -> Path:
        """The folder of its objects; a linked worktree's are with its repository."""
        return self.git.directory / "objects"

    def text(self, *arguments: str, fine: Sequence[int] = (0,)) -> str:
        """Return what git answers in its folder."""
        return self.git.text(*arguments, folder=self.folder, fine=fine)

    def url(self, remote: str) -> str | None:
        """Return the URL of the remote of that name, or ``remote`` itself if it is one. None: it has no remotes at all.
        UsageError: it is neither."""
        names = self.git.text("remote").splitlines()
        if remote in names:
            url = self.text("remote", "get-url", remote).splitlines()[0]
            return url if is_url(url) or Path(url).is_absolute() else str((self.folder / url).resolve())
        if is_url(remote) or os.path.exists(os.path.expanduser(remote)):
            return remote
        if not names and remote == "origin":
            return None
        remotes = f"its remotes are {', '.join(names)}" if names else "it has no remotes"
        raise UsageError(
            f"{remote}: not a remote of {self.folder}, nor a URL: {remotes}: name one of them, or give a URL"
        )

    def settings(self) -> tuple[tuple[str, str], ...]:
        """Return its own settings for reaching remotes. They may hold secrets: pass them in the environment alone."""
        listing = os.fsdecode(self.git.run("config", "--local", "--null", "--get-regexp", _CARRIED, fine=(0, 1)))
        pairs = (entry.partition("\n") for entry in listing.split("\0") if entry)
        return tuple((key, value) for key, _, value in pairs)

    def branches(self) -> dict[str, str]:
        """Return its own branches, as refs of ours."""
        return self.refs_as("refs/heads/", LOCAL)

    def tracked(self, remote: str) -> dict[str, str]:
        """Return what it knows of that remote's branches, as refs of ours."""
        return self.refs_as(f"refs/remotes/{remote}/", BRANCHES)

    def refs_as(self, theirs: str, ours: str) -> dict[str, str]:
        """Return its refs below a prefix, with another prefix in its place."""
        return {ours + name.removeprefix(theirs): id for name, id in read_refs(self.git, theirs).items()}

    def commit_id(self, name: str) -> str | None:
        """Return the id of the commit that git takes a name for in this repository (gitrevisions), such as HEAD~2."""
        if not name or name.startswith("-") or ".." in name:  # an option, or a range
            return None
        return self.text("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}", fine=(0, 1, 128)) or None

    def head(self, name: str = "HEAD") -> str:
        """Return the ref that a symbolic one stands for, or nothing."""
        return self.text("symbolic-ref", "--quiet", name, fine=(0, 1, 128))


def inspect(folder: Path, reader: Git, option: str) -> Checkout:
    """Look at a repository of the user's. UsageError: it is no repository, not the top of one, shallow, or a partial
    clone; ``option`` is named."""
    if not os.path.isdir(folder):
        raise UsageError(f"{option} {folder}: no such folder: give a git repository")
    top = folder.absolute()
    try:
        questions = ("--git-common-dir", "--is-shallow-repository", "--absolute-git-dir")
        common, shallow, directory = (reader.text("rev-parse", question, folder=top) for question in questions)
    except CommandFailed as error:
        raise UsageError(
            f"{option} {folder}: not a usable git repository (git said: {error.reason}): give a clone"
        ) from error
    if Path(directory) != top.resolve() and not (top / ".git").exists():
        raise UsageError(f"{option} {folder}: a folder inside a repository: give its top")
    if shallow == "true":
        raise UsageError(f"{option} {folder}: a shallow clone, without history: run `git fetch --unshallow` in it")
    checkout = Checkout(top, replace(reader, directory=(top / common).resolve(), ours=False))
    if not checkout.objects.is_dir():
        raise RunError(f"{option} {folder}: {checkout.objects} is not there")
    if checkout.git.run("config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$", fine=(0, 1)):
        raise UsageError(
            f"{option} {folder}: a partial clone, which lacks files until they are asked for: give a whole clone"
        )
    return checkout
