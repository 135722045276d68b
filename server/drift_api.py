"""The JSON API of change points and their acknowledgements."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy.orm import Session

from opduel.server.access import CanWrite, ReadSession, database_of
from opduel.server.answers import require_found
from opduel.server.api import PROBLEMS, problems
from opduel.server.change_points import LONGEST_NOTE, acknowledge, withdraw
from opduel.server.findings import Finding, FindingFilter, exp, find_findings, list_findings
from opduel.server.histories import BuildName
from opduel.server.parameters import Limit, Number, Offset
from opduel.server.schemas import CaseOut, Part, model_from_row, part
from opduel.server.upload import small_body
from opduel.support.validation import explain

router = APIRouter(
    prefix="/api/v1", responses=problems(PROBLEMS | {422: "a parameter is wrong"}), tags=["change points"]
)
_GONE = problems({404: "no such change point"})


class AcknowledgementOut(BaseModel):
    """Who acknowledged a change point, when, and why it needs no further attention. ``counts`` is false if it has
    changed materially since."""

    at: datetime
    by: str = Field(description="the name of a token")
    note: str
    counts: bool


class ChangePointOut(BaseModel):
    """A change in the history of a case on one platform and branch."""

    number: int
    case: CaseOut
    platform: str
    threads: int | None
    branch: str | None = Field(description="null where the runs of the history name none")
    kind: str = Field(description="step; drift: gradual, over `builds` builds; overall: newest against oldest")
    before: BuildName
    after: BuildName
    builds: int
    ratio: float = Field(description="new level / old level")
    ci: tuple[float, float]
    p_value: float
    q_value: float = Field(description="after the false-discovery correction over all histories")
    found: datetime
    changed: datetime = Field(description="when it was found, or last changed materially")
    acknowledgement: AcknowledgementOut | None


class ChangePointsOut(Part):
    """Some change points, the worst first."""

    change_points: list[ChangePointOut]
    complete: bool = Field(description="false while histories with new runs are being analysed: ask again")


class Acknowledgement(BaseModel):
    """The body of an acknowledgement: why a change point needs no further attention."""

    note: Annotated[str, Field(min_length=1, max_length=LONGEST_NOTE, pattern=r"\S")]


_BODY = {"required": True, "content": {"application/json": {"schema": Acknowledgement.model_json_schema()}}}


@router.get("/change_points")
def list_change_points(
    request: Request,
    session: ReadSession,
    filters: Annotated[FindingFilter, Depends()],
    limit: Limit = 100,
    offset: Offset = 0,
) -> ChangePointsOut:
    """List change points, the worst first: the largest slowdown, ..., the largest gain."""
    progress = request.app.state.drift.progress()
    findings = list_findings(session, filters)
    page = [_out(finding) for finding in findings[offset : offset + limit]]
    pages = part(offset, len(page), len(findings))
    return ChangePointsOut(change_points=page, **pages, complete=progress.is_complete)


@router.get("/change_points/{number}", responses=_GONE)
def one_change_point(session: ReadSession, number: Number) -> ChangePointOut:
    """Return one change point."""
    return _out(_require_finding(session, number))


@router.put(
    "/change_points/{number}/acknowledgement",
    responses=problems({404: "no such change point", 413: "too large"}),
    openapi_extra={"requestBody": _BODY},
)
async def put_acknowledgement(request: Request, token: CanWrite, number: Number) -> ChangePointOut:
    """Acknowledge a change point, until it changes materially."""
    try:
        posted = Acknowledgement.model_validate_json(await small_body(request))
    except ValidationError as error:
        raise HTTPException(422, f'the body must be {{"note": "..."}}: {explain(error, "it")}') from None
    note = "".join(char for char in posted.note if char.isprintable()).strip()
    return await run_in_threadpool(_acknowledge, request, number, token, note)


def _acknowledge(request: Request, number: int, token: str, note: str) -> ChangePointOut:
    with database_of(request).writing() as session:
        finding = _require_finding(session, number)
        acknowledge(finding.point, token, note, datetime.now(UTC))
        return _out(finding)


@router.delete("/change_points/{number}/acknowledgement", responses=_GONE)
def delete_acknowledgement(request: Request, _token: CanWrite, number: Number) -> ChangePointOut:
    """Withdraw an acknowledgement."""
    with database_of(request).writing() as session:
        finding = _require_finding(session, number)
        withdraw(finding.point)
        return _out(finding)


def _require_finding(session: Session, number: int) -> Finding:
    return require_found(next(iter(find_findings(session, [number])), None), "change point")


def _out(finding: Finding) -> ChangePointOut:
    point = finding.point
    acknowledgement = None
    if point.acknowledged is not None:
        acknowledgement = AcknowledgementOut(
            at=point.acknowledged, by=point.acknowledged_by or "", note=point.note or "", counts=point.is_acknowledged
        )
    return model_from_row(
        ChangePointOut,
        point,
        case=CaseOut.model_validate(finding.case),
        **{name: getattr(finding.series, name) for name in ("platform", "threads", "branch")},
        **{name: getattr(finding, name) for name in ("before", "after", "ratio", "q_value")},
        ci=(exp(point.ci_low), exp(point.ci_high)),
        acknowledgement=acknowledgement,
    )
