"""When a case may be looked at, fixed before there are data, and what the looking costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from opduel.comparator.boundaries import nominal_levels
from opduel.records import USUAL_ROUNDS, Stage

GROWTH = 1.6
FIRST_LOOK = 5
# Counts, of instructions or bytes, hardly vary from process to process: few are looked at.
FIRST_LOOK_AT_COUNTS = 3
MAX_ROUNDS_OF_COUNTS = 5
COUNTED = ("instructions", "memory", "process_memory")
# Of a case's error against "the change is within the threshold": what the looks at its screening samples spend.
SCREENING_SHARE = 0.2
# And of that share what the first look spends, where there are several: a large change is seen there, and its case
# leaves the screening at once.
FIRST_LOOK_SHARE = 0.4


@dataclass(frozen=True)
class Looks:
    """The sample counts, increasing, at which the cases of a run are looked at, by stage.

    Of the error of claims of a change, look k gets the share w_k = n_k / (n_1 + ... + n_K) of what its stage has:
    little is spent on the first looks, which only large changes need, and most on the last, where the small ones are
    found (``weight``; ``tested`` says it of both stages together).  Of the error of intervals, and so of
    ``unchanged``, each look spends the same (``level``).  A case is a suspect when its two-sided p value against "no
    change at all" is below ``suspect_level`` at a screening look; no error rate depends on that level: a higher one
    finds little more and spends processes on many cases that have not changed.  ``screening_share`` is the share of
    the error against "the change is within the threshold" that the screening looks spend; 0 decides on confirmation
    samples alone.  ``by_metric`` has the schedules of metrics with one of their own.

    Raises:
        ValueError: a schedule that is empty, does not increase, or has a look at fewer than 2 samples; a share outside
            [0, 1).
    """

    screening: tuple[int, ...]
    confirmation: tuple[int, ...]
    suspect_level: float = 0.01
    screening_share: float = SCREENING_SHARE
    by_metric: Mapping[str, "Looks"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.screening_share < 1:
            raise ValueError(f"the screening's share of the error lies in [0, 1), not {self.screening_share}")
        for counts in (self.screening, self.confirmation):
            if not counts or counts[0] < 2 or any(b <= a for a, b in pairwise(counts)):
                raise ValueError(f"looks must increase from 2 samples or more, not {counts}")

    def of_metric(self, metric: str) -> "Looks":
        """The schedule of the cases that are measured by ``metric``."""
        return self.by_metric.get(metric, self)

    def of(self, stage: Stage) -> tuple[int, ...]:
        """The schedule of a stage."""
        return self.screening if stage == "screening" else self.confirmation

    def weight(self, stage: Stage, n: int) -> float:
        """The share of a stage's error for looking at ``n`` samples: that of the first look not before them.

        Between two looks that is the later one's, unspent so far; beyond the last look, the last one's.
        """
        counts = self.of(stage)
        return next((count for count in counts if count >= n), counts[-1]) / sum(counts)

    def level(self, stage: Stage, n: int, error: float) -> float:
        """The probability with which the interval at ``n`` samples may miss the truth on one side, so that all of a
        stage's miss it there with probability ``error``: each look spends the same, whenever it takes place.

        Between two looks, and before the first, it is that of a look there; beyond the last one, the last one's.
        """
        counts = self.of(stage)
        before = tuple(count for count in counts if count < min(n, counts[-1]))
        taken = (*before, min(n, counts[-1]))
        return nominal_levels(taken, (error / len(counts),) * len(taken))[-1]

    def tested(self, stage: Stage, n: int) -> float:
        """The share of a case's error against "the change is within the threshold" that a look at ``n`` samples spends.

        Over all looks of both stages the shares sum to 1.  Confirmation looks share theirs as ``weight`` says.  Of the
        screening's share the first look spends ``FIRST_LOOK_SHARE``, the others the rest, in proportion to their
        samples.  Between two looks, and beyond the last one, it is as with ``weight``.
        """
        if stage == "confirmation":
            return (1 - self.screening_share) * self.weight(stage, n)
        first, *others = self.screening
        if not others:
            return self.screening_share
        if n <= first:
            return self.screening_share * FIRST_LOOK_SHARE
        share = next((count for count in others if count >= n), others[-1]) / sum(others)
        return self.screening_share * (1 - FIRST_LOOK_SHARE) * share

    def reached(self, stage: Stage, n: int) -> tuple[int, ...]:
        """The looks that ``n`` samples have reached."""
        return tuple(count for count in self.of(stage) if count <= n)

    def next_after(self, stage: Stage, n: int) -> int | None:
        """The first look that ``n`` samples have not reached; None after the last."""
        return next((count for count in self.of(stage) if count > n), None)

    def closing(self, stage: Stage, n: int) -> tuple[int, ...]:
        """The looks of a stage that ended at ``n`` samples, by the clock and not by these samples.

        The look after the last one reached then takes place early, at ``n``, with the weight that it has unspent:
        the weights still sum to 1 at most (Lan and DeMets 1983, Biometrika 70, 659-663: the times of looks may
        be chosen freely, as long as the data don't choose them).  Before a first look there is none.
        """
        reached = self.reached(stage, n)
        if not reached or n in reached or self.next_after(stage, n) is None:
            return reached
        return (*reached, n)


def plan_looks(max_rounds: int = USUAL_ROUNDS) -> Looks:
    """The schedule for at most ``max_rounds`` samples of a case in each stage: both end there.

    Each look comes at about 1.6 times the samples of the one before: closer ones cost more error than
    they save rounds.  Counts (of instructions, of bytes) are looked at after 3 and 5 samples, or fewer if
    ``max_rounds`` is below.

    Raises:
        ValueError: fewer than 2 rounds, from which nothing could be decided.
    """
    if max_rounds < 2:
        raise ValueError(f"a verdict needs at least 2 rounds, not {max_rounds}")
    counts = _geometric(FIRST_LOOK_AT_COUNTS, min(max_rounds, MAX_ROUNDS_OF_COUNTS))
    times = _geometric(FIRST_LOOK, max_rounds)
    return Looks(times, times, by_metric=dict.fromkeys(COUNTED, Looks(counts, counts)))


def _geometric(first: int, last: int) -> tuple[int, ...]:
    """Counts from ``first`` to ``last``, evenly spaced in their logarithms; ``last`` alone if it is not beyond."""
    steps = round(math.log(last / first) / math.log(GROWTH)) if last > first else 0
    return (*(round(first * (last / first) ** (k / steps)) for k in range(steps)), last)


def p_over_looks(p_values: Sequence[float], weights: Sequence[float]) -> float:
    """One p value from those of the looks so far and their weights: min p_k / w_k, at most 1; 1 without looks.

    Weighted Bonferroni over the looks: valid whatever rule stopped the looking, and it can only fall as looks are
    added.
    """
    return min([1.0, *(p / weight for p, weight in zip(p_values, weights, strict=True))])
