"""One build's results beside an earlier result of one build: within a share of it, or not.

No test: see docs/how-to/single.md.

Both runs had the machine to themselves, at different times: the machine's own change is in every ratio, all of a run's
processes share it, and no number of them tells it from the build's.
"""

import statistics

from opduel.records.single import BaselineComparison, SingleReport, SingleResult

DEFAULT_BASELINE_THRESHOLD = 0.10


def compare_with_baseline(
    now: SingleReport, then: SingleReport, threshold: float = DEFAULT_BASELINE_THRESHOLD
) -> list[BaselineComparison]:
    """A verdict on each case of either report, those of ``now`` first; ``threshold`` is a share, 0.1 for 10 %.

    ``slower`` is above 1 + threshold, ``faster`` below its reciprocal, so that neither side is favoured.
    """
    before = {one.case: one for one in then.cases}
    found = [_compared(one, before.get(one.case), threshold) for one in now.cases]
    known = {one.case for one in now.cases}
    gone = [
        BaselineComparison(one.case, "gone", _value(one), None, None, "not measured now")
        for one in then.cases
        if one.case not in known
    ]
    return [*found, *gone]


def machine_differences(now: SingleReport, then: SingleReport) -> list[str]:
    """In what the two runs' surroundings differ, one line each: every one is a reason to doubt all ratios."""
    host = ("cpu_model", "logical_cpus", "kernel", "governors")
    asked = [name for name in ("threads", "seed", "warmup", "runs") if name in then.run]
    sides = [(name, getattr(then.host, name), getattr(now.host, name)) for name in host]
    sides += [(name, getattr(then.run, name), getattr(now.run, name)) for name in asked]
    before, after = _given(then), _given(now)
    sides += [
        (name, before.get(name, "not set"), after.get(name, "not set")) for name in sorted(before.keys() | after.keys())
    ]
    return [f"{name}: {old} then, {new} now" for name, old, new in sides if old != new]


def _given(report: SingleReport) -> dict[str, str]:
    """The variables that the user gave the run's workers; earlier versions took none."""
    values = report.run.environment
    return {name: str(values.get(name)) for name in report.run.configuration.env}


def _compared(now: SingleResult, then: SingleResult | None, threshold: float) -> BaselineComparison:
    value = _value(now)
    if then is None:
        return BaselineComparison(now.case, "new", None, value, None, "not in the baseline")
    old = _value(then)
    if now.failure is not None:
        failed_then = then.failure is not None
        return BaselineComparison(now.case, "failed", old, value, None, now.failure.reason, failed_then)
    if then.failure is not None or value is None or old is None:
        why = now.note or then.note or f"not measured {'now' if value is None else 'in the baseline'}"
    elif _what(now) != _what(then):
        why = "measures something else than then"
    elif not old or not value:
        why = "too short for the profiler's clock"
    else:
        ratio = value / old
        if ratio > 1 + threshold:
            return BaselineComparison(now.case, "slower", old, value, ratio)
        return BaselineComparison(now.case, "faster" if ratio < 1 / (1 + threshold) else "within", old, value, ratio)
    return BaselineComparison(now.case, "incomparable", old, value, None, why)


def _what(one: SingleResult) -> tuple[object, ...]:
    return (one.operator, one.direction, one.dtype, one.context, one.inputs)


def _value(one: SingleResult) -> float | None:
    """The median over processes of their medians, in ns: none of them counts for more, however many calls it made."""
    return statistics.median(one.process_p50) if one.process_p50 else None
