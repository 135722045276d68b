"""The process that measures one shard on its host, as harness.py does, without Dask.

    python -m opduel.fleet.shard_process FOLDER

FOLDER holds the job and the host's settings, and gets the report or the refusal. Every round goes to standard output as
a line of JSON. When standard input is closed, the client is gone: the process ends, and its rounds stay. When
``FINISH`` comes from there, the process ends with a report of the settled cases, and other hosts measure the rest.
"""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.transfer import build_at, unpack
from opduel.driver.suites.work import without_suite
from opduel.driver.version_control import end_session
from opduel.fleet.job import BUILDS, DISK_FULL, FINISH, JOB, REFUSAL, REPORT, ROUNDS, HostSettings, Job
from opduel.fleet.received import SuiteHere, cases_with_files
from opduel.fleet.stragglers import open_cases
from opduel.frameworks import Framework
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import InterruptedRunError, run_ab
from opduel.records import Build, OpduelError, Report, RunError
from opduel.records.build import PROGRAM_VARIABLE
from opduel.records.measurement import Side
from opduel.reporters.document import to_bytes
from opduel.support.atomic import write_atomically
from opduel.support.text import one_line

_TAIL = 2000  # bytes of the output of --before_run
EVENT_EVERY_S = 30.0  # between events while nothing is measured, as a host that is silent for minutes is given up
_finishing = threading.Event()


class StreamedRounds:
    """A round log in a file, which also sends each text as an event."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rounds(self) -> list[str]:
        """Return the texts in order; the last one may be incomplete."""
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().split(b"\n")  # texts may have other characters that end a line
        return [line.decode("utf-8", "replace") for line in lines if line]

    def keep(self, text: str) -> None:
        """Append a text durably, and send it. Raise OSError if it can't be written."""
        with self._path.open("ab") as file:
            file.write(f"\n{text}\n".encode())  # the line before may be incomplete
            file.flush()
            os.fsync(file.fileno())
        _send_event({"event": "round", "text": text})


def main(folder: Path) -> int:
    """Measure the shard whose job is in ``folder``; return 0 if there is a report or a refusal."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    try:
        return _run(folder)
    except OSError as error:
        with contextlib.suppress(OSError):  # where the log is may be full, too
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1


def _run(folder: Path) -> int:
    """Do the work of ``main``. Raise OSError if neither can be written."""
    job: Job
    host: HostSettings
    job, host = pickle.loads((folder / JOB).read_bytes())
    if host.cpus:
        os.sched_setaffinity(0, host.cpus)
    try:
        with (host.folder / ".measuring").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time, whatever became of the worker of the one before
            _measure(job, host, folder)
    except (InterruptedRunError, KeyboardInterrupt):
        return 3
    except OpduelError as error:
        write_atomically(folder / REFUSAL, str(error).encode())
    return 0


def _measure(job: Job, host: HostSettings, folder: Path) -> None:
    """Measure the job, and write its report into ``folder``. OpduelError: the shard can't be measured here;
    KeyboardInterrupt: nobody wants its report any more."""
    request = job.request
    cases = cases_with_files(request.cases, host.folder)
    framework = request.framework.for_cases(cases)
    suite = SuiteHere(job, job.suite, host.folder) if job.suite else None
    framework = suite.framework(framework) if suite else framework
    build_by_side: dict[Side, Build] = {"control": request.control, "treatment": request.treatment}
    builds = {side: _build(side, build, job, framework, host) for side, build in build_by_side.items()}
    labels = request.labels
    if suite:
        with reporting("preparing"):
            builds, problems = suite.prepare(builds, framework)
        if labels.suite:
            record = dataclasses.replace(labels.suite, problems=(*labels.suite.problems, *problems))
            labels = dataclasses.replace(labels, suite=record)
    request = dataclasses.replace(
        request,
        framework=framework,
        control=builds["control"],
        treatment=builds["treatment"],
        cases=cases,
        labels=labels,
        log=StreamedRounds(folder / ROUNDS),
    )
    if host.before_run is not None:
        with reporting("before_run"):
            run_before(host.before_run, host.before_run_timeout)
    _send_event({"event": "measuring"})
    report = run_ab(request, _send_progress)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # let the report be written
    if report.run.interrupted and not _finishing.is_set():
        raise KeyboardInterrupt(report.run.stop_reason)
    if report.run.interrupted:
        report = _without_open_cases(report)
    write_atomically(folder / REPORT, to_bytes(report))


def _without_open_cases(report: Report) -> Report:
    """Return an interrupted run's report with the settled cases only. Raise KeyboardInterrupt if there are none."""
    moving = open_cases(report.cases, report.comparisons)
    settled = [comparison for comparison in report.comparisons if comparison.case not in moving]
    if not settled:
        raise KeyboardInterrupt("no case was settled")
    run = dataclasses.replace(
        report.run,
        complete=True,
        aborted=False,
        interrupted=False,
        resumable=False,
        stop_reason=None,
        forecast=None,
    )
    cases = tuple(case for case in report.cases if case.id not in moving)
    return dataclasses.replace(report, run=run, comparisons=settled, cases=cases)


def _build(side: Side, client_build: Build, job: Job, framework: Framework, host: HostSettings) -> Build:
    """Return the build that equals the client's: the one at the same path on this host, or unpacked from an archive, or
    made here. Raise OpduelError if it can't be made, or differs from the client's."""
    cache, sdists = BuildCache(host.exec_dir), job.request.configuration.allow_sdist
    own = framework.of_side(side)
    own_build = build_at(client_build.directory, client_build.digest)
    if own_build is None and client_build.digest in job.sent:
        own_build = unpack(host.folder / BUILDS / client_build.digest, own.name, client_build.digest, cache)
    if own_build is None:
        own_build = resolve_build(client_build.requested, own, cache, without_suite(client_build.environment), sdists)
    if own_build.digest != client_build.digest:
        raise RunError(
            f"{client_build.requested}: the build here differs from the client's "
            f"(Python {own_build.python} and {client_build.python}, digests {own_build.digest[:12]} and "
            f"{client_build.digest[:12]}): give all hosts the same Python and packages"
        )
    own_build = dataclasses.replace(own_build, requested=client_build.requested, commit=client_build.commit)
    return framework.equipped(side, program_here(client_build, own_build), job.request.configuration.threads)


def program_here(client_build: Build, build: Build) -> Build:
    """Return the build with the path of its program on this host, which follows from the client's record; its worker is
    run by this host's Python."""
    path, within = client_build.environment.get(PROGRAM_VARIABLE), client_build.directory
    if path is None or within is None or build.directory is None:
        return build
    there = Path(path)
    program = Path(build.directory) / there.relative_to(within) if there.is_relative_to(within) else there
    environment = {**build.environment, PROGRAM_VARIABLE: str(program)}
    return dataclasses.replace(build, interpreter=sys.executable, environment=environment)


def run_before(command: str, timeout_s: float) -> None:
    """Run the host's own shell command, which drops caches, say. Raise RunError if it fails or takes too long.

    At the end, also by an exception, it is killed with all that it started.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            why = f"took more than {timeout_s:g} s: it was ended, and nothing is measured here"
            raise RunError(f"--before_run {why}") from None
        finally:
            end_session(process)
        if code == 0:
            return
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL))
        lines = output.read().decode("utf-8", "replace").strip().splitlines()
    how = f"ended with {code}" if code > 0 else f"was killed by signal {-code}"
    raise RunError(f"--before_run {how}: {one_line(lines[-1]) if lines else 'it said nothing'}")


@contextlib.contextmanager
def reporting(activity: str) -> Iterator[None]:
    """Send an event of this kind at once, and every ``EVENT_EVERY_S`` during the ``with``."""
    has_ended = threading.Event()

    def report() -> None:
        _send_event({"event": activity})
        while not has_ended.wait(EVENT_EVERY_S):
            _send_event({"event": activity})

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def _send_progress(progress: Progress) -> None:
    _send_event({"event": "progress", "open": progress.open_cases, "rounds": progress.rounds})


def _send_event(event: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(event).encode() + b"\n")
    sys.stdout.buffer.flush()


def _end_with_the_worker() -> None:
    """Interrupt the run when the worker sends ``FINISH``, closes its end of the pipe, or dies."""
    while content := os.read(0, 4096):
        if FINISH in content and not _finishing.is_set():
            _finishing.set()
            os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
