"""A Mercurial repository: a clone of ours that `hg` pulls into, and the git repository that it is converted to.

All that reads commits reads the git repository; commits have their Mercurial ids there.
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from opduel.driver.git import mirror, refs
from opduel.driver.git.access import Access, check_remote, is_url
from opduel.driver.git.command import Git
from opduel.driver.git.ids import ConvertedIds
from opduel.driver.git.repository import Repository
from opduel.driver.hg.command import Hg, find_hg
from opduel.driver.hg.conversion import convert
from opduel.driver.lock import explained_disk_errors
from opduel.driver.version_control import PAUSES, RemoteGone
from opduel.records import RunError, UsageError

log = logging.getLogger(__name__)

_DEFAULTS = ("@", "default")  # what hg clone checks out: the bookmark, else the branch
# What git-check-ref-format refuses in a name of a branch or tag.
_NOT_A_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[./]|[./]$|/\.|\.lock(/|$)")


@dataclass(frozen=True)
class HgRepository(Repository):
    """As `Repository`. Its branches are the open named branches and the bookmarks; ``tip`` is one of its tags."""

    hg: Hg = field(kw_only=True)

    def refresh(self) -> None:
        """Convert what was pulled, and take over the names of changesets."""
        ids = self.git.ids
        assert ids is not None, "it was opened with them"
        convert(self.hg, self.git, ids)
        tags = self._names("tags", "{tag}")
        branches = {**self._names("branches", "{branch}"), **self._names("bookmarks", "{bookmark}")}
        _take(self.git, tags, refs.TAGS)
        _take(self.git, branches, refs.BRANCHES)
        default = next((name for name in _DEFAULTS if name in branches), None)
        if default is None:
            self.git.run("symbolic-ref", "--delete", refs.REMOTE_HEAD, fine=(0, 1, 128))
        else:
            self.git.run("symbolic-ref", refs.REMOTE_HEAD, refs.BRANCHES + default)

    def _follow(self, url: str) -> None:
        """Pull; bookmarks become the remote's. What the remote has stripped stays."""
        options = ("--quiet", "--config", "paths.default:bookmarks.mode=mirror")
        self.hg.retry(f"pulling from {url}", lambda: self.hg.run("pull", *options, network=True), self._recover, False)
        self.refresh()

    def _recover(self) -> None:
        """Take back what a command left unfinished that was ended while it wrote."""
        if (self.hg.directory / ".hg" / "store" / "journal").exists():
            self.hg.run("recover")

    def _names(self, command: str, name: str) -> dict[str, str]:
        assert self.git.ids is not None
        lines = os.fsdecode(self.hg.run(command, "--template", f"{name}\\0{{node}}\\n")).splitlines()
        pairs = (line.split("\0") for line in lines)
        return {label: self.git.ids.ours(node) for label, node in pairs if node in self.git.ids}


def open_hg_repository(work: Path, remote: str, *, retries: bool = True) -> HgRepository:
    """Open the repository in ``work/hg``; on first use, clone and convert it.

    ``remote`` is a URL or a folder; without ``retries`` there is only one attempt to reach it.

    Raises:
        UsageError: a remote that can't be meant, or holds a secret; what is there was not made here.
        RemoteGone: it could not be cloned. Once cloned, it is missed by ``fetch``.
        RunError: the folder can't be written, or hg or git is missing.
    """
    find_hg()
    if shutil.which("git") is None:
        raise RunError("git is not installed, or not in PATH: install it: Mercurial changesets are converted to it")
    url = _url(remote)
    folder = work.absolute() / "hg"
    place = folder / "repository.git"
    clone = folder / f"clone-{hashlib.sha256(os.fsencode(url)).hexdigest()[:12]}"
    mirror.check_ours(place)
    with explained_disk_errors(work):
        folder.mkdir(parents=True, exist_ok=True)
        git = Git(place, folder / "repository.lock", access=Access(url))
        mirror.prepare(git)
        hg = Hg(clone, pauses=PAUSES if retries else ())
        _clone(hg, url)
        if not place.exists():
            (folder / "ids").unlink(missing_ok=True)
            mirror.create(git, place)
        git = replace(git, ids=ConvertedIds(folder / "ids"))
        mirror.refit(git, None)
        repository = HgRepository(git, None, hg=hg)
        repository._recover()
        if not repository.has_branches():
            repository.refresh()
    return repository


def _url(remote: str) -> str:
    check_remote(remote, "put it into your hgrc (hg help config.auth)")
    if is_url(remote):
        return remote
    path = Path(remote).expanduser().absolute()
    if path.is_dir() and not (path / ".hg").is_dir():
        kind = " but a git repository: leave out --repo hg" if (path / ".git").exists() else ": give its top folder"
        raise UsageError(f"--remote_repository {path}: not a Mercurial repository{kind}")
    return str(path)


def _clone(hg: Hg, url: str) -> None:
    """Make the clone, completely or not at all; clones of other remotes are removed."""
    unfinished = hg.directory.with_name(hg.directory.name + ".making")
    for other in hg.directory.parent.glob("clone-*"):
        if other != hg.directory:
            shutil.rmtree(other, ignore_errors=True)
    if hg.directory.is_dir():
        return
    if not is_url(url) and not Path(url).exists():
        raise RemoteGone(f"--remote_repository {url}: no such folder: give an existing one, or a URL")
    command = ("clone", "--quiet", "--noupdate", "--", url, str(unfinished))
    hg.retry(
        f"cloning {url}",
        lambda: hg.run(*command, folder=unfinished.parent, network=True),
        lambda: shutil.rmtree(unfinished, ignore_errors=True),
        clones=True,
    )
    unfinished.rename(hg.directory)


def _take(git: Git, names: Mapping[str, str], under: str) -> None:
    """Make refs of the names, except of those that git can't have, which are logged: a changeset's id names it, too."""
    usable: dict[str, str] = {}
    for name in sorted(names):
        folders = {name[:end] for end, character in enumerate(name) if character == "/"}
        if _NOT_A_REF.search(name) or folders & usable.keys():
            log.warning("%r: a name that git can't have: give the changeset's id instead", name)
            continue
        usable[name] = names[name]
    refs.mirror(git, {under + name: id for name, id in usable.items()}, under)
