"""Meaning: pure functions from samples to verdicts. No I/O, no clock, no randomness.

``plan_looks`` fixes the schedule before there are data, ``standing`` tells the scheduler after each round what every
case still needs, ``judge`` makes the comparisons when the run is over; ``confirm`` and ``hold_back`` take back what a
second measurement, or a run that can't be trusted, doesn't support. docs/explanation/statistics.md
says why they are right.
"""

from comparator.assessment import fit_priors
from comparator.confirmation import FLAGGED, confirm
from comparator.holding import hold_back
from comparator.looks import DEFAULT_MAX_ROUNDS, Looks, plan_looks
from comparator.moderation import Prior
from comparator.notes import in_words
from comparator.readings import read_together
from comparator.sentinels import SENTINEL_ALPHA, SentinelCheck, check_sentinels
from comparator.standing import Standing, standing
from comparator.verdicts import judge

__all__ = [
    "DEFAULT_MAX_ROUNDS",
    "FLAGGED",
    "SENTINEL_ALPHA",
    "Looks",
    "Prior",
    "SentinelCheck",
    "Standing",
    "check_sentinels",
    "confirm",
    "fit_priors",
    "hold_back",
    "in_words",
    "judge",
    "plan_looks",
    "read_together",
    "standing",
]
