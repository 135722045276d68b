"""The JSON API of hosts: what each measured, how noisy it was, and whether it needs attention."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from opduel.server import hosts
from opduel.server.access import ReadSession
from opduel.server.answers import require_found
from opduel.server.api import PROBLEMS, problems
from opduel.server.hosts import Host, ratio
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


class HostsOut(Part):
    """Some hosts: those seen last, and of these those first that need attention."""

    hosts: Sequence[Host]


class HostHistoryOut(BaseModel):
    """A host and its last runs, the newest first."""

    host: Host
    runs: Sequence[HostRunOut]


@router.get("/hosts")
def list_hosts(session: ReadSession, limit: HostLimit = MOST_LISTED, offset: Offset = 0) -> HostsOut:
    """List the hosts seen last; of these, first those that need attention."""
    some = [host.summary for host in hosts.list_hosts(session, limit, offset)]
    return HostsOut(hosts=some, **part(offset, len(some), hosts.count_hosts(session)))


@router.get("/hosts/{host:path}", responses=problems({404: "no such host"}))
def one_host(session: ReadSession, host: Words) -> HostHistoryOut:
    """Return one host, with its last runs."""
    history = require_found(hosts.find_host(session, host), "host")
    runs = [
        model_from_row(HostRunOut, run, noise=ratio(run.noise), aa_ratio=ratio(run.aa_log_ratio))
        for run in history.latest
    ]
    return HostHistoryOut(host=history.summary, runs=runs)
