"""Files of raw results: a line of JSON for each, on the disk as soon as it is known, with the code that it is of."""

import os
from pathlib import Path

import git

from opduel.records import UsageError

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "benchmarks/results"


def append(path: Path, line: str) -> None:
    """Add a line, without its end, which is on the disk when this returns; what a killed run left of one is cut away.

    Raises:
        UsageError: it can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as stream:
            stream.seek(0)
            stream.truncate(stream.read().rfind(b"\n") + 1)
            stream.write(line.encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise UsageError(f"--data {path}: {error.strerror}: give a file that can be written") from None


def commit_of(folder: Path = ROOT) -> str | None:
    """The commit that is checked out there, with ``-dirty`` if files of it were changed, but for raw results; None
    without a repository that git reads."""
    try:
        repository = git.Repo(folder)
        commit = repository.head.commit.hexsha[:12]
        changed = repository.git.diff("HEAD", "--name-only", "--", ".", f":(exclude){RESULTS}")
        return f"{commit}-dirty" if changed else commit
    except (git.GitError, ValueError):  # ValueError: there is no commit
        return None
