"""Run a program of a build in a clean environment with a time limit, and explain a failure in one line."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from opduel.support.output import key_line

# What would make another interpreter or another set of packages answer than the one that was asked.
_INTERPRETER_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "__PYVENV_LAUNCHER__", "PYENV_VERSION")
_UV_VARIABLES = (
    *("UV_BUILD_CONSTRAINT", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON"),
    *("UV_SYSTEM_PYTHON", "UV_VENV_SEED", "UV_WORKING_DIR"),
)

MOST_OUTPUT = 64 * 2**20  # bytes, on both streams together: what is asked for is some MiB of JSON
_LOOK_S = 0.1  # between looks at how much it has printed


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
    Processes that it leaves behind are ended.

    ``environment`` is added to a cleaned copy of our own; ``whole_environment`` takes the place of both.  The program
    inherits the file descriptors ``inherit``: a lock that is held through one of them lasts until it has ended too,
    even if this process is killed. OSError: it can't be started.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=clean_environment(environment) if whole_environment is None else dict(whole_environment),
            cwd=directory,
            pass_fds=tuple(inherit),
            process_group=0,
        )
        code, flooded = None, False
        began = time.monotonic()
        try:
            while code is None and not flooded and (seconds := began + timeout - time.monotonic()) > 0:
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(min(seconds, _LOOK_S))
                flooded = (
                    code is None and sum(os.fstat(file.fileno()).st_size for file in (stdout, stderr)) > MOST_OUTPUT
                )
        finally:
            with suppress(ProcessLookupError, PermissionError):  # what it leaves behind would hold on to the lock
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return Outcome(code, _text(stdout), _text(stderr), flooded)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_OUTPUT).decode(errors="replace")
