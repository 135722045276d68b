"""The JSON API: it takes reports, and returns runs, cases and histories."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from typing import IO, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response, StreamingResponse

from opduel.records import Verdict
from opduel.server import large, queries, schemas
from opduel.server.access import CanWrite, ReadSession, database_of, settings_of
from opduel.server.answers import cause_out, part_of, point_out, require_found, require_run, result_out, run_out
from opduel.server.models import Case
from opduel.server.parameters import MOST_ROWS, Branch, Limit, Number, Offset, OperatorCategory, RunId, Words
from opduel.server.queries import RunFilter
from opduel.server.subprocess_jobs import LARGE_BYTES, SharedFile, SubprocessJobs
from opduel.server.upload import receive

_PIECE = 2**16  # bytes of a file that are sent at a time

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


router = APIRouter()
_api = APIRouter(prefix="/api/v1", responses=problems(PROBLEMS | {422: "a parameter is wrong"}))


@router.get("/healthz", responses=problems({503: "the database is not available"}), tags=["health"])
def health(request: Request) -> schemas.Health:
    """Check that the server and its database can answer; no token is needed."""
    database_of(request).check_readable()
    return schemas.Health(status="ok")


_BODY = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Posted"}}}}
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description="the report's run.id")]


@_api.post(
    "/reports",
    status_code=201,
    response_model=schemas.StoredReport,
    responses=problems(_POST_PROBLEMS) | {200: {"model": schemas.StoredReport, "description": "already stored"}},
    openapi_extra={"requestBody": _BODY},
    tags=["reports"],
)
async def post_report(request: Request, token: CanWrite, key: IdempotencyKey = None) -> Response:
    """Store a report. The same one may be posted any number of times: it is stored once."""
    apart: SubprocessJobs = request.app.state.posts_apart
    most = settings_of(request).max_report_bytes
    with ExitStack() as stack:
        body = await receive(request, most, lambda: stack.enter_context(apart.place()))
        stack.callback(body.close)
        if body.tell() > LARGE_BYTES:
            run_id, stored = await apart.run(large.keep, SharedFile(body), key, most, token)
        else:
            async with request.app.state.parsing:
                run_id, stored = await run_in_threadpool(large.keep, database_of(request), body, key, most, token)
    answer = schemas.StoredReport(run_id=run_id, stored=stored, page=f"/runs/{quote(run_id, safe='')}")
    return JSONResponse(answer.model_dump(), 201 if stored else 200)


@_api.get("/runs", tags=["runs"])
def list_runs(
    session: ReadSession, filters: Annotated[RunFilter, Depends()], limit: Limit = 100, offset: Offset = 0
) -> schemas.RunsOut:
    """List runs, the latest first. verdict: at least one result has it. commit: the first digits of either side's.
    text: a part of the run's id, spec, builds, commits, or user identifier."""
    return part_of(session, queries.matching_runs(filters), limit, offset, schemas.RunsOut, "runs", run_out)


@_api.get("/runs/{run_id}", responses=problems({404: "no such run"}), tags=["runs"])
def one_run(session: ReadSession, run_id: RunId) -> schemas.RunOut:
    """Return one run, without its results."""
    return run_out(require_run(session, run_id))


@_api.get("/runs/{run_id}/results", responses=problems({404: "no such run"}), tags=["runs"])
def run_results(
    session: ReadSession, run_id: RunId, verdict: Verdict | None = None, limit: Limit = MOST_ROWS, offset: Offset = 0
) -> schemas.ResultsOut:
    """Return a run's results, in the order of the cases' names."""
    statement = queries.results_of(require_run(session, run_id), verdict)
    return part_of(session, statement, limit, offset, schemas.ResultsOut, "results", result_out, run_id=run_id)


@_api.get(
    "/runs/{run_id}/cases/{number}/cause",
    responses=problems({404: "no such run, or no cause of this case in it"}),
    tags=["runs"],
)
def case_cause(session: ReadSession, run_id: RunId, number: Number) -> schemas.CauseOut:
    """Return why a case changed in a run, as --explain found: a sentence, and what each source saw."""
    run = require_run(session, run_id)
    return cause_out(run, *require_found(session.execute(queries.cause_of(run, number)).one_or_none(), "cause"))


@_api.get(
    "/runs/{run_id}/report",
    response_class=Response,
    responses=problems({404: "no such run"})
    | {200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "report.json"}},
    tags=["runs"],
)
def run_report(session: ReadSession, run_id: RunId) -> Response:
    """Return the whole report, as a local reporter writes it."""
    document = queries.document_of(session, require_run(session, run_id).number)
    return download(BytesIO(document), len(document), "application/json", "report.json")


@_api.get("/cases", tags=["cases"])
def list_cases(
    session: ReadSession,
    framework: Words | None = None,
    text: Words | None = None,
    operator_category: OperatorCategory = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> schemas.CasesOut:
    """List cases in the order of their names; of a text, every word is in their id or operator."""
    statement = queries.find_cases(framework, text, operator_category)
    return part_of(session, statement, limit, offset, schemas.CasesOut, "cases", schemas.CaseOut.model_validate)


@_api.get("/cases/{number}/history", responses=problems({404: "no such case"}), tags=["cases"])
def case_history(
    session: ReadSession,
    number: Number,
    platform: Words | None = None,
    category: Words | None = None,
    branch: Branch = None,
    limit: Limit = MOST_ROWS,
    offset: Offset = 0,
) -> schemas.HistoryOut:
    """Return all results of a case, the oldest first, without those of runs with --inject."""
    case = require_found(session.get(Case, number), "case")
    statement, about = queries.history_of(case, platform, category, branch), schemas.CaseOut.model_validate(case)
    return part_of(session, statement, limit, offset, schemas.HistoryOut, "points", point_out, case=about)


router.include_router(_api)


async def rendered_report(request: Request, run_id: str, kind: str, name: str, case: str | None = None) -> Response:
    """Return a run's report as HTML, or only the flame graphs of a ``case`` as JSON; as a download called ``name``.
    Raises HTTPException: 404, or 503 while too many large reports are being read."""
    database, apart = database_of(request), request.app.state.reads_apart
    number, size = await run_in_threadpool(large.number_and_size, database, run_id)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the last of it is sent
    try:
        if size > LARGE_BYTES:
            with apart.place():
                length = await apart.run(large.write, SharedFile(file), number, case)
        else:
            async with request.app.state.parsing:
                length = await run_in_threadpool(large.write, database, file, number, case)
    except BaseException:
        file.close()
        raise
    return download(file, length, kind, name)


def download(file: IO[bytes], length: int, kind: str, name: str) -> Response:
    """Return the content of ``file``, which is read and compressed piece by piece, so that other requests go on."""

    def pieces() -> Iterator[bytes]:
        with file:
            file.seek(0)
            yield from iter(lambda: file.read(_PIECE), b"")

    headers = {"Content-Length": str(length), "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces(), media_type=kind, headers=headers)
