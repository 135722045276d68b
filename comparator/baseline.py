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
    sides = {
        "cpu_model": (then.host.cpu_model, now.host.cpu_model),
        "logical_cpus": (then.host.logical_cpus, now.host.logical_cpus),
        "kernel": (then.host.kernel, now.host.kernel),
        "governors": (then.host.governors, now.host.governors),
    }
    asked = {
        "threads": (then.run.configuration.threads, now.run.configuration.threads),
        "seed": (then.run.seed, now.run.seed),
        "warmup": (then.run.warmup, now.run.warmup),
        "runs": (then.run.runs, now.run.runs),
    }
    sides |= {name: pair for name, pair in asked.items() if name in then.run}
    lines = [f"{name}: {before} then, {after} now" for name, (before, after) in sides.items() if before != after]
    before, after = _given(then), _given(now)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            lines.append(f"{name}: {before.get(name, 'not set')} then, {after.get(name, 'not set')} now")
    return lines


def _given(report: SingleReport) -> dict[str, str]:
    """The variables that the user gave the run's workers; earlier versions took none."""
    values = report.run.environment
    return {name: str(values.get(name)) for name in report.run.configuration.env}


def _compared(now: SingleResult, then: SingleResult | None, threshold: float) -> BaselineComparison:
    value, old = _value(now), None if then is None else _value(then)
    if then is None:
        return BaselineComparison(now.case, "new", None, value, None, "not in the baseline")
    if now.failure is not None:
        return BaselineComparison(
            now.case, "failed", old, value, None, now.failure.reason, failed_then=then.failure is not None
        )
    if then.failure is not None or value is None or old is None:
        when = "now" if value is None else "in the baseline"
        why = now.note or then.note or f"not measured {when}"
        return BaselineComparison(now.case, "incomparable", old, value, None, why)
    if _what(now) != _what(then):
        return BaselineComparison(now.case, "incomparable", old, value, None, "measures something else than then")
    if not old or not value:
        return BaselineComparison(now.case, "incomparable", old, value, None, "too short for the profiler's clock")
    ratio = value / old
    if ratio > 1 + threshold:
        return BaselineComparison(now.case, "slower", old, value, ratio)
    return BaselineComparison(now.case, "faster" if ratio < 1 / (1 + threshold) else "within", old, value, ratio)


def _what(one: SingleResult) -> tuple[object, ...]:
    return (one.operator, one.direction, one.dtype, one.context, one.inputs)


def _value(one: SingleResult) -> float | None:
    """The median over processes of their medians, in ns: none of them counts for more, however many calls it made."""
    return statistics.median(one.process_p50) if one.process_p50 else None
