"""How much of a later change known culprits account for: arithmetic on log ratios with intervals.

docs/explanation/bisection.md, "Known culprits", says what follows from it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Literal

from opduel.records import Verdict

Range = tuple[int, int]  # (left, right] of a line: the changes after the point left, up to and with right

# The first three are the verdict of a culprit's direct A/B. "rest" is a change without a culprit, such as the part of a
# culprit that was fixed. "works again": a later commit repaired what a culprit had broken.
Kind = Literal["regressed", "improved", "failed", "rest", "works again"]

# Known changes account for a later one; or more has changed in the same direction, whose culprit is to be sought; or
# less is left than they changed.
Finding = Literal["accounted", "more", "less"]


@dataclass(frozen=True)
class Change:
    """The logarithm of a ratio, with the ends of its interval.

    Sums and differences take the estimates as independent; their intervals follow from those of the parts (MOVER: Zou
    and Donner 2008, Statistics in Medicine 27, 1693-1702).
    """

    estimate: float
    low: float
    high: float

    def plus(self, other: "Change") -> "Change":
        """Return the change that both make together."""
        return self.minus(other.reversed())

    def minus(self, part: "Change") -> "Change":
        """Return what remains without a part that was measured separately."""
        difference = self.estimate - part.estimate
        below = math.hypot(self.estimate - self.low, part.high - part.estimate)
        above = math.hypot(self.high - self.estimate, part.estimate - part.low)
        return Change(difference, difference - below, difference + above)

    def reversed(self) -> "Change":
        """Return the change with treatment and control exchanged."""
        return Change(-self.estimate, -self.high, -self.low)


NONE = Change(0.0, 0.0, 0.0)
UNKNOWN = Change(0.0, -math.inf, math.inf)


@dataclass(frozen=True)
class KnownChange:
    """A change of one case that was found in (``good``, ``bad``], both names of revisions.

    ``change`` is None where there is no ratio: for a case that fails, or a metric without ratios. ``line`` is the
    investigation that found it, ``evidence`` the ids of its runs.
    """

    good: str
    bad: str
    kind: Kind
    change: Change | None
    line: str
    evidence: tuple[str, ...] = ()

    @property
    def is_culprit(self) -> bool:
        """Tell whether a direct A/B of its range found it."""
        return self.kind in ("regressed", "improved", "failed")


@dataclass(frozen=True)
class PlacedChange:
    """A known change with its range on a line."""

    known_change: KnownChange
    range: Range


def place_on_line(known_changes: Iterable[KnownChange], names: Sequence[str]) -> tuple[PlacedChange, ...]:
    """Return the changes that lie on a line of revisions with these ``names``, ordered by their ends.

    A change is left out unless both its revisions are on the line, in this order: the history was rewritten, or the
    control already contains it.
    """
    positions: Mapping[str, int] = {name: position for position, name in enumerate(names)}
    placed_changes = [
        PlacedChange(known_change, (positions.get(known_change.good, -1), positions.get(known_change.bad, -1)))
        for known_change in known_changes
    ]
    return tuple(
        sorted(
            (change for change in placed_changes if 0 <= change.range[0] < change.range[1]),
            key=lambda change: change.range[::-1],
        )
    )


def combined_change(placed_changes: Iterable[PlacedChange]) -> Change | None:
    """Return the sum of a case's known changes; None where none has a ratio."""
    changes = [placed.known_change.change for placed in placed_changes if placed.known_change.change is not None]
    return reduce(Change.plus, changes, NONE) if changes else None


def is_broken(placed_changes: Iterable[PlacedChange]) -> bool:
    """Tell whether a case is known to fail, or to have changed without a ratio, at the end of the line."""
    states = [placed.known_change.kind for placed in placed_changes if placed.known_change.change is None]
    return bool(states) and states[-1] != "works again"


def account_for(later: Change, share: Change, threshold: float) -> tuple[Finding, Change]:
    """Compare a later change with the ``share`` that known changes made; return the finding and the remainder.

    The finding is "more" when the estimate of the remainder is beyond the threshold (a share of the ratio) in the
    direction of the later change; its interval does not matter, because this part is then measured directly. It is
    "less" when the whole interval of the remainder lies beyond the threshold in the other direction, else "accounted".
    """
    remainder = later.minus(share)
    forward = remainder.reversed() if later.estimate < 0 else remainder
    bound = math.log1p(threshold)
    if forward.estimate > bound:
        return "more", remainder
    return ("less" if forward.high < -bound else "accounted"), remainder


def is_off(change: Change, threshold: float) -> bool:
    """Tell whether the whole interval of a change lies beyond the threshold (a share), on either side."""
    bound = math.log1p(threshold)
    return change.low > bound or change.high < -bound


def gaps(last: int, ranges: Iterable[Range]) -> list[Range]:
    """Return the parts of (0, ``last``] that are in none of the ranges, from left to right."""
    covered = {revision for good, bad in ranges for revision in range(good + 1, bad + 1)}
    free = [revision for revision in range(1, last + 1) if revision not in covered]
    gap_starts = [revision for before, revision in pairwise([-1, *free]) if revision != before + 1]
    gap_ends = [revision for revision, after in pairwise([*free, last + 2]) if after != revision + 1]
    return [(start - 1, end) for start, end in zip(gap_starts, gap_ends, strict=True)]


@dataclass(frozen=True)
class Attribution:
    """How much of a flagged case's change known changes account for: ``share`` of ``total``, leaving ``remainder``.

    These three are None where there are no ratios.
    """

    finding: Finding
    total: Change | None = None
    share: Change | None = None
    remainder: Change | None = None

    def has_share(self, threshold: float) -> bool:
        """Tell whether the known changes exceed the threshold in the direction of the total change."""
        if self.total is None or self.share is None:
            return self.finding == "accounted"
        forward = self.share.reversed() if self.total.estimate < 0 else self.share
        return forward.estimate > math.log1p(threshold)


def attribute(
    flag: Verdict, later: Change | None, placed_changes: Sequence[PlacedChange], threshold: float
) -> Attribution | None:
    """Attribute a flagged case's change (``later``) to its known changes; return None if there are none that apply.

    A known culprit accounts for a failure unless the case was found to work again after it.
    """
    if flag == "failed" or later is None:
        if any(placed.known_change.kind == flag and placed.known_change.change is None for placed in placed_changes):
            return Attribution("accounted" if is_broken(placed_changes) else "more")
        return None
    share = combined_change(placed_changes)
    if share is None:
        return None
    finding, remainder = account_for(later, share, threshold)
    return Attribution(finding, later, share, remainder)


def remaining_change(
    verdict: Verdict,
    later: Change | None,
    placed_changes: Sequence[PlacedChange],
    threshold: float,
    sought_in_vain: bool,
) -> tuple[Kind, Change | None, int] | None:
    """Return the change of a case at the end of a line that its known changes leave over, or None.

    That is a change whose culprit was ``sought_in_vain``, or a significant one that reverts a part of the known ones.
    Returned are its kind, its size with the interval of the later change, and the index of the revision after which it
    came.
    """
    if not placed_changes:
        return None
    end = max(placed.range[1] for placed in placed_changes)
    if is_broken(placed_changes):
        works = verdict != "failed" and (later is not None or verdict in ("unchanged", "improved"))
        return ("works again", None, end) if works else None
    share = combined_change(placed_changes)
    if share is None or later is None:
        return None
    remainder = later.minus(share)
    if not sought_in_vain and not is_off(remainder, threshold):
        return None
    off = remainder.estimate - later.estimate
    return "rest", Change(remainder.estimate, later.low + off, later.high + off), end
