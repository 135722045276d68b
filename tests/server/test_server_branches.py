"""Branches and categories on the server: each branch has a history of its own, and lists, feed and alerts narrow."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import feedparser
import pytest
from results_server import RunningServer, body, numbered, running_server
from sqlalchemy import select
from test_server_drift import keep, night, points

from opduel.records import Case as ReportCase
from opduel.records import Report
from opduel.server.command_line import main
from opduel.server.histories import Series, by_branch
from opduel.server.models import Case, Run

NIGHTS, STEP_AT = 8, 4


def nights(
    branch: str | None, size: float, first: int = 0, case: str = "steady", category: str | None = None
) -> list[Report]:
    """Commits of a branch, each against the release, with a step of ``size`` in the middle."""
    reports = []
    for number in range(first, first + NIGHTS):
        report = night(number, size if number >= first + STEP_AT else 1.0, case, branch=branch, id=f"{branch}-{number}")
        comparison = report.comparisons[0]
        report_case = ReportCase(
            comparison.case,
            comparison.operator,
            comparison.direction,
            {},
            "float32",
            "cpu",
            0.02,
            9.0,
            category=category,
        )  # type: ignore[arg-type]
        reports.append(replace(report, cases=(report_case,)))
    return reports


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server with two branches, in a category each, and runs that name none; nobody posts to it."""
    with running_server(tmp_path_factory.mktemp("two"), open_read=True) as server:
        keep(server, *nights("main", 1.08, category="unary"), category="nightly", analyse=False)
        keep(server, *nights("v1.x", 1.2, first=100, category="unary"), category="weekly", analyse=False)
        keep(server, *nights(None, 1.4, first=200), category="by hand", analyse=False)
        keep(server, *nights("main", 1.3, first=300, case="other", category="reduction"), category="nightly")
        yield server


def get(server: RunningServer, path: str, **parameters: str) -> Any:
    with server.client(None) as client:
        answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json() if "json" in answer.headers["Content-Type"] else answer.text


def steady(server: RunningServer) -> int:
    number: int = get(server, "/api/v1/cases", text="steady")["cases"][0]["number"]
    return number


def series(branch: str | None, platform: str = "host") -> Series:
    return Series(1, platform, 1, branch)


def test_runs_that_name_no_branch_belong_to_the_only_one() -> None:
    none, main, other = series(None), series("main"), series("v1.x")
    assert by_branch([none]) == {none: none}
    assert by_branch([none, main]) == {none: main, main: main}
    parts = by_branch([none, main, other, series("main", "gpu")])
    assert parts == {part: part for part in (none, main, other, series("main", "gpu"))}
    assert [part.is_only for part in parts.values()] == [False, False, False, True]


def test_runs_are_narrowed_by_branch(two: RunningServer) -> None:
    assert {run["branch"] for run in get(two, "/api/v1/runs")["runs"]} == {"main", "v1.x", None}
    assert {run["branch"] for run in get(two, "/api/v1/runs", branch="v1.x")["runs"]} == {"v1.x"}
    assert {run["branch"] for run in get(two, "/api/v1/runs", branch="")["runs"]} == {None}
    assert get(two, "/api/v1/runs", branch="none like that")["total"] == 0
    page = get(two, "/", branch="v1.x")
    assert '<option value="v1.x" selected>' in page
    assert f"{NIGHTS} runs" in page
    assert "<dt>Branch</dt><dd>v1.x</dd>" in get(two, "/runs/v1.x-100")
    assert "<dt>Branch</dt>" not in get(two, "/runs/None-200")


def test_every_branch_has_its_own_history(two: RunningServer) -> None:
    path = f"/cases/{steady(two)}"
    for branch, change, absent in (("main", "+8.0 %", "+20.0 %"), ("v1.x", "+20.0 %", "+8.0 %"), ("", "+40.0 %", "+8")):
        page = get(two, path, branch=branch)
        assert f"over {NIGHTS + 1} builds and {NIGHTS} runs" in page  # the release is a build of each
        assert f'<strong class="lead">{change}</strong>' in page
        assert absent not in page
    assert "runs that name no branch" in get(two, path, branch="")
    with two.client(None) as client:
        assert client.get(path, params={"branch": "gone"}).status_code == 404
    results = get(two, f"/api/v1{path}/history", branch="v1.x")["points"]
    assert {point["branch"] for point in results} == {"v1.x"}
    assert len(results) == NIGHTS
    assert f'{path}?platform=cpu&amp;threads=1&amp;branch=v1.x"' in get(two, "/runs/v1.x-100")


def test_change_points_are_of_a_branch(two: RunningServer) -> None:
    ratios = {(point["case"]["case"], point["branch"]): point["ratio"] for point in points(two)}
    assert ratios == {
        ("steady", "main"): pytest.approx(1.08, abs=0.01),
        ("steady", "v1.x"): pytest.approx(1.2, abs=0.01),
        ("steady", None): pytest.approx(1.4, abs=0.01),
        ("other", "main"): pytest.approx(1.3, abs=0.01),
    }
    assert {point["branch"] for point in points(two, branch="main")} == {"main"}
    assert [point["branch"] for point in points(two, branch="")] == [None]
    page = get(two, "/drift", branch="v1.x")
    assert "+20.0 %" in page
    assert "+8.0 %" not in page
    assert "branch v1.x" in page
    assert '<a href="/drift.atom?branch=v1.x">' in page
    assert f"/cases/{steady(two)}?platform=cpu&amp;threads=1&amp;branch=v1.x" in page
    (entry,) = feedparser.parse(get(two, "/drift.atom", branch="v1.x")).entries
    assert entry.link.endswith("&branch=v1.x")
    assert "v1.x" in [tag.term for tag in entry.tags]
    assert "branch v1.x" in entry.content[0].value


def test_a_category_narrows_histories_and_drift(two: RunningServer) -> None:
    """Both that of runs and that of operators."""
    assert {point["branch"] for point in points(two, category="weekly")} == {"v1.x"}
    assert {point["branch"] for point in points(two, category="by hand")} == {None}
    assert {point["case"]["case"] for point in points(two, operator_category="reduction")} == {"other"}
    assert points(two, operator_category="unary", category="by hand")[0]["branch"] is None  # the case's, not the run's
    assert "+30.0 %" in get(two, "/drift", operator_category="reduction")
    assert "+20.0 %" not in get(two, "/drift", operator_category="reduction")
    assert "+8.0 %" not in get(two, "/drift", category="weekly")
    assert len(feedparser.parse(get(two, "/drift.atom", category="weekly")).entries) == 1
    assert len(feedparser.parse(get(two, "/drift.atom", operator_category="reduction")).entries) == 1
    cases = get(two, "/api/v1/cases", operator_category="reduction")["cases"]
    assert [(point["case"], point["operator_category"]) for point in cases] == [("other", "reduction")]


def test_a_history_is_weighed_from_the_runs_of_a_category(tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True) as server:
        keep(server, *nights("main", 1.08), analyse=False)
        keep(server, *nights("main", 1.3, first=50), category="trial")
        path = f"/cases/{steady(server)}"
        assert f"{2 * NIGHTS + 1} builds and {2 * NIGHTS} runs" in get(server, path)
        page = get(server, path, category="nightly")
        assert f"{NIGHTS + 1} builds and {NIGHTS} runs" in page
        assert "Only runs of this category have been analysed." in page
        assert "+30" not in page
        assert '<option value="trial">' in page


def test_the_alert_command_narrows(two: RunningServer, tmp_path: Path) -> None:
    out, every = tmp_path / "alert.txt", tmp_path / "every.txt"
    url = two.database.url.render_as_string(hide_password=False).replace("+pysqlite", "")
    command = ["alert", "--database", url, "--public_url", "https://r.example.org"]
    assert main([*command, "--notify_command", f"tee {out}", "--branch", "v1.x"]) == 0
    text = out.read_text(encoding="utf-8")
    assert "branch     v1.x" in text
    assert "+20.0 %" in text
    assert "+8.0 %" not in text
    assert "branch=v1.x" in text
    out.unlink()
    assert main([*command, "--notify_command", f"tee {out}", "--branch", "v1.x"]) == 0
    assert not out.exists()
    assert main([*command, "--notify_command", f"tee {every}", "--category", "weekly"]) == 0
    assert "+20.0 %" in every.read_text(encoding="utf-8")  # another receiver: another line of cron
    assert main([*command, "--notify_command", f"tee {every}"]) == 0
    text = every.read_text(encoding="utf-8")
    assert "branch     main, v1.x" in text
    assert "Change 104 <b>& on the branch v1.x" in text


def test_what_named_no_branch_becomes_the_first_branchs_own(tmp_path: Path, database_url: str) -> None:
    """Runs of harness.py name none: their change points, and who acknowledged them, are kept."""
    with running_server(tmp_path, database_url, open_read=True) as server:
        keep(server, *nights(None, 1.08))
        (point,) = points(server)
        with server.client("write") as client:
            path = f"/api/v1/change_points/{point['number']}/acknowledgement"
            assert client.put(path, json={"note": "known"}).status_code == 200
        keep(server, night(20, 1.08, branch="main"))
        first = acknowledged_point(server, "main")
        assert f"{NIGHTS} of {NIGHTS + 1} runs name no branch" in get(server, f"/cases/{steady(server)}", branch="main")
        keep(server, night(100, 1.0, branch="v1.x"))  # the first commit of a second branch: main is main's alone
        (after,) = (candidate for candidate in points(server, state="all") if candidate["branch"] is None)
        assert first == (point["number"], "known")
        assert after["ratio"] == pytest.approx(1.08, abs=0.01)
        assert "name no branch" not in get(server, f"/cases/{steady(server)}", branch="main")


def acknowledged_point(server: RunningServer, branch: str) -> tuple[int, str]:
    """Return the change point of a branch that somebody acknowledged: its number, and the note."""
    (point,) = points(server, state="acknowledged", branch=branch)
    return point["number"], point["acknowledgement"]["note"]


def test_an_operator_category_is_kept_where_a_report_names_none(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        for number, category in enumerate(("unary", None)):
            (report, *_) = nights("main", 1.0, first=number * 50, category=category)
            keep(server, report, analyse=False)
        with server.database.reading() as session:
            assert session.scalars(select(Case.operator_category)).all() == ["unary"]


def test_what_is_no_branch_is_none(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        for number, branch in enumerate((None, "", " ")):
            assert server.post(numbered(number, branch=branch)).status_code == 201
        with server.database.reading() as session:
            assert session.scalars(select(Run.branch)).all() == [None] * 3


def test_hostile_branches_are_stored_printable_and_bounded(tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True) as server:
        assert server.post(numbered(1, branch="<b>\x1b" + "x" * 999)).status_code == 201
        document = body(numbered(2))
        document["report"]["run"]["branch"] = ["main"]
        with server.client("write") as client:
            answer = client.post("/api/v1/reports", json=document, headers={"Idempotency-Key": "run-2"})
        assert answer.status_code == 422
        (run,) = get(server, "/api/v1/runs")["runs"]
        assert run["branch"].startswith("<b>\\x1b")
        assert len(run["branch"]) == 200
        page = get(server, "/runs/run-1")
        assert "&lt;b&gt;\\x1b" in page
        assert "<b>\\x1b" not in page
        assert get(server, "/api/v1/runs", branch=run["branch"])["total"] == 1
