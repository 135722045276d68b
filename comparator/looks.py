"""The looks (interim analyses) of a run, planned before there are data, and the share of the error that each spends."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from opduel.comparator.boundaries import nominal_levels
from opduel.records import USUAL_ROUNDS

GROWTH = 1.6
FIRST_LOOK = 5
FRESH_PAIRS = 3  # process pairs that must agree, after a look that has found a change, before it is claimed
# Counts, of instructions or bytes, hardly vary from process to process, so that few rounds are enough.
FIRST_LOOK_AT_COUNTS = 3
MAX_ROUNDS_OF_COUNTS = 5
COUNTED = ("instructions", "memory", "process_memory")


@dataclass(frozen=True)
class Looks:
    """The schedule of looks: ``counts`` are the numbers of samples, increasing, at which cases are analysed.

    Of the error of claims of a change, look k gets the share w_k = n_k / (n_1 + ... + n_K): little is spent on the
    first looks, which find large changes in any case, and most on the last, which finds small ones (``weight``).  Of
    the error of intervals, and so of ``unchanged``, each look spends the same (``level``).  A case is a suspect when
    its two-sided p value against "no change at all" is below ``suspect_level`` at a look; no error rate depends on that
    level.  ``by_metric`` has the schedules of metrics with one of their own. Raises ValueError: a schedule that is
    empty, does not increase, or has a look at fewer than 2 samples.
    """

    counts: tuple[int, ...]
    suspect_level: float = 0.01
    by_metric: Mapping[str, "Looks"] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        counts = self.counts
        if not counts or counts[0] < 2 or any(later <= earlier for earlier, later in pairwise(counts)):
            raise ValueError(f"looks must increase from 2 samples or more, not {counts}")

    def of_metric(self, metric: str) -> "Looks":
        """Return the schedule of the cases that are measured by ``metric``."""
        return self.by_metric.get(metric, self)

    def weight(self, n: int) -> float:
        """Return the share of the error for looking at ``n`` samples: that of the first look not before them, or of the
        last."""
        return next((count for count in self.counts if count >= n), self.counts[-1]) / sum(self.counts)

    def level(self, n: int, error: float) -> float:
        """Return the probability with which the interval at ``n`` samples may miss the truth on one side, so that all
        looks together miss it there with probability ``error``: each spends the same.  Between two looks, and before
        the first, it is that of a look there; beyond the last one, the last one's."""
        n = min(n, self.counts[-1])
        looks = (*(count for count in self.counts if count < n), n)
        return nominal_levels(looks, (error / len(self.counts),) * len(looks))[-1]

    def reached(self, n: int) -> tuple[int, ...]:
        """Return the looks that ``n`` samples have reached."""
        return tuple(count for count in self.counts if count <= n)

    def next_after(self, n: int) -> int | None:
        """Return the first look that ``n`` samples have not reached; None after the last."""
        return next((count for count in self.counts if count > n), None)

    def closing(self, n: int) -> tuple[int, ...]:
        """Return the looks at a case that ended at ``n`` samples, by the clock and not by these samples.

        The look after the last one reached then takes place early, at ``n``, with the weight that it has unspent:
        the weights still sum to 1 at most (Lan and DeMets 1983, Biometrika 70, 659-663: the times of looks may
        be chosen freely, as long as the data don't choose them).  Before a first look there is none.
        """
        reached = self.reached(n)
        if not reached or n in reached or self.next_after(n) is None:
            return reached
        return (*reached, n)


def plan_looks(max_rounds: int = USUAL_ROUNDS) -> Looks:
    """Return the schedule for at most ``max_rounds`` samples of a case, where it ends.

    Each look comes at about 1.6 times the samples of the one before.  The first one leaves room for the fresh samples
    that a claim takes.  Counts (of instructions, of bytes) are looked at after 3 and 5 samples, or fewer if
    ``max_rounds`` is below. Raises ValueError: fewer than 2 rounds, from which nothing could be decided.
    """
    if max_rounds < 2:
        raise ValueError(f"a verdict needs at least 2 rounds, not {max_rounds}")
    first = max(2, min(FIRST_LOOK, max_rounds - FRESH_PAIRS))
    counts = Looks(_geometric(FIRST_LOOK_AT_COUNTS, min(max_rounds, MAX_ROUNDS_OF_COUNTS)))
    return Looks(_geometric(first, max_rounds), by_metric=dict.fromkeys(COUNTED, counts))


def _geometric(first: int, last: int) -> tuple[int, ...]:
    """Return counts from ``first`` to ``last``, evenly spaced in their logarithms, the first two as far apart as the
    fresh samples of a claim are many; ``last`` alone if it is not beyond."""
    if last < first + 2 * FRESH_PAIRS:
        return (first, last) if last > first else (last,)
    steps = round(math.log(last / first) / math.log(GROWTH))
    return (*(math.ceil(first * (last / first) ** (k / steps)) for k in range(steps)), last)


def p_over_looks(p_values: Sequence[float], weights: Sequence[float]) -> float:
    """Return one p value from those of the looks so far and their weights: min p_k / w_k, at most 1; 1 without looks.
    That is weighted Bonferroni over the looks: valid whatever rule stopped the looking."""
    return min([1.0, *(p / weight for p, weight in zip(p_values, weights, strict=True))])
