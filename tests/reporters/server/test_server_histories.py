"""Histories from the tables: the order of builds, what is weighed again when runs come in, a series that fails."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from results_server import RunningServer, numbered, running_server
from test_server_pages import compared

from records import Comparison
from reporters.server import creep
from reporters.server.creep import Creep
from reporters.server.histories import BuildName, Series, node_order
from reporters.server.storing import remove_runs


def build(node: str, version: str = "1.0", time: int | None = None) -> BuildName:
    return BuildName(node, node, node, version, node if time else None, time, None)


def at(day: int) -> datetime:
    return datetime(2024, 1, day, tzinfo=UTC)


def ordered(*seen: tuple[datetime, BuildName]) -> list[str]:
    ranks = node_order(seen)
    return sorted(ranks, key=lambda node: ranks[node])


def test_commits_stand_by_their_time_behind_what_has_none() -> None:
    late, early = build("late", time=200), build("early", time=100)
    assert ordered((at(1), late), (at(2), early), (at(3), build("release"))) == ["release", "early", "late"]


def test_releases_stand_by_their_version() -> None:
    releases = [build(version, version) for version in ("1.10.0", "1.9.1", "1.8.0.post0", "1.8.0")]
    assert ordered(*((at(1), one) for one in releases)) == ["1.8.0", "1.8.0.post0", "1.9.1", "1.10.0"]


def test_what_is_equal_stands_as_it_was_first_measured() -> None:
    assert ordered((at(3), build("c")), (at(1), build("b")), (at(2), build("a")), (at(4), build("b"))) == [
        "b",
        "a",
        "c",
    ]


@pytest.mark.parametrize("version", ["", "nightly", "9" * 500, "٣.٤", "1..2"])
def test_any_version_has_a_place(version: str) -> None:
    assert ordered((at(1), build("odd", version)), (at(1), build("b"))) != []


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[RunningServer]:
    """Two cases, one of which is measured again in the second run alone."""
    with running_server(tmp_path, open_read=True) as server:
        both = (samples.comparison("a", ratio=1.2), samples.comparison("b", ratio=1.0))
        server.post(replace(numbered(1), comparisons=both, cases=()))
        yield server


def test_only_what_has_new_runs_is_weighed_again(filled: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: list[Series] = []
    really = creep._weighed

    def counted(session: Any, series: Series, runs: Any) -> Any:
        weighed.append(series)
        return really(session, series, runs)

    monkeypatch.setattr(creep, "_weighed", counted)
    kept = Creep(filled.database)
    first = kept.overview(60)
    assert first.is_complete
    assert [one.case for one in first.findings] == ["a", "b"]
    assert len(weighed) == first.total == 2
    kept.overview(60)
    assert len(weighed) == 2
    filled.post(replace(numbered(2), comparisons=(samples.comparison("b", ratio=1.3),), cases=()))
    again = kept.overview(60)
    assert len(weighed) == 3
    assert {one.case: one.runs for one in again.findings} == {"a": 1, "b": 2}
    with filled.database.writing() as session:
        remove_runs(session, ["run-2"])
    filled.post(replace(numbered(3), comparisons=(samples.comparison("b", ratio=1.1),), cases=()))
    third = kept.overview(60)  # of as many runs, and with SQLite under the number of the one that was removed
    assert len(weighed) == 4
    assert [one.drift.log_ratio for one in third.findings if one.case == "b"] != [
        one.drift.log_ratio for one in again.findings if one.case == "b"
    ]


def test_a_series_that_cannot_be_weighed_costs_no_other(filled: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    really = creep._weighed

    def failing(session: Any, series: Series, runs: Any) -> Any:
        if series.case_number == 1:
            raise RuntimeError("Factor is exactly singular")
        return really(session, series, runs)

    monkeypatch.setattr(creep, "_weighed", failing)
    found = Creep(filled.database).overview(60)
    assert found.is_complete
    assert [one.case for one in found.findings] == ["b"]


def test_a_page_does_not_wait_for_the_weighing(filled: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(creep, "_stamps", lambda session: go_on.wait(60) and {})
    kept = Creep(filled.database)
    assert not kept.overview(0.01).is_complete
    go_on.set()
    assert kept.overview(60).is_complete


def test_a_drift_alone_is_told(tmp_path: Path) -> None:
    """One run between two builds has no change points but its ends: a regression that it shows is there, too."""
    with running_server(tmp_path, open_read=True) as server:
        wide: Comparison = samples.comparison("steady", ratio=1.2)
        server.post(replace(compared("a", "b", 1), comparisons=(wide,)))
        (found,) = Creep(server.database).overview(60).findings
        assert found.is_drifting
        assert found.severity == pytest.approx(0.1823, abs=1e-3)
