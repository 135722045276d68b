"""Hosts as pages and the API show them: what each measured, how noisy it was, and whether it needs attention."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from opduel.comparator.host_noise import (
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
_SEEN: Select[str, int, datetime] = select(
    HostRun.host, func.count().label("runs"), func.max(HostRun.started).label("last_seen")
).group_by(HostRun.host)
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
class HostSeen:
    """One host. ``latest`` are its last runs, the newest first, ``WINDOW`` at most; each has the columns of
    ``HostRun``, and ``run_id``, ``framework``, ``spec``, ``platform`` and ``category``. ``runs`` counts all.
    ``level`` is its noise now, as a log ratio against what is usual for its cases; None where too little is known."""

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
        """How many of its last runs can't be trusted, as far as it was measured on this host."""
        return sum(not one.valid for one in self.latest)

    @property
    def aa_failed(self) -> int:
        """How many of its last runs have an A/A check that found a difference."""
        return sum(one.aa_failed > 0 for one in self.latest)

    @property
    def aa_checked(self) -> int:
        """How many of its last runs have A/A checks."""
        return sum(one.aa_checks > 0 for one in self.latest)

    @property
    def spread(self) -> float | None:
        """The spread of the last run that has one."""
        return next((one.spread for one in self.latest if one.spread is not None), None)

    @property
    def noise(self) -> list[float]:
        """The noise of its last runs, as far as it is known, the newest last."""
        return [one.noise for one in reversed(self.latest) if one.noise is not None]

    @property
    def measured(self) -> list[tuple[str, list[str]]]:
        """The frameworks that its last runs measured, with their specs: what was measured last first."""
        found: dict[str, dict[str, None]] = {}
        for one in self.latest:
            found.setdefault(one.framework, {})[one.spec] = None
        return [(framework, [spec for spec in specs if spec]) for framework, specs in found.items()]


def count_hosts(session: Session) -> int:
    """How many hosts there are."""
    return session.scalar(select(func.count(HostRun.host.distinct()))) or 0


def list_hosts(session: Session, limit: int, offset: int = 0) -> list[HostSeen]:
    """Hosts, those seen last first; of these, those that need attention before the others."""
    rows = _seen(session, limit, offset)
    around = _around(session)
    found = [_host(session, row, around) for row in rows]
    return sorted(found, key=lambda one: not one.marks)


def find_host(session: Session, name: str) -> HostSeen | None:
    """The host of that name; None if there is none."""
    row = session.execute(_SEEN.where(HostRun.host == name)).one_or_none()
    return None if row is None else _host(session, row, _around(session))


def _seen(session: Session, limit: int, offset: int = 0) -> Sequence[Any]:
    ordered = _SEEN.order_by(func.max(HostRun.started).desc(), HostRun.host)
    return session.execute(ordered.limit(limit).offset(offset)).all()


def _around(session: Session) -> dict[str, dict[str, float]]:
    """How noisy the hosts that were seen last are now, by kind and name."""
    found: dict[str, dict[str, float]] = {}
    for row in _seen(session, COMPARED):
        newest = select(HostRun.kind).where(HostRun.host == row.host)
        kind = session.scalars(newest.order_by(HostRun.started.desc(), HostRun.run_number.desc()).limit(1)).one()
        level = level_of(_values(noise_of(session, row.host, kind, RECENT)))
        if level is not None:
            found.setdefault(kind, {})[row.host] = level
    return found


def _host(session: Session, seen: Any, around: dict[str, dict[str, float]]) -> HostSeen:
    name = seen.host
    query = select(*HostRun.__table__.columns, *_RUN_COLUMNS).join(Run).where(HostRun.host == name)
    latest = session.execute(query.order_by(HostRun.started.desc(), HostRun.run_number.desc()).limit(WINDOW)).all()
    kind = latest[0].kind
    noise = noise_of(session, name, kind)
    level, rise = level_of(_values(noise)), latest_rise(_values(noise))
    rose = noise[rise.start][0] if rise else None
    others = [one for host, one in around.get(kind, {}).items() if host != name]
    marks = [*_rise_mark(rise, rose), *_others_mark(level, others), *_aa_mark(latest)]
    return HostSeen(name, latest[0].is_named, kind, seen.last_seen, seen.runs, latest, level, rise, rose, marks)


def _values(noise: Iterable[tuple[datetime, float]]) -> list[float]:
    return [value for _, value in noise]


def _rise_mark(rise: Rise | None, rose: datetime | None) -> list[Mark]:
    if rise is None or rose is None:
        return []
    return [Mark("rise", f"noise {human_change(exp(rise.log_factor))} since {rose:%Y-%m-%d}", rise.p_value)]


def _others_mark(level: float | None, others: Collection[float]) -> list[Mark]:
    p_value = 1.0 if level is None else above_others_p(level, list(others))
    if level is None or p_value > OTHERS_LEVEL:
        return []
    more = human_change(exp(level - sum(others) / len(others)))
    return [Mark("others", f"noise {more} against {len(others)} other hosts of its kind", p_value)]


def _aa_mark(latest: Sequence[Any]) -> list[Mark]:
    recent = [one for one in latest if one.aa_checks][:RECENT]
    failed = sum(one.aa_failed > 0 for one in recent)
    p_value = aa_failures_p(failed, sum(max(1, one.shards) for one in recent))
    if p_value > AA_LEVEL:
        return []
    return [Mark("aa", f"A/A checks found differences in {failed} of its last {len(recent)} runs", p_value)]
