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
LAST_WORDS_BYTES = 2000
DYING_S = 5.0  # between the end of a worker's answers and its exit

_FATAL = re.compile(r"(segmentation fault|floating point exception|aborted|illegal instruction|bus error)", re.I)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\x1b\[[0-9;]*[A-Za-z]")


class CaseRefusedError(Exception):
    """The framework raised on a request; the worker lives on."""

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
        """
        self.side: Side = side
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        self._oom_kills = out_of_memory_kills()
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        self._process = subprocess.Popen(
            [
                build.interpreter,
                str(WORKER),
                "--adaptor",
                str(adaptor),
                "--read_fd",
                str(request_read),
                "--write_fd",
                str(answer_write),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**environment, **build.environment},
            pass_fds=(request_read, answer_write),
            start_new_session=True,
            cwd=tempfile.gettempdir(),
        )
        os.close(request_read)
        os.close(answer_write)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._process.pid, cpus)
        self._requests = request_write
        self._answers = answer_read
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(answer_read, selectors.EVENT_READ)

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

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            CaseRefusedError: the framework raised.
            WorkerLostError: the worker died, or there was no answer within ``timeout_s`` seconds.
        """
        try:
            os.write(self._requests, json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._lost(self._how_it_died()) from None
        answer = self._receive(timeout_s, str(request["op"]))
        if "error" in answer:
            error = answer["error"]
            raise CaseRefusedError(Failure(self.side, error["kind"], error["reason"], self.last_words()))
        return answer

    def last_words(self) -> str:
        """The tail of what the process printed, made printable."""
        output = self._output.fileno()  # pread: the worker writes at the offset that it shares with us
        size = os.fstat(output).st_size
        tail = os.pread(output, LAST_WORDS_BYTES, max(0, size - LAST_WORDS_BYTES))
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

    def _receive(self, timeout_s: float, doing: str) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._selector.select(remaining):
                reason = f"no answer within {timeout_s:g} s ({doing})"
                raise self._lost(Failure(self.side, "timeout", reason, self.last_words()))
            chunk = os.read(self._answers, 1 << 16)
            if not chunk:
                raise self._lost(self._how_it_died())
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    def _how_it_died(self) -> Failure:
        try:
            code = self._process.wait(DYING_S)
        except subprocess.TimeoutExpired:
            return Failure(self.side, "crash", "closed its pipe and hung", self.last_words())
        words = self.last_words()
        if code == -signal.SIGKILL:
            if out_of_memory_kills() > self._oom_kills:
                return Failure(self.side, "out-of-memory", "killed by the kernel: out of memory", words)
            return Failure(self.side, "killed", "killed by SIGKILL (by hand, or a memory limit)", words)
        if code < 0:
            return Failure(self.side, "crash", f"killed by {signal.Signals(-code).name}", words)
        # Frameworks that catch SIGSEGV print it and exit with a code of their own.
        fatal = _FATAL.findall(words)
        said = f", having printed {fatal[-1]!r}" if fatal else ""
        return Failure(self.side, "crash", f"exited with code {code}{said}", words)

    def _lost(self, failure: Failure) -> WorkerLostError:
        self.close()
        return WorkerLostError(failure)


def base_environment() -> dict[str, str]:
    """What every worker's environment starts from: little of the user's own, and the same for both sides.

    glibc's malloc is kept from giving freed blocks back to the kernel, which makes some processes ten times
    slower than others.  33554432 is the largest threshold that glibc accepts (half of HEAP_MAX_SIZE).
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {
        **kept,
        **{name: value for name, value in os.environ.items() if name.startswith(("CUDA_", "NVIDIA_"))},
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONIOENCODING": "utf-8",
        "MALLOC_MMAP_THRESHOLD_": "33554432",
        "MALLOC_TRIM_THRESHOLD_": "17179869184",
        "MALLOC_TOP_PAD_": "67108864",
    }
