"""What came of the investigation of a line: reports, culprits and what they changed, whether to repeat it."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opduel.driver.attribution import Attribution, Change, Range
from opduel.driver.bisection import CulpritRange
from opduel.driver.culprit_code import ChangedCode, changed_code, changed_code_document, names_functions
from opduel.driver.documents import write_document
from opduel.driver.git.repository import Repository
from opduel.driver.revisions import Revision
from opduel.driver.runs import NotSettled, describe_open
from opduel.records import FLAGGED, Cause, Report, RunError

log = logging.getLogger(__name__)

UNTRUSTED = "verdicts were held back, because the host was disturbed"


@dataclass(frozen=True)
class Culprit:
    """A culprit with its revisions: the last good one, those in between, the first bad one.

    ``causes`` says why its cases changed, as far as the runs that are its evidence looked for causes; ``code`` what it
    changed of the functions that causes name, where it is one commit. ``reports`` are those of ``evidence``, if they
    are at hand.
    """

    range: CulpritRange
    revisions: tuple[Revision, ...]
    evidence: tuple[str, ...]  # the ids of the runs that are the direct A/B
    causes: Mapping[str, Cause] = field(default_factory=dict)
    code: ChangedCode | None = None
    reports: tuple[Report, ...] = ()


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
            reports = (*other.reports, *(report for report in culprit.reports if report not in other.reports))
            between_both = replace(other.range, cases=cases)
            culprit = replace(other, range=between_both, evidence=evidence, causes=causes, reports=reports)
        culprit_by_range[between] = culprit
    return tuple(culprit_by_range[between] for between in sorted(culprit_by_range))


def add_changed_code(outcome: Outcome, repository: Repository) -> Outcome:
    """Return the outcome with what each named culprit changed of the functions that the causes of its cases name.

    Causes come from its own A/B, or else from the verification or the benchmark of the whole line. A culprit whose
    changes git can't read stays as it is, with a warning.
    """
    reports = [report for report in (outcome.verification, outcome.benchmark) if report is not None]
    causes_of_line = [
        {comparison.case: comparison.cause for comparison in report.comparisons if comparison.cause is not None}
        for report in reports
    ]

    def add_code(culprit: Culprit) -> Culprit:
        good, bad = culprit.revisions[0].commit, culprit.revisions[-1].commit
        if not culprit.range.is_named or good is None or bad is None:
            return culprit
        causes = [
            (case, by_case[case])
            for by_case in (*causes_of_line[::-1], culprit.causes)  # the last one counts
            for case in culprit.range.cases
            if case in by_case and names_functions(by_case[case])
        ]
        try:
            return replace(culprit, code=changed_code(repository, good, bad, dict(causes)))
        except RunError as error:
            log.warning("what %s changed is not known: %s", bad.short, error)
            return culprit

    culprits = None if outcome.culprits is None else tuple(map(add_code, outcome.culprits))
    return replace(outcome, culprits=culprits, known_culprits=tuple(map(add_code, outcome.known_culprits)))


def write_culprits(path: Path, outcome: Outcome, name: str) -> Path | None:
    """Write the culprits of the line of that name as a document; return its path, or None if none were looked for."""
    if outcome.culprits is None and not outcome.known_culprits:
        return None
    write_document(path, culprits_document(outcome, name))
    return path


def culprits_document(outcome: Outcome, name: str) -> dict[str, Any]:
    """Return the culprits as plain JSON data: see docs/explanation/bisection.md."""
    return {
        "line": name,
        "confirmed": list(outcome.confirmed),
        "culprits": [_culprit_document(culprit) for culprit in outcome.culprits or ()],
        "known": [_culprit_document(culprit) for culprit in outcome.known_culprits],
        "attributions": {
            case: {
                "finding": attribution.finding,
                "share": _change_document(attribution.share),
                "rest": _change_document(attribution.remainder),
            }
            for case, attribution in outcome.attributions.items()
        },
    }


def _change_document(change: Change | None) -> dict[str, Any]:
    if change is None:
        return {"ratio": None, "ci": None}
    return {"ratio": math.exp(change.estimate), "ci": [math.exp(change.low), math.exp(change.high)]}


def _culprit_document(culprit: Culprit) -> dict[str, Any]:
    return {
        "named": culprit.range.is_named,
        "good": culprit.revisions[0].name,
        "bad": [
            {"commit": commit.id, "commit_time": commit.time, "author": commit.author, "subject": commit.subject}
            if (commit := revision.commit)
            else {"release": revision.name}
            for revision in culprit.revisions[1:]
        ],
        "cases": {
            case: {"verdict": step.verdict, **_change_document(step.change)}
            for case, step in culprit.range.cases.items()
        },
        "evidence": list(culprit.evidence),
        "note": culprit.range.note,
        "code": changed_code_document(culprit.code),
    }
