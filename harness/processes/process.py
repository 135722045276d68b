"""One worker process, as the controller sees it: start, begin cases, learn how it died; and the process of one case."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from opduel.frameworks.environment import HASH_SEED
from opduel.harness.machine.host import count_orphans, out_of_memory_kills
from opduel.harness.processes.channel import Channel, ClosedError, Steps, complete
from opduel.harness.processes.worker_errors import (
    CaseLostError,
    CaseRefusedError,
    WorkerLostError,
    cause_of_death,
    refusal,
)
from opduel.records import Build, Failure
from opduel.records.measurement import Side
from opduel.support.text import duration

WORKER = Path(__file__).resolve().parents[1] / "worker" / "main.py"
START_TIMEOUT_S = 180.0  # importing a framework on a busy machine
STEP_TIMEOUT_S = 60.0  # steps that take milliseconds
ENDING_TIMEOUT_S = 20.0  # a case that was measured, with its teardown: threads of a library may hang, and others wait
DYING_S = 5.0  # between the end of a worker's answers and its exit
SLOTS = 2  # one case is measured while another is prepared


class Worker(contextlib.AbstractContextManager["Worker"]):
    """A worker process of one side. Use as a context manager: leaving it ends the process."""

    def __init__(
        self,
        side: Side,
        build: Build,
        adaptor: Path,
        environment: Mapping[str, str],
        cpus: frozenset[int],
        script: Path = WORKER,
        prefix: Sequence[str] = (),
    ):
        """Start it, without waiting for it to be ready.

        ``environment`` is the whole environment that it gets, but for a seed of hashes, if it has none; ``cpus`` those
        that it may use; ``prefix`` a command, and its options, to run the interpreter under. Raises
        WorkerLostError: it could not even be started."""
        self.side: Side = side
        self._oom_kills = out_of_memory_kills()
        with contextlib.ExitStack() as closing_of_theirs, contextlib.ExitStack() as ours:
            try:
                channels = [
                    ours.enter_context(contextlib.closing(Channel(closing_of_theirs))) for _ in range(1 + SLOTS)
                ]
                self._channel, *self._slots = channels
                descriptors = [",".join(map(str, channel.passed)) for channel in channels]
                self._process = subprocess.Popen(
                    [*prefix, build.interpreter, str(script), str(adaptor), *descriptors],
                    stdin=subprocess.DEVNULL,
                    stdout=self._channel.passed[2],
                    stderr=subprocess.STDOUT,
                    env={HASH_SEED: "0", **environment, **build.environment},
                    pass_fds=[descriptor for channel in channels for descriptor in channel.passed],
                    start_new_session=True,
                    cwd=tempfile.gettempdir(),
                )
            except OSError as error:
                program = prefix[0] if prefix else build.interpreter
                reason = f"could not be started ({error.strerror or error}): {program}"
                raise WorkerLostError(Failure(side, "start", reason)) from None
            self._ours = ours.pop_all()
        self.closed = False  # True when it has been ended, or lost
        self.nice = 0  # its priority, once it is ready
        self.start_cpu_s = 0.0  # the processor time that its start took, once it is ready
        self._failure: Failure | None = None
        self._cases: list[CaseProcess | None] = [None] * SLOTS
        self.pin(cpus)

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def readying(self, timeout_s: float = START_TIMEOUT_S) -> Steps[dict[str, Any]]:
        """Wait until the framework is imported; return its versions. Raises WorkerLostError: it died or hung."""
        try:
            answer = yield from self._channel.receiving(timeout_s)
        except ClosedError:
            raise self.lost(self.cause_of_exit()) from None
        if answer is None:
            raise self.lost(self.hung(timeout_s, "starting up", self._channel))
        self.nice, self.start_cpu_s = int(answer["nice"]), float(answer["cpu_s"])
        return dict(answer["ready"])

    def wait_ready(self) -> dict[str, Any]:
        """Wait for ``readying``."""
        return complete(self.readying())

    def pin(self, cpus: frozenset[int]) -> None:
        """Keep all its threads, and the children that it will fork, on these processors."""
        pin(self.pid, cpus)

    def beginning(self, fork: bool, case: Mapping[str, Any] | None = None) -> "Steps[CaseProcess]":
        """Begin a case: in a child of its own, or in the worker's own process if ``fork`` is false. ``case`` is its
        description, by which the adaptor knows what to import before the fork.

        Two cases may be in progress at a time; a third waits for the end of one. Raises CaseLostError, WorkerLostError:
        the child or the worker died or hung."""
        ending = [slot for slot, case in enumerate(self._cases) if case is not None and case.ending]
        free = [slot for slot, case in enumerate(self._cases) if case is None or case.over]
        slot = (free or ending)[0]
        before = self._cases[slot]
        if before is not None:
            yield from before.ended()
        channel = self._slots[slot]
        channel.clear_output_tail()
        process = CaseProcess(self, channel, fork)
        self._cases[slot] = process
        try:
            self._channel.send({"op": "begin", "slot": slot, "fork": fork, "case": case})
        except ClosedError:
            raise self.lost(self.cause_of_exit()) from None
        process.pid = (yield from process.answered(START_TIMEOUT_S, "beginning a case"))["pid"]
        return process

    def close(self) -> None:
        """End the process, its children and the pipes. Idempotent."""
        if self.closed:
            return
        self.closed = True
        kill_session(self._process.pid)
        self._process.wait()
        self._ours.close()

    def cause_of_exit(self) -> Failure:
        """Return the failure of a worker whose pipes are closed; of one that was lost before, what was said then."""
        if self._failure:
            return self._failure
        words = "\n".join(filter(None, (channel.output_tail() for channel in (self._channel, *self._slots))))
        try:
            return cause_of_death(self.side, self._process.wait(DYING_S), words, self._oom_kills)
        except subprocess.TimeoutExpired:
            return Failure(self.side, "crash", "closed its pipe and hung", words)

    def hung(self, timeout_s: float, doing: str, channel: Channel) -> Failure:
        """Return the failure of whoever did not answer over ``channel`` in time."""
        reason = f"no answer within {duration(timeout_s)} ({doing})"
        return Failure(self.side, "timeout", reason, channel.output_tail())

    def lost(self, failure: Failure) -> WorkerLostError:
        """Close it for this reason, and return the error to raise."""
        self._failure = failure
        self.close()
        return WorkerLostError(failure)


class CaseProcess:
    """The process of one case on one side, from its beginning to its end: a child, or the worker itself."""

    def __init__(self, worker: Worker, channel: Channel, fork: bool) -> None:
        self.pid = worker.pid
        self.ending = False  # was asked to end
        self.over = False  # has ended
        self._stopped = False
        self._worker = worker
        self._channel = channel
        self._fork = fork
        self._oom_kills = out_of_memory_kills()

    def asking(self, request: Mapping[str, Any], timeout_s: float) -> Steps[dict[str, Any]]:
        """Send a request and return the answer. Raises CaseRefusedError: the framework raised; the case can still be
        asked. CaseLostError: the case's child died, or there was no answer within ``timeout_s`` seconds.
        WorkerLostError: the worker did."""
        try:
            self._channel.send(request)
        except ClosedError:
            raise self._worker.lost(self._worker.cause_of_exit()) from None
        answer = yield from self.answered(timeout_s, str(request["op"]))
        if "error" in answer:
            error = answer["error"]
            raise CaseRefusedError(refusal(self._worker.side, error["kind"], error["reason"], self.output_tail()))
        return answer

    def ask(
        self, request: Mapping[str, Any], timeout_s: float, while_waiting: Callable[[], object] = lambda: None
    ) -> dict[str, Any]:
        """Wait for ``asking``; ``while_waiting`` as in ``complete``. A process that was stopped runs until it has
        answered."""
        if not self._stopped:
            return complete(self.asking(request, timeout_s), while_waiting)
        self._signal(signal.SIGCONT)
        answer = complete(self.asking(request, timeout_s), while_waiting)
        self._signal(signal.SIGSTOP)
        return answer

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let no thread of the process run within the context, but while it answers what it is asked by ``ask``: a
        library's threads spin for some milliseconds when there is nothing more to do, and would take processors from
        the measured side."""
        self._stopped = True
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._stopped = False
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if not self.over and not self._worker.closed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def pin(self, cpus: frozenset[int]) -> None:
        """Keep it on these processors."""
        pin(self.pid, cpus)

    def end(self) -> None:
        """Ask it to end, without waiting until it has. Nothing to do for a case that was lost."""
        if not self.ending and not self.over:
            self.ending = True
            with contextlib.suppress(ClosedError):  # the next request reports it
                self._channel.send({"op": "end"})

    def ended(self) -> Steps[None]:
        """Wait until it has ended, having been asked to. Raises WorkerLostError: the worker died or hung."""
        self.end()
        with contextlib.suppress(CaseLostError):  # it crashed or hung at its end, with everything measured
            while not self.over:
                yield from self.answered(ENDING_TIMEOUT_S, "ending a case")

    def output_tail(self) -> str:
        """Return the tail of what was printed since the case began, made printable."""
        return self._channel.output_tail()

    def answered(self, timeout_s: float, doing: str) -> Steps[dict[str, Any]]:
        """Receive the next message. When none comes in time, a child is killed and the case lost; else the worker
        is. Raises CaseLostError, WorkerLostError: there is none."""
        answer = yield from self._received(timeout_s)
        if answer is None:
            failure = self._worker.hung(timeout_s, doing, self._channel)
            yield from self._killed(failure)
            raise CaseLostError(failure)
        if "ended" in answer:
            self.over = True
            tail = self.output_tail()
            raise CaseLostError(cause_of_death(self._worker.side, int(answer["ended"]), tail, self._oom_kills))
        return answer

    def _killed(self, failure: Failure) -> Steps[None]:
        """Kill the case's child, which hung; its worker, if it has none. Raises WorkerLostError: it had none, or the
        worker is lost, too."""
        if not self._fork or self.pid == self._worker.pid:
            raise self._worker.lost(failure)
        started: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            started = psutil.Process(self.pid).children(recursive=True)
        for pid in (self.pid, *(process.pid for process in started)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ending = True
        while not self.over:
            answer = yield from self._received(DYING_S)
            if answer is None:
                raise self._worker.lost(failure)
            self.over = "ended" in answer  # or else an answer that came too late

    def _received(self, timeout_s: float) -> Steps[dict[str, Any] | None]:
        try:
            return (yield from self._channel.receiving(timeout_s))
        except ClosedError:
            raise self._worker.lost(self._worker.cause_of_exit()) from None
        except ValueError:
            failure = Failure(self._worker.side, "crash", "stopped while answering", self.output_tail())
            raise self._worker.lost(failure) from None


def kill_session(leader: int) -> None:
    """Kill a worker, its children, and what they have started in process groups of their own."""
    _signal_group(leader, signal.SIGSTOP)  # stopped, it can't wait for a child that ends now
    count_orphans(_session(leader) - {leader})
    _signal_group(leader, signal.SIGKILL)
    for pid in _session(leader):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _session(leader: int) -> set[int]:
    pids = set()
    for pid in psutil.pids():
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is somebody else's
            if os.getsid(pid) == leader:
                pids.add(pid)
    return pids


def pin(pid: int, cpus: frozenset[int]) -> None:
    """Keep every thread of a process on ``cpus``: those that a framework started, too."""
    with contextlib.suppress(psutil.Error):  # it has ended; the next request reports it
        for thread in psutil.Process(pid).threads():
            with contextlib.suppress(OSError):  # a thread that has just ended
                os.sched_setaffinity(thread.id, cpus)
