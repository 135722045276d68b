"""Statistics: pure functions from samples to verdicts. No I/O, no clock, no randomness.

``plan_looks`` fixes the schedule before there are data. ``RunAnalysis`` has what was measured and the rules of the
decision: ``interim`` says after each round what every case still needs, ``comparisons`` gives the verdicts when the run
is over, ``standing_cases`` those that stand on a disturbed host. ``apply_replication`` and ``withhold_verdicts`` take
back what a second measurement, or a disturbed run, does not support. docs/explanation/statistics.md has the reasons.
"""

from opduel.comparator.aa_checks import Bias as Bias
from opduel.comparator.aa_checks import run_aa_checks as run_aa_checks
from opduel.comparator.case_analysis import InterimAnalysis as InterimAnalysis
from opduel.comparator.disturbance import withhold_verdicts as withhold_verdicts
from opduel.comparator.empirical_bayes import Prior as Prior
from opduel.comparator.looks import Looks as Looks
from opduel.comparator.looks import plan_looks as plan_looks
from opduel.comparator.replication import apply_replication as apply_replication
from opduel.comparator.replication import replicate_report as replicate_report
from opduel.comparator.run_analysis import RunAnalysis as RunAnalysis
from opduel.comparator.run_analysis import fit_priors as fit_priors
from opduel.comparator.significance import benjamini_hochberg as benjamini_hochberg
