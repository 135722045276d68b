"""Which host is so slow that others would finish its open cases sooner.  Pure: figures in, a choice out.

A case moves whole: what its first host measured of it is given up, and another host measures it from the start.
docs/explanation/statistics.md, "Cases that move", says why no verdict depends on the choice.
"""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opduel.fleet.shards import FEWEST
from opduel.records import Case, Comparison, Report

START_S = 10.0  # of a shard, before its first round
MARGIN = 1.5  # how much slower a host has to be, and how much sooner the others, since all times are estimates


@dataclass(frozen=True)
class Pace:
    """What shards took that are finished: ``sample_s``, seconds for one round of one case, on a usual host; ``rounds``
    of a case until its verdict, on average."""

    sample_s: float
    rounds: float


@dataclass(frozen=True)
class UnderWay:
    """A shard that a host measures: how many ``cases`` it has, how many of these are open, how many ``samples`` (one
    for each round of each case) there are, and for how long it has been measured, in seconds."""

    cases: int
    open_cases: int
    samples: int
    elapsed_s: float


def pace_of(reports: Iterable[Report]) -> Pace | None:
    """The pace of the finished shards that have these reports; None if none has measured anything."""
    seconds, samples, cases = [], 0, 0
    for report in reports:
        own = sum(len(one.samples) for one in report.comparisons)
        if own and report.run.wall_s:
            seconds.append(report.run.wall_s / own)
            samples, cases = samples + own, cases + len(report.comparisons)
    return Pace(statistics.median(seconds), samples / cases) if seconds else None


def slowness(shard: UnderWay, pace: Pace) -> float:
    """How many times as long as a usual host this one takes for a round, at least: the round under way counts as made,
    so that a host is not taken for slow because a round is long."""
    return shard.elapsed_s / (pace.sample_s * (shard.samples + shard.open_cases))


def left_s(shard: UnderWay, pace: Pace) -> float:
    """Seconds until the host is likely to have settled its open cases; each needs one more round at least."""
    return slowness(shard, pace) * pace.sample_s * shard.open_cases * _rounds_left(shard, pace)


def anew_s(shard: UnderWay, pace: Pace, idle: int) -> float:
    """Seconds that so many idle hosts would take for the open cases from the start: for the rounds that these have had,
    and for those that are left."""
    parts = min(idle, max(1, shard.open_cases // FEWEST))
    rounds = shard.samples / shard.cases + _rounds_left(shard, pace)
    return START_S + pace.sample_s * shard.open_cases * rounds / parts


def _rounds_left(shard: UnderWay, pace: Pace) -> float:
    return max(1.0, pace.rounds - shard.samples / shard.cases)


def straggler(shards: Mapping[str, UnderWay], pace: Pace | None, idle: int) -> str | None:
    """The key of the shard whose open cases ``idle`` hosts are to take over; None: there is none, or they would not be
    clearly sooner, or the host is none that is slow. Of several it is the one that its host would take longest for."""
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


def is_open(one: Comparison) -> bool:
    """Whether further rounds, or those of a host that nothing disturbs, might settle it."""
    if one.verdict != "inconclusive" and one.suspected is None:
        return False
    unverified = one.verification is not None and one.verification.p_value is None
    return one.held_back is not None or one.forecast is not None or one.p_value is None or unverified


def open_cases(cases: Sequence[Case], comparisons: Iterable[Comparison]) -> frozenset[str]:
    """The ids of those without a verdict, and of those that measure the same by another metric: they stay together."""
    unsettled = {one.case for one in comparisons if is_open(one)}
    return together(cases, unsettled)


def together(cases: Sequence[Case], chosen: Collection[str]) -> frozenset[str]:
    """The ids of the chosen cases and of all that measure the same."""
    groups = {(case.time_id, case.context) for case in cases if case.id in chosen}
    return frozenset(case.id for case in cases if (case.time_id, case.context) in groups)
