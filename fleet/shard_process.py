"""The process that measures one shard on its host: as harness.py does, of cases that were sent, and without Dask.

    python -m opduel.fleet.shard_process FOLDER HOST_FOLDER

FOLDER holds the job; the report, or why there is none, is left there. Every round goes to standard output as a line of
JSON. When standard input is closed, whoever wanted the report is gone: the process ends, and its rounds stay. When
``FINISH`` comes from there, the process ends with a report of the cases that are settled: others measure the rest.
"""

import argparse
import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.transfer import found_at, unpack
from opduel.driver.suites.work import without_suite
from opduel.fleet.before_run import run_before
from opduel.fleet.job import BUILDS, DISK_FULL, FINISH, JOB, REFUSAL, REPORT, ROUNDS, Job
from opduel.fleet.received import SuiteHere, cases_with_files
from opduel.fleet.stragglers import open_cases
from opduel.frameworks import Framework, get_framework
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import InterruptedRunError, run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Build, OpduelError, Report, RunError, RunRecord
from opduel.records.atomic import write_atomically
from opduel.records.build import PROGRAM_VARIABLE
from opduel.records.measurement import Side
from opduel.reporters.document import to_bytes

SAID_EVERY_S = 60.0  # that a host is at work, as long as setup_cache runs: whoever says nothing is given up
_finishing = threading.Event()


class StreamedRounds:
    """A round log in a file, each text of which is also passed on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rounds(self) -> list[str]:
        """The texts that were kept, in order; the last one may have been cut off."""
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().split(b"\n")  # texts may have other characters that end a line
        return [line.decode("utf-8", "replace") for line in lines if line]

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
    parser.add_argument("--before_run")
    parser.add_argument("--before_run_timeout", type=float, default=0.0)
    asked = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    if asked.cpus:
        os.sched_setaffinity(0, set(map(int, asked.cpus.split(","))))
    try:
        return _run(asked)
    except OSError as error:
        with contextlib.suppress(OSError):  # where the log is may be full, too
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1


def _run(asked: argparse.Namespace) -> int:
    """As ``main``. OSError: neither can be written."""
    try:
        with (asked.host_folder / ".measuring").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time, whatever became of the worker of the one before
            _measure(asked.folder, asked.host_folder, asked.exec_dir, lambda: _before(asked))
    except InterruptedRunError:
        return 3
    except OpduelError as error:
        write_atomically(asked.folder / REFUSAL, str(error).encode())
    except KeyboardInterrupt:
        return 3
    return 0


def _before(asked: argparse.Namespace) -> None:
    """Run the host's own command. Raises RunError: it failed, or took too long."""
    if asked.before_run is None:
        return
    why = run_before(asked.before_run, asked.before_run_timeout, lambda: _say({"event": "before_run"}))
    if why is not None:
        raise RunError(why)


def _measure(folder: Path, host_folder: Path, exec_dir: Path | None, before: Callable[[], None]) -> None:
    """``before`` is called when all that is measured is there. Raises OpduelError: the shard can't be measured here.
    KeyboardInterrupt: nobody wants its report any more."""
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
        find_causes=job.find_causes,
    )
    before()
    _say({"event": "measuring"})
    report = run_ab(request, _tell)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is measured is worth the moment that it takes to write it
    if report.run.interrupted and not _finishing.is_set():
        raise KeyboardInterrupt(report.run.stop_reason)
    if report.run.interrupted:
        report = _settled(report)
    write_atomically(folder / REPORT, to_bytes(report))


def _settled(report: Report) -> Report:
    """What the report of an interrupted run says of the cases that were settled. KeyboardInterrupt: of none."""
    moving = open_cases(report.cases, report.comparisons)
    kept = [one for one in report.comparisons if one.case not in moving]
    if not kept:
        raise KeyboardInterrupt("no case was settled")
    ended = {"complete": True, "aborted": False, "interrupted": False, "resumable": False, "stop_reason": None}
    cases = tuple(case for case in report.cases if case.id not in moving)
    return dataclasses.replace(
        report, run=RunRecord({**report.run, **ended, "forecast": None}), comparisons=kept, cases=cases
    )


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
    return framework.equipped(side, program_here(wanted, made), job.configuration.threads)


def program_here(wanted: Build, made: Build) -> Build:
    """The build of a commit's program: which of its files that is, only the client's record says; its worker is run by
    this host's Python."""
    path, within = wanted.environment.get(PROGRAM_VARIABLE), wanted.directory
    if path is None or within is None or made.directory is None:
        return made
    there = Path(path)
    program = Path(made.directory) / there.relative_to(within) if there.is_relative_to(within) else there
    environment = {**made.environment, PROGRAM_VARIABLE: str(program)}
    return dataclasses.replace(made, interpreter=sys.executable, environment=environment)


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
    counts = {"open": progress.open_cases, "cases": progress.cases, "rounds": progress.rounds}
    _say({"event": "progress", **counts, "verifying": progress.verifying})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(what).encode() + b"\n")
    sys.stdout.buffer.flush()


def _end_with_the_worker() -> None:
    """Interrupt the run when the worker says that it is to finish, and when it has closed its end of the pipe or has
    died."""
    while said := os.read(0, 4096):
        if FINISH in said and not _finishing.is_set():
            _finishing.set()
            os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
