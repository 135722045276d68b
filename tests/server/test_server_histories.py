"""Histories from the tables: the order of builds, what is weighed again when runs come in, a series that fails."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from raw_requests import wait_for
from results_server import RunningServer, numbered, running_server
from server_pages import compared
from sqlalchemy import select
from sqlalchemy.orm import joinedload

from opduel.comparator.history.network_meta_analysis import Component, Drift
from opduel.server import drift
from opduel.server.change_points import detect_changes
from opduel.server.drift import DriftAnalysis
from opduel.server.findings import FindingFilter, list_findings
from opduel.server.histories import BuildName, Series, history_of, node_order
from opduel.server.models import AnalysedSeries
from opduel.server.storage import remove_runs


def build(node: str, version: str = "1.0", time: int | None = None) -> BuildName:
    return BuildName(node, node, node, version, node if time else None, time, None)


def at(day: int) -> datetime:
    return datetime(2024, 1, day, tzinfo=UTC)


def ordered(*sightings: tuple[datetime, BuildName]) -> list[str]:
    ranks = node_order((started, 0, build) for started, build in sightings)
    return sorted(ranks, key=lambda node: ranks[node])


def test_commits_stand_by_their_time_behind_what_has_none() -> None:
    late, early = build("late", time=200), build("early", time=100)
    assert ordered((at(1), late), (at(2), early), (at(3), build("release"))) == ["release", "early", "late"]


def test_releases_stand_by_their_version() -> None:
    releases = [build(version, version) for version in ("1.10.0", "1.9.1", "1.8.0.post0", "1.8.0")]
    assert ordered(*((at(1), release) for release in releases)) == ["1.8.0", "1.8.0.post0", "1.9.1", "1.10.0"]
    for versions in (
        ("numpy 2.0.0rc1", "numpy 2.0.0", "numpy 2.0.1"),
        ("scipy 1.14.1, numpy 1.26.4", "scipy 1.14.1, numpy 2.0.0rc1", "scipy 1.14.1, numpy 2.0.0", "scipy 1.15.0rc1"),
        ("1.2.3", "1.2.3-4-gabc", "1.2.3-11-gabc", "1.3.0"),
        ("2.1.0", "2.1.0-rc1-mine", "2.2"),
        ("", "nightly 1", "nightly 2"),
    ):
        assert ordered(*((at(1), build(release, release)) for release in reversed(versions))) == list(versions)
    before = ("2.0.0", "2.0.0rc1", "2.0.0b2", "2.1.0.dev0", "2.0.0+cpu")
    assert ordered(*((at(1), build(version, version)) for version in before)) == [
        *("2.0.0b2", "2.0.0rc1", "2.0.0", "2.0.0+cpu", "2.1.0.dev0"),
    ]


def test_what_is_equal_stands_as_it_was_first_measured() -> None:
    assert ordered((at(3), build("c")), (at(1), build("b")), (at(2), build("a")), (at(4), build("b"))) == [
        "b",
        "a",
        "c",
    ]


@pytest.mark.parametrize(("control", "treatment"), [("a", "z"), ("z", "a")])
@pytest.mark.parametrize("time", [None, 100])
def test_of_a_run_the_control_is_before_a_treatment_that_is_equal(
    control: str, treatment: str, time: int | None
) -> None:
    """Such as work that is not committed, on the commit that it is measured against."""
    sightings = [(at(1), 1, build(treatment, time=time)), (at(1), 0, build(control, time=time))]
    ranks = node_order(sightings)
    assert ranks[control] < ranks[treatment]


@pytest.mark.parametrize("version", ["", "nightly", "9" * 500, "٣.٤", "1..2"])
def test_any_version_has_a_place(version: str) -> None:
    assert sorted(ordered((at(1), build("odd", version)), (at(1), build("b")))) == ["b", "odd"]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[RunningServer]:
    """Two cases, one of which is measured again in the second run alone."""
    with running_server(tmp_path, open_read=True) as server:
        both = (samples.comparison("a", ratio=1.2), samples.comparison("b", ratio=1.0))
        server.post(replace(numbered(1), comparisons=both, cases=()))
        yield server


def series(server: RunningServer) -> dict[str, AnalysedSeries]:
    """What each case's history came to."""
    with server.database.reading() as session:
        query = select(AnalysedSeries).options(joinedload(AnalysedSeries.case))
        return {row.case.case: row for row in session.scalars(query)}


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[Series]:
    """Return the series that were weighed, in order."""
    calls: list[Series] = []
    really = drift.history_of

    def counted(session: Any, analysed_series: Series, with_positions: bool) -> Any:
        calls.append(analysed_series)
        return really(session, analysed_series, with_positions=with_positions)

    monkeypatch.setattr(drift, "history_of", counted)
    return calls


def test_only_what_has_new_runs_is_weighed_again(filled: RunningServer, analysed: list[Series]) -> None:
    analysis = DriftAnalysis(filled.database)
    first = analysis.progress(60)
    assert first.is_complete
    assert set(series(filled)) == {"a", "b"}
    assert len(analysed) == first.total == 2
    analysis.progress(60)
    assert len(analysed) == 2
    filled.post(replace(numbered(2), comparisons=(samples.comparison("b", ratio=1.3),), cases=()))
    analysis.progress(60)
    assert len(analysed) == 3
    again = series(filled)
    assert {case: row.runs for case, row in again.items()} == {"a": 1, "b": 2}
    with filled.database.writing() as session:
        remove_runs(session, ["run-2"])
    filled.post(replace(numbered(3), comparisons=(samples.comparison("b", ratio=1.1),), cases=()))
    analysis.progress(60)  # of as many runs, and with SQLite under the number of the one that was removed
    assert len(analysed) == 4
    assert series(filled)["b"].drift_log != again["b"].drift_log


def test_one_analysis_serves_all_requests(filled: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second request without new runs between them starts no second one."""
    began: list[DriftAnalysis] = []
    really = DriftAnalysis.analyse
    monkeypatch.setattr(DriftAnalysis, "analyse", lambda self: (began.append(self), really(self))[1])
    with filled.client(None) as client:
        for path in ("/drift", "/drift.atom", "/api/v1/change_points"):
            assert wait_for(lambda: client.get("/api/v1/change_points").json()["complete"])
            assert client.get(path).status_code == 200
    assert len(began) == 1


def test_a_server_that_starts_again_weighs_nothing_twice(filled: RunningServer, analysed: list[Series]) -> None:
    for _ in range(2):
        DriftAnalysis(filled.database).analyse()
    assert len(analysed) == 2


def test_series_without_runs_are_forgotten(filled: RunningServer) -> None:
    DriftAnalysis(filled.database).analyse()
    with filled.database.writing() as session:
        remove_runs(session, ["run-1"])
    DriftAnalysis(filled.database).analyse()
    assert series(filled) == {}


def test_a_series_that_cannot_be_weighed_costs_no_other(filled: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    really = drift.history_of

    def failing(session: Any, analysed_series: Series, with_positions: bool) -> Any:
        if analysed_series.case_number == 1:
            raise RuntimeError("Factor is exactly singular")
        return really(session, analysed_series, with_positions=with_positions)

    monkeypatch.setattr(drift, "history_of", failing)
    assert DriftAnalysis(filled.database).progress(60).is_complete
    assert {case: row.runs for case, row in series(filled).items()} == {"a": 0, "b": 1}


def test_a_page_does_not_wait_for_the_weighing(filled: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(drift, "_stamps", lambda session: go_on.wait(60) and {})
    analysis = DriftAnalysis(filled.database)
    assert not analysis.progress(0.01).is_complete
    go_on.set()
    assert analysis.progress(60).is_complete


def test_a_change_at_no_build_that_can_be_named_is_found() -> None:
    builds = {node: build(node) for node in "abc"}
    component = Component(("a", "b", "c"), 2, Drift("a", "c", 0.05, 0.01, (0.03, 0.07)), (), 0.2, 1.0, ())
    (finding,) = detect_changes([component], builds, 0.02)
    assert (finding.kind, finding.before.node, finding.after.node, finding.builds) == ("overall", "a", "c", 2)
    assert detect_changes([component], builds, 0.04) == []


def test_a_change_that_one_run_alone_shows_is_listed(tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True) as server:
        server.post(replace(compared("a", "b", 1), comparisons=(samples.comparison("steady", ratio=1.2),)))
        DriftAnalysis(server.database).analyse()
        with server.database.reading() as session:
            (finding,) = list_findings(session, FindingFilter())
        assert finding.point.kind == "step"
        assert finding.point.log_ratio == pytest.approx(0.1823, abs=1e-3)


def test_a_neutral_side_is_no_build_of_the_history(tmp_path: Path) -> None:
    """Runs of two frameworks: their history is the ratio to the neutral side, whose own time the page shows."""

    def across(night: int, ratio: float) -> Any:
        report = compared("neutral", chr(ord("a") + night), night, ratio=ratio)
        neutral = replace(report.control, framework="other")
        comparison = replace(report.comparisons[0], control=1000.0 + night)
        return replace(report, control=neutral, comparisons=(comparison,))

    with running_server(tmp_path, open_read=True) as server:
        for night, ratio in enumerate([3.0, 3.0, 3.0, 3.3, 3.3, 3.3], 1):
            server.post(across(night, ratio))
        DriftAnalysis(server.database).analyse()
        (row,) = series(server).values()
        assert row.case.framework == f"{samples.TREATMENT.framework} against other"
        with server.database.reading() as session:
            (finding,) = list_findings(session, FindingFilter())
            history = history_of(session, Series.from_row(row))
        assert (finding.point.kind, finding.point.log_ratio) == ("step", pytest.approx(0.0953, abs=1e-3))
        assert history.components[0].positions[-1].log_ratio == pytest.approx(1.194, abs=1e-3)
        assert [run.neutral for run in history.runs] == [1006.0, 1005.0, 1004.0, 1003.0, 1002.0, 1001.0]
        page = server.client().get(f"/cases/{row.case_number}").text
        assert page.count("Control alone") == 1
        assert "1.01 us" in page
