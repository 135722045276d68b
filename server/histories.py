"""A case's history out of the tables: which runs count, which builds they compared, and what that comes to."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self

from packaging.version import InvalidVersion, Version
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from opduel.comparator.network_meta_analysis import Component, Edge, analyse_network, edge_from_interval
from opduel.records.build import AGAINST
from opduel.server.models import UNKNOWN_THREADS, Result, Run
from opduel.server.queries import is_of_branch

Seen = tuple[datetime, int, "BuildName"]  # when a run began, 0 for its control and 1 for its treatment
_LONGEST_VERSION = 100  # characters that are looked at
CONFIDENCE_ALPHA = 0.05  # of the intervals that histories show, whatever the runs' own
_SIDES = ("requested", "digest", "version", "commit", "commit_time", "commit_subject")
BUILD_COLUMNS = tuple(getattr(Run, f"{side}_{name}") for side in ("control", "treatment") for name in _SIDES)


@dataclass(frozen=True)
class Series:
    """What makes results of one case comparable over runs: the platform, the workers' threads, and the branch.

    ``branch`` is None for runs that name none. ``is_only``: there is no other branch of the same case, platform and
    threads; then runs that name none are a part of this one.
    """

    case_number: int
    platform: str
    threads: int | None
    branch: str | None = None
    is_only: bool = field(default=True, compare=False)

    @classmethod
    def kept(cls, row: Any) -> Self:
        """That of a row of ``AnalysedSeries``, or with its ``key``."""
        threads = None if row.threads == UNKNOWN_THREADS else row.threads
        return cls(row.case_number, row.platform, threads, row.branch or None)

    @property
    def key(self) -> dict[str, Any]:
        """Its columns in ``AnalysedSeries``, by name."""
        threads = UNKNOWN_THREADS if self.threads is None else self.threads
        return {
            "case_number": self.case_number,
            "platform": self.platform,
            "threads": threads,
            "branch": self.branch or "",
        }

    @property
    def without_branch(self) -> Self:
        """That of all branches of its case, platform and threads."""
        return replace(self, branch=None)


@dataclass(frozen=True)
class BuildName:
    """A build as histories know it. ``node`` is its commit, or else its digest: what is the same build over runs."""

    node: str
    label: str  # the commit's first 12 digits, or as it was requested
    requested: str
    version: str
    commit: str | None
    time: int | None  # of the commit, seconds since 1970
    subject: str | None


@dataclass(frozen=True)
class MeasuredRun:
    """One run's result of the case; ``left_out`` says why it is no part of the history, empty when it is."""

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
    neutral: float | None = None  # the control's own value, in a run of two frameworks; in the case's unit


@dataclass(frozen=True)
class History:
    """All of one case: its builds by node, its runs with the newest first, and a component for each set of builds
    that runs connect. ``minimal`` is the smallest change that is reported, half the case's threshold."""

    builds: dict[str, BuildName]
    runs: Sequence[MeasuredRun]
    components: Sequence[Component]
    minimal: float

    @property
    def has_neutral(self) -> bool:
        """Whether it is of two frameworks: then the controls are what all builds are measured against, and what is
        found is of the treatments."""
        return any(run.neutral is not None for run in self.runs)

    @property
    def unnamed(self) -> int:
        """How many of its runs name no branch, though others do."""
        none = sum(run.branch is None for run in self.runs)
        return none if none < len(self.runs) else 0


def build_of(row: Any, side: str) -> BuildName:
    """The build of ``side``, "control" or "treatment", of a run, or of a row that has its columns."""
    requested, digest, version, commit, time, subject = (getattr(row, f"{side}_{name}") for name in _SIDES)
    label = commit[:12] if commit else requested
    return BuildName(commit or digest or requested, label, requested, version, commit, time, subject)


def series_of(session: Session, case_number: int) -> list[Series]:
    """The series that a case has results in, that of the newest run first."""
    query = (
        select(Run.platform, Run.threads, Run.branch, Run.started)
        .join(Result, Result.run_number == Run.number)
        .where(Result.case_number == case_number)
        .order_by(Run.started.desc())
    )
    found = (Series(case_number, row.platform, row.threads, row.branch) for row in session.execute(query))
    return list(dict.fromkeys(by_branch(list(dict.fromkeys(found))).values()))


def by_branch(found: Collection[Series]) -> dict[Series, Series]:
    """The series that each of those found is a part of: its own, but where a case has runs of one branch alone (on a
    platform, with so many threads), what names no branch belongs to that one."""
    branches: dict[Series, set[str]] = {one.without_branch: set() for one in found}
    for one in found:
        if one.branch is not None:
            branches[one.without_branch].add(one.branch)
    parts = {}
    for one in found:
        named = branches[one.without_branch]
        is_only = len(named) <= 1
        parts[one] = replace(one, is_only=is_only, branch=next(iter(named), None) if is_only else one.branch)
    return parts


def history_of(session: Session, series: Series, category: str | None = None) -> History:
    """The history of ``series``, positions and all; of its runs in that category alone, if one is given."""
    query = _results_of(series) if category is None else _results_of(series).where(Run.category == category)
    rows = session.execute(query.order_by(Run.started.desc(), Run.number.desc())).all()
    measured = [_measured(row) for row in rows]
    runs = [run for run, _ in measured]
    apart = {run.control.node for run, row in zip(runs, rows, strict=True) if AGAINST in row.framework}
    order = node_order((one for run in runs for one in seen_of(run, run.control, run.treatment)), apart)
    minimal = max(0.0, runs[0].threshold / 2) if runs else 0.0
    builds = {build.node: build for run in reversed(runs) for build in (run.control, run.treatment)}
    components = analyse_network(
        [edge for _, edge in measured if edge is not None], order, minimal=minimal, alpha=CONFIDENCE_ALPHA, foreign=apart
    )
    return History(builds, runs, components, minimal)


def categories_of(session: Session, series: Series) -> list[str]:
    """The categories that runs of ``series`` are in."""
    columns = _results_of(series).with_only_columns(Run.category).distinct().order_by(Run.category)
    return list(session.scalars(columns))


def narrowed(history: History, since: datetime | None, until: datetime | None) -> History:
    """What of ``history`` is of a time: builds by their commits' times (those without one stay), runs by their starts.
    The rest has been weighed, too: nothing that is found changes."""

    def is_within(moment: datetime | None) -> bool:
        return moment is None or ((since is None or since <= moment) and (until is None or moment < until))

    def is_shown(node: str) -> bool:
        time = history.builds[node].time
        return is_within(None if time is None else datetime.fromtimestamp(time, UTC))

    components = [
        replace(one, positions=tuple(position for position in one.positions if is_shown(position.node)))
        for one in history.components
    ]
    return replace(history, runs=[run for run in history.runs if is_within(run.started)], components=components)


def runs_of_builds(history: History) -> dict[str, list[MeasuredRun]]:
    """The runs that measured each build, by node: first those in which it was the treatment, the latest first."""
    found: dict[str, list[MeasuredRun]] = {node: [] for node in history.builds}
    for side in ("treatment", "control"):
        for run in history.runs:
            found[getattr(run, side).node].append(run)
    return found


def node_order(seen: Iterable[Seen], apart: Collection[str] = ()) -> dict[str, float]:
    """The rank of each build, by node: those ``apart`` first; then releases and other builds without a commit
    by version, then commits by time.

    What is equal by that stands in the order in which runs first measured it, the control of a run before its
    treatment: work that is not committed has the time of the commit that it is on.
    """
    keys: dict[str, tuple[Any, ...]] = {}
    for started, side, build in seen:
        first = min((started, side), keys[build.node][-1]) if build.node in keys else (started, side)
        place = (1, build.time, ()) if build.time is not None else (0, 0, _version_key(build.version))
        keys[build.node] = (build.node not in apart, *place, first)
    return {node: float(rank) for rank, node in enumerate(sorted(keys, key=lambda one: (keys[one], one)))}


def seen_of(run: Any, control: BuildName, treatment: BuildName) -> list[Seen]:
    """What a run has seen, for ``node_order``."""
    return [(run.started, 0, control), (run.started, 1, treatment)]


@lru_cache(maxsize=10_000)
def _version_key(version: str) -> tuple[tuple[Version, tuple[int, ...]], ...]:
    """Orders versions by each word that has a number: ``numpy 2.0.0rc1`` before ``numpy 2.0.0``. Of what is no version
    as PEP 440 has it, the version that it begins with counts, and then the further numbers."""
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
    own = Result.threshold, Result.control.label("control_value"), Result.trusted
    query = select(*of_run, *BUILD_COLUMNS, *result, *own)
    return query.join(Run, Result.run_number == Run.number).where(*of_series)


def _measured(row: Any) -> tuple[MeasuredRun, Edge | None]:
    """The row's result, and its edge if it is a part of the history."""
    control, treatment = build_of(row, "control"), build_of(row, "treatment")
    ci = interval(row.ci_low, row.ci_high)
    edge = edge_from_interval(control.node, treatment.node, row.ratio, ci, row.alpha)
    reason = _left_out(row, control, treatment, edge)
    names = ("run_id", "started", "branch", "verdict", "held_back", "note", "ratio", "threshold")
    same = {name: getattr(row, name) for name in names}
    neutral = row.control_value if AGAINST in row.framework else None
    run = MeasuredRun(**same, control=control, treatment=treatment, ci=ci, left_out=reason, neutral=neutral)
    return run, None if reason else edge


def _left_out(row: Any, control: BuildName, treatment: BuildName, edge: Edge | None) -> str:
    """Why a result is no part of a history; empty when it is."""
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
    """Both ends of an interval, or None when one is missing."""
    return None if low is None or high is None else (low, high)
