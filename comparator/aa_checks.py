"""The run's own A/A comparisons (has anything been found where nothing can be?), and the verdicts of an invalid run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opduel.comparator.effect_estimate import Values, as_ratio, estimate_effect
from opduel.comparator.empirical_bayes import NO_PRIOR, Prior
from opduel.comparator.significance import two_sided_p
from opduel.records import FLAGGED, METRICS, Case, Comparison, PairSample

AA_ALPHA = 0.01  # the share of runs of which the A/A checks wrongly say that they can't be trusted
WITHHELD = (*FLAGGED, "unchanged")


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


def withhold_verdicts(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Every claim becomes ``inconclusive``; what it was stays in ``held_back``, all figures stay as they are.

    A case that failed has failed: a disturbance makes nothing crash. It doesn't change counts or memory either.
    """
    noisy = {name for name, metric in METRICS.items() if metric.noisy}
    return [_withheld(one) if one.verdict in WITHHELD and one.metric in noisy else one for one in comparisons]


def _withheld(one: Comparison) -> Comparison:
    note = f"held back: would be {one.verdict}"
    return replace(one, verdict="inconclusive", held_back=one.verdict, note=f"{note}; {one.note}" if one.note else note)
