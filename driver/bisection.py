"""Find the revision that changed a case: halve the range between two revisions by measuring, as far as possible.

The search uses injected callables and no I/O, clock or randomness: the same answers lead to the same questions, so a
caller that keeps every answer can run the whole search again after a crash.  docs/explanation/bisection.md
says what a named culprit claims.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from opduel.driver.attribution import UNKNOWN, Change, Range
from opduel.records import FLAGGED, Verdict

# What an A/B of a range shows for a case: it has the change; it has not; it is unclear; the case fails.
Answer = Literal["found", "clear", "open", "fails"]
# The one-sided verdict with which a case may still have changed in the direction that is sought.
_MAY_BE: Mapping[Verdict, Verdict] = {"regressed": "not_better", "improved": "not_worse"}


@dataclass(frozen=True)
class Step:
    """The result of one A/B of two revisions for one case.

    ``change`` is ln(treatment / control) with its interval; None when not known. ``side`` is where a failed case
    failed: "treatment" when only the treatment does, and the machine isn't the reason. The step is ``unsure`` if its
    run could not be trusted, or was not completed.
    """

    verdict: Verdict
    change: Change | None = None
    side: Literal["control", "treatment", "both"] | None = None
    unsure: bool = False

    @property
    def finding(self) -> Verdict | None:
        """Return the verdict, as ``Comparison.finding``; None if nothing changed, or nothing is known."""
        if self.verdict == "failed":
            return "failed" if self.side == "treatment" else None
        return self.verdict if self.verdict in FLAGGED else None


# Runs an A/B of two revisions, control and treatment, on some cases: returns a step for each of them.
Measure = Callable[[int, int, Sequence[str]], Mapping[str, Step]]
Prepare = Callable[[int], bool]  # builds a revision; returns False when it can't be built
# Returns, for cases that only a part of the revisions in a range can have changed, the range that holds them all.
Narrow = Callable[[Range, Sequence[str]], Mapping[str, Range]]


@dataclass(frozen=True)
class CulpritRange:
    """The change of some cases lies in (``start``, ``end``], and no smaller range could be shown to contain it.

    ``cases`` has the evidence: the direct A/B of ``start`` and ``end``, which found the change in each case.
    Of the revisions in between, ``skipped`` could not be built, ``undecided`` gave no clear answer.  In the cases
    ``unsure`` a step that could not be trusted may hide a smaller range, or another culprit.
    """

    start: int
    end: int
    cases: Mapping[str, Step]
    skipped: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()
    note: str = ""
    unsure: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        """Tell whether the revision ``end`` alone made the change."""
        return self.end - self.start == 1


def bisect(
    revisions: int,
    cases: Mapping[str, Step],
    measure: Measure,
    prepare: Prepare,
    cached: Collection[int],
    thresholds: Mapping[str, float],
    start: int = 0,
    narrow: Narrow = lambda _, __: {},
) -> list[CulpritRange]:
    """Return the culprits between revision ``start`` and the one ``revisions`` further, from left to right.

    ``cases`` has the A/B of the two ends, by case id; its verdict is the one that is sought in that case: "regressed",
    "improved" or "failed" (on the treatment alone).  ``thresholds`` are shares.  Both ends must be built; ``cached``
    are revisions whose builds were there when the search began: a set rather than a callable, because a search that
    is run again after a crash must be given the same one.  Revisions outside of what ``narrow`` returns are not split
    at, if another one can be.

    No case is measured twice between the same two revisions, no revision prepared twice.  Cases are sorted by id.
    """
    search = _Search((start, start + revisions), cases, measure, prepare, narrow, thresholds, frozenset(cached))
    search.descend()
    return search.culprits()


@dataclass(frozen=True)
class _Suspicion:
    """One case that is suspected to have changed in the last range of ``path``.

    ``path`` begins with a range in which a direct A/B found the change; each further range lies in the one before and
    is only suspected.  ``change`` is that of the last range, as far as is known; at its revisions ``failing`` the case
    can't be measured.
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
    """A bisection in progress: all steps measured so far, and the suspicions that can't be narrowed down further."""

    full_range: Range
    cases: Mapping[str, Step]
    measure: Measure
    prepare: Prepare
    narrow: Narrow
    thresholds: Mapping[str, float]
    cached: Collection[int]
    buildable: dict[int, bool] = field(default_factory=dict)  # revisions that were prepared
    steps: dict[tuple[Range, str], Step] = field(default_factory=dict)
    final_suspicions: list[_Suspicion] = field(default_factory=list)

    def descend(self) -> None:
        """Halve all suspicions as far as possible.

        The widest range comes first, so that all cases that come to be suspected in a range are measured together.
        """
        full_range = self.full_range
        self.steps = {(full_range, case): step for case, step in self.cases.items()}
        suspicions = [_Suspicion(case, (full_range,), self._change(full_range, case)) for case in sorted(self.cases)]
        while suspicions:
            widest = min(suspicions, key=lambda suspicion: (_by_width(suspicion.range), sorted(suspicion.failing)))
            group = [
                suspicion
                for suspicion in suspicions
                if (suspicion.range, suspicion.failing) == (widest.range, widest.failing)
            ]
            suspicions = [suspicion for suspicion in suspicions if suspicion not in group]
            for inner, part in self._by_inner_range(widest.range, group):
                suspicions += self._halve(part, self._middle(widest.range, inner, widest.failing))

    def culprits(self) -> list[CulpritRange]:
        """Return the culprits, from left to right: of each suspicion's path the smallest range that an A/B confirms.

        A range that encloses another one of the same case is left out, because the inner one may explain it.
        """
        ranges_by_case = self._confirmed_ranges()
        cases_by_range: dict[Range, list[str]] = {}
        doubted = set()
        for case, ranges in ranges_by_case.items():
            for between in ranges:
                if any(inner != between and _encloses(between, inner) for inner in ranges):
                    doubted.add(case)
                else:
                    cases_by_range.setdefault(between, []).append(case)
        return [self._culprit(between, sorted(cases_by_range[between]), doubted) for between in sorted(cases_by_range)]

    def _confirmed_ranges(self) -> dict[str, set[Range]]:
        """Return by case, of each final suspicion's path, the smallest range whose direct A/B finds the change.

        A range that was only suspected is measured here; if that doesn't find the change, the range before it is tried.
        The first one of a path always has it.
        """
        confirmed: dict[str, set[Range]] = {}
        remaining = self.final_suspicions
        while remaining:
            narrowest = max((suspicion.range for suspicion in remaining), key=_by_width)
            group = [suspicion for suspicion in remaining if suspicion.range == narrowest]
            remaining = [suspicion for suspicion in remaining if suspicion.range != narrowest]
            answers = self._ask(narrowest, {suspicion.case for suspicion in group})
            for suspicion in group:
                if answers[suspicion.case] == "found":
                    confirmed.setdefault(suspicion.case, set()).add(narrowest)
                else:
                    remaining.append(replace(suspicion, path=suspicion.path[:-1]))
        return confirmed

    def _by_inner_range(
        self, between: Range, group: Sequence[_Suspicion]
    ) -> Iterator[tuple[Range, Sequence[_Suspicion]]]:
        """Yield the suspicions of one range by the smaller one that holds all that can have changed their cases."""
        can_be_narrowed = between[1] - between[0] > 2  # there is a choice of where to split
        inner_ranges = self.narrow(between, [suspicion.case for suspicion in group]) if can_be_narrowed else {}
        by_range: dict[Range, list[_Suspicion]] = {}
        for suspicion in group:
            by_range.setdefault(inner_ranges.get(suspicion.case, between), []).append(suspicion)
        yield from sorted(by_range.items(), key=lambda item: item[0])

    def _halve(self, group: Sequence[_Suspicion], middle: int | None) -> list[_Suspicion]:
        """Return the suspicions that follow from those of one range: measure its left half, the right one if needed."""
        start, end = group[0].range
        if middle is None:
            self.final_suspicions += group
            return []
        left_answers = self._ask((start, middle), {suspicion.case for suspicion in group})
        doubtful = {
            suspicion.case
            for suspicion in group
            if self._leaves_open(suspicion, (start, middle), left_answers[suspicion.case])
        }
        right_answers = self._ask((middle, end), doubtful) if doubtful else {}
        following = []
        for suspicion in group:
            if left_answers[suspicion.case] == "fails":
                following.append(replace(suspicion, failing=suspicion.failing | {middle}))
                continue
            parts = list(
                self._parts(suspicion, middle, (left_answers[suspicion.case], right_answers.get(suspicion.case)))
            )
            following += parts
            self.final_suspicions += [] if parts else [suspicion]
        return following

    def _leaves_open(self, suspicion: _Suspicion, left_half: Range, answer: Answer) -> bool:
        """Tell whether the right half must be measured, too, after this answer of the left one."""
        if answer == "found" and self.cases[suspicion.case].verdict != "failed":
            return suspicion.change.minus(self._change(left_half, suspicion.case)).high > self._bound(suspicion.case)
        return answer == "open"

    def _parts(self, suspicion: _Suspicion, middle: int, answers: tuple[Answer, Answer | None]) -> Iterator[_Suspicion]:
        """Return the suspicions of the halves to continue with.

        These are halves in which the change was found; a half that must contain the remainder, as the other one is
        clear; and an unclear half whose estimate is beyond the threshold.
        """
        start, end = suspicion.range
        halves: tuple[Range, Range] = ((start, middle), (middle, end))
        bound = self._bound(suspicion.case)
        for half, other, answer, others_answer in zip(halves, halves[::-1], answers, answers[::-1], strict=True):
            change = self._change(half, suspicion.case)
            failing = frozenset(point for point in suspicion.failing if half[0] < point < half[1])
            remainder = suspicion.change.minus(self._change(other, suspicion.case))
            if answer == "found":
                yield _Suspicion(suspicion.case, (half,), change, failing)
            elif answer != "clear" and (
                change.estimate > bound or (others_answer == "clear" and remainder.high > bound)
            ):
                yield _Suspicion(
                    suspicion.case, (*suspicion.path, half), remainder if change is UNKNOWN else change, failing
                )

    def _middle(self, between: Range, inner: Range, failing: Collection[int]) -> int | None:
        """Return the revision to split at: buildable, within the ``inner`` range or as near to it as there is one, and
        nearest to its middle; None if there is none.

        A cached revision in the middle half is preferred.  Where a case fails at revisions in between, the middle is
        that of the widest stretch without one; after 1 + log2(end - start) such revisions no more are tried.
        """
        if len(failing) > 1 + math.log2(between[1] - between[0]):
            return None
        points = {*inner, *(revision for revision in failing if inner[0] < revision < inner[1])}
        stretch_start, stretch_end = max(pairwise(sorted(points)), key=lambda stretch: stretch[1] - stretch[0])

        def preference(revision: int) -> tuple[int, bool, int, int]:
            outside = max(-1, inner[0] - revision, revision - inner[1])
            off = abs(2 * revision - stretch_start - stretch_end)  # twice the distance from the middle
            is_near = 2 * off <= stretch_end - stretch_start
            return outside, not (revision in self.cached and is_near), off, revision

        for revision in sorted(set(range(between[0] + 1, between[1])) - set(failing), key=preference):
            if revision not in self.buildable:
                self.buildable[revision] = self.prepare(revision)
            if self.buildable[revision]:
                return revision
        return None

    def _ask(self, between: Range, cases: Collection[str]) -> dict[str, Answer]:
        """Return the answers of a direct A/B by case; measure only what was not measured before."""
        new_cases = tuple(sorted(case for case in cases if (between, case) not in self.steps))
        if new_cases:
            step_by_case = self.measure(*between, new_cases)
            self.steps |= {(between, case): step_by_case[case] for case in new_cases}
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
        """Return what a direct A/B measured, positive in the direction that is sought; UNKNOWN without an interval."""
        step, total = self.steps.get((between, case)), self.cases[case].change
        if step is None or step.change is None or total is None:
            return UNKNOWN
        return step.change.reversed() if total.estimate < 0 else step.change

    def _bound(self, case: str) -> float:
        return math.log1p(self.thresholds[case])

    def _culprit(self, between: Range, cases: Sequence[str], doubted: Collection[str]) -> CulpritRange:
        start, end = between
        inside = range(start + 1, end)
        undecided = tuple(revision for revision in inside if self.buildable.get(revision, True))
        skipped = tuple(revision for revision in inside if not self.buildable.get(revision, True))
        notes = []
        if undecided:
            notes.append("no smaller range shows the change by itself")
        elif skipped:
            notes.append("the revisions in between could not be built")
        failed = {
            name for (part, name), step in self.steps.items() if step.verdict == "failed" and _encloses(between, part)
        }
        if failing := [case for case in cases if undecided and self.cases[case].verdict != "failed" and case in failed]:
            notes.append(f"could not be measured at revisions in between: {', '.join(failing)}")
        unsure = tuple(case for case in cases if self._is_unsure(between, case, bool(undecided), case in doubted))
        if unsure:
            notes.append(f"runs that would narrow it down could not be trusted: {', '.join(unsure)}")
        if more := [case for case in cases if case in doubted and self._leaves_more(between, case)]:
            notes.append(f"more of the change may lie elsewhere: {', '.join(more)}")
        evidence = {case: self.steps[between, case] for case in cases}
        return CulpritRange(start, end, evidence, skipped, undecided, "; ".join(notes), unsure)

    def _leaves_more(self, between: Range, case: str) -> bool:
        """Tell whether the change of a range is smaller than the whole by more than the threshold, or not known."""
        rest = self._change(self.full_range, case).minus(self._change(between, case))
        return rest.high == math.inf or rest.estimate > self._bound(case)

    def _is_unsure(self, between: Range, case: str, undecided: bool, doubted: bool) -> bool:
        """Tell whether an untrusted step may be why no smaller range, or no other culprit, was found."""
        outer = self.full_range if doubted else between
        steps = (step for (part, name), step in self.steps.items() if name == case and _encloses(outer, part))
        return (undecided or doubted) and any(step.unsure for step in steps)


def _by_width(between: Range) -> tuple[int, int]:
    """Return a key that sorts ranges from the widest to the narrowest, and from left to right."""
    return between[0] - between[1], between[0]


def _encloses(outer: Range, inner: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
