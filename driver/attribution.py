"""What known culprits account for of a later change: pure arithmetic on log ratios with intervals.

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

# A culprit's effect is of the verdict that its direct A/B found. "rest" is a change that no culprit was found for, such
# as a culprit that was fixed in part; "works again": what a culprit broke was repaired.
Kind = Literal["regressed", "improved", "failed", "rest", "works again"]

# What is to be said of a later change: the known ones account for it; more changed in the same direction, and that is
# to be sought; less is left of it than they made.
Finding = Literal["accounted", "more", "less"]


@dataclass(frozen=True)
class Change:
    """The logarithm of a ratio, with the ends of its interval.

    Sums and differences are of independent estimates, their intervals from those of the parts (MOVER: Zou and Donner
    2008, Statistics in Medicine 27, 1693-1702).
    """

    estimate: float
    low: float
    high: float

    def plus(self, other: "Change") -> "Change":
        """Both together."""
        return self.minus(other.reversed())

    def minus(self, part: "Change") -> "Change":
        """What remains of it without a part that was measured by itself."""
        rest = self.estimate - part.estimate
        below = math.hypot(self.estimate - self.low, part.high - part.estimate)
        above = math.hypot(self.high - self.estimate, part.estimate - part.low)
        return Change(rest, rest - below, rest + above)

    def reversed(self) -> "Change":
        """The other way round: treatment and control exchanged."""
        return Change(-self.estimate, -self.high, -self.low)


NONE = Change(0.0, 0.0, 0.0)
UNKNOWN = Change(0.0, -math.inf, math.inf)


@dataclass(frozen=True)
class Known:
    """A change of one case that was found in (``good``, ``bad``], points by their names.

    ``change`` is None where there is nothing to reckon with: a case that fails, or a metric without ratios. ``line``:
    the investigation that found it; ``evidence``: the ids of its runs.
    """

    good: str
    bad: str
    kind: Kind
    change: Change | None
    line: str
    evidence: tuple[str, ...] = ()

    @property
    def is_culprit(self) -> bool:
        """Whether a direct A/B of its range found it."""
        return self.kind in ("regressed", "improved", "failed")


@dataclass(frozen=True)
class Placed:
    """A known change, and the range of a line that it lies in."""

    known: Known
    range: Range


def placed(known: Iterable[Known], names: Sequence[str]) -> tuple[Placed, ...]:
    """Those that lie on a line of points with these ``names``, by where they end.

    A change whose points are not both on the line, in this order, is none of the line's: its history was rewritten, or
    the control holds it already.
    """
    positions: Mapping[str, int] = {name: position for position, name in enumerate(names)}
    found = [Placed(one, (positions.get(one.good, -1), positions.get(one.bad, -1))) for one in known]
    return tuple(sorted((one for one in found if 0 <= one.range[0] < one.range[1]), key=lambda one: one.range[::-1]))


def together(known: Iterable[Placed]) -> Change | None:
    """What the known changes of a case come to; None where there is nothing to reckon with."""
    changes = [one.known.change for one in known if one.known.change is not None]
    return reduce(Change.plus, changes, NONE) if changes else None


def is_broken(known: Iterable[Placed]) -> bool:
    """Whether a case is known to fail, or to differ in a way that has no ratio, at the end of the line."""
    states = [one.known.kind for one in known if one.known.change is None]
    return bool(states) and states[-1] != "works again"


def account(later: Change, known: Change, threshold: float) -> tuple[Finding, Change]:
    """What known changes leave over of a later one, and what is to be said of that.

    "more" when the estimate of the rest is beyond the threshold (a share) in the later change's direction: that is
    to be measured directly, so nothing needs to be sure here. "less" when the rest, with its interval, lies beyond the
    threshold in the other direction. Else they account for it.
    """
    rest = later.minus(known)
    forward = rest.reversed() if later.estimate < 0 else rest
    bound = math.log1p(threshold)
    if forward.estimate > bound:
        return "more", rest
    return ("less" if forward.high < -bound else "accounted"), rest


def is_off(rest: Change, threshold: float) -> bool:
    """Whether a rest, with its interval, lies beyond the threshold (a share), on whichever side."""
    bound = math.log1p(threshold)
    return rest.low > bound or rest.high < -bound


def gaps(last: int, ranges: Iterable[Range]) -> list[Range]:
    """The parts of (0, ``last``] that are in none of the ranges, from left to right."""
    taken = {revision for left, right in ranges for revision in range(left + 1, right + 1)}
    free = [revision for revision in range(1, last + 1) if revision not in taken]
    starts = [revision for before, revision in pairwise([-1, *free]) if revision != before + 1]
    ends = [revision for revision, after in pairwise([*free, last + 2]) if after != revision + 1]
    return [(start - 1, end) for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class Attribution:
    """What known changes account for of a case that was flagged: ``share`` of ``whole``, leaving ``rest``; None where
    there are no ratios. ``finding``: whether that is all, or more is to be sought."""

    finding: Finding
    whole: Change | None = None
    share: Change | None = None
    rest: Change | None = None

    def has_share(self, threshold: float) -> bool:
        """Whether the known changes still make a difference beyond the threshold, in the direction of the whole."""
        if self.whole is None or self.share is None:
            return self.finding == "accounted"
        forward = self.share.reversed() if self.whole.estimate < 0 else self.share
        return forward.estimate > math.log1p(threshold)


def attribute(flag: Verdict, later: Change | None, known: Sequence[Placed], threshold: float) -> Attribution | None:
    """What the known changes of a case account for of a verdict, ``later`` being its change; None if they have nothing
    to do with it.

    A case that fails is accounted for by a culprit after which it failed, unless it was seen to work again since.
    """
    if flag == "failed" or later is None:
        if any(one.known.kind == flag and one.known.change is None for one in known):
            return Attribution("accounted" if is_broken(known) else "more")
        return None
    share = together(known)
    if share is None:
        return None
    finding, rest = account(later, share, threshold)
    return Attribution(finding, later, share, rest)


def left_over(
    verdict: Verdict, later: Change | None, known: Sequence[Placed], threshold: float, sought_in_vain: bool
) -> tuple[Kind, Change | None, int] | None:
    """What is to be known of a case at the end of a line besides the changes that are: its kind, its size, and the
    point after which it came. None: nothing.

    That is a change that was sought and not found, or, when it is sure, one that takes a part of the known ones back.
    Its interval is the later change's own.
    """
    if not known:
        return None
    end = max(one.range[1] for one in known)
    if is_broken(known):
        works = verdict != "failed" and (later is not None or verdict in ("unchanged", "improved"))
        return ("works again", None, end) if works else None
    share = together(known)
    if share is None or later is None:
        return None
    rest = later.minus(share)
    if not sought_in_vain and not is_off(rest, threshold):
        return None
    off = rest.estimate - later.estimate
    return "rest", Change(rest.estimate, later.low + off, later.high + off), end
