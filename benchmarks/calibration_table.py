"""The tables of calibrate.py in Markdown: a row for each slowdown and threshold, what was missed, all together."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from benchmarks.calibration_data import Trial, single_pairs
from benchmarks.loads import LOADS
from opduel.comparator.calibration import CONFIDENCE, Rate, Row, evaluate
from opduel.records import FLAGGED, Report
from opduel.records.measurement import STAGES

APART = (0.01, 0.02, 0.05)  # shares
COLUMNS = (
    "injected | threshold | runs | comparisons | found | `unchanged`, wrongly | false flags | false flags a run | "
    "`unchanged`, rightly | withheld | rounds a case | s a case (of single runs) | s, the median case | timed"
)


def percent(value: float) -> str:
    """A share to three digits."""
    return f"{value * 100:.3g} %"


def rate_cell(rate: Rate) -> str:
    """``39 of 40, 97.5 % (86.8 to 99.9 %)``; empty for nothing."""
    if rate.share is None:
        return ""
    low, high = rate.interval
    return f"{rate.count} of {rate.of}, {percent(rate.share)} ({low * 100:.3g} to {percent(high)})"


def markdown(rows: Sequence[Row]) -> list[str]:
    """The table's lines, and below it whatever is not in its columns."""
    lines = [f"| {COLUMNS} |", "|" + "---|" * len(COLUMNS.split(" | "))]
    for row in rows:
        mean, low, high = row.false_flags_a_run
        cells = (
            percent(row.share) if row.share else "nothing",
            percent(row.threshold),
            str(row.runs),
            str(row.found.of + row.false_flags.of),
            rate_cell(row.found),
            rate_cell(row.missed_as_unchanged),
            rate_cell(row.false_flags),
            f"{mean:.2g} ({low:.2g} to {high:.2g})",
            rate_cell(row.cleared),
            rate_cell(row.withheld),
            f"{row.rounds_a_case:.3g}",
            f"{row.seconds_a_case:.2g} ({row.seconds_of_runs[0]:.2g} to {row.seconds_of_runs[1]:.2g})",
            f"{row.median_case_s:.3g}",
            f"{row.timed_share:.0%}".replace("%", " %"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    totals = {
        "failed comparisons": sum(row.failed for row in rows),
        "slowed cases called improved": sum(row.backwards for row in rows),
        "runs not complete": sum(row.unfinished for row in rows),
        "runs held back": sum(row.held_back for row in rows),
    }
    return [*lines, "", f"Intervals: exact, {CONFIDENCE:.0%}. " + ", ".join(f"{k}: {v}" for k, v in totals.items())]


def pairs_line(trials: Iterable[Trial]) -> str:
    """What the first process pair of each comparison would say alone, where nothing was slowed."""
    ratios = [abs(ratio) for trial in trials for ratio, *_ in single_pairs([trial]).values()]
    beyond = [
        f"{limit * 100:g} %: {rate_cell(Rate(sum(one > math.log1p(limit) for one in ratios), len(ratios)))}"
        for limit in APART
        if ratios
    ]
    return f"The first process pair alone, of cases that were not slowed, apart by more than {'; '.join(beyond)}"


def neighbours_lines(reports: Iterable[Report]) -> list[str]:
    """How many processors other processes kept busy, a mean of each run; nothing where no host tells."""
    spreads = (report.host.get("during", {}).get("neighbours") for report in reports)
    means = sorted(spread["mean"] for spread in spreads if spread)
    if not means:
        return []
    middle, ends = f"{statistics.median(means):.2f}", f"{means[0]:.3f} to {means[-1]:.3f}"
    return [f"Processors that other processes kept busy, in a run's mean: median {middle}, {ends}", ""]


def missed_lines(reports: Sequence[Report], shown: int = 20) -> list[str]:
    """The slowed cases that were not found, and the false flags, by name."""
    lines = []
    for report in reports:
        share = report.configuration.inject
        for one in report.comparisons:
            slowed = one.injected and share > one.threshold
            if one.verdict in FLAGGED and not (slowed and one.verdict == "regressed"):
                lines.append(f"- flagged, wrongly: {one.case} {one.verdict} ({percent((one.ratio or 1) - 1)})")
            elif slowed and one.verdict not in ("regressed", "failed"):
                lines.append(f"- {percent(share)} missed: {one.case} {one.verdict}")
    counted = Counter(lines)
    told = [f"{line}{f', {times} times' if times > 1 else ''}" for line, times in sorted(counted.items())]
    more = [f"- and {len(told) - shown} more"] if len(told) > shown else []
    return ["Missed or wrong:", "", *told[:shown], *more] if told else []


def missed_table(trials: Iterable[Trial]) -> list[str]:
    """Every slowed case that was not found, with its process pairs: how many at screening and fresh ones, the standard
    deviation of all log ratios, and the median of the fresh ones."""
    lines = []
    for trial in trials:
        step = trial.step
        for one in trial.report.comparisons:
            if step.inject > step.threshold and one.injected and one.verdict not in ("regressed", "failed"):
                ratios = [sample.log_ratio for sample in one.samples]
                fresh = [sample.log_ratio for sample in one.samples if sample.stage != STAGES[0]]
                spread = f"{100 * statistics.stdev(ratios):.2f} %" if len(ratios) > 1 else ""
                median = f"{100 * statistics.median(fresh):.2f} %" if fresh else ""
                counts = (str(len(ratios) - len(fresh)), str(len(fresh)))
                cells = (step.load, percent(step.inject), one.case, one.verdict, *counts, spread, median)
                lines.append(f"| {' | '.join(cells)} |")
    columns = "load | slowed by | case | verdict | pairs at screening | fresh pairs | standard deviation | fresh median"
    return [f"| {columns} |", "|" + "---|" * len(columns.split(" | ")), *sorted(lines)]


def short_table(trials: Sequence[Trial]) -> list[str]:
    """How many of the slowed cases were found: a row for each slowdown and threshold, the largest first, a column for
    each load."""
    loads = [name for name in LOADS if any(trial.step.load == name for trial in trials)]
    reports = {name: evaluate([trial.report for trial in trials if trial.step.load == name]) for name in loads}
    found = {
        (row.share, row.threshold, name): f"{row.found.count} of {row.found.of}"
        for name, rows in reports.items()
        for row in rows
        if row.found.of
    }
    lines = [f"| slowdown, threshold | {' | '.join(loads)} |", "|---" * (len(loads) + 1) + "|"]
    for share, threshold in sorted({key[:2] for key in found}, key=lambda key: (-key[0], -key[1])):
        cells = [found.get((share, threshold, name), "") for name in loads]
        lines.append(f"| {percent(share)}, {percent(threshold)} | {' | '.join(cells)} |")
    return lines


def overall_lines(trials: Sequence[Trial]) -> list[str]:
    """What all runs together say of flags, of intervals, and of the size of what was injected."""
    every = [(trial.step, one) for trial in trials for one in trial.report.comparisons if one.verdict != "failed"]
    slowed = [(step, one) for step, one in every if one.injected and step.inject > step.threshold]
    within = [one for step, one in every if not (one.injected and step.inject > step.threshold)]
    false = sum(one.verdict in FLAGGED for one in within)
    improved = sum(one.verdict == "improved" for _, one in slowed)
    plain = [trial for trial in trials if not trial.step.inject]
    with_flag = sum(any(one.verdict in FLAGGED for one in trial.report.comparisons) for trial in plain)
    rates = {
        "runs without a slowed case that have a flag": Rate(with_flag, len(plain)),
        "comparisons that were not slowed by more than the threshold, flagged": Rate(false, len(within)),
        "flags that are wrong, these and slowed cases called improved": Rate(
            false + improved, sum(one.verdict in FLAGGED for _, one in every)
        ),
        "slowed cases called unchanged or not slower": Rate(
            sum(one.verdict in ("unchanged", "not_worse") for _, one in slowed), len(slowed)
        ),
        "comparisons with an answer": Rate(sum(one.verdict != "inconclusive" for _, one in every), len(every)),
        "intervals of cases that were not slowed, without 0 %": missing_zero(trials),
    }
    return [
        f"All {len(trials)} runs:",
        "",
        *(f"- {what}: {rate_cell(rate)}" for what, rate in rates.items() if rate.of),
        *(f"- {line}" for line in (*noise_lines(trials), *size_lines(trials))),
    ]


def missing_zero(trials: Iterable[Trial]) -> Rate:
    """Of the intervals of cases that were not slowed at all, those without 0 %; each says to hold the truth with
    1 - alpha."""
    found = [one.ci for trial in trials for one in trial.report.comparisons if one.ci and not one.injected]
    return Rate(sum(not low <= 1 <= high for low, high in found), len(found))


def noise_lines(trials: Iterable[Trial]) -> list[str]:
    """How much the process pairs of a case that was not slowed differ at screening, of those with three or more."""
    ratios = (
        [sample.log_ratio for sample in one.samples if sample.stage == STAGES[0]]
        for trial in trials
        for one in trial.report.comparisons
        if not one.injected and one.verdict != "failed"
    )
    found = [statistics.stdev(of_case) for of_case in ratios if len(of_case) > 2]
    return [f"standard deviation of the log ratios of a case that was not slowed: {spread(found)}"] if found else []


def spread(values: Sequence[float]) -> str:
    """Of shares: ``median 1 %, nine in ten 0.5 % to 2 % (40 cases)``."""
    low, *_, high = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 2
    middle = f"median {percent(statistics.median(values))}, nine in ten {percent(low)} to {percent(high)}"
    return f"{middle} ({len(values)} cases)"


def size_lines(trials: Iterable[Trial]) -> list[str]:
    """What injected slowdowns came to, by the estimates of all slowed cases."""
    changes: dict[float, list[float]] = defaultdict(list)
    for trial in trials:
        changes[trial.step.inject] += [
            one.ratio - 1 for one in trial.report.comparisons if one.injected and one.ratio and one.verdict != "failed"
        ]
    return [
        f"estimates of {percent(share)} injected: {spread(found)}" for share, found in sorted(changes.items()) if found
    ]
