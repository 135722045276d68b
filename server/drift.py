"""Analysis of all cases' histories, on a thread beside the requests; its results are stored until new runs come."""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from sqlalchemy import and_, case, delete, func, select, update
from sqlalchemy.orm import Session

from opduel.server.change_points import detect_changes, follow
from opduel.server.database import Database, upsert
from opduel.server.histories import History, Series, by_branch, history_of
from opduel.server.logs import logger
from opduel.server.models import AnalysedSeries, Result, Run

# The number of runs, and when the last one was received. Its number would not do: that of a removed run may be reused.
Stamp = tuple[int, datetime | None]
_PATIENCE_S = 0.5  # how long a page waits for a computation that may be about to end
_AT_A_TIME = 20  # series that are stored together


@dataclass(frozen=True)
class Progress:
    """Progress of the analysis: complete, or ``analysed`` of ``total`` series (0 of 0 at the start)."""

    analysed: int
    total: int
    is_complete: bool


class DriftAnalysis:
    """Keeps the analysis of a database's histories up to date, on a thread. Only series with new runs are analysed."""

    def __init__(self, database: Database) -> None:
        """Keep ``database``; the first call of ``progress`` or ``analyse`` starts the work."""
        self._database = database
        self._lock = threading.Lock()  # of the start of the work
        self._stamp: Stamp | None = None  # of all runs, at the last computation
        self._total = self._waiting = 0
        self._worker: threading.Thread | None = None

    def progress(self, patience_s: float = _PATIENCE_S) -> Progress:
        """Start the analysis if there are new runs, wait for it ``patience_s`` at most, and return its progress."""
        self._start_if_stale()
        if worker := self._worker:
            worker.join(patience_s)
        is_complete = worker is None or not worker.is_alive()
        return Progress(self._total - self._waiting, self._total, is_complete)

    def analyse(self) -> None:
        """Analyse all series with new runs. Raises sqlalchemy.exc.DBAPIError: the database can't be used."""
        with self._database.reading() as session:
            stamps, analysed_stamps = _stamps(session), _analysed_stamps(session)
        for old, new in _newly_named(analysed_stamps, stamps).items():
            with self._database.writing() as session:
                session.execute(update(AnalysedSeries).filter_by(**old.key).values(branch=new.branch))
            analysed_stamps[new] = analysed_stamps.pop(old)
        stale = [series for series, stamp in stamps.items() if analysed_stamps.get(series) != stamp]
        self._total, self._waiting = len(stamps), len(stale)
        if removed := [series for series in analysed_stamps if series not in stamps]:
            with self._database.writing() as session:
                for series in removed:
                    session.execute(delete(AnalysedSeries).filter_by(**series.key))
        for start in range(0, len(stale), _AT_A_TIME):
            some = stale[start : start + _AT_A_TIME]
            histories = [self._history(series) for series in some]
            with self._database.writing() as session:
                for series, history in zip(some, histories, strict=True):
                    _store(session, series, history, stamps[series])
            self._waiting -= len(some)

    def _start_if_stale(self) -> None:
        with self._database.reading() as session:
            count, newest = session.execute(select(func.count(Run.number), func.max(Run.received))).one()
        now = (count, newest)
        with self._lock:
            if now == self._stamp or (self._worker is not None and self._worker.is_alive()):
                return
            self._worker = threading.Thread(target=self._work, args=(now,), daemon=True, name="analysis")
            self._worker.start()

    def _work(self, stamp: Stamp) -> None:
        try:
            self.analyse()
        except Exception:
            logger.exception("the histories could not be analysed; the next request tries again")
        else:
            self._stamp = stamp

    def _history(self, series: Series) -> History:
        """Return the history of one series; if an odd upload can't be analysed, log that and return an empty one."""
        with self._database.reading() as session:
            try:
                return history_of(session, series, with_positions=False)
            except (ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError):
                logger.exception("case %d can't be analysed", series.case_number)
                return History({}, (), (), {}, 0.0)


def _store(session: Session, series: Series, history: History, stamp: Stamp) -> None:
    """Store the analysis of a series, and update its change points."""
    components = history.components
    values = {
        "run_count": stamp[0],
        "newest": stamp[1],
        "builds": sum(len(part.nodes) for part in components),
        "runs": sum(part.edges for part in components),
        "p_value": min((1.0, *(len(components) * part.p_value for part in components))),
        "drift_log": components[0].drift.log_ratio if components else 0.0,
    }
    statement = upsert(session, AnalysedSeries).values(**series.key, **values)
    session.execute(statement.on_conflict_do_update(index_elements=list(series.key), set_=values))
    row = session.execute(select(AnalysedSeries).filter_by(**series.key)).scalar_one()
    changes = detect_changes(components, history.builds, history.minimal)
    follow(session, row, changes, history.order, history.minimal, datetime.now(UTC))


def _stamps(session: Session) -> dict[Series, Stamp]:
    """Return every series with its stamp: the same stamp means the same history."""
    counts = and_(Run.inject.is_(None), Result.trusted)
    key = (Result.case_number, Run.platform, Run.threads, Run.branch)
    query = (
        select(*key, func.sum(case((counts, 1), else_=0)), func.max(case((counts, Run.received))))
        .join(Run, Result.run_number == Run.number)
        .group_by(*key)
    )
    by_part: dict[Series, Stamp] = {Series(*row[:4]): (row[4], row[5]) for row in session.execute(query)}
    stamps: dict[Series, Stamp] = {}
    for part, series in by_branch(by_part).items():
        count, newest = by_part[part]
        if count:
            before = stamps.get(series, (0, None))
            stamps[series] = before[0] + count, max(moment for moment in (before[1], newest) if moment is not None)
    return stamps


def _newly_named(analysed: Collection[Series], stamps: Collection[Series]) -> dict[Series, Series]:
    """Return analysed series without a branch whose runs now belong to the only named branch, with their new series.
    They keep their change points and acknowledgements."""
    unnamed = {
        series: series.without_branch
        for series in stamps
        if series.is_only and series.branch and series not in analysed
    }
    return {old: new for new, old in unnamed.items() if old in analysed}


def _analysed_stamps(session: Session) -> dict[Series, Stamp]:
    """Return the series that have been analysed, with their stamps then."""
    return {Series.from_row(row): (row.run_count, row.newest) for row in session.scalars(select(AnalysedSeries))}
