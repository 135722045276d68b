"""The results file: one JSON line for each tool and session, appended as soon as it is known."""

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
    """What one tool said in one session. ``seconds`` is wall time for all cases of the session together."""

    session: int
    tool: str
    settings: str
    origin: str
    build: str
    spec: str
    seed: int
    share: float
    injected: list[str]
    seconds: float
    answers: Mapping[str, Mapping[str, Answer]]  # rule -> case id -> answer
    host: Mapping[str, Any]
    load: str = "quiet"  # beside it: a name of benchmarks/loads.py
    started: str | None = None  # in UTC; the first results have neither this nor a commit
    commit: str | None = None  # of opduel

    @property
    def cases(self) -> list[str]:
        """The ids of all cases of the session."""
        return sorted({case for by_case in self.answers.values() for case in by_case})

    @property
    def key(self) -> tuple[Any, ...]:
        """What a later call need not do again."""
        asked = (self.session, self.tool, self.settings, self.build, self.spec, self.seed, self.share, self.load)
        return (*asked, tuple(self.cases))


def read_results(path: Path) -> list[Result]:
    """All of them; none if there is no file. A last line without an end was cut off when a run was killed.

    Raises:
        UsageError: a line can't be read.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    results = []
    for number, line in enumerate(lines, start=1):
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: line {number}: {error}: remove the line, and the run is made again") from None
    return results


def append_result(path: Path, result: Result) -> None:
    """Add a line, on the disk when this returns. Raises UsageError: it can't be written."""
    append(path, json.dumps(asdict(result)))
