"""Which verdicts of a run on a disturbed host stand, by a test that a disturbance doesn't mislead.

The t test on which verdicts rest assumes that all rounds are equally noisy.  On a disturbed host the noise differs from
round to round and from case to case, by any factor.  But it does not favour a side: both sides of a round bear it, in
an order drawn at random.  So the noise of each round has either sign with the same probability, whatever its size, and
a signed-rank test is exact.  A verdict of a disturbed run stands if that test alone supports it with the error rates of
a quiet run: at the same looks, with the same corrections for looks, directions and cases.

A bias is different: if A/A checks found a difference, something did favour a side.  Then a change stands if it is
larger than the biases of that run's cases are likely to be, as estimated from the checks.
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
from opduel.records import (
    CLAIMS,
    DEFAULT_METRIC,
    FLAGGED,
    METRICS,
    ONE_SIDED,
    Case,
    Comparison,
    Failure,
    PairSample,
    Verdict,
)


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
    """Return the ids of the timed cases whose verdict (``CLAIMS``) stands on a disturbed host.

    The arguments but the last two are those of ``analyse_run``; ``loaded``: load disturbed the host; ``bias``: that of
    A/A checks that found a difference.  Each case has up to three p values against "the change is within the
    threshold": the run's own; after load, the signed-rank test's over its looks; and after a bias, that of a bias as
    large as the distance from the threshold to the nearer end of its interval.  The largest of the first two is a p
    value if either is; Benjamini and Hochberg's procedure on it has a false discovery rate of ``alpha`` at most if
    either test holds.  The third is approximate, since that end has an error of its own.  What is flagged on the
    largest the run has flagged, too.  ``unchanged``, ``not_worse`` and ``not_better`` stand if signed-rank tests show
    at a look what they say, with the error of the interval; and not after a bias, which may hide a change.  Nor does
    anything after a bias of which no A/A check tells: these are of ``time``.

    Raises:
        ValueError: as ``analyse_run``.
    """
    analyses = analyse_run(cases, samples, failures, looks, alpha, closing, priors, apart, others)
    tests = {
        analysis.case.id: SignedRankTests(
            analysis.case, samples.get(analysis.case.id, ()), looks, alpha, closing, priors is not None
        )
        for analysis in analyses
    }
    standing = set()
    if bias is None:
        standing = {
            analysis.case.id
            for analysis in analyses
            if analysis.verdict in ("unchanged", *ONE_SIDED)
            and (not loaded or tests[analysis.case.id].shows(analysis.verdict, analysis.case.measure.lower_is_better))
        }
    for separate in (False, True):
        family = [analysis for analysis in analyses if (analysis.case.id in apart) == separate]
        p_values = [_p_value(analysis, tests[analysis.case.id] if loaded else None, bias) for analysis in family]
        q_values = benjamini_hochberg([*p_values, *(() if separate else others)])
        standing |= {
            analysis.case.id
            for analysis, q in zip(family, q_values, strict=False)
            if q <= alpha and analysis.verdict in FLAGGED
        }
    return frozenset(standing)


def _p_value(analysis: CaseAnalysis, test: "SignedRankTests | None", bias: Bias | None) -> float:
    """Return the largest p value of a flagged case; 1 for any other, which claims nothing."""
    if analysis.verdict not in FLAGGED:
        return 1.0
    p_values = [analysis.test.p_value]
    if analysis.case.measure.noisy:
        p_values += [test.p_value(analysis.test.rises)] if test else []
        if bias:
            is_time = analysis.case.metric == DEFAULT_METRIC
            p_values.append(bias.p_value(_excess(analysis)) if is_time else 1.0)
    return max(p_values)


def _excess(analysis: CaseAnalysis) -> float:
    """Return how far the nearer end of a flagged case's interval lies beyond its threshold, a log ratio."""
    low, high = analysis.test.decisive.interval if analysis.test.decisive else (0.0, 0.0)
    return max(low, -high) - math.log1p(analysis.case.threshold)


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
        schedule = looks.of_metric(case.metric)
        log_ratios = tuple(sample.log_ratio for sample in samples if not retest or sample.stage == "confirmation")
        counts = (schedule.closing if closing else schedule.reached)(len(log_ratios))
        self._looks = [log_ratios[:count] for count in counts]
        self._weights = [schedule.weight(count) for count in counts]

    def p_value(self, rises: bool) -> float:
        """Return the p value against "the change is within the threshold", two-sided, over all looks."""
        return min(1.0, 2 * self._one_sided(1 if rises else -1, self._bound))

    def shows(self, verdict: Verdict, lower_is_better: bool) -> bool:
        """Whether the change is shown to lie within the threshold (``unchanged``), or on a side of it.

        Each side has alpha / 2 over the looks, as the interval has.
        """
        fall = {"unchanged": (True, False), "not_worse": (lower_is_better,), "not_better": (not lower_is_better,)}
        return all(self._one_sided(-1 if below else 1, -self._bound) <= self._alpha / 2 for below in fall[verdict])

    def _one_sided(self, sign: int, bound: float) -> float:
        """Return the p value over all looks against "the signed change is at most ``bound``"."""
        p_values = [signed_rank_p(tuple(sign * ratio - bound for ratio in ratios)) for ratios in self._looks]
        return p_over_looks(p_values, self._weights)


def withhold_verdicts(
    comparisons: Sequence[Comparison], standing: Collection[str], why: str, caution: str = ""
) -> list[Comparison]:
    """Return the comparisons, with the claims of cases that are not ``standing`` (ids) made ``inconclusive``.

    Their notes say ``why``, ``held_back`` has the verdict withheld, and all figures stay.  The notes of claims that
    stand begin with ``caution``.  Failures, counts and memory keep their verdicts: a disturbance doesn't change them.
    """
    noisy = {name for name, metric in METRICS.items() if metric.noisy}

    def judged(comparison: Comparison) -> Comparison:
        if comparison.verdict not in CLAIMS or comparison.metric not in noisy:
            return comparison
        if comparison.case in standing:
            return _with_note(comparison, caution)
        withheld = replace(comparison, verdict="inconclusive", held_back=comparison.verdict)
        return _with_note(withheld, f"held back: would be {comparison.verdict_words}; {why}")

    return [judged(comparison) for comparison in comparisons]


def _with_note(comparison: Comparison, note: str) -> Comparison:
    return replace(comparison, note="; ".join(filter(None, (note, comparison.note))))
