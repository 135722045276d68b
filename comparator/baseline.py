"""One build's results beside an earlier result (a baseline): within a share of it, or not.

This is no statistical test: see docs/how-to/single.md. The two runs took place at different times, so that every ratio
contains the machine's own change, which no number of processes tells from the build's.
"""

import statistics

from opduel.records.single import BaselineComparison, SingleReport, SingleResult

DEFAULT_BASELINE_THRESHOLD = 0.10
FITTING_RUNS = "as many as fit"  # without --runs


def compare_with_baseline(
    now: SingleReport, then: SingleReport, threshold: float = DEFAULT_BASELINE_THRESHOLD
) -> list[BaselineComparison]:
    """Return a comparison of each case of either report, those of ``now`` first; ``threshold`` is a share, 0.1 for 10
    %.

    ``slower`` is above 1 + threshold, ``faster`` below its reciprocal, so that neither side is favoured.
    """
    result_then_by_case = {result.case: result for result in then.cases}
    comparisons = [_compare_results(result, result_then_by_case.get(result.case), threshold) for result in now.cases]
    cases_now = {result.case for result in now.cases}
    missing_cases = [
        BaselineComparison(result.case, "gone", _value(result), None, None, "not measured now")
        for result in then.cases
        if result.case not in cases_now
    ]
    return [*comparisons, *missing_cases]


def machine_differences(now: SingleReport, then: SingleReport) -> list[str]:
    """Return what differs between the two runs' machines and settings, a line each: a reason to doubt all ratios."""
    host_fields = ("cpu_model", "logical_cpus", "kernel", "governors")
    options = ("threads", "seed", "warmup")
    values_by_name = [(name, getattr(then.host, name), getattr(now.host, name)) for name in host_fields]
    values_by_name += [(name, getattr(then.run, name), getattr(now.run, name)) for name in options]
    values_by_name += [("runs", then.run.runs or FITTING_RUNS, now.run.runs or FITTING_RUNS)]
    values_by_name += [("env", list(then.run.configuration.env), list(now.run.configuration.env))]
    return [f"{name}: {old} then, {new} now" for name, old, new in values_by_name if old != new]


def _compare_results(now: SingleResult, then: SingleResult | None, threshold: float) -> BaselineComparison:
    value = _value(now)
    if then is None:
        return BaselineComparison(now.case, "new", None, value, None, "not in the baseline")
    old = _value(then)
    if now.failure is not None:
        failed_then = then.failure is not None
        return BaselineComparison(now.case, "failed", old, value, None, now.failure.reason, failed_then)
    if then.failure is not None or value is None or old is None:
        why = now.note or then.note or f"not measured {'now' if value is None else 'in the baseline'}"
    elif _measured_operation(now) != _measured_operation(then):
        why = "measures another operation than the baseline"
    elif not old or not value:
        why = "too short for the profiler's clock"
    else:
        ratio = value / old
        if ratio > 1 + threshold:
            return BaselineComparison(now.case, "slower", old, value, ratio)
        return BaselineComparison(now.case, "faster" if ratio < 1 / (1 + threshold) else "within", old, value, ratio)
    return BaselineComparison(now.case, "incomparable", old, value, None, why)


def _measured_operation(result: SingleResult) -> tuple[object, ...]:
    """Return all that must be the same in both reports for times to be comparable."""
    return (result.operator, result.direction, result.dtype, result.context, result.inputs)


def _value(result: SingleResult) -> float | None:
    """Return the median over processes of their medians, in ns, so that all processes count alike."""
    return statistics.median(result.process_p50) if result.process_p50 else None
