"""The results of peers.py: a line of JSON for each tool and session, and their table: each rule's false flags and
detections with exact intervals, and what they cost."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.markdown import rate_text, table
from benchmarks.peer_tools.trial import Answer
from benchmarks.raw_results import read
from opduel.comparator.calibration import Rate


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
    """Return all results of a file.

    Raises:
        UsageError: as ``raw_results.read``.
    """
    return read(path, lambda document: Result(**document))


def markdown(results: Iterable[Result], share: float) -> str:
    """Return the table of sessions in which cases were slowed by this share: a row for each rule and its tool's
    settings, in alphabetical order; without a column of slowed cases if there are none."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        for rule in result.answers:
            groups.setdefault((rule, result.settings), []).append(result)
    detected = [f"found of +{100 * share:g} %"] if share else []
    heading = ["rule", "false flags of A/A", *detected, "called faster though slowed", "failed", "s a case"]
    return "\n".join(table(heading, [_cells(rule, group) for (rule, _), group in sorted(groups.items())]))


def _cells(rule: str, results: Iterable[Result]) -> list[str]:
    slowed: list[Answer] = []
    unslowed: list[Answer] = []
    seconds_a_case = []
    for result in results:
        seconds_a_case.append(result.seconds / len(result.answers[rule]))
        for case, answer in result.answers[rule].items():
            (slowed if result.share and case in result.injected else unslowed).append(answer)
    failed = slowed.count("failed") + unslowed.count("failed")
    flags = unslowed.count("slower") + unslowed.count("faster")
    rates = [rate_text(Rate(flags, len(unslowed) - unslowed.count("failed")))]
    if answered := len(slowed) - slowed.count("failed"):
        rates.append(rate_text(Rate(slowed.count("slower"), answered)))
    return [rule, *rates, str(slowed.count("faster")), str(failed), f"{statistics.fmean(seconds_a_case):.1f}"]
