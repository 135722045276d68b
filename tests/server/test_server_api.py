"""The API as its users see it: posts by the wire contract, questions, and a description that is true."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import report_samples as samples
from openapi_spec_validator import validate
from results_server import REPORTS, RunningServer, body, numbered, running_server

from opduel.records import Commit
from opduel.server.app import EXAMPLE


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server with five runs: one on another platform, one from a commit, one with injected slowdowns."""
    commit = Commit("ab" * 20, 1_700_000_000, "Ann <ann@example.org>", "Softmax: 50% quicker")
    reports = [
        numbered(0),
        numbered(1, platform="gpu", spec="pool"),
        replace(numbered(2), treatment=replace(samples.TREATMENT, requested="abababababab", commit=commit)),
        replace(numbered(3, inject=0.1), comparisons=(samples.comparison("slower", injected=True),)),
        replace(numbered(4), comparisons=(samples.comparison("slower", held_back="regressed"),)),
    ]
    with running_server(tmp_path_factory.mktemp("filled")) as server:
        for number, report in enumerate(reports):
            assert server.post(report, "weekly" if number == 4 else "nightly").status_code == 201
        yield server


@pytest.fixture(scope="module")
def description(filled: RunningServer) -> dict[str, Any]:
    """Return the OpenAPI document; it needs no token."""
    with filled.client(None) as client:
        document: dict[str, Any] = client.get("/api/openapi.json").json()
    return document


def test_the_description_is_valid_openapi(description: dict[str, Any]) -> None:
    validate(description)
    assert set(description["paths"]) == {
        "/healthz",
        "/api/v1/reports",
        "/api/v1/runs",
        "/api/v1/runs/{run_id}",
        "/api/v1/runs/{run_id}/results",
        "/api/v1/runs/{run_id}/report",
        "/api/v1/runs/{run_id}/cases/{number}/cause",
        "/api/v1/cases",
        "/api/v1/cases/{number}/history",
        "/api/v1/hosts",
        "/api/v1/hosts/{host}",
        "/api/v1/change_points",
        "/api/v1/change_points/{number}",
        "/api/v1/change_points/{number}/acknowledgement",
    }
    schemes = description["components"]["securitySchemes"]
    assert schemes["token"] | {"description": ""} == {"type": "http", "scheme": "bearer", "description": ""}
    assert description["paths"]["/api/v1/reports"]["post"]["security"] == [{"token": []}]
    assert "security" not in description["paths"]["/healthz"]["get"]


def test_its_schema_of_a_report_is_that_of_reports(description: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/Posted", "components": description["components"]}
    jsonschema.validate(body(numbered(1)), schema)
    jsonschema.validate(json.loads(EXAMPLE.read_bytes()), schema)
    wrong = body(numbered(1))
    wrong["report"]["comparisons"][0]["verdict"] = "splendid"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


QUERIES = {
    "/healthz": "/healthz",
    "/api/v1/runs": "/api/v1/runs",
    "/api/v1/runs/run-2": "/api/v1/runs/{run_id}",
    "/api/v1/runs/run-2/results": "/api/v1/runs/{run_id}/results",
    "/api/v1/runs/run-2/report": "/api/v1/runs/{run_id}/report",
    "/api/v1/cases": "/api/v1/cases",
    "/api/v1/cases/1/history": "/api/v1/cases/{number}/history",
    "/api/v1/change_points": "/api/v1/change_points",
    "/api/v1/change_points/99": "/api/v1/change_points/{number}",
    "/api/v1/change_points?state=odd": "/api/v1/change_points",
    "/api/v1/runs/none": "/api/v1/runs/{run_id}",
    "/api/v1/runs?limit=0": "/api/v1/runs",
    "/api/v1/cases/99/history": "/api/v1/cases/{number}/history",
}


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_as_described(filled: RunningServer, description: dict[str, Any], query: str) -> None:
    with filled.client("read") as client:
        answer = client.get(query)
    described = description["paths"][QUERIES[query]]["get"]["responses"][str(answer.status_code)]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": description["components"]})


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        ("", "43210"),
        ("framework=mxnet&spec=conv", "4320"),
        ("platform=gpu", "1"),
        ("since=2024-03-01", "43210"),
        ("since=2024-03-02", ""),
        ("until=2024-03-01", "43210"),
        ("until=2024-02-29", ""),
        ("until=9999-12-31", "43210"),
        ("category=weekly", "4"),
        ("verdict=failed", "210"),
        ("commit=ABAB", "2"),
        ("commit=cdcd", ""),
        ("text=softmax", "2"),
        ("text=50%25", "2"),
        ("text=5_%25", ""),
        ("text=ann%40", "2"),
        ("text=1.8.0&platform=gpu", "1"),
        ("text=run-3", "3"),
        ("text=BABAB", "2"),
        ("framework=other", ""),
    ],
)
def test_runs_are_found(filled: RunningServer, query: str, runs: str) -> None:
    with filled.client("read") as client:
        page = client.get(f"/api/v1/runs?{query}").json()
    assert [run["run_id"] for run in page["runs"]] == [f"run-{number}" for number in runs]
    assert page["total"] == len(runs)


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/cases", "/api/v1/runs/run-0/results"])
def test_pages_hold_everything_once_and_in_order(filled: RunningServer, path: str) -> None:
    with filled.client("read") as client:
        everything = client.get(path).json()
        key = path.rpartition("/")[2]
        pieces: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            page = client.get(path, params={"limit": 2, "offset": offset}).json()
            pieces += page[key]
            offset = page["next_offset"]
            assert page["total"] == everything["total"]
        beyond = client.get(path, params={"offset": 1000}).json()
    assert pieces == everything[key]
    assert everything["next_offset"] is None
    assert (beyond[key], beyond["next_offset"]) == ([], None)


def test_a_history_has_every_run_that_did_not_slow_the_case(filled: RunningServer) -> None:
    with filled.client("read") as client:
        (case,) = client.get("/api/v1/cases", params={"text": "SLOWER", "framework": "mxnet"}).json()["cases"][1:]
        path = f"/api/v1/cases/{case['number']}/history"
        history = client.get(path).json()
        assert client.get(path, params={"platform": "gpu"}).json()["total"] == 1
        assert client.get(path, params={"category": "weekly"}).json()["total"] == 1
    assert history["case"] == case
    assert [point["run_id"] for point in history["points"]] == ["run-0", "run-1", "run-2", "run-4"]
    assert [point["figures"]["held_back"] for point in history["points"]] == [None, None, None, "regressed"]
    assert history["points"][2]["treatment"]["commit"]["id"] == "ab" * 20
    assert history["points"][0]["figures"]["ci"] == [1.053 * 0.99, 1.053 * 1.01]


def test_results_can_be_asked_for_by_verdict(filled: RunningServer) -> None:
    with filled.client("read") as client:
        failed = client.get("/api/v1/runs/run-0/results", params={"verdict": "failed"}).json()["results"]
    assert [row["case"]["case"] for row in failed] == ["broken"]
    assert failed[0]["figures"]["failure"] == {
        "side": "treatment",
        "kind": "crash",
        "reason": "the worker died of SIGSEGV",
    }


@pytest.mark.parametrize(
    "query",
    [
        "/runs?limit=0",
        "/runs?limit=100000",
        "/runs?offset=-1",
        "/runs?offset=99999999999999999999",
        "/runs?verdict=splendid",
        "/runs?verdict=number",
        "/runs?commit=a",
        "/runs?commit=zzzz",
        "/runs?commit=%27%20OR%201",
        "/runs?text=a%00b",
        "/runs?text=%1b",
        "/runs?text=" + "a" * 201,
        "/cases?text=%00",
        "/cases/0/history",
        "/cases/9999999999999999999999/history",
        "/cases/x/history",
        "/cases/1/history?platform=%00",
        "/runs/%00",
        "/runs/a%0Ab/report",
    ],
)
def test_wrong_parameters_are_one_line(filled: RunningServer, query: str) -> None:
    with filled.client("read") as client:
        answer = client.get(f"/api/v1{query}")
    assert answer.status_code == 422
    assert set(answer.json()) == {"detail"}
    assert answer.json()["detail"].isprintable()


def test_a_key_that_is_not_the_runs_is_refused_and_none_is_fine(filled: RunningServer) -> None:
    with filled.client("write") as client:
        wrong = client.post(REPORTS, json=body(numbered(0)), headers={"Idempotency-Key": "run-1"})
        without = client.post(REPORTS, json=body(numbered(0)))
    assert (wrong.status_code, without.status_code) == (422, 200)


def test_the_example_can_be_posted(tmp_path: Path, description: dict[str, Any]) -> None:
    content = description["paths"]["/api/v1/reports"]["post"]["requestBody"]["content"]["application/json"]
    with running_server(tmp_path) as server, server.client("write") as client:
        answer = client.post(REPORTS, json=content["example"])
        assert (answer.status_code, answer.json()["stored"]) == (201, True)


def test_a_post_is_answered_with_the_runs_page(tmp_path: Path, description: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/StoredReport", "components": description["components"]}
    with running_server(tmp_path) as server, server.client("write") as client, server.client("read") as reader:
        for status in (201, 200):
            answer = client.post(REPORTS, json=body(numbered(1, id="run@1=+a")))
            assert (answer.status_code, answer.json()["page"]) == (status, "/runs/run%401%3D%2Ba")
            jsonschema.validate(answer.json(), schema)
            page = reader.get(answer.json()["page"])
            assert page.status_code == 200
            assert "run@1=+a" in page.text


def test_health_needs_no_token(filled: RunningServer) -> None:
    assert httpx.get(f"{filled.url}/healthz").json() == {"status": "ok"}
