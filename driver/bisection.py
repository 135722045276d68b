"""Which point changed a case: the range between two points is halved by measuring, until it can't be halved further.

A search over injected callables, without I/O, clock or randomness: the same answers lead to the same questions, so a
caller that keeps every answer can run the whole search again after a crash.  docs/explanation/bisection.md
says what a name claims.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from opduel.driver.attribution import UNKNOWN, Change, Range
from opduel.records import FLAGGED, Verdict

# What an A/B of a range shows for a case: the change is there; it is not; it is unclear; the case fails.
Answer = Literal["found", "clear", "open", "fails"]
# The one-sided verdict that leaves open whether a case has changed in the way that is sought; the other one says no.
_MAY_BE: Mapping[Verdict, Verdict] = {"regressed": "not_better", "improved": "not_worse"}


@dataclass(frozen=True)
class Step:
    """What one A/B of two points says of one case.

    ``log_ratio`` is ln(right / left) and ``low`` and ``high`` the ends of its interval, None when not known.  ``side``
    says of a failed case where it failed: "treatment" when it runs at the left point and fails at the right one, and
    the machine isn't the reason.  ``unsure``: its run could not be trusted, or was not completed.
    """

    verdict: Verdict
    log_ratio: float | None = None
    low: float | None = None
    high: float | None = None
    side: Literal["control", "treatment", "both"] | None = None
    unsure: bool = False

    @property
    def finding(self) -> Verdict | None:
        """What changed from left to right, as ``Comparison.finding``; None if nothing did, or nothing is known."""
        if self.verdict == "failed":
            return "failed" if self.side == "treatment" else None
        return self.verdict if self.verdict in FLAGGED else None

    @property
    def change(self) -> Change | None:
        """The ratio with its interval; None without one."""
        if self.log_ratio is None or self.low is None or self.high is None:
            return None
        return Change(self.log_ratio, self.low, self.high)


# An A/B of two points, the left one the control, on some cases: a step for each of them.
Measure = Callable[[int, int, Sequence[str]], Mapping[str, Step]]
Prepare = Callable[[int], bool]  # builds a point; False when it can't be built


@dataclass(frozen=True)
class CulpritRange:
    """The change of some cases lies in (left, right], and no smaller range could be shown to hold it.

    ``cases`` has the evidence: the direct A/B of ``left`` and ``right``, which found in each case what was sought.
    Of the points in between, ``skipped`` could not be built, ``undecided`` gave no clear answer.  In the cases
    ``unsure`` a step that could not be trusted may hide a smaller range, or another culprit.
    """

    left: int
    right: int
    cases: Mapping[str, Step]
    skipped: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()
    note: str = ""
    unsure: tuple[str, ...] = ()

    @property
    def named(self) -> bool:
        """Whether it is one point's doing: that of ``right``."""
        return self.right - self.left == 1


def bisect(
    revisions: int,
    cases: Mapping[str, Step],
    measure: Measure,
    prepare: Prepare,
    cached: Collection[int],
    thresholds: Mapping[str, float],
    first: int = 0,
) -> list[CulpritRange]:
    """The culprits between point ``first`` and the one ``revisions`` further, from left to right.

    ``cases`` has the A/B of the two ends, by case id; its verdict is what is sought in that case: "regressed",
    "improved" or "failed" (on the treatment alone).  ``thresholds`` are shares.  Both ends are taken to be built;
    ``cached`` are points whose builds were at hand when the search began: a set, and not a question, because a
    search that is run again after a crash must be given the same one.

    No case is measured twice between the same two points, no point prepared twice.  Cases come sorted by id.

    Raises:
        ValueError: fewer than 1 point to look among, or a case in which nothing is sought.
    """
    if revisions < 1:
        raise ValueError(f"a bisection needs 1 point or more after the control, not {revisions}")
    for case, step in cases.items():
        if step.finding is None:
            raise ValueError(f"{case}: regressed, improved, or failed on the treatment alone: not {step}")
    search = _Search((first, first + revisions), cases, measure, prepare, thresholds, frozenset(cached))
    search.descend()
    return search.culprits()


@dataclass(frozen=True)
class _Suspicion:
    """One case, suspected to have changed in the last range of ``path``.

    ``path`` begins with a range of which a direct A/B has shown it; each further one lies in the one before and is only
    suspected.  ``change`` is the last one's, as far as is known.  ``failing`` are points of it at which the case can't
    be measured.
    """

    case: str
    path: tuple[Range, ...]
    change: Change  # in the direction that is sought
    failing: frozenset[int] = frozenset()

    @property
    def range(self) -> Range:
        return self.path[-1]


@dataclass
class _Search:
    """A bisection in progress: what has been answered, and which suspicions have come to their end."""

    whole: Range
    cases: Mapping[str, Step]
    measure: Measure
    prepare: Prepare
    thresholds: Mapping[str, float]
    cached: Collection[int]
    prepared: set[int] = field(default_factory=set)
    unbuildable: set[int] = field(default_factory=set)
    steps: dict[tuple[Range, str], Step] = field(default_factory=dict)
    ended: list[_Suspicion] = field(default_factory=list)

    def descend(self) -> None:
        """Halves all suspicions until they end.

        The widest range comes first: whatever can bring another case to a range comes before it, so a range's cases are
        measured together.
        """
        whole = self.whole
        self.steps = {(whole, case): step for case, step in self.cases.items()}
        suspicions = [_Suspicion(case, (whole,), self._change(whole, case)) for case in sorted(self.cases)]
        while suspicions:
            first = min(suspicions, key=lambda one: (_by_width(one.range), sorted(one.failing)))
            group = [one for one in suspicions if (one.range, one.failing) == (first.range, first.failing)]
            suspicions = [one for one in suspicions if one not in group] + self._halve(group)

    def culprits(self) -> list[CulpritRange]:
        """The culprits, from left to right: for each suspicion the smallest range of its path that a direct A/B shows.

        A range that encloses another answer of the same case is left out, for that answer can be what it shows.
        """
        shown = self._shown()
        found: dict[Range, list[str]] = {}
        doubted = set()
        for case, ranges in shown.items():
            for one in ranges:
                if any(other != one and _encloses(one, other) for other in ranges):
                    doubted.add(case)
                else:
                    found.setdefault(one, []).append(case)
        return [self._culprit(one, sorted(found[one]), doubted) for one in sorted(found)]

    def _shown(self) -> dict[str, set[Range]]:
        """By case, of each ended suspicion's path the smallest range whose direct A/B finds the change.

        A range that was only suspected is measured here; when that doesn't find the change, the one before it is asked.
        The first one of a path always answers.
        """
        shown: dict[str, set[Range]] = {}
        ended = self.ended
        while ended:
            narrowest = max((one.range for one in ended), key=_by_width)
            group = [one for one in ended if one.range == narrowest]
            ended = [one for one in ended if one.range != narrowest]
            answers = self._ask(narrowest, {one.case for one in group})
            for one in group:
                if answers[one.case] == "found":
                    shown.setdefault(one.case, set()).add(narrowest)
                else:
                    ended.append(replace(one, path=one.path[:-1]))
        return shown

    def _halve(self, group: Sequence[_Suspicion]) -> list[_Suspicion]:
        """What becomes of suspicions of one range: the left half is measured, the right one where need be."""
        left, right = group[0].range
        middle = self._middle(left, right, group[0].failing)
        if middle is None:
            self.ended += group
            return []
        answers = self._ask((left, middle), {one.case for one in group})
        doubtful = {one.case for one in group if self._leaves_open(one, (left, middle), answers[one.case])}
        others = self._ask((middle, right), doubtful) if doubtful else {}
        following = []
        for one in group:
            if answers[one.case] == "fails":
                following.append(replace(one, failing=one.failing | {middle}))
                continue
            parts = list(self._parts(one, middle, (answers[one.case], others.get(one.case))))
            following += parts
            self.ended += [] if parts else [one]
        return following

    def _leaves_open(self, one: _Suspicion, left: Range, answer: Answer) -> bool:
        """Whether the right half must be measured too, after the left one's answer."""
        if answer == "found" and self.cases[one.case].verdict != "failed":
            return one.change.minus(self._change(left, one.case)).high > self._bound(one.case)
        return answer == "open"

    def _parts(self, one: _Suspicion, middle: int, answers: tuple[Answer, Answer | None]) -> Iterator[_Suspicion]:
        """The halves to go on with.

        Those in which the change was found; one that must hold what the other, clear half leaves over; and one that
        was unclear, but whose estimate is beyond the threshold.
        """
        left, right = one.range
        halves: tuple[Range, Range] = ((left, middle), (middle, right))
        bound = self._bound(one.case)
        for half, other, answer, others_answer in zip(halves, halves[::-1], answers, answers[::-1], strict=True):
            change = self._change(half, one.case)
            failing = frozenset(point for point in one.failing if half[0] < point < half[1])
            rest = one.change.minus(self._change(other, one.case))
            if answer == "found":
                yield _Suspicion(one.case, (half,), change, failing)
            elif answer != "clear" and (change.estimate > bound or (others_answer == "clear" and rest.high > bound)):
                yield _Suspicion(one.case, (*one.path, half), rest if change is UNKNOWN else change, failing)

    def _middle(self, left: int, right: int, failing: Collection[int]) -> int | None:
        """The point to split at: buildable, and nearest to the middle; None if there is none.

        A cached point goes first when it lies in the middle half.  Where a case fails at points in
        between, the middle is that of the widest stretch without one; after 1 + log2(right - left) such points none
        is tried.
        """
        if len(failing) > 1 + math.log2(right - left):
            return None
        start, end = max(pairwise(sorted({left, right, *failing})), key=lambda stretch: stretch[1] - stretch[0])

        def preference(revision: int) -> tuple[bool, int, int]:
            off = abs(2 * revision - start - end)  # twice the distance from the middle
            return not (revision in self.cached and 2 * off <= end - start), off, revision

        candidates = set(range(left + 1, right)) - set(failing) - self.unbuildable
        return next((revision for revision in sorted(candidates, key=preference) if self._can_build(revision)), None)

    def _can_build(self, revision: int) -> bool:
        if revision in self.prepared:
            return True
        if self.prepare(revision):
            self.prepared.add(revision)
            return True
        self.unbuildable.add(revision)
        return False

    def _ask(self, between: Range, cases: Collection[str]) -> dict[str, Answer]:
        """The answers of a direct A/B; what is known already is not measured again."""
        missing = tuple(sorted(case for case in cases if (between, case) not in self.steps))
        if missing:
            measured = self.measure(*between, missing)
            self.steps |= {(between, case): measured[case] for case in missing}
        return {case: self._answer(self.steps[between, case], self.cases[case].verdict) for case in cases}

    @staticmethod
    def _answer(step: Step, sought: Verdict) -> Answer:
        if step.unsure:
            return "open"
        if sought == "failed":
            if step.verdict != "failed":
                return "clear"
            return "found" if step.side == "treatment" else "open"
        if step.verdict == "failed":
            return "fails"
        if step.verdict in ("inconclusive", _MAY_BE[sought]):
            return "open"
        return "found" if step.verdict == sought else "clear"

    def _change(self, between: Range, case: str) -> Change:
        """What a direct A/B measured, upwards if the whole went up; unknown without one, or if it has no interval."""
        step, whole = self.steps.get((between, case)), self.cases[case].log_ratio
        change = step.change if step else None
        if change is None or whole is None:
            return UNKNOWN
        return change.reversed() if whole < 0 else change

    def _bound(self, case: str) -> float:
        return math.log1p(self.thresholds[case])

    def _culprit(self, one: Range, cases: Sequence[str], doubted: Collection[str]) -> CulpritRange:
        left, right = one
        between = range(left + 1, right)
        undecided = tuple(revision for revision in between if revision not in self.unbuildable)
        skipped = tuple(revision for revision in between if revision in self.unbuildable)
        notes = []
        if undecided:
            notes.append("no smaller range shows the change by itself")
        elif skipped:
            notes.append("the revisions in between could not be built")
        if failing := [case for case in cases if undecided and self._fails_within(one, case)]:
            notes.append(f"could not be measured at revisions in between: {', '.join(failing)}")
        unsure = tuple(case for case in cases if self._is_unsure(one, case, bool(undecided), case in doubted))
        if unsure:
            notes.append(f"runs that would tell more could not be trusted: {', '.join(unsure)}")
        if more := [case for case in cases if case in doubted]:
            notes.append(f"more of the change may lie elsewhere: {', '.join(more)}")
        evidence = {case: self.steps[one, case] for case in cases}
        return CulpritRange(left, right, evidence, skipped, undecided, "; ".join(notes), unsure)

    def _fails_within(self, one: Range, case: str) -> bool:
        failed = any(step.verdict == "failed" for step in self._within(one, case))
        return self.cases[case].verdict != "failed" and failed

    def _is_unsure(self, one: Range, case: str, undecided: bool, doubted: bool) -> bool:
        """Whether what a range leaves open, within or beside it, may be for want of trust in a step."""
        steps = self._within(self.whole, case) if doubted else self._within(one, case)
        return (undecided or doubted) and any(step.unsure for step in steps)

    def _within(self, one: Range, case: str) -> Iterator[Step]:
        """What was measured of a case within a range."""
        return (step for (part, name), step in self.steps.items() if name == case and _encloses(one, part))


def _by_width(one: Range) -> tuple[int, int]:
    """Orders ranges from the widest to the narrowest, and from left to right."""
    return one[0] - one[1], one[0]


def _encloses(one: Range, other: Range) -> bool:
    return one[0] <= other[0] and other[1] <= one[1]
