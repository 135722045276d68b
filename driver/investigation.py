"""From a line of revisions to the culprits: benchmark its ends, verify what was flagged, bisect what is confirmed."""

import logging
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from opduel.driver.attribution import (
    Attribution,
    Kind,
    KnownChange,
    PlacedChange,
    Range,
    attribute,
    gaps,
    place_on_line,
    remaining_change,
)
from opduel.driver.bisection import CulpritRange, Measure, Narrow, Prepare, Step, bisect
from opduel.driver.build_turns import LAST, BuildTurns
from opduel.driver.journal import Journal
from opduel.driver.known_changes import KnownChanges
from opduel.driver.line_builds import LineBuilds
from opduel.driver.outcome import UNTRUSTED, Culprit, Outcome, merge_culprits
from opduel.driver.revisions import Revision
from opduel.driver.runs import TRIES, RunOrder, Runs
from opduel.driver.speculation import Question, searching_ahead
from opduel.driver.steps import known_step, step_of, steps_of
from opduel.driver.unreached import reachable_ranges
from opduel.records import Build, Comparison, Report, RunError, Verdict
from opduel.support.digests import data_digest
from opduel.support.text import listed

log = logging.getLogger(__name__)


class Investigation:
    """The investigation of one line; steps that were made before are answered from the journal."""

    def __init__(
        self,
        revisions: Sequence[Revision],
        runs: Runs,
        journal: Journal,
        settings: str,
        branch: str | None = None,
        turns: BuildTurns | None = None,
    ) -> None:
        """``revisions`` is the line, the control first. ``settings`` identifies all else that a run depends on.

        ``branch`` is the one that the runs are made for; ``turns`` orders builds that several threads make."""
        self._revisions = revisions
        self._runs = runs
        self._journal = journal
        self._branch = branch
        self._line: Range = 0, len(revisions) - 1
        self._unsure: set[str] = set()  # cases with a measurement of a part of the line that can't be trusted
        self._turns = turns or BuildTurns()
        self.name = f"{revisions[0].name}..{revisions[-1].name}/{data_digest(settings)[:8]}"
        self._builds = LineBuilds(revisions, journal, self._turns, self.name)
        self._known_changes = KnownChanges(journal, settings, self.name, [revision.name for revision in revisions])

    def investigate(self, sought: Sequence[Verdict]) -> Outcome:
        """Benchmark the line, and verify and bisect the verdicts ``sought``.

        An untrusted result is reported but not kept: the next pass repeats it. UnbuildableError: control or treatment
        can't be built.
        """
        order = self._order(f"{self.name}/benchmark", "benchmark", self._line, self.build_ends())
        benchmark = self._runs.make(replace(order, sought=frozenset(sought)))
        outcome = self._follow_up(benchmark, sought)
        if outcome.why_untrusted:
            self._runs.forget(f"{self.name}/")
        return outcome

    def build_ends(self) -> tuple[Build, Build]:
        """Build control and treatment. Raise UnbuildableError if one can't be built."""
        return self._builds.sides(self._line)

    def compare_ends(self, sought: Mapping[str, Verdict]) -> Mapping[str, Step]:
        """Measure the ends of the line on the cases of ``sought``, by case the verdict that is sought. RunError: the
        result can't be trusted; the next pass measures it again."""
        return self._compare(*self._line, sorted(sought), sought)

    def trace(self, steps: Mapping[str, Step], thresholds: Mapping[str, float]) -> tuple[Culprit, ...]:
        """Return the culprits of cases that the A/B of the ends found changed, as ``steps`` say. RunError: a step can't
        be measured yet; the next pass goes on."""
        return self._bisect(steps, thresholds, self._line)

    def begin_ahead(self, rank: int, measures: bool, given_up: threading.Event) -> bool:
        """Build control and treatment before it is this line's turn, and make the benchmark, too, if it ``measures``.

        Of several lines the one with the lowest ``rank`` goes first. Return whether the benchmark was made, so that
        ``investigate`` only has to report it. UnbuildableError: control or treatment can't be built; KeyboardInterrupt:
        the benchmark was given up.
        """
        builds = self._builds.sides_ahead(self._line, rank, given_up)
        if builds is None or not measures:
            return False
        order = self._order(f"{self.name}/benchmark", "benchmark", self._line, builds)
        return self._runs.measure_ahead(order, rank, given_up.is_set) is not None

    def _follow_up(self, benchmark: Report, sought: Sequence[Verdict]) -> Outcome:
        """Verify the benchmark's flagged cases, and bisect the confirmed ones.

        A case whose change known culprits account for is left out. If more changed than they account for, the parts of
        the line without a known change are measured directly, and bisected if the change is there.
        """
        if not sought or benchmark.run.aborted or benchmark.is_biased:
            return Outcome(benchmark)
        known_by_case = self._known_changes.at_beginning()
        flagged = {comparison.case: comparison for comparison in benchmark.comparisons if comparison.finding in sought}
        attributions: dict[str, Attribution] = {}
        for case, comparison in flagged.items():
            change, known_changes = step_of(comparison).change, known_by_case.get(case, ())
            attribution = attribute(comparison.verdict, change, known_changes, comparison.threshold)
            if attribution is not None:
                attributions[case] = attribution
        outcome = self._verify_and_bisect(benchmark, [case for case in flagged if case not in attributions])
        shared = [case for case, attribution in attributions.items() if attribution.has_share(flagged[case].threshold)]
        culprits = self._known_culprits({case: known_by_case[case] for case in shared})
        outcome = replace(outcome, known_culprits=culprits, attributions=attributions)
        more = {case: flagged[case] for case, attribution in attributions.items() if attribution.finding == "more"}
        if more and not outcome.why_open:
            outcome = self._search_remainder(outcome, more, known_by_case)
        if not outcome.why_open:
            self._known_changes.record(self._new_changes(outcome, known_by_case))
        return outcome

    def _new_changes(
        self, outcome: Outcome, known_by_case: Mapping[str, Sequence[PlacedChange]]
    ) -> dict[str, list[KnownChange]]:
        """Return the changes to record for later lines, by case: culprits, and changes without a culprit.

        A case is left out if a step that mattered could not be trusted: later lines search for it again.
        """
        changes_by_case: dict[str, list[KnownChange]] = {}
        unsure = self._unsure.union(*(culprit.range.unsure for culprit in outcome.culprits or ()))
        for culprit in outcome.culprits or ():
            good, bad = culprit.revisions[0].name, culprit.revisions[-1].name
            for case in culprit.range.cases.keys() - unsure:
                step = culprit.range.cases[case]
                kind: Kind = step.verdict  # type: ignore[assignment]
                change = KnownChange(good, bad, kind, step.change, self.name, culprit.evidence)
                changes_by_case.setdefault(case, []).append(change)
        names = [revision.name for revision in self._revisions]
        reports = [report for report in (outcome.benchmark, outcome.verification) if report is not None]
        latest = {
            comparison.case: comparison
            for report in reports
            for comparison in report.comparisons
            if not report.may_be_off(comparison)
        }
        for case in sorted(({*known_by_case, *changes_by_case} & latest.keys()) - unsure):
            if latest[case].held_back:  # there is no verdict, so its figures don't show what remains
                continue
            new = changes_by_case.setdefault(case, [])
            comparison, changes = latest[case], (*known_by_case.get(case, ()), *place_on_line(new, names))
            attribution = outcome.attributions.get(case)
            in_vain = attribution is not None and attribution.finding == "more" and not new
            later, threshold = step_of(comparison).change, comparison.threshold
            remainder = remaining_change(comparison.verdict, later, changes, threshold, in_vain)
            if remainder is not None and remainder[2] < self._line[1]:
                remainder_kind, size, end = remainder
                new.append(KnownChange(names[end], names[-1], remainder_kind, size, self.name))
        return {case: new for case, new in changes_by_case.items() if new}

    def _known_culprits(self, known_by_case: Mapping[str, Sequence[PlacedChange]]) -> tuple[Culprit, ...]:
        """Return the known culprits of these cases, from left to right."""
        steps: dict[tuple[Range, tuple[str, ...]], dict[str, Step]] = {}
        for case in sorted(known_by_case):
            for placed_change in known_by_case[case]:
                change = placed_change.known_change
                if change.is_culprit:
                    steps.setdefault((placed_change.range, change.evidence), {})[case] = known_step(change)
        return tuple(
            Culprit(CulpritRange(*between, cases), tuple(self._revisions[between[0] : between[1] + 1]), evidence)
            for (between, evidence), cases in sorted(steps.items(), key=lambda item: item[0])
        )

    def _search_remainder(
        self, outcome: Outcome, more: Mapping[str, Comparison], known_by_case: Mapping[str, Sequence[PlacedChange]]
    ) -> Outcome:
        """Measure the parts of the line in which no change of these cases is known, and bisect those that have one."""
        log.info("known culprits do not account for all of: %s; measuring the rest", ", ".join(more))
        cases: dict[Range, list[str]] = {}
        for case in sorted(more):
            for gap in gaps(self._line[1], [placed_change.range for placed_change in known_by_case[case]]):
                cases.setdefault(gap, []).append(case)
        confirmed = set(outcome.confirmed)
        culprits: list[Culprit] = []
        try:
            for gap in sorted(cases):
                steps = self._compare(*gap, cases[gap], {case: more[case].verdict for case in cases[gap]})
                self._leave_out({case for case, step in steps.items() if step.unsure})
                changed = {
                    case: step for case, step in steps.items() if not step.unsure and step.finding == more[case].finding
                }
                confirmed |= changed.keys()
                culprits += self._bisect(changed, {case: more[case].threshold for case in changed}, gap)
        except RunError as error:
            return replace(outcome, confirmed=tuple(sorted(confirmed))).cut_short(error)
        if confirmed == set(outcome.confirmed):
            return outcome
        culprits = [*(outcome.culprits or ()), *culprits]
        return replace(outcome, confirmed=tuple(sorted(confirmed)), culprits=merge_culprits(culprits))

    def _leave_out(self, unsure: Set[str]) -> None:
        """Leave cases with an untrusted measurement out of the search, with a warning; later lines search for them."""
        if unsure:
            log.warning("%s: %s", ", ".join(sorted(unsure)), UNTRUSTED)
            self._unsure |= unsure

    def _verify_and_bisect(self, benchmark: Report, suspects: Sequence[str]) -> Outcome:
        if not suspects:
            return Outcome(benchmark)
        log.info("flagged: %s; verifying on fresh processes", listed(suspects))
        self._forget_outdated_verification(suspects)
        verification = self._make(f"{self.name}/verify", "verify", self._line, sorted(suspects), replicates=benchmark)
        if verification.is_biased:
            return Outcome(benchmark, verification)
        verified = {comparison.case: comparison for comparison in verification.comparisons}
        replication = self._runs.harness.replicate(benchmark, verification)
        replicated = {comparison.case: comparison for comparison in replication.comparisons}
        confirmed = [case for case in suspects if case in verified and replicated[case].finding is not None]
        if not confirmed:
            log.info("not confirmed: %s", listed(suspects))
            return Outcome(benchmark, verification)
        outcome = Outcome(benchmark, verification, tuple(sorted(confirmed)))
        untrusted = {
            case for case in confirmed if verified[case].verdict != "failed" and verification.may_be_off(verified[case])
        }
        self._leave_out(untrusted)
        steps = {case: step_of(verified[case]) for case in confirmed if case not in untrusted}
        thresholds = {case: verified[case].threshold for case in steps}
        try:
            return replace(outcome, culprits=self._bisect(steps, thresholds, self._line))
        except RunError as error:  # the next pass continues this search; confirmed cases stay confirmed
            return outcome.cut_short(error)

    def _forget_outdated_verification(self, suspects: Sequence[str]) -> None:
        """Forget a verification without some of the suspects: the benchmark was measured on since, and found more."""
        for report in self._runs.reports(f"{self.name}/verify"):
            if not {comparison.case for comparison in report.comparisons}.issuperset(suspects):
                self._runs.forget(f"{self.name}/verify")
                return

    def _bisect(
        self, steps: Mapping[str, Step], thresholds: Mapping[str, float], between: Range
    ) -> tuple[Culprit, ...]:
        """Return the culprits in a part of the line, whose direct A/B found the cases of ``steps`` changed."""
        if not steps:
            return ()
        start, end = between
        among = f"; looking for the culprit among {end - start} revisions" if end - start > 1 else ""
        log.info("confirmed: %s%s", listed([*steps]), among)
        cached = self._builds.cached()

        def search(
            measure: Measure, prepare: Prepare = self._builds.is_buildable, narrow: Narrow = lambda _, __: {}
        ) -> list[CulpritRange]:
            return bisect(end - start, steps, measure, prepare, cached, thresholds, start, narrow)

        sought = {case: step.verdict for case, step in steps.items()}
        compare, compare_ahead = partial(self._compare, sought=sought), partial(self._measure_ahead, sought)
        hosts, stop = self._runs.harness.hosts, self._turns.stop_given_up
        with searching_ahead(search, steps, hosts, compare, compare_ahead, stop) as measure:
            ranges = search(measure, self._builds.prepare, partial(self._narrow, between))
        self._runs.forget_begun(f"{self.name}/regress/")  # what was measured ahead in vain
        return tuple(map(self._culprit_of, ranges))

    def _narrow(self, outermost: Range, between: Range, cases: Sequence[str]) -> Mapping[str, Range]:
        """Return by case the part of a range whose revisions can have changed it, where it is known to be smaller; of
        the ``outermost`` range of a search it is logged."""
        builds = self._builds.sides(between)
        neighbours = self._revisions[between[0] + 1], self._revisions[between[1] - 1]
        if all(revision.difference(build) is None for revision, build in zip(neighbours, builds, strict=True)):
            return {}  # releases, or commits that have to be compiled
        reaches = self._runs.harness.reaches(self._order("", "regress", between, builds, sorted(cases)))
        if reaches is None:
            return {}
        inner_ranges = reachable_ranges(self._revisions, between, builds, reaches)
        total = between[1] - between[0]
        if inner_ranges and between == outermost:
            count = min(total - (end - start) for start, end in inner_ranges.values())
            log.info("left out of the search: at least %d of %d commits, which the cases don't run", count, total)
        return inner_ranges

    def _measure_ahead(
        self, sought: Mapping[str, Verdict], question: Question, given_up: threading.Event
    ) -> Mapping[str, Step] | None:
        """Measure a step that the search will probably need; return None if that can't be done."""
        between, cases = question
        builds = self._builds.sides_ahead(between, LAST, given_up)
        if builds is None or given_up.is_set():
            return None
        order = self._order(self._step_name(*between, cases), "regress", between, builds, sorted(cases))
        report = self._runs.measure_ahead(order, LAST, given_up.is_set)
        return None if report is None else steps_of(report, cases, sought)

    def _culprit_of(self, between: CulpritRange) -> Culprit:
        """Return the culprit in a range, with the evidence and causes of its direct A/B."""
        reports = self._evidence(between)
        causes = {
            comparison.case: comparison.cause
            for report in reports
            for comparison in report.comparisons
            if comparison.cause is not None
        }
        ids = tuple(str(report.run.id) for report in reports)
        return Culprit(between, tuple(self._revisions[between.start : between.end + 1]), ids, causes, reports=reports)

    def _compare(self, start: int, end: int, cases: Sequence[str], sought: Mapping[str, Verdict]) -> dict[str, Step]:
        """Measure one step of a search for the verdicts ``sought``; return it by case. RunError: the step can't be
        trusted in any case of the search, which therefore ends; the next pass makes it again. After ``TRIES`` such
        passes the search takes all steps as they are."""
        name = self._step_name(start, end, cases)
        first_bad = {case: sought[case] for case in cases} if end - start == 1 else {}
        report = self._make(name, "regress", (start, end), sorted(cases), first_bad=first_bad)
        steps = steps_of(report, cases, sought)
        if not all(step.unsure for step in steps.values()) or len(steps) < len(sought):
            return steps
        fact = f"{self.name}/passes/{data_digest(sorted(sought))[:8]}"
        earlier_passes = self._journal.get_fact(fact) or ""
        passes = 1 + (int(earlier_passes) if earlier_passes.isdecimal() else 0)
        if passes > TRIES:
            return steps
        self._runs.forget(name)
        self._journal.set_fact(fact, str(passes))
        why = f"not completed: {report.run.stop_reason}" if report.run.aborted else UNTRUSTED
        sides = " against ".join(self._revisions[index].name for index in (end, start))
        raise RunError(f"{sides}: {why}; this is measured again when the search goes on")

    def _make(
        self, name: str, run_type: str, between: Range, cases: Sequence[str] | None = None, **more: Any
    ) -> Report:
        """Make the run; ``more``: further fields of its order."""
        order = self._order(name, run_type, between, self._builds.sides(between), cases)
        return self._runs.make(replace(order, **more))

    def _order(
        self,
        name: str,
        run_type: str,
        between: Range,
        builds: tuple[Build, Build],
        cases: Sequence[str] | None = None,
    ) -> RunOrder:
        rounds = self._journal.rounds_of(name)
        order = RunOrder(name, run_type, *builds, rounds, cases, self._branch)
        return replace(order, explains=self._explains(run_type, between))

    def _explains(self, run_type: str, between: Range) -> bool | None:
        """Tell whether a run looks for causes, which takes as long as a measurement: where somebody waits for the
        search, only in a range that can't be split, whose changes are the culprit's. None: as usual."""
        if not self._runs.is_awaited or run_type == "benchmark":
            return None
        return not any(map(self._builds.is_buildable, range(between[0] + 1, between[1])))

    def _step_name(self, start: int, end: int, cases: Sequence[str]) -> str:
        sides = f"{self._revisions[start].name}..{self._revisions[end].name}"
        return f"{self.name}/regress/{sides}/{data_digest(sorted(cases))[:8]}"

    def _evidence(self, between: CulpritRange) -> tuple[Report, ...]:
        """Return the reports of a range's direct A/B: those of the verification, if there is one, of the whole line."""
        if (between.start, between.end) == self._line and (reports := self._runs.reports(f"{self.name}/verify")):
            return reports
        names = f"{self._revisions[between.start].name}..{self._revisions[between.end].name}"
        return self._runs.reports(f"{self.name}/regress/{names}/")
