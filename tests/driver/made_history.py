"""Histories with known culprits, measured exactly or with noise, for the tests of the bisection."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from opduel.driver.attribution import Change
from opduel.driver.bisection import CulpritRange, Narrow, Step, bisect

THRESHOLD = 0.02
BOUND = math.log1p(THRESHOLD)
Z = 1.96  # half-width of a 95 % interval in standard errors


@dataclass
class History:
    """Points 0 to ``revisions``; ``changes`` has by case the log ratio that each point brought with it.

    Everything asked is written down, and asking twice is an error.  ``error`` is the standard error of a measured log
    ratio, the same whenever (left, right, case) is measured with one ``seed``.  At ``failing`` points a case fails.
    """

    revisions: int
    changes: Mapping[str, Mapping[int, float]]
    unbuildable: frozenset[int] = frozenset()
    cached: frozenset[int] = frozenset()
    failing: Mapping[str, frozenset[int]] = field(default_factory=dict)
    error: float = 0.0
    seed: int = 0
    measured: list[tuple[int, int, tuple[str, ...]]] = field(default_factory=list)
    prepared: list[int] = field(default_factory=list)

    def step(self, start: int, end: int, case: str) -> Step:
        """What an A/B says: its verdict follows from the interval."""
        fails = [revision in self.failing.get(case, ()) for revision in (start, end)]
        if any(fails):
            return Step("failed", side="both" if all(fails) else "control" if fails[0] else "treatment")
        change = math.fsum(size for revision, size in self.changes.get(case, {}).items() if start < revision <= end)
        return judged(change + self.error * self._draw(start, end, case), Z * self.error)

    def _draw(self, start: int, end: int, case: str) -> float:
        digest = hashlib.sha256(f"{self.seed} {start} {end} {case}".encode()).digest()
        return float(np.random.default_rng(int.from_bytes(digest[:8])).normal())

    def measure(self, start: int, end: int, cases: Sequence[str]) -> dict[str, Step]:
        assert 0 <= start < end <= self.revisions
        assert cases
        questions = {(a, b, case) for a, b, some in self.measured for case in some}
        assert questions.isdisjoint((start, end, case) for case in cases)
        assert not self.unbuildable & {start, end}
        assert {start, end} <= {0, self.revisions, *self.prepared}
        self.measured.append((start, end, tuple(cases)))
        return {case: self.step(start, end, case) for case in cases}

    def prepare(self, revision: int) -> bool:
        assert 0 < revision < self.revisions
        assert revision not in self.prepared
        self.prepared.append(revision)
        return revision not in self.unbuildable

    def total_steps(self, cases: Sequence[str] = ()) -> dict[str, Step]:
        return {case: self.step(0, self.revisions, case) for case in cases or self.changes}

    def bisect(self, sought: Mapping[str, Step] | None = None, narrow: Narrow = lambda _, __: {}) -> list[CulpritRange]:
        sought = self.total_steps() if sought is None else sought
        thresholds = dict.fromkeys(sought, THRESHOLD)
        measure, prepare = self.measure, self.prepare
        return bisect(self.revisions, sought, measure, prepare, self.cached, thresholds, narrow=narrow)

    def smallest(self, revision: int) -> tuple[int, int]:
        """The smallest range that holds a point's change and ends at points that can be built."""
        good = next(p for p in range(revision - 1, -1, -1) if p not in self.unbuildable)
        return good, next(p for p in range(revision, self.revisions + 1) if p not in self.unbuildable)


def judged(estimate: float, half: float) -> Step:
    """A step whose verdict follows from its interval, as the comparator's do."""
    low, high = estimate - half, estimate + half
    if low > BOUND:
        return Step("regressed", Change(estimate, low, high))
    if high < -BOUND:
        return Step("improved", Change(estimate, low, high))
    if low >= -BOUND:
        return Step("unchanged" if high <= BOUND else "not_better", Change(estimate, low, high))
    return Step("not_worse" if high <= BOUND else "inconclusive", Change(estimate, low, high))


def ranges(culprits: Sequence[CulpritRange], case: str) -> list[tuple[int, int]]:
    """Where a case's culprits lie."""
    return [(culprit.start, culprit.end) for culprit in culprits if case in culprit.cases]
