"""The note on a merge request, against an HTTP server that answers as GitLab's REST API does.

By GitLab's documentation: doc/api/notes.md and doc/api/rest (of GitLab's own repository). What it says of the body of
each request is BODIES.
"""

import http.server
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
import report_samples as samples
from scripted_server import ScriptedServer
from test_alerts import SLOWER

from opduel.records import Cause, RunError, UsageError
from opduel.reporters.gitlab import GitlabReporter, merge_request_of
from opduel.reporters.kept_comment import A_PAGE, KeptComment

TOKEN = "glpat-very_secret"
WHY = "2 calls of prod per call, new (a.py:3), account for 90 % of the added time"
REPORT = samples.report([samples.comparison("fine"), replace(SLOWER, cause=Cause(WHY), note=f"cause: {WHY}")])
NOTES = "/api/v4/projects/31/merge_requests/7/notes"
_BODY = {"type": "string", "minLength": 1, "maxLength": 1_000_000}
_MORE = {"created_at": {"type": "string"}, "merge_request_diff_head_sha": {"type": "string"}}
BODIES: dict[str, dict[str, Any]] = {
    "POST": {"properties": {"body": _BODY, **_MORE}, "required": ["body"], "additionalProperties": False},
    "PUT": {"properties": {"body": _BODY}, "required": ["body"], "additionalProperties": False},
}


class Gitlab(ScriptedServer):
    """Merge request 7 of project 31 and its notes. ``foreign`` are ids that the token may not change; ``fails`` are the
    statuses and headers that the next requests get."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[dict[str, Any]] = []
        self.foreign: set[int] = set()
        self.fails: list[tuple[int, dict[str, str]]] = []
        self.lost = False  # whether the answer to the next note is lost, but not the note
        self.requests: list[str] = []

    def add(self, body: str, system: bool = False) -> dict[str, Any]:
        self.notes.append({"id": 300 + len(self.notes), "body": body, "system": system})
        return self.notes[-1]

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        parts, size = urlsplit(handler.path), int(handler.headers.get("Content-Length") or 0)
        document = json.loads(handler.rfile.read(size)) if size else None
        self.requests.append(f"{handler.command} {parts.path}")
        status, headers, answer = self._answered(handler, parts.path, parse_qs(parts.query), document)
        content = json.dumps(answer).encode()
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _answered(
        self, handler: http.server.BaseHTTPRequestHandler, path: str, query: dict[str, list[str]], document: Any
    ) -> tuple[int, dict[str, str], object]:
        if self.fails:
            return *self.fails.pop(0), {"message": f"no, {TOKEN}"}
        if handler.headers["PRIVATE-TOKEN"] != TOKEN:
            return 401, {}, {"message": "401 Unauthorized"}
        if handler.command in BODIES:
            assert handler.headers["Content-Type"] == "application/json"
            jsonschema.validate(document, {"type": "object", **BODIES[handler.command]})
        if path == NOTES and handler.command == "GET":
            return self._page(query)
        if path == NOTES and handler.command == "POST":
            note = self.add(document["body"])
            lost, self.lost = self.lost, False
            return (502, {}, None) if lost else (201, {}, note)
        match = re.fullmatch(rf"{NOTES}/(\d+)", path)
        addressed = next((candidate for candidate in self.notes if match and candidate["id"] == int(match[1])), None)
        if addressed is None or handler.command != "PUT":
            return 404, {}, {"message": "404 Not found"}
        if addressed["id"] in self.foreign:
            return 403, {}, {"message": "403 Forbidden"}
        addressed["body"] = document["body"]
        return 200, {}, addressed

    def _page(self, query: dict[str, list[str]]) -> tuple[int, dict[str, str], object]:
        """The newest first, unless asked otherwise; at most 100; the next page's number, or nothing, in a header."""
        notes = self.notes if query.get("sort") == ["asc"] else self.notes[::-1]
        size, page = min(100, int(query.get("per_page", ["20"])[0])), int(query.get("page", ["1"])[0])
        after = str(page + 1) if len(notes) > size * page else ""
        return 200, {"X-Page": str(page), "X-Next-Page": after}, notes[size * (page - 1) : size * page]


@pytest.fixture
def gitlab() -> Iterator[Gitlab]:
    with Gitlab() as server:
        yield server


def environment(gitlab: Gitlab, **more: str) -> dict[str, str]:
    """A job's variables in the pipeline of merge request 7."""
    variables = {
        "GITLAB_CI": "true",
        "CI_API_V4_URL": gitlab.url("api/v4"),
        "CI_PROJECT_ID": "31",
        "CI_MERGE_REQUEST_PROJECT_ID": "31",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_JOB_NAME": "speed",
        "CI_JOB_URL": "https://gitlab.example/ada/numlib/-/jobs/42",
        "OPDUEL_GITLAB_TOKEN": TOKEN,
    }
    return variables | more


def merge_request(gitlab: Gitlab, **more: str) -> KeptComment:
    request = merge_request_of(environment(gitlab, **more))
    assert isinstance(request, KeptComment)
    return request


def test_a_second_run_rewrites_the_note_of_the_first(gitlab: Gitlab) -> None:
    gitlab.add("Nice work!")
    gitlab.add("added 1 commit", system=True)
    merge_request(gitlab).comment(REPORT, ["regressed by: 422ca44a53e6"])
    body = gitlab.notes[-1]["body"]
    for words in ("- regressed by: 422ca44a53e6", "nd.dot/forward", "+8.3 %", "+7.1", "+9.4", "cause: 2 calls of prod"):
        assert words in body
    assert "[The pipeline's job](https://gitlab.example/ada/numlib/-/jobs/42)" in body
    merge_request(gitlab).comment(REPORT, ["regressed by: 422ca44a53e6"])  # again: nothing to write
    assert gitlab.requests[-1] == f"GET {NOTES}"
    merge_request(gitlab).comment(samples.report([samples.comparison("fine")]), [])
    assert gitlab.requests[-1] == f"PUT {NOTES}/302"
    first, _, ours = gitlab.notes
    assert first["body"] == "Nice work!"
    assert "1 unchanged" in ours["body"]


def test_jobs_have_notes_of_their_own(gitlab: Gitlab) -> None:
    merge_request(gitlab).comment(REPORT, [])
    merge_request(gitlab, CI_JOB_NAME="other").comment(REPORT, [])
    assert len(gitlab.notes) == 2


def test_a_note_is_found_on_a_later_page(gitlab: Gitlab) -> None:
    for number in range(2 * A_PAGE):
        gitlab.add(f"note {number}")
    merge_request(gitlab).comment(REPORT, [])
    merge_request(gitlab).comment(samples.report([SLOWER]), [])
    assert len(gitlab.notes) == 2 * A_PAGE + 1


def test_somebody_else_s_note_with_our_mark_is_left_alone(gitlab: Gitlab) -> None:
    merge_request(gitlab).comment(REPORT, [])
    gitlab.foreign.add(300)
    merge_request(gitlab).comment(samples.report([SLOWER]), [])
    merge_request(gitlab).comment(REPORT, ["again"])
    theirs, ours = gitlab.notes
    assert "again" not in theirs["body"]
    assert "again" in ours["body"]


def test_an_answer_that_was_lost_makes_no_second_note(gitlab: Gitlab) -> None:
    gitlab.lost = True
    merge_request(gitlab).comment(REPORT, [])
    assert len(gitlab.notes) == 1
    assert gitlab.requests == [f"GET {NOTES}", f"POST {NOTES}", f"GET {NOTES}"]


@pytest.mark.parametrize("after", ["2", formatdate(usegmt=True)], ids=["seconds", "date"])
def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks(
    gitlab: Gitlab, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("opduel.reporters.http_request.time.sleep", slept.append)
    gitlab.fails = [(429, {"Retry-After": after}), (503, {})]
    merge_request(gitlab).comment(REPORT, [])
    assert slept == [2.0 if after == "2" else 0.0, 0.0]
    assert len(gitlab.notes) == 1


@pytest.mark.parametrize(
    ("status", "headers", "why", "requests"),
    [
        (401, {}, "OPDUEL_GITLAB_TOKEN is not valid", 1),
        (403, {}, "the scope `api`", 1),
        (404, {}, "may not see this project", 1),
        (301, {"Location": "/"}, "GitLab says 301", 1),
        (500, {}, "GitLab says 500", 3),
        (429, {"Retry-After": "3600"}, "GitLab says 429, and to wait 3600 s", 1),
    ],
)
def test_a_refusal_is_one_line_without_the_token(
    gitlab: Gitlab, status: int, headers: dict[str, str], why: str, requests: int
) -> None:
    gitlab.fails = [(status, headers)] * 3
    with pytest.raises(RunError, match=why) as error:
        merge_request(gitlab).comment(REPORT, [])
    assert TOKEN not in str(error.value) + repr(merge_request(gitlab))
    assert "\n" not in str(error.value)
    assert len(gitlab.requests) == requests


def test_a_wrong_token_and_a_token_in_the_report_are_shown_nowhere(gitlab: Gitlab) -> None:
    with pytest.raises(RunError, match="is not valid") as error:
        merge_request(gitlab, OPDUEL_GITLAB_TOKEN="glpat-another").comment(REPORT, [])
    assert "another" not in str(error.value)
    merge_request(gitlab).comment(REPORT, [f"it said {TOKEN}"])
    assert "- it said ***\n" in gitlab.notes[0]["body"]
    assert TOKEN[-8:] not in gitlab.notes[0]["body"]


def test_what_a_commit_is_called_is_no_quick_action_and_mentions_nobody(gitlab: Gitlab) -> None:
    named = samples.report([samples.comparison("/merge\n/close @ada !1", "regressed", 1.2)])
    merge_request(gitlab).comment(named, ["/close", "x\n/merge @ada"])
    body = re.sub("`[^`]*`", "", gitlab.notes[0]["body"])  # in code nobody is mentioned
    assert not re.search(r"^\s*/", body, re.MULTILINE)
    assert not re.search(r"(?<!\\)[@!]\w", body.replace("<!-- ", ""))


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"CI_MERGE_REQUEST_IID": ""}, "^$"),
        ({"CI_MERGE_REQUEST_IID": "7/../8"}, "CI_MERGE_REQUEST_IID is wrong"),
        ({"OPDUEL_GITLAB_TOKEN": ""}, "set the masked CI/CD variable OPDUEL_GITLAB_TOKEN"),
        ({"OPDUEL_GITLAB_TOKEN": "gl\npat"}, "is not an access token"),
        ({"CI_MERGE_REQUEST_PROJECT_ID": "", "CI_PROJECT_ID": "ada/numlib"}, "CI_PROJECT_ID or"),
        ({"CI_API_V4_URL": "file:///etc"}, "CI_API_V4_URL, CI_PROJECT_ID or"),
    ],
)
def test_why_there_is_no_note_is_said(gitlab: Gitlab, variables: dict[str, str], why: str) -> None:
    assert re.search(why, str(merge_request_of(environment(gitlab, **variables))))


def test_a_fork_s_pipeline_writes_to_the_project_of_the_merge_request(gitlab: Gitlab) -> None:
    assert merge_request(gitlab, CI_PROJECT_ID="99").comments.endswith("/projects/31/merge_requests/7/notes")
    fork = merge_request(gitlab, CI_MERGE_REQUEST_PROJECT_ID="")
    assert fork.comments.endswith("/projects/31/merge_requests/7/notes")


@pytest.mark.parametrize("fails", [[], [(403, {})]])
def test_the_reporter_writes_and_a_refusal_costs_nothing_else(
    gitlab: Gitlab, fails: list[tuple[int, dict[str, str]]], caplog: pytest.LogCaptureFixture
) -> None:
    gitlab.fails = list(fails)
    reporter = GitlabReporter(environment(gitlab))
    reporter.check()
    reporter.report(REPORT)
    assert len(gitlab.notes) == (0 if fails else 1)
    assert ("--gitlab: the merge request has no note of this run: GitLab says 403" in caplog.text) == bool(fails)


def test_elsewhere_the_option_is_refused() -> None:
    with pytest.raises(UsageError, match="not a job of GitLab CI"):
        GitlabReporter({}).check()
