"""Running a program of a build: in a clean environment, bounded in time, and why it failed in one line."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from records.output import telling_line

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


@dataclass(frozen=True)
class Outcome:
    """How a program ended; ``code`` is negative for a signal and None for a time-out."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """It ended in 0."""
        return self.code == 0

    @property
    def last_words(self) -> str:
        """The line of stderr that says what went wrong, or else how it ended."""
        line = telling_line(self.stderr)
        if self.code is None:
            return "no answer in time"
        if self.code < 0:
            name = signal.Signals(-self.code).name if -self.code in set(signal.Signals) else f"signal {-self.code}"
            return f"died of {name}" + (f" after saying {line!r}" if line else "")
        return line or f"ended with exit code {self.code} and no words"


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's variables without those that redirect Python or uv and without our secrets, with ``extra`` on top.

    The user's own index, proxy and cache settings for uv stay.
    """
    dropped = {*_INTERPRETER_VARIABLES, *_UV_VARIABLES}
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
    """Run ``command`` to its end, for ``timeout`` seconds at most, without input.

    ``environment`` is added to a cleaned copy of our own; ``whole_environment`` takes the place of both.  The program
    inherits the file descriptors ``inherit``: a lock that is held through one of them lasts until it has ended too,
    even if this process is killed.

    Raises:
        OSError: it can't be started.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            env=clean_environment(environment) if whole_environment is None else dict(whole_environment),
            cwd=directory,
            pass_fds=tuple(inherit),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(None, _text(error.stdout), _text(error.stderr))
    return Outcome(done.returncode, _text(done.stdout), _text(done.stderr))


def _text(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")
