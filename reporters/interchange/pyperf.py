"""pyperf's JSON: a suite of one side's values, a benchmark a case, a run a process. ``pyperf compare_to`` reads two."""

from datetime import UTC, datetime
from typing import Any

from opduel.records import Comparison, PairSample, Report
from opduel.records.measurement import Side
from opduel.reporters.document import json_text, strict
from opduel.reporters.formats import Rendered
from opduel.reporters.interchange.cases import (
    Fact,
    build_facts,
    deciding_samples,
    named_cases,
    note,
    one_line,
    run_facts,
    side_values,
    why_without_samples,
)

VERSION = "1.0"  # of pyperf's format
UNITS = {"ns": ("second", 1e9), "bytes": ("byte", 1), "instructions": ("integer", 1)}  # pyperf's name, ours in one


def to_pyperf(report: Report, side: Side) -> Rendered:
    """Return one side as a suite. Both sides have the same benchmarks with equally many values: with unequal counts
    pyperf would call everything significant."""
    cases, left_out = named_cases(report, _why_not)
    suite = {
        "version": VERSION,
        "metadata": _suite_facts(report, side),
        "benchmarks": [_benchmark(comparison, name, side) for comparison, name in cases],
    }
    return Rendered(json_text(suite, indent=None), left_out)


def _why_not(comparison: Comparison) -> str:
    if comparison.unit not in UNITS:
        return f"in a unit that pyperf doesn't have ({one_line(comparison.unit)})"
    if reason := why_without_samples(comparison):
        return reason
    if any(sample.control <= 0 or sample.treatment <= 0 for sample in deciding_samples(comparison)):
        return "with values that are not above 0"
    return ""


def _suite_facts(report: Report, side: Side) -> dict[str, Fact]:
    facts = {**run_facts(report), **build_facts(getattr(report, side)), "side": side}
    facts.pop("started", None)
    date = _date(report.run.started)
    return {**facts, "date": date} if date else facts


def _benchmark(comparison: Comparison, name: str, side: Side) -> dict[str, Any]:
    unit, scale = UNITS[comparison.unit]
    facts = {
        "name": name,
        "unit": unit,
        "operator": one_line(comparison.operator),
        "direction": one_line(comparison.direction) or None,
        "opduel_verdict": comparison.verdict,
        "opduel_ratio": comparison.ratio,
        "opduel_difference": comparison.difference,
        "opduel_ci_low": comparison.ci and comparison.ci[0],
        "opduel_ci_high": comparison.ci and comparison.ci[1],
        "opduel_note": note(comparison),
    }
    samples = deciding_samples(comparison)
    runs = [
        _run(sample, value / scale if scale != 1 else _as_integer(value), unit)
        for sample, value in zip(samples, side_values(samples, side), strict=True)
    ]
    return {"metadata": {key: value for key, value in strict(facts).items() if value is not None}, "runs": runs}


def _run(sample: PairSample, value: float, unit: str) -> dict[str, Any]:
    facts = {"process_pair": sample.round}
    if unit == "second" and sample.calls > 0:
        facts["loops"] = sample.calls  # so that pyperf knows how long a process was timed
    return {"metadata": facts, "values": [value]}


def _as_integer(value: float) -> float:
    return int(value) if value.is_integer() else value


def _date(started: Any) -> str | None:
    """Return the run's start as pyperf writes dates: without a zone, in UTC, since it compares them with others of
    that form."""
    try:
        moment = datetime.fromisoformat(str(started))
    except ValueError:
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(sep=" ")
