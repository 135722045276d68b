"""The JSON API: it takes reports, and returns runs, cases and histories."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from typing import IO, Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import AfterValidator
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from opduel.records import Verdict
from opduel.server import large, queries, schemas
from opduel.server.access import CanRead, CanWrite, database_of, settings_of
from opduel.server.findings import moment_of
from opduel.server.middleware import may_be_packed
from opduel.server.models import Case, Run
from opduel.server.queries import SHORTEST_COMMIT, RunFilter
from opduel.server.schemas import MOST_ROWS
from opduel.server.subprocess_jobs import LARGE_BYTES, SharedFile, SubprocessJobs
from opduel.server.upload import receive

Row = TypeVar("Row")

_PIECE = 2**16  # bytes of a file that are sent at a time


def printable(value: str) -> str:
    """Return ``value``; raise ValueError if a character of it can't be printed."""
    if not value.isprintable():
        raise ValueError("must be printable")
    return value


Words = Annotated[str, Query(max_length=200), AfterValidator(printable)]
Branch = Annotated[Words | None, Query(description="of this branch; empty: of runs that name none")]
OperatorCategory = Annotated[
    Words | None, Query(description="cases of this category of operators, the spec that they are from")
]
Digits = Annotated[str, Query(pattern=rf"^[0-9A-Fa-f]{{{SHORTEST_COMMIT},64}}$", description="the first digits")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]
RunId = Annotated[str, Path(max_length=128), AfterValidator(printable)]
CaseNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]

PROBLEMS: dict[int, str] = {401: "no token, or not a valid one", 403: "the token lacks the scope", 503: "later"}
_POST_PROBLEMS = PROBLEMS | {
    400: "no JSON",
    408: "the body was incomplete",
    409: "another report has this run id, or it is in another category",
    413: "too large",
    415: "not application/json",
    422: "not a report of a schema version that is known here",
}


def problems(texts: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the errors of an endpoint by status, for the OpenAPI document."""
    return {status: {"model": schemas.Problem, "description": text} for status, text in sorted(texts.items())}


def days(since: date | None, until: date | None) -> tuple[datetime | None, datetime | None]:
    """Return the beginning of the first day and the end of the last one, UTC; None where there is no bound."""
    end = None if until is None or until == date.max else until + timedelta(days=1)
    return (None if since is None else moment_of(since)), (None if end is None else moment_of(end))


def run_filter(
    framework: Words | None = None,
    spec: Words | None = None,
    category: Words | None = None,
    platform: Words | None = None,
    verdict: Verdict | None = None,
    commit: Digits | None = None,
    text: Words | None = None,
    since: Annotated[date | None, Query(description="started on this day (UTC) or later")] = None,
    until: Annotated[date | None, Query(description="started on this day (UTC) or earlier")] = None,
    branch: Branch = None,
) -> RunFilter:
    """Return the filter that the query's parameters describe."""
    return RunFilter(framework, spec, category, platform, verdict, commit, text, *days(since, until), branch)


router = APIRouter()
_api = APIRouter(prefix="/api/v1", responses=problems(PROBLEMS | {422: "a parameter is wrong"}))


@router.get("/healthz", responses=problems({503: "the database is not available"}), tags=["health"])
def health(request: Request) -> schemas.Health:
    """Check that the server and its database can answer; no token is needed."""
    with database_of(request).reading() as session:
        session.execute(text("SELECT 1"))
    return schemas.Health(status="ok")


_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Posted"}}},
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "the report's run.id",
            "schema": {"type": "string"},
        }
    ],
}


@_api.post(
    "/reports",
    status_code=201,
    response_model=schemas.StoredReport,
    responses=problems(_POST_PROBLEMS) | {200: {"model": schemas.StoredReport, "description": "already stored"}},
    openapi_extra=_BODY,
    tags=["reports"],
)
async def post_report(request: Request, token: CanWrite) -> Response:
    """Store a report. The same one may be posted any number of times: it is stored once."""
    apart: SubprocessJobs = request.app.state.posts_apart
    most = settings_of(request).max_report_bytes
    key = request.headers.get("idempotency-key")
    with ExitStack() as stack:
        posted = stack.enter_context(await receive(request, most, lambda: stack.enter_context(apart.place())))
        if posted.is_large:
            run_id, stored = await apart.run(large.keep, SharedFile(posted.file), key, most, token)
        else:
            async with request.app.state.parsing:
                run_id, stored = await run_in_threadpool(
                    large.keep, database_of(request), posted.file, key, most, token
                )
    answer = schemas.StoredReport(run_id=run_id, stored=stored, page=f"/runs/{quote(run_id, safe='')}")
    return JSONResponse(answer.model_dump(), 201 if stored else 200)


@_api.get("/runs", tags=["runs"])
def list_runs(
    request: Request,
    _reader: CanRead,
    filters: Annotated[RunFilter, Depends(run_filter)],
    limit: Limit = 100,
    offset: Offset = 0,
) -> schemas.RunsOut:
    """List runs, the latest first."""
    with database_of(request).reading() as session:
        total = queries.count_runs(session, filters)
        runs = [schemas.run_out(run) for run in queries.latest_runs(session, filters, limit, offset)]
    return schemas.RunsOut(runs=runs, **schemas.part(offset, len(runs), total))


@_api.get("/runs/{run_id}", responses=problems({404: "no such run"}), tags=["runs"])
def one_run(request: Request, _reader: CanRead, run_id: RunId) -> schemas.RunOut:
    """Return one run, without its results."""
    with database_of(request).reading() as session:
        return schemas.run_out(require_run(session, run_id))


@_api.get("/runs/{run_id}/results", responses=problems({404: "no such run"}), tags=["runs"])
def run_results(
    request: Request,
    _reader: CanRead,
    run_id: RunId,
    verdict: Verdict | None = None,
    limit: Limit = MOST_ROWS,
    offset: Offset = 0,
) -> schemas.ResultsOut:
    """Return a run's results, in the order of the cases' names."""
    with database_of(request).reading() as session:
        statement = queries.results_of(require_run(session, run_id), verdict)
        rows, total = queries.rows_and_total(session, statement, limit, offset)
        results = [schemas.result_out(result, case) for result, case in rows]
    return schemas.ResultsOut(run_id=run_id, results=results, **schemas.part(offset, len(results), total))


@_api.get(
    "/runs/{run_id}/cases/{number}/cause",
    responses=problems({404: "no such run, or no cause of this case in it"}),
    tags=["runs"],
)
def case_cause(request: Request, _reader: CanRead, run_id: RunId, number: CaseNumber) -> schemas.CauseOut:
    """Return why a case changed in a run, as --explain found: a sentence, and what each source saw."""
    with database_of(request).reading() as session:
        run = require_run(session, run_id)
        row = require_found(session.execute(queries.cause_of(run, number)).one_or_none(), "cause")
        return schemas.cause_out(run.run_id, *row)


@_api.get(
    "/runs/{run_id}/report",
    response_class=Response,
    responses=problems({404: "no such run"})
    | {200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "report.json"}},
    tags=["runs"],
)
async def run_report(request: Request, _reader: CanRead, run_id: RunId) -> Response:
    """Return the whole report, as a local reporter writes it."""
    return await sent_report(request, run_id, "json", "report.json")


@_api.get("/cases", tags=["cases"])
def list_cases(
    request: Request,
    _reader: CanRead,
    framework: Words | None = None,
    text: Words | None = None,
    operator_category: OperatorCategory = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> schemas.CasesOut:
    """List cases whose id or operator contains a text, in the order of their names."""
    with database_of(request).reading() as session:
        statement = queries.find_cases(framework, text, operator_category)
        rows, total = queries.rows_and_total(session, statement, limit, offset)
        cases = [schemas.CaseOut.model_validate(case) for (case,) in rows]
    return schemas.CasesOut(cases=cases, **schemas.part(offset, len(cases), total))


@_api.get("/cases/{number}/history", responses=problems({404: "no such case"}), tags=["cases"])
def case_history(
    request: Request,
    _reader: CanRead,
    number: CaseNumber,
    platform: Words | None = None,
    category: Words | None = None,
    branch: Branch = None,
    limit: Limit = MOST_ROWS,
    offset: Offset = 0,
) -> schemas.HistoryOut:
    """Return all results of a case, the oldest first, without those of runs with --inject."""
    with database_of(request).reading() as session:
        case = require_found(session.get(Case, number), "case")
        rows, total = queries.rows_and_total(
            session, queries.history_of(case, platform, category, branch), limit, offset
        )
        points = [schemas.point_out(result, run) for result, run in rows]
        about = schemas.CaseOut.model_validate(case)
    return schemas.HistoryOut(case=about, points=points, **schemas.part(offset, len(points), total))


router.include_router(_api)


def require_found(row: Row | None, noun: str) -> Row:
    """Return ``row``, or answer that there is no such ``noun``.

    Raises:
        HTTPException: 404, ``row`` is None.
    """
    if row is None:
        raise HTTPException(404, f"there is no such {noun}")
    return row


def require_run(session: Session, run_id: str) -> Run:
    """Return the run called ``run_id``.

    Raises:
        HTTPException: 404, there is none.
    """
    return require_found(session.scalar(select(Run).where(Run.run_id == run_id)), "run")


async def sent_report(
    request: Request, run_id: str, form: large.Form, name: str | None, case: str | None = None
) -> Response:
    """Return the whole report of a run in that form, or the flame graphs of a ``case``; as a download called ``name``.

    Raises:
        HTTPException: 404, or 503 while too many large reports are being read.
    """
    number, size = await run_in_threadpool(_number_and_size, request, run_id)
    database, apart = database_of(request), request.app.state.reads_apart
    packed = may_be_packed(request.headers)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the last of it is sent
    try:
        if size > LARGE_BYTES:
            with apart.place():
                length = await apart.run(large.write, SharedFile(file), number, form, packed, case)
        else:
            async with request.app.state.parsing:
                length = await run_in_threadpool(large.write, database, file, number, form, packed, case)
    except BaseException:
        file.close()
        raise
    headers = {"Content-Length": str(length), "Vary": "Accept-Encoding"}
    headers |= {"Content-Encoding": "gzip"} if packed else {}
    headers |= {"Content-Disposition": f'attachment; filename="{name}"'} if name else {}
    kind = "text/html; charset=utf-8" if form == "html" else "application/json"
    return StreamingResponse(_pieces(file), media_type=kind, headers=headers)


def _number_and_size(request: Request, run_id: str) -> tuple[int, int]:
    with database_of(request).reading() as session:
        number = require_run(session, run_id).number
    return number, large.size_of(database_of(request), number)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        yield from iter(lambda: file.read(_PIECE), b"")
