"""A commit's build: its Python code over a native library, in an environment of its own."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from opduel.driver.builds import uv
from opduel.driver.builds.build_facts import INTERPRETER, checked_facts, own_libraries, sha256_of
from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.commit_recipe import CommitRecipe
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.library import Library
from opduel.driver.builds.manifest import Manifest, NativePart
from opduel.driver.builds.probe import Facts
from opduel.frameworks import Framework
from opduel.records import Build, Commit, RunError

Export = Callable[[Path], None]  # puts the Python package's files at a commit into a folder


def commit_build(
    commit: Commit,
    recipe: CommitRecipe,
    strategy: str,
    framework: Framework,
    cache: BuildCache,
    export: Export,
    library: Callable[[], Library],
) -> Build:
    """The commit's build, from the cache or made now; ``library`` is called only if it is made.

    Raises:
        RunError: no library, no interpreter, no network, no space, or what was made does not import.
    """

    def make(directory: Path, lock: int) -> Manifest:
        return _make(directory, lock, commit, recipe, strategy, framework, export, library())

    return named_after(commit, cache.find_or_make(framework.name, recipe, make))


def named_after(commit: Commit, build: Build) -> Build:
    """The build as that of this commit: others with the same content may share it."""
    return replace(build, requested=commit.short, commit=commit)


def _make(
    directory: Path,
    lock: int,
    commit: Commit,
    recipe: CommitRecipe,
    strategy: str,
    framework: Framework,
    export: Export,
    library: Library,
) -> Manifest:
    started = time.monotonic()
    interpreter = directory / INTERPRETER
    said = uv.make_environment(directory, find_interpreter(recipe.python), (lock,))
    if recipe.requirements:
        said += uv.install(recipe.request, recipe.requirements, interpreter, (lock,))
    package = _site_packages(directory) / framework.import_name
    package.mkdir()
    export(package)
    for name, source in library.files.items():
        _lay(source, package / name)
    facts = checked_facts(interpreter, lock, recipe.request, recipe.pins, framework)
    if facts.location.resolve() != package.resolve():
        raise RunError(f"{recipe.request} was made, but {framework.import_name} was imported from {facts.location}")
    return Manifest(
        framework=framework.name,
        requested=commit.id,
        strategy=strategy,
        interpreter=str(INTERPRETER),
        version=facts.version,
        python=facts.python,
        digest=_digest(facts, package),
        packages=dict(facts.packages),
        environment={},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - started, 3),
        recipe=recipe,
        native=NativePart(
            commit=commit.id,
            sources=library.sources,
            package=str(package.relative_to(directory)),
            files=sorted(library.files),
            toolchain=list(library.toolchain),
            flags=list(library.flags),
        ),
        libraries=own_libraries(facts, directory),
        uv=uv.version(),
        log=said,
    )


def _site_packages(directory: Path) -> Path:
    """The environment's own.

    Raises:
        RunError: it has none, or several.
    """
    found = list(directory.glob("lib/python*/site-packages"))
    if len(found) != 1:
        raise RunError(f"{directory}: has {len(found)} folders lib/python*/site-packages instead of one")
    return found[0]


def _lay(source: Path, destination: Path) -> None:
    """A hard link, or a copy where that can't be: a library is large, and never written to."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copy2(source, destination)


def _digest(facts: Facts, package: Path) -> str:
    """Equal for builds whose Python, packages, code and libraries are byte-identical, wherever they were made."""
    content: dict[str, str | Mapping[str, str]] = {
        "version": facts.version,
        "python": facts.python,
        "packages": dict(facts.packages),
        "files": {
            str(path.relative_to(package)): sha256_of(path)
            for path in sorted(package.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        },
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
