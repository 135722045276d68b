"""The common part of builders of commits: settings, the folder in which they compile, and stopping a compile."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.compiler import Compiler, Limits, require_space
from opduel.driver.git.repository import Repository
from opduel.driver.lock import ANOTHER_FOLDER
from opduel.frameworks import Framework
from opduel.records import Commit, disk_error

STRATEGIES = ("auto", "release", "overlay", "source")


@dataclass(frozen=True)
class BuildSettings:
    """How commits are built; ``flags`` are further arguments of CMake, or settings of a package's build backend."""

    limits: Limits
    strategy: str = "auto"
    platform: str = "host"
    flags: Sequence[str] = field(default_factory=tuple)
    beside: Sequence[str] = ()  # requirements that builds of a package get besides its own
    sdists: bool = False  # whether these may be built from source distributions
    program: str | None = None  # where the program is in a build, with {build} for its folder


class SourceBuilder:
    """Compiles commits of one repository. ``work`` keeps what compiles leave, and their logs."""

    def __init__(
        self, framework: Framework, repository: Repository, cache: BuildCache, settings: BuildSettings, work: Path
    ) -> None:
        self._framework = framework
        self._repository = repository
        self._cache = cache
        self._settings = settings
        self._work = work
        self._stopped = threading.Event()
        self._compilers: list[Compiler] = []

    def stop(self) -> None:
        """End a compile that another thread is at, and let none begin until ``resume``."""
        self._stopped.set()
        for compiler in list(self._compilers):
            compiler.stop()

    def resume(self) -> None:
        """Let compiles begin again."""
        self._stopped.clear()

    def _stoppable(self, compiler: Compiler) -> Compiler:
        """Return the compiler, which ``stop`` stops from now on."""
        self._compilers.append(compiler)
        return compiler

    @contextmanager
    def _compiling(self, processors: frozenset[int] | None) -> Iterator[Limits]:
        """Yield the limits of a compile on these processors (None: all), in a work folder with enough space.

        Raises:
            RunError: there is not enough space, or an OSError was raised in the context.
        """
        limits = self._settings.limits
        if processors is not None:
            limits = replace(limits, jobs=max(1, min(limits.jobs, len(processors))), processors=processors)
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            require_space(self._work, limits.free_bytes)
            yield limits
        except OSError as error:
            raise disk_error(self._work, error, ANOTHER_FOLDER) from error

    def _log_path(self, commit: Commit) -> Path:
        """Return a new path for the log of the commit's compile."""
        path = self._work / "logs" / f"{commit.short}-{time.strftime('%Y%m%dT%H%M%S')}.log"
        names = (path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, 1000)))
        return next((name for name in names if not name.exists()), path)
