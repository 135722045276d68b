"""The comment on a pull request, against an HTTP server that answers as GitHub's REST API does.

What is checked of requests is what docs.github.com/rest/issues/comments asks for: the paths, the headers, and BODIES.
"""

import http.server
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
import report_samples as samples
from scripted_server import ScriptedServer
from test_alerts import SLOWER

from opduel.records import Cause, RunError
from opduel.reporters.github import GithubReporter, pull_request_of
from opduel.reporters.kept_comment import A_PAGE, LONGEST, KeptComment, body_of

TOKEN = "ghs_very_secret"
# The bodies of issues/create-comment and issues/update-comment, worded after GitHub's OpenAPI description
# (github.com/github/rest-api-description, version 2022-11-28 of api.github.com, commit 0000036e42b5).
_BODY = {"type": "object", "properties": {"body": {"type": "string"}}, "required": ["body"]}
BODIES = {"POST": _BODY, "PATCH": _BODY}
WHY = "2 calls of prod per call, new (a.py:3), account for 90 % of the added time"
REPORT = samples.report([samples.comparison("fine"), replace(SLOWER, cause=Cause(WHY), note=f"cause: {WHY}")])


class Github(ScriptedServer):
    """Pull request 7 of ada/numlib and its comments. ``fails`` are statuses that the next requests get.

    What comments share with GitLab's notes is tested in test_gitlab.py.
    """

    def __init__(self) -> None:
        super().__init__()
        self.comments: list[dict[str, object]] = []
        self.fails: list[int] = []
        self.requests: list[str] = []

    def add(self, body: str) -> dict[str, object]:
        assert len(body) <= LONGEST
        self.comments.append({"id": 100 + len(self.comments), "body": body})
        return self.comments[-1]

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        parts, size = urlsplit(handler.path), int(handler.headers.get("Content-Length") or 0)
        document = json.loads(handler.rfile.read(size)) if size else None
        self.requests.append(f"{handler.command} {parts.path}")
        status, answer = self._answered(handler, parts.path, parse_qs(parts.query), document)
        content = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _answered(
        self,
        handler: http.server.BaseHTTPRequestHandler,
        path: str,
        query: dict[str, list[str]],
        document: dict[str, str] | None,
    ) -> tuple[int, object]:
        if self.fails:
            return self.fails.pop(0), {"message": f"no, {TOKEN}"}
        assert handler.headers["Accept"] == "application/vnd.github+json"
        assert handler.headers["X-GitHub-Api-Version"] == "2022-11-28"
        if handler.headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}
        if handler.command != "GET":
            assert handler.headers["Content-Type"] == "application/json"
            jsonschema.validate(document, BODIES[handler.command])
            assert set(document or {}) == {"body"}  # nothing that GitHub doesn't know
        if path == "/repos/ada/numlib/issues/7/comments":
            if handler.command == "GET":
                size, page = int(query["per_page"][0]), int(query["page"][0])
                return 200, self.comments[size * (page - 1) : size * page]
            return 201, self.add(str((document or {})["body"]))
        match = re.fullmatch(r"/repos/ada/numlib/issues/comments/(\d+)", path)
        addressed = next((candidate for candidate in self.comments if match and candidate["id"] == int(match[1])), None)
        if addressed is None or handler.command != "PATCH":
            return 404, {"message": "Not Found"}
        addressed["body"] = (document or {})["body"]
        return 200, addressed


@pytest.fixture
def github() -> Iterator[Github]:
    with Github() as server:
        yield server


def environment(github: Github, **more: str) -> dict[str, str]:
    """A step's variables in a workflow for pull request 7."""
    variables = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": github.url("").rstrip("/"),
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "ada/numlib",
        "GITHUB_RUN_ID": "42",
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_WORKFLOW": "speed",
        "GITHUB_JOB": "ab",
        "GITHUB_TOKEN": TOKEN,
    }
    return variables | more


def pull_request(github: Github, **more: str) -> KeptComment:
    request = pull_request_of(environment(github, **more))
    assert isinstance(request, KeptComment)
    return request


def test_a_second_run_rewrites_the_comment_of_the_first(github: Github) -> None:
    github.add("Nice work!")
    pull_request(github).comment(REPORT, ["regressed by: 422ca44a53e6"])
    pull_request(github).comment(samples.report([samples.comparison("fine")]), [])
    first, ours = github.comments
    assert first["body"] == "Nice work!"
    assert "1 unchanged" in str(ours["body"])
    assert github.requests[-1] == f"PATCH /repos/ada/numlib/issues/comments/{ours['id']}"


def test_it_says_what_changed_how_sure_why_and_where(github: Github) -> None:
    pull_request(github).comment(REPORT, ["regressed by: 422ca44a53e6"])
    (comment,) = github.comments
    body = str(comment["body"])
    for words in ("- regressed by: 422ca44a53e6", "nd.dot/forward", "+8.3 %", "+7.1", "+9.4", "cause: 2 calls of prod"):
        assert words in body
    assert "[The workflow's run](https://github.example/ada/numlib/actions/runs/42)" in body
    pull_request(github).comment(REPORT, ["regressed by: 422ca44a53e6"])  # again: nothing to write
    assert github.requests[-1].startswith("GET")


def test_workflows_specs_and_platforms_have_comments_of_their_own(github: Github) -> None:
    pull_request(github).comment(REPORT, [])
    pull_request(github, GITHUB_JOB="other").comment(REPORT, [])
    other = samples.report([SLOWER], spec="another")
    pull_request(github).comment(other, [])
    pull_request(github).comment(samples.report([SLOWER], configuration={"platform": "arm"}), [])
    assert len(github.comments) == 4


def test_a_comment_is_found_behind_a_hundred_others(github: Github) -> None:
    for number in range(A_PAGE):
        github.add(f"comment {number}")
    pull_request(github).comment(REPORT, [])
    pull_request(github).comment(samples.report([SLOWER]), [])
    assert len(github.comments) == A_PAGE + 1


@pytest.mark.parametrize(
    ("status", "why", "requests"),
    [(403, "pull-requests: write", 1), (401, "the token is not valid", 1), (500, "GitHub says 500", 3)],
)
def test_a_refusal_is_one_line_without_the_token(github: Github, status: int, why: str, requests: int) -> None:
    github.fails = [status] * 3
    with pytest.raises(RunError, match=why) as error:
        pull_request(github).comment(REPORT, [])
    assert TOKEN not in str(error.value)
    assert "\n" not in str(error.value)
    assert len(github.requests) == requests
    assert TOKEN not in repr(pull_request(github))


def test_a_large_report_has_its_worst_cases_in_the_comment() -> None:
    many = [samples.comparison(f"case{number:04}/forward", "regressed", 1.1 + number / 1000) for number in range(2000)]
    body = body_of(samples.report(many), [], "<!-- opduel 0 -->", "https://github.example/run")
    assert LONGEST - 300 < len(body) <= LONGEST
    assert "case1999" in body
    assert "case0000" not in body
    assert re.search(r"Not shown: \d+ cases", body)


def test_outside_of_a_pull_request_there_is_none_and_without_a_token_it_says_how(
    github: Github, tmp_path: Path
) -> None:
    assert pull_request_of(environment(github, GITHUB_REF="refs/heads/main")) == ""
    assert "set GITHUB_TOKEN" in str(pull_request_of(environment(github, GITHUB_TOKEN="")))
    for wrong in ("../x", "x/..", "x", "x/y/z", "./y"):
        assert "OWNER/NAME" in str(pull_request_of(environment(github, GITHUB_REPOSITORY=wrong)))
    for right in ("ada_acme/numlib", "a.b/c_d.e"):
        assert isinstance(pull_request_of(environment(github, GITHUB_REPOSITORY=right)), KeptComment)
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    request = pull_request_of(environment(github, GITHUB_REF="refs/heads/x", GITHUB_EVENT_PATH=str(event)))
    assert isinstance(request, KeptComment)
    assert "/issues/7/" in request.comments
    for wrong in ("{", "[]", '{"pull_request": null}', '{"pull_request": {"number": "7"}}'):
        event.write_text(wrong)
        assert pull_request_of(environment(github, GITHUB_REF="", GITHUB_EVENT_PATH=str(event))) == ""


@pytest.mark.parametrize("fails", [[], [403]])
def test_the_reporter_comments_and_a_refusal_costs_nothing_else(
    github: Github, fails: list[int], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    github.fails = list(fails)
    GithubReporter(environment(github)).report_findings(REPORT, [])
    assert len(github.comments) == (0 if fails else 1)
    assert ("pull-requests: write" in caplog.text) == bool(fails)
    assert "nd.dot/forward regressed" in capsys.readouterr().out
