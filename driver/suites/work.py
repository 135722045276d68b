"""The folder of a run in which both sides' benchmarks work: each has a copy of the suite, and its ``setup_cache``."""

import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opduel.driver.builds.process import run
from opduel.driver.suites.discovery import DEFAULT_TIMEOUT_S, SuiteCase, suite_environment
from opduel.driver.suites.source import Suite, copy_suite
from opduel.frameworks import Framework
from opduel.records import Build, RunError
from opduel.records.measurement import SIDES, Side

log = logging.getLogger(__name__)

CACHE_BYTES = 512 * 2**20  # the most that a setup_cache may write into one file, and in all
RESERVE_BYTES = 2**30  # free on the disk after that
FAILED_FILE = "failed.txt"  # in place of what setup_cache made: why there is nothing (adaptor/benchmarks.py)


@dataclass(frozen=True)
class SuiteWork:
    """``folder`` has one of each side's, of equally long names: ``c`` and ``t``. It is removed when nobody has this any
    more, and at the end of the process."""

    suite: Suite
    folder: "tempfile.TemporaryDirectory[str]"
    copies: Mapping[Side, Path]

    @classmethod
    def of(cls, suite: Suite, folder: "tempfile.TemporaryDirectory[str]") -> "SuiteWork":
        """A copy for either side; what one side's benchmarks write into theirs is not seen by the other."""
        copies = {side: copy_suite(suite, _made(Path(folder.name) / side[0])) for side in SIDES}
        return cls(suite, folder, copies)

    def place(self, side: Side) -> Path:
        """Where a side's benchmarks work."""
        return _made(Path(self.folder.name) / side[0] / "work")

    def on_side(self, side: Side, build: Build) -> Build:
        """The build, with the variables that say where its copy is."""
        variables = {"OPDUEL_SUITE": str(self.copies[side]), "OPDUEL_SUITE_WORK": str(self.place(side))}
        return replace(build, environment={**build.environment, **variables})

    def framework(self, framework: Framework, modules: Sequence[str]) -> Framework:
        """The framework whose runs are known by this suite, and import these modules before they fork."""
        variables = {"OPDUEL_SUITE_DIGEST": self.suite.digest, "OPDUEL_SUITE_MODULES": ",".join(modules)}
        return framework.of_suite(variables)

    def make_caches(
        self, builds: Mapping[Side, Build], framework: Framework, chosen: Sequence[SuiteCase], timeout_s: float | None
    ) -> list[str]:
        """Run each ``setup_cache`` that the chosen cases need, once on either side; returns a line for each that
        failed, whose cases then fail.

        ``timeout_s`` overrides what the suite says.
        """
        needed = {one.benchmark.setup_cache: one.benchmark for one in chosen if one.benchmark.setup_cache is not None}
        problems = []
        for key, benchmark in needed.items():
            limit_s = timeout_s or benchmark.setup_cache_timeout or benchmark.timeout or DEFAULT_TIMEOUT_S
            for side, build in builds.items():
                log.info("setup_cache of %s on the %s", benchmark.name, side)
                folder = self.place(side) / str(key)
                why = self._make_cache(build, side, framework, benchmark.name, folder, limit_s)
                if why is not None:
                    reason = f"setup_cache of {benchmark.name}: {why}"
                    (folder / FAILED_FILE).write_text(reason, encoding="utf-8")
                    problems.append(f"{side}: {reason}")
        return problems

    def _make_cache(
        self, build: Build, side: Side, framework: Framework, name: str, folder: Path, limit_s: float
    ) -> str | None:
        """Why it could not be made; None if it was."""
        _made(folder)
        most = min(CACHE_BYTES, shutil.disk_usage(folder).free - RESERVE_BYTES)
        if most <= 0:
            return f"less than {RESERVE_BYTES >> 20} MiB are free on the disk of {folder.parent}"
        script = framework.suite_script or ""
        command = [build.interpreter, script, "cache", self.copies[side], name, folder, str(most)]
        outcome = run(command, timeout=limit_s, whole_environment=suite_environment(build, framework), directory=folder)
        if outcome.code is None:
            return f"took more than {limit_s:g} s"
        if not outcome.ok:
            last = (outcome.stderr.strip().splitlines() or [outcome.output_tail])[-1]
            too_large = "File too large" in last
            return f"wrote more than {most >> 20} MiB" if too_large else last
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > most:
            shutil.rmtree(folder)
            _made(folder)
            return f"wrote {size >> 20} MiB, more than {most >> 20}"
        return None


def new_work_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for a run, in the system's place for such; RunError: it can't be made."""
    try:
        return tempfile.TemporaryDirectory(prefix="opduel-suite-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RunError(f"{tempfile.gettempdir()}: {error.strerror}: set TMPDIR to another folder") from None


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
