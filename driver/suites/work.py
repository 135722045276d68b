"""The folder of a run in which both sides' benchmarks run: each has a copy of the suite, and its ``setup_cache``."""

import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opduel.driver.builds.process import run
from opduel.driver.lock import explained_disk_errors
from opduel.driver.suites.configuration import CONFIGURATION, DEFAULT_TIMEOUT_S
from opduel.driver.suites.discovery import SuiteCase, suite_environment
from opduel.driver.suites.source import LEFT_OUT, OTHER_TEMPORARY_FOLDER, Suite, copy_suite
from opduel.frameworks import Framework
from opduel.records import Build
from opduel.records.measurement import SIDES, Side

log = logging.getLogger(__name__)

CACHE_BYTES = 512 * 2**20  # the most that one setup_cache may write into its folder
RESERVE_BYTES = 2**30  # free on the disk after that
_COPY, _WORK = "OPDUEL_SUITE", "OPDUEL_SUITE_WORK"  # a side's variables
_PRELOADED = "OPDUEL_SUITE_PRELOADED"  # of both
FAILED_FILE = "failed.txt"  # in place of what setup_cache made: why there is nothing (adaptor/benchmarks.py)


@dataclass(frozen=True)
class CacheOrder:
    """A ``setup_cache`` to run on one side, under the name of a benchmark, in the folder ``key``, for at most
    ``limit_s`` seconds."""

    key: str
    side: Side
    benchmark: str
    limit_s: float


def cache_orders(
    cases: Sequence[SuiteCase], timeout_s: float | None, usual_s: float = DEFAULT_TIMEOUT_S
) -> list[CacheOrder]:
    """Return each ``setup_cache`` that the chosen cases need, once for each side with such a case. ``timeout_s``
    overrides the suite's own limits; ``usual_s`` is that of benchmarks that state none."""
    limits: dict[str, float] = {}  # by folder: the most of its benchmarks, equal on both sides
    benchmark_by_cache: dict[tuple[str, Side], str] = {}  # the first that the side has: it is run there by this name
    for case in cases:
        benchmark = case.benchmark
        if (key := benchmark.setup_cache) is not None:
            own_s = benchmark.setup_cache_timeout or benchmark.timeout or usual_s
            limits[key] = max(own_s, limits.get(key, 0.0))
            for side in case.sides:
                benchmark_by_cache.setdefault((key, side), benchmark.name)
    return [
        CacheOrder(key, side, benchmark_by_cache[key, side], timeout_s or limit_s)
        for key, limit_s in limits.items()
        for side in SIDES
        if (key, side) in benchmark_by_cache
    ]


@dataclass(frozen=True)
class SuiteWork:
    """A folder ``root`` with a folder for each side, of equally long names: ``c`` and ``t``.

    ``folder`` is the same one if it is to be removed together with this object, or at the end of the process.
    """

    suite: Suite
    root: Path
    copies: Mapping[Side, Path]
    folder: "tempfile.TemporaryDirectory[str] | None" = None

    @classmethod
    def of(cls, suite: Suite, folder: "tempfile.TemporaryDirectory[str]") -> "SuiteWork":
        """Return a copy of the suite for either side, so that neither sees what the other one's benchmarks write."""
        return replace(cls.within(suite, Path(folder.name)), folder=folder)

    @classmethod
    def within(cls, suite: Suite, root: Path) -> "SuiteWork":
        """Return the same in a folder that stays. Copies that exist already are used unchanged."""
        copies = {side: root / side[0] / suite.folder.name for side in SIDES}
        for copy in copies.values():
            if not copy.exists():
                copy_suite(suite, _make_folder(copy.parent))
        return cls(suite, root, copies)

    def place(self, side: Side) -> Path:
        """Return the folder in which a side's benchmarks work."""
        return _make_folder(self.root / side[0] / "work")

    def on_side(self, side: Side, build: Build) -> Build:
        """Return the build, with the variables that say where its copy is."""
        variables = {_COPY: str(self.copies[side]), _WORK: str(self.place(side))}
        return replace(build, environment={**build.environment, **variables})

    def link_neighbours(self, side: Side, build: Build) -> None:
        """Link what lies beside the suite in its project, which benchmarks may import or read, beside the side's copy.

        What the build has itself is left out, or the checkout's files would be measured in place of the build's. Of a
        package with tests that the build lacks, what isn't copied is linked. RunError: a link can't be made.
        """
        place, copy = self.suite.folder, self.copies[side]
        if not self.suite.parts:
            place, copy = place.parent, copy.parent
            if not any((folder / CONFIGURATION).is_file() for folder in (place, place.parent)):
                return
        neighbours = [path for path in place.iterdir() if not path.name.startswith(".") and path.name not in LEFT_OUT]
        modules = {path: _modules_in(path) for path in neighbours}
        package_names = {folder: _outermost_package(folder, self.suite.packages) for folder in self.suite.packages}
        names_to_look_for = {*package_names.values(), *(name for names in modules.values() for name in names)}
        installed = _installed(names_to_look_for, build)
        lacking = [place / folder for folder, name in package_names.items() if name not in installed]
        modules |= {path: set() for folder in lacking for path in folder.iterdir() if path.name != "__pycache__"}
        with explained_disk_errors(copy, OTHER_TEMPORARY_FOLDER):
            for path, names in modules.items():
                link = copy / path.relative_to(place)
                if not names & installed and not os.path.lexists(link):
                    link.symlink_to(path.absolute())

    def framework(self, framework: Framework, preloaded: Collection[str] = ()) -> Framework:
        """Return the framework whose runs are known by this suite, and whose workers begin with these packages."""
        variables = {"OPDUEL_SUITE_DIGEST": self.suite.digest, **self.suite.variables}
        return framework.of_suite(variables | ({_PRELOADED: ",".join(preloaded)} if preloaded else {}))

    def is_made(self, order: CacheOrder) -> bool:
        """Tell whether that ``setup_cache`` was run here, with or without success."""
        return (self.place(order.side) / order.key).exists()

    def problem(self, order: CacheOrder) -> str | None:
        """Return why that ``setup_cache``, which was run here, failed; None if it didn't."""
        path = self.place(order.side) / order.key / FAILED_FILE
        return f"{order.side}: {path.read_text(encoding='utf-8')}" if path.exists() else None

    def make_caches(
        self,
        builds: Mapping[Side, Build],
        framework: Framework,
        orders: Sequence[CacheOrder],
        env: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Run each ``setup_cache``, with the user's variables ``env``; return a line for each that failed, whose
        cases then fail."""
        written = {side: _WrittenFiles(self.copies[side], self.place(side) / "written") for side in builds}
        for order in orders:
            log.info("setup_cache of %s on the %s", order.benchmark, order.side)
            environment = suite_environment(builds[order.side], framework, env)
            why = self._make_cache(order, builds[order.side], framework, environment)
            written[order.side].keep()
            if why:
                text = f"setup_cache of {order.benchmark}: {why}"
                (self.place(order.side) / order.key / FAILED_FILE).write_text(text, encoding="utf-8")
        for files in written.values():
            files.put_back()
        return [line for line in map(self.problem, orders) if line is not None]

    def _make_cache(
        self, order: CacheOrder, build: Build, framework: Framework, environment: Mapping[str, str]
    ) -> str | None:
        """Run a ``setup_cache``; return why it failed, or None."""
        folder = _make_folder(self.place(order.side) / order.key)
        most = min(CACHE_BYTES, shutil.disk_usage(folder).free - RESERVE_BYTES)
        if most <= 0:
            return f"less than {RESERVE_BYTES >> 20} MiB are free on the disk of {folder.parent}"
        script = framework.scripts.suite or ""
        command = [build.interpreter, script, "cache", self.copies[order.side], order.benchmark, folder, str(most)]
        outcome = run(command, timeout=order.limit_s, whole_environment=environment, directory=folder)
        if outcome.code is None:
            return f"took more than {order.limit_s:g} s"
        if not outcome.ok:
            last = (outcome.stderr.strip().splitlines() or [outcome.output_tail])[-1]
            return f"wrote more than {most >> 20} MiB" if "File too large" in last else last
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > most:
            shutil.rmtree(folder)
            _make_folder(folder)
            return f"wrote {size >> 20} MiB, more than {most >> 20}"
        return None


def _modules_in(path: Path) -> set[str]:
    """Return the modules that a file or folder is or, as ``src``, has."""
    if path.suffix == ".py" or not path.is_dir():
        return {path.stem} if path.suffix == ".py" else set()
    inner = [] if (path / "__init__.py").exists() else path.iterdir()
    return {path.name, *(child.stem for child in inner if child.suffix == ".py" or (child / "__init__.py").exists())}


def _outermost_package(folder: str, packages: Collection[str]) -> str:
    """Return the name of the outermost of these packages that a folder is or is in."""
    return min((other for other in packages if Path(folder).is_relative_to(other)), key=len).rpartition("/")[2]


def _installed(names: Collection[str], build: Build) -> set[str]:
    """Return those of the modules that the build has."""
    code = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name)))"
    plain = sorted(name for name in names if name.isidentifier())
    outcome = run([build.interpreter, "-I", "-c", code, *plain], timeout=60, directory=Path(os.sep))
    return set(outcome.stdout.split()) if outcome.ok else set(names)


def without_suite(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a build's variables without those that say where its copy is, on the host that has it."""
    return {name: value for name, value in environment.items() if name not in (_COPY, _WORK)}


class _WrittenFiles:
    """The files that setup_cache writes into a side's copy of the suite.

    Some suites, such as scikit-learn's, clear there what an earlier one has written: asv runs the benchmarks of one
    before the next, while here all are run before any benchmark.
    """

    def __init__(self, copy: Path, stash: Path) -> None:
        self._copy, self._stash = copy, stash
        self._own_files = frozenset(_files_in(copy))

    def keep(self) -> None:
        """Keep what was written."""
        _copy_files(self._copy, [path for path in _files_in(self._copy) if path not in self._own_files], self._stash)

    def put_back(self) -> None:
        """Restore all files that were kept and are missing."""
        missing = [path for path in _files_in(self._stash) if not (self._copy / path).exists()]
        _copy_files(self._stash, missing, self._copy)


def _files_in(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [path.relative_to(folder) for path in paths]


def _copy_files(source: Path, paths: Sequence[Path], destination: Path) -> None:
    with explained_disk_errors(destination, OTHER_TEMPORARY_FOLDER):
        for path in paths:
            _make_folder((destination / path).parent)
            shutil.copy2(source / path, destination / path)


def new_work_folder() -> "tempfile.TemporaryDirectory[str]":
    """Make a temporary folder for a run. Raise RunError if that fails."""
    with explained_disk_errors(Path(tempfile.gettempdir()), OTHER_TEMPORARY_FOLDER):
        return tempfile.TemporaryDirectory(prefix="opduel-suite-", ignore_cleanup_errors=True)


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
