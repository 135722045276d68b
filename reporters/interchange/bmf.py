"""Bencher Metric Format: the treatment's value of every case, its change against the control, and the verdict."""

import json
import math
import statistics
from typing import Any

from records import Comparison, Report
from reporters.document import strict
from reporters.interchange.cases import cut, deciding_samples, one_line, side_values, time_id, unique
from reporters.interchange.written import Written, counted

MEASURES = {"time": "latency", "process_memory": "process-memory"}  # others are called as the metric is
_LONGEST = 1000  # bytes of a benchmark's name; Bencher takes 1024


def to_bmf(report: Report) -> Written:
    """A benchmark a case, in which its metrics are measures: ``latency``, ``latency-change``, ``latency-regressed``."""
    kept = [one for one in report.comparisons if _is_number(one.treatment)]
    benchmarks: dict[str, dict[str, Any]] = {}
    for one, name in zip(kept, _names(kept), strict=True):
        benchmarks.setdefault(name, {}).update(_measures(one))
    text = json.dumps(strict(benchmarks), ensure_ascii=False, allow_nan=False, indent=1)
    left_out = [
        "failed" if one.verdict == "failed" else "without a value"
        for one in report.comparisons
        if not _is_number(one.treatment)
    ]
    return Written(f"{text}\n", counted(left_out))


def _names(kept: list[Comparison]) -> list[str]:
    names: dict[int, str] = {}
    for metric in {one.metric for one in kept}:
        cases = [one for one in kept if one.metric == metric]
        legal = unique([cut(one_line(time_id(one)), _LONGEST) for one in cases])
        names |= {id(one): name for one, name in zip(cases, legal, strict=True)}
    return [names[id(one)] for one in kept]


def _measures(one: Comparison) -> dict[str, dict[str, float]]:
    measure = MEASURES.get(one.metric, cut(one_line(one.metric), 40))
    values = side_values(deciding_samples(one), "treatment")
    found = {measure: {"value": one.treatment, **_quartiles(values)}}
    if _is_number(one.ratio):
        ends = one.ci if one.ci and all(map(_is_number, one.ci)) else None
        bounds = {"lower_value": _percent(ends[0]), "upper_value": _percent(ends[1])} if ends else {}
        found[f"{measure}-change"] = {"value": _percent(one.ratio), **bounds}
    found[f"{measure}-regressed"] = {"value": float(one.verdict == "regressed")}
    return found


def _quartiles(values: list[float]) -> dict[str, float]:
    """The ends of the middle half of the processes' values; nothing when there are fewer than two."""
    if len(values) < 2:
        return {}
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {"lower_value": lower, "upper_value": upper}


def _percent(ratio: float | None) -> float:
    assert ratio is not None
    return (ratio - 1) * 100


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
