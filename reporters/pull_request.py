"""The comment on a GitHub pull request.

docs.github.com/rest/issues/comments: a pull request's comments are those of the issue of its number.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from opduel.reporters.kept_comment import A_PAGE, KeptComment
from opduel.support.files import UnreadableError, read_text

TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
LONGEST_EVENT = 16 * 1024**2  # bytes


@dataclass(frozen=True, kw_only=True)
class PullRequest(KeptComment):
    """A pull request of ``repository`` ("owner/name")."""

    server: ClassVar[str] = "GitHub"
    lacking: ClassVar[str] = "the pull request has no comment of this run"
    run_name: ClassVar[str] = "The workflow's run"
    rewrites: ClassVar[str] = "PATCH"
    fixes: ClassVar[Mapping[int, str]] = {
        401: "the token is not valid",
        403: "give the job `permissions: pull-requests: write`; runs for forks have no such token",
        404: "the token may not see this repository",
    }

    repository: str
    number: int

    @property
    def headers(self) -> Mapping[str, str]:
        return {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    @property
    def comments(self) -> str:
        return f"/repos/{self.repository}/issues/{self.number}/comments"

    def path_of(self, comment: Any) -> str:
        return f"/repos/{self.repository}/issues/comments/{comment}"

    def page_after(self, page: int, comments: int, headers: Mapping[str, str]) -> int | None:
        return page + 1 if comments >= A_PAGE else None


def pull_request_of(environment: Mapping[str, str]) -> PullRequest | str:
    """Return the pull request that a workflow runs for, by the variables of its step, or one line that says why it
    can't be commented on; the line is empty outside of a pull request."""
    number = _number(environment)
    if number is None:
        return ""
    token = next((value for name in TOKENS if (value := environment.get(name, "").strip())), "")
    if not token:
        return "no comment on the pull request: set GITHUB_TOKEN: ${{ github.token }} in the step's env for one"
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not re.fullmatch(r"(?!\.+/)[\w.-]+/(?!\.+$)[\w.-]+", repository, re.ASCII):
        return "no comment on the pull request: GITHUB_REPOSITORY is not OWNER/NAME"
    api = environment.get("GITHUB_API_URL") or "https://api.github.com"
    server, run = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_RUN_ID")
    page = f"{server}/{repository}/actions/runs/{run}" if server and run else ""
    key = "/".join(environment.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB"))
    return PullRequest(api=api.rstrip("/"), repository=repository, number=number, key=key, run=page, token=token)


def _number(environment: Mapping[str, str]) -> int | None:
    """Return the pull request's number, from the event or else from the ref."""
    if path := environment.get("GITHUB_EVENT_PATH"):
        try:
            event = json.loads(read_text(Path(path), LONGEST_EVENT))
            number = event["pull_request"]["number"]
            if isinstance(number, int) and number > 0:
                return number
        except (UnreadableError, ValueError, KeyError, TypeError):
            pass
    match = re.fullmatch(r"refs/pull/([1-9]\d{0,9})/(?:merge|head)", environment.get("GITHUB_REF", ""))
    return int(match[1]) if match else None
