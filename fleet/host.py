"""A measuring host's side, within Dask's worker: a job in; the process that measures it; its rounds and its report out.

The worker waits, and measures nothing itself: what it has to do meanwhile stays on the processor that doesn't measure.
"""

import contextlib
import errno
import json
import os
import pickle
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from opduel import __version__
from opduel.driver.builds.transfer import found_at, sha256_of
from opduel.fleet.job import BUILDS, DISK_FULL, FINISH, JOB, LOG, MODELS, REFUSAL, REPORT, ROUNDS, Answer, Job
from opduel.harness.models import checksum_of, place_of
from opduel.records import UsageError
from opduel.records.atomic import write_atomically
from opduel.records.text import one_line
from opduel.reporters.document import from_text

TOPIC = "opduel"
ROOT = Path(__file__).absolute().parents[2]  # from where Python finds opduel, installed or not
_RUN = re.compile(r"[0-9a-f]{16}")  # what folders of runs are called
POLL_S = 0.5
PATIENCE_S = 20.0  # for a process that was asked to end
KEPT_DAYS = 14.0  # shards' folders: whoever resumes a run does so sooner


@dataclass(frozen=True)
class HostSettings:
    """A measuring host: its name in the fleet, where it keeps shards and builds (None: the user's cache), the
    processors that it may use (None: all), and the command that is run before each shard, and how long it may take."""

    name: str
    folder: Path
    exec_dir: Path | None = None
    cpus: frozenset[int] | None = None
    before_run: str | None = None
    before_run_timeout: float = 600.0


class HostPlugin(WorkerPlugin):
    """By which Dask's worker, a process of its own, knows which host it is, and which shards it is to finish."""

    name = "opduel"

    def __init__(self, settings: HostSettings) -> None:
        self.settings = settings
        self.finishing: set[str] = set()  # keys of tasks


def finish(task: str, dask_worker: Any) -> None:
    """Tell the host to end this task soon, with what is settled: it is slow, and others measure the rest."""
    dask_worker.plugins[HostPlugin.name].finishing.add(task)


def measure(job: Job) -> Answer:
    """Measure the job's shard on this host, or say why it can't be. A shard that was measured already is answered from
    its folder; one that was begun, or that had less time than now and was cut short, goes on from the rounds there.

    Raises:
        RuntimeError: the client has given the job up, or the process that measures died: here or elsewhere, it may be
            measured all the same.
    """
    worker: Any = get_worker()
    host: HostSettings = worker.plugins[HostPlugin.name].settings
    if job.version != __version__:
        why = f"has opduel {__version__}, the run is of {job.version}: install the same version on all hosts"
        return Answer(host.name, job.key, refusal=why)
    folder = host.folder / job.run / job.key
    try:
        _sweep(host.folder)  # first, for a run that is resumed late
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_outdated(job, folder / REPORT):
            (folder / REPORT).unlink()
        if not (folder / REPORT).exists():
            kept = job.kept.get(host.name, ())
            if kept and not (folder / ROUNDS).exists():  # this host has lost its own
                write_atomically(folder / ROUNDS, "".join(f"{text}\n" for text in kept).encode())
            write_atomically(folder / JOB, pickle.dumps(job))
            (folder / REFUSAL).unlink(missing_ok=True)
            if needs := [digest for digest in job.sent if _lacks(job, digest, host)]:
                return Answer(host.name, job.key, needs=needs)
            _run(folder, host, job, worker)
        if (folder / REFUSAL).exists():
            return Answer(host.name, job.key, refusal=(folder / REFUSAL).read_text())
        if not (folder / REPORT).exists():
            return Answer(host.name, job.key)
        return Answer(host.name, job.key, report=(folder / REPORT).read_bytes())
    except OSError as error:
        why = f"cannot keep shards in {host.folder} ({error.strerror}): free space there, or give --folder"
        return Answer(host.name, job.key, refusal=why)
    finally:
        with contextlib.suppress(OSError):
            (folder / JOB).unlink(missing_ok=True)  # it may hold the values of secret variables


def _is_outdated(job: Job, report: Path) -> bool:
    """Whether a shard has a report already that its time budget cut short, and a longer one now; or a damaged one."""
    if not report.exists():
        return False
    try:
        run = from_text(report.read_bytes().decode("utf-8", "replace")).run
    except UsageError:  # damaged, by a full disk or a power cut: made again from the rounds
        return True
    had_s, now_s = run.configuration.time_budget, job.configuration.time_budget
    has_more = had_s is not None and (now_s is None or now_s > had_s)
    return has_more and run.is_cut_short and not run.aborted and bool(run.resumable)


def _lacks(job: Job, digest: str, host: HostSettings) -> bool:
    """Whether the host has neither this where its own things of that kind are, nor the client's archive of it."""
    if (host.folder / BUILDS / digest).exists():
        return False
    if any(found_at(one.directory, digest) for one in (job.control, job.treatment) if one.digest == digest):
        return False
    files = (file for case in job.cases for file in case.files.values() if checksum_of(file) == digest)
    return not any(place_of(file, host.folder / MODELS).exists() for file in files)


def has_archive(digest: str, dask_worker: Any) -> bool:
    """Whether the host has the archive of this digest."""
    host: HostSettings = dask_worker.plugins[HostPlugin.name].settings
    return (host.folder / BUILDS / digest).exists()


def receive(
    digest: str, sender: str, offset: int, content: bytes, whole: int, sha256: str, dask_worker: Any
) -> str | None:
    """Take a piece of an archive of ``whole`` bytes; returns why it can't be taken. ``sender``: of these pieces,
    for another run may send the same meanwhile."""
    host: HostSettings = dask_worker.plugins[HostPlugin.name].settings
    folder = host.folder / BUILDS
    part = folder / f".{digest}.{sender}.part"
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        with part.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(content)
        if offset + len(content) < whole:
            return None
        if part.stat().st_size != whole or sha256_of(part) != sha256:
            return "an archive arrived damaged"
        part.replace(folder / digest)
    except OSError as error:
        return f"cannot keep archives in {folder} ({error.strerror}): free space there, or give --folder"
    return None


def _run(folder: Path, host: HostSettings, job: Job, worker: Any) -> None:
    """Start the process that measures, pass on what it says, and see to it that it ends.

    It holds the other end of a pipe, by which it knows when this worker has died. Raises RuntimeError: it left neither
    a report nor a reason why there is none, or the job was given up. OSError: no space is left for either.
    """
    command = [sys.executable, "-m", "opduel.fleet.shard_process", str(folder), str(host.folder)]
    command += ["--exec_dir", str(host.exec_dir)] if host.exec_dir else []
    command += ["--cpus", ",".join(map(str, sorted(host.cpus)))] if host.cpus else []
    if host.before_run is not None:
        command += ["--before_run", host.before_run, "--before_run_timeout", str(host.before_run_timeout)]
    key = worker.get_current_task()
    with (folder / LOG).open("ab") as errors:
        process = subprocess.Popen(
            command,
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
    said = one_line("".join(tail)) or "it said nothing"
    raise RuntimeError(f"{host.name}: the measuring process ended with {code}: {said}")


def _forward(process: "subprocess.Popen[bytes]", worker: Any, key: str, about: dict[str, str]) -> None:
    """Pass the process's lines on to the client until it has closed its output. RuntimeError: the job was given up."""
    assert process.stdin is not None
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    told = False
    rest = b""
    worker.log_event(TOPIC, {**about, "event": "began"})
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(POLL_S):
                content = process.stdout.read(2**20)
                if content == b"":
                    return
                *lines, rest = (rest + (content or b"")).split(b"\n")
                for line in lines:
                    worker.log_event(TOPIC, {**about, **json.loads(line)})
            if _is_given_up(worker, key):
                raise RuntimeError("the client has given this shard up")
            if _is_finishing(worker, key) and not told:
                told = True
                with contextlib.suppress(OSError):
                    process.stdin.write(FINISH)
                    process.stdin.flush()


def _is_finishing(worker: Any, key: str) -> bool:
    """Whether the client wants what is settled, and no more."""
    return key in worker.plugins[HostPlugin.name].finishing


def _is_given_up(worker: Any, key: str) -> bool:
    """Whether Dask no longer wants the task's result: its client cancelled it, or is gone."""
    task = worker.state.tasks.get(key)
    return task is None or task.state in ("cancelled", "released", "forgotten")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the process to end, by closing its input, and kill it and all that it started if it doesn't."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finally:
        process.stdout.close()


def _sweep(folder: Path) -> None:
    """Remove the shards and builds that nobody has touched for ``KEPT_DAYS``."""
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
