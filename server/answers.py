"""Rows of the database as the models of ``schemas``, and answers that there is no such row."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import HTTPException
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from opduel.reporters.summary import WORST_FIRST
from opduel.server import queries, schemas
from opduel.server.histories import interval
from opduel.server.models import Case, CauseFound, Result, Run

Row = TypeVar("Row")
PartModel = TypeVar("PartModel", bound=schemas.Part)


def require_found(row: Row | None, noun: str) -> Row:
    """Return ``row``, or answer that there is no such ``noun``. Raises HTTPException: 404, ``row`` is None."""
    if row is None:
        raise HTTPException(404, f"there is no such {noun}")
    return row


def require_run(session: Session, run_id: str) -> Run:
    """Return the run called ``run_id``. Raises HTTPException: 404, there is none."""
    return require_found(session.scalar(select(Run).where(Run.run_id == run_id)), "run")


def part_of(
    session: Session,
    statement: Select[*tuple[Any, ...]],
    limit: int,
    offset: int,
    model: type[PartModel],
    field: str,
    row_out: Callable[..., Any],
    **values: object,
) -> PartModel:
    """Return a ``model`` whose ``field`` has ``limit`` rows of ``statement`` from ``offset`` on."""
    total = queries.count_rows(session, statement)
    rows = [row_out(*row) for row in session.execute(statement.limit(limit).offset(offset))]
    return model.model_validate({field: rows, **values, **schemas.part(offset, len(rows), total)})


def run_out(run: Run) -> schemas.RunOut:
    """Return ``run`` without its results."""
    verdicts = {verdict: getattr(run, verdict) for verdict in WORST_FIRST}
    return schemas.model_from_row(schemas.RunOut, run, verdicts=verdicts, **_sides(run))


def result_out(result: Result, case: Case) -> schemas.ResultOut:
    """Return one of a run's results."""
    return schemas.ResultOut(case=schemas.CaseOut.model_validate(case), figures=_figures(result))


def point_out(result: Result, run: Run) -> schemas.PointOut:
    """Return one result of a case's history."""
    return schemas.model_from_row(
        schemas.PointOut, run, figures=_figures(result), trusted=result.trusted, **_sides(run)
    )


def cause_out(run: Run, cause: CauseFound, result: Result, case: Case) -> schemas.CauseOut:
    """Return the cause of a case's change in ``run``."""
    examinations = [schemas.ExaminationOut.model_validate(examination) for examination in cause.content["examinations"]]
    return schemas.CauseOut(
        run_id=run.run_id,
        case=schemas.CaseOut.model_validate(case),
        figures=_figures(result),
        sentence=cause.sentence,
        examinations=examinations,
    )


def _sides(run: Run) -> dict[str, schemas.SideOut]:
    return {side: _side_out(run, side) for side in ("control", "treatment")}


def _side_out(run: Run, side: str) -> schemas.SideOut:
    names = ("requested", "digest", "version", "commit", "commit_time", "commit_subject", "commit_author")
    requested, digest, version, commit, time, subject, author = (getattr(run, f"{side}_{name}") for name in names)
    of_commit = None if commit is None else schemas.CommitOut(id=commit, time=time, subject=subject, author=author)
    return schemas.SideOut(requested=requested, digest=digest, version=version, commit=of_commit)


def _figures(result: Result) -> schemas.Figures:
    side, kind, reason = result.failure_side, result.failure_kind, result.failure_reason
    failure = None if side is None else schemas.FailureOut(side=side, kind=kind or "", reason=reason or "")
    return schemas.model_from_row(schemas.Figures, result, ci=interval(result.ci_low, result.ci_high), failure=failure)
