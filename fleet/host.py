"""A measuring host's side, within Dask's worker: takes a job, starts the process that measures it, returns its report.

The worker measures nothing itself, so that its own work does not disturb the measurement.
"""

import contextlib
import errno
import json
import os
import pickle
import re
import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from opduel import __version__
from opduel.driver.builds.transfer import build_at
from opduel.driver.version_control import end_session
from opduel.fleet.job import (
    BUILDS,
    DISK_FULL,
    FINISH,
    JOB,
    LOG,
    MODELS,
    REFUSAL,
    REPORT,
    ROUNDS,
    Answer,
    HostSettings,
    Job,
)
from opduel.fleet.run_log import may_go_on
from opduel.harness.models import checksum_of, place_of
from opduel.records import UsageError
from opduel.reporters.document import from_text
from opduel.support.atomic import write_atomically
from opduel.support.digests import file_digest
from opduel.support.text import one_line

TOPIC = "opduel"
ROOT = Path(__file__).absolute().parents[2]  # from where Python finds opduel, installed or not
_RUN = re.compile(r"[0-9a-f]{16}")  # the names of runs' folders
POLL_S = 0.5
PATIENCE_S = 20.0  # for a process that was asked to end
KEPT_DAYS = 14.0  # shards' folders are kept for a run that is resumed


class HostPlugin(WorkerPlugin):
    """State of a host within Dask's worker process: its settings, and the tasks that it is to finish."""

    name = "opduel"

    def __init__(self, settings: HostSettings) -> None:
        self.settings = settings
        self.finishing: set[str] = set()  # keys of tasks


def finish(task: str, dask_worker: Any) -> None:
    """Let the host end this task soon with the settled cases, because it is slow and others measure the rest."""
    dask_worker.plugins[HostPlugin.name].finishing.add(task)


def measure(job: Job) -> Answer:
    """Measure the job's shard on this host, or answer why it can't. A finished shard is answered from its folder; an
    unfinished one, or one that was cut short and has more time now, goes on from the rounds there. RuntimeError: the
    client has given up the job, or the measuring process died; the job may be tried again."""
    worker: Any = get_worker()
    host: HostSettings = worker.plugins[HostPlugin.name].settings
    if job.version != __version__:
        why = f"has opduel {__version__}, the run is of {job.version}: install the same version on all hosts"
        return Answer(host.name, refusal=why)
    folder = host.folder / job.run / job.key
    try:
        _sweep(host.folder)  # before this run's folder is made
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_outdated(job, folder / REPORT):
            (folder / REPORT).unlink()
        if not (folder / REPORT).exists():
            rounds = job.rounds_by_host.get(host.name, ())
            if rounds and not (folder / ROUNDS).exists():  # this host has lost its own
                write_atomically(folder / ROUNDS, "".join(f"{text}\n" for text in rounds).encode())
            write_atomically(folder / JOB, pickle.dumps((job, host)))
            (folder / REFUSAL).unlink(missing_ok=True)
            if needs := [digest for digest in job.sent if _lacks(job, digest, host)]:
                return Answer(host.name, needs=needs)
            _run(folder, host, job, worker)
        if (folder / REFUSAL).exists():
            return Answer(host.name, refusal=(folder / REFUSAL).read_text())
        if not (folder / REPORT).exists():
            return Answer(host.name)
        return Answer(host.name, report=(folder / REPORT).read_bytes())
    except OSError as error:
        why = f"cannot keep shards in {host.folder} ({error.strerror}): free space there, or give --folder"
        return Answer(host.name, refusal=why)
    finally:
        with contextlib.suppress(OSError):
            (folder / JOB).unlink(missing_ok=True)  # it may hold the values of secret variables


def _is_outdated(job: Job, report: Path) -> bool:
    """Return whether the shard's report is damaged, or was cut short by a smaller time budget than the present one."""
    if not report.exists():
        return False
    try:
        shard_report = from_text(report.read_bytes().decode("utf-8", "replace"))
    except UsageError:  # damaged, by a full disk or a power cut: made again from the rounds
        return True
    had_s, now_s = shard_report.configuration.time_budget, job.request.configuration.time_budget
    return shard_report.run.is_cut_short and may_go_on(shard_report, had_s, now_s)


def _lacks(job: Job, digest: str, host: HostSettings) -> bool:
    """Return whether the host has neither its own copy of this build, suite or file, nor the client's archive of it."""
    if (host.folder / BUILDS / digest).exists():
        return False
    builds = (build for build in (job.request.control, job.request.treatment) if build.digest == digest)
    if any(build_at(build.directory, digest) for build in builds):
        return False
    files = (file for case in job.request.cases for file in case.files.values() if checksum_of(file) == digest)
    return not any(place_of(file, host.folder / MODELS).exists() for file in files)


def has_archive(digest: str, dask_worker: Any) -> bool:
    """Return whether the host has the archive of this digest."""
    host: HostSettings = dask_worker.plugins[HostPlugin.name].settings
    return (host.folder / BUILDS / digest).exists()


def receive(
    digest: str, sender: str, offset: int, content: bytes, size: int, sha256: str, dask_worker: Any
) -> str | None:
    """Write a piece of an archive of ``size`` bytes, and return why it can't be taken, or None. ``sender`` tells these
    pieces from those of another run that sends the same archive."""
    host: HostSettings = dask_worker.plugins[HostPlugin.name].settings
    folder = host.folder / BUILDS
    part = folder / f".{digest}.{sender}.part"
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        with part.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(content)
        if offset + len(content) < size:
            return None
        if part.stat().st_size != size or file_digest(part) != sha256:
            return "an archive arrived damaged"
        part.replace(folder / digest)
    except OSError as error:
        return f"cannot keep archives in {folder} ({error.strerror}): free space there, or give --folder"
    return None


def _run(folder: Path, host: HostSettings, job: Job, worker: Any) -> None:
    """Run the measuring process, pass on its events, and see that it ends. It ends by itself when this worker dies.
    RuntimeError: it left neither a report nor a refusal, or the job was given up; OSError: the disk is full."""
    key = worker.get_current_task()
    with (folder / LOG).open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "opduel.fleet.shard_process", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("DASK_")},
            start_new_session=True,
        )
    try:
        _forward(process, worker, key, {"key": job.key, "run": job.run, "host": host.name})
        code = process.wait(PATIENCE_S)
    finally:
        _end(process)
    if (folder / REPORT).exists() or (folder / REFUSAL).exists() or _is_finishing(worker, key):
        return
    if code == DISK_FULL:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    tail = (folder / LOG).read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()[-1:]
    last_line = one_line("".join(tail)) or "it said nothing"
    raise RuntimeError(f"{host.name}: the measuring process ended with {code}: {last_line}")


def _forward(process: "subprocess.Popen[bytes]", worker: Any, key: str, about: dict[str, str]) -> None:
    """Pass the process's events on to the client until its output ends. Raise RuntimeError if the job was given up."""
    assert process.stdin is not None
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    has_asked = False
    incomplete_line = b""
    worker.log_event(TOPIC, {**about, "event": "began"})
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(POLL_S):
                content = process.stdout.read(2**20)
                if content == b"":
                    return
                *lines, incomplete_line = (incomplete_line + (content or b"")).split(b"\n")
                for line in lines:
                    worker.log_event(TOPIC, {**about, **json.loads(line)})
            if _is_given_up(worker, key):
                raise RuntimeError("the client has given this shard up")
            if _is_finishing(worker, key) and not has_asked:
                has_asked = True
                with contextlib.suppress(OSError):
                    process.stdin.write(FINISH)
                    process.stdin.flush()


def _is_finishing(worker: Any, key: str) -> bool:
    """Return whether the client wants the settled cases only."""
    return key in worker.plugins[HostPlugin.name].finishing


def _is_given_up(worker: Any, key: str) -> bool:
    """Return whether the client has cancelled the task, or is gone."""
    task = worker.state.tasks.get(key)
    return task is None or task.state in ("cancelled", "released", "forgotten")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the process to end by closing its input; if it does not, kill it and all that it started."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE_S)
    end_session(process)


def _sweep(folder: Path) -> None:
    """Remove the shards and builds that have not been used for ``KEPT_DAYS``."""
    oldest = time.time() - KEPT_DAYS * 86400
    for run in folder.iterdir():
        if not (_RUN.fullmatch(run.name) or run.name == BUILDS):
            continue
        for old in run.iterdir():
            with contextlib.suppress(OSError):  # another process may be sweeping
                if old.stat().st_mtime < oldest:
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
        with contextlib.suppress(OSError):
            run.rmdir()
