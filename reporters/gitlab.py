"""The GitLab reporter: in the pipeline of a merge request, one note on the merge request, kept up to date.

docs.gitlab.com/api/notes (the requests), docs.gitlab.com/api/rest (pages, status codes),
docs.gitlab.com/ci/variables/predefined_variables (the variables of a job).
"""

import os
import re
from collections.abc import Mapping, Sequence

from opduel.records import Report
from opduel.reporters.base import FindingsReporter
from opduel.reporters.kept_comment import CommentServer, KeptComment, check_place, keep_comment
from opduel.reporters.options import GITLAB_TOKEN


class GitlabReporter(FindingsReporter, option="gitlab"):
    """Keeps the note of the merge request that this job runs for."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """``environment``: that of the job, by default this process's own."""
        self._environment = os.environ if environment is None else environment

    def check(self) -> None:
        """Check that this is a job of GitLab CI. Raises UsageError: it is none."""
        check_place(self._environment, "GITLAB_CI", "a job of GitLab CI", self.option)

    def report_findings(self, report: Report, culprits: Sequence[str]) -> None:
        keep_comment(merge_request_of(self._environment), report, culprits, self.option)


_SERVER = CommentServer(
    name="GitLab",
    without_comment="the merge request has no note of this run",
    run_name="The pipeline's job",
    rewrites="PUT",
    fixes={
        401: f"the token in {GITLAB_TOKEN} is not valid, or has expired; CI_JOB_TOKEN can't be used",
        403: f"give the token in {GITLAB_TOKEN} the scope `api`, and a role that may comment on merge requests",
        404: f"the token in {GITLAB_TOKEN} may not see this project, or the merge request is gone",
    },
    order="&sort=asc&order_by=created_at",
)


def merge_request_of(environment: Mapping[str, str]) -> KeptComment | str:
    """Return the note on the merge request that a job runs for, by its variables, or one line that says why none can be
    written; the line is empty outside of a merge request's pipeline."""
    none = "no note on the merge request"
    if not (iid := environment.get("CI_MERGE_REQUEST_IID", "")):
        return ""
    token = environment.get(GITLAB_TOKEN, "").strip()
    if not token:
        return f"{none}: set the masked CI/CD variable {GITLAB_TOKEN} to an access token with the scope `api` for one"
    if not re.fullmatch(r"[!-~]+", token):
        return f"{none}: {GITLAB_TOKEN} is not an access token: it has characters that no token has"
    # In the pipeline of a fork CI_PROJECT_ID is the fork, which has merge requests of its own with the same numbers.
    project = environment.get("CI_MERGE_REQUEST_PROJECT_ID") or environment.get("CI_PROJECT_ID", "")
    notes = f"{environment.get('CI_API_V4_URL', '').rstrip('/')}/projects/{project}/merge_requests/{iid}/notes"
    if not re.fullmatch(r"https?://[^/\s]\S*/projects/[0-9]+/merge_requests/[0-9]+/notes", notes):
        return f"{none}: CI_API_V4_URL, CI_PROJECT_ID or CI_MERGE_REQUEST_IID is wrong"
    return KeptComment(
        server=_SERVER,
        comments=notes,
        each=notes,
        headers={"PRIVATE-TOKEN": token},
        token=token,
        key=environment.get("CI_JOB_NAME", ""),
        run=environment.get("CI_JOB_URL", ""),
    )
