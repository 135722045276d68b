"""The results file: a line of JSON for each tool and session."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_tools.trial import Answer
from benchmarks.raw_results import append
from opduel.records import UsageError


@dataclass(frozen=True)
class Result:
    """One tool's answers in one session."""

    session: int
    tool: str
    settings: str
    build: str
    spec: str
    seed: int
    share: float  # by which the injected cases were slowed
    injected: list[str]  # case ids
    seconds: float  # wall time of all cases together
    answers: Mapping[str, Mapping[str, Answer]]  # rule -> case id -> answer
    host: Mapping[str, Any]
    load: str = "quiet"  # beside the session: a name of benchmarks/loads.py
    started: str | None = None  # in UTC; the first results have neither this nor a commit
    commit: str | None = None  # of opduel

    @property
    def cases(self) -> list[str]:
        """The ids of all cases of the session."""
        return sorted({case for answers in self.answers.values() for case in answers})

    @property
    def key(self) -> tuple[Any, ...]:
        """What identifies the measurement: one with the same key isn't made again."""
        bench = (self.build, self.spec, self.seed, self.share, self.load, tuple(self.cases))
        return (self.session, self.tool, self.settings, *bench)


def read_results(path: Path) -> list[Result]:
    """Return all results of a file, none if it doesn't exist; ignore a last line that was cut off as a run was killed.

    Raises:
        UsageError: a line can't be read.
    """
    if not path.exists():
        return []
    results = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], start=1):
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: line {number}: {error}: remove the line, and measure again") from None
    return results


def append_result(path: Path, result: Result) -> None:
    """Append a result.

    Raises:
        UsageError: the file can't be written.
    """
    append(path, json.dumps(asdict(result)))
