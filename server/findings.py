"""The change points that there are, as pages, the API, the feed and alerts list them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Literal

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session, aliased, joinedload

from opduel.comparator.significance import benjamini_hochberg
from opduel.server.histories import BuildName, Series
from opduel.server.models import UNKNOWN_THREADS, AnalysedSeries, Case, ChangePoint, Result, Run
from opduel.server.queries import distinct, equal

ALERT_Q = 0.05  # the share of false ones to expect among those that alerts and feeds report
State = Literal["open", "acknowledged", "all"]
Direction = Literal["slower", "faster", "all"]


@dataclass(frozen=True)
class Wanted:
    """Which change points: those for which everything holds.

    ``since``: found, or materially changed, at that time or later. ``q``: at most this q value. ``branch``: empty for
    histories whose runs name none. ``category``: its history has a run in it. ``operator_category``: its case is from
    that spec of the catalogue. Those that are gone are never listed.
    """

    state: State = "open"
    direction: Direction = "all"
    platform: str | None = None
    framework: str | None = None
    since: datetime | None = None
    q: float = 1.0
    branch: str | None = None
    category: str | None = None
    operator_category: str | None = None


@dataclass(frozen=True)
class Finding:
    """A change point with its case and series. ``q_value`` is after the false-discovery correction over all series."""

    point: ChangePoint
    case: Case
    series: Series
    before: BuildName
    after: BuildName
    analysed: AnalysedSeries
    q_value: float

    @property
    def ci(self) -> tuple[float, float]:
        """The interval of its size, in log ratio."""
        return self.point.ci_low, self.point.ci_high

    @property
    def is_slower(self) -> bool:
        """Whether it made the case slower, or larger; or lower, where more is better."""
        return self.cost > 0

    @property
    def cost(self) -> float:
        """Its size as a log ratio, above 0 where it made the case worse."""
        return self.point.log_ratio if self.case.lower_is_better else -self.point.log_ratio

    @property
    def ratio(self) -> float:
        """Its size as a ratio."""
        return exp(self.point.log_ratio)

    @property
    def where(self) -> str:
        """Where it is, in words: ``a step at 0123456789ab``."""
        if self.point.kind == "step":
            return f"a step at {self.after.label}"
        if self.point.kind == "drift":
            return f"a drift over {self.point.builds} builds, up to {self.after.label}"
        return f"overall, from {self.before.label} to {self.after.label}, not at a particular build"


def list_findings(session: Session, wanted: Wanted) -> list[Finding]:
    """The change points that ``wanted`` lets through, the worst first: the largest slowdown, ..., the largest gain."""
    q_values = _q_values(session)
    query = select(ChangePoint).where(*_conditions(wanted)).join(ChangePoint.series).join(AnalysedSeries.case)
    query = query.options(joinedload(ChangePoint.series).joinedload(AnalysedSeries.case))
    found = [_finding(point, q_values) for point in session.scalars(query)]
    listed = [one for one in found if one.q_value <= wanted.q and _has_state(one.point, wanted.state)]
    return sorted(listed, key=lambda one: (-one.cost, one.case.case, one.series.platform, one.point.number))


def find_findings(session: Session, numbers: Sequence[int]) -> list[Finding]:
    """The change points of these numbers, as far as there are any."""
    q_values = _q_values(session)
    points = session.scalars(select(ChangePoint).where(ChangePoint.number.in_(numbers)))
    return [_finding(point, q_values) for point in points]


def count_series(session: Session) -> int:
    """How many histories have been weighed."""
    return len(_q_values(session))


def drift_choices(session: Session) -> dict[str, list[str]]:
    """What there is to choose from: platforms and branches of histories, categories of runs and of operators."""
    return distinct(session, AnalysedSeries.platform, AnalysedSeries.branch, Run.category, Case.operator_category)


def exp(log_ratio: float) -> float:
    """A log ratio as a ratio, which is finite."""
    return math.exp(min(700.0, log_ratio))


def moment_of(day: date) -> datetime:
    """The beginning of a day, UTC."""
    return datetime.combine(day, time(), UTC)


def _q_values(session: Session) -> dict[int, float]:
    query = select(AnalysedSeries.number, AnalysedSeries.p_value).where(AnalysedSeries.builds > 0)
    rows = session.execute(query.order_by(AnalysedSeries.number)).all()
    q_values = benjamini_hochberg([row.p_value for row in rows])
    return {row.number: float(q) for row, q in zip(rows, q_values, strict=True)}


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [ChangePoint.gone.is_(None)]
    if wanted.direction != "all":
        is_higher, wants_higher = ChangePoint.log_ratio > 0, Case.lower_is_better == (wanted.direction == "slower")
        found.append(or_(and_(is_higher, wants_higher), and_(~is_higher, ~wants_higher)))
    columns = (AnalysedSeries.platform, Case.framework, Case.operator_category, AnalysedSeries.branch)
    found += equal(wanted, *columns)
    if wanted.category is not None:
        found.append(_has_run_in(wanted.category))
    if wanted.since is not None:
        found.append(ChangePoint.changed >= wanted.since)
    return found


def _has_run_in(category: str) -> ColumnElement[bool]:
    """That the history has a run in the category."""
    threads = func.coalesce(Run.threads, UNKNOWN_THREADS) == AnalysedSeries.threads
    of_series = (Run.platform == AnalysedSeries.platform, threads, Result.case_number == AnalysedSeries.case_number)
    other = aliased(AnalysedSeries)
    same = [getattr(other, name) == getattr(AnalysedSeries, name) for name in ("case_number", "platform", "threads")]
    is_only = ~select(other.number).where(*same, other.number != AnalysedSeries.number).exists()
    branch = or_(
        func.coalesce(Run.branch, "") == AnalysedSeries.branch, and_(Run.branch.is_(None), is_only)
    )  # as histories.by_branch has it
    runs = select(Result.run_number).join(Run, Result.run_number == Run.number)
    return runs.where(Run.category == category, *of_series, branch).exists()


def _has_state(point: ChangePoint, state: State) -> bool:
    return state == "all" or point.is_acknowledged == (state == "acknowledged")


def _finding(point: ChangePoint, q_values: dict[int, float]) -> Finding:
    analysed, ends = point.series, (BuildName(**point.before), BuildName(**point.after))
    q_value = q_values.get(analysed.number, 1.0)
    return Finding(point, analysed.case, Series.kept(analysed), *ends, analysed, q_value)
