"""From a line of points to who is guilty: benchmark its ends, verify what was flagged, bisect what holds."""

import hashlib
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driver.bisection import Culprit, Step, bisect
from driver.journal import Journal
from driver.points import Point, UnbuildableError
from driver.runs import Runs
from records import Build, Comparison, Report, RunError, Verdict

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Guilty:
    """A culprit with the points that it is about. ``points`` holds the last good one, those between, the first bad."""

    culprit: Culprit
    points: tuple[Point, ...]
    evidence: tuple[str, ...]  # the ids of the runs that are the direct A/B


@dataclass(frozen=True)
class Outcome:
    """What came of one line. ``guilty`` is None when nothing was to be bisected (or not asked for).

    ``unfinished``: why the search for the guilty ended before its end; empty if it didn't.
    """

    benchmark: Report
    verification: Report | None = None
    confirmed: tuple[str, ...] = ()
    guilty: tuple[Guilty, ...] | None = None
    unfinished: str = ""


class Investigation:
    """One line of points, the control first: every step is answered from the journal if it was made before."""

    def __init__(self, points: Sequence[Point], runs: Runs, journal: Journal, settings: str) -> None:
        """``settings`` stands for all else that a run depends on: with other ones it is another run."""
        self._points = points
        self._runs = runs
        self._journal = journal
        self._builds: dict[int, Build] = {}
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        self.name = f"{points[0].name}..{points[-1].name}/{digest}"

    def investigate(self, sought: Sequence[Verdict]) -> Outcome:
        """Benchmark, and follow up. What can't be gone by is told, and forgotten: another time it is made anew.

        Raises:
            UnbuildableError: control or treatment can't be built.
        """
        outcome = self.follow_up(self.measure_ends(), sought)
        if why_untrusted(outcome):
            self._runs.forget(f"{self.name}/")
        return outcome

    def measure_ends(self) -> Report:
        """The benchmark of control and treatment, on all cases.

        Raises:
            UnbuildableError: one of them can't be built.
        """
        last = len(self._points) - 1
        return self._runs.make(f"{self.name}/benchmark", "benchmark", self._build(0), self._build(last))

    def follow_up(self, benchmark: Report, sought: Sequence[Verdict]) -> Outcome:
        """Verify what the benchmark flagged in one of the ways ``sought``, and bisect what holds."""
        suspects = [one.case for one in benchmark.comparisons if _flag(one) in sought]
        if not suspects or benchmark.run.get("broken"):
            return Outcome(benchmark)
        last = len(self._points) - 1
        log.info("flagged: %s; verifying on fresh processes", ", ".join(suspects))
        verification = self._runs.make(
            f"{self.name}/verify", "verify", self._build(0), self._build(last), sorted(suspects)
        )
        before = {one.case: one for one in benchmark.comparisons}
        again = {one.case: one for one in verification.comparisons}
        confirmed = [case for case in suspects if case in again and _flag(again[case]) == _flag(before[case])]
        if not confirmed:
            log.info("not confirmed: %s", ", ".join(suspects))
            return Outcome(benchmark, verification)
        found = Outcome(benchmark, verification, tuple(sorted(confirmed)))
        try:
            return replace(found, guilty=self._bisect({case: again[case] for case in confirmed}))
        except RunError as error:  # the same search goes on from there another time; what is confirmed stays so
            return replace(found, unfinished=f"the search for the culprit ended: {error}")

    def _bisect(self, confirmed: Mapping[str, Comparison]) -> tuple[Guilty, ...]:
        last = len(self._points) - 1
        log.info(
            "confirmed: %s; bisecting %d commits or releases for the one that caused it", ", ".join(confirmed), last
        )
        culprits = bisect(
            last,
            {case: _step(one) for case, one in confirmed.items()},
            self._compare,
            self._prepare,
            self._at_hand(),
            {case: one.threshold for case, one in confirmed.items()},
        )
        return tuple(
            Guilty(one, tuple(self._points[one.left : one.right + 1]), self._evidence(one)) for one in culprits
        )

    def _at_hand(self) -> list[int]:
        """The points that took no compiler when the search began: written down, so that a later start asks the same."""
        fact = f"{self.name}/at-hand"
        kept = self._journal.recall(fact)
        if kept is None or not all(word.isdecimal() for word in kept.split()):
            kept = " ".join(str(index) for index, point in enumerate(self._points) if point.is_cached())
            self._journal.remember(fact, kept)
        return [int(word) for word in kept.split()]

    def _compare(self, left: int, right: int, cases: Sequence[str]) -> dict[str, Step]:
        report = self._runs.make(
            self._step_name(left, right, cases), "regress", self._build(left), self._build(right), sorted(cases)
        )
        found = {one.case: _step(one) for one in report.comparisons}
        return {case: found.get(case, Step("inconclusive")) for case in cases}

    def _step_name(self, left: int, right: int, cases: Sequence[str]) -> str:
        digest = hashlib.sha256("\0".join(sorted(cases)).encode()).hexdigest()[:8]
        return f"{self.name}/regress/{self._points[left].name}..{self._points[right].name}/{digest}"

    def _evidence(self, culprit: Culprit) -> tuple[str, ...]:
        """The ids of the culprit's direct A/B; that is the verification when the culprit is the whole line."""
        if (culprit.left, culprit.right) == (0, len(self._points) - 1):
            return self._runs.ids(f"{self.name}/verify")
        names = f"{self._points[culprit.left].name}..{self._points[culprit.right].name}"
        return self._runs.ids(f"{self.name}/regress/{names}/")

    def _prepare(self, index: int) -> bool:
        """Build a point; that it is at fault itself is written down, so that a later start gets the same answer.

        Raises:
            RunError: the disk, the network or whatever else it may be keeps it from being built now.
        """
        fact = f"{self.name}/unbuildable/{self._points[index].name}"
        if self._journal.recall(fact) is not None:
            return False
        try:
            self._build(index)
        except UnbuildableError as error:
            if not error.lasting:
                raise
            log.warning("passed over: %s", error)
            self._journal.remember(fact, error.reason)
            self._journal.note("unbuildable", str(error))
            return False
        return True

    def _build(self, index: int) -> Build:
        if index not in self._builds:
            self._builds[index] = self._points[index].build()
        return self._builds[index]


def _flag(one: Comparison) -> Verdict | None:
    """What is the matter with the case, if it is the treatment's doing."""
    if one.verdict == "failed":
        return "failed" if one.is_broken_by_treatment else None
    return one.verdict if one.verdict in ("regressed", "improved") else None


def _step(one: Comparison) -> Step:
    low, high = one.ci or (None, None)
    return Step(
        one.verdict,
        None if one.ratio is None else math.log(one.ratio),
        None if low is None else math.log(low),
        None if high is None else math.log(high),
        one.failure.side if one.failure else None,
    )


def why_untrusted(outcome: Outcome) -> str:
    """Why what was measured is to be measured anew; empty if it can be gone by."""
    for report in (outcome.benchmark, outcome.verification):
        if report is not None and report.run.get("broken"):
            return f"not completed: {report.run['stopped']}"
        if report is not None and any(one.held_back for one in report.comparisons):
            return "verdicts were held back, for the run can't be trusted"
    return ""


def why_open(outcome: Outcome) -> str:
    """Why the line is to be investigated again another time; empty if it is settled."""
    return why_untrusted(outcome) or outcome.unfinished


def guilty_document(outcome: Outcome, name: str) -> dict[str, Any]:
    """The culprits as plain JSON data: see docs/bisection.md."""
    return {
        "line": name,
        "confirmed": list(outcome.confirmed),
        "culprits": [_culprit_document(one) for one in outcome.guilty or ()],
    }


def _culprit_document(one: Guilty) -> dict[str, Any]:
    return {
        "named": one.culprit.named,
        "good": one.points[0].name,
        "bad": [_point_document(point) for point in one.points[1:]],
        "cases": {
            case: {
                "verdict": step.verdict,
                "ratio": None if step.log_ratio is None else math.exp(step.log_ratio),
                "ci": None if step.low is None or step.high is None else [math.exp(step.low), math.exp(step.high)],
            }
            for case, step in one.culprit.cases.items()
        },
        "evidence": list(one.evidence),
        "note": one.culprit.note,
    }


def _point_document(point: Point) -> dict[str, Any]:
    commit = point.commit
    if commit is None:
        return {"release": point.name}
    return {"commit": commit.id, "commit_time": commit.time, "author": commit.author, "subject": commit.subject}
