"""Queries of the API and the pages: runs and cases by filters, results, histories."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from opduel.comparator.history.host_noise import WINDOW
from opduel.records import Verdict
from opduel.reporters.summary import WORST_FIRST
from opduel.server.models import Case, CauseFound, Document, HostRun, Result, Run
from opduel.server.parameters import Branch, Digits, StartedSince, StartedUntil, Words

MOST_FOUND = 100


@dataclass(frozen=True)
class RunFilter:
    """Conditions on runs, all of which must hold; None means any.

    ``verdict``: at least one result has it. ``commit``: the commit of control or treatment begins with these digits.
    ``text``: part of the run's id, spec, builds, commits, their subjects or authors, or user identifier, in upper or
    lower case. ``since`` and ``until``: started on these days (UTC), or between them. ``branch``: empty for runs that
    name none. The fields are the parameters of a request, too.
    """

    framework: Words | None = None
    spec: Words | None = None
    category: Words | None = None
    platform: Words | None = None
    verdict: Verdict | None = None
    commit: Digits | None = None
    text: Words | None = None
    since: StartedSince = None
    until: StartedUntil = None
    branch: Branch = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the filter as conditions on ``Run``."""
        conditions = equal(self, Run.framework, Run.spec, Run.category, Run.platform)
        if self.branch is not None:
            conditions.append(is_of_branch(self.branch))
        if self.verdict is not None:
            conditions.append(getattr(Run, self.verdict) > 0)
        if self.commit is not None:
            digits = self.commit.lower()
            sides = (Run.control_commit, Run.treatment_commit)
            conditions.append(or_(*(side.startswith(digits, autoescape=True) for side in sides)))
        if self.text:
            conditions.append(_has(self.text, *_RUN_TEXTS))
        begin, end = days(self.since, self.until)
        if begin is not None:
            conditions.append(Run.started >= begin)
        if end is not None:
            conditions.append(Run.started < end)
        return conditions


_RUN_TEXTS = (
    Run.run_id,
    Run.spec,
    Run.user_identifier,
    Run.control_requested,
    Run.treatment_requested,
    Run.control_commit,
    Run.treatment_commit,
    Run.control_commit_subject,
    Run.treatment_commit_subject,
    Run.control_commit_author,
    Run.treatment_commit_author,
)


def equal(filters: object, *columns: Any) -> list[ColumnElement[bool]]:
    """Return the conditions that columns equal the attributes of ``filters`` of the same names, except None."""
    pairs = [(column, getattr(filters, column.key)) for column in columns]
    return [column == value for column, value in pairs if value is not None]


def is_of_branch(branch: str) -> ColumnElement[bool]:
    """Return the condition that a run is of ``branch``, or names none if that is empty."""
    return Run.branch == branch if branch else Run.branch.is_(None)


def moment_of(day: date) -> datetime:
    """Return the beginning of a day, UTC."""
    return datetime.combine(day, time(), UTC)


def days(since: date | None, until: date | None) -> tuple[datetime | None, datetime | None]:
    """Return the beginning of the first day and the end of the last one, UTC; None where there is no bound."""
    end = None if until is None or until == date.max else moment_of(until + timedelta(days=1))
    return (None if since is None else moment_of(since)), end


def matching_runs(run_filter: RunFilter) -> Select[Run]:
    """Return the query of the runs that match, the latest first."""
    return select(Run).where(*run_filter.conditions()).order_by(Run.started.desc(), Run.number.desc())


def latest_runs(session: Session, run_filter: RunFilter, limit: int, offset: int = 0) -> Sequence[Run]:
    """Return ``limit`` of the runs that match from ``offset`` on, the latest first."""
    return session.scalars(matching_runs(run_filter).limit(limit).offset(offset)).all()


def count_rows(session: Session, statement: Select[*tuple[Any, ...]]) -> int:
    """Return how many rows ``statement`` has."""
    return session.scalar(select(func.count()).select_from(statement.order_by(None).subquery())) or 0


def document_of(session: Session, run_number: int) -> bytes:
    """Return the run's whole report, as local reporters write it."""
    return zlib.decompress(session.get_one(Document, run_number).content)


def results_of(run: Run, verdict: Verdict | None = None) -> Select[Result, Case]:
    """Return the query of the results of ``run`` with their cases, in the order of the cases' names."""
    statement = select(Result, Case).join(Case).where(Result.run_number == run.number).order_by(Case.case)
    return statement if verdict is None else statement.where(Result.verdict == verdict)


def cause_of(run: Run, case_number: int) -> Select[CauseFound, Result, Case]:
    """Return the query of the cause of a case's change in ``run``, with its result and the case."""
    same = (Result.run_number == CauseFound.run_number) & (Result.case_number == CauseFound.case_number)
    statement = select(CauseFound, Result, Case).join(Result, same).join(Case, Case.number == CauseFound.case_number)
    return statement.where(CauseFound.run_number == run.number, CauseFound.case_number == case_number)


def noise_of(session: Session, host: str, kind: str, limit: int = WINDOW) -> list[tuple[datetime, float]]:
    """Return start and noise (a log ratio) of the host's latest runs as a machine of this kind, the oldest first; runs
    of unknown noise are left out."""
    query = (
        select(HostRun.started, HostRun.noise)
        .where(HostRun.host == host, HostRun.kind == kind, HostRun.noise.is_not(None))
        .order_by(HostRun.started.desc(), HostRun.run_number.desc())
        .limit(limit)
    )
    return [(row.started, row.noise) for row in session.execute(query)][::-1]


def find_cases(
    framework: str | None = None, text: str | None = None, operator_category: str | None = None
) -> Select[Case]:
    """Return the query of cases in the order of their names, with every word of ``text`` in their id or operator."""
    pairs = ((Case.framework, framework), (Case.operator_category, operator_category))
    conditions: list[ColumnElement[bool]] = [column == value for column, value in pairs if value is not None]
    conditions += [_has(word, Case.case, Case.operator) for word in (text or "").split()]
    return select(Case).where(*conditions).order_by(Case.case, Case.framework)


def history_of(case: Case, platform: str | None, category: str | None, branch: str | None) -> Select[Result, Run]:
    """Return the query of all results of ``case``, the oldest first, without those slowed on purpose."""
    conditions = RunFilter(platform=platform, category=category, branch=branch).conditions()
    statement = select(Result, Run).join(Run).where(Result.case_number == case.number, Result.injected.is_(False))
    return statement.where(*conditions).order_by(Run.started, Run.number)


def _has(text: str, *columns: Any) -> ColumnElement[bool]:
    return or_(*(column.icontains(text, autoescape=True) for column in columns))


def choices(session: Session, *columns: Any) -> dict[str, list[str]]:
    """Return the choices of a filter: the distinct non-empty texts of columns, sorted, by column."""
    texts = {column.key: session.scalars(select(column).distinct().order_by(column)) for column in columns}
    return {name: [text for text in column_texts if text] for name, column_texts in texts.items()}


def results_worst_first(session: Session, run: Run) -> list[Any]:
    """Return a run's results with their cases, the worst verdicts first, and of these the largest changes."""
    columns = (*Result.__table__.columns, Case.case, Case.operator, Case.metric, Case.unit, Case.lower_is_better)
    rows: Sequence[Any] = session.execute(select(*columns).join(Case).where(Result.run_number == run.number)).all()
    places = {verdict: place for place, verdict in enumerate(WORST_FIRST)}
    return sorted(rows, key=lambda row: (places.get(row.verdict, len(places)), -_factor(row), row.case))


def _factor(row: Any) -> float:
    """Return how many times larger the larger side is; infinite where there is no ratio of different values."""
    ratio = row.ratio
    if ratio is None:
        return float("inf") if row.control != row.treatment else 0.0
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")
