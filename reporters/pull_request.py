"""One comment on a GitHub pull request, kept up to date: what changed, how sure that is, why, and where the run is.

docs.github.com/rest/issues/comments: a pull request's comments are those of the issue of its number.
"""

import hashlib
import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import urllib3

from opduel.records import Report, RunError
from opduel.records.files import UnreadableError, read_text
from opduel.reporters.http_retry import OneAnswerSession, TooLongError, is_later, retried, within
from opduel.reporters.markdown import cell, to_markdown
from opduel.reporters.text import printable

TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
LONGEST = 65_536  # characters of a comment
LONGEST_EVENT = 16 * 1024**2  # bytes
A_PAGE = 100  # comments, the most that GitHub gives at once
MOST_PAGES = 50
SILENCE_S = 10.0  # without a word from the server
WHOLE_S = 20.0  # for one request
PAUSES_S = (1.0, 4.0)  # before the second attempt and the third
_WRONG = (requests.RequestException, urllib3.exceptions.HTTPError, ValueError)


class _NotTakenError(Exception):
    """A request came to nothing; ``again``: whether a further attempt may help. ``status``: of the answer, or 0."""

    def __init__(self, reason: str, again: bool, status: int = 0) -> None:
        super().__init__(reason)
        self.again, self.status = again, status


@dataclass(frozen=True)
class PullRequest:
    """A pull request of ``repository`` ("owner/name"), on the server whose API is at ``api``. ``key`` tells this
    workflow's job from others that comment on it; ``run`` is the address of the workflow's run, or empty."""

    api: str
    repository: str
    number: int
    key: str
    run: str
    token: str = field(repr=False)
    pauses_s: tuple[float, ...] = PAUSES_S

    def comment(self, report: Report, culprits: Sequence[str]) -> None:
        """Write the run's comment, or rewrite it where there is one; ``culprits`` are lines for its head.

        Each attempt looks for the comment first, so that one whose answer was lost leaves no second comment.

        Raises:
            RunError: GitHub doesn't take it; the text holds no token.
        """
        marker = marker_of(self.key, report)
        body = body_of(report, culprits, marker, self.run)
        pauses = dict(enumerate(self.pauses_s, 1))

        def attempt() -> _NotTakenError | None:
            try:
                self._write(marker, body)
            except _NotTakenError as error:
                return error
            return None

        failed = retried(
            attempt,
            lambda number, _: pauses.get(number, math.inf),
            lambda found, wait_s: found is not None and found.again and wait_s < math.inf,
        )
        if failed is not None:
            raise RunError(f"the pull request has no comment of this run: {failed}")

    def _write(self, marker: str, body: str) -> None:
        place = f"/repos/{self.repository}/issues"
        for found in self._found(marker):
            if found["body"] == body:
                return
            try:
                self._ask("PATCH", f"{place}/comments/{found['id']}", {"body": body})
                return
            except _NotTakenError as error:
                if error.status not in (403, 404, 410):  # somebody else's, or gone by now
                    raise
        self._ask("POST", f"{place}/{self.number}/comments", {"body": body})

    def _found(self, marker: str) -> Iterator[Mapping[str, Any]]:
        """The comments that begin with ``marker``: ours, and those of others who have copied it."""
        for page in range(1, MOST_PAGES + 1):
            asked = f"/repos/{self.repository}/issues/{self.number}/comments?per_page={A_PAGE}&page={page}"
            comments = self._ask("GET", asked)
            if not isinstance(comments, list):
                raise _NotTakenError("the answer is no list of comments", again=False)
            for one in comments:
                if isinstance(one, dict) and str(one.get("body") or "").startswith(marker) and "id" in one:
                    yield one
            if len(comments) < A_PAGE:
                break

    def _ask(self, method: str, path: str, document: object = None) -> Any:
        """The answer's JSON. Raises _NotTakenError: there is none, or it is a refusal."""
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "X-GitHub-Api-Version": "2022-11-28",
        }

        def ask() -> Any:
            with (
                OneAnswerSession() as session,
                session.request(
                    method, self.api + path, json=document, headers=headers, timeout=SILENCE_S, allow_redirects=False
                ) as response,
            ):
                if not 200 <= response.status_code < 300:
                    raise _refused(response.status_code)
                return response.json()

        try:
            return within(WHOLE_S, ask)
        except TooLongError:
            raise _NotTakenError(f"no answer within {WHOLE_S:g} s", again=True) from None
        except _WRONG as error:
            raise _NotTakenError(f"{type(error).__name__}: is the network up?", again=True) from None
        except OSError as error:  # a file of certificates that is not there
            raise _NotTakenError(error.strerror or type(error).__name__, again=False) from None


def _refused(status: int) -> _NotTakenError:
    fixes = {
        401: ": the token is not valid",
        403: ": give the job `permissions: pull-requests: write`; runs for forks have no such token",
        404: ": the token may not see this repository",
    }
    return _NotTakenError(f"GitHub says {status}{fixes.get(status, '')}", is_later(status), status)


def pull_request_of(environment: Mapping[str, str]) -> PullRequest | str:
    """The pull request that a workflow runs for, by the variables of its step; or why there is none to comment on, in
    one line, which is empty outside of a pull request."""
    number = _number(environment)
    if number is None:
        return ""
    token = next((value for name in TOKENS if (value := environment.get(name, "").strip())), "")
    if not token:
        return "no comment on the pull request: set GITHUB_TOKEN: ${{ github.token }} in the step's env for one"
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.+$)[\w.-]+", repository):
        return "no comment on the pull request: GITHUB_REPOSITORY is not OWNER/NAME"
    api = environment.get("GITHUB_API_URL") or "https://api.github.com"
    server, run = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_RUN_ID")
    page = f"{server}/{repository}/actions/runs/{run}" if server and run else ""
    key = "/".join(environment.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB"))
    return PullRequest(api.rstrip("/"), repository, number, key, page, token)


def _number(environment: Mapping[str, str]) -> int | None:
    """The pull request's number: of the event, or else of the ref."""
    if path := environment.get("GITHUB_EVENT_PATH"):
        try:
            event = json.loads(read_text(Path(path), LONGEST_EVENT))
            number = event["pull_request"]["number"]
            if isinstance(number, int) and number > 0:
                return number
        except (UnreadableError, ValueError, KeyError, TypeError):
            pass
    found = re.fullmatch(r"refs/pull/([1-9]\d{0,9})/(?:merge|head)", environment.get("GITHUB_REF", ""))
    return int(found[1]) if found else None


def marker_of(key: str, report: Report) -> str:
    """The first line of the comment, which GitHub doesn't show: the same for each run of a spec by one workflow's
    job."""
    whose = f"{key}/{report.configuration.platform}/{report.run.framework}/{report.run.spec}"
    return f"<!-- opduel {hashlib.sha256(whose.encode('utf-8', 'replace')).hexdigest()[:16]} -->"


def body_of(report: Report, culprits: Sequence[str], marker: str, run: str) -> str:
    """The comment in at most ``LONGEST`` characters: with fewer cases where that is needed, the worst first."""
    title = f"## opduel: {cell(f'{report.run.spec} ({report.run.framework})')}"
    head = "\n".join([marker, title, "", *(f"- {cell(line)}" for line in culprits), "", ""])
    end = f"\n[The workflow's run]({printable(run)})\n" if run else ""
    room = LONGEST - len(head) - len(end)
    whole = to_markdown(report)
    if len(whole) > room:
        some = range(len(report.comparisons))
        fits = bisect_right(some, room, key=lambda most: len(to_markdown(report, most))) - 1
        whole = to_markdown(report, max(0, fits))[:room]
    return head + whole + end
