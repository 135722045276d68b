"""Build commits of any program by the user's script: ``build.sh REPO_DIR DESTINATION``."""

import hashlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.compiler import Compiler
from opduel.driver.builds.environment_build import named_after
from opduel.driver.builds.manifest import FILE_NAME, Manifest, ProgramRecipe
from opduel.driver.builds.repository_data import load_platform
from opduel.driver.builds.source_builder import BuildSettings, SourceBuilder
from opduel.driver.git.repository import Repository
from opduel.frameworks import Framework
from opduel.records import BrokenBuildError, Build, Commit, UsageError
from opduel.records.build import PROGRAM_VARIABLE

BUILD = "{build}"  # in --program: the folder that the script was given as its destination

log = logging.getLogger(__name__)


class ProgramBuilder(SourceBuilder):
    """Builds commits of one repository, each by the script in the platform's folder.

    Raises:
        UsageError: there is no such script, or nothing says where the program is in a build.
    """

    def __init__(
        self, framework: Framework, repository: Repository, cache: BuildCache, settings: BuildSettings, work: Path
    ) -> None:
        if settings.program is None:
            raise UsageError(f"--program: is missing: it says where the program is in a build, such as {BUILD}/bench")
        if settings.strategy not in ("auto", "source"):
            raise UsageError(f"--build {settings.strategy}: programs are built from source: leave it out")
        super().__init__(framework, repository, cache, settings, work)
        self._program = settings.program
        self._platform = load_platform(framework.specifications, settings.platform, needs_data=False)

    def strategy(self, commits: Sequence[Commit]) -> str:
        """Return "source": each commit is built by the script."""
        return "source"

    def build(self, commit: Commit, strategy: str, processors: frozenset[int] | None = None) -> Build:
        """Return the commit's build, from the cache or made now; a compile runs on these processors (None: all).

        Raises:
            RunError: it can't be built, or has no such program; says why, and where the log is.
        """
        recipe = self._recipe(commit)
        build = self._cache.find_or_make(
            self._framework.name, recipe, lambda directory, _: self._make(commit, recipe, directory, processors)
        )
        program = Path(self._program.replace(BUILD, str(build.directory)))
        if not (program.is_file() and os.access(program, os.X_OK)):
            raise BrokenBuildError(
                f"{commit.short}: its build {build.directory} has no program {self._program}: correct --program, or "
                f"what {self._platform.script} leaves there"
            )
        environment = {PROGRAM_VARIABLE: str(program)}
        # The worker's Python is ours now, and not the one that was ours when it was built.
        return named_after(commit, replace(build, interpreter=sys.executable, environment=environment))

    def is_cached(self, commit: Commit, strategy: str) -> bool:
        """Tell whether the build exists."""
        return self._cache.find(self._framework.name, self._recipe(commit)) is not None

    def describe(self, commit: Commit, strategy: str, earlier: Sequence[Commit] = ()) -> str:
        """Describe how the commit would be built."""
        return "in the build cache" if self.is_cached(commit, strategy) else f"built by {self._platform.script}"

    def to_compile(self, commits: Sequence[Commit], strategy: str) -> tuple[list[Commit], float | None]:
        """Return the commits without a build; how long the script takes isn't known."""
        return [commit for commit in commits if not self.is_cached(commit, strategy)], None

    @cached_property
    def _compiler(self) -> Compiler:
        def checkout(commit: Commit, folder: Path) -> None:
            self._repository.checkout(commit, folder, (), self._platform.submodules)

        folder, flags = self._work / self._platform.name, self._settings.flags
        return self._stoppable(Compiler(folder, self._platform, flags, checkout, self._stopped))

    def _recipe(self, commit: Commit) -> ProgramRecipe:
        script = sha256(self._platform.script.read_bytes()).hexdigest()
        return ProgramRecipe(commit.id, script, tuple(self._settings.flags), self._compiler.toolchain)

    def _make(
        self, commit: Commit, recipe: ProgramRecipe, directory: Path, processors: frozenset[int] | None
    ) -> Manifest:
        """Run the script, copy its destination into the build's folder, and return the manifest."""
        began = time.monotonic()
        destination = self._work / "destinations" / commit.short
        try:
            with self._compiling(processors) as limits:
                log_path = self._log_path(commit)
                log.info("building %s (%s); log: %s", commit.short, commit.subject, log_path)
                self._compiler.compile(commit, destination, log_path, limits)
                if (destination / FILE_NAME).exists():
                    why = f"leaves a {FILE_NAME}, which is opduel's own there: give it another name or folder"
                    raise BrokenBuildError(f"{commit.short}: {self._platform.script} {why}")
                shutil.copytree(destination, directory, symlinks=True, dirs_exist_ok=True)
        finally:
            shutil.rmtree(destination, ignore_errors=True)
        seconds = time.monotonic() - began
        log.info("built %s in %.0f s", commit.short, seconds)
        return Manifest(
            framework=self._framework.name,
            requested=commit.short,
            strategy="source",
            interpreter=sys.executable,
            version=f"{Path(self._program).name} {commit.short}",
            python="",
            digest=_digest_of(directory),
            packages={},
            environment={},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            duration_s=round(seconds, 1),
            recipe=recipe,
            libraries={},
            uv="",
            log="",
        )


def _digest_of(folder: Path) -> str:
    """Return a digest of the names, modes and contents of all files."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            digest.update(f"{name} -> {os.readlink(path)}\n".encode())
        elif path.is_file():
            content = sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name} {path.stat().st_mode & 0o111} {content}\n".encode())
    return digest.hexdigest()
