"""What a disturbance of the host does to verdicts: which of them stand, as it could not have made them.

Both sides of a round bear the same load in an order drawn by chance, so a disturbance favours neither: it makes log
ratios spread, evenly to both sides.  How they spread is not known, and more in some rounds than in others.  So the
verdicts of a disturbed run have to hold on more than the t test: on one that takes nothing of the noise for granted but
that, or by a change that is larger than anything that the disturbance did where nothing differs.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median

from scipy import stats

from opduel.records import FLAGGED, METRICS, Comparison, PairSample, Verdict

LEVEL = 0.01  # of the distribution-free test; beside the run's own, which a verdict has passed before


@lru_cache(maxsize=16384)
def stands(verdict: Verdict, log_ratios: tuple[float, ...], threshold: float, disturbed: float, bias: float) -> bool:
    """Whether a verdict stands although the host was disturbed.

    ``log_ratios``: of the rounds that decided it.  ``threshold``: the share from which a change matters.
    ``disturbed``: the largest absolute log ratio of any round of an A/A check; infinite if there was none.  ``bias``:
    the log ratio by which A/A checks differed from themselves beyond doubt, which is added to the threshold; else 0.

    ``regressed`` and ``improved`` stand if Wilcoxon's exact signed-rank test finds the change beyond the threshold at
    ``LEVEL`` (Wilcoxon 1945, Biometrics Bulletin 1, 80-83: it asks of the noise of each round that it favours neither
    side, and may differ from round to round), or if in every round it is beyond the threshold by more than any A/A
    round differed.  ``unchanged`` stands if that test shows the change to be within the threshold on both sides.
    """
    bound = math.log1p(threshold)
    if verdict == "unchanged":
        return all(_beyond([bound - bias + side * one for one in log_ratios]) for side in (1, -1))
    side = math.copysign(1.0, median(log_ratios)) if log_ratios else 1.0
    excesses = [side * one - bound - bias for one in log_ratios]
    return _beyond(excesses) or (bool(excesses) and min(excesses) > disturbed)


def _beyond(excesses: Sequence[float]) -> bool:
    """Whether they are shown to lie above 0."""
    if len(excesses) < fewest_rounds():
        return False
    return bool(stats.wilcoxon(excesses, alternative="greater", method="exact").pvalue <= LEVEL)


def fewest_rounds() -> int:
    """With how many rounds the test can reach its level: 2^-n at best."""
    return math.ceil(-math.log2(LEVEL))


def largest_deviation(samples: Sequence[PairSample]) -> float:
    """The largest absolute log ratio of rounds of A/A checks; infinite without any."""
    return max((abs(one.log_ratio) for one in samples), default=math.inf)


def withhold_verdicts(comparisons: Sequence[Comparison], disturbed: float, bias: float) -> list[Comparison]:
    """Verdicts that don't stand become ``inconclusive``; what they were is in ``held_back``, all figures stay.

    ``disturbed`` and ``bias``: as in ``stands``.  A case that failed has failed: a disturbance makes nothing crash.  It
    doesn't change counts or memory either.
    """
    return [_withheld(one) if _is_doubtful(one, disturbed, bias) else one for one in comparisons]


def _is_doubtful(one: Comparison, disturbed: float, bias: float) -> bool:
    if one.verdict not in (*FLAGGED, "unchanged") or not METRICS[one.metric].noisy:
        return False
    decided = tuple(sample.log_ratio for sample in one.samples if sample.stage == one.decided_on)
    return not stands(one.verdict, decided, one.threshold, disturbed, bias)


def _withheld(one: Comparison) -> Comparison:
    note = f"held back: would be {one.verdict}"
    return replace(one, verdict="inconclusive", held_back=one.verdict, note=f"{note}; {one.note}" if one.note else note)
