"""Summaries of hosts for pages and the API: what each measured, its noise, and whether it needs attention."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from opduel.comparator.history.host_noise import (
    AA_LEVEL,
    OTHERS_LEVEL,
    RECENT,
    WINDOW,
    Rise,
    aa_failures_p,
    above_others_p,
    latest_rise,
    level_of,
)
from opduel.reporters.units import human_change
from opduel.server.findings import exp
from opduel.server.models import HostRun, Run
from opduel.server.queries import noise_of

COMPARED = 50  # hosts, those seen last, whose noise others of their kind are compared with
_SEEN: Any = select(HostRun.host, func.count().label("runs"), func.max(HostRun.started).label("last_seen")).group_by(
    HostRun.host
)
_RUN_COLUMNS = (Run.run_id, Run.framework, Run.spec, Run.platform, Run.category)

Rule = Literal["rise", "others", "aa"]


@dataclass(frozen=True)
class Mark:
    """Why a host needs attention: it became noisier (``rise``), it is noisier than others of its kind (``others``), or
    its A/A checks find differences (``aa``). ``text`` says so in words; ``p_value`` is that of the test."""

    rule: Rule
    text: str
    p_value: float


@dataclass(frozen=True)
class HostSummary:
    """One host. ``latest`` are its last runs, the newest first, ``WINDOW`` at most; each has the columns of
    ``HostRun``, and ``run_id``, ``framework``, ``spec``, ``platform`` and ``category``. ``runs`` counts all runs.
    ``level`` is its present noise, as a log ratio against what is usual for its cases; None if it is unknown."""

    host: str
    is_named: bool
    kind: str
    last_seen: datetime
    runs: int
    latest: Sequence[Any]
    level: float | None
    rise: Rise | None
    rose: datetime | None  # when the first run of the rise began
    marks: Sequence[Mark]

    @property
    def disturbed(self) -> int:
        """Return how many of its last runs have results of this host that can't be trusted."""
        return sum(not run.valid for run in self.latest)

    @property
    def aa_failed(self) -> int:
        """Return how many of its last runs have an A/A check that found a difference."""
        return sum(run.aa_failed > 0 for run in self.latest)

    @property
    def aa_checked(self) -> int:
        """Return how many of its last runs have A/A checks."""
        return sum(run.aa_checks > 0 for run in self.latest)

    @property
    def spread(self) -> float | None:
        """Return the spread of the last run that has one."""
        return next((run.spread for run in self.latest if run.spread is not None), None)

    @property
    def noise(self) -> list[float]:
        """Return the noise of its last runs where it is known, the newest last."""
        return [run.noise for run in reversed(self.latest) if run.noise is not None]

    @property
    def measured(self) -> list[tuple[str, list[str]]]:
        """Return the frameworks that its last runs measured, with their specs, the latest first."""
        specs_by_framework: dict[str, dict[str, None]] = {}
        for run in self.latest:
            specs_by_framework.setdefault(run.framework, {})[run.spec] = None
        return [(framework, [spec for spec in specs if spec]) for framework, specs in specs_by_framework.items()]


def count_hosts(session: Session) -> int:
    """Return the number of hosts."""
    return session.scalar(select(func.count(HostRun.host.distinct()))) or 0


def list_hosts(session: Session, limit: int, offset: int = 0) -> list[HostSummary]:
    """Return the hosts seen last; of these, first those that need attention."""
    rows = _hosts_last_seen(session, limit, offset)
    around = _around(session)
    summaries = [_host(session, row, around) for row in rows]
    return sorted(summaries, key=lambda summary: not summary.marks)


def find_host(session: Session, name: str) -> HostSummary | None:
    """Return the host of that name, or None."""
    row = session.execute(_SEEN.where(HostRun.host == name)).one_or_none()
    return None if row is None else _host(session, row, _around(session))


def _hosts_last_seen(session: Session, limit: int, offset: int = 0) -> Sequence[Any]:
    ordered = _SEEN.order_by(func.max(HostRun.started).desc(), HostRun.host)
    return session.execute(ordered.limit(limit).offset(offset)).all()


def _around(session: Session) -> dict[str, dict[str, float]]:
    """Return the present noise of the hosts that were seen last, by kind and name."""
    level_by_kind: dict[str, dict[str, float]] = {}
    for row in _hosts_last_seen(session, COMPARED):
        newest = select(HostRun.kind).where(HostRun.host == row.host)
        kind = session.execute(newest.order_by(HostRun.started.desc(), HostRun.run_number.desc()).limit(1)).scalar_one()
        level = level_of(_values(noise_of(session, row.host, kind, RECENT)))
        if level is not None:
            level_by_kind.setdefault(kind, {})[row.host] = level
    return level_by_kind


def _host(session: Session, seen_row: Any, around: dict[str, dict[str, float]]) -> HostSummary:
    name = seen_row.host
    query = select(*HostRun.__table__.columns, *_RUN_COLUMNS).join(Run).where(HostRun.host == name)
    latest = session.execute(query.order_by(HostRun.started.desc(), HostRun.run_number.desc()).limit(WINDOW)).all()
    kind = latest[0].kind
    noise = noise_of(session, name, kind)
    level, rise = level_of(_values(noise)), latest_rise(_values(noise))
    rose = noise[rise.start][0] if rise else None
    other_levels = [other for host, other in around.get(kind, {}).items() if host != name]
    marks = [*_rise_mark(rise, rose), *_others_mark(level, other_levels), *_aa_mark(latest)]
    return HostSummary(
        name, latest[0].is_named, kind, seen_row.last_seen, seen_row.runs, latest, level, rise, rose, marks
    )


def _values(noise: Iterable[tuple[datetime, float]]) -> list[float]:
    return [value for _, value in noise]


def _rise_mark(rise: Rise | None, rose: datetime | None) -> list[Mark]:
    if rise is None or rose is None:
        return []
    return [Mark("rise", f"noise {human_change(exp(rise.log_factor))} since {rose:%Y-%m-%d}", rise.p_value)]


def _others_mark(level: float | None, other_levels: Collection[float]) -> list[Mark]:
    p_value = 1.0 if level is None else above_others_p(level, list(other_levels))
    if level is None or p_value > OTHERS_LEVEL:
        return []
    more = human_change(exp(level - sum(other_levels) / len(other_levels)))
    return [Mark("others", f"noise {more} against {len(other_levels)} other hosts of its kind", p_value)]


def _aa_mark(latest: Sequence[Any]) -> list[Mark]:
    recent = [run for run in latest if run.aa_checks][:RECENT]
    failed = sum(run.aa_failed > 0 for run in recent)
    p_value = aa_failures_p(failed, sum(max(1, run.shards) for run in recent))
    if p_value > AA_LEVEL:
        return []
    return [Mark("aa", f"A/A checks found differences in {failed} of its last {len(recent)} runs", p_value)]
