"""Run a program of a build in a clean environment with a time limit, and explain a failure in one line."""

import logging
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opduel.support.output import key_line
from opduel.support.text import clipped

log = logging.getLogger(__name__)

# What would make another interpreter or another set of packages answer than the one that was asked.
_INTERPRETER_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "__PYVENV_LAUNCHER__", "PYENV_VERSION")
_UV_VARIABLES = (
    "UV_BUILD_CONSTRAINT",
    "UV_CONSTRAINT",
    "UV_OVERRIDE",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_VENV_SEED",
    "UV_WORKING_DIR",
)


MOST_OUTPUT = 64 * 2**20  # bytes, on both streams together: what is asked for is some MiB of JSON
_CHUNK = 1 << 16
_REST_S = 0.3  # for the output of a process that has ended, which may pass through another one, such as tee
_MOST_REST = 1 << 20  # bytes of that, more than pipes hold
SAYS_AFTER_S = 60.0  # that a program is still running, and again after as long
_LOOK_S = 0.1  # how often is looked whether a process that prints nothing has ended


@dataclass(frozen=True)
class Outcome:
    """How a program ended; ``code`` is negative for a signal, and None if it took too long or, ``flooded``, printed
    too much."""

    code: int | None
    stdout: str
    stderr: str
    flooded: bool = False

    @property
    def ok(self) -> bool:
        """It ended in 0."""
        return self.code == 0

    @property
    def output_tail(self) -> str:
        """The line of stderr that says what went wrong, or else how it ended."""
        if self.flooded:
            return f"stopped: it printed more than {MOST_OUTPUT // 2**20} MiB"
        if self.code is None:
            return "no answer in time"
        line = key_line(self.stderr)
        if self.code < 0:
            name = signal.Signals(-self.code).name if -self.code in set(signal.Signals) else f"signal {-self.code}"
            return f"died of {name}" + (f" after saying {line!r}" if line else "")
        return line or f"ended with exit code {self.code} and no output"


# What --github comments with: a commit's build script must not have it.
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's variables without our secrets and those that redirect Python or uv, with ``extra`` on top.

    The user's own index, proxy and cache settings for uv stay.
    """
    dropped = {*_INTERPRETER_VARIABLES, *_UV_VARIABLES, *_TOKENS}
    variables = {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith(("PYTHON", "OPDUEL_"))}
    return {**variables, **(extra or {})}


def run(
    command: Sequence[str | Path],
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    whole_environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    inherit: Sequence[int] = (),
) -> Outcome:
    """Run ``command`` to its end, for ``timeout`` seconds at most, without input; it may print ``MOST_OUTPUT`` bytes.

    ``environment`` is added to a cleaned copy of our own; ``whole_environment`` takes the place of both.  The program
    inherits the file descriptors ``inherit``: a lock that is held through one of them lasts until it has ended too,
    even if this process is killed. OSError: it can't be started.
    """
    with subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(environment) if whole_environment is None else dict(whole_environment),
        cwd=directory,
        pass_fds=tuple(inherit),
        process_group=0,
    ) as process:
        try:
            return _wait(process, time.monotonic() + timeout)
        except BaseException:
            _kill(process)
            raise


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, and those that it started, which would hold on to the lock that they inherited."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _say_that_it_runs(process: subprocess.Popen[bytes], seconds: float, errors: Sequence[bytes]) -> None:
    """Log for how long a program runs, and the last line of its errors."""
    assert isinstance(process.args, list)
    words = " ".join(Path(word).name for word in process.args[:2])
    last = b"".join(errors[-2:]).decode(errors="replace").strip().splitlines()[-1:]
    log.info("%s has been running for %.0f s%s", words, seconds, f": {clipped(last[0], 200)}" if last else "")


def _wait(process: subprocess.Popen[bytes], deadline: float) -> Outcome:
    """Read what a process prints until it closes both streams, and wait for its end; kill one that goes too far.

    Processes that it leaves behind may keep the streams open, and print: when it has ended, only ``_REST_S`` and
    ``_MOST_REST`` are left for what is still on its way.
    """
    printed: dict[object, list[bytes]] = {process.stdout: [], process.stderr: []}
    room, in_time, ended_at = MOST_OUTPUT, True, None
    began = says_at = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for stream in printed:
            selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
        while selector.get_map() and room > 0 and in_time:
            now = time.monotonic()
            if now >= says_at + SAYS_AFTER_S:
                says_at = now
                _say_that_it_runs(process, now - began, printed[process.stderr])
            if ended_at is None and process.poll() is not None:
                ended_at, room = now, min(room, _MOST_REST)
            for key, _ in selector.select(min(_LOOK_S, max(0.0, deadline - now))):
                piece = os.read(key.fd, _CHUNK)
                printed[key.fileobj].append(piece)
                room -= len(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            in_time = time.monotonic() < deadline
            if ended_at is not None and time.monotonic() > ended_at + _REST_S:
                break
    flooded = room <= 0 and ended_at is None
    code = process.returncode if ended_at is not None else None
    if code is None and room > 0 and in_time:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(max(0.0, deadline - time.monotonic()))
    if code is None:
        _kill(process)
        process.wait()
    texts = [b"".join(pieces).decode(errors="replace") for pieces in printed.values()]
    return Outcome(code, texts[0], texts[1], flooded=flooded)
