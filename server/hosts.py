"""Summaries of hosts for pages and the API: what each measured, its noise, and whether it needs attention."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field
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


class Host(BaseModel):
    """A host; figures are of its last 100 runs at most. Noise is a ratio: 1.0 is usual for the cases that it
    measured."""

    host: str
    is_named: bool = Field(description="false where reports don't name it: all such hosts of its kind together")
    kind: str
    last_seen: datetime
    runs: int = Field(description="all that it took part in")
    looked_at: int = Field(description="of the last runs that the figures are from")
    disturbed: int = Field(description="runs in which what it measured can't be trusted")
    aa_checked: int
    aa_failed: int
    spread: float | None
    noise: float | None = Field(description="now: the median of its last 5 runs")
    noisier_since: datetime | None
    measured: dict[str, list[str]] = Field(description="specs by framework")
    marks: Sequence[Mark] = Field(description="empty if it needs no attention")


@dataclass(frozen=True)
class HostHistory:
    """A host and its last runs, the newest first, ``WINDOW`` at most, with the columns of ``HostRun``, and ``run_id``,
    ``framework``, ``spec``, ``platform`` and ``category``. ``level`` is its present noise as a log ratio."""

    summary: Host
    latest: Sequence[Any]
    level: float | None
    rise: Rise | None


def count_hosts(session: Session) -> int:
    """Return the number of hosts."""
    return session.scalar(select(func.count(HostRun.host.distinct()))) or 0


def list_hosts(session: Session, limit: int, offset: int = 0) -> list[HostHistory]:
    """Return the hosts seen last; of these, first those that need attention."""
    around = _around(session)
    hosts = [_host(session, row, around) for row in _hosts_last_seen(session, limit, offset)]
    return sorted(hosts, key=lambda host: not host.summary.marks)


def find_host(session: Session, name: str) -> HostHistory | None:
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


def _host(session: Session, seen_row: Any, around: dict[str, dict[str, float]]) -> HostHistory:
    name = seen_row.host
    query = select(*HostRun.__table__.columns, *_RUN_COLUMNS).join(Run).where(HostRun.host == name)
    latest = session.execute(query.order_by(HostRun.started.desc(), HostRun.run_number.desc()).limit(WINDOW)).all()
    kind = latest[0].kind
    noise = noise_of(session, name, kind)
    level, rise = level_of(_values(noise)), latest_rise(_values(noise))
    rose = noise[rise.start][0] if rise else None
    other_levels = [other for host, other in around.get(kind, {}).items() if host != name]
    specs_by_framework: dict[str, dict[str, None]] = {run.framework: {} for run in latest}
    for run in latest:
        specs_by_framework[run.framework] |= {run.spec: None} if run.spec else {}
    summary = Host(
        host=name,
        is_named=latest[0].is_named,
        kind=kind,
        last_seen=seen_row.last_seen,
        runs=seen_row.runs,
        looked_at=len(latest),
        disturbed=sum(not run.valid for run in latest),
        aa_checked=sum(run.aa_checks > 0 for run in latest),
        aa_failed=sum(run.aa_failed > 0 for run in latest),
        spread=next((run.spread for run in latest if run.spread is not None), None),
        noise=ratio(level),
        noisier_since=rose,
        measured={framework: list(specs) for framework, specs in specs_by_framework.items()},
        marks=[*_rise_mark(rise, rose), *_others_mark(level, other_levels), *_aa_mark(latest)],
    )
    return HostHistory(summary, latest, level, rise)


def ratio(log_ratio: float | None) -> float | None:
    """Return a log ratio, if it is known, as a ratio."""
    return None if log_ratio is None else exp(log_ratio)


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
