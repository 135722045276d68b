"""The table of peers.py: each rule's false flags and detections with exact intervals, and what they cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.peer_tools.results import Result
from opduel.comparator.calibration import Rate


@dataclass
class Row:
    """One rule on one tool's data, over all sessions with one slowdown."""

    rule: str
    unslowed: int = 0
    false_flags: int = 0
    slowed: int = 0
    detected: int = 0
    wrong_direction: int = 0
    failed: int = 0
    seconds_a_case: list[float] = field(default_factory=list)  # of each session

    def add(self, answer: str, is_slowed: bool) -> None:
        """Count the answer for one case."""
        if answer == "failed":
            self.failed += 1
        elif is_slowed:
            self.slowed += 1
            self.detected += answer == "slower"
            self.wrong_direction += answer == "faster"
        else:
            self.unslowed += 1
            self.false_flags += answer != "same"

    def cells(self) -> list[str]:
        """Return the row's cells, without those of slowed cases if there are none."""
        detected = [rate_text(self.detected, self.slowed)] if self.slowed else []
        seconds = f"{sum(self.seconds_a_case) / len(self.seconds_a_case):.1f}"
        false_flags = rate_text(self.false_flags, self.unslowed)
        return [self.rule, false_flags, *detected, str(self.wrong_direction), str(self.failed), seconds]


def rows_of(results: Iterable[Result]) -> list[Row]:
    """Return a row for each rule and its tool's settings, in alphabetical order."""
    rows: dict[tuple[str, str], Row] = {}
    for result in results:
        for rule, answers in result.answers.items():
            row = rows.setdefault((rule, result.settings), Row(rule))
            row.seconds_a_case.append(result.seconds / len(answers))
            for case, answer in answers.items():
                row.add(answer, bool(result.share) and case in result.injected)
    return [rows[key] for key in sorted(rows)]


def rate_text(count: int, total: int) -> str:
    """Return ``3 of 40 (1.6 to 20.4 %)``, or nothing if there is nothing to count."""
    if not total:
        return ""
    low, high = Rate(count, total).interval
    return f"{count} of {total} ({100 * low:.1f} to {100 * high:.1f} %)"


def markdown(rows: Sequence[Row], share: float) -> str:
    """Return the table of sessions in which cases were slowed by this share."""
    detected = [f"found of +{100 * share:g} %"] if share else []
    heading = ["rule", "false flags of A/A", *detected, "called faster though slowed", "failed", "s a case"]
    lines = [heading, ["---"] * len(heading), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
