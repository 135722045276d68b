"""Other tools' rules, written from their documentation: pure functions from two samples to an answer."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.peer_tools.trial import Answer, direction
from opduel.comparator.significance import benjamini_hochberg

LEVEL, STRICT_LEVEL, STRICT_SHARE = 0.05, 0.01, 0.02
BENCHSTAT_EXACT = 50  # values a side up to which the test is exact, without ties
TANGO_Z, TANGO_SHARE = 2.6, 0.01


def naive(control: Sequence[float], treatment: Sequence[float]) -> Answer:
    """Apply Mann-Whitney to pooled calls of one process pair, p < 0.05: AI-PEP's procedure with a test added."""
    return _by_medians(control, treatment) if mann_whitney(control, treatment, "asymptotic") < LEVEL else "same"


def strict(control: Sequence[float], treatment: Sequence[float], share: float = STRICT_SHARE) -> Answer:
    """Apply the same test at p < 0.01, and require medians more than ``share`` apart."""
    p = mann_whitney(control, treatment, "asymptotic")
    distance = abs(math.log(statistics.median(treatment) / statistics.median(control)))
    return _by_medians(control, treatment) if p < STRICT_LEVEL and distance > math.log1p(share) else "same"


def benchstat(control: Sequence[float], treatment: Sequence[float]) -> Answer:
    """Apply benchstat's rule: two-sided Mann-Whitney, unpaired, p <= 0.05; the delta is between medians. With ties it
    is for ten values a side: all choices of which are the control's are enumerated, as benchstat does it up to 25.

    https://pkg.go.dev/golang.org/x/perf/cmd/benchstat, https://pkg.go.dev/golang.org/x/perf/benchmath (AssumeNothing).
    """
    method: Any = "exact" if max(len(control), len(treatment)) <= BENCHSTAT_EXACT else "asymptotic"
    if len({*control, *treatment}) < len(control) + len(treatment):
        method = stats.PermutationMethod(n_resamples=np.inf)
    return _by_medians(control, treatment) if mann_whitney(control, treatment, method) <= LEVEL else "same"


def mann_whitney(control: Sequence[float], treatment: Sequence[float], method: Any) -> float:
    """Return the two-sided p value, twice the smaller tail, by a method of SciPy's."""
    return float(stats.mannwhitneyu(treatment, control, method=method).pvalue)


def tango(
    control: Sequence[float], treatment: Sequence[float], filter_outliers: bool = False, share: float = TANGO_SHARE
) -> Answer:
    """Apply tango's rule: the mean of paired differences is 2.6 standard errors from 0, and beyond ``share`` (its own:
    1 %) of the baseline's mean.

    ``filter_outliers`` is its option -o: pairs whose difference lies beyond Tukey's fences are dropped, as many at
    one end as at the other.  https://docs.rs/crate/tango-bench; https://github.com/bazhenov/tango.
    """
    pairs = sorted(zip(control, treatment, strict=True), key=lambda pair: pair[1] - pair[0])
    if filter_outliers:
        dropped = outliers_at_each_end([after - before for before, after in pairs])
        pairs = pairs[dropped : len(pairs) - dropped]
    differences = [after - before for before, after in pairs]
    baseline = statistics.fmean(before for before, _ in pairs)
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(len(differences))
    significant = abs(mean) >= TANGO_Z * error and abs(mean) > share * baseline
    return direction(1 + mean / baseline) if significant else "same"


def outliers_at_each_end(ordered: Sequence[float]) -> int:
    """Return how many values tango drops at either end: the smaller of the two counts beyond the fences."""
    low, high = ordered[len(ordered) // 4], ordered[max(0, len(ordered) * 3 // 4 - 1)]
    reach = 1.5 * max(high - low, 1.0)  # at least 1 ns apart
    return min(sum(value < low - reach for value in ordered), sum(value > high + reach for value in ordered))


def paired_t(
    log_ratios: Mapping[str, Sequence[float]], share: float, strict: bool, corrected: bool
) -> dict[str, Answer]:
    """Apply Student's paired t test to the log ratios of each case's process pairs.

    ``strict``: against "the change is at most ``share``", so that the interval of what is flagged lies beyond it;
    otherwise against no change, and the estimate has to lie beyond. ``corrected``: the level is a false discovery rate.
    """
    bound = math.log1p(share)
    estimates = {case_id: statistics.fmean(values) for case_id, values in log_ratios.items() if len(values) > 1}
    p_values = []
    for case_id, estimate in estimates.items():
        values = log_ratios[case_id]
        error = max(statistics.stdev(values), 1e-9) / math.sqrt(len(values))
        excess = abs(estimate) - (bound if strict else 0.0)
        p_values.append(min(1.0, 2 * float(stats.t.sf(excess / error, len(values) - 1))))
    levels = benjamini_hochberg(p_values) if corrected else p_values
    answers: dict[str, Answer] = dict.fromkeys(log_ratios, "failed")
    for (case_id, estimate), level in zip(estimates.items(), levels, strict=True):
        flagged = level <= LEVEL and abs(estimate) > bound
        answers[case_id] = direction(math.exp(estimate)) if flagged else "same"
    return answers


def _by_medians(control: Sequence[float], treatment: Sequence[float]) -> Answer:
    ratio = statistics.median(treatment) / statistics.median(control)
    return "same" if ratio == 1 else direction(ratio)
