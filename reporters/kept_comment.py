"""One comment on a pull or merge request, kept up to date, for GitHub and GitLab: the mark by which it is found, its
text, the requests, and their retries."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opduel.records import Report, RunError, UsageError
from opduel.reporters.http_request import RequestFailedError, is_later, repeat, send
from opduel.reporters.markdown import cell, summary
from opduel.reporters.text import printable
from opduel.support.command_names import command_name
from opduel.support.redaction import redact

LONGEST = 65_536  # characters of a comment: GitHub's limit; GitLab takes 1,000,000
A_PAGE = 100  # comments, the most that either gives at once
MOST_PAGES = 50

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommentServer:
    """What differs between GitHub and GitLab."""

    name: str
    without_comment: str  # the beginning of the line that says that there is no comment
    run_name: str  # what ``KeptComment.run`` is the page of
    rewrites: str  # the HTTP method that changes a comment
    fixes: Mapping[int, str]  # by the answer's status
    order: str = ""  # the query by which comments are listed in the order in which they were written


@dataclass(frozen=True, kw_only=True)
class KeptComment:
    """The comment of one CI job on the pull or merge request that it runs for.

    ``comments`` is the address of the request's comments, ``each`` that of each of them without its id. ``headers`` are
    those of each request, with the token. ``key`` tells the job from others that comment there; ``run`` is the address
    of its page, or empty.
    """

    server: CommentServer
    comments: str
    each: str
    headers: Mapping[str, str] = field(repr=False)
    token: str = field(repr=False)
    key: str
    run: str

    def comment(self, report: Report, culprits: Sequence[str]) -> None:
        """Write the run's comment, or rewrite it where there is one; ``culprits`` are lines for its head.

        Each attempt looks for the comment first, so that one whose answer was lost leaves no second comment. Raises
        RunError: the server doesn't take it; the text holds no token.
        """
        marker = marker_of(self.key, report)
        end = f"\n[{self.server.run_name}]({printable(self.run)})\n" if self.run else ""
        body = body_of(report, culprits, marker, end)
        body = redact(body, [self.token, cell(self.token)])  # as it is, and as Markdown has it
        try:
            repeat(lambda: self._write(marker, body))
        except RequestFailedError as error:
            raise RunError(f"{self.server.without_comment}: {error}") from None

    def _write(self, marker: str, body: str) -> None:
        for comment in self._comments_with(marker):
            if comment["body"] == body:
                return
            try:
                self._ask(self.server.rewrites, f"{self.each}/{comment['id']}", {"body": body})
                return
            except RequestFailedError as error:
                if error.is_temporary or error.status not in (403, 404, 410):  # somebody else's, or gone by now
                    raise
        self._ask("POST", self.comments, {"body": body})

    def _comments_with(self, marker: str) -> Iterator[Mapping[str, Any]]:
        """Yield the comments that begin with ``marker``: ours, and those of others who copied it."""
        for page in range(1, MOST_PAGES + 1):
            query = f"?per_page={A_PAGE}&page={page}{self.server.order}"
            comments, headers = self._ask("GET", self.comments + query)
            if not isinstance(comments, list):
                raise RequestFailedError("the answer is no list of comments", is_temporary=False)
            for comment in comments:
                if isinstance(comment, dict) and str(comment.get("body") or "").startswith(marker) and "id" in comment:
                    yield comment
            # GitLab names the next page, and may leave out comments of any; of GitHub's, all but the last are full.
            if not headers.get("X-Next-Page", len(comments) >= A_PAGE):
                return

    def _ask(self, method: str, address: str, document: object = None) -> tuple[Any, Mapping[str, str]]:
        """Return the answer's JSON and headers. Raises RequestFailedError: there is no answer, or it is a refusal."""
        body = None if document is None else json.dumps(document).encode()
        reply = send(method, address, body, {**self.headers, "Content-Type": "application/json"})
        wait_s = reply.retry_after_s
        if 200 <= reply.status < 300:
            try:
                return json.loads(reply.text or ""), reply.headers
            except ValueError:
                raise RequestFailedError("its answer is cut off, or no JSON", is_temporary=True) from None
        is_temporary = is_later(reply.status) or (reply.status == 403 and wait_s is not None)  # as GitHub says it
        fix = f": {self.server.fixes[reply.status]}" if reply.status in self.server.fixes else ""
        if is_temporary and wait_s:
            fix = f", and to wait {wait_s:.0f} s"
        reason = f"{self.server.name} says {reply.status}{fix}"
        raise RequestFailedError(reason, is_temporary, status=reply.status, wait_s=wait_s or 0.0)


def check_place(environment: Mapping[str, str], variable: str, place: str, option: str) -> None:
    """Check that this process runs in that place, as the variable says. Raises UsageError: it doesn't."""
    if environment.get(variable) != "true":
        raise UsageError(
            f"--{option}: this is not {place} ({variable} is not true): leave it out, or use "
            f"{command_name('convert')} REPORT --to md"
        )


def keep_comment(comment: KeptComment | str, report: Report, culprits: Sequence[str], option: str) -> None:
    """Keep the comment up to date, or log why there is none. Errors are only logged: a run for a fork may not
    comment."""
    if isinstance(comment, str):
        if comment:
            log.info("--%s: %s", option, comment)
        return
    try:
        comment.comment(report, culprits)
    except RunError as error:
        log.warning("--%s: %s", option, error)


def marker_of(key: str, report: Report) -> str:
    """Return the first line of the comment, which readers don't see: the same for all runs of a spec by one job."""
    owner = f"{key}/{report.configuration.platform}/{report.run.framework}/{report.run.spec}"
    return f"<!-- opduel {hashlib.sha256(owner.encode('utf-8', 'replace')).hexdigest()[:16]} -->"


def body_of(report: Report, culprits: Sequence[str], marker: str, end: str) -> str:
    """Return the comment in at most ``LONGEST`` characters, without the least important cases if necessary."""
    room = LONGEST - len(f"{marker}\n{end}")
    return f"{marker}\n{summary(report, culprits, room)[:room]}{end}"
