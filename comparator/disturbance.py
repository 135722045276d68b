"""The verdicts of a run on a disturbed host: which of them stand by a test that a disturbance doesn't mislead.

The t test on which verdicts rest assumes that the noise of all rounds is of a kind.  A disturbance makes it differ from
round to round and from case to case, by any factor.  What it can't do is prefer a side: both sides of a round bear it,
in an order drawn at random.  So the noise of each round has either sign with the same probability, whatever its size,
and a signed-rank test is exact.  A verdict of a disturbed run stands if that test alone supports it with the error
rates that are stated of a quiet run: at the same looks, with the same corrections for looks, directions and cases.

A bias is another matter: A/A checks that found a difference show that something did prefer a side.  Then a change
stands if it is larger than the biases of that run's cases are likely to be, by what the checks say of their size.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from opduel.comparator.aa_checks import Bias
from opduel.comparator.empirical_bayes import Prior
from opduel.comparator.looks import Looks, p_over_looks
from opduel.comparator.run_analysis import CaseAnalysis, analyse_run
from opduel.comparator.signed_rank import signed_rank_p
from opduel.comparator.significance import benjamini_hochberg
from opduel.records import CLAIMS, DEFAULT_METRIC, FLAGGED, METRICS, Case, Comparison, Failure, PairSample, Stage
from opduel.records.measurement import STAGES


def standing_cases(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    failures: Mapping[str, Failure],
    looks: Looks,
    alpha: float = 0.05,
    closing: bool = True,
    priors: Mapping[str, Prior] | None = None,
    apart: frozenset[str] = frozenset(),
    others: Sequence[float] = (),
    loaded: bool = True,
    bias: Bias | None = None,
) -> frozenset[str]:
    """The ids of the timed cases whose verdict (``regressed``, ``improved``, ``unchanged``) stands on a disturbed host.

    The arguments but the last two are those of ``analyse_run``; ``loaded``: load disturbed the host; ``bias``: that of
    A/A checks that found a difference.  Each case has up to three p values against "the change is within the
    threshold": the run's own; after load, the signed-rank test's over its looks, each stage with half of the error; and
    after a bias, that of a bias as large as the distance from the threshold to the nearer end of its interval.  The
    largest of the first two is a p value if either is; Benjamini and Hochberg's procedure on it has a false discovery
    rate of ``alpha`` at most if either test holds.  The third is approximate, since that end has an error of its own.
    What is flagged on the largest the run has flagged, too.  ``unchanged`` stands if signed-rank tests show at a look
    that the change lies within the threshold, with the error of TOST; and not after a bias, which may hide a change.
    Nor does anything after a bias of which no A/A check tells: these are of ``time``.

    Raises:
        ValueError: as ``analyse_run``.
    """
    analyses = analyse_run(cases, samples, failures, looks, alpha, closing, priors, apart, others)
    tests = {
        one.case.id: SignedRankTests(one.case, samples.get(one.case.id, ()), looks, alpha, closing, priors is not None)
        for one in analyses
    }
    found = {
        one.case.id
        for one in analyses
        if one.verdict == "unchanged" and bias is None and (not loaded or tests[one.case.id].shows_unchanged())
    }
    for separate in (False, True):
        family = [one for one in analyses if (one.case.id in apart) == separate]
        p_values = [_p_value(one, tests[one.case.id] if loaded else None, bias) for one in family]
        q_values = benjamini_hochberg([*p_values, *(() if separate else others)])
        flagged = (one for one, q in zip(family, q_values, strict=False) if q <= alpha)
        found |= {one.case.id for one in flagged if one.verdict in FLAGGED}
    return frozenset(found)


def _p_value(one: CaseAnalysis, test: "SignedRankTests | None", bias: Bias | None) -> float:
    """The largest one; a case without a flag has no claim to make, and counts with p = 1."""
    if one.verdict not in FLAGGED:
        return 1.0
    p_values = [one.test.p_value]
    if one.case.measure.noisy:
        p_values += [test.p_value(one.test.rises)] if test else []
        if bias:
            p_values.append(bias.p_value(_excess(one)) if one.case.metric == DEFAULT_METRIC else 1.0)
    return max(p_values)


def _excess(one: CaseAnalysis) -> float:
    """How far the nearer end of a flagged case's interval lies beyond its threshold, a log ratio."""
    low, high = one.test.decisive.effect().interval if one.test.decisive else (0.0, 0.0)
    return max(low, -high) - math.log1p(one.case.threshold)


class SignedRankTests:
    """The signed-rank tests of one case, at all looks that it has come to."""

    def __init__(
        self,
        case: Case,
        samples: Sequence[PairSample],
        looks: Looks,
        alpha: float,
        closing: bool = True,
        retest: bool = False,
    ) -> None:
        self._bound = math.log1p(case.threshold)
        self._alpha = alpha
        stages: Sequence[Stage] = ("confirmation",) if retest else STAGES
        schedule = looks.of_metric(case.metric)
        self._looks: list[tuple[tuple[float, ...], float]] = []  # log ratios, and the share of their stage's error
        for stage in stages:
            log_ratios = tuple(one.log_ratio for one in samples if one.stage == stage)
            counts = (schedule.closing if closing else schedule.reached)(stage, len(log_ratios))
            self._looks += [(log_ratios[:count], schedule.weight(stage, count)) for count in counts]
        self._stages = len(stages)

    def p_value(self, rises: bool) -> float:
        """Against "the change is within the threshold", two-sided, over all looks of all stages."""
        sign = 1 if rises else -1
        p_values = [signed_rank_p(tuple(sign * one - self._bound for one in ratios)) for ratios, _ in self._looks]
        return min(1.0, 2 * p_over_looks(p_values, [share / self._stages for _, share in self._looks]))

    def shows_unchanged(self) -> bool:
        """Two one-sided tests, each with alpha / 2 over the looks of a stage, as the interval of TOST has."""
        return any(
            all(
                signed_rank_p(tuple(self._bound + side * one for one in ratios)) <= self._alpha * share / 2
                for side in (1, -1)
            )
            for ratios, share in self._looks
        )


def withhold_verdicts(
    comparisons: Sequence[Comparison], standing: Collection[str], why: str, caution: str = ""
) -> list[Comparison]:
    """Claims of cases that are not ``standing`` (ids) become ``inconclusive``, and their notes say ``why``; what they
    were stays in ``held_back``, all figures stay as they are.  The notes of claims that stand begin with ``caution``.

    A case that failed has failed: a disturbance makes nothing crash.  It doesn't change counts or memory either.
    """
    noisy = {name for name, metric in METRICS.items() if metric.noisy}

    def judged(one: Comparison) -> Comparison:
        if one.verdict not in CLAIMS or one.metric not in noisy:
            return one
        if one.case in standing:
            return _noted(one, caution)
        held = replace(one, verdict="inconclusive", held_back=one.verdict)
        return _noted(held, f"held back: would be {one.verdict}; {why}")

    return [judged(one) for one in comparisons]


def _noted(one: Comparison, note: str) -> Comparison:
    return replace(one, note="; ".join(filter(None, (note, one.note))))
