"""Analysis of all cases' histories, on a thread beside the requests; its results are stored until new runs come."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import and_, case, delete, func, select, update
from sqlalchemy.orm import Session

from opduel.comparator.history.network_meta_analysis import Component, analyse_network, edge_from_interval
from opduel.records.build import AGAINST
from opduel.server.change_points import detect_changes, follow
from opduel.server.database import Database, upsert
from opduel.server.histories import (
    BUILD_COLUMNS,
    CONFIDENCE_ALPHA,
    BuildName,
    Series,
    build_of,
    by_branch,
    interval,
    node_order,
    sightings_of,
)
from opduel.server.logs import logger
from opduel.server.models import AnalysedSeries, Result, Run

METHOD = 1  # version of the analysis: when it changes, all histories are analysed again
# The number of runs, and when the last one was received. Its number would not do: that of a removed run may be reused.
Stamp = tuple[int, datetime | None]
_PATIENCE_S = 0.5  # how long a page waits for a computation that may be about to end
_AT_A_TIME = 20  # series that are stored together
_Runs = Mapping[int, tuple[Any, BuildName, BuildName]]  # by number: a run's columns, its control and its treatment


@dataclass(frozen=True)
class Progress:
    """Progress of the analysis: complete, or ``analysed`` of ``total`` series (0 of 0 at the start)."""

    analysed: int
    total: int
    is_complete: bool


@dataclass(frozen=True)
class _Analysed:
    """The analysis of one series; without components when it has no usable run."""

    series: Series
    components: Sequence[Component]
    builds: Mapping[str, BuildName]
    order: Mapping[str, float]
    minimal: float


class DriftAnalysis:
    """Keeps the analysis of a database's histories up to date, on a thread. Only series with new runs are analysed."""

    def __init__(self, database: Database) -> None:
        """Keep ``database``; the first call of ``progress`` or ``analyse`` starts the work."""
        self._database = database
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None  # of all runs, at the last computation
        self._total = self._waiting = 0
        self._worker: threading.Thread | None = None

    def progress(self, patience_s: float = _PATIENCE_S) -> Progress:
        """Start the analysis if there are new runs, wait for it ``patience_s`` at most, and return its progress."""
        self._start_if_stale()
        worker = self._worker
        if worker is not None:
            worker.join(patience_s)
        with self._lock:
            is_complete = self._worker is None or not self._worker.is_alive()
            return Progress(self._total - self._waiting, self._total, is_complete)

    def analyse(self) -> None:
        """Analyse all series with new runs.

        Raises:
            sqlalchemy.exc.DBAPIError: the database can't be used.
        """
        with self._database.reading() as session:
            runs, stamps = _runs(session), _stamps(session)
            analysed_stamps = _analysed_stamps(session)
        for old, new in _newly_named(analysed_stamps, stamps).items():
            with self._database.writing() as session:
                session.execute(update(AnalysedSeries).filter_by(**old.key).values(branch=new.branch))
            analysed_stamps[new] = analysed_stamps.pop(old)
        stale = [series for series, stamp in stamps.items() if analysed_stamps.get(series) != stamp]
        with self._lock:
            self._total, self._waiting = len(stamps), len(stale)
        if removed := [series for series in analysed_stamps if series not in stamps]:
            with self._database.writing() as session:
                for series in removed:
                    session.execute(delete(AnalysedSeries).filter_by(**series.key))
        for start in range(0, len(stale), _AT_A_TIME):
            some = stale[start : start + _AT_A_TIME]
            analysed = [self._analyse_series(series, runs) for series in some]
            with self._database.writing() as session:
                for result in analysed:
                    _store(session, result, stamps[result.series])
            with self._lock:
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
            with self._lock:
                self._stamp = stamp

    def _analyse_series(self, series: Series, runs: _Runs) -> _Analysed:
        """Analyse one series. One that fails, because of an odd upload, is logged and has no components."""
        with self._database.reading() as session:
            try:
                return _analysed(session, series, runs)
            except (ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError):
                logger.exception("case %d can't be analysed", series.case_number)
                return _Analysed(series, (), {}, {}, 0.0)


def _analysed(session: Session, series: Series, runs: _Runs) -> _Analysed:
    query = select(Result.run_number, Result.ratio, Result.ci_low, Result.ci_high, Result.threshold)
    edges, measured, apart, threshold = [], [], set(), 0.0
    trusted = query.where(Result.case_number == series.case_number, Result.trusted)
    rows = session.execute(trusted.order_by(Result.run_number))
    for number, ratio, low, high, its_threshold in rows:
        if number not in runs:
            continue
        run, control, treatment = runs[number]
        if (run.platform, run.threads) != (series.platform, series.threads):
            continue
        if not series.is_only and run.branch != series.branch:
            continue
        edge = edge_from_interval(control.node, treatment.node, ratio, interval(low, high), run.alpha)
        if edge is not None:
            edges.append(edge)
            measured += sightings_of(run, control, treatment)
            apart |= {control.node} if AGAINST in run.framework else set()
            threshold = its_threshold
    minimal, order = max(0.0, threshold / 2), node_order(measured, apart)
    components = analyse_network(
        edges, order, minimal=minimal, alpha=CONFIDENCE_ALPHA, with_positions=False, foreign=apart
    )
    return _Analysed(series, components, {build.node: build for _, _, build in measured}, order, minimal)


def _store(session: Session, analysed: _Analysed, stamp: Stamp) -> None:
    """Store the analysis of a series, and update its change points."""
    key = analysed.series.key
    values = {"run_count": stamp[0], "newest": stamp[1], "method": METHOD, **_figures(analysed)}
    statement = upsert(session, AnalysedSeries).values(**key, **values)
    session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))
    series = session.execute(select(AnalysedSeries).filter_by(**key)).scalar_one()
    changes = detect_changes(analysed.components, analysed.builds, analysed.minimal) if analysed.components else []
    follow(session, series, changes, analysed.order, analysed.minimal, datetime.now(UTC))


def _figures(analysed: _Analysed) -> dict[str, object]:
    if not analysed.components:
        none = dict.fromkeys(("drift_log", "drift_low", "drift_high", "minimal"), 0.0)
        return {"builds": 0, "runs": 0, "p_value": 1.0, "oldest": None, "newest_build": None, **none}
    drift = analysed.components[0].drift
    return {
        "builds": sum(len(part.nodes) for part in analysed.components),
        "runs": sum(part.edges for part in analysed.components),
        "p_value": min(1.0, len(analysed.components) * min(part.p_value for part in analysed.components)),
        "minimal": analysed.minimal,
        "oldest": asdict(analysed.builds[drift.oldest]),
        "newest_build": asdict(analysed.builds[drift.newest]),
        "drift_log": drift.log_ratio,
        "drift_low": drift.ci[0],
        "drift_high": drift.ci[1],
    }


def _runs(session: Session) -> _Runs:
    """Return all runs but those that slowed cases on purpose, by number."""
    columns = (Run.number, Run.framework, Run.platform, Run.threads, Run.branch, Run.started, Run.alpha, *BUILD_COLUMNS)
    rows = session.execute(select(*columns).where(Run.inject.is_(None)))
    return {row.number: (row, build_of(row, "control"), build_of(row, "treatment")) for row in rows}


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
    """Return the series that have been analysed, with their stamps then; (-1, None) if by another method."""
    rows = session.scalars(select(AnalysedSeries))
    return {Series.from_row(row): (row.run_count, row.newest) if row.method == METHOD else (-1, None) for row in rows}
