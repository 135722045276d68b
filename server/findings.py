"""Lists of change points, for pages, the API, the feed and alerts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Literal

from fastapi import Query
from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session, aliased, joinedload

from opduel.comparator.significance import benjamini_hochberg
from opduel.server.histories import BuildName, Series
from opduel.server.models import UNKNOWN_THREADS, AnalysedSeries, Case, ChangePoint, Result, Run
from opduel.server.parameters import Branch, OperatorCategory, Words
from opduel.server.queries import equal, moment_of

ALERT_Q = 0.05  # expected share of false change points among those that alerts and feeds report
State = Literal["open", "acknowledged", "all"]
Direction = Literal["slower", "faster", "all"]


@dataclass(frozen=True)
class FindingFilter:
    """Conditions on change points, all of which must hold; None means any. Points that are gone never match.

    ``since``: found, or materially changed, on that day (UTC), or at that time, or later. ``q``: the largest q value.
    ``branch``: empty for histories whose runs name none. ``category``: that of a run of its history.
    ``operator_category``: the spec of the catalogue that its case is from. The fields are the parameters of a request,
    too.
    """

    state: State = "open"
    direction: Direction = "all"
    platform: Words | None = None
    framework: Words | None = None
    since: Annotated[date | None, Query(description="found, or materially changed, on this day (UTC) or later")] = None
    q: Annotated[float, Query(ge=0, le=1, description="the largest q value")] = 1.0
    branch: Branch = None
    category: Annotated[Words | None, Query(description="whose history has a run in this category")] = None
    operator_category: OperatorCategory = None


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
        """Return the interval of its log ratio."""
        return self.point.ci_low, self.point.ci_high

    @property
    def is_slower(self) -> bool:
        """Return whether it made the case worse."""
        return self.cost > 0

    @property
    def cost(self) -> float:
        """Return its log ratio with the sign that is above 0 if it made the case worse."""
        return self.point.log_ratio if self.case.lower_is_better else -self.point.log_ratio

    @property
    def ratio(self) -> float:
        """Return its ratio, new level / old level."""
        return exp(self.point.log_ratio)

    @property
    def where(self) -> str:
        """Return its place in words: ``a step at 0123456789ab``."""
        if self.point.kind == "step":
            return f"a step at {self.after.label}"
        if self.point.kind == "drift":
            return f"a drift over {self.point.builds} builds, up to {self.after.label}"
        return f"overall, from {self.before.label} to {self.after.label}, not at a particular build"


def list_findings(session: Session, finding_filter: FindingFilter) -> list[Finding]:
    """Return the change points that match, the worst first: the largest slowdown, ..., the largest gain."""
    q_values = _q_values(session)
    query = select(ChangePoint).where(*_conditions(finding_filter)).join(ChangePoint.series).join(AnalysedSeries.case)
    query = query.options(joinedload(ChangePoint.series).joinedload(AnalysedSeries.case))
    state = finding_filter.state
    findings = [
        _finding(point, q_values)
        for point in session.scalars(query)
        if state == "all" or point.is_acknowledged == (state == "acknowledged")
    ]
    return sorted(
        (finding for finding in findings if finding.q_value <= finding_filter.q),
        key=lambda finding: (-finding.cost, finding.case.case, finding.series.platform, finding.point.number),
    )


def find_findings(session: Session, numbers: Sequence[int]) -> list[Finding]:
    """Return the change points with these numbers; a number without one is left out."""
    q_values = _q_values(session)
    points = session.scalars(select(ChangePoint).where(ChangePoint.number.in_(numbers)))
    return [_finding(point, q_values) for point in points]


def count_series(session: Session) -> int:
    """Return how many histories have been analysed."""
    return len(_q_values(session))


def exp(log_ratio: float) -> float:
    """Return a log ratio as a finite ratio."""
    return math.exp(min(700.0, log_ratio))


def _q_values(session: Session) -> dict[int, float]:
    query = select(AnalysedSeries.number, AnalysedSeries.p_value).where(AnalysedSeries.builds > 0)
    rows = session.execute(query.order_by(AnalysedSeries.number)).all()
    q_values = benjamini_hochberg([row.p_value for row in rows])
    return {row.number: float(q) for row, q in zip(rows, q_values, strict=True)}


def _conditions(finding_filter: FindingFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [ChangePoint.gone.is_(None)]
    if finding_filter.direction != "all":
        is_higher, wants_higher = (
            ChangePoint.log_ratio > 0,
            Case.lower_is_better == (finding_filter.direction == "slower"),
        )
        conditions.append(or_(and_(is_higher, wants_higher), and_(~is_higher, ~wants_higher)))
    columns = (AnalysedSeries.platform, Case.framework, Case.operator_category, AnalysedSeries.branch)
    conditions += equal(finding_filter, *columns)
    if finding_filter.category is not None:
        conditions.append(_has_run_in(finding_filter.category))
    if (since := finding_filter.since) is not None:
        conditions.append(ChangePoint.changed >= (since if isinstance(since, datetime) else moment_of(since)))
    return conditions


def _has_run_in(category: str) -> ColumnElement[bool]:
    """Return the condition that the history has a run in the category."""
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


def _finding(point: ChangePoint, q_values: dict[int, float]) -> Finding:
    analysed, builds = point.series, (BuildName(**point.before), BuildName(**point.after))
    q_value = q_values.get(analysed.number, 1.0)
    return Finding(point, analysed.case, Series.from_row(analysed), *builds, analysed, q_value)
