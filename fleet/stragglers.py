"""Choice of a host that is so slow that idle hosts would settle its open cases sooner; estimates only, no Dask.

A case moves as a whole: another host measures it from the start. docs/explanation/statistics.md, "Cases that move",
says why that does not bias verdicts, and docs/explanation/fleet.md what it gains.
"""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opduel.fleet.shards import FEWEST
from opduel.records import Case, Comparison, Report

START_S = 10.0  # of a shard before its first round
MARGIN = 1.5  # factor by which a host must be slower, and the others sooner, since all times are estimates


@dataclass(frozen=True)
class Pace:
    """The pace of finished shards: ``sample_s``, the median seconds for one round of one case; ``rounds``, the mean
    number of rounds that a case took."""

    sample_s: float
    rounds: float


@dataclass(frozen=True)
class UnderWay:
    """A shard that a host is measuring: its cases, how many of them are open, the samples so far (one for each round of
    each case), and the seconds since it began."""

    cases: int
    open_cases: int
    samples: int
    elapsed_s: float


def pace_of(reports: Iterable[Report]) -> Pace | None:
    """Return the pace of finished shards; None if none has measured anything."""
    seconds, samples, cases = [], 0, 0
    for report in reports:
        own = sum(len(comparison.samples) for comparison in report.comparisons)
        if own and report.run.wall_s:
            seconds.append(report.run.wall_s / own)
            samples, cases = samples + own, cases + len(report.comparisons)
    return Pace(statistics.median(seconds), samples / cases) if seconds else None


def slowness(shard: UnderWay, pace: Pace) -> float:
    """Return how many times as long as a usual host this one takes for a round. The unfinished round counts as
    finished, so that a long round does not make a host slow."""
    return shard.elapsed_s / (pace.sample_s * (shard.samples + shard.open_cases))


def left_s(shard: UnderWay, pace: Pace) -> float:
    """Return the expected seconds until the host has settled its open cases; each needs at least one more round."""
    return slowness(shard, pace) * pace.sample_s * shard.open_cases * _rounds_left(shard, pace)


def anew_s(shard: UnderWay, pace: Pace, idle: int) -> float:
    """Return the expected seconds that so many idle hosts take for the open cases from the start: both for the rounds
    that these have had, and for those that remain."""
    parts = min(idle, max(1, shard.open_cases // FEWEST))
    rounds = shard.samples / shard.cases + _rounds_left(shard, pace)
    return START_S + pace.sample_s * shard.open_cases * rounds / parts


def _rounds_left(shard: UnderWay, pace: Pace) -> float:
    return max(1.0, pace.rounds - shard.samples / shard.cases)


def straggler(shards: Mapping[str, UnderWay], pace: Pace | None, idle: int) -> str | None:
    """Return the key of the shard whose open cases ``idle`` hosts are to take over: of those that a slow host measures
    and idle ones would settle clearly sooner, the one that would take longest. None if there is none."""
    if pace is None or idle < 1:
        return None
    late = {
        key: left_s(shard, pace)
        for key, shard in shards.items()
        if shard.open_cases
        and slowness(shard, pace) > MARGIN
        and left_s(shard, pace) > MARGIN * anew_s(shard, pace, idle)
    }
    return max(late, key=lambda key: late[key], default=None)


def is_open(comparison: Comparison) -> bool:
    """Return whether further rounds, or an undisturbed host, might settle it."""
    if comparison.verdict != "inconclusive" and comparison.suspected is None:
        return False
    unverified = comparison.verification is not None and comparison.verification.p_value is None
    return (
        comparison.held_back is not None or comparison.forecast is not None or comparison.p_value is None or unverified
    )


def open_cases(cases: Sequence[Case], comparisons: Iterable[Comparison]) -> frozenset[str]:
    """Return the ids of the open cases, and of those that measure the same by another metric, which stay together."""
    unsettled = {comparison.case for comparison in comparisons if is_open(comparison)}
    return together(cases, unsettled)


def together(cases: Sequence[Case], chosen: Collection[str]) -> frozenset[str]:
    """Return the ids of the chosen cases and of all that measure the same."""
    groups = {(case.time_id, case.context) for case in cases if case.id in chosen}
    return frozenset(case.id for case in cases if (case.time_id, case.context) in groups)
