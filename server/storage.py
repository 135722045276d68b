"""Storage of reports: all of one or nothing, and once, however often it is posted."""

import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, exists, func, insert, select
from sqlalchemy.orm import Session

from opduel.records import Build, Comparison, Report, UsageError
from opduel.records.build import framework_label
from opduel.reporters.summary import WORST_FIRST
from opduel.server.causes import cause_row
from opduel.server.database import batches, upsert
from opduel.server.error_handlers import Refused
from opduel.server.host_runs import keep_hosts
from opduel.server.ingest import Submission
from opduel.server.models import UNKNOWN_THREADS, Case, CauseFound, Document, Result, Run, fit

# Of a case.
_DETAILS = ("operator", "direction", "metric", "unit", "dtype", "context", "operator_category", "lower_is_better")
_FIGURES = (
    *("verdict", "held_back", "ratio", "p_value", "q_value", "threshold", "mde"),
    *("control", "treatment", "rounds", "injected"),
)
_LONG = 1000  # characters of a text


def store(session: Session, submission: Submission, token: str, now: datetime) -> bool:
    """Store ``submission``, posted with the token called ``token``. Return False if the same report was stored before.
    Raises Refused: 409, another report has its run id, or it is in another category."""
    number = _insert_run(session, submission, token, now)
    if number is None:
        _check_identical(session, submission)
        return False
    document = submission.document
    session.execute(
        insert(Document), {"run_number": number, "size": len(document), "content": zlib.compress(document, 6)}
    )
    facts, report = submission.facts, submission.report
    case_numbers = _case_numbers(session, report)
    results = [
        {**_result(comparison, number, case_numbers[comparison.case]), "trusted": report.can_be_trusted(comparison)}
        for comparison in report.comparisons
    ]
    causes = [
        cause_row(comparison.cause, number, case_numbers[comparison.case])
        for comparison in report.comparisons
        if comparison.cause
    ]
    for table, rows in ((Result, results), (CauseFound, causes)):
        for batch in batches(rows):
            session.execute(insert(table), batch)
    threads = UNKNOWN_THREADS if facts.threads is None else facts.threads
    keep_hosts(session, report, number, facts.started, threads, case_numbers)
    return True


def remove_runs(session: Session, ids: Sequence[str]) -> None:
    """Remove the runs with these ids, with everything stored of them, and the cases that no other run has. Raises
    UsageError: no run has one of the ids."""
    rows = session.execute(select(Run.run_id, Run.number).where(Run.run_id.in_(ids)))
    numbers = {run.run_id: run.number for run in rows}
    if unknown := next((run_id for run_id in ids if run_id not in numbers), None):
        raise UsageError(f"run remove {unknown}: there is no run of this id: see its page, or run.id in report.json")
    session.execute(delete(Run).where(Run.number.in_(numbers.values())))  # and by the foreign keys all the rest
    session.execute(delete(Case).where(~exists().where(Result.case_number == Case.number)))


def _check_identical(session: Session, submission: Submission) -> None:
    there = session.execute(select(Run.document_sha256, Run.category).where(Run.run_id == submission.facts.id)).one()
    if there.document_sha256 != submission.sha256:
        raise Refused(409, f"another report has the run id {submission.facts.id}")
    if there.category != submission.category:
        raise Refused(409, f"the run {submission.facts.id} is already stored, in the category {there.category}")


def _insert_run(session: Session, submission: Submission, token: str, now: datetime) -> int | None:
    """Insert the run and return its number; None if its id exists. Of two at once, the second waits for the first."""
    values = {**_run(submission), "received": now, "received_from": token}
    number: int | None = session.scalar(
        upsert(session, Run).values(values).on_conflict_do_nothing().returning(Run.number)
    )
    return number


def _case_numbers(session: Session, report: Report) -> dict[str, int]:
    """Insert the report's new cases, update the others, and return the numbers of all by id.

    The order of the ids is fixed, so that two reports that come at once can't deadlock.
    """
    framework = framework_label(report.control, report.treatment)
    rows = [{"framework": framework, "case": case, **details} for case, details in sorted(_cases(report))]
    statement = upsert(session, Case)
    latest = {name: statement.excluded[name] for name in _DETAILS}
    latest["operator_category"] = func.coalesce(latest["operator_category"], Case.operator_category)
    statement = statement.on_conflict_do_update(index_elements=["framework", "case"], set_=latest)
    statement = statement.returning(Case.case, Case.number)
    return {case: number for some in batches(rows) for case, number in session.execute(statement, some)}


def _cases(report: Report) -> Iterator[tuple[str, dict[str, Any]]]:
    details = {case.id: case for case in report.cases}
    for comparison in report.comparisons:
        case = details.get(comparison.case)
        about: dict[str, Any] = {
            name: fit(getattr(comparison, name)) for name in ("operator", "direction", "metric", "unit")
        }
        about |= {name: None if case is None else fit(getattr(case, name)) for name in ("dtype", "context")}
        about["lower_is_better"] = comparison.lower_is_better_here
        yield comparison.case, about | {"operator_category": fit(case.category) if case and case.category else None}


def _run(submission: Submission) -> dict[str, Any]:
    facts, report = submission.facts, submission.report
    cpu_model, validity = report.host.cpu_model, report.run.validity
    return {
        **{name: getattr(facts, name) for name in ("started", "finished", "threads", "alpha", "inject", "wall_s")},
        **{name: fit(getattr(facts, name)) for name in ("platform", "spec", "run_type")},
        "run_id": facts.id,
        "category": submission.category,
        "document_sha256": submission.sha256,
        "framework": framework_label(report.control, report.treatment),
        "user_identifier": None if facts.user_identifier is None else fit(facts.user_identifier, _LONG),
        "branch": fit(facts.branch) if facts.branch and facts.branch.strip() else None,
        **_side("control", report.control),
        **_side("treatment", report.treatment),
        "cpu_model": None if cpu_model is None else fit(cpu_model),
        "trusted": validity.valid is not False,
        "distrust": None if validity.valid is not False else fit("; ".join(validity.reasons), _LONG) or None,
        "complete": facts.complete,
        "broken": facts.aborted,
        **{verdict: sum(comparison.verdict == verdict for comparison in report.comparisons) for verdict in WORST_FIRST},
        "broken_by_treatment": sum(comparison.is_broken_by_treatment for comparison in report.comparisons),
    }


def _side(side: str, build: Build) -> dict[str, Any]:
    values: dict[str, Any] = {
        "requested": fit(build.requested, _LONG),
        "digest": build.digest,
        "version": fit(build.version),
    }
    if (commit := build.commit) is not None:
        values |= {"commit": commit.id.lower(), "commit_time": commit.time}
        values |= {"commit_subject": fit(commit.subject, _LONG), "commit_author": fit(commit.author)}
    return {f"{side}_{name}": value for name, value in values.items()}


def _result(comparison: Comparison, run: int, case: int) -> dict[str, Any]:
    failure = comparison.failure
    return {
        "run_number": run,
        "case_number": case,
        **{name: getattr(comparison, name) for name in _FIGURES},
        **dict(zip(("ci_low", "ci_high"), comparison.ci or (None, None), strict=True)),
        "failure_side": None if failure is None else failure.side,
        "failure_kind": None if failure is None else fit(failure.kind),
        "failure_reason": None if failure is None else fit(failure.reason, _LONG),
        "note": None
        if failure is not None and comparison.note == failure.reason
        else fit(comparison.note, _LONG) or None,
    }
