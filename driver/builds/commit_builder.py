"""Build commits of a framework: choose the strategy, and make what is missing."""

import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from opduel.driver.builds.builder import Builder
from opduel.driver.builds.compiler import Compiler
from opduel.driver.builds.environment_build import Library, commit_build, named_after, release_build
from opduel.driver.builds.framework_data import load_platform, load_releases, load_repository_data
from opduel.driver.builds.recipes import CommitRecipe, Recipe
from opduel.records import Build, Commit, RunError, UsageError
from opduel.support.digests import data_digest, file_digest

_CODE = (".py", ".pyc", ".pyi", ".pyx")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Release:
    """A release whose commit the repository has."""

    recipe: Recipe
    commit: Commit
    sources: str


class CommitBuilder(Builder):
    """Builds commits of a framework's repository.

    All commits of one comparison are built by one strategy, so that the sides differ by their commits alone.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._data = load_repository_data(self._framework)
        self._releases = load_releases(self._framework)

    def strategy(self, commits: Sequence[Commit]) -> str:
        """Return the strategy by which all of these can be built: "release", "overlay" or "source".

        "auto" takes the first that serves: wheels for releases, then wheels with the commits' own code, then compiling.
        UsageError: the one that was asked for does not serve; names the commit.
        """
        requested = self._settings.strategy
        if requested == "source":
            return requested
        first_not = {
            "release": next((candidate for candidate in commits if self._release_of(candidate) is None), None),
            "overlay": next((candidate for candidate in commits if self._donor(candidate) is None), None),
        }
        if requested == "auto":
            return next((name for name, commit in first_not.items() if commit is None), "source")
        unsuitable = first_not[requested]
        if unsuitable is None:
            return requested
        raise UsageError(f"--build {requested}: {unsuitable.short} ({unsuitable.subject}) {self._why_not(requested)}")

    def build(self, commit: Commit, strategy: str, processors: frozenset[int] | None = None) -> Build:
        if strategy == "release":
            release = self._release_of(commit)
            assert release is not None, "strategy() said so"
            build = release_build(release.recipe.request, release.recipe, self._framework, self._cache)
            return named_after(commit, build)
        with ExitStack() as leftovers:
            recipe, library = self._plan(commit, strategy, processors, leftovers)
            return commit_build(
                commit,
                recipe,
                strategy,
                self._framework,
                self._cache,
                lambda folder: self._repository.export(commit, self._data.package, folder),
                library,
            )

    def compile_key(self, commit: Commit, strategy: str) -> str | None:
        if strategy != "source":
            return None
        library_id = self._source_library_id(commit)
        return None if self._cached_library(library_id) else library_id

    @property
    def compile_minutes(self) -> float | None:
        minutes = self._compiler.platform.processor_minutes
        return None if minutes is None else minutes / self._settings.limits.jobs

    def _plan(
        self, commit: Commit, strategy: str, processors: frozenset[int] | None, leftovers: ExitStack
    ) -> tuple[CommitRecipe, Callable[[], Library]]:
        """Return the recipe of the build, and what makes its library, which ``leftovers`` remove if it is compiled."""
        code = self._repository.tree(commit, self._data.package)
        if strategy == "overlay":
            donor = self._donor(commit)
            assert donor is not None, "strategy() said so"
            recipe = CommitRecipe(code, _release_library_id(donor.recipe), donor.recipe.python, donor.recipe.pins)
            return recipe, lambda: self._library_of(donor)
        environment = self._releases.environments[self._data.environment]
        library_id = self._source_library_id(commit)
        recipe = CommitRecipe(code, library_id, environment.python, environment.pins)
        return recipe, lambda: self._source_library(commit, library_id, processors, leftovers)

    def _source_library(
        self, commit: Commit, library_id: str, processors: frozenset[int] | None, leftovers: ExitStack
    ) -> Library:
        """Return the library from the cache, or compile it."""
        if library := self._cached_library(library_id):
            return library
        compiler, destination = self._compiler, self._work / "libraries" / commit.short
        leftovers.callback(shutil.rmtree, destination, ignore_errors=True)
        seconds = self._compile(compiler, commit, destination, processors)
        log.info("built %s in %.0f s", commit.short, seconds)
        files = {str(path.relative_to(destination)): path for path in destination.rglob("*") if path.is_file()}
        return Library(library_id, self._sources_of(commit), files, compiler.toolchain, compiler.flags)

    @cached_property
    def _compiler(self) -> Compiler:
        platform = load_platform(self._framework.specifications, self._settings.platform)
        data = self._data

        def checkout(commit: Commit, folder: Path) -> None:
            self._repository.checkout(commit, folder, data.checkout, platform.submodules)

        return Compiler(self._work / platform.name, platform, self._settings.flags, checkout, self._stopped)

    def _source_library_id(self, commit: Commit) -> str:
        """Return the identity of the library that is compiled of the commit's native sources."""
        compiler = self._compiler
        script = file_digest(compiler.platform.script)
        made_with = [compiler.platform.name, script, list(compiler.toolchain), list(compiler.flags)]
        return f"source-{data_digest([self._sources_of(commit), *made_with])[:20]}"

    def _cached_library(self, library_id: str) -> Library | None:
        """Return the library from any commit's whole build in the cache that holds it."""
        for place, manifest in self._cache.builds_of_commits(self._framework.name):
            native, recipe = manifest.native, manifest.recipe
            if native and isinstance(recipe, CommitRecipe) and recipe.library == library_id:
                package = place / native.package
                files = {name: package / name for name in native.files}
                if all(path.is_file() for path in files.values()):
                    return Library(library_id, native.sources, files, native.toolchain, native.flags)
        return None

    def _library_of(self, release: _Release) -> Library:
        """Return the library of a release: all of its package that is no code. Code that the release's commit does not
        have was generated from the release's own, and would hide another commit's: it is left behind."""
        build = release_build(release.recipe.request, release.recipe, self._framework, self._cache)
        name = self._framework.builds.import_name
        packages = list(Path(str(build.directory)).glob(f"lib/python*/site-packages/{name}"))
        if len(packages) != 1:
            raise RunError(f"{release.recipe.request} holds {len(packages)} packages {name}: not one")
        tracked = frozenset(self._repository.files(release.commit, self._data.package))
        paths = ((str(path.relative_to(packages[0])), path) for path in sorted(packages[0].rglob("*")))
        files = {
            name: path
            for name, path in paths
            if path.is_file() and not ("__pycache__" in path.parts or path.suffix in _CODE or name in tracked)
        }
        return Library(_release_library_id(release.recipe), release.sources, files)

    def _release_of(self, commit: Commit) -> _Release | None:
        """Return the release that was made from this very commit."""
        return next((release for release in self._known_releases if release.commit.id == commit.id), None)

    def _donor(self, commit: Commit) -> _Release | None:
        """Return a release with the commit's native sources."""
        sources = self._sources_of(commit)
        return next((release for release in self._known_releases if release.sources == sources), None)

    @cached_property
    def _known_releases(self) -> list[_Release]:
        releases = []
        for request, commit_id in self._data.releases.items():
            try:
                commit = self._repository.commit(commit_id)
            except UsageError:
                continue  # a clone that doesn't reach back so far
            releases.append(_Release(self._releases.recipes[request], commit, self._sources_of(commit)))
        return releases

    def _sources_of(self, commit: Commit) -> str:
        """Return the identity of the commit's native sources: equal for equal content."""
        entries = self._repository.entries(commit).items()
        not_native = self._data.not_native
        return data_digest(
            {name: entry for name, entry in entries if not any(fnmatchcase(name, p) for p in not_native)}
        )

    def _why_not(self, strategy: str) -> str:
        releases = ", ".join(release.recipe.request for release in self._known_releases) or "none"
        if strategy == "release":
            return f"is not the commit of a release (in this repository: {releases}): use --build auto"
        return f"has native sources of its own, unlike every release ({releases}): use --build source"


def _release_library_id(recipe: Recipe) -> str:
    return f"release-{recipe.key}"
