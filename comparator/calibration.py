"""What runs of known truth show of the verdicts: how often a change is found, how often one is claimed that isn't."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from opduel.records import FLAGGED, Comparison, Report

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """``count`` of ``of`` comparisons."""

    count: int
    of: int

    @property
    def share(self) -> float | None:
        """The share; None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the share at ``CONFIDENCE`` (Clopper and Pearson 1934, Biometrika 26, 404-413).

        It takes the comparisons for independent: cases of one run share
        a machine and an hour, and cases can come back from run to run.  Of nothing, it is 0 to 1.
        """
        from scipy import stats  # here, because it takes longer to import than all else that a command needs

        if not self.of:
            return 0.0, 1.0
        ends = stats.binomtest(self.count, self.of).proportion_ci(CONFIDENCE, method="exact")
        return float(ends.low), float(ends.high)


def mean_interval(count: int, runs: int) -> tuple[float, float]:
    """The exact interval, at ``CONFIDENCE``, of the mean number of events a run, ``count`` seen in ``runs`` (> 0).

    The events are taken for a Poisson process; the ends are quantiles of chi-squared distributions (Garwood 1936,
    Biometrika 28, 437-442).
    """
    from scipy import stats

    tail = (1 - CONFIDENCE) / 2
    low = stats.chi2.ppf(tail, 2 * count) / 2 if count else 0.0
    return float(low) / runs, float(stats.chi2.ppf(1 - tail, 2 * count + 2)) / 2 / runs


@dataclass(frozen=True)
class Row:
    """What all runs with one injected share and one threshold came to. Failed cases are counted in ``failed`` alone.

    ``found``: of the cases slowed by more than the threshold, those called regressed; ``missed_as_unchanged``: those of
    them called unchanged.  ``false_flags``: of all other cases, those called regressed or improved; ``cleared``: those
    of them called unchanged.  ``backwards``: slowed cases called improved.
    """

    share: float
    threshold: float
    runs: int
    unfinished: int  # runs that ended before every case was settled
    held_back: int  # runs on a disturbed host: verdicts that don't stand were withheld, and are inconclusive
    found: Rate
    missed_as_unchanged: Rate
    backwards: int
    false_flags: Rate
    cleared: Rate
    failed: int
    seconds_a_case: float  # wall time; the median over runs
    timed_share: float  # of the wall time, inside timed calls; the median over runs
    withheld: Rate  # verdicts that the host's load cost
    rounds_a_case: float  # the mean over all cases
    seconds_of_runs: tuple[float, float]  # ``seconds_a_case`` of the fastest run, and of the slowest
    median_case_s: float  # wall time of the median case, of which each has a part in proportion to its rounds

    @property
    def false_flags_a_run(self) -> tuple[float, float, float]:
        """Mean, and its interval's ends."""
        return (self.false_flags.count / self.runs, *mean_interval(self.false_flags.count, self.runs))


def evaluate(reports: Iterable[Report]) -> list[Row]:
    """A row for each injected share and threshold among the reports, by share, then the largest threshold first.

    Only runs of one build against itself have a known truth; that they are such is the caller's affair.  A run that was
    aborted tells nothing and is left out, as is one without a comparison.
    """
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
    everything = [comparison for _, comparisons in runs for comparison in comparisons]
    measured = [one for one in everything if one.verdict != "failed"]
    seconds = [(report.run.wall_s or 0.0) / len(report.comparisons) for report, _ in runs]
    slowed = [one for one in measured if one.injected and share > threshold]
    within = [one for one in measured if not (one.injected and share > threshold)]
    return Row(
        share=share,
        threshold=threshold,
        runs=len(runs),
        unfinished=sum(not report.run.complete for report, _ in runs),
        held_back=sum(report.run.validity.valid is False for report, _ in runs),
        found=_rate(slowed, "regressed"),
        missed_as_unchanged=_rate(slowed, "unchanged"),
        backwards=_rate(slowed, "improved").count,
        false_flags=_rate(within, *FLAGGED),
        cleared=_rate(within, "unchanged"),
        failed=len(everything) - len(measured),
        seconds_a_case=median(seconds),
        seconds_of_runs=(min(seconds), max(seconds)),
        timed_share=median((report.run.timed_s or 0.0) / (report.run.wall_s or math.inf) for report, _ in runs),
        withheld=Rate(sum(one.held_back is not None for one in measured), len(measured)),
        rounds_a_case=fmean(one.rounds for one in measured) if measured else 0.0,
        median_case_s=median(one for report, _ in runs for one in _case_seconds(report)),
    )


def _case_seconds(report: Report) -> list[float]:
    """What each case took of the run's wall time, if a round takes each as long."""
    rounds = sum(one.rounds for one in report.comparisons)
    return [(report.run.wall_s or 0.0) * one.rounds / max(1, rounds) for one in report.comparisons]


def _rate(comparisons: Sequence[Comparison], *verdicts: str) -> Rate:
    return Rate(sum(one.verdict in verdicts for one in comparisons), len(comparisons))
