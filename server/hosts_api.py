"""The JSON API of hosts: what each measured, how noisy it was, and whether it needs attention."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from opduel.server import hosts
from opduel.server.access import ReadSession
from opduel.server.answers import require_found
from opduel.server.api import PROBLEMS, problems
from opduel.server.findings import exp
from opduel.server.hosts import HostSummary, Mark
from opduel.server.parameters import Offset, Words
from opduel.server.schemas import Part, model_from_row, part

router = APIRouter(prefix="/api/v1", responses=problems(PROBLEMS | {422: "a parameter is wrong"}), tags=["hosts"])

MOST_LISTED = 100
HostLimit = Annotated[int, Field(ge=1, le=MOST_LISTED)]


class HostRunOut(BaseModel):
    """A host's part in one run. Noise is a ratio: 1.0 is usual for the cases that it measured."""

    run_id: str
    started: datetime
    framework: str
    spec: str
    platform: str
    category: str
    kind: str
    shards: int
    cases: int
    rounds: int
    valid: bool
    distrust: str | None = Field(description="why what it measured can't be trusted")
    spread: float | None = Field(description="standard deviation of a process pair's log ratio, median over cases")
    noise: float | None
    noise_cases: int = Field(description="cases that the spread is from")
    aa_checks: int
    aa_failed: int = Field(description="A/A checks that found a difference")
    aa_ratio: float | None = Field(description="of the A/A check that is farthest from 1")
    aa_spread: float | None


class HostOut(BaseModel):
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


class HostsOut(Part):
    """Some hosts: those seen last, and of these those first that need attention."""

    hosts: Sequence[HostOut]


class HostHistoryOut(BaseModel):
    """A host and its last runs, the newest first."""

    host: HostOut
    runs: Sequence[HostRunOut]


@router.get("/hosts")
def list_hosts(session: ReadSession, limit: HostLimit = MOST_LISTED, offset: Offset = 0) -> HostsOut:
    """List the hosts seen last; of these, first those that need attention."""
    some = [_host_out(summary) for summary in hosts.list_hosts(session, limit, offset)]
    return HostsOut(hosts=some, **part(offset, len(some), hosts.count_hosts(session)))


@router.get("/hosts/{host:path}", responses=problems({404: "no such host"}))
def one_host(session: ReadSession, host: Words) -> HostHistoryOut:
    """Return one host, with its last runs."""
    summary = require_found(hosts.find_host(session, host), "host")
    return HostHistoryOut(host=_host_out(summary), runs=[_run_out(run) for run in summary.latest])


def _host_out(summary: HostSummary) -> HostOut:
    return model_from_row(
        HostOut,
        summary,
        looked_at=len(summary.latest),
        noise=_ratio(summary.level),
        noisier_since=summary.rose,
        measured=dict(summary.measured),
    )


def _run_out(run: Any) -> HostRunOut:
    return model_from_row(HostRunOut, run, noise=_ratio(run.noise), aa_ratio=_ratio(run.aa_log_ratio))


def _ratio(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else exp(log_ratio)
