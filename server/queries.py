"""What the API and the pages ask the tables: runs and cases by what is looked for, results, histories."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from opduel.records import Verdict
from opduel.server.models import Case, Document, Result, Run

SHORTEST_COMMIT = 4  # digits


@dataclass(frozen=True)
class RunFilter:
    """Which runs: those for which everything holds that isn't None.

    ``verdict``: at least one result has it. ``commit``: control or treatment begins with these digits. ``text``: is
    a part of the run's id, spec, builds, commits, their subjects or authors, or user identifier, whatever the case of
    its letters. ``since`` and ``until``: it started then or later, and before that. ``branch``: empty for runs that
    name none.
    """

    framework: str | None = None
    spec: str | None = None
    category: str | None = None
    platform: str | None = None
    verdict: Verdict | None = None
    commit: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    branch: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as conditions on ``Run``."""
        found: list[ColumnElement[bool]] = []
        for name in ("framework", "spec", "category", "platform"):
            value = getattr(self, name)
            if value is not None:
                found.append(getattr(Run, name) == value)
        if self.branch is not None:
            found.append(is_of_branch(self.branch))
        if self.verdict is not None:
            found.append(getattr(Run, self.verdict) > 0)
        if self.commit is not None:
            digits = self.commit.lower()
            sides = (Run.control_commit, Run.treatment_commit)
            found.append(or_(*(side.startswith(digits, autoescape=True) for side in sides)))
        if self.text:
            found.append(_has(self.text, *_RUN_TEXTS))
        if self.since is not None:
            found.append(Run.started >= self.since)
        if self.until is not None:
            found.append(Run.started < self.until)
        return found


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


def is_of_branch(branch: str) -> ColumnElement[bool]:
    """The condition that a run is of ``branch``, or names none where that is empty."""
    return Run.branch == branch if branch else Run.branch.is_(None)


def count_runs(session: Session, wanted: RunFilter) -> int:
    """How many runs ``wanted`` lets through."""
    return session.scalar(select(func.count()).select_from(Run).where(*wanted.conditions())) or 0


def latest_runs(session: Session, wanted: RunFilter, limit: int, offset: int = 0) -> Sequence[Run]:
    """Those runs, the latest first."""
    statement = select(Run).where(*wanted.conditions()).order_by(Run.started.desc(), Run.number.desc())
    return session.scalars(statement.limit(limit).offset(offset)).all()


def find_run(session: Session, run_id: str) -> Run | None:
    """The run called ``run_id``."""
    return session.scalar(select(Run).where(Run.run_id == run_id))


def document_of(session: Session, run: Run) -> bytes:
    """The run's report, whole, as compact JSON; ``ingest.readable`` makes report.json of it."""
    return zlib.decompress(session.scalars(select(Document.content).where(Document.run_number == run.number)).one())


def results_of(run: Run, verdict: Verdict | None = None) -> Select[Result, Case]:
    """Asks for the results of ``run`` with their cases, in the order of the cases' names."""
    statement = select(Result, Case).join(Case).where(Result.run_number == run.number).order_by(Case.case)
    return statement if verdict is None else statement.where(Result.verdict == verdict)


@dataclass(frozen=True)
class CaseFilter:
    """Which cases: those for which everything holds that isn't None. ``text`` is a part of their id or operator."""

    framework: str | None = None
    text: str | None = None
    operator_category: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as conditions on ``Case``."""
        found: list[ColumnElement[bool]] = []
        if self.framework is not None:
            found.append(Case.framework == self.framework)
        if self.text:
            found.append(_has(self.text, Case.case, Case.operator))
        if self.operator_category is not None:
            found.append(Case.operator_category == self.operator_category)
        return found


def count_cases(session: Session, wanted: CaseFilter) -> int:
    """How many cases ``wanted`` lets through."""
    return session.scalar(select(func.count()).select_from(Case).where(*wanted.conditions())) or 0


def find_cases(session: Session, wanted: CaseFilter, limit: int, offset: int = 0) -> Sequence[Case]:
    """Those cases, in the order of their names."""
    statement = select(Case).where(*wanted.conditions()).order_by(Case.case, Case.framework)
    return session.scalars(statement.limit(limit).offset(offset)).all()


def history_of(
    case: Case, platform: str | None = None, category: str | None = None, branch: str | None = None
) -> Select[Result, Run]:
    """Asks for all that runs said of ``case``, the oldest first; without those that slowed it on purpose."""
    statement = select(Result, Run).join(Run).where(Result.case_number == case.number, Result.injected.is_(False))
    if platform is not None:
        statement = statement.where(Run.platform == platform)
    if category is not None:
        statement = statement.where(Run.category == category)
    if branch is not None:
        statement = statement.where(is_of_branch(branch))
    return statement.order_by(Run.started, Run.number)


def count(session: Session, statement: Select[*tuple[Any, ...]]) -> int:
    """How many rows ``statement`` would give."""
    return session.scalar(select(func.count()).select_from(statement.order_by(None).subquery())) or 0


def _has(text: str, *columns: Any) -> ColumnElement[bool]:
    return or_(*(column.icontains(text, autoescape=True) for column in columns))
