"""Verdicts held back: what is said of the cases of a run that can't be trusted."""

from collections.abc import Sequence
from dataclasses import replace

from opduel.records import DEFAULT_METRIC, Comparison

WITHHELD = ("regressed", "improved", "unchanged")


def withhold_verdicts(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Every claim becomes ``inconclusive``; what it was stays in ``held_back``, all figures stay as they are.

    A case that failed has failed: a disturbance makes nothing crash. Counts of instructions mind no disturbance.
    """
    return [_withheld(one) if one.verdict in WITHHELD and one.metric == DEFAULT_METRIC else one for one in comparisons]


def _withheld(one: Comparison) -> Comparison:
    note = f"held back: would be {one.verdict}"
    return replace(one, verdict="inconclusive", held_back=one.verdict, note=f"{note}; {one.note}" if one.note else note)
