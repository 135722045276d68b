"""Builds in an environment of their own: a release, or a commit's Python code over a native library."""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.manifest import Manifest, NativePart
from opduel.driver.builds.probe import Facts, ProbeError, probe
from opduel.driver.builds.recipes import CommitRecipe, LockedRecipe, Recipe
from opduel.driver.builds.uv import INTERPRETER, FreshEnvironment
from opduel.frameworks import Framework
from opduel.records import BrokenBuildError, Build, Commit, RunError
from opduel.support.digests import file_digest

Export = Callable[[Path], None]  # puts the Python package's files at a commit into a folder


@dataclass(frozen=True)
class Library:
    """A native library with the files that belong to it in the Python package.

    ``files`` maps a path within the package to its file; ``sources`` is the identity of the native sources;
    ``toolchain`` and ``flags`` are those of the manifest, empty for a library taken from a release.
    """

    id: str
    sources: str
    files: Mapping[str, Path]
    toolchain: Sequence[str] = ()
    flags: Sequence[str] = ()


def release_build(requested: str, recipe: Recipe | LockedRecipe, framework: Framework, cache: BuildCache) -> Build:
    """Return the published version, or the environment of requirements, from the cache or made now. RunError: no
    interpreter, no network, no wheel, no space, or what was made does not import."""

    def make(directory: Path, lock: int) -> Manifest:
        manifest = _make(directory, lock, framework, recipe, recipe.request, "release")
        is_locked = isinstance(recipe, LockedRecipe)  # it may have several packages
        return manifest.model_copy(update={"version": recipe.version}) if is_locked else manifest

    return replace(cache.find_or_make(framework.name, recipe, make), requested=requested)


def commit_build(
    commit: Commit,
    recipe: CommitRecipe,
    strategy: str,
    framework: Framework,
    cache: BuildCache,
    export: Export,
    library: Callable[[], Library],
) -> Build:
    """Return the commit's build, from the cache or made now; ``library`` is called only if it is made. RunError: no
    library, no interpreter, no network, no space, or what was made does not import."""

    def make(directory: Path, lock: int) -> Manifest:
        native = library()

        def lay_code() -> NativePart:
            package = site_packages(directory) / str(framework.builds.import_name)
            package.mkdir()
            export(package)
            for name, source in native.files.items():
                lay(source, package / name)
            return NativePart(
                commit=commit.id,
                sources=native.sources,
                package=str(package.relative_to(directory)),
                files=sorted(native.files),
                toolchain=list(native.toolchain),
                flags=list(native.flags),
            )

        return _make(directory, lock, framework, recipe, commit.id, strategy, lay_code)

    return named_after(commit, cache.find_or_make(framework.name, recipe, make))


def named_after(commit: Commit, build: Build) -> Build:
    """Return the build under the name of this commit, since commits with equal content share it."""
    return replace(build, requested=commit.short, commit=commit)


def _make(
    directory: Path,
    lock: int,
    framework: Framework,
    recipe: Recipe | CommitRecipe | LockedRecipe,
    requested: str,
    strategy: str,
    lay_code: Callable[[], NativePart | None] = lambda: None,
) -> Manifest:
    environment = FreshEnvironment(directory, find_interpreter(recipe.python), lock)
    packages = {recipe.package: recipe.version, **recipe.pins} if isinstance(recipe, Recipe) else recipe.pins
    if isinstance(recipe, LockedRecipe):
        environment.install_locked(recipe.request, recipe.locked, recipe.sdists)
    elif packages:
        environment.install(recipe.request, [f"{name}=={version}" for name, version in packages.items()])
    native = lay_code()
    facts = checked_facts(environment, recipe.request, packages, framework)
    package = directory / native.package if native else None
    if package and facts.location.resolve() != package.resolve():
        raise RunError(
            f"{recipe.request} was built, but {framework.builds.import_name} was imported from {facts.location}"
        )
    return manifest_of(
        environment,
        facts,
        framework=framework.name,
        requested=requested,
        strategy=strategy,
        version=facts.version,
        digest=_digest(facts, package),
        recipe=recipe,
        native=native,
    )


def manifest_of(environment: FreshEnvironment, facts: Facts, **described: Any) -> Manifest:
    """Return the manifest of an environment: what its interpreter says, and what the caller has ``described``."""
    values = {"details": dict(facts.details), **described}
    return Manifest(
        interpreter=str(INTERPRETER),
        python=facts.python,
        packages=dict(facts.packages),
        libraries=_own_libraries(facts, environment.directory),
        duration_s=round(time.monotonic() - environment.began, 3),
        **values,
    )


def checked_facts(
    environment: FreshEnvironment, request: str, packages: Mapping[str, str], framework: Framework
) -> Facts:
    """Compile the modules of the build of ``request``, import it, and check that it has the packages (name -> version);
    return its facts."""
    environment.compile_modules()
    try:
        facts = probe(environment.interpreter, framework, (environment.lock,))
    except ProbeError as error:
        raise BrokenBuildError(
            f"{request} was installed, but can't be imported: {error}: fix what it names, or ask for another build"
        ) from None
    differing = [
        f"{name} {facts.packages.get(name)} instead of {version}"
        for name, version in packages.items()
        if facts.packages.get(name) != version
    ]
    if differing:
        raise RunError(f"{request} was installed with {', '.join(differing)}: check uv's settings")
    return facts


def _own_libraries(facts: Facts, directory: Path) -> dict[str, int]:
    """Return the native libraries that lie in the environment, relative to it -> size in bytes."""
    root = directory.resolve()
    absolute = {facts.location.resolve() / name: size for name, size in facts.libraries.items()}
    return {str(path.relative_to(root)): size for path, size in absolute.items() if path.is_relative_to(root)}


def _digest(facts: Facts, package: Path | None) -> str:
    """Return the digest of a release's libraries, or of a commit's files in its ``package``."""
    if package is None:
        own = [name for name in facts.libraries if not Path(name).is_absolute()]
        return facts.digest(libraries={name: file_digest(facts.location / name) for name in own})
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return facts.digest(files={str(path.relative_to(package)): file_digest(path) for path in files})


def site_packages(directory: Path) -> Path:
    """Return the environment's site-packages. Raise RunError if it has none, or several."""
    folders = list(directory.glob("lib/python*/site-packages"))
    if len(folders) != 1:
        raise RunError(f"{directory}: has {len(folders)} folders lib/python*/site-packages instead of one")
    return folders[0]


def lay(source: Path, destination: Path) -> None:
    """Hard-link a file to its destination, or copy it if that fails; libraries are large, and never written to."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copy2(source, destination)
