"""JSON of one value a case, the treatment's: Bencher Metric Format, and what github-action-benchmark reads."""

from typing import Any

from opduel.records import Comparison, Report
from opduel.reporters.document import json_text
from opduel.reporters.interchange.cases import (
    Rendered,
    cut,
    deciding_samples,
    figure_lines,
    kept_cases,
    names_over_metrics,
    one_line,
    quartiles,
    side_values,
    unique_names,
    why_without_value,
)
from opduel.reporters.run_text import is_number

MEASURES = {"time": "latency", "process_memory": "process-memory"}  # others are called as the metric is
_LONGEST = 1000  # bytes of a benchmark's name; Bencher takes 1024
Measure = dict[str, float]


def to_bmf(report: Report) -> Rendered:
    """A benchmark a case, in which its metrics are measures: ``latency``, ``latency-change``, ``latency-regressed``."""
    kept, left_out = kept_cases(report, why_without_value)
    benchmarks: dict[str, dict[str, Measure]] = {}
    names = names_over_metrics(kept, lambda case: cut(one_line(case), _LONGEST))
    for one, name in zip(kept, names, strict=True):
        benchmarks.setdefault(name, {}).update(_measures(one))
    return Rendered(json_text(benchmarks), left_out)


def to_github_action_benchmark(report: Report) -> Rendered:
    """A list of ``{name, unit, value, range, extra}``, one for each case that has a value (customSmallerIsBetter)."""
    kept, left_out = kept_cases(report, _why_not_smaller)
    entries = [_entry(one, name) for one, name in zip(kept, unique_names(kept, _in_code), strict=True)]
    return Rendered(json_text(entries), left_out)


def _why_not_smaller(one: Comparison) -> str:
    """Why a case has no value of which less is better; empty if it has one."""
    return why_without_value(one) or ("" if one.lower_is_better_here else "of which more is better")


def _measures(one: Comparison) -> dict[str, Measure]:
    name = MEASURES.get(one.metric, cut(one_line(one.metric), 40))
    assert one.treatment is not None
    found = {name: _measure(one.treatment, _middle(one))}
    if is_number(one.ratio):
        ends = one.ci if one.ci and all(map(is_number, one.ci)) else None
        found[f"{name}-change"] = _measure(_percent(one.ratio), ends and (_percent(ends[0]), _percent(ends[1])))
    found[f"{name}-regressed"] = _measure(float(one.verdict == "regressed"), None)
    return found


def _measure(value: float, ends: tuple[float, float] | None) -> Measure:
    return {"value": value, **({"lower_value": ends[0], "upper_value": ends[1]} if ends else {})}


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100


def _middle(one: Comparison) -> tuple[float, float] | None:
    return quartiles(side_values(deciding_samples(one), "treatment"))


def _entry(one: Comparison, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "unit": _in_code(one.unit), "value": one.treatment}
    if middle := _middle(one):
        entry["range"] = f"± {(middle[1] - middle[0]) / 2!r}"
    return {**entry, "extra": figure_lines(one, ("verdict", "ratio", "ci", "control", "rounds", "note"))}


def _in_code(text: str) -> str:
    """One line that stays within the backticks and the table cell in which the action's comments show it as it is."""
    return one_line(text).replace("`", "'").replace("|", "\\|")
