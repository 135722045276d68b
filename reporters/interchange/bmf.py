"""Bencher Metric Format: the treatment's value of every case, its change against the control, and the verdict."""

import json

from opduel.records import Comparison, Report
from opduel.reporters.document import strict
from opduel.reporters.interchange.cases import (
    cut,
    deciding_samples,
    names_over_metrics,
    one_line,
    quartiles,
    side_values,
    why_without_value,
)
from opduel.reporters.interchange.rendered import Rendered, counted
from opduel.reporters.run_text import is_number

MEASURES = {"time": "latency", "process_memory": "process-memory"}  # others are called as the metric is
_LONGEST = 1000  # bytes of a benchmark's name; Bencher takes 1024
Measure = dict[str, float]


def to_bmf(report: Report) -> Rendered:
    """A benchmark a case, in which its metrics are measures: ``latency``, ``latency-change``, ``latency-regressed``."""
    reasons = [why_without_value(one) for one in report.comparisons]
    kept = [one for one, reason in zip(report.comparisons, reasons, strict=True) if not reason]
    benchmarks: dict[str, dict[str, Measure]] = {}
    for one, name in zip(kept, names_over_metrics(kept, _name), strict=True):
        benchmarks.setdefault(name, {}).update(_measures(one))
    text = json.dumps(strict(benchmarks), ensure_ascii=False, allow_nan=False, indent=1)
    return Rendered(f"{text}\n", counted(reason for reason in reasons if reason))


def _name(case: str) -> str:
    return cut(one_line(case), _LONGEST)


def _measures(one: Comparison) -> dict[str, Measure]:
    name = MEASURES.get(one.metric, cut(one_line(one.metric), 40))
    assert one.treatment is not None
    middle = quartiles(side_values(deciding_samples(one), "treatment"))
    found = {name: _measure(one.treatment, middle)}
    if is_number(one.ratio):
        ends = one.ci if one.ci and all(map(is_number, one.ci)) else None
        found[f"{name}-change"] = _measure(_percent(one.ratio), ends and (_percent(ends[0]), _percent(ends[1])))
    found[f"{name}-regressed"] = _measure(float(one.verdict == "regressed"), None)
    return found


def _measure(value: float, ends: tuple[float, float] | None) -> Measure:
    return {"value": value, **({"lower_value": ends[0], "upper_value": ends[1]} if ends else {})}


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100
