"""Read what asv's configuration says of the project: its repository and branch."""

import os
from dataclasses import dataclass

from opduel.driver.git.access import is_url
from opduel.driver.suites.configuration import CONFIGURATION, first_branch, read_configuration
from opduel.driver.suites.source import Suite

_ABOVE = 2  # folders above the benchmarks in which the configuration may be


@dataclass(frozen=True)
class SuiteSettings:
    """A project's place in a suite's configuration.

    ``repository`` is the project's URL or absolute path, ``branch`` its first branch, None for the repository's default
    branch (``HEAD``); both are None if not configured.
    """

    repository: str | None = None
    branch: str | None = None


def read_suite_settings(suite: Suite) -> SuiteSettings:
    """Return the settings in the suite's configuration; empty ones if it has none. Raise UsageError if the
    configuration can't be read."""
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


def _place_of(suite: Suite) -> str:
    """Return the repository in ``PATH_OR_REPOSITORY@COMMIT[:SUBFOLDER]``."""
    return suite.pinned.partition(f"@{suite.commit}")[0]
