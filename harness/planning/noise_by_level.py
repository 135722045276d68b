"""The noise of cases at each level, from a run's samples: quads within a fork, forks within a pair, pairs."""

import statistics
from collections.abc import Mapping, Sequence

from opduel.harness.planning.effort import LEAST_VARIANCE, Noise
from opduel.harness.rounds.fork_values import trimmed_mean
from opduel.records import PairSample

# Degrees of freedom that the other cases of the run have in a case's variance, by level: its own quads tell soon.
FREEDOM = {"quad": 4.0, "fork": 6.0, "pair": 6.0}
STRAY = 6.0  # times what cases share, a variance counts as that much as long as few values tell of it
STRAY_FORK = 3.0  # times the median fork's, the variance of a fork's quads counts as that much
TRIMMED = 0.2  # of the cases at either end, for the variances that all share
USUAL = 0.005**2  # of forks and of pairs on most hosts, before any is known


def _observe(samples: Sequence[PairSample]) -> dict[str, tuple[float, float]]:
    """Estimate a case's variances by level, each with its degrees of freedom, by moments: of each level's means less
    what the level below adds to them.

    Stray forks hardly count, as when they are boiled down: of quads no fork's variance counts as more than a few times
    the median one, and of forks the winsorised variance is taken.
    """
    of_quads, quads_freedom, forks_excess, forks_freedom = [], 0.0, 0.0, 0.0
    for sample in samples:
        quads = quads_of(sample)
        squares = [standard_error**2 for _, standard_error in sample.fork_ratios]
        of_quads += [square * quads for square in squares]
        quads_freedom += len(squares) * max(1.0, quads - 1)  # of a trimmed mean of twice as many differences
        if len(squares) > 1:
            _, variance_of_mean = trimmed_mean([ratio for ratio, _ in sample.fork_ratios])
            forks_excess += (len(squares) - 1) * (len(squares) * variance_of_mean - statistics.fmean(squares))
            forks_freedom += len(squares) - 1
    limit = STRAY_FORK * statistics.median(of_quads)
    quad = statistics.fmean(min(limit, variance) for variance in of_quads)
    fork = forks_excess / forks_freedom if forks_freedom else 0.0
    pair, pair_freedom = 0.0, len(samples) - 1.0
    if pair_freedom > 0:
        inner = Noise(quad, max(0.0, fork), 0.0)
        within = statistics.fmean(inner.of_sample(sample.forks, quads_of(sample)) for sample in samples)
        pair = statistics.variance(sample.log_ratio for sample in samples) - within
    return {"quad": (quad, quads_freedom), "fork": (fork, forks_freedom), "pair": (pair, pair_freedom)}


def quads_of(sample: PairSample) -> float:
    """Return the quads of each of the sample's forks; a half where a fork had one block a side."""
    return sample.blocks / max(1, sample.forks) / 2


def noise_by_level(samples: Mapping[str, Sequence[PairSample]]) -> dict[str, Noise]:
    """Estimate each case's variances from its samples, by case id; the fewer it has, the more those of the other cases
    count.  Cases without a fork's standard errors have none."""
    timed = {case_id: [sample for sample in rows if sample.fork_ratios] for case_id, rows in samples.items()}
    observed = {case_id: _observe(rows) for case_id, rows in timed.items() if rows}
    shared = {
        level: _middle([variances[level][0] for variances in observed.values() if variances[level][1]])
        for level in FREEDOM
    }
    return {
        case_id: Noise(**{level: _shrunk(variances[level], shared[level], FREEDOM[level]) for level in FREEDOM})
        for case_id, variances in observed.items()
    }


def _shrunk(own: tuple[float, float], shared: float, freedom: float) -> float:
    variance, own_freedom = own
    variance = min(variance, STRAY * max(shared, LEAST_VARIANCE)) if own_freedom < freedom else variance
    return max(LEAST_VARIANCE, (freedom * shared + own_freedom * variance) / (freedom + own_freedom))


def _middle(variances: Sequence[float]) -> float:
    """Return the mean of all but those at either end; before any is known, the usual one."""
    if not variances:
        return USUAL
    cut = int(TRIMMED * len(variances))
    return max(0.0, statistics.fmean(sorted(variances)[cut : len(variances) - cut]))
