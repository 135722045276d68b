"""Statistics: pure functions from samples to verdicts. No I/O, no clock, no randomness.

``plan_looks`` fixes the schedule before there are data. ``analyse_interim`` tells the scheduler after each round what
every case still needs. ``compare_cases`` makes the comparisons when the run is over. ``apply_replication`` and
``withhold_verdicts`` take back what a second measurement, or a run that can't be trusted, does not support.
docs/explanation/statistics.md says why they are right.
"""

from opduel.comparator.aa_checks import AACheck, Bias, run_aa_checks
from opduel.comparator.cause_calls import by_call
from opduel.comparator.cause_matching import with_moved
from opduel.comparator.cause_resources import concerns_memory
from opduel.comparator.cause_sentence import cause_of
from opduel.comparator.causes import examine
from opduel.comparator.disturbance import standing_cases, withhold_verdicts
from opduel.comparator.empirical_bayes import Prior
from opduel.comparator.explanations import attribute_changes, in_words
from opduel.comparator.looks import Looks, plan_looks
from opduel.comparator.replication import apply_replication, replicate_report
from opduel.comparator.run_analysis import InterimAnalysis, analyse_interim, fit_priors
from opduel.comparator.significance import benjamini_hochberg
from opduel.comparator.verdicts import compare_cases

__all__ = [
    "AACheck",
    "Bias",
    "InterimAnalysis",
    "Looks",
    "Prior",
    "analyse_interim",
    "apply_replication",
    "attribute_changes",
    "benjamini_hochberg",
    "by_call",
    "cause_of",
    "compare_cases",
    "concerns_memory",
    "examine",
    "fit_priors",
    "in_words",
    "plan_looks",
    "replicate_report",
    "run_aa_checks",
    "standing_cases",
    "with_moved",
    "withhold_verdicts",
]
