"""The run's own A/A comparisons: has anything been found where nothing can be?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opduel.comparator.effect_estimate import Values, as_ratio, estimate_effect
from opduel.comparator.empirical_bayes import NO_PRIOR, Prior
from opduel.comparator.significance import two_sided_p
from opduel.records import Case, PairSample

AA_ALPHA = 0.01  # the share of runs of which the A/A checks wrongly say that they can't be trusted


@dataclass(frozen=True)
class AACheck:
    """One case measured on two processes of the same build.

    ``ratio`` and ``ci`` are of the second to the first, ``ci`` for all A/A checks of the run together; ``p_value`` is
    against "within the threshold", corrected for their number.  None with fewer than 2 rounds.
    """

    case: str
    ratio: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    threshold: float
    rounds: int
    flagged: bool


def run_aa_checks(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    priors: Mapping[str, Prior],
    alpha: float = AA_ALPHA,
) -> list[AACheck]:
    """Looks once, at all ``samples`` of each case, when the run is over.

    The test is the one on which a suspect is decided: moderated t and Mann-Whitney against the shifted null; the run's
    ``priors`` serve, by metric.  Over the m cases the error is shared equally (Bonferroni), so that a run in which all
    truly lie within their thresholds has a flagged A/A check with probability ``alpha`` at most.

    Raises:
        ValueError: a value that is not finite and positive.
    """
    return [
        _check(case, Values.of(samples.get(case.id, ())), priors.get(case.metric, NO_PRIOR), len(cases), alpha)
        for case in cases
    ]


def _check(case: Case, values: Values, prior: Prior, family: int, alpha: float) -> AACheck:
    if len(values) < 2:
        return AACheck(case.id, None, None, None, case.threshold, len(values), False)
    effect = estimate_effect(values, math.log1p(case.threshold), prior, alpha / family / 2)
    p_value = min(1.0, family * two_sided_p(effect.p_above, effect.p_below))
    low, high = effect.interval
    return AACheck(
        case=case.id,
        ratio=as_ratio(effect.trimmed_mean.estimate),
        ci=(as_ratio(low), as_ratio(high)),
        p_value=p_value,
        threshold=case.threshold,
        rounds=len(values),
        flagged=p_value <= alpha,
    )
