"""What changed over whole histories, all cases of the server: computed beside the requests, and kept while it holds."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from comparator.fdr import benjamini_hochberg
from comparator.history import Change, Component, Drift, case_history, edge_from_interval
from reporters.server.database import Database
from reporters.server.histories import (
    BUILD_COLUMNS,
    CONFIDENCE_ALPHA,
    BuildName,
    Series,
    build_of,
    interval,
    node_order,
)
from reporters.server.logs import logger
from reporters.server.models import Case, Result, Run

# How many runs, and when the last one came: by its number one could not tell, for that of a run that was removed may be
# given again.
Stamp = tuple[int, datetime | None]
_PATIENCE_S = 0.5  # how long a page waits for a computation that may be about to end


@dataclass(frozen=True)
class Finding:
    """One series whose history was weighed: the component with its newest build, and the changes of all.

    ``p_value`` is against "no change anywhere"; ``q_value`` after the false-discovery correction over all series.
    """

    series: Series
    framework: str
    case: str
    operator: str
    metric: str
    builds: int
    runs: int
    drift: Drift
    changes: tuple[Change, ...]
    names: dict[str, BuildName]  # of the builds that drift and changes name
    p_value: float
    q_value: float
    minimal: float

    @property
    def largest(self) -> Change | None:
        """The largest slowdown; the largest change of any kind when nothing got slower, None when nothing changed."""
        slower = [one for one in self.changes if one.log_ratio > 0]
        return max(slower or self.changes, key=lambda one: abs(one.log_ratio), default=None)

    @property
    def severity(self) -> float:
        """The largest slowdown that is shown, in log ratio: of a change, or of a drift beyond chance; negative for what
        got faster only."""
        sizes = [one.log_ratio for one in self.changes]
        return max(sizes + ([self.drift.log_ratio] if self.is_drifting else []), default=0.0)

    @property
    def is_drifting(self) -> bool:
        """Whether the newest build's interval against the oldest lies beyond the smallest change that is told."""
        low, high = self.drift.ci
        bound = math.log1p(self.minimal)
        return low > bound or high < -bound


@dataclass(frozen=True)
class Overview:
    """What is known: all if ``is_complete``, else ``weighed`` of ``total`` series so far (0 of 0 at the start)."""

    findings: Sequence[Finding]
    weighed: int
    total: int
    is_complete: bool
    seconds: float  # that the last computation took, or has taken so far


@dataclass(frozen=True)
class _RunBuilds:
    """What histories need of a run that counts."""

    platform: str
    threads: int | None
    started: datetime
    alpha: float
    control: BuildName
    treatment: BuildName


class Creep:
    """Keeps the overview of one database: only series with new runs are weighed again, on a thread of its own."""

    def __init__(self, database: Database) -> None:
        """Nothing is weighed before it is asked for."""
        self._database = database
        self._lock = threading.Lock()
        self._seen: Stamp | None = None  # of all runs, at the last computation
        self._known: dict[Series, tuple[Stamp, Finding | None]] = {}
        self._total = self._left = 0
        self._began = self._took = 0.0
        self._worker: threading.Thread | None = None

    def overview(self, patience_s: float = _PATIENCE_S) -> Overview:
        """What is known, after ``patience_s`` at most; begins to weigh what is new, if anything is."""
        self._start_if_stale()
        worker = self._worker
        if worker is not None:
            worker.join(patience_s)
        with self._lock:
            findings = [finding for _, finding in self._known.values() if finding is not None]
            is_complete = self._worker is None or not self._worker.is_alive()
            took = self._took if is_complete else time.monotonic() - self._began
            return Overview(_with_q(findings), self._total - self._left, self._total, is_complete, took)

    def _start_if_stale(self) -> None:
        with self._database.reading() as session:
            count, newest = session.execute(select(func.count(Run.number), func.max(Run.received))).one()
        now = (count, newest)
        with self._lock:
            if now == self._seen or (self._worker is not None and self._worker.is_alive()):
                return
            self._began = time.monotonic()
            self._worker = threading.Thread(target=self._work, args=(now,), daemon=True, name="creep")
            self._worker.start()

    def _work(self, seen: Stamp) -> None:
        try:
            self._weigh_all()
        except Exception:
            logger.exception("the histories could not be weighed; they will be at the next request")
        else:
            with self._lock:
                self._seen, self._took = seen, time.monotonic() - self._began

    def _weigh_all(self) -> None:
        with self._database.reading() as session:
            runs, stamps = _runs(session), _stamps(session)
        with self._lock:
            self._known = {series: known for series, known in self._known.items() if series in stamps}
            stale = [one for one, stamp in stamps.items() if one not in self._known or self._known[one][0] != stamp]
            self._total, self._left = len(stamps), len(stale)
        for series in stale:
            finding = self._one(series, runs)
            with self._lock:
                self._known[series] = (stamps[series], finding)
                self._left -= 1

    def _one(self, series: Series, runs: Mapping[int, _RunBuilds]) -> Finding | None:
        """The finding of one series. One that fails, by whatever strangers sent, is no reason to lose the others."""
        with self._database.reading() as session:
            try:
                return _weighed(session, series, runs)
            except (ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError):
                logger.exception("case %d can't be weighed", series.case_number)
                return None


def _weighed(session: Session, series: Series, runs: Mapping[int, _RunBuilds]) -> Finding | None:
    """The finding of one series; None when no run counts."""
    query = select(Result.run_number, Result.ratio, Result.ci_low, Result.ci_high, Result.threshold)
    edges, seen, threshold = [], [], 0.0
    rows = session.execute(query.where(Result.case_number == series.case_number).order_by(Result.run_number))
    for number, ratio, low, high, its_threshold in rows:
        run = runs.get(number)
        if run is None or (run.platform, run.threads) != (series.platform, series.threads):
            continue
        edge = edge_from_interval(run.control.node, run.treatment.node, ratio, interval(low, high), run.alpha)
        if edge is not None:
            edges.append(edge)
            seen += [(run.started, run.control), (run.started, run.treatment)]
            threshold = its_threshold
    if not edges:
        return None
    minimal = max(0.0, threshold / 2)
    found = case_history(edges, node_order(seen), minimal=minimal, alpha=CONFIDENCE_ALPHA, with_positions=False)
    return _finding(session, series, found, {build.node: build for _, build in seen}, minimal)


def _finding(
    session: Session, series: Series, found: Sequence[Component], builds: dict[str, BuildName], minimal: float
) -> Finding:
    case = session.get_one(Case, series.case_number)
    changes = tuple(change for one in found for change in one.changes)
    drift = found[0].drift
    named = {drift.oldest, drift.newest, *(node for one in changes for node in (one.before, one.after))}
    return Finding(
        series=series,
        framework=case.framework,
        case=case.case,
        operator=case.operator,
        metric=case.metric,
        builds=sum(len(one.nodes) for one in found),
        runs=sum(one.edges for one in found),
        drift=drift,
        changes=changes,
        names={node: builds[node] for node in named},
        p_value=min(1.0, len(found) * min(one.p_value for one in found)),
        q_value=1.0,
        minimal=minimal,
    )


def _runs(session: Session) -> dict[int, _RunBuilds]:
    """All runs that count, by number."""
    columns = (Run.number, Run.platform, Run.threads, Run.started, Run.alpha, *BUILD_COLUMNS)
    rows = session.execute(select(*columns).where(Run.inject.is_(None), Run.trusted))
    return {
        row.number: _RunBuilds(
            row.platform, row.threads, row.started, row.alpha, build_of(row, "control"), build_of(row, "treatment")
        )
        for row in rows
    }


def _stamps(session: Session) -> dict[Series, Stamp]:
    """Every series with its stamp: when that is the same, so is its history."""
    query = (
        select(Result.case_number, Run.platform, Run.threads, func.count(), func.max(Run.received))
        .join(Run, Result.run_number == Run.number)
        .where(Run.inject.is_(None), Run.trusted)
        .group_by(Result.case_number, Run.platform, Run.threads)
    )
    return {Series(row[0], row[1], row[2]): (row[3], row[4]) for row in session.execute(query)}


def _with_q(findings: Sequence[Finding]) -> list[Finding]:
    """``findings`` with their q values, the worst first."""
    q_values = benjamini_hochberg([one.p_value for one in findings])
    told = [replace(one, q_value=q) for one, q in zip(findings, q_values, strict=True)]
    return sorted(told, key=lambda one: (-one.severity, one.case, one.series.platform))
