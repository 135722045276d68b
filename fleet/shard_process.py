"""The process that measures one shard on its host: as harness.py does, of cases that were sent, and without Dask.

    python -m opduel.fleet.shard_process FOLDER HOST_FOLDER

FOLDER holds the job; the report, or why there is none, is left there. Every round goes to standard output as a line of
JSON. When standard input is closed, whoever wanted the report is gone: the process ends, and its rounds stay.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.transfer import found_at, unpack
from opduel.driver.suites.work import without_suite
from opduel.fleet.job import BUILDS, JOB, REFUSAL, REPORT, ROUNDS, Job
from opduel.fleet.received import SuiteHere, cases_with_files
from opduel.frameworks import Framework, get_framework
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import RunRequest, run_ab
from opduel.records import Build, OpduelError, RunError
from opduel.records.atomic import write_atomically
from opduel.records.measurement import Side
from opduel.reporters.document import to_bytes

SAID_EVERY_S = 60.0  # that a host is at work, as long as setup_cache runs: whoever says nothing is given up


class StreamedRounds:
    """A round log in a file, each text of which is also passed on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rounds(self) -> list[str]:
        """The texts that were kept, in order; the last one may have been cut off."""
        if not self._path.exists():
            return []
        return self._path.read_text(encoding="utf-8", errors="replace").splitlines()

    def keep(self, text: str) -> None:
        """Append a text, which is durable when this returns, and pass it on. OSError: it could not be kept."""
        before = self._path.stat().st_size if self._path.exists() else 0
        with self._path.open("ab") as file:
            if before and not self._ends_a_line():
                file.write(b"\n")
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _say({"event": "round", "text": text})

    def _ends_a_line(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns 0 if there is a report, or a reason why there is none."""
    parser = argparse.ArgumentParser(prog="python -m opduel.fleet.shard_process")
    parser.add_argument("folder", type=Path)
    parser.add_argument("host_folder", type=Path)
    parser.add_argument("--exec_dir", type=Path)
    parser.add_argument("--cpus", default="")
    asked = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    if asked.cpus:
        os.sched_setaffinity(0, set(map(int, asked.cpus.split(","))))
    try:
        with (asked.host_folder / ".measuring").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time, whatever became of the worker of the one before
            _measure(asked.folder, asked.host_folder, asked.exec_dir)
    except OpduelError as error:
        write_atomically(asked.folder / REFUSAL, str(error).encode())
    except KeyboardInterrupt:
        return 3
    return 0


def _measure(folder: Path, host_folder: Path, exec_dir: Path | None) -> None:
    """Raises OpduelError: the shard can't be measured here. KeyboardInterrupt: nobody wants its report any more."""
    job: Job = pickle.loads((folder / JOB).read_bytes())
    cases = cases_with_files(job.cases, host_folder)
    framework = get_framework(job.framework).for_cases(cases)
    suite = SuiteHere(job, job.suite, host_folder) if job.suite else None
    framework = suite.framework(framework) if suite else framework
    cache = BuildCache(exec_dir)
    wanted: dict[Side, Build] = {"control": job.control, "treatment": job.treatment}
    builds = {side: _build(side, one, job, framework, cache, host_folder) for side, one in wanted.items()}
    labels = job.labels
    if suite:
        with _heard():
            builds, problems = suite.prepare(builds, framework)
        labels = {**labels, "suite": {**labels["suite"], "problems": [*labels["suite"]["problems"], *problems]}}
    request = RunRequest(
        framework=framework,
        control=builds["control"],
        treatment=builds["treatment"],
        cases=cases,
        seed=job.seed,
        configuration=job.configuration,
        labels=labels,
        log=StreamedRounds(folder / ROUNDS),
        suspects_only=job.suspects_only,
        env=job.env,
        first_measurement=job.first_measurement,
        elsewhere=job.elsewhere,
    )
    report = run_ab(request, _tell)
    if report.run.interrupted:
        raise KeyboardInterrupt(report.run.stop_reason)
    write_atomically(folder / REPORT, to_bytes(report))


def _build(side: Side, wanted: Build, job: Job, framework: Framework, cache: BuildCache, host_folder: Path) -> Build:
    """The build that is wanted: the client's own, if this host has it at the same place; a copy of it, if hosts can't
    make it; else this host's own of what was asked for. Raises OpduelError: it can't be had, or is not the client's."""
    sdists = job.configuration.allow_sdist
    own = framework.of_side(side)
    made = found_at(wanted.directory, wanted.digest)
    if made is None and wanted.digest in job.sent:
        made = unpack(host_folder / BUILDS / wanted.digest, own.name, wanted.digest, cache)
    if made is None:
        made = resolve_build(wanted.requested, own, cache, without_suite(wanted.environment), sdists)
    if made.digest != wanted.digest:
        raise RunError(
            f"{wanted.requested}: the build here differs from the client's (Python {made.python} and {wanted.python}, "
            f"digests {made.digest[:12]} and {wanted.digest[:12]}): give all hosts the same Python and packages"
        )
    made = dataclasses.replace(made, requested=wanted.requested, commit=wanted.commit)
    return framework.equipped(side, made, job.configuration.threads)


@contextlib.contextmanager
def _heard() -> Iterator[None]:
    """Within it, the client hears now and then that this host is at work."""
    ended = threading.Event()

    def say() -> None:
        while not ended.wait(SAID_EVERY_S):
            _say({"event": "preparing"})

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tell(progress: Progress) -> None:
    _say({"event": "progress", "open": progress.open_cases, "cases": progress.cases, "rounds": progress.rounds})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(what).encode() + b"\n")
    sys.stdout.buffer.flush()


def _end_with_the_worker() -> None:
    """Wait until the worker has closed its end of the pipe, or has died; then interrupt the run."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
