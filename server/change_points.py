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
    found = []
    for one in (change for component in components for change in component.changes):
        kind, ends = "step" if one.builds == 1 else "drift", (builds[one.before], builds[one.after])
        found.append(Found(kind, *ends, one.builds, one.log_ratio, one.ci, one.p_value))
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
        else:
            known = ChangePoint(series_number=series.number, found=now)
            session.add(known)
        _update(known, one, minimal, now)
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


def _update(known: ChangePoint, one: Found, minimal: float, now: datetime) -> None:
    material = known.known_log is None or is_material(known, one.log_ratio, one.ci, minimal)
    known.kind, known.builds = one.kind, one.builds
    known.before, known.after = asdict(one.before), asdict(one.after)
    known.log_ratio, (known.ci_low, known.ci_high), known.p_value = one.log_ratio, one.ci, one.p_value
    known.gone = None
    if material:
        known.changed = now
        _remember(known)


def _remember(point: ChangePoint) -> None:
    point.known_log, point.known_low, point.known_high = point.log_ratio, point.ci_low, point.ci_high


def _ranges(known: ChangePoint, one: Found, order: Mapping[str, float]) -> list[list[float]] | None:
    """The places of both changes' builds; None if one of the builds has none any more."""
    nodes = ((known.before["node"], known.after["node"]), (one.before.node, one.after.node))
    return (
        None if any(node not in order for ends in nodes for node in ends) else [[order[a], order[b]] for a, b in nodes]
    )


def _is_same(known: ChangePoint, one: Found, order: Mapping[str, float]) -> bool:
    if (known.kind == "overall") != (one.kind == "overall") or (known.log_ratio > 0) != (one.log_ratio > 0):
        return False
    if one.kind == "overall":
        return True
    ranges = _ranges(known, one, order)
    return ranges is not None and ranges[0][0] <= ranges[1][1] and ranges[1][0] <= ranges[0][1]


def _distance(known: ChangePoint, one: Found, order: Mapping[str, float]) -> float:
    ranges = _ranges(known, one, order)
    return 0.0 if ranges is None else abs(sum(ranges[0]) - sum(ranges[1])) / 2
