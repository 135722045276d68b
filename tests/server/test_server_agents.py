"""/mcp by the official SDK's own client, over HTTP: what it offers, answers and refuses."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from results_server import RunningServer, numbered, running_server

from opduel.records import Candidate, Cause, Examination, Frame, UsageError
from opduel.server.app import create_app
from opduel.server.settings import Settings

PROD = Candidate("numpy.prod", 0.0, 900.0, 0.96, (0.93, 0.99), (0.0, 2.0), "ndarray.py:1534")
SEEN = Examination("Python functions", "ns", 5, 1e3, 2e3, None, (PROD,), 0.9, "", (Frame("whole", 0, 1e3, 2e3),))
HEADERS = {"Accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server with two runs, of which the second has a cause."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed: run `make setup`")
    slow = samples.comparison("slow", "regressed", 2.0, cause=Cause("two calls of numpy.prod", (SEEN,)))
    with running_server(tmp_path_factory.mktemp("agents"), mcp=True) as running:
        named = replace(numbered(1), host={"name": "bench 1"})  # type: ignore[arg-type]
        running.post(replace(named, comparisons=(samples.comparison("slow"),)))
        running.post(replace(numbered(2), comparisons=(slow, samples.comparison("same"))))
        yield running


def ask(server: RunningServer, ask: Callable[[Any], Awaitable[Any]], token: str | None = None) -> Any:
    """What ``ask`` gets from a client with the token that only reads, or another."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def go() -> Any:
        headers = {"Authorization": f"Bearer {token or server.read_token}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False) as http,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
        ):
            return await ask(client)

    with ThreadPoolExecutor(1) as pool:  # browser tests of the same process leave a loop in this thread
        return pool.submit(asyncio.run, go()).result()


def answer(server: RunningServer, tool: str, **arguments: Any) -> Any:
    result = ask(server, lambda client: client.call_tool(tool, arguments))
    assert not result.is_error, result.content
    return result.structured_content


def number_of(server: RunningServer, case: str) -> int:
    return int(answer(server, "find_cases", text=case)["cases"][0]["number"])


def test_every_tool_only_reads(server: RunningServer) -> None:
    tools = ask(server, lambda client: client.list_tools()).tools
    assert {tool.name for tool in tools} == {
        *("list_runs", "run_results", "find_cases", "case_cause", "case_history", "list_hosts", "one_host"),
    }
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)


def test_tools_answer_as_the_api_does(server: RunningServer) -> None:
    slow = number_of(server, "slow")
    with server.client("read") as client:
        for path, tool, arguments in (
            ("/runs", "list_runs", {}),
            ("/runs?verdict=regressed", "list_runs", {"verdict": "regressed"}),
            ("/runs/run-2/results", "run_results", {"run_id": "run-2"}),
            ("/cases?limit=1", "find_cases", {"limit": 1}),
            (f"/cases/{slow}/history", "case_history", {"number": slow}),
            ("/hosts?limit=20", "list_hosts", {}),
            ("/hosts/bench%201", "one_host", {"host": "bench 1"}),
            (f"/runs/run-2/cases/{slow}/cause", "case_cause", {"run_id": "run-2", "number": slow}),
        ):
            assert answer(server, tool, **arguments) == client.get(f"/api/v1{path}").json(), path


def test_a_cause_has_its_evidence_and_no_frames(server: RunningServer) -> None:
    cause = answer(server, "case_cause", run_id="run-2", number=number_of(server, "slow"))
    assert cause["sentence"] == "two calls of numpy.prod"
    assert cause["examinations"][0]["candidates"][0]["ci"] == [0.93, 0.99]
    assert "flame" not in json.dumps(cause)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("case_cause", {"run_id": "run-1", "number": 1}, "there is no such cause"),
        ("run_results", {"run_id": "none"}, "there is no such run"),
        ("list_runs", {"limit": 100_000}, "less than or equal to 200"),
        ("list_runs", {"text": "a\x00b"}, "must be printable"),
        ("remove_runs", {"run_id": "run-1"}, "Unknown tool"),
    ],
)
def test_what_can_not_be_answered_is_said(
    server: RunningServer, tool: str, arguments: dict[str, Any], words: str
) -> None:
    result = ask(server, lambda client: client.call_tool(tool, arguments))
    assert result.is_error
    assert words in result.content[0].text


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("opduel_none", 401), ("write", 403), ("read", 200)])
def test_it_has_the_tokens_of_the_api(server: RunningServer, token: str | None, status: int) -> None:
    with server.client(token) as client:
        response = client.post("/mcp", json=PING, headers=HEADERS)
    assert response.status_code == status, response.text
    assert status == 200 or set(response.json()) == {"detail"}


def test_a_cookie_does_not_count_and_other_sites_are_refused(server: RunningServer) -> None:
    with server.client(None) as client:
        form = {"token": server.read_token}
        assert client.post("/login", data=form, headers={"Origin": server.url}).status_code == 303
        assert client.get("/api/v1/runs").status_code == 200
        assert client.post("/mcp", json=PING, headers=HEADERS).status_code == 401
    with server.client("read") as client:
        for origin, status in ((server.url, 200), ("https://evil.example.org", 403)):
            assert client.post("/mcp", json=PING, headers={**HEADERS, "Origin": origin}).status_code == status
        assert client.get("/mcp", headers=HEADERS).status_code == 405


def test_it_is_not_there_unasked(tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True) as server, server.client(None) as client:
        assert client.post("/mcp", json=PING, headers=HEADERS).status_code == 404


def test_without_the_extra_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opduel.server.agents", None)
    with pytest.raises(UsageError, match=r"--mcp: the extra 'mcp' is not installed .*opduel\[server,mcp\]"):
        create_app(Settings(f"sqlite:///{tmp_path}/x.sqlite", mcp=True))
