"""The interface of builders of commits, and the choice of the builder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.commit_builder import CommitBuilder
from opduel.driver.builds.package_builder import DATA, PackageBuilder
from opduel.driver.builds.program_builder import ProgramBuilder
from opduel.driver.builds.repository_data import Platform, load_platform
from opduel.driver.builds.source_builder import BuildSettings
from opduel.driver.git.repository import Repository
from opduel.frameworks import Framework
from opduel.frameworks.roles import PackageBuilds, ProgramBuilds
from opduel.records import Build, Commit


class Builder(Protocol):
    """Builds commits of one repository."""

    def strategy(self, commits: Sequence[Commit]) -> str:
        """Return the strategy by which all of these can be built. Raise UsageError if the requested one can't build
        them."""

    def build(self, commit: Commit, strategy: str, processors: frozenset[int] | None = None) -> Build:
        """Return the commit's build, from the cache or made now; a compile runs on these processors (None: all).
        Raise RunError if it can't be built."""

    def stop(self) -> None:
        """End a compile that another thread is at, and let none begin until ``resume``."""

    def resume(self) -> None:
        """Let compiles begin again."""

    def is_cached(self, commit: Commit, strategy: str) -> bool:
        """Tell whether the build is there, or needs no compiler."""

    def describe(self, commit: Commit, strategy: str, earlier: Sequence[Commit] = ()) -> str:
        """Describe how the commit would be built, when the commits ``earlier`` are built before it."""

    def to_compile(self, commits: Sequence[Commit], strategy: str) -> tuple[list[Commit], float | None]:
        """Return the commits that need a compile, and about how many minutes the first of them takes here without a
        cache (None: not known)."""


def builder_of(
    framework: Framework, repository: Repository, cache: BuildCache, settings: BuildSettings, work: Path
) -> Builder:
    """Return the builder of the commits of a framework, of any package, or of a program, by the framework's builds.

    Raises:
        UsageError: the settings lack what it needs.
    """
    if isinstance(framework.builds, ProgramBuilds):
        return ProgramBuilder(framework, repository, cache, settings, work)
    kind = PackageBuilder if isinstance(framework.builds, PackageBuilds) else CommitBuilder
    return kind(framework, repository, cache, settings, work)


def platform_of(framework: Framework, name: str) -> Platform:
    """Return the platform of that name for the framework's commits. UsageError: there is none, or its data are bad."""
    builds = framework.builds
    folder = framework.frameworks_dir / DATA if isinstance(builds, PackageBuilds) else framework.specifications
    return load_platform(folder, name, needs_data=not isinstance(builds, ProgramBuilds))
