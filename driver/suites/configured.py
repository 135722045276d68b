"""Read the settings of a project in asv's configuration: its repository and branch, and settings ignored here."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opduel.driver.git.access import is_url
from opduel.driver.suites.source import CONFIGURATION, Suite, packages_of, read_configuration

_ABOVE = 2  # folders above the benchmarks in which the configuration may be
_IGNORED = {
    "build_command": "commits are built by the package's own build backend (settings of it: --cmake_args)",
    "install_command": "what the build backend made is installed as it is",
    "uninstall_command": "every build has an environment of its own",
    "pythons": "every build has the Python that runs opduel (another one: --with_packages python==3.12)",
    "conda_channels": "packages come from the package index",
    "exclude": "one environment is measured, not a matrix",
    "include": "one environment is measured, not a matrix",
    "conda_environment_file": "packages come from the package index",
    "environment_type": "every build has a virtual environment of its own",
    "dvcs": "only git repositories can be measured",
    "repo_subdir": "the package is built from the top of its repository",
    "default_benchmark_timeout": "use --timeout",
    "regressions_first_commits": "commits are compared with their control (choose it with --base_commit)",
    "regressions_thresholds": "use --threshold",
}
_FOLLOWED = {"environment_type": ("virtualenv", "uv"), "dvcs": ("git",)}  # values that ask for nothing else


@dataclass(frozen=True)
class SuiteSettings:
    """A suite's configuration.

    ``repository`` is the project's URL or absolute path, ``branch`` its first branch, None for the repository's default
    branch (``HEAD``); both are None if not configured. ``ignored_settings`` has a line for each setting without effect.
    """

    repository: str | None = None
    branch: str | None = None
    ignored_settings: tuple[str, ...] = ()


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
            return SuiteSettings(url_or_path, _branch_of(configuration), ignored_settings(configuration))
    return SuiteSettings()


def ignored_settings(configuration: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a line for each thing that the configuration asks for and that isn't done."""
    lines = [f"{CONFIGURATION}: {name}: ignored: {why}" for name, why in _IGNORED.items() if _asks(configuration, name)]
    branches, matrix = configuration.get("branches"), configuration.get("matrix")
    if isinstance(branches, list) and len(branches) > 1:
        first = _branch_of(configuration) or "the repository's default branch"
        lines.append(f"{CONFIGURATION}: branches: the first one is used, {first} (others: --branch)")
    if isinstance(matrix, dict):
        ignored = [name for name in ("env", "env_nobuild") if matrix.get(name)]
        lines += [f"{CONFIGURATION}: matrix.{name}: ignored: use --env" for name in ignored]
        several = [
            name
            for name, versions in packages_of(configuration).items()
            if isinstance(versions, list) and len(versions) > 1
        ]
        lines += [
            f"{CONFIGURATION}: matrix: of several versions of {package}, the first is used" for package in several
        ]
    return tuple(lines)


def _asks(configuration: Mapping[str, Any], name: str) -> bool:
    return bool(configuration.get(name)) and configuration[name] not in _FOLLOWED.get(name, ())


def _branch_of(configuration: Mapping[str, Any]) -> str | None:
    """Return the first branch that is named; None for the default one, which asv calls ``HEAD``, too."""
    branches = configuration.get("branches")
    first = branches[0] if isinstance(branches, list) and branches else None
    return first if isinstance(first, str) and first != "HEAD" else None


def _place_of(suite: Suite) -> str:
    """Return the repository in ``PATH_OR_REPOSITORY@COMMIT[:SUBFOLDER]``."""
    return suite.pinned.partition(f"@{suite.commit}")[0]
