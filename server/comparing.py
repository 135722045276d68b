"""Two runs beside each other: the cases of either, and what both imply together by a build that they share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats
from sqlalchemy.orm import Session

from opduel.comparator.indirect_comparison import IndirectEstimate, Link, indirect_estimate, link
from opduel.comparator.network_meta_analysis import Edge, edge_from_interval
from opduel.reporters.units import human_share
from opduel.server.histories import CONFIDENCE_ALPHA, BuildName, build_of, interval, node_order
from opduel.server.models import Run
from opduel.server.queries import results_worst_first

_MANY_TIMES = 11.0  # a change from which on it is a factor in words


@dataclass(frozen=True)
class Pair:
    """One case in both runs; None where a run doesn't have it, or nothing can be implied."""

    case_number: int
    case: str
    metric: str
    first: Any | None
    second: Any | None
    indirect_estimate: IndirectEstimate | None


@dataclass(frozen=True)
class Beside:
    """Two runs' cases, those with the largest implied change first, and how the runs are linked."""

    link: Link | None
    older: BuildName | None  # of the implied changes; None without a link
    newer: BuildName | None
    pairs: Sequence[Pair]

    @property
    def told(self) -> Sequence[Pair]:
        """Those whose implied change is beyond chance, the largest first."""
        return [
            one for one in self.pairs if one.indirect_estimate is not None and _excludes_zero(one.indirect_estimate)
        ]


def compare_runs(session: Session, first: Run, second: Run) -> Beside:
    """All cases of either run, side by side; what they imply is of the newer build against the older one."""
    before = {row.case_number: row for row in results_worst_first(session, first)}
    after = {row.case_number: row for row in results_worst_first(session, second)}
    names = {one.node: one for run in (first, second) for one in _builds(run)}
    how = link(
        _nodes(first), _nodes(second), node_order((run.started, one) for run in (first, second) for one in _builds(run))
    )
    z = float(stats.norm.ppf(1 - CONFIDENCE_ALPHA / 2))
    pairs = []
    for number in [*before, *(number for number in after if number not in before)]:
        one, other = before.get(number), after.get(number)
        known = one if one is not None else other
        assert known is not None
        edges = (_edge(first, one), _edge(second, other))
        both = indirect_estimate(how, edges[0], edges[1], z) if how is not None and edges[0] and edges[1] else None
        pairs.append(Pair(number, known.case, known.metric, one, other, both))
    older, newer = (names[how.older], names[how.newer]) if how is not None else (None, None)
    return Beside(how, older, newer, sorted(pairs, key=_size, reverse=True))


def in_words(log_ratio: float, metric: str, newer: str, older: str) -> str:
    """``NEW is 6.6 % slower than OLD``: an implied change and its direction."""
    ratio = math.exp(min(700.0, log_ratio))
    share = human_share(abs(ratio - 1))
    is_time = metric == "time"
    if share == human_share(0):
        return f"{newer} takes as long as {older}" if is_time else f"the {metric} of {newer} is that of {older}"
    if ratio >= _MANY_TIMES:
        return (
            f"{newer} takes {ratio:.3g} times as long as {older}"
            if is_time
            else (f"the {metric} of {newer} is {ratio:.3g} times that of {older}")
        )
    if is_time:
        return (
            f"{newer} is {share} slower than {older}" if ratio > 1 else f"{newer} takes {share} less time than {older}"
        )
    return f"the {metric} of {newer} is {share} {'larger' if ratio > 1 else 'smaller'} than that of {older}"


def _builds(run: Run) -> tuple[BuildName, BuildName]:
    return build_of(run, "control"), build_of(run, "treatment")


def _nodes(run: Run) -> tuple[str, str]:
    control, treatment = _builds(run)
    return control.node, treatment.node


def _excludes_zero(found: IndirectEstimate) -> bool:
    return found.ci[0] > 0 or found.ci[1] < 0


def _edge(run: Run, row: Any | None) -> Edge | None:
    """The row's edge. A build against itself says something here, too: that nothing should have changed."""
    if row is None or run.inject is not None:
        return None
    return edge_from_interval("control", "treatment", row.ratio, interval(row.ci_low, row.ci_high), run.alpha)


def _size(pair: Pair) -> tuple[bool, float]:
    return pair.indirect_estimate is not None, abs(
        pair.indirect_estimate.log_ratio
    ) if pair.indirect_estimate is not None else 0.0
