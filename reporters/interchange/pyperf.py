"""pyperf's JSON: a suite of one side's values, a benchmark a case, a run a process. ``pyperf compare_to`` reads two."""

from datetime import UTC, datetime
from typing import Any

from opduel.records import Comparison, PairSample, Report
from opduel.records.measurement import Side
from opduel.reporters.document import json_text, strict
from opduel.reporters.interchange.cases import (
    Fact,
    Rendered,
    build_facts,
    deciding_samples,
    kept_cases,
    note,
    one_line,
    run_facts,
    side_values,
    unique_names,
    why_without_samples,
)

VERSION = "1.0"  # of pyperf's format
UNITS = {"ns": ("second", 1e9), "bytes": ("byte", 1), "instructions": ("integer", 1)}  # pyperf's name, ours in one


def to_pyperf(report: Report, side: Side) -> Rendered:
    """One side as a suite. Both sides hold the same benchmarks with as many values each, or else neither has them:
    with unequal counts pyperf would call everything significant."""
    kept, left_out = kept_cases(report, _why_not)
    suite = {
        "version": VERSION,
        "metadata": _suite_facts(report, side),
        "benchmarks": [_benchmark(one, name, side) for one, name in zip(kept, unique_names(kept), strict=True)],
    }
    return Rendered(json_text(suite, indent=None), left_out)


def _why_not(one: Comparison) -> str:
    if one.unit not in UNITS:
        return f"in a unit that pyperf doesn't have ({one_line(one.unit)})"
    if reason := why_without_samples(one):
        return reason
    if any(sample.control <= 0 or sample.treatment <= 0 for sample in deciding_samples(one)):
        return "with values that are not above 0"
    return ""


def _suite_facts(report: Report, side: Side) -> dict[str, Fact]:
    facts = {**run_facts(report), **build_facts(getattr(report, side)), "side": side}
    facts.pop("started", None)
    date = _date(report.run.started)
    return {**facts, "date": date} if date else facts


def _benchmark(one: Comparison, name: str, side: Side) -> dict[str, Any]:
    unit, scale = UNITS[one.unit]
    facts = {
        "name": name,
        "unit": unit,
        "operator": one_line(one.operator),
        "direction": one_line(one.direction),
        "opduel_verdict": one.verdict,
        "opduel_ratio": one.ratio,
        "opduel_ci_low": one.ci and one.ci[0],
        "opduel_ci_high": one.ci and one.ci[1],
        "opduel_note": note(one),
    }
    samples = deciding_samples(one)
    runs = [
        _run(sample, value / scale if scale != 1 else _whole(value), unit)
        for sample, value in zip(samples, side_values(samples, side), strict=True)
    ]
    return {"metadata": {key: value for key, value in strict(facts).items() if value is not None}, "runs": runs}


def _run(sample: PairSample, value: float, unit: str) -> dict[str, Any]:
    facts = {"process_pair": sample.round}
    if unit == "second" and sample.calls > 0:
        facts["loops"] = sample.calls  # so that pyperf knows how long a process was timed
    return {"metadata": facts, "values": [value]}


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value


def _date(started: Any) -> str | None:
    """The run's start as pyperf writes dates; it adds and compares those without a zone, so ours is UTC without one."""
    try:
        moment = datetime.fromisoformat(str(started))
    except ValueError:
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(sep=" ")
