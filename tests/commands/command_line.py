"""The commands as a user starts them: in this process, as a process, or on a pseudo-terminal."""

import contextlib
import json
import logging
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import ONE_FORK, Forked

from opduel.commands.opduel import main

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT / "harness.py"
RUN_BENCH = ROOT / "run_bench.py"
# The scripts, called in this process: with arguments, for an exit code.
harness_main, run_bench_main, driver_main = (
    partial(main, script=script) for script in ("harness.py", "run_bench.py", "repo_driver.py")
)
LONG_S = 300.0  # against hanging for ever, on however slow a machine; no test waits for it to pass

RELEASE = "mxnet==1.9.1"
ANYWAY = ("--busy_host", "report")  # these tests share their machine
SAME_BUILD = ("--control", RELEASE, "--treatment", RELEASE)
SPEC = {
    "framework": "mxnet",
    "tests": [{"operator": "nd.exp", "identifier": "exp_{ID}", "inputs": [{"data": [64, 64]}, {"data": [64, 128]}]}],
}
# The same in a framework whose workers start in a moment: for what is about runs, not about MXNet.
PYTHON_SAME_BUILD = ("--control", sys.executable, "--treatment", sys.executable)
PYTHON_SPEC = {
    "framework": "python",
    "tests": [
        {"operator": "numpy.exp", "identifier": "exp_{ID}", "inputs": [{"args": [[64, 64]]}, {"args": [[64, 128]]}]}
    ],
}


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    def error_line(self) -> str:
        """What it said when it was used wrongly: exit code 2, one line on stderr, nothing else anywhere."""
        assert self.code == 2, (self.code, self.err)
        assert self.out == ""
        assert self.err.count("\n") == 1, self.err
        assert ": error: " in self.err
        return self.err


def write_spec(folder: Path, spec: Mapping[str, Any] = SPEC) -> str:
    """A spec file in ``folder``; by default two cases of some microseconds."""
    path = folder / "tiny.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return str(path)


def run_script(
    script: Path, *arguments: str | Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Outcome:
    """Run one of the root commands to its end, its output going to pipes; see forked.py."""
    command, variables = [sys.executable, script, *arguments], {**os.environ, **(environment or {})}
    with Forked(command, env=variables, cwd=cwd, first=ONE_FORK) as process:
        out, err = process.communicate(LONG_S)
    assert process.returncode is not None
    return Outcome(process.returncode, out, err)


def run_process(
    arguments: Sequence[str | Path], environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Outcome:
    """Run a command to its end, in a new interpreter if it is Python's, its output going to pipes."""
    process = subprocess.run(
        [str(argument) for argument in arguments],
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    return Outcome(process.returncode, process.stdout, process.stderr)


@contextlib.contextmanager
def fresh_logging() -> Iterator[None]:
    """Logging as in a new process: pytest's own handlers keep ``basicConfig`` from doing its work."""
    handlers, level = logging.root.handlers, logging.root.level
    logging.root.handlers = []
    try:
        yield
    finally:
        logging.root.handlers = handlers
        logging.root.setLevel(level)


def outcome_of(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> Outcome:
    """How a script ends that is called in this process."""
    with fresh_logging():
        code = main(arguments)
    captured = capsys.readouterr()
    return Outcome(code, captured.out, captured.err)


class OnTerminal:
    """A command with its input and errors on a pseudo-terminal; its output is there too, or goes to a pipe."""

    def __init__(
        self, command: Path, arguments: Sequence[str], environment: Mapping[str, str], output_to_pipe: bool = False
    ) -> None:
        """Start it."""
        self._ours, theirs = pty.openpty()
        self.screen = ""
        self._searched_to = 0
        self.process = Forked(
            [sys.executable, command, *arguments],
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
            stdin=theirs,
            stdout=subprocess.PIPE if output_to_pipe else theirs,
            stderr=theirs,
            terminal=True,  # Ctrl-C and hanging up send it signals
            first=ONE_FORK,
        )
        os.close(theirs)

    def __enter__(self) -> "OnTerminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()
        if self.process.stdout:
            self.process.stdout.close()

    def hang_up(self) -> None:
        """Close the terminal; idempotent."""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def type(self, text: str) -> None:
        """Type on the keyboard: \\x03 is Ctrl-C, \\x04 is Ctrl-D."""
        os.write(self._ours, text.encode())

    def wait_for(self, pattern: str) -> None:
        """Read the terminal until ``pattern`` has been shown on it after what was waited for last."""
        deadline = time.monotonic() + LONG_S
        while not (match := re.compile(pattern).search(self.screen, self._searched_to)):
            assert time.monotonic() < deadline, f"{pattern!r} was never shown: {self.screen!r}"
            assert self._read(), f"it ended without showing {pattern!r}: {self.screen!r}"
        self._searched_to = match.end()

    def end(self) -> Outcome:
        """Wait for its end; everything that was on the terminal is the outcome's ``err``."""
        while self._ours >= 0 and self._read():
            pass
        out, _ = self.process.communicate(timeout=LONG_S)
        return Outcome(self.process.returncode, out or "", self.screen)

    def _read(self) -> bool:
        """Read a little; False at the end, when nobody holds the terminal any more."""
        ready, _, _ = select.select([self._ours], [], [], LONG_S)
        assert ready, f"nothing happened any more: {self.screen!r}"
        try:
            chunk = os.read(self._ours, 4096)
        except OSError:  # EIO: the other end is closed
            return False
        self.screen += chunk.decode("utf-8", "replace")
        return bool(chunk)


def only_report(folder: Path) -> dict[str, Any]:
    """The one report.json somewhere below ``folder``."""
    (path,) = folder.rglob("report.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def workers(temporary: Path) -> list[int]:
    """The living workers of the runs whose folder for temporary files is ``temporary``."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile, or another user's
            continue
        if (
            any(variable.startswith(b"OPDUEL_PADDING=") for variable in variables)
            and f"TMPDIR={temporary}".encode() in variables
        ):
            pids.append(int(entry.name))
    return pids


def wait_until_no_workers(temporary: Path) -> None:
    """Return when the last worker is gone; the kernel may take a moment."""
    deadline = time.monotonic() + LONG_S
    while workers(temporary):
        assert time.monotonic() < deadline, f"still alive: {workers(temporary)}"
        time.sleep(0.05)
