"""Runs, their results and cases out of the tables: a page of a list, filtered, and what a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Row, func, or_, select
from sqlalchemy.orm import Session

from records import SAMPLED
from reporters.server.histories import BUILD_COLUMNS
from reporters.server.models import Case, Result, Run
from reporters.summary import WORST_FIRST

RUNS_A_PAGE = 50
MOST_FOUND = 100

RUN_COLUMNS = (
    Run.number,
    Run.run_id,
    Run.category,
    Run.started,
    Run.framework,
    Run.platform,
    Run.spec,
    Run.user_identifier,
    Run.run_type,
    Run.inject,
    Run.trusted,
    Run.complete,
    Run.broken,
    Run.regressed,
    Run.failed,
    Run.inconclusive,
    Run.improved,
    Run.unchanged,
    *BUILD_COLUMNS,
)
_SEARCHED = (
    Run.run_id,
    Run.spec,
    Run.user_identifier,
    Run.control_requested,
    Run.treatment_requested,
    Run.control_commit,
    Run.treatment_commit,
    Run.control_commit_subject,
    Run.treatment_commit_subject,
    Run.treatment_commit_author,
)


@dataclass(frozen=True)
class Filters:
    """What a list of runs is narrowed to; "" narrows nothing. ``text`` is looked for in ids, specs, builds and commits;
    ``verdict`` wants at least one result of it."""

    framework: str = ""
    platform: str = ""
    category: str = ""
    spec: str = ""
    verdict: str = ""
    text: str = ""

    def given(self) -> dict[str, str]:
        """Those that narrow."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}


@dataclass(frozen=True)
class RunList:
    """One page of runs, the newest first; ``page`` counts from 1."""

    rows: Sequence[Row[Any]]
    page: int
    pages: int
    total: int


def list_runs(session: Session, filters: Filters, page: int) -> RunList:
    """That page of the runs which ``filters`` leave; the last page for one behind it."""
    wanted = _conditions(filters)
    total = session.scalar(select(func.count(Run.number)).where(*wanted)) or 0
    pages = max(1, -(-total // RUNS_A_PAGE))
    page = min(max(1, page), pages)
    query = select(*RUN_COLUMNS).where(*wanted).order_by(Run.started.desc(), Run.number.desc())
    rows = session.execute(query.limit(RUNS_A_PAGE).offset((page - 1) * RUNS_A_PAGE)).all()
    return RunList(rows, page, pages, total)


def choices(session: Session) -> dict[str, list[str]]:
    """What there is to choose from: the frameworks, platforms, categories and specs of all runs."""
    columns = {"framework": Run.framework, "platform": Run.platform, "category": Run.category, "spec": Run.spec}
    return {name: list(session.scalars(select(column).distinct().order_by(column))) for name, column in columns.items()}


def run_by_id(session: Session, run_id: str) -> Run | None:
    """The run of that id, if it is there."""
    return session.scalar(select(Run).where(Run.run_id == run_id))


def results_of(session: Session, run_number: int) -> list[Row[Any]]:
    """A run's results with their cases, the worst first."""
    query = (
        select(
            Result.case_number,
            Case.case,
            Case.operator,
            Case.metric,
            Case.unit,
            Result.verdict,
            Result.held_back,
            Result.ratio,
            Result.ci_low,
            Result.ci_high,
            Result.p_value,
            Result.q_value,
            Result.threshold,
            Result.mde,
            Result.control,
            Result.treatment,
            Result.rounds,
            Result.failure_side,
            Result.failure_kind,
            Result.failure_reason,
        )
        .join(Case, Result.case_number == Case.number)
        .where(Result.run_number == run_number)
    )
    rows = session.execute(query).all()
    places = {verdict: place for place, verdict in enumerate(WORST_FIRST)}
    return sorted(rows, key=lambda one: (places.get(one.verdict, len(places)), -_size(one.ratio), one.case))


def _size(ratio: float | None) -> float:
    if ratio is None:
        return 0.0
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def search_runs(session: Session, text: str) -> list[Row[Any]]:
    """Runs in whose id, spec, builds or commits ``text`` stands, the newest first, ``MOST_FOUND`` at most."""
    query = select(*RUN_COLUMNS).where(_with_text(text)).order_by(Run.started.desc(), Run.number.desc())
    return list(session.execute(query.limit(MOST_FOUND)).all())


def search_cases(session: Session, text: str) -> list[Row[Any]]:
    """Cases in whose id or operator every word of ``text`` stands, by id, ``MOST_FOUND`` at most."""
    words = [
        or_(Case.case.icontains(word, autoescape=True), Case.operator.icontains(word, autoescape=True))
        for word in text.split()
    ]
    query = select(Case.number, Case.framework, Case.case, Case.operator, Case.metric).where(*words)
    return list(session.execute(query.order_by(Case.case).limit(MOST_FOUND)).all())


def _conditions(filters: Filters) -> list[ColumnElement[bool]]:
    wanted: list[ColumnElement[bool]] = []
    for name in ("framework", "platform", "category", "spec"):
        value = getattr(filters, name)
        if value:
            wanted.append(getattr(Run, name) == value)
    if filters.verdict in WORST_FIRST:
        wanted.append(getattr(Run, filters.verdict) > 0)
    if filters.text:
        wanted.append(_with_text(filters.text))
    return wanted


def _with_text(text: str) -> ColumnElement[bool]:
    return or_(*(column.icontains(text.strip(), autoescape=True) for column in _SEARCHED))


def is_sampled(metric: str) -> bool:
    """Whether the metric's figures come from samples, so that they have intervals."""
    return metric in SAMPLED
