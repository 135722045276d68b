"""The server's pages: latest runs, a run, a case's history, two runs compared, and a search."""

from datetime import UTC, date, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from opduel.records import Verdict, verdict_words
from opduel.reporters.assets import PLOT_CLASS, PLOT_STYLE, csp_hash, flame_style
from opduel.reporters.cause_text import HEADINGS
from opduel.reporters.summary import WORST_FIRST, verdict_counts
from opduel.reporters.units import human_change, human_duration, human_interval, human_share, human_value
from opduel.server.access import CanRead, database_of, settings_of
from opduel.server.api import days, found, found_run, sent_report
from opduel.server.causes import shown_causes
from opduel.server.comparing import compare_runs, in_words
from opduel.server.findings import exp
from opduel.server.histories import (
    Series,
    build_of,
    categories_of,
    history_of,
    narrowed,
    runs_of_builds,
    series_of,
)
from opduel.server.middleware import SECURITY_HEADERS
from opduel.server.models import Case
from opduel.server.queries import (
    MOST_FOUND,
    RunFilter,
    cause_of,
    choices,
    latest_runs,
    list_runs,
    results_worst_first,
    search_cases,
    search_runs,
)
from opduel.server.templating import ENVIRONMENT, page

_LONGEST_QUERY = 200
_OFFERED = 30  # runs that a run is offered to be compared with
# Observable Plot puts one style sheet into each plot, d3-flame-graph one into the page: they are allowed by their
# hashes, and nothing else is.
_POLICY = SECURITY_HEADERS["Content-Security-Policy"].replace(
    "style-src 'self'", f"style-src 'self' {csp_hash(PLOT_STYLE)} {csp_hash(flame_style())}"
)

router = APIRouter(include_in_schema=False)

CaseNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]
PageNumber = Annotated[int, Query(ge=1, le=10**6)]
Words = Annotated[str, Query(max_length=_LONGEST_QUERY)]


@router.get("/")
def runs_page(
    request: Request,
    _reader: CanRead,
    framework: Words = "",
    platform: Words = "",
    category: Words = "",
    spec: Words = "",
    verdict: Words = "",
    commit: Words = "",
    text: Words = "",
    since: Words = "",
    until: Words = "",
    branch: Words = "",
    page: PageNumber = 1,
) -> Response:
    """The latest runs, narrowed and page by page."""
    asked = {"framework": framework, "platform": platform, "branch": branch, "category": category}
    asked |= {"spec": spec, "verdict": _verdict(verdict) or "", "commit": commit, "text": text}
    asked = {name: cleaned for name, value in asked.items() if (cleaned := words_of(value))}
    begin, end = days(day_of(since), day_of(until))
    wanted = RunFilter(**{**asked, "verdict": _verdict(verdict)}, since=begin, until=end)  # type: ignore[arg-type]
    asked |= dates_asked(since, until)
    with database_of(request).reading() as session:
        listed = list_runs(session, wanted, page)
        return page_of(request, "runs.html", listed=listed, asked=asked, choices=choices(session))


@router.get("/runs/{run_id}")
def run_page(request: Request, _reader: CanRead, run_id: str) -> Response:
    """One run: its cases, worst first, and their changes in a plot."""
    with database_of(request).reading() as session:
        run = found_run(session, words_of(run_id))
        same = RunFilter(framework=run.framework, platform=run.platform, spec=run.spec)
        others = [one for one in latest_runs(session, same, _OFFERED + 1) if one.number != run.number][:_OFFERED]
        return page_of(request, "run.html", run=run, results=results_worst_first(session, run), others=others)


@router.get("/runs/{run_id}/report.html")
async def run_report(request: Request, _reader: CanRead, run_id: str) -> Response:
    """The run's report as one HTML file: a download, never shown as a page of ours."""
    cleaned = words_of(run_id)
    return await sent_report(request, cleaned, "html", f"report-{cleaned}.html")


@router.get("/runs/{run_id}/cases/{number}/flames.json")
async def flames(request: Request, _reader: CanRead, run_id: str, number: CaseNumber) -> Response:
    """The flame graphs of a case's cause, one for each examination or null: read from the run's report when they are
    asked for, as no table has them."""
    cleaned = words_of(run_id)
    case = await run_in_threadpool(_explained_case, request, cleaned, number)
    return await sent_report(request, cleaned, "flames", None, case)


def _explained_case(request: Request, run_id: str, number: int) -> str:
    with database_of(request).reading() as session:
        run = found_run(session, run_id)
        return str(found(session.execute(cause_of(run, number)).one_or_none(), "cause")[2].case)


@router.get("/cases/{number}")
def case_page(
    request: Request,
    _reader: CanRead,
    number: CaseNumber,
    platform: Words = "",
    threads: Words = "",
    branch: Words | None = None,
    category: Words = "",
    since: Words = "",
    until: Words = "",
) -> Response:
    """A case's history over builds, in one of its series (an empty ``branch``: of runs that name none), from all its
    runs or those of a category; of all of it, the builds and runs of some days."""
    with database_of(request).reading() as session:
        case = found(session.get(Case, number), "case")
        all_series = series_of(session, number)
        wanted = [
            one
            for one in all_series
            if platform in ("", one.platform) and threads in ("", _threads(one.threads)) and _is_of(branch, one)
        ]
        if not wanted:
            raise HTTPException(404, "there is no run of this case on that platform and branch")
        chosen = words_of(category) or None
        history = history_of(session, wanted[0], chosen)
        shown = narrowed(history, *days(day_of(since), day_of(until)))
        return page_of(
            request,
            "case.html",
            case=case,
            series=wanted[0],
            all_series=all_series,
            category=chosen,
            categories=categories_of(session, wanted[0]),
            history=shown,
            causes=shown_causes(session, number, [run.run_id for run in shown.runs]),
            measured=runs_of_builds(history),
            asked=dates_asked(since, until),
        )


@router.get("/compare")
def compare_page(request: Request, _reader: CanRead, first: Words = "", second: Words = "") -> Response:
    """Two runs side by side, or a form that asks which."""
    with database_of(request).reading() as session:
        if not first or not second:
            recent = latest_runs(session, RunFilter(), _OFFERED)
            return page_of(request, "compare_which.html", first=words_of(first), second=words_of(second), recent=recent)
        given = found_run(session, words_of(first)), found_run(session, words_of(second))
        earlier, later = sorted(given, key=lambda run: (run.started, run.number))
        return page_of(request, "compare.html", runs=(earlier, later), beside=compare_runs(session, earlier, later))


@router.get("/search")
def search_page(request: Request, _reader: CanRead, q: Words = "") -> Response:
    """Runs, commits and cases in which the words stand."""
    text = words_of(q)
    with database_of(request).reading() as session:
        runs = search_runs(session, text) if text else []
        cases = search_cases(session, text) if text else []
        return page_of(request, "search.html", text=text, runs=runs, cases=cases, most=MOST_FOUND)


def page_of(request: Request, template: str, **values: Any) -> Response:
    """A page of the server, which may hold plots."""
    settings = settings_of(request)
    values |= {"commit_link": settings.commit_link, "open_read": settings.open_read, "plot_class": PLOT_CLASS}
    response = page(request, template, **values)
    response.headers["Content-Security-Policy"] = _POLICY
    return response


def day_of(text: str) -> date | None:
    """The day that ``text`` is in ISO 8601; None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def dates_asked(since: str, until: str) -> dict[str, str]:
    """Those of two days that are some, for forms and links."""
    found = {"since": day_of(since), "until": day_of(until)}
    return {name: day.isoformat() for name, day in found.items() if day is not None}


def words_of(text: str) -> str:
    """``text`` without what can't be printed, which some databases refuse, nor blanks around it."""
    return "".join(character for character in text if character.isprintable()).strip()


def _verdict(text: str) -> Verdict | None:
    return next((verdict for verdict in WORST_FIRST if verdict == text), None)


def _is_of(branch: str | None, series: Series) -> bool:
    """Whether the series is of that branch, or has the runs that name none, where it is empty."""
    return branch is None or words_of(branch) == (series.branch or "") or (branch == "" and series.is_only)


def link_of(series: Series) -> str:
    """The path and query of the page of a series' history."""
    asked = {"platform": series.platform, "threads": _threads(series.threads), "branch": series.branch or ""}
    return f"/cases/{series.case_number}?{urlencode(asked)}"


def _threads(threads: int | None) -> str:
    return "unknown" if threads is None else str(threads)


def day_of_commit(seconds: int | None) -> str:
    """The day of a commit's time, UTC."""
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


ENVIRONMENT.filters.update(
    change=human_change,
    interval=human_interval,
    share=human_share,
    value=human_value,
    duration=human_duration,
    log_change=lambda log_ratio: human_change(exp(log_ratio)),
    log_interval=lambda ci: human_interval((exp(ci[0]), exp(ci[1]))),
    p=lambda p: "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
    moment=lambda moment: "-" if moment is None else moment.strftime("%Y-%m-%d %H:%M"),
    date=day_of_commit,
    threads=_threads,
    verdict_words=verdict_words,
    verdict_counts=verdict_counts,
    date_of=lambda moment: moment.strftime("%Y-%m-%d"),
    rfc3339=lambda moment: moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
)
ENVIRONMENT.globals.update(
    build_of=build_of,
    cause_headings=HEADINGS,
    in_words=in_words,
    link_of=link_of,
    verdicts=WORST_FIRST,
    epoch=datetime.fromtimestamp(0, UTC),
    places_of=lambda nodes: {node: place for place, node in enumerate(nodes)},
)
