"""Meaning: pure functions from samples to verdicts. No I/O, no clock, no randomness.

``plan_looks`` fixes the schedule before there are data, ``standing`` tells the scheduler after each round what every
case still needs, ``judge`` makes the comparisons when the run is over. docs/statistics.md says why they are right.
"""

from comparator.looks import DEFAULT_MAX_ROUNDS, Looks, plan_looks
from comparator.standing import Standing, standing
from comparator.verdicts import judge

__all__ = ["DEFAULT_MAX_ROUNDS", "Looks", "Standing", "judge", "plan_looks", "standing"]
