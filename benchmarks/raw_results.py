"""Files of raw results: a line of JSON for each, written to disk at once, and the commit that measured it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import git

from benchmarks.bench import ROOT
from opduel.records import UsageError

RESULTS = "benchmarks/results"
T = TypeVar("T")


def read(path: Path, parse: Callable[[dict[str, Any]], T]) -> list[T]:
    """Return the parsed results of a file, none if it doesn't exist; ignore a last line that was cut off as its run was
    killed.

    Raises:
        UsageError: a line is no such result.
    """
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    results = []
    for number, line in enumerate(lines, start=1):
        try:
            results.append(parse(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"--data {path}: line {number} is no such result ({error!r}): delete it") from None
    return results


def append(path: Path, line: str) -> None:
    """Append a line, given without its end, and sync it to disk; remove what a killed run left of an earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(line.encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def commit_of(folder: Path = ROOT) -> str | None:
    """Return the commit that is checked out in a folder, with ``-dirty`` if files other than raw results were changed;
    None if there is no commit, or git can't read the repository."""
    try:
        repository = git.Repo(folder)
        commit = repository.head.commit.hexsha[:12]
        changed = repository.git.diff("HEAD", "--name-only", "--", ".", f":(exclude){RESULTS}")
        return f"{commit}-dirty" if changed else commit
    except (git.GitError, ValueError):  # ValueError: there is no commit
        return None
