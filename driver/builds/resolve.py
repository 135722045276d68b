"""Turn the user's request into a build: tell a release from a path, and choose the strategy."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.environment_build import release_build
from opduel.driver.builds.framework_data import Releases, load_releases
from opduel.driver.builds.named_commit import commit_build, named_commit
from opduel.driver.builds.probe import ProbeError, probe
from opduel.driver.builds.program_builder import program_build
from opduel.driver.builds.recipes import Recipe, package_of
from opduel.driver.builds.requirements import lock, lock_with_suite, requirements_of, with_packages
from opduel.frameworks import Framework
from opduel.frameworks.roles import PackageBuilds, ProgramBuilds
from opduel.records import Build, UsageError

_RELEASE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([A-Za-z0-9.!+_-]+)\s*")
_PATH_LIKE = (os.sep, "~", ".")


def resolve_build(
    request: str,
    framework: Framework,
    cache: BuildCache,
    environment: Mapping[str, str] | None = None,
    sdists: bool = False,
) -> Build:
    """Return the build that ``request`` names, ready to run.

    ``request`` is a release (``package==version``), a folder with ``bin/python``, or a Python interpreter; for a
    framework of any package also several requirements, a file of them, or a commit: in the checkout that the current
    folder is in, or at an address; for one of programs, a program.  A release in the cache starts no process.
    ``environment``: variables that a build at a path needs; a release has all that it needs. ``sdists``: requirements
    may be met by source distributions, too. UsageError: the request can't be meant, or the path holds no such build;
    RunError: the release, or the commit, could not be made here.
    """
    if isinstance(framework.builds, ProgramBuilds):
        return program_build(request, framework, environment or {})
    if isinstance(framework.builds, PackageBuilds) and (commit := named_commit(request)):
        return commit_build(commit, framework, cache, sdists)
    if isinstance(framework.builds, PackageBuilds) and (requested := requirements_of(request)) is not None:
        place, builds = cache.folder(framework.name), framework.builds
        # As for commits of the package, so that a release and a commit have the same dependencies where both allow it.
        beside = with_packages(requested[1:], (*builds.also_required, *builds.suite_required))
        similar = ("beside", package_of(requested[0]), beside)
        recipe = lock_with_suite(
            builds.suite_required,
            lambda suite: lock(
                requested, place, sdists=sdists, besides=(*builds.also_required, *suite), similar=similar
            ),
        )
        return release_build(request, recipe, framework, cache)
    release = recipe_of(request, framework)
    if release:
        return release_build(request, release, framework, cache)
    return _external_build(request, framework, environment or {})


def recipe_of(request: str, framework: Framework) -> Recipe | None:
    """Return the recipe of the release that ``request`` names; None if it is a path, a program, requirements or a
    commit. Raise UsageError if none of these can be meant."""
    if isinstance(framework.builds, ProgramBuilds) or _names_package(request, framework):
        return None
    release = _RELEASE.fullmatch(request)
    if release:
        return load_releases(framework).recipe(release[1], release[2])
    if os.path.lexists(os.path.expanduser(request)) or request.startswith(_PATH_LIKE) or os.sep in request:
        return None
    raise UsageError(_misunderstood(request, load_releases(framework)))


def names_build(request: str, framework: Framework) -> bool:
    """Return whether a request that is neither a path nor a release names a build: requirements, a commit, or a
    command. Raise UsageError if it looks like requirements, and can't be read."""
    if isinstance(framework.builds, ProgramBuilds):
        return os.sep not in request and shutil.which(request) is not None
    return _names_package(request, framework)


def _names_package(request: str, framework: Framework) -> bool:
    """Tell whether it names a commit of any package, or requirements, where the framework measures those."""
    if not isinstance(framework.builds, PackageBuilds):
        return False
    return named_commit(request) is not None or requirements_of(request) is not None


def _misunderstood(request: str, releases: Releases) -> str:
    if not releases.recipes:
        return f"{request!r} is not a path, and {releases.none_known}"
    example = releases.default_treatment or next(iter(releases.recipes))
    names = ", ".join(releases.recipes)
    return f"{request!r} is neither a release nor a path: give one such as {example} (known: {names}) or a path"


def _external_build(requested: str, framework: Framework, environment: Mapping[str, str]) -> Build:
    """Return the build at a path: an environment (a folder with bin/python) or a Python interpreter.

    It is inspected each time, for it may have changed; ``environment`` holds variables that it needs. UsageError:
    nothing runs there, or it does not import the framework.
    """
    path = Path(os.path.abspath(os.path.expanduser(requested)))  # not resolved: a venv's python is a link
    strategy, interpreter = ("environment", path / "bin" / "python") if os.path.isdir(path) else ("interpreter", path)
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file or directory: give a release, an environment or an interpreter")
    if not (os.path.isfile(interpreter) and os.access(interpreter, os.X_OK)):
        raise UsageError(f"{interpreter}: is no interpreter that can be executed: give a Python environment, or one")
    try:
        facts = probe(interpreter, framework, environment=environment)
    except ProbeError as error:
        raise UsageError(
            f"{interpreter}: does not import {framework.builds.import_name or 'anything'}: {error}: "
            f"fix that environment, or give another path or a release"
        ) from None
    return Build(
        framework=framework.name,
        requested=requested,
        strategy=strategy,
        interpreter=str(interpreter),
        version=facts.version,
        python=facts.python,
        digest=facts.digest(files=facts.files),  # changes with any file's size or modification time
        packages=facts.packages,
        details=facts.details,
        environment=dict(environment),
    )
