"""Builds of packages that are installed elsewhere, laid together file by file; one of them may be another release."""

import json
import os
from dataclasses import replace
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.environment_build import checked_facts, lay, manifest_of, site_packages
from opduel.driver.builds.manifest import Manifest
from opduel.driver.builds.process import run
from opduel.driver.builds.recipes import MixtureRecipe, package_of
from opduel.driver.builds.uv import FreshEnvironment
from opduel.driver.packages import Environment, Package, read_packages, unmet
from opduel.frameworks import Framework
from opduel.records import BrokenBuildError, Build, RunError

_TIMEOUT_S = 60.0
_ASK = (
    "import json, os, sys; names = 'site-packages', 'dist-packages';"
    " print(json.dumps([os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable),"
    " [folder for folder in sys.path if os.path.basename(folder) in names]]))"
)


def read_environment(build: Build) -> Environment:
    """Return what is installed in a build's environment. OpduelError: it doesn't say that."""
    outcome = run([build.interpreter, "-c", _ASK], timeout=_TIMEOUT_S, directory=Path(os.sep))
    try:
        interpreter, folders = json.loads(outcome.stdout)
    except ValueError:
        raise RunError(f"{build.requested}: does not say where its packages are: {outcome.output_tail}") from None
    packages = read_packages(map(Path, folders), build.python)
    return Environment(build.requested, Path(interpreter), build.python, packages)


def mixture_build(environment: Environment, release: str, framework: Framework, cache: BuildCache) -> Build:
    """Return the build with the packages of an environment, from the cache or made now; with ``release``, such as
    numpy==2.0.0, in place of that package, unless it is empty. BrokenBuildError: the release doesn't go with the other
    packages, or what was made doesn't import; RunError: no network, no space."""
    replaced = package_of(release) if release else ""
    packages = [package for name, package in environment.packages.items() if name != replaced]
    parts = tuple(map(_part, packages))
    recipe = MixtureRecipe(str(environment.interpreter), environment.python, parts, release)
    versions = {package.name: package.version for package in packages}

    def make(directory: Path, lock: int) -> Manifest:
        fresh = FreshEnvironment(directory, environment.interpreter, lock)
        for package in packages:
            _lay_package(package, site_packages(directory), directory)
        if release:
            fresh.install(release, [release])
            _refuse_conflicts(environment, directory, release)
        facts = checked_facts(fresh, environment.request, versions, framework)
        return manifest_of(
            fresh,
            facts,
            framework=framework.name,
            requested=environment.request,
            strategy="environment",
            version=facts.version,
            digest=facts.digest(parts={"key": recipe.key}),
            recipe=recipe,
        )

    requested = release or environment.request
    return replace(cache.find_or_make(framework.name, recipe, make), requested=requested)


def _part(package: Package) -> tuple[str, str, str, str, int]:
    return package.name, package.version, package.content, str(package.folder), package.changed_ns


def _lay_package(package: Package, site: Path, directory: Path) -> None:
    """Lay a package's files into an environment, without bytecode and without commands, which name an interpreter."""
    for name in package.files:
        source, target = package.folder / name, Path(os.path.normpath(site / name))
        is_left_out = "__pycache__" in target.parts or target.parent == directory / "bin"
        if target.is_relative_to(directory) and not is_left_out and source.is_file():
            lay(source, target)


def _refuse_conflicts(environment: Environment, directory: Path, release: str) -> None:
    """Raise BrokenBuildError if a release doesn't go with the packages of the environment."""
    names = {package_of(release)}
    before = {(user, str(requirement)) for user, requirement in unmet(environment.packages, names)}
    for user, requirement in unmet(read_packages([site_packages(directory)], environment.python), names):
        if (user, str(requirement)) not in before:
            raise BrokenBuildError(f"{release} does not go with the other packages: {user} needs {requirement}")
