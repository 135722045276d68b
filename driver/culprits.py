"""What is said of culprits: what they changed of what the causes name, and all of it as a document."""

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


def with_code(outcome: Outcome, repository: Repository) -> Outcome:
    """The outcome, with what each named culprit changed of what the causes of its cases name: those of its own A/B, or
    else of the whole line, the verification's first.

    What git can't tell of is left out, with a warning.
    """
    reports = [report for report in (outcome.verification, outcome.benchmark) if report is not None]
    of_line = [{one.case: one.cause for one in report.comparisons if one.cause is not None} for report in reports]

    def coded(traced: Culprit) -> Culprit:
        good, bad = traced.revisions[0].commit, traced.revisions[-1].commit
        if not traced.range.is_named or good is None or bad is None:
            return traced
        found = [
            (case, of[case])
            for of in (*of_line[::-1], traced.causes)  # the last one counts
            for case in traced.range.cases
            if case in of and names_functions(of[case])
        ]
        try:
            return replace(traced, code=changed_code(repository, good, bad, dict(found)))
        except RunError as error:
            log.warning("what %s changed is not known: %s", bad.short, error)
            return traced

    culprits = None if outcome.culprits is None else tuple(map(coded, outcome.culprits))
    return replace(outcome, culprits=culprits, known_culprits=tuple(map(coded, outcome.known_culprits)))


def culprits_document(outcome: Outcome, name: str) -> dict[str, Any]:
    """The culprits as plain JSON data: see docs/explanation/bisection.md."""
    return {
        "line": name,
        "confirmed": list(outcome.confirmed),
        "culprits": [_culprit_document(one) for one in outcome.culprits or ()],
        "known": [_culprit_document(one) for one in outcome.known_culprits],
        "attributions": {
            case: {
                "finding": one.finding,
                "share": _change_document(one.share),
                "rest": _change_document(one.remainder),
            }
            for case, one in outcome.attributions.items()
        },
    }


def _change_document(change: Change | None) -> dict[str, Any]:
    if change is None:
        return {"ratio": None, "ci": None}
    return {"ratio": math.exp(change.estimate), "ci": [math.exp(change.low), math.exp(change.high)]}


def _culprit_document(one: Culprit) -> dict[str, Any]:
    return {
        "named": one.range.is_named,
        "good": one.revisions[0].name,
        "bad": [
            {"commit": its.id, "commit_time": its.time, "author": its.author, "subject": its.subject}
            if (its := revision.commit)
            else {"release": revision.name}
            for revision in one.revisions[1:]
        ],
        "cases": {
            case: {"verdict": step.verdict, **_change_document(step.change)} for case, step in one.range.cases.items()
        },
        "evidence": list(one.evidence),
        "note": one.range.note,
        "code": changed_code_document(one.code),
    }
