"""From a line of revisions to the culprits: benchmark its ends, verify what was flagged, bisect what is confirmed."""

import hashlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from opduel.driver.attribution import (
    Attribution,
    Kind,
    Known,
    Placed,
    Range,
    attribute,
    gaps,
    left_over,
    placed,
)
from opduel.driver.bisection import CulpritRange, Measure, Prepare, Step, bisect
from opduel.driver.build_turns import LAST, BuildTurns
from opduel.driver.culprit_code import ChangedCode
from opduel.driver.journal import Journal
from opduel.driver.known_changes import KnownChanges
from opduel.driver.revisions import Revision, UnbuildableError
from opduel.driver.runs import TRIES, NotSettled, Runs, open_words
from opduel.driver.speculation import Question, searching_ahead
from opduel.driver.steps import known_step, step_of, steps_of
from opduel.records import FLAGGED, Build, Cause, Comparison, Report, RunError, Verdict

UNTRUSTED = "the run can't be trusted, because the host was disturbed"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Culprit:
    """A culprit with the points that it is about. ``revisions`` holds the last good one, those between, the first
    bad. ``causes``: why its cases changed, as far as the runs that are its evidence looked for that. ``code``: what it
    changed of what causes name, where it is one commit.
    """

    culprit: CulpritRange
    revisions: tuple[Revision, ...]
    evidence: tuple[str, ...]  # the ids of the runs that are the direct A/B
    causes: Mapping[str, Cause] = field(default_factory=dict)
    code: ChangedCode | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of one line. ``culprits`` is None when nothing was to be bisected (or not asked for).

    ``known``: the culprits of earlier investigations on the line, with the cases of ``attributions`` that they still
    account for, in part or as a whole; their figures are those that were measured then. ``unfinished``: why the search
    for the culprit ended before its end; empty if it didn't. ``goes_on``: because the time budget of one of its steps
    was too short, so that the next pass goes on with it.
    """

    benchmark: Report
    verification: Report | None = None
    confirmed: tuple[str, ...] = ()
    culprits: tuple[Culprit, ...] | None = None
    unfinished: str = ""
    known: tuple[Culprit, ...] = ()
    attributions: Mapping[str, Attribution] = field(default_factory=dict)
    goes_on: bool = False


class Investigation:
    """One line of points, the control first: every step is answered from the journal if it was made before."""

    def __init__(
        self,
        revisions: Sequence[Revision],
        runs: Runs,
        journal: Journal,
        settings: str,
        branch: str | None = None,
        turns: BuildTurns | None = None,
    ) -> None:
        """``settings`` stands for all else that a run depends on: with other ones it is another run.

        ``branch``: the one that the runs are made for. ``turns``: in which builds are made that others want, too."""
        self._revisions = revisions
        self._runs = runs
        self._journal = journal
        self._branch = branch
        self._builds: dict[int, Build] = {}
        self._unsure: set[str] = set()  # cases of which a part of the line was measured, but can't be trusted
        self._turns = turns or BuildTurns()
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        self.name = f"{revisions[0].name}..{revisions[-1].name}/{digest}"
        self._known = KnownChanges(journal, settings, self.name, [one.name for one in revisions])

    def investigate(self, sought: Sequence[Verdict]) -> Outcome:
        """Benchmark, and follow up. An untrusted result is reported but not kept: the next pass repeats it.

        Raises:
            UnbuildableError: control or treatment can't be built.
        """
        benchmark = self._make(f"{self.name}/benchmark", "benchmark", (0, len(self._revisions) - 1))
        outcome = self._follow_up(benchmark, sought)
        if why_untrusted(outcome):
            self._runs.forget(f"{self.name}/")
        return outcome

    def ends(self) -> tuple[Build, Build]:
        """Control and treatment. UnbuildableError: one can't be built."""
        return self._build(0), self._build(len(self._revisions) - 1)

    def begin_ahead(self, rank: int, measures: bool, given_up: threading.Event) -> bool:
        """Make control and treatment before it is this line's turn, and, if it ``measures``, the benchmark, which its
        turn then only reports. What has the lower ``rank`` goes first. False: it was given up, or is not measured
        ahead. Raises as ``investigate``, and KeyboardInterrupt: it was given up.
        """
        builds = self._build_ahead((0, len(self._revisions) - 1), rank, given_up)
        if builds is None or not measures:
            return False
        control, treatment = builds
        log.info("measuring ahead: %s against %s", treatment.requested, control.requested)
        order = (f"{self.name}/benchmark", "benchmark", control, treatment, None, self._branch)
        return self._runs.measure_ahead(*order, rank, given_up.is_set) is not None

    def _follow_up(self, benchmark: Report, sought: Sequence[Verdict]) -> Outcome:
        """Verify what the benchmark flagged in one of the ways ``sought``, and bisect what holds.

        Of what known culprits account for neither is made; where more changed than they did, the parts of the line
        that they leave over are measured directly, and bisected if the change is there.
        """
        if not sought or benchmark.run.aborted or benchmark.is_biased:
            return Outcome(benchmark)
        known = self._known.at_beginning()
        flagged = {one.case: one for one in benchmark.comparisons if one.finding in sought}
        explained = {
            case: found
            for case, one in flagged.items()
            if (found := attribute(one.verdict, step_of(one).change, known.get(case, ()), one.threshold)) is not None
        }
        outcome = self._verify_and_bisect(benchmark, [case for case in flagged if case not in explained])
        share = [case for case, one in explained.items() if one.has_share(flagged[case].threshold)]
        culprits = self._culprits_of({case: known[case] for case in share})
        outcome = replace(outcome, known=culprits, attributions=explained)
        more = {case: flagged[case] for case, one in explained.items() if one.finding == "more"}
        if more and not why_open(outcome):
            outcome = self._search_what_is_left(outcome, more, known)
        if not why_open(outcome):
            self._known.record(self._found(outcome, known))
        return outcome

    def _found(self, outcome: Outcome, known: Mapping[str, Sequence[Placed]]) -> dict[str, list[Known]]:
        """By case, the changes that are to be known to later lines: culprits, and what is left over beside those.

        Nothing of a case of which a step could not be trusted where it mattered: later lines search for it again.
        """
        found: dict[str, list[Known]] = {}
        unsure = self._unsure.union(*(traced.culprit.unsure for traced in outcome.culprits or ()))
        for traced in outcome.culprits or ():
            good, bad = traced.revisions[0].name, traced.revisions[-1].name
            for case in traced.culprit.cases.keys() - unsure:
                step = traced.culprit.cases[case]
                kind: Kind = step.verdict  # type: ignore[assignment]
                found.setdefault(case, []).append(Known(good, bad, kind, step.change, self.name, traced.evidence))
        names = [revision.name for revision in self._revisions]
        reports = [report for report in (outcome.benchmark, outcome.verification) if report is not None]
        latest = {one.case: one for report in reports for one in report.comparisons if not report.may_be_off(one)}
        for case in sorted(({*known, *found} & latest.keys()) - unsure):
            if latest[case].held_back:  # no verdict, so that its figures tell nothing of what is left
                continue
            new = found.setdefault(case, [])
            one, ours = latest[case], (*known.get(case, ()), *placed(new, names))
            attribution = outcome.attributions.get(case)
            in_vain = attribution is not None and attribution.finding == "more" and not new
            rest = left_over(one.verdict, step_of(one).change, ours, one.threshold, in_vain)
            if rest is not None and rest[2] < len(names) - 1:
                new.append(Known(names[rest[2]], names[-1], rest[0], rest[1], self.name))
        return {case: new for case, new in found.items() if new}

    def _culprits_of(self, known: Mapping[str, Sequence[Placed]]) -> tuple[Culprit, ...]:
        """The known culprits of these cases, from left to right."""
        steps: dict[tuple[Range, tuple[str, ...]], dict[str, Step]] = {}
        for case in sorted(known):
            for one in known[case]:
                if one.known.is_culprit:
                    steps.setdefault((one.range, one.known.evidence), {})[case] = known_step(one.known)
        return tuple(
            Culprit(CulpritRange(*between, cases), tuple(self._revisions[between[0] : between[1] + 1]), evidence)
            for (between, evidence), cases in sorted(steps.items(), key=lambda item: item[0])
        )

    def _search_what_is_left(
        self, outcome: Outcome, more: Mapping[str, Comparison], known: Mapping[str, Sequence[Placed]]
    ) -> Outcome:
        """Measure the parts of the line in which no change of these cases is known, and bisect those that have one."""
        log.info("known culprits do not account for all of: %s; measuring the rest", ", ".join(more))
        last = len(self._revisions) - 1
        cases: dict[Range, list[str]] = {}
        for case in sorted(more):
            for gap in gaps(last, [one.range for one in known[case]]):
                cases.setdefault(gap, []).append(case)
        found: dict[str, None] = {}
        culprits: list[Culprit] = []
        try:
            for gap in sorted(cases):
                steps = self._compare(*gap, cases[gap], {case: more[case].verdict for case in cases[gap]})
                self._leave_out({case for case, step in steps.items() if step.unsure})
                trusted = {case: step for case, step in steps.items() if not step.unsure}
                changed = {case: step for case, step in trusted.items() if step.finding == more[case].finding}
                found |= dict.fromkeys(changed)
                culprits += self._bisect(changed, {case: more[case].threshold for case in changed}, gap)
        except RunError as error:
            confirmed = tuple(sorted({*outcome.confirmed, *found}))
            return _cut_short(replace(outcome, confirmed=confirmed), error)
        if not found:
            return outcome
        everyone = tuple(sorted({*outcome.confirmed, *found}))
        return replace(outcome, confirmed=everyone, culprits=_merged([*(outcome.culprits or ()), *culprits]))

    def _leave_out(self, unsure: Set[str]) -> None:
        """Say of which cases the search can't rely on what was measured; later lines search for them again."""
        if unsure:
            log.warning("%s: %s", ", ".join(sorted(unsure)), UNTRUSTED)
            self._unsure |= unsure

    def _verify_and_bisect(self, benchmark: Report, suspects: Sequence[str]) -> Outcome:
        if not suspects:
            return Outcome(benchmark)
        last = len(self._revisions) - 1
        log.info("flagged: %s; verifying on fresh processes", ", ".join(suspects))
        verification = self._make(f"{self.name}/verify", "verify", (0, last), sorted(suspects), benchmark)
        if verification.is_biased:
            return Outcome(benchmark, verification)
        again = {one.case: one for one in verification.comparisons}
        replicated = {one.case: one for one in self._runs.replicate(benchmark, verification).comparisons}
        confirmed = [case for case in suspects if case in again and replicated[case].finding is not None]
        if not confirmed:
            log.info("not confirmed: %s", ", ".join(suspects))
            return Outcome(benchmark, verification)
        found = Outcome(benchmark, verification, tuple(sorted(confirmed)))
        off = {case for case in confirmed if again[case].verdict != "failed" and verification.may_be_off(again[case])}
        self._leave_out(off)
        steps = {case: step_of(again[case]) for case in confirmed if case not in off}
        thresholds = {case: again[case].threshold for case in steps}
        try:
            return replace(found, culprits=self._bisect(steps, thresholds, (0, last)))
        except RunError as error:  # the same search goes on from there another time; what is confirmed stays so
            return _cut_short(found, error)

    def _bisect(
        self, steps: Mapping[str, Step], thresholds: Mapping[str, float], between: Range
    ) -> tuple[Culprit, ...]:
        """The culprits in a part of the line that a direct A/B found changed in the cases of ``steps``."""
        if not steps:
            return ()
        left, right = between
        log.info("confirmed: %s; looking for the commit that caused it among %d", ", ".join(steps), right - left)
        at_hand = self._at_hand()

        def search(measure: Measure, prepare: Prepare = self._is_buildable) -> list[CulpritRange]:
            return bisect(right - left, steps, measure, prepare, at_hand, thresholds, first=left)

        sought = {case: step.verdict for case, step in steps.items()}
        ahead = partial(self._measure_ahead, sought), self._turns.stop_given_up
        with searching_ahead(search, steps, self._runs.hosts, partial(self._compare, sought=sought), *ahead) as measure:
            culprits = search(measure, self._prepare)
        self._runs.forget_begun(f"{self.name}/regress/")  # what was measured ahead in vain
        return tuple(map(self._traced, culprits))

    def _measure_ahead(
        self, sought: Mapping[str, Verdict], question: Question, given_up: threading.Event
    ) -> Mapping[str, Step] | None:
        """Measure a step that the search will probably ask for; None if that can't be done."""
        between, cases = question
        builds = self._build_ahead(between, LAST, given_up)
        if builds is None or given_up.is_set():
            return None
        control, treatment = builds
        name = self._step_name(*between, cases)
        log.info("measuring ahead: %s against %s", treatment.requested, control.requested)
        order = (name, "regress", control, treatment, sorted(cases), self._branch)
        report = self._runs.measure_ahead(*order, LAST, given_up.is_set)
        return None if report is None else steps_of(report, cases, sought)

    def _is_buildable(self, index: int) -> bool:
        """Whether a point can be built, as far as is known."""
        return self._journal.get_fact(self._unbuildable(index)) is None

    def _traced(self, culprit: CulpritRange) -> Culprit:
        """The culprit with what its direct A/B says of it."""
        reports = self._evidence(culprit)
        causes = {one.case: one.cause for report in reports for one in report.comparisons if one.cause is not None}
        ids = tuple(str(report.run.id) for report in reports)
        return Culprit(culprit, tuple(self._revisions[culprit.left : culprit.right + 1]), ids, causes)

    def _at_hand(self) -> list[int]:
        """The points that took no compiler when the search began: written down, so that a later start asks the same."""
        fact = f"{self.name}/at-hand"
        kept = self._journal.get_fact(fact)
        if kept is None or not all(word.isdecimal() for word in kept.split()):
            kept = " ".join(str(index) for index, revision in enumerate(self._revisions) if revision.is_cached())
            self._journal.set_fact(fact, kept)
        return [int(word) for word in kept.split()]

    def _compare(self, left: int, right: int, cases: Sequence[str], sought: Mapping[str, Verdict]) -> dict[str, Step]:
        """One step of a search for what is ``sought``, by case.

        Raises:
            RunError: it can't be trusted in any case of the search, so that this ends for now. The step is let go, and
                made again when it goes on. After ``TRIES`` such passes the search takes all steps as they are.
        """
        name = self._step_name(left, right, cases)
        report = self._make(name, "regress", (left, right), sorted(cases))
        steps = steps_of(report, cases, sought)
        if not all(step.unsure for step in steps.values()) or len(steps) < len(sought):
            return steps
        fact = f"{self.name}/passes/{_digest(sought)}"
        kept = self._journal.get_fact(fact) or ""
        passes = 1 + (int(kept) if kept.isdecimal() else 0)
        if passes > TRIES:
            return steps
        self._runs.forget(name)
        self._journal.set_fact(fact, str(passes))
        why = f"not completed: {report.run.stop_reason}" if report.run.aborted else UNTRUSTED
        ends = " against ".join(self._revisions[index].name for index in (right, left))
        raise RunError(f"{ends}: {why}; this is measured again when the search goes on")

    def _make(
        self,
        name: str,
        run_type: str,
        between: Range,
        cases: Sequence[str] | None = None,
        replicates: Report | None = None,
    ) -> Report:
        control, treatment = (self._build(revision) for revision in between)
        return self._runs.make(name, run_type, control, treatment, cases, self._branch, replicates)

    def _step_name(self, left: int, right: int, cases: Sequence[str]) -> str:
        return f"{self.name}/regress/{self._revisions[left].name}..{self._revisions[right].name}/{_digest(cases)}"

    def _evidence(self, culprit: CulpritRange) -> tuple[Report, ...]:
        """The reports of the culprit's direct A/B; that is the verification when the culprit is the whole line."""
        if (culprit.left, culprit.right) == (0, len(self._revisions) - 1):
            return self._runs.reports(f"{self.name}/verify")
        names = f"{self._revisions[culprit.left].name}..{self._revisions[culprit.right].name}"
        return self._runs.reports(f"{self.name}/regress/{names}/")

    def _prepare(self, index: int) -> bool:
        """Build a point. One that is at fault itself is written down for later starts; RunError: another failure."""
        if not self._is_buildable(index):
            return False
        try:
            self._build(index)
        except UnbuildableError as error:
            if not error.lasting:
                raise
            log.warning("passed over: %s", error)
            self._journal.set_fact(self._unbuildable(index), error.reason)
            self._journal.note("unbuildable", str(error))
            return False
        return True

    def _unbuildable(self, index: int) -> str:
        """The fact that a point can't be built."""
        return f"{self.name}/unbuildable/{self._revisions[index].name}"

    def _build(self, index: int) -> Build:
        if index not in self._builds:
            self._builds[index] = self._turns.now(self._revisions[index].build)
        return self._builds[index]

    def _build_ahead(self, between: Range, rank: int, given_up: threading.Event) -> tuple[Build, Build] | None:
        """Build two points in one turn, so that the commit that is next is not overtaken. None: given up before."""

        def build(index: int) -> Build:
            return self._builds.get(index) or self._revisions[index].build()

        return self._turns.ahead(lambda: (build(between[0]), build(between[1])), rank, given_up)


def _digest(cases: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(sorted(cases)).encode()).hexdigest()[:8]


def _cut_short(outcome: Outcome, error: RunError) -> Outcome:
    """The outcome of a search that ended early; it goes on at the next pass if only a step's time budget was short."""
    short = isinstance(error, NotSettled)
    why = open_words(error.report) if isinstance(error, NotSettled) else str(error)
    return replace(outcome, unfinished=f"the search for the culprit ended: {why}", goes_on=short)


def _merged(culprits: Sequence[Culprit]) -> tuple[Culprit, ...]:
    """From left to right, those of the same points as one."""
    found: dict[Range, Culprit] = {}
    for one in culprits:
        between = one.culprit.left, one.culprit.right
        if (other := found.get(between)) is not None:
            culprit = replace(other.culprit, cases={**other.culprit.cases, **one.culprit.cases})
            evidence = tuple(dict.fromkeys((*other.evidence, *one.evidence)))
            one = replace(other, culprit=culprit, evidence=evidence, causes={**other.causes, **one.causes})
        found[between] = one
    return tuple(found[between] for between in sorted(found))


def why_untrusted(outcome: Outcome) -> str:
    """Why the measurement must be repeated; empty if it can be trusted."""
    for report in (outcome.benchmark, outcome.verification):
        if report is not None and report.run.aborted:
            return f"not completed: {report.run.stop_reason}"
        if report is not None and (report.withholds(*FLAGGED) or report.is_biased):
            return UNTRUSTED
    return ""


def why_open(outcome: Outcome) -> str:
    """Why the line is to be investigated again another time; empty if it is settled."""
    return why_untrusted(outcome) or outcome.unfinished
