"""Builders of commits: what each offers, and what all have in common: settings, a work folder, compiles that can be
stopped."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.compiler import Compiler, Limits, require_space
from opduel.driver.code_difference import CodeDifference
from opduel.driver.git.repository import Repository
from opduel.driver.lock import explained_disk_errors
from opduel.frameworks import Framework
from opduel.records import Build, Commit, OpduelError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildSettings:
    """How commits are built; ``flags`` are further arguments of CMake, or settings of a package's build backend."""

    limits: Limits
    strategy: str = "auto"
    platform: str = "host"
    flags: tuple[str, ...] = ()
    beside: Sequence[str] = ()  # requirements that builds of a package get besides its own
    sdists: bool = False  # whether these may be built from source distributions
    program: str | None = None  # where the program is in a build, with {build} for its folder
    subfolder: str = ""  # of the repository: that of the package
    variables: Mapping[str, str] = field(default_factory=dict)  # of a package's build script


@dataclass(eq=False)
class Builder(ABC):
    """Builds commits of one repository. ``work`` keeps what compiles leave, and their logs."""

    _framework: Framework
    _repository: Repository
    _cache: BuildCache
    _settings: BuildSettings
    _work: Path

    def __post_init__(self) -> None:
        self._stopped = threading.Event()

    @abstractmethod
    def strategy(self, commits: Sequence[Commit]) -> str:
        """Return the strategy by which all of these can be built. UsageError: the one that was asked for can't build
        them; names the commit."""

    @abstractmethod
    def build(self, commit: Commit, strategy: str, processors: frozenset[int] | None = None) -> Build:
        """Return the commit's build, from the cache or made now; a compile runs on these processors (None: all). Raise
        RunError if it can't be built; it says why, and for a compile where the log is."""

    @abstractmethod
    def compile_key(self, commit: Commit, strategy: str) -> str | None:
        """Return what identifies the compile that the commit's build needs, equal for commits that share one; None if
        it needs none. Raise OpduelError if the commit can't be built."""

    def is_cached(self, commit: Commit, strategy: str) -> bool:
        """Tell whether the build is there, or needs no compiler; False, too, for a commit that can't be built."""
        with suppress(OpduelError):  # said when it is built
            return self.compile_key(commit, strategy) is None
        return False

    def to_compile(self, commits: Sequence[Commit], strategy: str) -> list[Commit]:
        """Return the commits that need a compile, one of those that share it, as far as can be foreseen."""
        commit_by_key: dict[str, Commit] = {}
        for commit in commits:
            with suppress(OpduelError):
                if (key := self.compile_key(commit, strategy)) is not None:
                    commit_by_key.setdefault(key, commit)
        return list(commit_by_key.values())

    @property
    def compile_minutes(self) -> float | None:
        """About how many minutes a compile takes here without a cache; None if that isn't known."""
        return None

    def difference(self, build: Build, commit: Commit) -> CodeDifference | None:
        """Return how the build of another commit would differ from this one, without making it; None if that isn't
        known."""
        return None

    def stop(self) -> None:
        """End a compile that another thread is at, and let none begin until ``resume``."""
        self._stopped.set()

    def resume(self) -> None:
        """Let compiles begin again."""
        self._stopped.clear()

    def _compile(
        self, compiler: Compiler, commit: Commit, destination: Path, processors: frozenset[int] | None, by: str = ""
    ) -> float:
        """Compile the commit into ``destination`` on these processors (None: all); return the seconds that it took.
        Raise RunError if it can't be compiled."""
        limits = self._settings.limits
        if processors is not None:
            limits = replace(limits, jobs=max(1, min(limits.jobs, len(processors))), processors=processors)
        with explained_disk_errors(self._work):
            self._work.mkdir(parents=True, exist_ok=True)
            require_space(self._work, limits.free_bytes)
            log_path = self._log_path(commit)
            log.info('building %s "%s"%s; log: %s', commit.short, commit.subject, by and f" by {by}", log_path)
            began = time.monotonic()
            compiler.compile(commit, destination, log_path, limits)
            return time.monotonic() - began

    def _log_path(self, commit: Commit) -> Path:
        path = self._work / "logs" / f"{commit.short}-{time.strftime('%Y%m%dT%H%M%S')}.log"
        names = (path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, 1000)))
        return next((name for name in names if not name.exists()), path)
