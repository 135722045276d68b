"""Add to culprits what they changed of the functions that causes name, and write them as a document."""

import logging
import math
from dataclasses import replace
from typing import Any

from opduel.driver.attribution import Change
from opduel.driver.culprit_code import changed_code, changed_code_document, names_functions
from opduel.driver.git.repository import Repository
from opduel.driver.outcome import Culprit, Outcome
from opduel.records import RunError

log = logging.getLogger(__name__)


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
