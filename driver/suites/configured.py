"""Read what a suite says of its project's repository and branch: asv's configuration, or where tests for pytest lie."""

import os
from dataclasses import dataclass

from opduel.driver.git.access import is_url
from opduel.driver.git.local import top_above
from opduel.driver.suites.configuration import CONFIGURATION, first_branch, read_configuration
from opduel.driver.suites.source import Suite

_ABOVE = 2  # folders above the benchmarks in which the configuration may be


@dataclass(frozen=True)
class SuiteSettings:
    """A project's place in a suite's configuration.

    ``repository`` is the project's URL or absolute path, ``branch`` its first branch, None for the repository's default
    branch (``HEAD``); both are None if neither a configuration nor a checkout of tests says them.
    """

    repository: str | None = None
    branch: str | None = None


def read_suite_settings(suite: Suite) -> SuiteSettings:
    """Return the settings of the suite; empty ones if nothing says them. Raise UsageError if the configuration can't be
    read."""
    if suite.tests:
        return SuiteSettings(_checkout_of(suite))
    for folder in list(suite.folder.parents)[:_ABOVE]:
        if (folder / CONFIGURATION).is_file():
            configuration = read_configuration(folder / CONFIGURATION)
            repository = configuration.get("repo")
            if isinstance(repository, str) and not is_url(repository):
                # A suite that was taken out of a repository is there without it: that is the repository.
                here = str((folder / repository).resolve())
                taken_out = suite.commit is not None and f"@{suite.commit}" in suite.pinned
                taken_out = taken_out and not os.path.isabs(repository)
                repository = _place_of(suite) if taken_out and not (folder / repository / ".git").exists() else here
            url_or_path = repository if isinstance(repository, str) else None
            return SuiteSettings(url_or_path, first_branch(configuration))
    return SuiteSettings()


def _checkout_of(suite: Suite) -> str | None:
    """Return the repository that has the suite's files at a commit."""
    if suite.commit is None or f"@{suite.commit}" in suite.pinned:
        return suite.commit and _place_of(suite)
    top = top_above(suite.folder)
    return None if top is None else str(top)


def _place_of(suite: Suite) -> str:
    """Return the repository in ``PATH_OR_REPOSITORY@COMMIT[:SUBFOLDER]``."""
    return suite.pinned.partition(f"@{suite.commit}")[0]
