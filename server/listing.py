"""Lists for pages: runs page by page, what filters can choose from, results worst first, what a search finds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from opduel.reporters.summary import WORST_FIRST
from opduel.server.models import Case, Result, Run
from opduel.server.queries import SHORTEST_COMMIT, RunFilter, count_runs, latest_runs

RUNS_A_PAGE = 50
MOST_FOUND = 100
_RESULT_COLUMNS = (
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
    Result.note,
)


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
    columns = {name: getattr(Run, name) for name in ("framework", "platform", "branch", "category", "spec")}
    return {
        name: [one for one in session.scalars(select(column).distinct().order_by(column)) if one is not None]
        for name, column in columns.items()
    }


def results_worst_first(session: Session, run: Run) -> list[Any]:
    """A run's results with their cases, by verdict, the largest changes first."""
    columns = (Result.case_number, Case.case, Case.operator, Case.metric, Case.unit, *_RESULT_COLUMNS)
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


def search_cases(session: Session, text: str) -> Sequence[Any]:
    """Cases with every word of ``text`` in their id or operator, by id, ``MOST_FOUND`` at most."""
    words = [
        or_(Case.case.icontains(word, autoescape=True), Case.operator.icontains(word, autoescape=True))
        for word in text.split()
    ]
    query = select(Case.number, Case.framework, Case.case, Case.operator, Case.metric).where(*words)
    return session.execute(query.order_by(Case.case).limit(MOST_FOUND)).all()
