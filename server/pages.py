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
from opduel.reporters.units import human_change, human_interval, human_share, human_value
from opduel.server.access import CanRead, database_of, settings_of
from opduel.server.api import days, require_found, require_run, sent_report
from opduel.server.causes import causes_for_page
from opduel.server.comparing import compare_runs, in_words
from opduel.server.findings import exp
from opduel.server.histories import (
    Series,
    build_of,
    categories_of,
    history_of,
    limit_to_days,
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
from opduel.support.text import duration

_LONGEST_QUERY = 200
_OFFERED = 30  # runs in the list of a page that offers to compare with one
# Observable Plot puts a style sheet into each plot, d3-flame-graph one into the page: only these are allowed, by hash.
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
    """Show the latest runs page by page, filtered."""
    form_values = {"framework": framework, "platform": platform, "branch": branch, "category": category}
    form_values |= {"spec": spec, "verdict": _verdict(verdict) or "", "commit": commit, "text": text}
    form_values = {name: cleaned for name, value in form_values.items() if (cleaned := words_of(value))}
    begin, end = days(day_of(since), day_of(until))
    run_filter = RunFilter(**{**form_values, "verdict": _verdict(verdict)}, since=begin, until=end)  # type: ignore[arg-type]
    form_values |= valid_days(since, until)
    with database_of(request).reading() as session:
        listed = list_runs(session, run_filter, page)
        return page_of(request, "runs.html", listed=listed, form_values=form_values, choices=choices(session))


@router.get("/runs/{run_id}")
def run_page(request: Request, _reader: CanRead, run_id: str) -> Response:
    """Show one run: its cases, the worst first, and their changes in a plot."""
    with database_of(request).reading() as session:
        run = require_run(session, words_of(run_id))
        same = RunFilter(framework=run.framework, platform=run.platform, spec=run.spec)
        other_runs = [other for other in latest_runs(session, same, _OFFERED + 1) if other.number != run.number][
            :_OFFERED
        ]
        return page_of(request, "run.html", run=run, results=results_worst_first(session, run), other_runs=other_runs)


@router.get("/runs/{run_id}/report.html")
async def run_report(request: Request, _reader: CanRead, run_id: str) -> Response:
    """Return the run's report as one HTML file, always as a download, because it is untrusted."""
    cleaned = words_of(run_id)
    return await sent_report(request, cleaned, "html", f"report-{cleaned}.html")


@router.get("/runs/{run_id}/cases/{number}/flames.json")
async def flames(request: Request, _reader: CanRead, run_id: str, number: CaseNumber) -> Response:
    """Return the flame graphs of a case's cause out of the run's report: one for each examination, or null."""
    cleaned = words_of(run_id)
    case = await run_in_threadpool(_explained_case, request, cleaned, number)
    return await sent_report(request, cleaned, "flames", None, case)


def _explained_case(request: Request, run_id: str, number: int) -> str:
    with database_of(request).reading() as session:
        run = require_run(session, run_id)
        return str(require_found(session.execute(cause_of(run, number)).one_or_none(), "cause")[2].case)


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
    """Show a case's history over builds, in one of its series (an empty ``branch``: runs that name none), of all runs
    or those of a category; only the builds and runs of some days, if these are given."""
    with database_of(request).reading() as session:
        case = require_found(session.get(Case, number), "case")
        all_series = series_of(session, number)
        matching_series = [
            series
            for series in all_series
            if platform in ("", series.platform)
            and threads in ("", _threads(series.threads))
            and _is_of(branch, series)
        ]
        if not matching_series:
            raise HTTPException(404, "there is no run of this case on that platform and branch")
        chosen = words_of(category) or None
        history = history_of(session, matching_series[0], chosen)
        history_of_days = limit_to_days(history, *days(day_of(since), day_of(until)))
        return page_of(
            request,
            "case.html",
            case=case,
            series=matching_series[0],
            all_series=all_series,
            category=chosen,
            categories=categories_of(session, matching_series[0]),
            history=history_of_days,
            causes=causes_for_page(session, number, [run.run_id for run in history_of_days.runs]),
            measured=runs_of_builds(history),
            form_values=valid_days(since, until),
        )


@router.get("/compare")
def compare_page(request: Request, _reader: CanRead, first: Words = "", second: Words = "") -> Response:
    """Show two runs side by side, or a form that asks which."""
    with database_of(request).reading() as session:
        if not first or not second:
            recent = latest_runs(session, RunFilter(), _OFFERED)
            return page_of(request, "compare_which.html", first=words_of(first), second=words_of(second), recent=recent)
        runs = require_run(session, words_of(first)), require_run(session, words_of(second))
        earlier, later = sorted(runs, key=lambda run: (run.started, run.number))
        return page_of(request, "compare.html", runs=(earlier, later), comparison=compare_runs(session, earlier, later))


@router.get("/search")
def search_page(request: Request, _reader: CanRead, q: Words = "") -> Response:
    """Show the runs, commits and cases that contain the words."""
    text = words_of(q)
    with database_of(request).reading() as session:
        runs = search_runs(session, text) if text else []
        cases = search_cases(session, text) if text else []
        return page_of(request, "search.html", text=text, runs=runs, cases=cases, most=MOST_FOUND)


def page_of(request: Request, template: str, **values: Any) -> Response:
    """Return a page whose Content-Security-Policy allows plots."""
    settings = settings_of(request)
    values |= {"commit_link": settings.commit_link, "open_read": settings.open_read, "plot_class": PLOT_CLASS}
    response = page(request, template, **values)
    response.headers["Content-Security-Policy"] = _POLICY
    return response


def day_of(text: str) -> date | None:
    """Return the day that ``text`` is in ISO 8601; None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def valid_days(since: str, until: str) -> dict[str, str]:
    """Return those of the two days that are valid, by name, for forms and links."""
    day_by_name = {"since": day_of(since), "until": day_of(until)}
    return {name: day.isoformat() for name, day in day_by_name.items() if day is not None}


def words_of(text: str) -> str:
    """Return ``text`` without surrounding blanks and unprintable characters, which some databases refuse."""
    return "".join(character for character in text if character.isprintable()).strip()


def _verdict(text: str) -> Verdict | None:
    return next((verdict for verdict in WORST_FIRST if verdict == text), None)


def _is_of(branch: str | None, series: Series) -> bool:
    """Return whether the series is of that branch, or has the runs that name none if it is empty."""
    return branch is None or words_of(branch) == (series.branch or "") or (branch == "" and series.is_only)


def link_of(series: Series) -> str:
    """Return the path and query of the page of a series' history."""
    parameters = {"platform": series.platform, "threads": _threads(series.threads), "branch": series.branch or ""}
    return f"/cases/{series.case_number}?{urlencode(parameters)}"


def _threads(threads: int | None) -> str:
    return "unknown" if threads is None else str(threads)


def day_of_commit(seconds: int | None) -> str:
    """Return the day of a commit's time, UTC; "-" without one."""
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


ENVIRONMENT.filters.update(
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
    build_of=build_of,
    cause_headings=HEADINGS,
    in_words=in_words,
    link_of=link_of,
    verdicts=WORST_FIRST,
    epoch=datetime.fromtimestamp(0, UTC),
    places_of=lambda nodes: {node: place for place, node in enumerate(nodes)},
)
