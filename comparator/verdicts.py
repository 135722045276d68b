"""The end of a run: samples in, comparisons out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from comparator.assessment import Assessment, assess
from comparator.equivalence import as_ratio
from comparator.looks import Looks
from comparator.mde import minimal_detectable_change
from comparator.moderation import Prior
from comparator.notes import explain
from records import Case, Comparison, Failure, PairSample


def judge(
    cases: Sequence[Case],
    samples: Mapping[str, Sequence[PairSample]],
    failures: Mapping[str, Failure],
    looks: Looks,
    alpha: float = 0.05,
    injected: frozenset[str] = frozenset(),
    priors: Mapping[str, Prior] | None = None,
) -> list[Comparison]:
    """The comparison of each case, in the order of ``cases``, when no more samples will come.

    It repeats every verdict that ``standing`` called settled (as long as the case got no sample since), and may
    settle more: samples beyond a case's last look take part in a closing one (``Looks.closing``).  Of a failed
    case only samples and failure are told; of one with fewer than 2 samples the ratio, if there is one.

    Raises:
        ValueError: as ``assess``.
    """
    assessments = assess(cases, samples, failures, looks, alpha, closing=True, priors=priors)
    comparisons = []
    for assessment in assessments:
        case = assessment.case
        bare = _bare(assessment, samples.get(case.id, ()), failures.get(case.id), case.id in injected)
        own_looks = looks.of_metric(case.metric)
        bare = replace(bare, note=explain(assessment, own_looks, len(cases)))
        comparisons.append(bare if bare.failure else _with_figures(bare, assessment, own_looks, alpha / len(cases)))
    return comparisons


def _bare(assessment: Assessment, samples: Sequence[PairSample], failure: Failure | None, injected: bool) -> Comparison:
    """The comparison without figures."""
    case = assessment.case
    return Comparison.without_figures(case, assessment.verdict, samples=samples, failure=failure, injected=injected)


def _with_figures(bare: Comparison, assessment: Assessment, looks: Looks, alpha_alone: float) -> Comparison:
    """The comparison with all that could be computed.

    ``alpha_alone`` is the level at which this case alone would be flagged in its run.  The smallest detectable change
    is that of one look at the figures' samples; for a case on the screen, as if they had been its own.
    """
    course = assessment.course
    if (figures := course.figures) is None:
        if not bare.samples:
            return bare
        only = bare.samples[-1]
        return replace(bare, ratio=as_ratio(only.log_ratio), control=only.control, treatment=only.treatment)
    level = alpha_alone * looks.weight("own", figures.n)
    return replace(
        bare,
        ratio=as_ratio(figures.location.estimate),
        ci=(as_ratio(figures.interval[0]), as_ratio(figures.interval[1])),
        p_value=course.p_value,
        q_value=assessment.q_value,
        mde=minimal_detectable_change(figures.location, bare.threshold, level),
        control=figures.control,
        treatment=figures.treatment,
        decided_on=course.shown,
    )
