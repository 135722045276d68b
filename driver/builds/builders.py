"""The choice of the builder of a framework's commits, and of its platform."""

from pathlib import Path

from opduel.driver.builds.builder import Builder, BuildSettings
from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.commit_builder import CommitBuilder
from opduel.driver.builds.framework_data import Platform, load_platform
from opduel.driver.builds.package_builder import DATA, PackageBuilder
from opduel.driver.builds.program_builder import ProgramBuilder
from opduel.driver.git.repository import Repository
from opduel.frameworks import Framework
from opduel.frameworks.roles import PackageBuilds, ProgramBuilds


def builder_of(
    framework: Framework, repository: Repository, cache: BuildCache, settings: BuildSettings, work: Path
) -> Builder:
    """Return the builder of the commits of a framework, of any package, or of a program, by the framework's builds.
    Raise UsageError if the settings lack what it needs."""
    builds = framework.builds
    kind: type[Builder] = PackageBuilder if isinstance(builds, PackageBuilds) else CommitBuilder
    kind = ProgramBuilder if isinstance(builds, ProgramBuilds) else kind
    return kind(framework, repository, cache, settings, work)


def platform_of(framework: Framework, name: str) -> Platform:
    """Return the platform of that name for the framework's commits. UsageError: there is none, or its data are bad."""
    builds = framework.builds
    folder = framework.frameworks_dir / DATA if isinstance(builds, PackageBuilds) else framework.specifications
    return load_platform(folder, name, needs_data=not isinstance(builds, ProgramBuilds))
