"""--prior_runs: what is read from folders and from a real results server, and what is wrong usage."""

import http.server
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from command_line import SAME_BUILD, Outcome
from faulty_server import TOKEN
from made_reports import Measuring
from results_server import RunningServer, running_server
from scripted_server import ScriptedServer

from opduel.harness.machine.host import host_fingerprint
from opduel.harness.run_request import RunRequest
from opduel.records import Case, HostRecord, PairSample, Report
from opduel.reporters.document import write_report
from opduel.reporters.options import TOKEN_VARIABLE

Run = Callable[..., Outcome]
MINIMAL = ("-b", "smoke", *SAME_BUILD)


@pytest.fixture(autouse=True)
def planned(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """The requests of the runs, none of which is measured."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return measuring.requests


def a_run(number: int, case_id: str = "add_0/forward", host: HostRecord | None = None, **run: Any) -> Report:
    case = Case(case_id, "nd.add", "forward", {}, "float32", "cpu", 0.02, 60.0)
    rows = [PairSample(case.id, "screening", n, 1e6, 1e6, 0.001 * (-1) ** n, 4, 100) for n in range(6)]
    run = {"id": f"run-{number}", "configuration": {"threads": 1}, "threads": 1, "spent_s": {"timed calls": 1.2}, **run}
    measured = samples.comparison(case.id, samples=tuple(rows), effort=samples.EFFORT)
    report = samples.report([measured], **run)
    return replace(report, host=host or host_fingerprint(), cases=(case,))


def keep(folder: Path, *reports: Report) -> Path:
    for report in reports:
        path = folder / "mxnet" / str(report.run.id) / "report.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_report(path, report)
    return folder


def known_case(planned: list[RunRequest]) -> str:
    return planned[0].cases[0].id


def test_a_folder_plans_the_run(run: Run, tmp_path: Path, planned: list[RunRequest]) -> None:
    assert run(*MINIMAL).code == 0
    assert planned[0].prior_runs is None
    other = replace(host_fingerprint(), cpu_model="another")
    folder = keep(tmp_path / "runs", a_run(1, known_case(planned)), a_run(2, host=other), a_run(3, framework="toy"))
    outcome = run(*MINIMAL, "--prior_runs", str(folder))
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.err.splitlines() if "known" in line or "--prior_runs" in line]
    assert "1 report of this host" in lines[0]
    assert "2 reports skipped, of another host, framework or setting" in lines[1]
    assert f"1 of {len(planned[1].cases)} cases known" in lines[2]
    assert len(lines) == 3
    prior = planned[1].prior_runs
    assert prior is not None
    assert (prior.reports, prior.skipped) == (1, 2)


def test_a_folder_without_reports_plans_nothing_as_before_the_first_night(
    run: Run, tmp_path: Path, planned: list[RunRequest]
) -> None:
    outcome = run(*MINIMAL, "--prior_runs", str(tmp_path))
    assert outcome.code == 0, outcome.err
    assert "--prior_runs: 0 reports of this host" in outcome.err
    assert planned[0].prior_runs is not None
    assert planned[0].prior_runs.reports == 0


def test_a_server_plans_the_run(run: Run, tmp_path: Path, planned: list[RunRequest]) -> None:
    assert run(*MINIMAL).code == 0
    with running_server(tmp_path / "server") as server:
        for report in (a_run(1, known_case(planned)), a_run(2, known_case(planned)), a_run(3, framework="toy")):
            assert server.post(report).status_code == 201
        outcome = run(*MINIMAL, "--prior_runs", f"{server.url}/", "--remote_access_token", server.read_token)
        assert outcome.code == 0, outcome.err
        _refusals(run, server)
    prior = planned[1].prior_runs
    assert prior is not None
    assert (prior.reports, prior.skipped, len(prior.cases)) == (2, 1, 1)


def _refusals(run: Run, server: RunningServer) -> None:
    """What the real server says to those who may not read."""
    for token in ((), ("--remote_access_token", server.write_token)):
        outcome = run(*MINIMAL, "--prior_runs", server.url, *token)
        assert outcome.code == 2
        line = outcome.err.splitlines()[-1]  # before it, the log of the server in this process
        assert f"--prior_runs {server.url}: it says 40" in line
        assert "give a token that may read (--remote_access_token_file)" in line
        assert server.write_token not in line


def test_a_name_that_no_folder_can_have_is_wrong_usage(run: Run) -> None:
    assert "is not a folder: give" in run(*MINIMAL, "--prior_runs", "x" * 300).error_line()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (None, "", "is not a folder: give a folder with reports of earlier runs, or the address"),
        ("report.json", "{", "report.json: not a JSON document"),
        ("report.json", '{"schema_version": 99}', "newer than the 2 known here: use a newer opduel"),
    ],
)
def test_a_folder_without_reports_is_wrong_usage(
    run: Run, tmp_path: Path, name: str | None, content: str, words: str
) -> None:
    folder = tmp_path / "runs"
    if name:
        folder.mkdir()
        (folder / name).write_text(content)
    line = run(*MINIMAL, "--prior_runs", str(folder)).error_line()
    assert "--prior_runs" in line
    assert words in line


class Answering(ScriptedServer):
    """Answers everything alike, and notes the tokens that it is shown."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__()
        self.status, self.body = status, body if isinstance(body, bytes) else json.dumps(body).encode()
        self.tokens: list[str | None] = []

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.tokens.append(handler.headers.get("Authorization"))
        handler.send_response(self.status)
        handler.send_header("Content-Length", str(len(self.body)))
        handler.end_headers()
        handler.wfile.write(self.body)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {}, "it says 401: give a token that may read (--remote_access_token_file)"),
        (404, {}, "it says 404: is there a results server at this address?"),
        (500, {}, "it says 500: correct the address, or look at the server's log"),
        (200, b"<html>", "its answer is not from a results server: correct the address"),
        (200, {"runs": "all"}, "its answer is not from a results server: correct the address"),
        (200, {"runs": [{"run_id": "x"}]}, "run x: report.json: schema_version: is missing"),
    ],
)
def test_a_server_that_gives_no_reports_is_wrong_usage(run: Run, status: int, body: object, words: str) -> None:
    with Answering(status, body) as server:
        line = run(*MINIMAL, "--prior_runs", server.url("").rstrip("/")).error_line()
    assert f"--prior_runs http://127.0.0.1:{server.port}: " in line
    assert words in line


def test_nobody_at_the_address_is_wrong_usage(run: Run) -> None:
    with Answering(200, {}) as server:
        pass
    line = run(*MINIMAL, "--prior_runs", server.url("")).error_line()
    assert "is it running, and is the address right?" in line


@pytest.mark.parametrize("place", ["http://", "http://u:pass@h", "http://h:x", "https://h/?a=b"])
def test_an_address_that_is_none_is_wrong_usage(run: Run, place: str) -> None:
    line = run(*MINIMAL, "--prior_runs", place).error_line()
    assert "is no address of a server: write http(s)://host[:port]" in line
    assert "pass" not in line


def test_a_token_for_another_server_is_not_shown(run: Run) -> None:
    with Answering(200, {"runs": "all"}) as server:
        place, token = server.url(""), ("--remote_access_token", TOKEN)
        run(*MINIMAL, "--prior_runs", place, *token, "--remote_reporter", "https://h.example/api|c").error_line()
        run(*MINIMAL, "--prior_runs", place, *token).error_line()
    assert server.tokens == [None, f"Bearer {TOKEN}"]


def test_the_environments_token_is_not_shown_to_a_server_that_gets_no_reports(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    with Answering(200, {"runs": "all"}) as server:
        place = server.url("")
        run(*MINIMAL, "--prior_runs", place).error_line()
        run(*MINIMAL, "--prior_runs", place, "--remote_reporter", f"{place}/api|c").error_line()
    assert server.tokens == [None, f"Bearer {TOKEN}"]
