"""The analysis of all cases of a run together: between rounds, at its end, and on a disturbed host."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from opduel.comparator.aa_checks import Bias
from opduel.comparator.case_analysis import CaseAnalysis, InterimAnalysis, decide_verdict
from opduel.comparator.case_values import Values
from opduel.comparator.disturbance import LoadTests, stands_on_disturbed_host, worst_p_value
from opduel.comparator.empirical_bayes import Prior, fit_prior_of_cases
from opduel.comparator.group_sequential import SequentialTest, run_sequential_test
from opduel.comparator.looks import Looks
from opduel.comparator.significance import benjamini_hochberg, weighted_p
from opduel.comparator.verdicts import Family, compare_case
from opduel.records import FLAGGED, Case, Comparison, Failure, PairSample


@dataclass(frozen=True)
class RunAnalysis:
    """A run's cases with what was measured, and the rules by which they are decided.

    ``samples`` (in the order of measuring) and ``failures`` are by case id.  ``injected``: the ids of cases that were
    slowed on purpose. The false discovery rate is at most ``alpha`` in the family of all cases, from the start: a case
    that failed, or that no look or no fresh samples show to have changed, counts with p = 1.  ``other_p_values`` belong
    to the same family: those of comparisons that are made elsewhere, 1 for one that is not known yet. ``priors`` (by
    metric) make it a replication: they are those of the run that is replicated, whose flagged cases are too few and too
    special to have their own, and only fresh samples count.  The family of a replication is the flagged cases; cases
    that are measured again because they had ``failed_before`` (ids) are a family of their own.  ``set_aside``: ids of
    cases that no case waits for, as there is no time for them; they belong to the family all the same.  ``reached``:
    ids of cases that the change between the builds is known to reach.  If they are less than half of the family, half
    of the error is theirs.
    """

    cases: Sequence[Case]
    samples: Mapping[str, Sequence[PairSample]]
    failures: Mapping[str, Failure]
    looks: Looks
    alpha: float = 0.05
    _: KW_ONLY
    injected: frozenset[str] = frozenset()
    priors: Mapping[str, Prior] | None = None
    failed_before: frozenset[str] = frozenset()
    other_p_values: Sequence[float] = ()
    set_aside: Collection[str] = ()
    reached: frozenset[str] = frozenset()

    @property
    def is_replication(self) -> bool:
        """Whether the cases were flagged before, or failed, and are measured again."""
        return self.priors is not None

    def interim(self) -> dict[str, InterimAnalysis]:
        """Return the interim analysis of each case, by id, after any number of rounds.

        Every look takes exactly the first n_k samples, so that the result does not depend on how often this is called.
        Until every case of a metric has failed, was ``set_aside`` or has reached the first look, none of them is
        settled or a suspect, failed cases apart. Raises ValueError: a value that is not finite; as the other methods.
        """
        return {analysis.case.id: analysis.interim() for analysis in self.analyse(closing=False)}

    def comparisons(self) -> list[Comparison]:
        """Return the comparison of each case, in the order of ``cases``, when no more samples will come.

        It repeats every verdict that ``interim`` called settled (as long as the case got no sample since), and may
        settle more: samples beyond a case's last look take part in a closing one (``Looks.closing``).  The comparison
        of a failed case has only samples and failure; with fewer than 2 samples it has only the ratio, if any.
        """
        analyses = self.analyse(closing=True)
        family_by_case: dict[str, Family] = {}
        for ids, other_p_values in self._families():
            flagged = sum(analysis.verdict in FLAGGED for analysis in analyses if analysis.case.id in ids)
            size, weights = len(ids) + len(other_p_values), self._weights(ids, other_p_values)
            family_by_case |= {
                case_id: Family(self.alpha, size, flagged, self.is_replication, weights[case_id]) for case_id in ids
            }
        comparisons = []
        for analysis in analyses:
            case_id = analysis.case.id
            bare = Comparison.without_figures(
                analysis.case,
                analysis.verdict,
                samples=self.samples.get(case_id, ()),
                failure=self.failures.get(case_id),
                injected=case_id in self.injected,
            )
            comparisons.append(bare if bare.failure else compare_case(bare, analysis, family_by_case[case_id]))
        return comparisons

    def standing_cases(self, closing: bool = True, loaded: bool = True, bias: Bias | None = None) -> frozenset[str]:
        """Return the ids of the timed cases whose verdict (``CLAIMS``) stands on a disturbed host.

        ``closing``: no more samples will come.  ``loaded``: load disturbed the host; ``bias``: that of A/A checks that
        found a difference.  What is flagged stands if it is flagged again by its largest p value (``worst_p_value``),
        with the same correction for the family.  Other claims stand if these tests show the same at a look, with the
        error of the interval; but not after a bias, which may hide a change.
        """

        def load_tests(case: Case) -> LoadTests:
            values = Values.of(self.samples.get(case.id, ()))
            return LoadTests(case, values, self.looks, self.alpha, closing, self.is_replication)

        analyses = self.analyse(closing)
        pairs = [(analysis, load_tests(analysis.case) if loaded else None) for analysis in analyses]
        q_values = self._q_values({analysis.case.id: worst_p_value(analysis, test, bias) for analysis, test in pairs})
        return frozenset(
            analysis.case.id
            for analysis, test in pairs
            if (
                q_values[analysis.case.id] <= self.alpha
                if analysis.verdict in FLAGGED
                else bias is None and stands_on_disturbed_host(analysis, test)
            )
        )

    def analyse(self, closing: bool) -> list[CaseAnalysis]:
        """Return the analysis of each case, in order. ``closing``: no more samples will come (``Looks.closing``); what
        is flagged without the looks that this adds stays so."""
        values = {case.id: Values.of(self.samples.get(case.id, ())) for case in self.cases}
        priors = _fit_priors(self.cases, values, self.looks) if self.priors is None else self.priors
        unlooked = [
            case
            for case in self.cases
            if case.id not in self.failures
            and case.id not in self.set_aside
            and not _is_looked_at(case, values, self.looks)
        ]
        waiting_metrics = set() if self.is_replication else {case.metric for case in unlooked}

        def run_test(case: Case, closing: bool) -> SequentialTest:
            looks, prior = self.looks.of_metric(case.metric), priors[case.metric]
            return run_sequential_test(case, values[case.id], prior, looks, self.alpha, closing, self.is_replication)

        tests = [run_test(case, closing=False) for case in self.cases]
        q_values = self._q_values_of_tests(tests)
        if closing:
            tests = [
                test if q_values[case.id] <= self.alpha else run_test(case, closing=True)
                for case, test in zip(self.cases, tests, strict=True)
            ]
            q_values = self._q_values_of_tests(tests)
        return [
            CaseAnalysis(
                case,
                self.looks.of_metric(case.metric),
                test,
                q_values[case.id],
                decide_verdict(case, test, q_values[case.id], case.id in self.failures, self.alpha),
                case.metric not in waiting_metrics,
            )
            for case, test in zip(self.cases, tests, strict=True)
        ]

    def _families(self) -> tuple[tuple[frozenset[str], Sequence[float]], ...]:
        """Return the ids of the cases of each family, and the p values from elsewhere that belong to it."""
        ids = frozenset(case.id for case in self.cases)
        return (ids - self.failed_before, self.other_p_values), (ids & self.failed_before, ())

    def _weights(self, ids: frozenset[str], other_p_values: Sequence[float]) -> dict[str, float]:
        """Return the weight of each case of a family in the correction; their mean over the family is 1."""
        size, reached = len(ids) + len(other_p_values), ids & self.reached
        if self.is_replication or not 0 < 2 * len(reached) < size:
            return dict.fromkeys(ids, 1.0)
        weight, other_weight = size / (2 * len(reached)), size / (2 * (size - len(reached)))
        return {case_id: weight if case_id in reached else other_weight for case_id in ids}

    def _q_values(self, p_values: Mapping[str, float]) -> dict[str, float]:
        """Return the q values of p values, both by case id; each family is corrected by itself."""
        q_values: dict[str, float] = {}
        for ids, other_p_values in self._families():
            family, weights = [case_id for case_id in p_values if case_id in ids], self._weights(ids, other_p_values)
            weighted = [weighted_p(p_values[case_id], weights[case_id], self.alpha) for case_id in family]
            q_values |= zip(family, benjamini_hochberg([*weighted, *other_p_values]), strict=False)
        return q_values

    def _q_values_of_tests(self, tests: Sequence[SequentialTest]) -> dict[str, float]:
        pairs = zip(self.cases, tests, strict=True)
        return self._q_values({case.id: 1.0 if case.id in self.failures else test.p_value for case, test in pairs})


def fit_priors(cases: Sequence[Case], samples: Mapping[str, Sequence[PairSample]], looks: Looks) -> dict[str, Prior]:
    """Return the prior of each metric in a run, as ``RunAnalysis`` fits it."""
    return _fit_priors(cases, {case.id: Values.of(samples.get(case.id, ())) for case in cases}, looks)


def _fit_priors(cases: Sequence[Case], values: Mapping[str, Values], looks: Looks) -> dict[str, Prior]:
    """Return the prior of each metric, from exactly the samples of the first look: later ones don't change it."""
    priors = {}
    for metric in {case.metric for case in cases}:
        first = looks.of_metric(metric).counts[0]
        looked_at = [case for case in cases if case.metric == metric and _is_looked_at(case, values, looks)]
        priors[metric] = fit_prior_of_cases(tuple(values[case.id].first(first) for case in looked_at))
    return priors


def _is_looked_at(case: Case, values: Mapping[str, Values], looks: Looks) -> bool:
    return len(values[case.id]) >= looks.of_metric(case.metric).counts[0]
