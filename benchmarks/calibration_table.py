"""The tables of calibrate.py in Markdown: rows by slowdown and threshold, missed slowdowns, rates over all runs."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from scipy import stats

from benchmarks.calibration_data import CalibrationRun
from benchmarks.markdown import table
from opduel.comparator.calibration import CONFIDENCE, Rate, Row, evaluate
from opduel.records import FLAGGED, Comparison
from opduel.records.measurement import STAGES

LIMITS = (0.01, 0.02, 0.05)  # shares by which a single process pair may be off
FORECAST_WITHIN = 1.5
COLUMNS = (
    *("injected", "threshold", "runs", "comparisons", "found", "`unchanged`, wrongly", "false flags"),
    *("`unchanged`, rightly", "withheld", "rounds a case", "s a case (of single runs)", "timed"),
)


def percent(share: float) -> str:
    """Return a share in per cent, with three digits."""
    return f"{share * 100:.3g} %"


def rate_text(rate: Rate) -> str:
    """Return ``39 of 40, 97.5 % (86.8 to 99.9 %)``, or nothing if there is nothing to count."""
    if rate.share is None:
        return ""
    low, high = rate.interval
    return f"{rate.count} of {rate.of}, {percent(rate.share)} ({low * 100:.3g} to {percent(high)})"


def mean_text(values: Sequence[float]) -> str:
    """Return ``1.7 (1.4 to 2.1)``: the mean and Student's interval of two values or more."""
    mean = statistics.fmean(values)
    low, high = stats.t.interval(0.95, len(values) - 1, mean, stats.sem(values)) if len({*values}) > 1 else [mean] * 2
    return f"{mean:.2g} ({max(0.0, low):.2g} to {high:.2g})"


def spread_text(shares: Sequence[float]) -> str:
    """Return ``median 1 %, nine in ten 0.5 % to 2 % (40 cases)``."""
    low, *_, high = statistics.quantiles(shares, n=20, method="inclusive") if len(shares) > 1 else [*shares] * 2
    middle = f"median {percent(statistics.median(shares))}, nine in ten {percent(low)} to {percent(high)}"
    return f"{middle} ({len(shares)} cases)"


def load_section(load: str, runs: Sequence[CalibrationRun]) -> list[str]:
    """Return the lines on all runs beside one load: a table with a row for each slowdown and threshold, and counts that
    are in no column."""
    rows = evaluate([run.report for run in runs])
    totals = {
        "failed comparisons": sum(row.failed for row in rows),
        "slowed cases called improved": sum(row.backwards for row in rows),
        "runs not complete": sum(row.unfinished for row in rows),
        "runs held back": sum(row.held_back for row in rows),
    }
    counts = ", ".join(f"{name}: {count}" for name, count in totals.items())
    below = ["", f"Intervals: exact, {CONFIDENCE:.0%}. {counts}", "", single_pairs_line(runs), ""]
    return ["", f"Load: {load}", "", *table(COLUMNS, map(row_cells, rows)), *below, *neighbours_lines(runs)]


def row_cells(row: Row) -> Sequence[str]:
    """Return the cells of the row of one slowdown and threshold."""
    comparisons = [comparison for _, compared in row.compared for comparison in compared]
    measured = [comparison for comparison in comparisons if comparison.verdict != "failed"]
    withheld = Rate(sum(comparison.held_back is not None for comparison in measured), len(measured))
    seconds = [(report.run.wall_s or 0.0) / len(report.comparisons) for report, _ in row.compared]
    return (
        percent(row.share) if row.share else "nothing",
        percent(row.threshold),
        str(row.runs),
        str(row.detected.of + row.false_flags.of),
        *map(rate_text, (row.detected, row.missed_as_unchanged, row.false_flags, row.cleared, withheld)),
        f"{statistics.fmean(comparison.rounds for comparison in measured) if measured else 0:.3g}",
        f"{row.seconds_a_case:.2g} ({min(seconds):.2g} to {max(seconds):.2g})",
        f"{100 * row.timed_share:.0f} %",
    )


def single_pairs_line(runs: Iterable[CalibrationRun]) -> str:
    """Return how often the first process pair of a case that was not slowed is off by more than each limit."""
    sizes = [abs(comparison.samples[0].log_ratio) for comparison in _not_slowed(runs) if comparison.samples]
    beyond = [
        f"{limit * 100:g} %: {rate_text(Rate(sum(size > math.log1p(limit) for size in sizes), len(sizes)))}"
        for limit in LIMITS
        if sizes
    ]
    return f"The first process pair alone, of cases that were not slowed, apart by more than {'; '.join(beyond)}"


def neighbours_lines(runs: Iterable[CalibrationRun]) -> list[str]:
    """Return how many processors other processes used in a run's mean, or nothing if no host measured it."""
    loads = (run.report.host.during and run.report.host.during.neighbours for run in runs)
    means = sorted(load.mean for load in loads if load)
    if not means:
        return []
    middle, limits = f"{statistics.median(means):.2f}", f"{means[0]:.3f} to {means[-1]:.3f}"
    return [f"Processors that other processes kept busy, in a run's mean: median {middle}, {limits}", ""]


def overall_lines(runs: Sequence[CalibrationRun]) -> list[str]:
    """Return rates of flags and intervals over all runs, the noise of process pairs, and the measured slowdowns."""
    slowed: list[Comparison] = []  # by more than the threshold
    unslowed: list[Comparison] = []
    for run in runs:
        for comparison in run.report.comparisons:
            if comparison.verdict != "failed":
                is_slowed = comparison.injected and run.planned.inject > run.planned.threshold
                (slowed if is_slowed else unslowed).append(comparison)
    everything = slowed + unslowed
    plain = [run.report for run in runs if not run.planned.inject]
    with_flag = sum(_count(report.comparisons, *FLAGGED) > 0 for report in plain)
    false_flags = _count(unslowed, *FLAGGED)
    rates = {
        "runs without a slowed case that have a flag": Rate(with_flag, len(plain)),
        "comparisons that were not slowed by more than the threshold, flagged": Rate(false_flags, len(unslowed)),
        "flags that are wrong, these and slowed cases called improved": Rate(
            false_flags + _count(slowed, "improved"), _count(everything, *FLAGGED)
        ),
        "slowed cases called unchanged or not slower": Rate(_count(slowed, "unchanged", "not_worse"), len(slowed)),
        "comparisons with an answer": Rate(len(everything) - _count(everything, "inconclusive"), len(everything)),
        "intervals of cases that were not slowed, without 0 %": intervals_without_zero(runs),
    }
    lines = [f"- {name}: {rate_text(rate)}" for name, rate in rates.items() if rate.of]
    return [f"All {len(runs)} runs:", "", *lines, *noise_lines(runs), *size_lines(runs)]


def run_lines(runs: Sequence[CalibrationRun]) -> list[str]:
    """Return what the runs of each row have in the mean, with Student's interval over runs: cases of one run share an
    hour, so that they are not independent.  Last, how long runs took, compared to their forecast."""
    by_row: dict[tuple[float, float, str], list[CalibrationRun]] = defaultdict(list)
    for run in runs:
        by_row[run.planned.inject, run.planned.threshold, run.planned.load].append(run)
    lines = []
    for (share, threshold, load), of_row in sorted(by_row.items()):
        seconds = [run.report.run.wall_s / len(run.report.comparisons) for run in of_row]
        misses = [100 * (intervals_without_zero([run]).share or 0.0) for run in of_row]
        if len(of_row) > 1:
            words = f"{mean_text(seconds)} s a case, {mean_text(misses)} % of intervals miss 0 %"
            lines.append(f"- {percent(share)} at {percent(threshold)}, {load}, {len(of_row)} runs: {words}")
    ratios = sorted(run.report.run.wall_s / run.report.run.expected_s for run in runs if run.report.run.expected_s)
    if ratios:
        near = sum(1 / FORECAST_WITHIN <= ratio <= FORECAST_WITHIN for ratio in ratios)
        spread = f"{ratios[0]:.2g} to {ratios[-1]:.2g} times their forecast, median {statistics.median(ratios):.2g}"
        lines.append(f"- runs took {spread}; within a factor of {FORECAST_WITHIN:g}: {near} of {len(ratios)}")
    return ["The run as the unit, means with 95 % intervals over runs:", "", *lines, ""]


def intervals_without_zero(runs: Iterable[CalibrationRun]) -> Rate:
    """Return how many intervals of cases that were not slowed miss 0 %, the truth: alpha at most is stated."""
    intervals = [comparison.ci for comparison in _not_slowed(runs) if comparison.ci]
    return Rate(sum(not low <= 1 <= high for low, high in intervals), len(intervals))


def noise_lines(runs: Iterable[CalibrationRun]) -> list[str]:
    """Return how much process pairs differ at screening in cases that were not slowed and have three or more."""
    deviations = []
    for comparison in _not_slowed(runs):
        ratios = [sample.log_ratio for sample in comparison.samples if sample.stage == STAGES[0]]
        if comparison.verdict != "failed" and len(ratios) > 2:
            deviations.append(statistics.stdev(ratios))
    name = "standard deviation of the log ratios of a case that was not slowed"
    return [f"- {name}: {spread_text(deviations)}"] if deviations else []


def size_lines(runs: Iterable[CalibrationRun]) -> list[str]:
    """Return the estimates of injected slowdowns, by their size."""
    changes: dict[float, list[float]] = defaultdict(list)
    for run in runs:
        changes[run.planned.inject] += [
            comparison.ratio - 1
            for comparison in run.report.comparisons
            if comparison.injected and comparison.ratio and comparison.verdict != "failed"
        ]
    by_size = sorted((share, estimates) for share, estimates in changes.items() if estimates)
    return [f"- estimates of {percent(share)} injected: {spread_text(estimates)}" for share, estimates in by_size]


def _count(comparisons: Iterable[Comparison], *verdicts: str) -> int:
    return sum(comparison.verdict in verdicts for comparison in comparisons)


def _not_slowed(runs: Iterable[CalibrationRun]) -> Iterable[Comparison]:
    return (comparison for run in runs for comparison in run.report.comparisons if not comparison.injected)
