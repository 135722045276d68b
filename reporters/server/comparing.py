"""Two runs beside each other: the cases of either, and what both imply together by a build that they share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats
from sqlalchemy.orm import Session

from comparator.history import Edge, edge_from_interval
from comparator.implied import Implied, Link, implied, link
from reporters.server.histories import CONFIDENCE_ALPHA, build_of, interval
from reporters.server.listing import results_worst_first
from reporters.server.models import Run


@dataclass(frozen=True)
class Pair:
    """One case in both runs; None where a run doesn't have it, or nothing can be implied."""

    case_number: int
    case: str
    metric: str
    first: Any | None
    second: Any | None
    implied: Implied | None


@dataclass(frozen=True)
class Beside:
    """Two runs' cases, those with the largest implied change first, and how the runs are linked."""

    link: Link | None
    pairs: Sequence[Pair]


def compare_runs(session: Session, first: Run, second: Run) -> Beside:
    """All cases of either run, side by side."""
    before = {row.case_number: row for row in results_worst_first(session, first)}
    after = {row.case_number: row for row in results_worst_first(session, second)}
    how = link(_nodes(first), _nodes(second))
    z = float(stats.norm.ppf(1 - CONFIDENCE_ALPHA / 2))
    pairs = []
    for number in [*before, *(number for number in after if number not in before)]:
        one, other = before.get(number), after.get(number)
        known = one if one is not None else other
        assert known is not None
        edges = (_edge(first, one), _edge(second, other))
        both = implied(how, edges[0], edges[1], z) if how is not None and edges[0] and edges[1] else None
        pairs.append(Pair(number, known.case, known.metric, one, other, both))
    return Beside(how, sorted(pairs, key=_size, reverse=True))


def _nodes(run: Run) -> tuple[str, str]:
    return build_of(run, "control").node, build_of(run, "treatment").node


def _edge(run: Run, row: Any | None) -> Edge | None:
    """The row's edge. A build against itself says something here, too: that nothing should have changed."""
    if row is None or run.inject is not None:
        return None
    return edge_from_interval("control", "treatment", row.ratio, interval(row.ci_low, row.ci_high), run.alpha)


def _size(pair: Pair) -> tuple[bool, float]:
    return pair.implied is not None, abs(pair.implied.log_ratio) if pair.implied is not None else 0.0
