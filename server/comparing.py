"""Comparison of two runs: their cases side by side, and the changes that both imply through a build that they share."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from sqlalchemy.orm import Session

from opduel.comparator.history.network_meta_analysis import (
    Edge,
    IndirectEstimate,
    Link,
    edge_from_interval,
    indirect_estimate,
    link,
)
from opduel.server.histories import CONFIDENCE_ALPHA, BuildName, build_of, interval, node_order, sightings_of
from opduel.server.models import Run
from opduel.server.queries import results_worst_first


@dataclass(frozen=True)
class Pair:
    """One case in two runs: its row in each (None if the run doesn't have it), and the change that both imply."""

    case_number: int
    case: str
    metric: str
    first: Any | None
    second: Any | None
    indirect_estimate: IndirectEstimate | None


@dataclass(frozen=True)
class RunComparison:
    """The cases of two runs, those with the largest implied change first, and how the runs are linked."""

    link: Link | None
    older: BuildName | None  # of the implied changes; None without a link
    newer: BuildName | None
    pairs: Sequence[Pair]


def compare_runs(session: Session, first: Run, second: Run) -> RunComparison:
    """Compare all cases of two runs; implied changes are of the newer build against the older one."""
    runs_link, build_by_node = _link_runs(first, second)
    z = NormalDist().inv_cdf(1 - CONFIDENCE_ALPHA / 2)
    first_rows, second_rows = (
        {row.case_number: row for row in results_worst_first(session, run)} for run in (first, second)
    )
    pairs = []
    for number, case in (first_rows | second_rows).items():
        rows = first_rows.get(number), second_rows.get(number)
        edges = _edge(first, rows[0]), _edge(second, rows[1])
        estimate = None
        if runs_link is not None and edges[0] and edges[1]:
            estimate = indirect_estimate(runs_link, edges[0], edges[1], z)
        pairs.append(Pair(number, case.case, case.metric, *rows, estimate))
    older, newer = (build_by_node[runs_link.older], build_by_node[runs_link.newer]) if runs_link else (None, None)
    return RunComparison(runs_link, older, newer, sorted(pairs, key=_size, reverse=True))


def _link_runs(first: Run, second: Run) -> tuple[Link | None, dict[str, BuildName]]:
    """Return how the builds of two runs are linked, and their builds by node."""
    sightings = []
    for run in (first, second):
        sightings += sightings_of(run, build_of(run, "control"), build_of(run, "treatment"))
    nodes = [build.node for _, _, build in sightings]
    runs_link = link((nodes[0], nodes[1]), (nodes[2], nodes[3]), node_order(sightings))
    return runs_link, {build.node: build for _, _, build in sightings}


def _edge(run: Run, row: Any | None) -> Edge | None:
    """Return the row's edge; None without an interval, or for a run that slowed cases on purpose."""
    if row is None or run.inject is not None:
        return None
    return edge_from_interval("control", "treatment", row.ratio, interval(row.ci_low, row.ci_high), run.alpha)


def _size(pair: Pair) -> tuple[bool, float]:
    implied = pair.indirect_estimate
    return implied is not None, 0.0 if implied is None else abs(implied.log_ratio)
