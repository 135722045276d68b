"""Use of the archives that a host received: files of cases, and a suite with what its setup_cache makes.

A suite lies in a folder of the run, with a copy for each side, and stays there for the run's next shards, because a
setup_cache may take minutes; it is run once on each host.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from opduel.driver.suites.elsewhere import unpack_suite
from opduel.driver.suites.source import Suite
from opduel.driver.suites.work import SuiteWork
from opduel.fleet.job import BUILDS, MODELS, Job, SuiteJob
from opduel.frameworks import Framework
from opduel.harness.models import checksum_of, fetch_files, place_of
from opduel.records import Build, Case, ModelFile, RunError
from opduel.records.measurement import Side

KEPT_SUITES = 4  # runs whose suites a host keeps, since a search measures several steps at once
_SUITE, _UNFINISHED = "suite", "unfinished"


def cases_with_files(cases: Sequence[Case], host_folder: Path) -> list[Case]:
    """Return the cases with their files on this host, sent or fetched. Raise OpduelError if one can't be had."""
    archives, cache = host_folder / BUILDS, host_folder / MODELS
    sent = set()

    def here(file: ModelFile) -> ModelFile:
        archive = archives / checksum_of(file)
        if not archive.exists():
            return file
        sent.add(archive)
        return replace(file, location=str(archive), filename=place_of(file, cache).name)

    local = [replace(case, files={name: here(file) for name, file in case.files.items()}) for case in cases]
    fetched = fetch_files(local, cache)
    for archive in sent:
        archive.unlink(missing_ok=True)  # its file is in the cache now
    return [
        replace(
            case, files={name: replace(file, path=fetched_case.files[name].path) for name, file in case.files.items()}
        )
        for case, fetched_case in zip(cases, fetched, strict=True)
    ]


class SuiteHere:
    """The suite of a job on this host."""

    def __init__(self, job: Job, suite: SuiteJob, host_folder: Path) -> None:
        """Unpack the suite unless an earlier shard did. Raise RunError if the archive is damaged or the disk full."""
        self._job, self._suite = job, suite
        self._root = host_folder / job.run / _SUITE
        self._forget_other_runs(host_folder)
        if not self._root.is_dir() or (self._root / _UNFINISHED).exists():
            shutil.rmtree(self._root, ignore_errors=True)
        with self._unfinished():
            files = self._root / "files" / suite.package
            if not files.exists():
                unpack_suite(host_folder / BUILDS / suite.digest, suite.digest, files, suite.parts)
            own = Suite(suite.package, suite.package, files, suite.package, suite.digest, parts=tuple(suite.parts))
            self._work = SuiteWork.within(own, self._root)

    def framework(self, framework: Framework) -> Framework:
        """Return the framework with what the suite needs in builds and workers."""
        return framework.of_suite(self._suite.variables, self._suite.requirements)

    def prepare(self, builds: Mapping[Side, Build], framework: Framework) -> tuple[dict[Side, Build], list[str]]:
        """Run each ``setup_cache`` that the job's cases need. Return the builds for this host's workers, and a line for
        each failure."""
        sides = {side: self._work.on_side(side, build) for side, build in builds.items()}
        if caches_to_make := [order for order in self._suite.caches if not self._work.is_made(order)]:
            with self._unfinished():
                self._work.make_caches(sides, framework.of_suite({}), caches_to_make, self._job.request.env)
        problems = map(self._work.problem, self._suite.caches)
        return sides, [line for line in problems if line is not None]

    @contextmanager
    def _unfinished(self) -> Iterator[None]:
        """Mark the folder as unfinished during the ``with``, so that it is made again if this ends early."""
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self._root / _UNFINISHED).touch()
            yield
            (self._root / _UNFINISHED).unlink()
        except OSError as error:
            raise RunError(f"{self._root}: {error.strerror}: free some space, or give --folder") from None

    def _forget_other_runs(self, host_folder: Path) -> None:
        """Remove all suites but those of the latest runs; no other process of this host measures meanwhile."""
        with suppress(OSError):
            os.utime(self._root)
        other_suites = [folder for folder in host_folder.glob(f"*/{_SUITE}") if folder != self._root]
        for old in sorted(other_suites, key=lambda folder: folder.stat().st_mtime, reverse=True)[KEPT_SUITES - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
