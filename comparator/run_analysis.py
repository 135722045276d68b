"""The analysis of all cases of a run together, from which interim analyses and comparisons are derived."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opduel.comparator.case_values import Values
from opduel.comparator.effect_estimate import EffectEstimate
from opduel.comparator.empirical_bayes import Prior, fit_prior_of_cases
from opduel.comparator.group_sequential import SequentialTest, run_sequential_test
from opduel.comparator.looks import Looks
from opduel.comparator.significance import benjamini_hochberg
from opduel.records import FLAGGED, METRICS, ONE_SIDED, Case, Failure, PairSample, Stage, Verdict


@dataclass(frozen=True)
class CaseAnalysis:
    """A case within its run: its own group-sequential test, its q value and the verdict so far.

    ``ready`` is False until every case of the run with the same metric has failed or come to its first look: until
    then the prior may still change, so that no verdict is final.
    """

    case: Case
    test: SequentialTest
    q_value: float
    verdict: Verdict
    ready: bool

    @property
    def not_worse(self) -> EffectEstimate | None:
        """The latest look that has shown the case not to be worse."""
        return self.test.sides(self.case.measure.lower_is_better)[0]

    @property
    def not_better(self) -> EffectEstimate | None:
        """The latest look that has shown the case not to be better."""
        return self.test.sides(self.case.measure.lower_is_better)[1]

    @property
    def settled(self) -> bool:
        """Whether the case gets no more samples."""
        decided = self.verdict in ("failed", "unchanged", *FLAGGED)
        return decided or (self.ready and (self.test.exhausted or self.test.futile))


def analyse_run(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    failures: Mapping[str, Failure],
    looks: Looks,
    alpha: float,
    closing: bool,
    priors: Mapping[str, Prior] | None = None,
    apart: frozenset[str] = frozenset(),
    others: Sequence[float] = (),
) -> list[CaseAnalysis]:
    """Weigh all ``cases`` by their ``samples`` (keyed by case id, in the order of measuring).

    The family of the false-discovery correction is all cases, from the start: one that failed, or of which no look and
    no fresh samples speak for a change, counts with p = 1.  A case that is flagged without the looks that ``closing``
    adds stays so whatever these say.  ``priors`` (by metric) are those of the run that is replicated: its flagged
    cases, too few and chosen, have none of their own, and only fresh samples count (``run_sequential_test``'s
    ``retest``).  The family of a replication is the cases that were flagged: those whose ids are in ``apart`` are a
    family of their own.  ``others``: p values of comparisons that are made elsewhere and belong to the family of this
    run's; 1 for one that is not known yet.

    Raises:
        ValueError: alpha outside (0, 1), a threshold below 0, a metric that is not known, cases of one id, samples
            under another case's id or of no case at all, a value that is not finite, or below 0.
    """
    _check(cases, samples, failures, alpha)
    values = {case.id: Values.of(samples.get(case.id, ())) for case in cases}
    retest = priors is not None
    prior_by_metric = _fit_priors(cases, values, looks) if priors is None else priors
    unlooked = (case for case in cases if case.id not in failures and not _is_looked_at(case, values, looks))
    waiting = set() if retest else {case.metric for case in unlooked}

    def sequential_tests(closing: bool) -> list[SequentialTest]:
        return [
            run_sequential_test(
                case,
                values[case.id],
                prior_by_metric[case.metric],
                looks.of_metric(case.metric),
                alpha,
                closing,
                retest,
            )
            for case in cases
        ]

    tests = sequential_tests(False)
    q_values = _q_values(cases, tests, failures, apart, others)
    if closing:
        closed_tests = zip(q_values, tests, sequential_tests(True), strict=True)
        tests = [test if q <= alpha else closed for q, test, closed in closed_tests]
        q_values = _q_values(cases, tests, failures, apart, others)
    return [
        CaseAnalysis(case, test, q, _verdict(case, test, q, case.id in failures, alpha), case.metric not in waiting)
        for case, test, q in zip(cases, tests, q_values, strict=True)
    ]


def _q_values(
    cases: Sequence[Case],
    tests: Sequence[SequentialTest],
    failures: Mapping[str, Failure],
    apart: frozenset[str],
    others: Sequence[float],
) -> list[float]:
    """Return the q value of each case, in order; each of the two families is corrected by itself."""
    p_values = {case.id: 1.0 if case.id in failures else test.p_value for case, test in zip(cases, tests, strict=True)}
    q_values: dict[str, float] = {}
    for family, more in ((p_values.keys() - apart, others), (p_values.keys() & apart, ())):
        ids = [case.id for case in cases if case.id in family]
        q_values |= zip(ids, benjamini_hochberg([*(p_values[case_id] for case_id in ids), *more]), strict=False)
    return [q_values[case.id] for case in cases]


def fit_priors(cases: Sequence[Case], samples: Mapping[str, Sequence[PairSample]], looks: Looks) -> dict[str, Prior]:
    """Return the prior of each metric in a run, as ``analyse_run`` fits it.

    Raises:
        ValueError: a value that is not finite, or below 0.
    """
    return _fit_priors(cases, {case.id: Values.of(samples.get(case.id, ())) for case in cases}, looks)


def _fit_priors(cases: Sequence[Case], values: Mapping[str, Values], looks: Looks) -> dict[str, Prior]:
    """Return the prior of each metric, from exactly the samples of the first look.

    Later samples don't change it, and a case that fails after that look still counts.
    """
    priors = {}
    for metric in {case.metric for case in cases}:
        first = looks.of_metric(metric).counts[0]
        looked_at = [case for case in cases if case.metric == metric and _is_looked_at(case, values, looks)]
        priors[metric] = fit_prior_of_cases(tuple(values[case.id].first(first) for case in looked_at))
    return priors


def _is_looked_at(case: Case, values: Mapping[str, Values], looks: Looks) -> bool:
    return len(values[case.id]) >= looks.of_metric(case.metric).counts[0]


def _verdict(case: Case, test: SequentialTest, q_value: float, failed: bool, alpha: float) -> Verdict:
    if failed:
        return "failed"
    if test.cleared:
        return "unchanged"
    if q_value <= alpha:
        return "regressed" if test.rises == case.measure.lower_is_better else "improved"
    sides = zip(ONE_SIDED, test.sides(case.measure.lower_is_better), strict=True)
    samples_by_side: dict[Verdict, int] = {side: effect.n for side, effect in sides if effect is not None}
    return max(samples_by_side, key=lambda side: samples_by_side[side]) if samples_by_side else "inconclusive"


def _check(
    cases: Sequence[Case], samples: Mapping[str, Sequence[PairSample]], failures: Mapping[str, Failure], alpha: float
) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    ids = {case.id for case in cases}
    if len(ids) != len(cases):
        raise ValueError("two cases have the same id")
    if unknown := sorted((set(samples) | set(failures)) - ids):
        raise ValueError(f"no such case: {', '.join(unknown)}")
    for case in cases:
        if not 0 <= case.threshold < float("inf"):
            raise ValueError(f"{case.id}: a threshold is a share of 0 or more, not {case.threshold}")
        if case.metric not in METRICS:
            raise ValueError(f"{case.id}: no such metric: {case.metric}")
        if any(sample.case_id != case.id for sample in samples.get(case.id, ())):
            raise ValueError(f"{case.id}: has samples of another case")


@dataclass(frozen=True)
class InterimAnalysis:
    """The state of a case between rounds, and what it needs next.

    ``settled`` cases get no more samples.  A settled verdict is final, with one exception: a case that is settled
    because all its looks are spent may still be flagged, when other cases' rejections lower its q value.  A case that
    is ``not_worse`` or ``not_better`` may become ``unchanged`` or changed as long as it is not settled.
    ``stage`` is that of the next sample; a suspect stays in the confirmation.  ``next_look`` counts all samples of the
    case, and ``samples_needed`` those until then: 0 for a settled case, and for one that has come to its first look
    while others have not.  ``may_be_worse``: no look has shown yet that the case is not worse; these cases come first.
    ``excess``: see ``SequentialTest``; the larger it is, the earlier a time budget is spent on the case.
    """

    verdict: Verdict
    stage: Stage
    suspect: bool
    settled: bool
    next_look: int | None
    samples_needed: int
    may_be_worse: bool = True
    excess: float | None = field(default=None, compare=False)


def analyse_interim(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    failures: Mapping[str, Failure],
    looks: Looks,
    alpha: float = 0.05,
    priors: Mapping[str, Prior] | None = None,
    apart: frozenset[str] = frozenset(),
    others: Sequence[float] = (),
) -> dict[str, InterimAnalysis]:
    """Return the interim analysis of each case, by id, after any number of rounds.

    Every look takes exactly the first n_k samples, in the order given, so that asking more or less often changes
    nothing.  Until every case of a metric has failed or reached the first look, none of them is settled or a suspect,
    failed cases apart.  ``priors`` and ``apart`` are those of a replication, and ``others`` are comparisons made
    elsewhere, as in ``analyse_run``.

    Raises:
        ValueError: as ``analyse_run``.
    """
    analyses = analyse_run(cases, samples, failures, looks, alpha, False, priors, apart, others)
    return {
        analysis.case.id: _interim_analysis(analysis, looks.of_metric(analysis.case.metric)) for analysis in analyses
    }


def _interim_analysis(analysis: CaseAnalysis, looks: Looks) -> InterimAnalysis:
    test = analysis.test
    if analysis.verdict == "failed":
        return InterimAnalysis("failed", test.stage, False, True, None, 0)
    if not analysis.ready:
        first = looks.counts[0]
        return InterimAnalysis("inconclusive", "screening", False, False, first, max(0, first - test.n))
    if analysis.settled:
        return InterimAnalysis(analysis.verdict, test.stage, test.suspect, True, None, 0, analysis.not_worse is None)
    next_look = looks.next_after(test.n)
    samples_needed = 0 if next_look is None else next_look - test.n
    may_be_worse = analysis.not_worse is None
    return InterimAnalysis(
        analysis.verdict, test.stage, test.suspect, False, next_look, samples_needed, may_be_worse, test.excess
    )
