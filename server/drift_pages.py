"""The page of change points, its forms, and their Atom feed."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, HTTPException, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from opduel.server import access
from opduel.server.change_points import LONGEST_NOTE, acknowledge, withdraw
from opduel.server.findings import (
    ALERT_Q,
    Direction,
    FindingFilter,
    count_series,
    find_findings,
    list_findings,
)
from opduel.server.models import AnalysedSeries, Case, Run
from opduel.server.pages import Day, Words, form_of_filters, page_of, words_of
from opduel.server.queries import choices, moment_of
from opduel.server.templating import ENVIRONMENT, redirect_with_cookie
from opduel.server.upload import form_of

DriftFilters = dict[str, str | None]
SEEN = "opduel_seen"  # a cookie: the time up to which the browser's owner has seen the change points
_MOST_LISTED, _MOST_IN_FEED = 200, 100
_SEEN_LASTS = timedelta(days=400)

router = APIRouter(include_in_schema=False)


def drift_filters(
    platform: Words = "", branch: Words = "", category: Words = "", operator_category: Words = ""
) -> DriftFilters:
    """Return the filters of the page and the feed; None for all."""
    texts = {"platform": platform, "branch": branch, "category": category, "operator_category": operator_category}
    return {name: text or None for name, text in texts.items()}


@router.get("/drift")
def drift_page(
    request: Request,
    session: access.ReadSession,
    login: access.SessionCookie,
    filters: Annotated[DriftFilters, Depends(drift_filters)],
    since: Day = None,
    state: Words = "",
    new: Words = "",
) -> Response:
    """Show change points, the worst first."""
    progress = request.app.state.drift.progress()
    seen_until = _seen_until(request)
    is_new = bool(new and seen_until)
    state = state if state in ("acknowledged", "all") else ""
    begin: date | None = since
    if is_new and seen_until is not None:
        begin = max(seen_until, moment_of(since)) if since else seen_until
    findings = list_findings(session, FindingFilter(state or "open", since=begin, **filters))  # type: ignore[arg-type]
    return page_of(
        request,
        "drift.html",
        progress=progress,
        findings=findings[:_MOST_LISTED],
        unlisted=len(findings) - _MOST_LISTED,
        histories=count_series(session),
        choices=choices(session, AnalysedSeries.platform, AnalysedSeries.branch, Run.category, Case.operator_category),
        feed=urlencode(form_of_filters(filters)),
        form_values=form_of_filters({**filters, "new": "1" if is_new else "", "state": state, "since": since}),
        seen_until=seen_until,
        may_write=access.writing_login(request, login) is not None,
        longest_note=LONGEST_NOTE,
    )


@router.post("/drift/acknowledge")
async def acknowledge_form(request: Request, login: access.SessionCookie) -> Response:
    """Acknowledge the chosen change points, or withdraw their acknowledgements."""
    access.refuse_other_sites(request)
    name = await run_in_threadpool(access.browser_writer, request, login)
    fields = await form_of(request)
    numbers = [int(value) for key, value in fields if key == "number" and value.isdecimal() and len(value) < 10]
    value_by_name = dict(fields)
    note = words_of(value_by_name.get("note", ""))[:LONGEST_NOTE]
    if not numbers:
        raise HTTPException(400, "nothing was chosen: choose at least one row")
    if not note and "withdraw" not in value_by_name:
        raise HTTPException(400, "a note is missing: say in a few words why this needs no further attention")
    await run_in_threadpool(_mark, request, numbers, name, note, "withdraw" in value_by_name)
    return RedirectResponse(f"/drift?{urlencode(_back(value_by_name.get('back', '')))}", 303)


@router.post("/drift/seen")
def seen_form(request: Request, _reader: access.CanRead) -> Response:
    """Record in a cookie that the browser's owner has seen all present change points."""
    access.refuse_other_sites(request)
    return redirect_with_cookie(request, "/drift", SEEN, datetime.now(UTC).isoformat(), _SEEN_LASTS)


@router.get("/drift.atom")
def feed(
    request: Request,
    _reader: Annotated[str | None, Security(access.feed_reader)],
    filters: Annotated[DriftFilters, Depends(drift_filters)],
    framework: Words = "",
    direction: Direction = "all",
) -> Response:
    """Return the change points found or materially changed last, as an Atom feed (RFC 4287)."""
    request.app.state.drift.progress(0.0)
    finding_filter = FindingFilter("all", direction, framework=framework or None, q=ALERT_Q, **filters)  # type: ignore[arg-type]
    base = access.settings_of(request).public_url or str(request.base_url).rstrip("/")
    query = f"?{request.url.query}" if request.url.query else ""
    with access.database_of(request).reading() as session:
        findings = list_findings(session, finding_filter)
        findings.sort(key=lambda finding: (finding.point.changed, finding.point.number), reverse=True)
        latest = findings[:_MOST_IN_FEED]
        updated = latest[0].point.changed if latest else None
        template = ENVIRONMENT.get_template("drift.atom.xml")
        text = template.render(findings=latest, base=base, query=query, updated=updated)
    return Response(text, media_type="application/atom+xml; charset=utf-8")


def _mark(request: Request, numbers: list[int], name: str, note: str, is_withdrawal: bool) -> None:
    with access.database_of(request).writing() as session:
        for finding in find_findings(session, numbers):
            if is_withdrawal:
                withdraw(finding.point)
            else:
                acknowledge(finding.point, name, note, datetime.now(UTC))


def _seen_until(request: Request) -> datetime | None:
    try:
        moment = datetime.fromisoformat(request.cookies.get(SEEN, ""))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _back(text: str) -> list[tuple[str, Any]]:
    """Return the page's filters out of the query ``text``, without anything else."""
    names = ("platform", "branch", "category", "operator_category", "since", "state", "new")
    return [(name, value) for name, value in parse_qsl(text[:500]) if name in names]
