"""What came of the investigation of a line: reports, culprits, and whether it is to be repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opduel.driver.attribution import Attribution, Range
from opduel.driver.bisection import CulpritRange
from opduel.driver.culprit_code import ChangedCode
from opduel.driver.revisions import Revision
from opduel.driver.runs import NotSettled, describe_open
from opduel.records import FLAGGED, Cause, Report, RunError

UNTRUSTED = "the run can't be trusted, because the host was disturbed"


@dataclass(frozen=True)
class Culprit:
    """A culprit with its revisions: the last good one, those in between, the first bad one.

    ``causes`` says why its cases changed, as far as the runs that are its evidence looked for causes; ``code`` what it
    changed of the functions that causes name, where it is one commit.
    """

    range: CulpritRange
    revisions: tuple[Revision, ...]
    evidence: tuple[str, ...]  # the ids of the runs that are the direct A/B
    causes: Mapping[str, Cause] = field(default_factory=dict)
    code: ChangedCode | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of one line. ``culprits`` is None when there was nothing to bisect, or that was not asked for.

    ``known_culprits`` are those of earlier investigations on the line, with the cases of ``attributions`` that they
    still account for, at least in part, and the figures that were measured then. ``unfinished`` says why the search
    for the culprit ended early, else it is empty; ``goes_on``: a step's time budget was too short, so that the next
    pass continues the search.
    """

    benchmark: Report
    verification: Report | None = None
    confirmed: tuple[str, ...] = ()
    culprits: tuple[Culprit, ...] | None = None
    unfinished: str = ""
    known_culprits: tuple[Culprit, ...] = ()
    attributions: Mapping[str, Attribution] = field(default_factory=dict)
    goes_on: bool = False

    def cut_short(self, error: RunError) -> "Outcome":
        """Return the outcome of a search that an error ended early."""
        is_budget = isinstance(error, NotSettled)
        why = describe_open(error.report) if isinstance(error, NotSettled) else str(error)
        return replace(self, unfinished=f"the search for the culprit ended: {why}", goes_on=is_budget)

    @property
    def why_untrusted(self) -> str:
        """Why the measurement must be repeated; empty if it can be trusted."""
        for report in (self.benchmark, self.verification):
            if report is not None and report.run.aborted:
                return f"not completed: {report.run.stop_reason}"
            if report is not None and (report.withholds(*FLAGGED) or report.is_biased):
                return UNTRUSTED
        return ""

    @property
    def why_open(self) -> str:
        """Why the line is to be investigated again another time; empty if it is settled."""
        return self.why_untrusted or self.unfinished


def merge_culprits(culprits: Sequence[Culprit]) -> tuple[Culprit, ...]:
    """Return the culprits from left to right; those with the same range become one."""
    culprit_by_range: dict[Range, Culprit] = {}
    for culprit in culprits:
        between = culprit.range.start, culprit.range.end
        if (other := culprit_by_range.get(between)) is not None:
            evidence = tuple(dict.fromkeys((*other.evidence, *culprit.evidence)))
            cases = {**other.range.cases, **culprit.range.cases}
            causes = {**other.causes, **culprit.causes}
            culprit = replace(other, range=replace(other.range, cases=cases), evidence=evidence, causes=causes)
        culprit_by_range[between] = culprit
    return tuple(culprit_by_range[between] for between in sorted(culprit_by_range))
