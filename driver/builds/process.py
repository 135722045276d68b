"""Running a program of a build: in a clean environment, bounded in time, and why it failed in one line."""

import fcntl
import os
import selectors
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opduel.records.output import key_line

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
_LOOK_S = 0.1  # how often is looked whether a process that prints nothing has ended


@dataclass(frozen=True)
class Outcome:
    """How a program ended; ``code`` is negative for a signal and None for a time-out, or, ``flooded``, for one that was
    stopped because it printed too much."""

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
    """This process's variables without those that redirect Python or uv and without our secrets, with ``extra`` on top.

    The user's own index, proxy and cache settings for uv stay.
    """
    dropped = {*_INTERPRETER_VARIABLES, *_UV_VARIABLES, *_TOKENS}
    kept = {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith(("PYTHON", "OPDUEL_"))}
    return {**kept, **(extra or {})}


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
    even if this process is killed.

    Raises:
        OSError: it can't be started.
    """
    with subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(environment) if whole_environment is None else dict(whole_environment),
        cwd=directory,
        pass_fds=tuple(inherit),
    ) as process:
        try:
            return _ended(process, time.monotonic() + timeout)
        except BaseException:
            process.kill()
            raise


def _length(pipe: int) -> int:
    """How many bytes are in a pipe, at least 1."""
    return max(1, int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder))


def _ended(process: subprocess.Popen[bytes], deadline: float) -> Outcome:
    """Read what a process prints until it closes both streams, and wait for its end; kill one that goes too far.

    Processes that it leaves behind may keep the streams open: when it has ended, what is there is read, and no more.
    """
    printed: dict[object, list[bytes]] = {process.stdout: [], process.stderr: []}
    room, in_time = MOST_OUTPUT, True
    with selectors.DefaultSelector() as selector:
        for stream in printed:
            selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
        while selector.get_map() and room > 0 and in_time:
            has_ended = process.poll() is not None
            wait_s = 0.0 if has_ended else min(_LOOK_S, max(0.0, deadline - time.monotonic()))
            for key, _ in selector.select(wait_s):
                piece = os.read(key.fd, _length(key.fd) if has_ended else _CHUNK)
                printed[key.fileobj].append(piece)
                room -= len(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            in_time = time.monotonic() < deadline
            if has_ended:
                break
    code = process.returncode if room > 0 else None
    if code is None and room > 0 and in_time:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(max(0.0, deadline - time.monotonic()))
    if code is None:
        process.kill()
        process.wait()
    texts = [b"".join(pieces).decode(errors="replace") for pieces in printed.values()]
    return Outcome(code, texts[0], texts[1], flooded=room <= 0)
