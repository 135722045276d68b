"""What changed over whole histories: the page, its forms, and an Atom feed."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, HTTPException, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from opduel.server.access import (
    CanRead,
    SessionCookie,
    browser_writer,
    database_of,
    feed_reader,
    refuse_other_sites,
    settings_of,
    writing_login,
)
from opduel.server.api import days
from opduel.server.change_points import LONGEST_NOTE, acknowledge, withdraw
from opduel.server.findings import ALERT_Q, Direction, Wanted, count_series, drift_choices, find_findings, list_findings
from opduel.server.pages import Words, dates_asked, day_of, page_of, words_of
from opduel.server.templating import ENVIRONMENT, leading_to
from opduel.server.upload import form_of

Chosen = dict[str, str | None]
SEEN = "opduel_seen"  # a cookie: until when the browser's owner has seen the findings
_MOST_LISTED, _MOST_IN_FEED = 200, 100
_SEEN_LASTS = timedelta(days=400)

router = APIRouter(include_in_schema=False)


def narrowing(platform: Words = "", branch: Words = "", category: Words = "", operator_category: Words = "") -> Chosen:
    """What page and feed can be narrowed to; None for all."""
    asked = {"platform": platform, "branch": branch, "category": category, "operator_category": operator_category}
    return {name: words_of(value) or None for name, value in asked.items()}


@router.get("/creep")
def old_page() -> Response:
    """Where the page was before."""
    return RedirectResponse("/drift", 308)


@router.get("/drift")
def drift_page(
    request: Request,
    _reader: CanRead,
    login: SessionCookie,
    chosen: Annotated[Chosen, Depends(narrowing)],
    since: Words = "",
    state: Words = "",
    new: Words = "",
) -> Response:
    """Change points, the worst first."""
    progress = request.app.state.drift.progress()
    seen = _seen(request)
    asked = {name: value or "" for name, value in chosen.items()} | {"new": "1" if new and seen else ""}
    asked |= {"state": state if state in ("acknowledged", "all") else ""}
    asked |= dates_asked(since, "")
    begin = days(day_of(since), None)[0]
    if asked["new"] and seen is not None:
        begin = max(seen, begin or seen)
    wanted = Wanted(asked["state"] or "open", since=begin, **chosen)  # type: ignore[arg-type]
    with database_of(request).reading() as session:
        found = list_findings(session, wanted)
        return page_of(
            request,
            "drift.html",
            progress=progress,
            found=found[:_MOST_LISTED],
            left=len(found) - _MOST_LISTED,
            histories=count_series(session),
            choices=drift_choices(session),
            feed=urlencode({name: value for name, value in chosen.items() if value}),
            asked={name: value for name, value in asked.items() if value},
            seen=seen,
            may_write=writing_login(request, login) is not None,
            longest_note=LONGEST_NOTE,
        )


@router.post("/drift/acknowledge")
async def acknowledge_form(request: Request, login: SessionCookie) -> Response:
    """Somebody knows of some change points, or takes that back."""
    refuse_other_sites(request)
    name = await run_in_threadpool(browser_writer, request, login)
    fields = await form_of(request)
    numbers = [int(value) for key, value in fields if key == "number" and value.isdecimal() and len(value) < 10]
    given = dict(fields)
    note = words_of(given.get("note", ""))[:LONGEST_NOTE]
    if not numbers:
        raise HTTPException(400, "nothing was chosen: choose at least one row")
    if not note and "withdraw" not in given:
        raise HTTPException(400, "a note is missing: say in a few words why this needs no further attention")
    await run_in_threadpool(_mark, request, numbers, name, note, "withdraw" in given)
    return RedirectResponse(f"/drift?{urlencode(_back(given.get('back', '')))}", 303)


@router.post("/drift/seen")
def seen_form(request: Request, _reader: CanRead) -> Response:
    """All that is there now has been seen, by this browser's owner."""
    refuse_other_sites(request)
    return leading_to(request, "/drift", SEEN, datetime.now(UTC).isoformat(), _SEEN_LASTS)


@router.get("/drift.atom")
def feed(
    request: Request,
    _reader: Annotated[str | None, Security(feed_reader)],
    chosen: Annotated[Chosen, Depends(narrowing)],
    framework: Words = "",
    direction: Direction = "all",
) -> Response:
    """The change points found or materially changed last, as an Atom feed (RFC 4287)."""
    request.app.state.drift.progress(0.0)
    wanted = Wanted("all", direction, framework=words_of(framework) or None, q=ALERT_Q, **chosen)  # type: ignore[arg-type]
    base = settings_of(request).public_url or str(request.base_url).rstrip("/")
    query = f"?{request.url.query}" if request.url.query else ""
    with database_of(request).reading() as session:
        found = sorted(list_findings(session, wanted), key=lambda one: (one.point.changed, one.point.number))
        latest = found[::-1][:_MOST_IN_FEED]
        updated = latest[0].point.changed if latest else None
        text = ENVIRONMENT.get_template("drift.atom.xml").render(found=latest, base=base, query=query, updated=updated)
    return Response(text, media_type="application/atom+xml; charset=utf-8")


def _mark(request: Request, numbers: list[int], name: str, note: str, taken_back: bool) -> None:
    with database_of(request).writing() as session:
        for one in find_findings(session, numbers):
            if taken_back:
                withdraw(one.point)
            else:
                acknowledge(one.point, name, note, datetime.now(UTC))


def _seen(request: Request) -> datetime | None:
    try:
        moment = datetime.fromisoformat(request.cookies.get(SEEN, ""))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _back(text: str) -> list[tuple[str, Any]]:
    """The filters to come back to."""
    names = ("platform", "branch", "category", "operator_category", "since", "state", "new")
    return [(name, value) for name, value in parse_qsl(text[:500]) if name in names]
