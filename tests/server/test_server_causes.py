"""Causes of changes on the server: stored with a report, asked for by run and case, shown on the page of a case."""

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import report_samples as samples
from results_server import RunningServer, numbered, running_server
from sqlalchemy import select

from opduel.records import Candidate, Cause, Examination, Frame, Report
from opduel.server.database import Database
from opduel.server.large import number_and_size
from opduel.server.models import CauseFound
from opduel.server.storage import remove_runs
from opduel.server.subprocess_jobs import LARGE_BYTES

PROD = Candidate("numpy.<prod>", 0.0, 900.0, 0.96, (0.93, 0.99), (0.0, 2.0), "ndarray.py:1534")
CONVOLUTION = Candidate("convolution <3x3>", 1e3, 2e3, implementations=("jit:avx512_core", "ref:any"))
CAUSE = Cause(
    "two calls of numpy.<prod>\x1b",
    (
        Examination(
            "Python functions", "ns", 5, 1e3, 2e3, (9e2, 11e2), (PROD,), 0.9, "", (Frame("whole <call>", 0, 1e3, 2e3),)
        ),
        Examination("native functions", "instructions", 0, note="valgrind is not installed"),
        Examination("primitives", "ns", 5, 1e3, 2e3, candidates=(CONVOLUTION,)),
    ),
)


def explained(number: int) -> Report:
    """Return a run with a case that has a cause, and one that has none."""
    slow = samples.comparison("slow", "regressed", 2.0, cause=CAUSE)
    return replace(numbered(number), comparisons=(slow, samples.comparison("same")))


def rows(database: Database) -> list[tuple[int, int, str, object]]:
    with database.reading() as session:
        causes = session.scalars(select(CauseFound).order_by(CauseFound.run_number))
        return [(cause.run_number, cause.case_number, cause.sentence, cause.content) for cause in causes]


def number_of(server: RunningServer, case: str) -> int:
    with server.client("read") as client:
        (case_row,) = client.get("/api/v1/cases", params={"text": case}).json()["cases"]
    return int(case_row["number"])


def test_the_cause_of_a_case_is_answered_as_described(server: RunningServer) -> None:
    assert server.post(explained(1)).status_code == 201
    slow, same = number_of(server, "slow"), number_of(server, "same")
    with server.client("read") as client:
        response = client.get(f"/api/v1/runs/run-1/cases/{slow}/cause")
        description = client.get("/api/openapi.json").json()
        without = [client.get(f"/api/v1/runs/{where}/cause") for where in (f"run-1/cases/{same}", f"x/cases/{slow}")]
    answer = response.json()
    jsonschema.validate(answer, {"$ref": "#/components/schemas/CauseOut", "components": description["components"]})
    assert (answer["run_id"], answer["case"]["case"], answer["figures"]["ratio"]) == ("run-1", "slow", 2.0)
    assert answer["sentence"] == "two calls of numpy.<prod>\\x1b"
    python, native, _ = answer["examinations"]
    assert "flame" not in response.text
    assert (python["candidates"][0]["share"], python["candidates"][0]["ci"]) == (0.96, [0.93, 0.99])
    assert (native["control"], native["note"]) == (None, "valgrind is not installed")
    assert [(refusal.status_code, refusal.json()["detail"]) for refusal in without] == [
        (404, "there is no such cause"),
        (404, "there is no such run"),
    ]


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("write", 403), ("read", 200)])
def test_a_cause_needs_a_token_that_may_read(server: RunningServer, token: str | None, status: int) -> None:
    server.post(explained(1))
    with server.client(token) as client:
        assert client.get(f"/api/v1/runs/run-1/cases/{number_of(server, 'slow')}/cause").status_code == status


def test_the_page_of_a_case_has_its_causes_escaped(tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True) as server:
        server.post(explained(1))
        with server.client(None) as client:
            slow = client.get(f"/cases/{number_of(server, 'slow')}").text
            same = client.get(f"/cases/{number_of(server, 'same')}").text
    assert "Why it changed" in slow
    assert "Why it changed" not in same
    assert "numpy.&lt;prod&gt;" in slow
    assert "<prod>" not in slow
    assert "93% to 99%" in slow
    assert "valgrind is not installed" in slow
    assert "<td>jit:avx512_core</td><td>ref:any</td>" in slow
    for name in ("d3-flamegraph.min.js", "flame.js", "causes.js"):
        assert (f"/assets/{name}?" in slow, f"/assets/{name}?" in same) == (True, False)


def test_the_flame_graphs_of_a_cause_are_read_from_the_report(tmp_path: Path) -> None:
    """The page has none of their frames, but says where they are."""
    with running_server(tmp_path, open_read=True) as server:
        server.post(explained(1))
        case, other = number_of(server, "slow"), number_of(server, "same")
        with server.client(None) as client:
            answer = client.get(f"/runs/run-1/cases/{case}/flames.json")
            page = client.get(f"/cases/{case}").text
            absent = [client.get(f"/runs/{where}/flames.json") for where in (f"run-1/cases/{other}", f"x/cases/{case}")]
    graph = {"caption": "Python functions", "divisor": 1e3, "unit": "us", "frames": "0 1000 2000 whole <call>"}
    assert answer.json() == [graph, None, None]
    assert answer.headers["Content-Type"] == "application/json"
    assert [refusal.status_code for refusal in absent] == [404, 404]
    assert "whole" not in page
    assert f'data-flames="/runs/run-1/cases/{case}/flames.json"' in page


@pytest.mark.nightly  # a process is started
def test_the_flame_graphs_of_a_large_report_are_read_in_a_process_of_its_own(server: RunningServer) -> None:
    deep = tuple(Frame(f"frame_{number}", number % 3, 1.0, 2.0) for number in range(400))
    cause = Cause("", (replace(CAUSE.examinations[0], flame=deep),))
    notes = [samples.comparison(f"case_{number}", note="x" * 2000) for number in range(600)]
    slow = samples.comparison("slow", "regressed", 2.0, cause=cause)
    assert server.post(replace(numbered(1), comparisons=(slow, *notes))).status_code == 201
    assert number_and_size(server.database, "run-1")[1] > LARGE_BYTES
    with server.client("read") as client:
        (answer,) = client.get(f"/runs/run-1/cases/{number_of(server, 'slow')}/flames.json").json()
    assert answer["frames"].splitlines() == [f"{number % 3} 1 2 frame_{number}" for number in range(400)]


@pytest.mark.parametrize(("token", "status"), [(None, 303), ("write", 403), ("read", 200)])
def test_flame_graphs_need_a_token_that_may_read(server: RunningServer, token: str | None, status: int) -> None:
    server.post(explained(1))
    with server.client(token) as client:
        answer = client.get(f"/runs/run-1/cases/{number_of(server, 'slow')}/flames.json", follow_redirects=False)
    assert answer.status_code == status


def test_causes_go_with_their_run(tmp_path: Path, database_url: str) -> None:
    with running_server(tmp_path, database_url) as server:
        for number in (1, 2):
            assert server.post(explained(number)).status_code == 201
        before = rows(server.database)
        assert len(before) == 2
        with server.database.writing() as session:
            remove_runs(session, ["run-1"])
        assert [row[0] for row in rows(server.database)] == [before[1][0]]
