"""What a commit holds: its trees by hash, and its files."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from opduel.driver.git.command import Git
from opduel.driver.git.patch import ChangedFile, parse_patch
from opduel.driver.lock import explained_disk_errors
from opduel.records import Commit, UsageError


class Entry(NamedTuple):
    """An entry of a tree as git ls-tree prints it; ``kind`` is "blob", "tree" or "commit", which is a submodule."""

    mode: str
    kind: str
    id: str  # the hash of the object
    path: str

    @property
    def text(self) -> str:
        """Return "mode type hash"."""
        return " ".join(self[:3])


@dataclass(frozen=True)
class Trees:
    """What the commits of a repository hold."""

    git: Git

    def entries(self, commit: Commit) -> dict[str, str]:
        """Return the top level of the commit: name -> "mode type hash", as git ls-tree prints them."""
        return {entry.path: entry.text for entry in self.list_entries(commit.id)}

    def tree(self, commit: Commit, path: str) -> str:
        """Return the hash of a folder, equal exactly when all in it is equal. UsageError: the commit has no such
        folder."""
        relative = str(PurePosixPath(path))
        if relative.startswith("/") or ".." in PurePosixPath(path).parts:
            raise UsageError(f"{path}: not a path in the repository: give one relative to its top")
        if relative == ".":
            return self.git.text("rev-parse", "--verify", f"{commit.id}^{{tree}}")
        for entry in self.list_entries(commit.id, relative):
            if entry.kind == "tree":
                return entry.id
        raise UsageError(f"{path}: commit {commit.short} has no such folder")

    def files(self, commit: Commit, path: str) -> list[str]:
        """Return all files below a folder, relative to it, symbolic links included, submodules not."""
        entries = self.list_entries(self.tree(commit, path), recursive=True)
        return [entry.path for entry in entries if entry.kind == "blob"]

    def listing(self, commit: Commit) -> dict[str, str]:
        """Return all files and submodules of the commit: path -> "mode type hash"."""
        return {entry.path: entry.text for entry in self.list_entries(commit.id, recursive=True)}

    def content(self, commit: Commit, path: str) -> bytes | None:
        """Return the content of one file; None if the commit has no such file."""
        for entry in self.list_entries(commit.id, path):
            if entry.kind == "blob":
                return self.git.run("cat-file", "blob", entry.id)
        return None

    def changes(self, older: Commit, newer: Commit) -> list[ChangedFile]:
        """Return the files that differ between two commits, with the lines that changed."""
        options = ["-r", "-z", "--raw", "--patch", "--unified=0", "--find-renames", "--no-color", "--no-ext-diff"]
        options += ["--no-textconv", "--ignore-submodules=none", "--submodule=short"]
        return parse_patch(self.git.run("diff-tree", *options, older.id, newer.id).decode("utf-8", "replace"))

    def export(self, commit: Commit, path: str, destination: Path) -> None:
        """Write the files of a folder at a commit into ``destination``, which is made.

        Symbolic links that lead out of it are left out. Modes are kept, owners and times are not.

        Raises:
            UsageError: the commit has no such folder.
            RunError: the content of a file is missing, or it can't be written.
            NoSpaceError: the disk is full.
        """
        tree = self.tree(commit, path)
        with explained_disk_errors(destination), tempfile.TemporaryDirectory(dir=self.git.directory) as folder:
            destination.mkdir(parents=True, exist_ok=True)
            index = {"GIT_INDEX_FILE": f"{folder}/index"}
            self.git.run("read-tree", tree, variables=index)
            self.git.run(f"--work-tree={destination.absolute()}", "checkout-index", "--all", "--force", variables=index)
            for link in [path for path in destination.rglob("*") if path.is_symlink()]:
                if not Path(os.path.realpath(link)).is_relative_to(os.path.realpath(destination)):
                    link.unlink()

    def list_entries(self, name: str, *paths: str, recursive: bool = False) -> list[Entry]:
        """Return the entries of a tree or commit."""
        options = ["-z", "--full-tree", *(["-r"] if recursive else [])]
        listing = os.fsdecode(self.git.run("--literal-pathspecs", "ls-tree", *options, name, "--", *paths))
        lines = (line.split("\t", 1) for line in listing.split("\0") if line)
        return [Entry._make((*text.split(), path)) for text, path in lines]
