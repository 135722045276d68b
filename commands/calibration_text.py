"""What a calibration came to, in words: lines for a person."""

from collections.abc import Sequence
from dataclasses import dataclass

from opduel.comparator.calibration import CONFIDENCE, Rate, Row
from opduel.harness.machine.system_check import Facts, Remedy
from opduel.harness.other_runs.power_analysis import POWER, PowerForecast
from opduel.reporters.text import align
from opduel.support.text import counted, duration


@dataclass(frozen=True)
class Outcome:
    """All of it: what calibration.json holds. ``reports`` are paths from its folder."""

    build: str
    spec: str
    cases: int
    runs: int
    seconds: float
    rows: list[Row]
    not_run: list[float]  # injected shares that the time was up for
    smallest: Row | None
    forecasts: list[PowerForecast]
    facts: Facts
    advice: list[Remedy]
    reports: list[str]
    complete: bool


def smallest_found(rows: Sequence[Row]) -> Row | None:
    """The smallest injected share that was found in ``POWER`` of its cases or more, as every larger one was."""
    best = None
    for row in sorted((row for row in rows if row.detected.of), key=lambda row: -row.share):
        if (row.detected.share or 0) < POWER:
            break
        best = row
    return best


def outcome_lines(outcome: Outcome) -> list[str]:
    """The lines: what was run, the table, what this machine can find, what more time would, and the advice."""
    cases, runs = counted(outcome.cases, "case"), counted(outcome.runs, "run")
    head = f"{outcome.build} against itself, {cases} of {outcome.spec}, {runs}"
    return [
        f"{head}, {duration(outcome.seconds)}" + ("" if outcome.complete else "; not completed"),
        "",
        *_table(outcome.rows),
        "",
        *_detection_lines(outcome),
        *_more_time(outcome.forecasts),
        "",
        *_advice(outcome.advice),
        "",
    ]


def _table(rows: Sequence[Row]) -> list[str]:
    detected_title = f"found ({_percent(CONFIDENCE)} interval)"
    lines = [("injected", "threshold", "runs", detected_title, "false flags", "s a case", "timed")]
    for row in rows:
        injected = f"+{_percent(row.share)}" if row.share else "nothing"
        false_flags = f"{row.false_flags.count} of {row.false_flags.of}"
        timed = f"{row.timed_share:.0%}".replace("%", " %")
        cells = (injected, _percent(row.threshold), str(row.runs), _rate(row.detected), false_flags)
        lines.append((*cells, f"{row.seconds_a_case:.1f}", timed))
    return align(lines, left_columns=len(lines[0])) + _remarks(rows)


def _remarks(rows: Sequence[Row]) -> list[str]:
    """Whatever is not in the table's columns and did happen."""
    counts = (
        (sum(row.missed_as_unchanged.count for row in rows), "slowed case", "reported as unchanged"),
        (sum(row.backwards for row in rows), "slowed case", "reported as improved"),
        (sum(row.failed for row in rows), "comparison", "failed"),
        (sum(row.unfinished for row in rows), "run", "ended with cases still open: a larger --time_budget helps"),
        (sum(row.held_back for row in rows), "run", "disturbed by other load: verdicts may have been held back"),
    )
    return [f"{counted(count, noun)} {words}" for count, noun, words in counts if count]


def _detection_lines(outcome: Outcome) -> list[str]:
    flags = Rate(sum(row.false_flags.count for row in outcome.rows), sum(row.false_flags.of for row in outcome.rows))
    lines = [f"false flags: {_rate(flags)}"]
    if outcome.not_run:
        missing = ", ".join(f"+{_percent(share)}" if share else "the plain run" for share in outcome.not_run)
        lines.append(f"not measured for lack of time: {missing}")
    row = outcome.smallest
    if not any(row.detected.of for row in outcome.rows):
        lines.append("no slowed case was measured")
    elif row is None:
        lines.append(f"no injected slowdown was found in {_percent(POWER)} of its cases or more")
    else:
        detection = _describe_detection(row.share, row.threshold, row.seconds_a_case)
        lines.append(f"the smallest regression found in {_percent(POWER)} of its cases or more: {detection}")
    return lines


def _more_time(forecasts: Sequence[PowerForecast]) -> list[str]:
    """What other bounds on the rounds would find, in a simulation."""
    if not forecasts:
        return []
    lines = [f"simulated from the measured pairs, at best; found in {_percent(POWER)} of the cases:"]
    for forecast in forecasts:
        detection = "none of the changes tried"
        if forecast.share is not None and forecast.threshold is not None and forecast.seconds_a_case is not None:
            detection = _describe_detection(forecast.share, forecast.threshold, forecast.seconds_a_case)
        lines.append(f"  --max_rounds {forecast.max_rounds}: {detection}")
    return lines


def _describe_detection(share: float, threshold: float, seconds_a_case: float) -> str:
    threshold_words = _percent(threshold).replace(" ", "")
    return f"+{_percent(share)}, with --threshold {threshold_words}, in {seconds_a_case:.1f} s a case"


def _advice(advice: Sequence[Remedy]) -> list[str]:
    if not advice:
        return ["advice: none; nothing to improve was found"]
    return ["advice:", *(line for remedy in advice for line in (f"- {remedy.fact}", f"  {remedy.fix}"))]


def _rate(rate: Rate) -> str:
    if not rate.of:
        return "-"
    low, high = rate.interval
    return f"{rate.count} of {rate.of} ({low:.0%} to {high:.0%})".replace("%", " %")


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"
