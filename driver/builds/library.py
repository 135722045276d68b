"""Native libraries: the identity of their sources, and where to take an existing one from."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.manifest import CommitRecipe, UnusableBuild, read_manifest
from opduel.driver.builds.releases import Recipe

_CODE = (".py", ".pyc", ".pyi", ".pyx")


@dataclass(frozen=True)
class Library:
    """A native library with the files that belong to it in the Python package.

    ``files`` maps a path within the package to its file; ``sources`` is the identity of the native sources;
    ``toolchain`` and ``flags`` are those of the manifest, empty for a library taken from a release.
    """

    id: str
    sources: str
    files: Mapping[str, Path]
    toolchain: Sequence[str] = field(default_factory=tuple)
    flags: Sequence[str] = field(default_factory=tuple)


def native_sources(entries: Mapping[str, str], not_native: Sequence[str]) -> str:
    """Return the identity of a commit's native sources: equal for equal content.

    ``entries`` are those of the commit's top level, name -> git's mode, type and hash; of those that match a pattern of
    ``not_native`` it doesn't depend.
    """
    native = {
        name: entry for name, entry in entries.items() if not any(fnmatchcase(name, pattern) for pattern in not_native)
    }
    return hashlib.sha256(json.dumps(native, sort_keys=True).encode()).hexdigest()


def release_library_id(recipe: Recipe) -> str:
    """Return the identity of the library in a release."""
    return f"release-{recipe.key}"


def source_library_id(
    sources: str, platform: str, script: bytes, toolchain: Sequence[str], flags: Sequence[str]
) -> str:
    """Return the identity of a library that is compiled: of all that decides its content."""
    content = [sources, platform, hashlib.sha256(script).hexdigest(), list(toolchain), list(flags)]
    return f"source-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]}"


def library_of_release(recipe: Recipe, package: Path, tracked: Collection[str], sources: str) -> Library:
    """Return the library of a release whose package lies at ``package``: all that is no code.

    ``tracked`` are the package's files in the release's commit. Code that is not among them was generated from the
    release's own, and would hide another commit's: it is left behind.
    """
    files = {
        str(path.relative_to(package)): path
        for path in sorted(package.rglob("*"))
        if path.is_file()
        and not ("__pycache__" in path.parts or path.suffix in _CODE or str(path.relative_to(package)) in tracked)
    }
    return Library(release_library_id(recipe), sources, files)


def cached_library(cache: BuildCache, framework: str, library_id: str) -> Library | None:
    """Return the library from any commit's whole build in the cache that holds it."""
    for place in cache.places(framework):
        try:
            manifest = read_manifest(place) if place.name.startswith("code-") else None
        except UnusableBuild:
            continue
        native = manifest and manifest.native
        if manifest and native and isinstance(manifest.recipe, CommitRecipe) and manifest.recipe.library == library_id:
            package = place / native.package
            files = {name: package / name for name in native.files}
            if all(path.is_file() for path in files.values()):
                return Library(library_id, native.sources, files, native.toolchain, native.flags)
    return None
