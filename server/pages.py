"""The server's pages: latest runs, a run, a case's history, two runs compared, and a search."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import AfterValidator, BeforeValidator, Field

from opduel.records import SAMPLED, Verdict, verdict_words
from opduel.reporters.assets import PLOT_CLASS, PLOT_STYLE, csp_hash, flame_style
from opduel.reporters.cause_text import HEADINGS, caption, cells
from opduel.reporters.html.cases import implementation_rows
from opduel.reporters.summary import WORST_FIRST, verdict_counts
from opduel.reporters.text import printable
from opduel.reporters.units import human_change, human_interval, human_share, human_value, human_values
from opduel.server import histories, queries
from opduel.server.access import CanRead, ReadSession, database_of, settings_of
from opduel.server.answers import require_found, require_run
from opduel.server.api import rendered_report
from opduel.server.causes import causes_for_page, may_have_frames
from opduel.server.comparing import compare_runs
from opduel.server.findings import exp
from opduel.server.hosts import COMPARED, count_hosts, find_host, list_hosts
from opduel.server.middleware import SECURITY_HEADERS
from opduel.server.models import Case, Run
from opduel.server.parameters import Number
from opduel.server.templating import ENVIRONMENT, page
from opduel.support.text import duration

RUNS_A_PAGE = 50
_LONGEST_QUERY = 200
_OFFERED = 30  # runs in the list of a page that offers to compare with one
# Observable Plot puts a style sheet into each plot, d3-flame-graph one into the page: only these are allowed, by hash.
_POLICY = SECURITY_HEADERS["Content-Security-Policy"].replace(
    "style-src 'self'", f"style-src 'self' {csp_hash(PLOT_STYLE)} {csp_hash(flame_style())}"
)

router = APIRouter(include_in_schema=False)


def day_of(text: str) -> date | None:
    """Return the day that ``text`` is in ISO 8601; None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def words_of(text: str) -> str:
    """Return ``text`` without surrounding blanks and unprintable characters, which some databases refuse."""
    return "".join(character for character in text if character.isprintable()).strip()


def form_of_filters(filters: Mapping[str, object]) -> dict[str, str]:
    """Return the filters that are set as a form or a link has them."""
    return {name: str(value) for name, value in filters.items() if value}


PageNumber = Annotated[int, Query(ge=1, le=10**6)]
Words = Annotated[str, Field(max_length=_LONGEST_QUERY), AfterValidator(words_of)]
Day = Annotated[date | None, BeforeValidator(day_of)]
AnyVerdict = Annotated[Verdict | None, BeforeValidator(lambda text: text if text in WORST_FIRST else None)]


@router.get("/")
def runs_page(
    request: Request,
    session: ReadSession,
    framework: Words = "",
    platform: Words = "",
    category: Words = "",
    spec: Words = "",
    verdict: AnyVerdict = None,
    commit: Words = "",
    text: Words = "",
    since: Day = None,
    until: Day = None,
    branch: Words = "",
    page: PageNumber = 1,
) -> Response:
    """Show the latest runs page by page, filtered."""
    filters: dict[str, Any] = {
        "framework": framework,
        "platform": platform,
        "branch": branch,
        "category": category,
        "spec": spec,
    }
    filters |= {"verdict": verdict, "commit": commit, "text": text, "since": since, "until": until}
    run_filter = queries.RunFilter(**{name: value or None for name, value in filters.items()})
    total = queries.count_rows(session, queries.matching_runs(run_filter))
    page, pages = page_and_pages(page, total, RUNS_A_PAGE)
    return page_of(
        request,
        "runs.html",
        runs=queries.latest_runs(session, run_filter, RUNS_A_PAGE, (page - 1) * RUNS_A_PAGE),
        total=total,
        page=page,
        pages=pages,
        form_values=form_of_filters(filters),
        choices=queries.choices(session, Run.framework, Run.platform, Run.branch, Run.category, Run.spec),
    )


@router.get("/runs/{run_id}")
def run_page(request: Request, session: ReadSession, run_id: Words) -> Response:
    """Show one run: its cases, the worst first, and their changes in a plot."""
    run = require_run(session, run_id)
    same = queries.RunFilter(framework=run.framework, platform=run.platform, spec=run.spec)
    other_runs = [other for other in queries.latest_runs(session, same, _OFFERED + 1) if other.number != run.number]
    results = queries.results_worst_first(session, run)
    return page_of(request, "run.html", run=run, results=results, other_runs=other_runs[:_OFFERED])


@router.get("/runs/{run_id}/report.html")
async def run_report(request: Request, _reader: CanRead, run_id: Words) -> Response:
    """Return the run's report as one HTML file, always as a download, because it is untrusted."""
    return await rendered_report(request, run_id, "text/html; charset=utf-8", f"report-{run_id}.html")


@router.get("/runs/{run_id}/cases/{number}/flames.json")
async def flames(request: Request, _reader: CanRead, run_id: Words, number: Number) -> Response:
    """Return the flame graphs of a case's cause out of the run's report: one for each examination, or null."""
    case = await run_in_threadpool(_explained_case, request, run_id, number)
    return await rendered_report(request, run_id, "application/json", "flames.json", case)


def _explained_case(request: Request, run_id: str, number: int) -> str:
    with database_of(request).reading() as session:
        row = session.execute(queries.cause_of(require_run(session, run_id), number)).one_or_none()
        return str(require_found(row, "cause")[2].case)


@router.get("/cases/{number}")
def case_page(
    request: Request,
    session: ReadSession,
    number: Number,
    platform: Words = "",
    threads: Words = "",
    branch: Words | None = None,
    category: Words = "",
    since: Day = None,
    until: Day = None,
) -> Response:
    """Show a case's history over builds, in one of its series (an empty ``branch``: runs that name none), of all runs
    or those of a category; only the builds and runs of some days, if these are given."""
    case = require_found(session.get(Case, number), "case")
    all_series = histories.series_of(session, number)
    matching_series = [
        series
        for series in all_series
        if platform in ("", series.platform) and threads in ("", _threads(series.threads)) and _is_of(branch, series)
    ]
    if not matching_series:
        raise HTTPException(404, "there is no run of this case on that platform and branch")
    history = histories.history_of(session, matching_series[0], category or None)
    history_of_days = histories.limit_to_days(history, *queries.days(since, until))
    return page_of(
        request,
        "case.html",
        case=case,
        series=matching_series[0],
        all_series=all_series,
        category=category or None,
        categories=histories.categories_of(session, matching_series[0]),
        history=history_of_days,
        causes=causes_for_page(session, number, [run.run_id for run in history_of_days.runs]),
        measured=histories.runs_of_builds(history),
        form_values=form_of_filters({"since": since, "until": until}),
    )


@router.get("/compare")
def compare_page(request: Request, session: ReadSession, first: Words = "", second: Words = "") -> Response:
    """Show two runs side by side, or a form that asks which."""
    if not first or not second:
        recent = queries.latest_runs(session, queries.RunFilter(), _OFFERED)
        return page_of(request, "compare_which.html", first=first, second=second, recent=recent)
    runs = require_run(session, first), require_run(session, second)
    earlier, later = sorted(runs, key=lambda run: (run.started, run.number))
    return page_of(request, "compare.html", runs=(earlier, later), comparison=compare_runs(session, earlier, later))


@router.get("/search")
def search_page(request: Request, session: ReadSession, q: Words = "") -> Response:
    """Show the runs, commits and cases that contain the words."""
    runs = queries.latest_runs(session, queries.RunFilter(text=q), queries.MOST_FOUND) if q else []
    cases = session.scalars(queries.find_cases(text=q).limit(queries.MOST_FOUND)).all() if q else []
    return page_of(request, "search.html", text=q, runs=runs, cases=cases, most=queries.MOST_FOUND)


@router.get("/hosts")
def hosts_page(request: Request, session: ReadSession, page: PageNumber = 1) -> Response:
    """Show hosts page by page, those seen last first."""
    total = count_hosts(session)
    page, pages = page_and_pages(page, total, COMPARED)
    hosts = list_hosts(session, COMPARED, (page - 1) * COMPARED)
    return page_of(request, "hosts.html", hosts=hosts, total=total, page=page, pages=pages)


@router.get("/hosts/{host:path}")
def host_page(request: Request, session: ReadSession, host: Words) -> Response:
    """Show one host: what it measured, and its noise over time."""
    history = require_found(find_host(session, host), "host")
    return page_of(request, "host.html", history=history, host=history.summary)


def page_and_pages(page: int, total: int, size: int) -> tuple[int, int]:
    """Return the number of the page to show, the last one if ``page`` is too large, and how many pages there are."""
    pages = max(1, -(-total // size))
    return min(page, pages), pages


def page_of(request: Request, template: str, **values: Any) -> Response:
    """Return a page whose Content-Security-Policy allows plots."""
    settings = settings_of(request)
    values |= {"commit_link": settings.commit_link, "open_read": settings.open_read, "plot_class": PLOT_CLASS}
    response = page(request, template, **values)
    response.headers["Content-Security-Policy"] = _POLICY
    return response


def _is_of(branch: str | None, series: histories.Series) -> bool:
    """Return whether the series is of that branch, or has the runs that name none if it is empty."""
    return branch is None or branch == (series.branch or "") or (branch == "" and series.is_only)


def link_of(series: histories.Series) -> str:
    """Return the path and query of the page of a series' history."""
    parameters = {"platform": series.platform, "threads": _threads(series.threads), "branch": series.branch or ""}
    return f"/cases/{series.case_number}?{urlencode(parameters)}"


def _threads(threads: int | None) -> str:
    return "unknown" if threads is None else str(threads)


def day_of_commit(seconds: int | None) -> str:
    """Return the day of a commit's time, UTC; "-" without one."""
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def change_of(ratio: float | None, control: float | None, treatment: float | None, case: Any) -> str:
    """Return a change as a percentage, or as both values of ``case``, ``0 -> 3``, where these have no ratio."""
    if ratio is None and case.metric in SAMPLED and None not in (control, treatment):
        return human_values(control, treatment, case.unit)
    return human_change(ratio)


ENVIRONMENT.filters.update(
    printable=printable,
    caption=caption,
    cells=cells,
    implementation_rows=implementation_rows,
    change=human_change,
    interval=human_interval,
    share=human_share,
    value=human_value,
    duration=duration,
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
    change_of=change_of,
    build_of=histories.build_of,
    cause_headings=HEADINGS,
    link_of=link_of,
    may_have_frames=may_have_frames,
    verdicts=WORST_FIRST,
    epoch=datetime.fromtimestamp(0, UTC),
    places_of=lambda nodes: {node: place for place, node in enumerate(nodes)},
)
