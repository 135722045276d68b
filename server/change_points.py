"""Change points over time: matched from one analysis to the next, changed materially or not, acknowledged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from opduel.comparator.history.network_meta_analysis import Component
from opduel.server.histories import BuildName
from opduel.server.models import AnalysedSeries, ChangePoint

LONGEST_NOTE = 1000  # characters


@dataclass(frozen=True)
class DetectedChange:
    """One change of a history, as one analysis detects it; ``kind`` as in ``ChangePoint``."""

    kind: str
    before: BuildName
    after: BuildName
    builds: int
    log_ratio: float
    ci: tuple[float, float]
    p_value: float


def detect_changes(
    components: Sequence[Component], builds: Mapping[str, BuildName], minimal: float
) -> list[DetectedChange]:
    """Return the changes of all components of a history. If there are none, compare the newest build with the oldest,
    and return that as a change if its interval lies beyond ``minimal``, the smallest change to report (a share)."""
    detected = []
    for component in components:
        for change in component.changes:
            kind = "step" if change.builds == 1 else "drift"
            before, after = builds[change.before], builds[change.after]
            figures = change.log_ratio, change.ci, change.p_value
            detected.append(DetectedChange(kind, before, after, change.builds, *figures))
    if detected or not components:
        return detected
    first_component, bound = components[0], math.log1p(minimal)
    drift = first_component.drift
    if -bound <= drift.ci[1] and drift.ci[0] <= bound:
        return []
    steps = len(first_component.nodes) - 1
    builds_around = builds[drift.oldest], builds[drift.newest]
    return [DetectedChange("overall", *builds_around, steps, drift.log_ratio, drift.ci, first_component.p_value)]


def follow(
    session: Session,
    series: AnalysedSeries,
    detected: Sequence[DetectedChange],
    order: Mapping[str, float],
    minimal: float,
    now: datetime,
) -> None:
    """Update the stored change points of ``series`` by what the latest analysis detected.

    A detected change, the largest first, is matched to the stored point of the same direction whose range of builds
    overlaps or touches its own, the nearest if there are several: with more runs a change may move by some builds. A
    stored point without a match is marked as gone; it can be matched again later.
    """
    query = select(ChangePoint).where(ChangePoint.series_number == series.number).order_by(ChangePoint.number)
    unmatched = list(session.scalars(query.with_for_update()))
    for change in sorted(detected, key=lambda change: -abs(change.log_ratio)):
        same = [point for point in unmatched if _is_same(point, change, order)]
        if same:
            point = min(same, key=lambda point: (point.gone is not None, _distance(point, change, order)))
            unmatched.remove(point)
        else:
            point = ChangePoint(series_number=series.number, found=now)
            session.add(point)
        _update(point, change, minimal, now)
    for point in unmatched:
        point.gone = point.gone or now


def acknowledge(point: ChangePoint, name: str, note: str, now: datetime) -> None:
    """Record that ``name`` (of a token) knows of ``point`` in its present state."""
    point.acknowledged, point.acknowledged_by, point.note = now, name, note
    _remember(point)


def withdraw(point: ChangePoint) -> None:
    """Remove the acknowledgement of ``point``."""
    point.acknowledged = point.acknowledged_by = point.note = None


def is_material(point: ChangePoint, log_ratio: float, ci: tuple[float, float], minimal: float) -> bool:
    """Return whether these figures differ materially from those recorded last: by more than the smallest change that is
    reported, and by more than chance, in that neither interval contains the other's estimate."""
    return (
        abs(log_ratio - point.known_log) > math.log1p(minimal)
        and not point.known_low <= log_ratio <= point.known_high
        and not ci[0] <= point.known_log <= ci[1]
    )


def _update(point: ChangePoint, change: DetectedChange, minimal: float, now: datetime) -> None:
    material = point.known_log is None or is_material(point, change.log_ratio, change.ci, minimal)
    point.kind, point.builds = change.kind, change.builds
    point.before, point.after = asdict(change.before), asdict(change.after)
    point.log_ratio, (point.ci_low, point.ci_high), point.p_value = change.log_ratio, change.ci, change.p_value
    point.gone = None
    if material:
        point.changed = now
        _remember(point)


def _remember(point: ChangePoint) -> None:
    point.known_log, point.known_low, point.known_high = point.log_ratio, point.ci_low, point.ci_high


def _ranges(point: ChangePoint, change: DetectedChange, order: Mapping[str, float]) -> list[list[float]] | None:
    """Return the ranks of both changes' builds; None if one of the builds is no longer in ``order``."""
    nodes = ((point.before["node"], point.after["node"]), (change.before.node, change.after.node))
    if any(node not in order for pair in nodes for node in pair):
        return None
    return [[order[first], order[last]] for first, last in nodes]


def _is_same(point: ChangePoint, change: DetectedChange, order: Mapping[str, float]) -> bool:
    if (point.kind == "overall") != (change.kind == "overall") or (point.log_ratio > 0) != (change.log_ratio > 0):
        return False
    if change.kind == "overall":
        return True
    ranges = _ranges(point, change, order)
    return ranges is not None and ranges[0][0] <= ranges[1][1] and ranges[1][0] <= ranges[0][1]


def _distance(point: ChangePoint, change: DetectedChange, order: Mapping[str, float]) -> float:
    ranges = _ranges(point, change, order)
    return 0.0 if ranges is None else abs(sum(ranges[0]) - sum(ranges[1])) / 2
