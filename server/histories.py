"""A case's history: which runs belong to it, which builds they compared, and the analysis of both."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self

from packaging.version import InvalidVersion, Version
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from opduel.comparator.history.network_meta_analysis import Component, Edge, analyse_network, edge_from_interval
from opduel.records.build import AGAINST
from opduel.server.models import UNKNOWN_THREADS, Result, Run
from opduel.server.queries import is_of_branch

Sighting = tuple[datetime, int, "BuildName"]  # a run's start; 0 for its control, 1 for its treatment; the build
_LONGEST_VERSION = 100  # characters that are looked at
CONFIDENCE_ALPHA = 0.05  # of the intervals that histories show, whatever the runs' own
_SIDES = ("requested", "digest", "version", "commit", "commit_time", "commit_subject")
BUILD_COLUMNS = tuple(getattr(Run, f"{side}_{name}") for side in ("control", "treatment") for name in _SIDES)


@dataclass(frozen=True)
class Series:
    """Results of one case that are comparable over runs: those of one platform, number of threads, and branch.

    ``branch`` is None for runs that name none. ``is_only``: the case has no other branch on this platform with these
    threads; then runs that name none belong to this series.
    """

    case_number: int
    platform: str
    threads: int | None
    branch: str | None = None
    is_only: bool = field(default=True, compare=False)

    @classmethod
    def from_row(cls, row: Any) -> Self:
        """Return the series of a row of ``AnalysedSeries``."""
        threads = None if row.threads == UNKNOWN_THREADS else row.threads
        return cls(row.case_number, row.platform, threads, row.branch or None)

    @property
    def key(self) -> dict[str, Any]:
        """Return its columns in ``AnalysedSeries``, by name."""
        threads = UNKNOWN_THREADS if self.threads is None else self.threads
        return {
            "case_number": self.case_number,
            "platform": self.platform,
            "threads": threads,
            "branch": self.branch or "",
        }

    @property
    def without_branch(self) -> Self:
        """Return the same series with no branch."""
        return replace(self, branch=None)


@dataclass(frozen=True)
class BuildName:
    """A build. ``node`` identifies it over runs: its commit, or else its digest."""

    node: str
    label: str  # the commit's first 12 digits, or as it was requested
    requested: str
    version: str
    commit: str | None
    time: int | None  # of the commit, seconds since 1970
    subject: str | None


@dataclass(frozen=True)
class MeasuredRun:
    """One run's result of the case. ``left_out`` is the reason why it is no part of the history, empty if it is."""

    run_id: str
    started: datetime
    control: BuildName
    treatment: BuildName
    branch: str | None
    verdict: str
    held_back: str | None
    note: str | None
    ratio: float | None
    ci: tuple[float, float] | None
    threshold: float
    left_out: str
    control_value: float | None = None  # in the case's unit
    treatment_value: float | None = None
    neutral: float | None = None  # the control's own value, in a run of two frameworks; in the case's unit


@dataclass(frozen=True)
class History:
    """The history of one series: its builds by node, its runs, the newest first, and a component for each set of builds
    that runs connect. ``order`` ranks the builds, and ``minimal`` is the smallest change that is reported: half the
    case's threshold."""

    builds: dict[str, BuildName]
    runs: Sequence[MeasuredRun]
    components: Sequence[Component]
    order: dict[str, float]
    minimal: float

    @property
    def has_neutral(self) -> bool:
        """Return whether it compares two frameworks: then the controls are a fixed reference, and changes are of the
        treatments."""
        return any(run.neutral is not None for run in self.runs)

    @property
    def unnamed(self) -> int:
        """Return how many of its runs name no branch, if other runs do; else 0."""
        none = sum(run.branch is None for run in self.runs)
        return none if none < len(self.runs) else 0


def build_of(row: Any, side: str) -> BuildName:
    """Return the build of ``side`` ("control" or "treatment") of a run, or of a row with its columns."""
    requested, digest, version, commit, time, subject = (getattr(row, f"{side}_{name}") for name in _SIDES)
    label = commit[:12] if commit else requested
    return BuildName(commit or digest or requested, label, requested, version, commit, time, subject)


def series_of(session: Session, case_number: int) -> list[Series]:
    """Return the series of a case, that of the newest run first."""
    query = (
        select(Run.platform, Run.threads, Run.branch, Run.started)
        .join(Result, Result.run_number == Run.number)
        .where(Result.case_number == case_number)
        .order_by(Run.started.desc())
    )
    series = (Series(case_number, row.platform, row.threads, row.branch) for row in session.execute(query))
    return list(dict.fromkeys(by_branch(list(dict.fromkeys(series))).values()))


def by_branch(all_series: Collection[Series]) -> dict[Series, Series]:
    """Return the series that each one belongs to: itself, except that runs without a branch belong to the named branch
    if the case has only one on that platform with that number of threads."""
    branches: dict[Series, set[str]] = {series.without_branch: set() for series in all_series}
    for series in all_series:
        if series.branch is not None:
            branches[series.without_branch].add(series.branch)
    parts = {}
    for series in all_series:
        named = branches[series.without_branch]
        is_only = len(named) <= 1
        parts[series] = replace(series, is_only=is_only, branch=next(iter(named), None) if is_only else series.branch)
    return parts


def history_of(session: Session, series: Series, category: str | None = None, with_positions: bool = True) -> History:
    """Return the history of ``series``, or of its runs in one category. Without positions it is faster."""
    query = _results_of(series) if category is None else _results_of(series).where(Run.category == category)
    rows = session.execute(query.order_by(Run.started.desc(), Run.number.desc())).all()
    measured = [_measured(row) for row in rows]
    runs = [run for run, _ in measured]
    apart = {run.control.node for run, row in zip(runs, rows, strict=True) if AGAINST in row.framework}
    order = node_order((sighting for run in runs for sighting in sightings_of(run, run.control, run.treatment)), apart)
    minimal = max(0.0, runs[0].threshold / 2) if runs else 0.0
    builds = {build.node: build for run in reversed(runs) for build in (run.control, run.treatment)}
    components = analyse_network(
        [edge for _, edge in measured if edge is not None],
        order,
        minimal=minimal,
        alpha=CONFIDENCE_ALPHA,
        with_positions=with_positions,
        foreign=apart,
    )
    return History(builds, runs, components, order, minimal)


def categories_of(session: Session, series: Series) -> list[str]:
    """Return the categories of the runs of ``series``."""
    columns = _results_of(series).with_only_columns(Run.category).distinct().order_by(Run.category)
    return list(session.scalars(columns))


def limit_to_days(history: History, since: datetime | None, until: datetime | None) -> History:
    """Return ``history`` with only the builds whose commits, and the runs whose starts, are within a period; builds
    without a commit stay. The analysis is still that of all runs."""

    def is_within(moment: datetime | None) -> bool:
        return moment is None or ((since is None or since <= moment) and (until is None or moment < until))

    def is_shown(node: str) -> bool:
        time = history.builds[node].time
        return is_within(None if time is None else datetime.fromtimestamp(time, UTC))

    components = [
        replace(component, positions=tuple(position for position in component.positions if is_shown(position.node)))
        for component in history.components
    ]
    return replace(history, runs=[run for run in history.runs if is_within(run.started)], components=components)


def runs_of_builds(history: History) -> dict[str, list[MeasuredRun]]:
    """Return the runs that measured each build, by node: first as treatment, then as control, the latest first."""
    runs_by_node: dict[str, list[MeasuredRun]] = {node: [] for node in history.builds}
    for side in ("treatment", "control"):
        for run in history.runs:
            runs_by_node[getattr(run, side).node].append(run)
    return runs_by_node


def node_order(sightings: Iterable[Sighting], apart: Collection[str] = ()) -> dict[str, float]:
    """Return the rank of each build, by node: first those ``apart`` (the references of other frameworks), then builds
    without a commit by version, then commits by time.

    Equal builds are ordered by the run that first measured them, its control before its treatment; for uncommitted work
    has the time of the commit that it is based on.
    """
    keys: dict[str, tuple[Any, ...]] = {}
    for started, side, build in sightings:
        first = min((started, side), keys[build.node][-1]) if build.node in keys else (started, side)
        place = (1, build.time, ()) if build.time is not None else (0, 0, _version_key(build.version))
        keys[build.node] = (build.node not in apart, *place, first)
    return {node: float(rank) for rank, node in enumerate(sorted(keys, key=lambda node: (keys[node], node)))}


def sightings_of(run: Any, control: BuildName, treatment: BuildName) -> list[Sighting]:
    """Return a run's two builds as ``node_order`` takes them."""
    return [(run.started, 0, control), (run.started, 1, treatment)]


@lru_cache(maxsize=10_000)
def _version_key(version: str) -> tuple[tuple[Version, tuple[int, ...]], ...]:
    """Return a key that orders versions by each word with a number: ``numpy 2.0.0rc1`` before ``numpy 2.0.0``. A word
    that is not a version by PEP 440 counts as the version that it begins with, and its further numbers."""
    return tuple(map(_word_key, re.findall(r"[^\s,]*[0-9][^\s,]*", version[:_LONGEST_VERSION])))


def _word_key(word: str) -> tuple[Version, tuple[int, ...]]:
    try:
        return Version(word), ()
    except InvalidVersion:
        begin = re.match(r"[vV]?([0-9]+(?:\.[0-9]+)*)", word)
        further = word[begin.end() :] if begin else word
        numbers = tuple(int(part) for part in re.findall("[0-9]{1,9}", further)[:8])
        return Version(begin[1] if begin else "0"), numbers


def _results_of(series: Series) -> Select[Any]:
    of_series = [
        Result.case_number == series.case_number,
        Run.platform == series.platform,
        Run.threads.is_(None) if series.threads is None else Run.threads == series.threads,
    ]
    if not series.is_only:
        of_series.append(is_of_branch(series.branch or ""))
    of_run = (Run.framework, Run.number, Run.run_id, Run.started, Run.alpha, Run.inject, Run.branch)
    result = (Result.verdict, Result.held_back, Result.note, Result.ratio, Result.ci_low, Result.ci_high)
    values = Result.control.label("control_value"), Result.treatment.label("treatment_value")
    query = select(*of_run, *BUILD_COLUMNS, *result, *values, Result.threshold, Result.trusted)
    return query.join(Run, Result.run_number == Run.number).where(*of_series)


def _measured(row: Any) -> tuple[MeasuredRun, Edge | None]:
    """Return the row's result, and its edge if it is a part of the history."""
    control, treatment = build_of(row, "control"), build_of(row, "treatment")
    ci = interval(row.ci_low, row.ci_high)
    edge = edge_from_interval(control.node, treatment.node, row.ratio, ci, row.alpha)
    reason = _left_out(row, control, treatment, edge)
    names = ("run_id", "started", "branch", "verdict", "held_back", "note", "ratio", "threshold")
    same = {name: getattr(row, name) for name in (*names, "control_value", "treatment_value")}
    neutral = row.control_value if AGAINST in row.framework else None
    run = MeasuredRun(**same, control=control, treatment=treatment, ci=ci, left_out=reason, neutral=neutral)
    return run, None if reason else edge


def _left_out(row: Any, control: BuildName, treatment: BuildName, edge: Edge | None) -> str:
    """Return why a result is no part of a history; empty if it is."""
    if row.inject is not None:
        return "slowed on purpose"
    if not row.trusted:
        return "can't be trusted"
    if row.ratio is None or row.ci_low is None or row.ci_high is None:
        return "no interval"
    if control.node == treatment.node:
        return "one build against itself"
    return "" if edge is not None else "no usable interval"


def interval(low: float | None, high: float | None) -> tuple[float, float] | None:
    """Return both ends of an interval, or None if one is missing."""
    return None if low is None or high is None else (low, high)
