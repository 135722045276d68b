"""Builds in an environment of their own: a release, or a commit's Python code over a native library."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from opduel.driver.builds import uv
from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.library import Library
from opduel.driver.builds.manifest import CommitRecipe, Manifest, NativePart
from opduel.driver.builds.probe import Facts, ProbeError, probe
from opduel.driver.builds.releases import Recipe
from opduel.driver.builds.requirements import LockedRecipe
from opduel.frameworks import Framework
from opduel.records import BrokenBuildError, Build, Commit, RunError

INTERPRETER = Path("bin") / "python"  # of an environment

Export = Callable[[Path], None]  # puts the Python package's files at a commit into a folder


def release_build(requested: str, recipe: Recipe, framework: Framework, cache: BuildCache) -> Build:
    """Return the published version in the recipe, from the cache or made now.

    Raises:
        RunError: no interpreter, no network, no wheel, no space, or what was made does not import.
    """

    def make(directory: Path, lock: int) -> Manifest:
        packages = {recipe.package: recipe.version, **recipe.pins}
        return _make(directory, lock, framework, recipe, packages, recipe.request, "release")

    return replace(cache.find_or_make(framework.name, recipe, make), requested=requested)


def locked_build(requested: str, recipe: LockedRecipe, framework: Framework, cache: BuildCache) -> Build:
    """Return the environment of the recipe's requirements, from the cache or made now.

    Raises:
        RunError: as ``release_build``.
    """

    def make(directory: Path, lock: int) -> Manifest:
        manifest = _make(directory, lock, framework, recipe, recipe.pins, recipe.request, "release")
        return manifest.model_copy(update={"version": recipe.version})

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
    """Return the commit's build, from the cache or made now; ``library`` is called only if it is made.

    Raises:
        RunError: no library, no interpreter, no network, no space, or what was made does not import.
    """

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

        return _make(directory, lock, framework, recipe, recipe.pins, commit.id, strategy, lay_code)

    return named_after(commit, cache.find_or_make(framework.name, recipe, make))


def named_after(commit: Commit, build: Build) -> Build:
    """Return the build under the name of this commit, since commits with equal content share it."""
    return replace(build, requested=commit.short, commit=commit)


def _make(
    directory: Path,
    lock: int,
    framework: Framework,
    recipe: Recipe | CommitRecipe | LockedRecipe,
    packages: Mapping[str, str],
    requested: str,
    strategy: str,
    lay_code: Callable[[], NativePart | None] = lambda: None,
) -> Manifest:
    started = time.monotonic()
    interpreter = directory / INTERPRETER
    log = uv.make_environment(directory, find_interpreter(recipe.python), (lock,))
    if isinstance(recipe, LockedRecipe):
        log += uv.install_locked(recipe.request, recipe.locked, directory, interpreter, (lock,), sdists=recipe.sdists)
    elif recipe.requirements:
        log += uv.install(recipe.request, recipe.requirements, interpreter, (lock,))
    native = lay_code()
    facts = checked_facts(interpreter, lock, recipe.request, packages, framework)
    package = directory / native.package if native else None
    if package and facts.location.resolve() != package.resolve():
        raise RunError(
            f"{recipe.request} was built, but {framework.builds.import_name} was imported from {facts.location}"
        )
    return Manifest(
        framework=framework.name,
        requested=requested,
        strategy=strategy,
        interpreter=str(INTERPRETER),
        version=facts.version,
        python=facts.python,
        digest=_digest(facts, package),
        packages=dict(facts.packages),
        details=dict(facts.details),
        environment={},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - started, 3),
        recipe=recipe,
        native=native,
        libraries=own_libraries(facts, directory),
        uv=uv.version(),
        log=log,
    )


def checked_facts(
    interpreter: Path, lock: int, request: str, packages: Mapping[str, str], framework: Framework
) -> Facts:
    """Import the build of ``request``, and check that it has the packages (name -> version); return its facts."""
    try:
        facts = probe(interpreter, framework, (lock,))
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


def own_libraries(facts: Facts, directory: Path) -> dict[str, int]:
    """Return the native libraries that lie in the environment, relative to it -> size in bytes."""
    root = directory.resolve()
    absolute = {facts.location.resolve() / name: size for name, size in facts.libraries.items()}
    return {str(path.relative_to(root)): size for path, size in absolute.items() if path.is_relative_to(root)}


def _digest(facts: Facts, package: Path | None) -> str:
    """Return the digest of a release's libraries, or a commit's files: equal for equal content, wherever it was
    made."""
    if package is None:
        own = [name for name in facts.libraries if not Path(name).is_absolute()]
        return facts.digest(libraries={name: sha256_of(facts.location / name) for name in own})
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return facts.digest(files={str(path.relative_to(package)): sha256_of(path) for path in files})


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
