"""Change points as they are followed: the same one over many weighings, when it changed materially, who knows of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from opduel.comparator.network_meta_analysis import Component
from opduel.server.histories import BuildName
from opduel.server.models import AnalysedSeries, ChangePoint

LONGEST_NOTE = 1000  # characters


@dataclass(frozen=True)
class Found:
    """One change of a history, as a weighing finds it; ``kind`` as in ``ChangePoint``."""

    kind: str
    before: BuildName
    after: BuildName
    builds: int
    log_ratio: float
    ci: tuple[float, float]
    p_value: float


def found_in(components: Sequence[Component], builds: Mapping[str, BuildName], minimal: float) -> list[Found]:
    """The changes of all components of a history; where there are none, the newest build against the oldest, if its
    interval lies beyond the smallest change that is reported (``minimal``, a share)."""
    found = [
        Found(
            "step" if one.builds == 1 else "drift",
            builds[one.before],
            builds[one.after],
            one.builds,
            one.log_ratio,
            one.ci,
            one.p_value,
        )
        for component in components
        for one in component.changes
    ]
    if found:
        return found
    whole, bound = components[0], math.log1p(minimal)
    drift = whole.drift
    if -bound <= drift.ci[1] and drift.ci[0] <= bound:
        return []
    steps = len(whole.nodes) - 1
    ends = builds[drift.oldest], builds[drift.newest]
    return [Found("overall", *ends, steps, drift.log_ratio, drift.ci, whole.p_value)]


def follow(
    session: Session,
    series: AnalysedSeries,
    found: Sequence[Found],
    order: Mapping[str, float],
    minimal: float,
    now: datetime,
) -> None:
    """Bring the change points of ``series`` up to what a weighing found.

    The largest first, each is the known one of its direction whose range of builds overlaps or touches its own, the
    nearest if there are several: with more runs a change moves by some builds, and its size a little. One that is known
    no longer is marked as gone, and is the same again if it comes back.
    """
    query = select(ChangePoint).where(ChangePoint.series_number == series.number).order_by(ChangePoint.number)
    left = list(session.scalars(query.with_for_update()))
    for one in sorted(found, key=lambda one: -abs(one.log_ratio)):
        same = [known for known in left if _is_same(known, one, order)]
        if same:
            known = min(same, key=lambda known: (known.gone is not None, _distance(known, one, order)))
            left.remove(known)
            _update(known, one, minimal, now)
        else:
            session.add(_new(series, one, now))
    for known in left:
        known.gone = known.gone or now


def acknowledge(point: ChangePoint, name: str, note: str, now: datetime) -> None:
    """``name`` (of a token) knows of ``point`` as it is now."""
    point.acknowledged, point.acknowledged_by, point.note = now, name, note
    _remember(point)


def withdraw(point: ChangePoint) -> None:
    """Nobody knows of ``point`` any more."""
    point.acknowledged = point.acknowledged_by = point.note = None


def is_material(point: ChangePoint, log_ratio: float, ci: tuple[float, float], minimal: float) -> bool:
    """Whether these figures are another change than the one that is known: by more than the smallest that is reported,
    and by more than chance, in that neither interval holds the other's estimate."""
    return (
        abs(log_ratio - point.known_log) > math.log1p(minimal)
        and not point.known_low <= log_ratio <= point.known_high
        and not ci[0] <= point.known_log <= ci[1]
    )


def _new(series: AnalysedSeries, one: Found, now: datetime) -> ChangePoint:
    low, high = one.ci
    return ChangePoint(
        series_number=series.number,
        kind=one.kind,
        before=asdict(one.before),
        after=asdict(one.after),
        builds=one.builds,
        log_ratio=one.log_ratio,
        ci_low=low,
        ci_high=high,
        p_value=one.p_value,
        found=now,
        changed=now,
        known_log=one.log_ratio,
        known_low=low,
        known_high=high,
    )


def _update(known: ChangePoint, one: Found, minimal: float, now: datetime) -> None:
    material = is_material(known, one.log_ratio, one.ci, minimal)
    known.kind, known.builds = one.kind, one.builds
    known.before, known.after = asdict(one.before), asdict(one.after)
    known.log_ratio, (known.ci_low, known.ci_high), known.p_value = one.log_ratio, one.ci, one.p_value
    known.gone = None
    if material:
        known.changed = now
        _remember(known)


def _remember(point: ChangePoint) -> None:
    point.known_log, point.known_low, point.known_high = point.log_ratio, point.ci_low, point.ci_high


def _range(before: str, after: str, order: Mapping[str, float]) -> tuple[float, float] | None:
    return (order[before], order[after]) if before in order and after in order else None


def _is_same(known: ChangePoint, one: Found, order: Mapping[str, float]) -> bool:
    if (known.kind == "overall") != (one.kind == "overall") or (known.log_ratio > 0) != (one.log_ratio > 0):
        return False
    if one.kind == "overall":
        return True
    its = _range(known.before["node"], known.after["node"], order)
    mine = _range(one.before.node, one.after.node, order)
    return its is not None and mine is not None and its[0] <= mine[1] and mine[0] <= its[1]


def _distance(known: ChangePoint, one: Found, order: Mapping[str, float]) -> float:
    its = _range(known.before["node"], known.after["node"], order)
    mine = _range(one.before.node, one.after.node, order)
    return 0.0 if its is None or mine is None else abs(sum(its) - sum(mine)) / 2
