"""Two runs beside each other: the cases of either, and what both imply together by a build that they share."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from sqlalchemy.orm import Session

from opduel.comparator.network_meta_analysis import (
    Edge,
    IndirectEstimate,
    Link,
    edge_from_interval,
    indirect_estimate,
    link,
)
from opduel.reporters.units import human_share
from opduel.server.findings import exp
from opduel.server.histories import CONFIDENCE_ALPHA, BuildName, build_of, interval, node_order, seen_of
from opduel.server.models import Run
from opduel.server.queries import results_worst_first

_SAME = 0.0005  # a change, as a share, that is none in words
_MANY_TIMES = 11.0  # a change from which on it is a factor in words


@dataclass(frozen=True)
class Pair:
    """One case in both runs; None where a run doesn't have it, or nothing can be implied."""

    case_number: int
    case: str
    metric: str
    lower_is_better: bool
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
        """Those whose implied change is beyond chance, and a change in words, the largest first."""
        found = ((one, one.indirect_estimate) for one in self.pairs)
        beyond = ((pair, one) for pair, one in found if one is not None and (one.ci[0] > 0 or one.ci[1] < 0))
        return [pair for pair, one in beyond if abs(exp(one.log_ratio) - 1) >= _SAME]


def compare_runs(session: Session, first: Run, second: Run) -> Beside:
    """All cases of either run, side by side; what they imply is of the newer build against the older one."""
    before = {row.case_number: row for row in results_worst_first(session, first)}
    after = {row.case_number: row for row in results_worst_first(session, second)}
    runs = [(run, build_of(run, "control"), build_of(run, "treatment")) for run in (first, second)]
    builds = [one for of_run in runs for one in seen_of(*of_run)]
    names = {one.node: one for _, _, one in builds}
    nodes = [one.node for _, _, one in builds]
    how = link((nodes[0], nodes[1]), (nodes[2], nodes[3]), node_order(builds))
    z = NormalDist().inv_cdf(1 - CONFIDENCE_ALPHA / 2)
    pairs = []
    for number in [*before, *(number for number in after if number not in before)]:
        one, other = before.get(number), after.get(number)
        known = one if one is not None else other
        assert known is not None
        edges = (_edge(first, one), _edge(second, other))
        both = indirect_estimate(how, edges[0], edges[1], z) if how is not None and edges[0] and edges[1] else None
        pairs.append(Pair(number, known.case, known.metric, known.lower_is_better, one, other, both))
    older, newer = (names[how.older], names[how.newer]) if how is not None else (None, None)
    return Beside(how, older, newer, sorted(pairs, key=_size, reverse=True))


def in_words(log_ratio: float, metric: str, newer: str, older: str) -> str:
    """``NEW is 6.6 % slower than OLD``: an implied change and its direction."""
    ratio = exp(log_ratio)
    share, is_same = human_share(abs(ratio - 1)), abs(ratio - 1) < _SAME
    if metric == "time":
        if is_same:
            return f"{newer} takes as long as {older}"
        if ratio >= _MANY_TIMES:
            return f"{newer} takes {ratio:.3g} times as long as {older}"
        words = f"is {share} slower than" if ratio > 1 else f"takes {share} less time than"
        return f"{newer} {words} {older}"
    if is_same:
        return f"the {metric} of {newer} is that of {older}"
    if ratio >= _MANY_TIMES:
        return f"the {metric} of {newer} is {ratio:.3g} times that of {older}"
    return f"the {metric} of {newer} is {share} {'larger' if ratio > 1 else 'smaller'} than that of {older}"


def _edge(run: Run, row: Any | None) -> Edge | None:
    """The row's edge. A build against itself says something here, too: that nothing should have changed."""
    if row is None or run.inject is not None:
        return None
    return edge_from_interval("control", "treatment", row.ratio, interval(row.ci_low, row.ci_high), run.alpha)


def _size(pair: Pair) -> tuple[bool, float]:
    implied = pair.indirect_estimate
    return implied is not None, 0.0 if implied is None else abs(implied.log_ratio)
