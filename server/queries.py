"""What the API and the pages ask the tables: runs and cases by what is looked for, results, histories."""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from opduel.comparator.host_noise import WINDOW
from opduel.records import Verdict
from opduel.reporters.summary import WORST_FIRST
from opduel.server.models import Case, CauseFound, Document, HostRun, Result, Run

SHORTEST_COMMIT = 4  # digits
RUNS_A_PAGE = 50
MOST_FOUND = 100


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
        found = equal(self, Run.framework, Run.spec, Run.category, Run.platform)
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


def equal(wanted: object, *columns: Any) -> list[ColumnElement[bool]]:
    """Conditions that columns have the values that ``wanted`` has by their names, as far as these aren't None."""
    return [column == value for column in columns if (value := getattr(wanted, column.key)) is not None]


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


def document_of(session: Session, run: Run) -> bytes:
    """The run's report, whole, as compact JSON; ``ingest.readable`` makes report.json of it."""
    return zlib.decompress(session.scalars(select(Document.content).where(Document.run_number == run.number)).one())


def results_of(run: Run, verdict: Verdict | None = None) -> Select[Result, Case]:
    """Asks for the results of ``run`` with their cases, in the order of the cases' names."""
    statement = select(Result, Case).join(Case).where(Result.run_number == run.number).order_by(Case.case)
    return statement if verdict is None else statement.where(Result.verdict == verdict)


def cause_of(run: Run, case_number: int) -> Select[CauseFound, Result, Case]:
    """Asks for the cause of what ``run`` found of a case, with that result and the case."""
    same = (Result.run_number == CauseFound.run_number) & (Result.case_number == CauseFound.case_number)
    statement = select(CauseFound, Result, Case).join(Result, same).join(Case, Case.number == CauseFound.case_number)
    return statement.where(CauseFound.run_number == run.number, CauseFound.case_number == case_number)


def causes_of(session: Session, case_number: int, run_ids: Sequence[str], most: int) -> dict[str, CauseFound]:
    """The causes of a case's changes in these runs, by run id, in their order: the first ``most``."""
    having = select(Run.run_id, Run.number).join(CauseFound).where(CauseFound.case_number == case_number)
    numbers = {run.run_id: run.number for run in session.execute(having)}
    chosen = [one for one in run_ids if one in numbers][:most]
    return {one: session.get_one(CauseFound, (numbers[one], case_number)) for one in chosen}


def noise_of(session: Session, host: str, kind: str, limit: int = WINDOW) -> list[tuple[datetime, float]]:
    """When a host's latest runs that tell its noise began, and that noise; of those in which it was of this kind, the
    oldest first."""
    query = (
        select(HostRun.started, HostRun.noise)
        .where(HostRun.host == host, HostRun.kind == kind, HostRun.noise.is_not(None))
        .order_by(HostRun.started.desc(), HostRun.run_number.desc())
        .limit(limit)
    )
    return [(row.started, row.noise) for row in session.execute(query)][::-1]


def find_cases(framework: str | None, text: str | None, operator_category: str | None) -> Select[Case]:
    """Asks for cases, in the order of their names; ``text`` is a part of their id or operator."""
    statement = select(Case)
    if framework is not None:
        statement = statement.where(Case.framework == framework)
    if text:
        statement = statement.where(_has(text, Case.case, Case.operator))
    if operator_category is not None:
        statement = statement.where(Case.operator_category == operator_category)
    return statement.order_by(Case.case, Case.framework)


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


@dataclass(frozen=True)
class RunList:
    """One page of runs, the latest first; ``page`` counts from 1."""

    runs: Sequence[Run]
    page: int
    pages: int
    total: int


def list_runs(session: Session, wanted: RunFilter, page: int) -> RunList:
    """That page of the runs which ``wanted`` lets through; the last page for one behind it."""
    total = count_runs(session, wanted)
    pages = max(1, -(-total // RUNS_A_PAGE))
    page = min(max(1, page), pages)
    return RunList(latest_runs(session, wanted, RUNS_A_PAGE, (page - 1) * RUNS_A_PAGE), page, pages, total)


def choices(session: Session) -> dict[str, list[str]]:
    """What there is to choose from: the frameworks, platforms, branches, categories and specs of all runs."""
    return distinct(session, Run.framework, Run.platform, Run.branch, Run.category, Run.spec)


def distinct(session: Session, *columns: Any) -> dict[str, list[str]]:
    """The texts in some columns, in order, by the names of these; no empty ones."""
    texts = {column.key: session.scalars(select(column).distinct().order_by(column)) for column in columns}
    return {name: [one for one in found if one] for name, found in texts.items()}


def results_worst_first(session: Session, run: Run) -> list[Any]:
    """A run's results with their cases, by verdict, the largest changes first."""
    columns = (*Result.__table__.columns, Case.case, Case.operator, Case.metric, Case.unit, Case.lower_is_better)
    rows: Sequence[Any] = session.execute(select(*columns).join(Case).where(Result.run_number == run.number)).all()
    places = {verdict: place for place, verdict in enumerate(WORST_FIRST)}
    return sorted(rows, key=lambda one: (places.get(one.verdict, len(places)), -_factor(one.ratio), one.case))


def _factor(ratio: float | None) -> float:
    """How many times larger the larger side is."""
    if ratio is None:
        return 0.0
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def search_runs(session: Session, text: str) -> list[Run]:
    """Runs with ``text`` in their id, spec, builds or commits, the latest first, ``MOST_FOUND`` at most."""
    found = {run.number: run for run in latest_runs(session, RunFilter(text=text), MOST_FOUND)}
    if re.fullmatch(rf"[0-9A-Fa-f]{{{SHORTEST_COMMIT},64}}", text):
        found |= {run.number: run for run in latest_runs(session, RunFilter(commit=text), MOST_FOUND)}
    return sorted(found.values(), key=lambda run: (run.started, run.number), reverse=True)[:MOST_FOUND]


def search_cases(session: Session, text: str) -> Sequence[Case]:
    """Cases with every word of ``text`` in their id or operator, by id, ``MOST_FOUND`` at most."""
    words = [_has(word, Case.case, Case.operator) for word in text.split()]
    return session.scalars(select(Case).where(*words).order_by(Case.case).limit(MOST_FOUND)).all()
