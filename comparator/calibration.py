"""Error rates of the verdicts, from runs whose truth is known: how often a change is found, or wrongly claimed."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from opduel.records import FLAGGED, Comparison, Report

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """``count`` of ``of`` comparisons."""

    count: int
    of: int

    @property
    def share(self) -> float | None:
        """The share; None if ``of`` is 0."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the share at ``CONFIDENCE`` (Clopper and Pearson 1934, Biometrika 26, 404-413), which
        takes the comparisons for independent; 0 to 1 if ``of`` is 0."""
        from scipy import stats  # here, because it takes longer to import than all else that a command needs

        if not self.of:
            return 0.0, 1.0
        interval = stats.binomtest(self.count, self.of).proportion_ci(CONFIDENCE, method="exact")
        return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class Row:
    """The results of all runs with one injected share and one threshold. Failed cases are counted in ``failed`` alone.

    ``detected``: of the cases slowed by more than the threshold, those called regressed; ``missed_as_unchanged``: those
    of them called unchanged.  ``false_flags``: of all other cases, those called regressed or improved; ``cleared``:
    those of them called unchanged.  ``backwards``: slowed cases called improved.
    """

    share: float
    threshold: float
    runs: int
    unfinished: int  # runs that ended before every case was settled
    held_back: int  # runs on a disturbed host, whose verdicts were withheld where they don't stand
    detected: Rate
    missed_as_unchanged: Rate
    backwards: int
    false_flags: Rate
    cleared: Rate
    failed: int
    seconds_a_case: float  # wall time; the median over runs
    timed_share: float  # of the wall time, inside timed calls; the median over runs
    compared: Sequence[tuple[Report, Sequence[Comparison]]]  # the runs, each with its comparisons of this threshold


def evaluate(reports: Iterable[Report]) -> list[Row]:
    """Return a row for each injected share and threshold, in the order of shares, the largest threshold first.
    ``reports`` are of runs of one build against itself: no other has a known truth.  Aborted runs, and those without a
    comparison, are left out."""
    groups: dict[tuple[float, float], list[tuple[Report, list[Comparison]]]] = defaultdict(list)
    for report in reports:
        if report.run.aborted:
            continue
        by_threshold: dict[float, list[Comparison]] = defaultdict(list)
        for comparison in report.comparisons:
            by_threshold[comparison.threshold].append(comparison)
        for threshold, comparisons in by_threshold.items():
            groups[report.configuration.inject, threshold].append((report, comparisons))
    order = sorted(groups, key=lambda key: (key[0], -key[1]))
    return [_row(share, threshold, groups[share, threshold]) for share, threshold in order]


def _row(share: float, threshold: float, runs: Sequence[tuple[Report, Sequence[Comparison]]]) -> Row:
    all_comparisons = [comparison for _, comparisons in runs for comparison in comparisons]
    measured = [comparison for comparison in all_comparisons if comparison.verdict != "failed"]
    seconds = [(report.run.wall_s or 0.0) / len(report.comparisons) for report, _ in runs]
    slowed = [comparison for comparison in measured if comparison.injected and share > threshold]
    unslowed = [comparison for comparison in measured if not (comparison.injected and share > threshold)]
    return Row(
        share=share,
        threshold=threshold,
        runs=len(runs),
        unfinished=sum(not report.run.complete for report, _ in runs),
        held_back=sum(report.run.validity.valid is False for report, _ in runs),
        detected=_rate(slowed, "regressed"),
        missed_as_unchanged=_rate(slowed, "unchanged"),
        backwards=_rate(slowed, "improved").count,
        false_flags=_rate(unslowed, *FLAGGED),
        cleared=_rate(unslowed, "unchanged"),
        failed=len(all_comparisons) - len(measured),
        seconds_a_case=median(seconds),
        timed_share=median((report.run.timed_s or 0.0) / (report.run.wall_s or math.inf) for report, _ in runs),
        compared=runs,
    )


def _rate(comparisons: Sequence[Comparison], *verdicts: str) -> Rate:
    return Rate(sum(comparison.verdict in verdicts for comparison in comparisons), len(comparisons))
