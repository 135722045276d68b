"""Native libraries: which sources they stand for, and where one that exists can be taken from."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.manifest import CommitRecipe, Manifest, UnusableBuild, read_manifest
from opduel.driver.builds.releases import Recipe

_CODE = (".py", ".pyc", ".pyi", ".pyx")


@dataclass(frozen=True)
class Library:
    """A native library and all that lies with it in the Python package.

    ``files``: path within the package -> where it lies; ``sources``: identity of the native sources; ``toolchain``
    and ``flags`` as in the manifest, empty for a library taken from a release.
    """

    id: str
    sources: str
    files: Mapping[str, Path]
    toolchain: Sequence[str] = field(default_factory=tuple)
    flags: Sequence[str] = field(default_factory=tuple)


def native_sources(entries: Mapping[str, str], not_native: Sequence[str]) -> str:
    """The identity of a commit's native sources: equal for equal content.

    ``entries`` are those of the commit's top level, name -> git's mode, type and hash; of those that match a pattern of
    ``not_native`` it doesn't depend.
    """
    kept = {name: entry for name, entry in entries.items() if not any(fnmatchcase(name, one) for one in not_native)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def release_library_id(recipe: Recipe) -> str:
    """The identity of the library in a release."""
    return f"release-{recipe.key}"


def source_library_id(
    sources: str, platform: str, script: bytes, toolchain: Sequence[str], flags: Sequence[str]
) -> str:
    """The identity of a library that is compiled: of all that decides its content."""
    content = [sources, platform, hashlib.sha256(script).hexdigest(), list(toolchain), list(flags)]
    return f"source-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]}"


def library_of_release(recipe: Recipe, package: Path, tracked: Collection[str], sources: str) -> Library:
    """The library of a release whose package lies at ``package``: all that is no code.

    ``tracked`` are the package's files in the release's commit. Code that is not among them was generated from the
    release's own, and would hide another commit's: it is left behind.
    """
    files = {
        str(path.relative_to(package)): path
        for path in _files_below(package)
        if str(path.relative_to(package)) not in tracked and path.suffix not in _CODE
    }
    return Library(release_library_id(recipe), sources, files)


def cached_library(cache: BuildCache, framework: str, library_id: str) -> Library | None:
    """The library from any commit's build in the cache that holds it."""
    for place, manifest in commit_builds(cache, framework):
        native = manifest.native
        if native and isinstance(manifest.recipe, CommitRecipe) and manifest.recipe.library == library_id:
            package = place / native.package
            files = {name: package / name for name in native.files}
            if all(path.is_file() for path in files.values()):
                return Library(library_id, native.sources, files, native.toolchain, native.flags)
    return None


def commit_builds(cache: BuildCache, framework: str) -> Iterator[tuple[Path, Manifest]]:
    """Every whole build of a commit in the cache, with its place."""
    for place in cache.places(framework):
        if not place.name.startswith("code-"):
            continue
        try:
            yield place, read_manifest(place)
        except UnusableBuild:
            continue


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
