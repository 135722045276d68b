"""Other tools' rules, written from their documentation: pure functions from two samples to an answer."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from scipy import stats

from benchmarks.peer_tools.trial import Answer, direction
from opduel.comparator.significance import benjamini_hochberg

NAIVE_LEVEL, STRICT_LEVEL, STRICT_SHARE = 0.05, 0.01, 0.02
BENCHSTAT_LEVEL = 0.05
BENCHSTAT_EXACT, BENCHSTAT_TIES_EXACT = 50, 25  # values a side up to which the test is exact, without and with ties
TANGO_Z, TANGO_SHARE = 2.6, 0.01
T_LEVEL = 0.05


def naive(control: Sequence[float], treatment: Sequence[float]) -> Answer:
    """Apply Mann-Whitney to pooled calls of one process pair, p < 0.05: AI-PEP's procedure with a test added."""
    p = float(stats.mannwhitneyu(treatment, control, method="asymptotic").pvalue)
    return _by_medians(control, treatment) if p < NAIVE_LEVEL else "same"


def strict(control: Sequence[float], treatment: Sequence[float], share: float = STRICT_SHARE) -> Answer:
    """Apply the same test at p < 0.01, and require medians more than ``share`` apart."""
    p = float(stats.mannwhitneyu(treatment, control, method="asymptotic").pvalue)
    distance = abs(math.log(statistics.median(treatment) / statistics.median(control)))
    return _by_medians(control, treatment) if p < STRICT_LEVEL and distance > math.log1p(share) else "same"


def benchstat(control: Sequence[float], treatment: Sequence[float]) -> Answer:
    """Apply benchstat's rule: two-sided Mann-Whitney, unpaired, p <= 0.05; the delta is between medians.

    https://pkg.go.dev/golang.org/x/perf/cmd/benchstat, https://pkg.go.dev/golang.org/x/perf/benchmath (AssumeNothing).
    """
    has_ties = len({*control, *treatment}) < len(control) + len(treatment)
    most = max(len(control), len(treatment))
    if has_ties and most <= BENCHSTAT_TIES_EXACT:
        p = exact_p_with_ties(control, treatment)
    else:
        method = "exact" if not has_ties and most <= BENCHSTAT_EXACT else "asymptotic"
        p = float(stats.mannwhitneyu(treatment, control, method=method).pvalue)
    return _by_medians(control, treatment) if p <= BENCHSTAT_LEVEL else "same"


def exact_p_with_ties(control: Sequence[float], treatment: Sequence[float]) -> float:
    """Return the two-sided p value of the rank sum for the values' ties: twice the smaller tail, over all choices of as
    many ranks as ``control`` has values (as https://pkg.go.dev/github.com/aclements/go-moremath/stats computes it)."""
    ranks = [round(2 * rank) for rank in stats.rankdata([*control, *treatment])]  # doubled: ties have half ranks
    # By the number of ranks chosen: their sum -> the number of choices that have it.
    choices: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in control)]
    for rank in ranks:
        for size in range(len(control), 0, -1):
            for total, count in choices[size - 1].items():
                choices[size][total + rank] += count
    least = len(control) * (len(control) + 1)  # U = (sum - least) / 2, of doubled ranks
    doubled_u = sum(ranks[: len(control)]) - least
    smaller = min(doubled_u, 2 * len(control) * len(treatment) - doubled_u)
    tail = sum(count for total, count in choices[-1].items() if total - least <= smaller)
    return min(1.0, 2 * tail / math.comb(len(ranks), len(control)))


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
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    mean = statistics.fmean(differences)
    significant = abs(mean) >= TANGO_Z * error and abs(mean) > share * baseline
    return direction(1 + mean / baseline) if significant else "same"


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
        flagged = level <= T_LEVEL and abs(estimate) > bound
        answers[case_id] = direction(math.exp(estimate)) if flagged else "same"
    return answers


def outliers_at_each_end(ordered: Sequence[float]) -> int:
    """Return how many values tango drops at either end: the smaller of the two counts beyond the fences."""
    low, high = ordered[len(ordered) // 4], ordered[max(0, len(ordered) * 3 // 4 - 1)]
    reach = 1.5 * max(high - low, 1.0)  # at least 1 ns apart
    below = sum(value < low - reach for value in ordered)
    above = sum(value > high + reach for value in ordered)
    return min(below, above)


def _by_medians(control: Sequence[float], treatment: Sequence[float]) -> Answer:
    ratio = statistics.median(treatment) / statistics.median(control)
    return "same" if ratio == 1 else direction(ratio)
