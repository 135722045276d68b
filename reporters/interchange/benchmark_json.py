"""JSON of one value a case, the treatment's: Bencher Metric Format, and what github-action-benchmark reads."""

from typing import Any

from opduel.records import Comparison, Report
from opduel.reporters.document import json_text
from opduel.reporters.formats import Rendered
from opduel.reporters.interchange.cases import (
    deciding_samples,
    figure_lines,
    named_cases,
    one_line,
    quartiles,
    side_values,
    why_without_value,
)
from opduel.reporters.run_text import is_number
from opduel.support.digests import cut

MEASURES = {"time": "latency", "process_memory": "process-memory"}  # others are called as the metric is
_LONGEST = 1000  # bytes of a benchmark's name; Bencher takes 1024
Measure = dict[str, float]


def to_bmf(report: Report) -> Rendered:
    """Return a benchmark per case, with its metrics as measures: ``latency``, ``latency-change``,
    ``latency-regressed``."""
    cases, left_out = named_cases(report, why_without_value, lambda case: cut(one_line(case), _LONGEST), True)
    benchmarks: dict[str, dict[str, Measure]] = {}
    for comparison, name in cases:
        benchmarks.setdefault(name, {}).update(_measures(comparison))
    return Rendered(json_text(benchmarks), left_out)


def to_github_action_benchmark(report: Report) -> Rendered:
    """Return a list of ``{name, unit, value, range, extra}``, one for each case that has a value
    (customSmallerIsBetter)."""
    cases, left_out = named_cases(report, _why_not_smaller, _in_code)
    return Rendered(json_text([_entry(comparison, name) for comparison, name in cases]), left_out)


def _why_not_smaller(comparison: Comparison) -> str:
    """Return why a case has no value of which less is better; empty if it has one."""
    return why_without_value(comparison) or ("" if comparison.lower_is_better_here else "of which more is better")


def _measures(comparison: Comparison) -> dict[str, Measure]:
    name = MEASURES.get(comparison.metric, cut(one_line(comparison.metric), 40))
    assert comparison.treatment is not None
    measures = {name: _measure(comparison.treatment, _middle(comparison))}
    if is_number(comparison.ratio):
        interval = comparison.ci if comparison.ci and all(map(is_number, comparison.ci)) else None
        measures[f"{name}-change"] = _measure(
            _percent(comparison.ratio), interval and (_percent(interval[0]), _percent(interval[1]))
        )
    measures[f"{name}-regressed"] = _measure(float(comparison.verdict == "regressed"), None)
    return measures


def _measure(value: float, interval: tuple[float, float] | None) -> Measure:
    return {"value": value, **({"lower_value": interval[0], "upper_value": interval[1]} if interval else {})}


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100


def _middle(comparison: Comparison) -> tuple[float, float] | None:
    return quartiles(side_values(deciding_samples(comparison), "treatment"))


def _entry(comparison: Comparison, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "unit": _in_code(comparison.unit), "value": comparison.treatment}
    if middle := _middle(comparison):
        entry["range"] = f"± {(middle[1] - middle[0]) / 2!r}"
    return {
        **entry,
        "extra": figure_lines(comparison, ("verdict", "ratio", "ci", "difference", "control", "rounds", "note")),
    }


def _in_code(text: str) -> str:
    """Return one line that can stand in backticks in a table cell, as the action's comments show it."""
    return one_line(text).replace("`", "'").replace("|", "\\|")
