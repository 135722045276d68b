"""What a commit holds: its trees by hash, and its files."""

import logging
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opduel.driver.git.command import Git
from opduel.records import Commit, NoSpaceError, RunError, UsageError, is_full

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trees:
    """What the commits of a repository hold."""

    git: Git

    def entries(self, commit: Commit) -> dict[str, str]:
        """The top level of the commit: name -> "mode type hash", as git ls-tree prints them."""
        return {name: what for what, name in self._list(commit.id)}

    def tree(self, commit: Commit, path: str) -> str:
        """The hash of a folder: equal exactly when all in it is equal. UsageError: the commit has no such folder."""
        relative = str(PurePosixPath(path))
        if relative.startswith("/") or ".." in PurePosixPath(path).parts:
            raise UsageError(f"{path}: not a path in the repository: give one relative to its top")
        if relative == ".":
            return self.git.text("rev-parse", "--verify", f"{commit.id}^{{tree}}")
        for what, _ in self._list(commit.id, relative):
            _, kind, name = what.split()
            if kind == "tree":
                return name
        raise UsageError(f"{path}: commit {commit.short} has no such folder")

    def files(self, commit: Commit, path: str) -> list[str]:
        """All files below a folder, relative to it, symbolic links included, submodules not."""
        return [name for what, name in self._list(self.tree(commit, path), recursive=True) if what.split()[1] == "blob"]

    def listing(self, commit: Commit) -> dict[str, str]:
        """All files and submodules of the commit: path -> "mode type hash"."""
        return {path: what for what, path in self._list(commit.id, recursive=True)}

    def content(self, commit: Commit, path: str) -> bytes | None:
        """The content of one file; None if the commit has no such file."""
        for what, _ in self._list(commit.id, path):
            _, kind, name = what.split()
            if kind == "blob":
                return self.git.run("cat-file", "blob", name)
        return None

    def patch(self, older: Commit, newer: Commit) -> str:
        """What changed from one commit to another, without context; renames are one file, submodules one line."""
        options = ["-r", "--patch", "--unified=0", "--find-renames", "--no-color", "--no-ext-diff", "--no-textconv"]
        options += ["--ignore-submodules=none", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"]
        found = self.git.run("-c", "core.quotePath=false", "diff-tree", *options, older.id, newer.id)
        return found.decode("utf-8", "replace")

    def mentions(self, commit: Commit, text: str) -> bool:
        """Whether that text is in a file of the commit, or in a file's path; submodules are not searched."""
        found = self.git.text("grep", "-l", "-F", "-e", text, commit.id, fine=(0, 1))
        return bool(found) or any(text in path for path in self.listing(commit))

    def export(self, commit: Commit, path: str, destination: Path) -> None:
        """Write the files of a folder at a commit into ``destination``, which is made.

        Symbolic links that lead out of it are left out, with a warning. Modes are kept, owners and times are not.

        Raises:
            UsageError: the commit has no such folder.
            RunError: the content of a file is missing, or a path leads out of the destination, or it can't be written.
            NoSpaceError: the disk is full.
        """
        name = self.tree(commit, path)
        try:
            destination.mkdir(parents=True, exist_ok=True)
            with self.git.stream("archive", "--format=tar", name) as output:
                with tarfile.open(fileobj=output, mode="r|") as archive:
                    for member in archive:
                        _extract(archive, member, destination)
                while output.read(1 << 16):  # padding; to the end, where git says whether it failed
                    pass
        except tarfile.TarError as error:
            self.git.run(
                "archive", "--format=tar", "--output=/dev/null", name
            )  # says what is wrong, if git is what is wrong
            raise RunError(f"{path} of commit {commit.short}: {error}") from error
        except OSError as error:
            kind = NoSpaceError if is_full(error) else RunError
            raise kind(f"{destination}: {error.strerror or error}") from error

    def _list(self, name: str, *paths: str, recursive: bool = False) -> list[tuple[str, str]]:
        """("mode type hash", path) of the entries."""
        options = ["-z", "--full-tree", *(["-r"] if recursive else [])]
        listing = os.fsdecode(self.git.run("--literal-pathspecs", "ls-tree", *options, name, "--", *paths))
        found = (entry.partition("\t") for entry in listing.split("\0") if entry)
        return [(what, path) for what, _, path in found]


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, destination: Path) -> None:
    try:
        safe = tarfile.data_filter(member, str(destination))
    except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
        log.debug("%s: a link to %s, outside the folder: skipped", member.name, member.linkname)
        return
    if ".." in PurePosixPath(member.name).parts:
        raise tarfile.OutsideDestinationError(member, member.name)
    safe.mtime = 0 if safe.mtime is None else safe.mtime
    archive.extract(safe, destination, filter="fully_trusted")
