"""One worker process, as the controller sees it: start, ask with a deadline, learn how it died."""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from records import Build, Failure
from records.measurement import Side

WORKER = Path(__file__).resolve().parent / "worker" / "main.py"
START_TIMEOUT_S = 180.0  # importing a framework on a busy machine
STEP_TIMEOUT_S = 60.0  # steps that take milliseconds
LAST_WORDS_BYTES = 2000
DYING_S = 5.0  # between the end of a worker's answers and its exit

_FATAL = re.compile(r"(segmentation fault|floating point exception|aborted|illegal instruction|bus error)", re.I)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\x1b\[[0-9;]*[A-Za-z]")


class CaseRefusedError(Exception):
    """The framework raised on a request; the worker lives on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class CaseLostError(Exception):
    """The child that measured the case died or hung; the worker lives on and can begin another."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class WorkerLostError(Exception):
    """The worker died, hung or spoke nonsense; it is gone now."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for memory since boot; 0 where it doesn't say."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


class Worker:
    """A worker process of one side. Use as a context manager: leaving it ends the process."""

    def __init__(self, side: Side, build: Build, adaptor: Path, environment: Mapping[str, str], cpus: frozenset[int]):
        """Start it, without waiting for it to be ready.

        ``environment`` is the whole environment that it gets; ``cpus`` those that it may use.

        Raises:
            WorkerLostError: it could not even be started.
        """
        self.side: Side = side
        self._oom_kills = out_of_memory_kills()
        with contextlib.ExitStack() as ends:  # closed in any case: the worker's ends of the pipes
            try:
                self._start(build, adaptor, environment, ends)
            except OSError as error:
                reason = f"could not be started ({error.strerror or error}): {build.interpreter}"
                raise WorkerLostError(Failure(side, "start", reason)) from None
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._process.pid, cpus)
        self._words_from = 0
        self._begun = False
        self._buffer = b""
        self._child: int | None = None  # the process that measures the case in progress, if not the worker's own
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)

    def _start(self, build: Build, adaptor: Path, environment: Mapping[str, str], ends: contextlib.ExitStack) -> None:
        with contextlib.ExitStack() as kept:  # closed unless all goes well: our own ends
            self._output = kept.enter_context(tempfile.TemporaryFile())
            request_read, self._requests = os.pipe()
            ends.callback(os.close, request_read)
            kept.callback(os.close, self._requests)
            self._answers, answer_write = os.pipe()
            ends.callback(os.close, answer_write)
            kept.callback(os.close, self._answers)
            descriptors = ["--read_fd", str(request_read), "--write_fd", str(answer_write)]
            self._process = subprocess.Popen(
                [build.interpreter, str(WORKER), "--adaptor", str(adaptor), *descriptors],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env={**environment, **build.environment},
                pass_fds=(request_read, answer_write),
                start_new_session=True,
                cwd=tempfile.gettempdir(),
            )
            kept.pop_all()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> dict[str, Any]:
        """Wait until the framework is imported; returns its versions.

        Raises:
            WorkerLostError: it died or hung.
        """
        return dict(self._receive(timeout_s, "starting up")["ready"])

    def pin(self, cpus: frozenset[int]) -> None:
        """Keep it, and the children that it will fork, on these processors.

        Raises:
            WorkerLostError: it died or hung.
        """
        self._send({"op": "pin", "cpus": sorted(cpus)})
        self._receive(STEP_TIMEOUT_S, "pinning")

    def begin(self, fork: bool) -> None:
        """Make ready for a case: in a child of its own, or in the worker's own process if ``fork`` is false.

        Raises:
            CaseLostError, WorkerLostError: the child or the worker died or hung.
        """
        self._words_from = os.fstat(self._output.fileno()).st_size
        self._oom_kills = out_of_memory_kills()
        self._send({"op": "begin", "fork": fork})
        child = int(self._answer(STEP_TIMEOUT_S, "beginning a case")["pid"])
        self._child = child if fork else None
        self._begun = True

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request for the case that was begun and return the answer.

        Raises:
            CaseRefusedError: the framework raised; the case can still be asked.
            CaseLostError: the case's child died, or there was no answer within ``timeout_s`` seconds.
            WorkerLostError: the worker did.
        """
        self._send(request)
        answer = self._answer(timeout_s, str(request["op"]))
        if "error" in answer:
            error = answer["error"]
            raise CaseRefusedError(Failure(self.side, error["kind"], error["reason"], self.last_words()))
        return answer

    def end(self) -> None:
        """End the case, and its child; nothing to do for a case that was lost.

        Raises:
            WorkerLostError: the worker died or hung.
        """
        if not self._begun:
            return
        self._begun = False
        with contextlib.suppress(CaseLostError):  # it hung at its end, with everything measured
            self._send({"op": "end"})
            self._receive(STEP_TIMEOUT_S, "ending a case")
        self._child = None

    def last_words(self) -> str:
        """The tail of what was printed since the case began, made printable."""
        output = self._output.fileno()  # pread: the worker writes at the offset that it shares with us
        size = os.fstat(output).st_size
        tail = os.pread(output, LAST_WORDS_BYTES, max(self._words_from, size - LAST_WORDS_BYTES))
        return _CONTROL_CHARACTERS.sub("", tail.decode("utf-8", "replace")).strip()

    def close(self) -> None:
        """End the process, its children and the pipes. Idempotent."""
        if self._requests < 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        os.close(self._requests)
        os.close(self._answers)
        self._requests = -1
        self._output.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            os.write(self._requests, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise self._lost(self._how_it_died()) from None

    def _answer(self, timeout_s: float, doing: str) -> dict[str, Any]:
        """The answer of the case in progress.

        Raises:
            CaseLostError, WorkerLostError: there is none.
        """
        answer = self._receive(timeout_s, doing)
        if "ended" in answer:
            self._child = None
            self._begun = False
            raise CaseLostError(self._cause(int(answer["ended"])))
        return answer

    def _receive(self, timeout_s: float, doing: str) -> dict[str, Any]:
        """The next message. When none comes in time, a child is killed and the case lost; else the worker is."""
        line = self._read_line(timeout_s)
        if line is None:
            failure = Failure(self.side, "timeout", f"no answer within {timeout_s:g} s ({doing})", self.last_words())
            if self._child is None:
                raise self._lost(failure)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            self._child = None
            self._begun = False
            while "ended" not in self._receive(DYING_S, "ending a case that hung"):
                pass  # an answer that came too late
            raise CaseLostError(failure)
        try:
            return dict(json.loads(line))
        except ValueError:  # a child died while it wrote
            raise self._lost(Failure(self.side, "crash", "stopped in mid-answer", self.last_words())) from None

    def _read_line(self, timeout_s: float) -> bytes | None:
        """One line; None when the time is up.

        Raises:
            WorkerLostError: the worker has closed its end.
        """
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._selector.select(remaining):
                return None
            chunk = os.read(self._answers, 1 << 16)
            if not chunk:
                raise self._lost(self._how_it_died())
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _how_it_died(self) -> Failure:
        try:
            return self._cause(self._process.wait(DYING_S))
        except subprocess.TimeoutExpired:
            return Failure(self.side, "crash", "closed its pipe and hung", self.last_words())

    def _cause(self, code: int) -> Failure:
        """What an exit code (-N for signal N) and the last words tell."""
        words = self.last_words()
        if code == -signal.SIGKILL:
            if out_of_memory_kills() > self._oom_kills:
                return Failure(self.side, "out-of-memory", "killed by the kernel: out of memory", words)
            return Failure(self.side, "killed", "killed by SIGKILL (by hand, or a memory limit)", words)
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return Failure(self.side, "crash", f"killed by {name}", words)
        # Frameworks that catch SIGSEGV print it and exit with a code of their own.
        fatal = _FATAL.findall(words)
        said = f", having printed {fatal[-1]!r}" if fatal else ""
        return Failure(self.side, "crash", f"exited with code {code}{said}", words)

    def _lost(self, failure: Failure) -> WorkerLostError:
        self.close()
        return WorkerLostError(failure)
