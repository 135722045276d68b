"""Statistics: pure functions from samples to verdicts. No I/O, no clock, no randomness.

``plan_looks`` fixes the schedule before there are data. ``RunAnalysis`` has what was measured and the rules of the
decision: ``interim`` says after each round what every case still needs, ``comparisons`` gives the verdicts when the run
is over, ``standing_cases`` those that stand on a disturbed host. ``apply_replication`` and ``withhold_verdicts`` take
back what a second measurement, or a disturbed run, does not support. docs/explanation/statistics.md has the reasons.
"""

from opduel.comparator.aa_checks import AACheck, Bias, run_aa_checks
from opduel.comparator.case_analysis import InterimAnalysis
from opduel.comparator.disturbance import withhold_verdicts
from opduel.comparator.empirical_bayes import Prior
from opduel.comparator.explanations import describe_forecast
from opduel.comparator.looks import Looks, plan_looks
from opduel.comparator.replication import apply_replication, replicate_report
from opduel.comparator.run_analysis import RunAnalysis, fit_priors
from opduel.comparator.significance import benjamini_hochberg

__all__ = [
    "AACheck",
    "Bias",
    "InterimAnalysis",
    "Looks",
    "Prior",
    "RunAnalysis",
    "apply_replication",
    "benjamini_hochberg",
    "describe_forecast",
    "fit_priors",
    "plan_looks",
    "replicate_report",
    "run_aa_checks",
    "withhold_verdicts",
]
