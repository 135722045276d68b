"""Commands as processes of their own, without loading the libraries again: forked from a process that has loaded them.

Loading takes a command a second of processor time, which is most of what many tests take.  A forked process has its own
arguments, environment, folder, streams and signal handlers, and runs the script from the first line on, as
``python SCRIPT`` does.  tests/commands/test_bootstrap.py starts real interpreters: what comes before is tested there.
"""

import atexit
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
# The commands; and what they load only when they need it.
ONE_FORK = ROOT / "tests" / "one_fork.py"
LOADED = ("opduel", "harness", "repo_driver", "in_build", "listing", "sending")
LIBRARIES = ("rich.console", "rich.progress", "rich.table", "rich.live")
# An interpreter reads these when it starts: too late for a process that is forked.
EARLY = ("PYTHON", "LC_", "LANG", "OPENBLAS_")


class Forked:
    """A running script, with the part of ``subprocess.Popen`` that tests use; ``stdout`` and ``stderr`` are texts."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int | IO[str] = subprocess.DEVNULL,
        stdout: int | IO[str] = subprocess.PIPE,
        stderr: int | IO[str] = subprocess.PIPE,
        terminal: bool = False,
        first: Path | None = None,
    ) -> None:
        """Start ``command``: this interpreter, a script, and its arguments.

        ``terminal``: stdin is its terminal. ``first``: a script that runs before the libraries are loaded, once for all
        processes that say so.

        Raises:
            ValueError: not this interpreter with a script, or a variable that only a new interpreter would read.
        """
        program, script, *arguments = map(str, command)
        variables = dict(os.environ if env is None else env)
        if program != sys.executable or script.startswith("-"):
            raise ValueError(f"{command}: not a script of this interpreter")
        early = [name for name in variables if name.startswith(EARLY) and variables[name] != os.environ.get(name)]
        if early:
            raise ValueError(f"{early}: start a new interpreter")
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self.returncode: int | None = None
        descriptors, opened = [], []
        for name, target in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            if target == subprocess.PIPE:
                reading, writing = os.pipe()
                setattr(self, name, open(reading, encoding="utf-8", errors="replace"))  # noqa: SIM115
                opened.append(writing)
                descriptors.append(writing)
            elif target == subprocess.DEVNULL:
                opened.append(os.open(os.devnull, os.O_RDWR))
                descriptors.append(opened[-1])
            else:
                descriptors.append(target if isinstance(target, int) else target.fileno())
        self._status, telling = os.pipe()
        request = {
            "script": script, "arguments": arguments, "environment": variables,
            "folder": str(cwd or Path.cwd()), "terminal": terminal,
        }  # fmt: skip
        socket.send_fds(_server(first), [json.dumps(request).encode()], [*descriptors, telling])
        for end in (*opened, telling):
            os.close(end)
        self.pid = int(self._read_line())

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._note_end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most ``timeout`` seconds; returns the exit code."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._note_end()
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; returns all that it wrote into pipes."""
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr)]
            try:
                out, err = (text.result(timeout) if text else "" for text in texts)
            except TimeoutError:
                self.kill()
                raise
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def _note_end(self) -> None:
        self.returncode = int(self._read_line())
        os.close(self._status)

    def _read_line(self) -> str:
        text = b""
        while not text.endswith(b"\n"):
            byte = os.read(self._status, 1)
            assert byte, "the process that forks has ended"
            text += byte
        return text.decode()


def run_forked(
    command: Sequence[str | Path], timeout: float | None = None, cwd: Path = ROOT, first: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run such a script to its end; return how it ended, and what it printed."""
    with Forked(command, cwd=cwd, first=first) as process:
        out, err = process.communicate(timeout)
        return subprocess.CompletedProcess([*map(str, command)], process.wait(), out, err)


@functools.cache
def _server(first: Path | None) -> socket.socket:
    """The connection to the process that has everything loaded; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    command = [sys.executable, __file__, str(theirs.fileno()), *([] if first is None else [str(first)])]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(requests: socket.socket) -> dict[str, Any]:
    """Fork a process for each request, and tell when it ends; returns in each of these, with its request."""
    woken, waking = os.pipe()
    for end in (woken, waking):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    while True:
        ready = select.select([requests, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            for pid in [*running]:
                finished_pid, status = os.waitpid(pid, os.WNOHANG)
                if finished_pid:
                    _tell(running.pop(pid), os.waitstatus_to_exitcode(status))
        if requests in ready:
            message, descriptors, *_ = socket.recv_fds(requests, 1 << 20, 4)
            if not message:
                raise SystemExit(0)
            pid = os.fork()
            if pid:
                running[pid] = descriptors.pop()
                _tell(running[pid], pid, is_last=False)
                for end in descriptors:
                    os.close(end)
                continue
            requests.close()
            signal.set_wakeup_fd(-1)
            for end in (woken, waking, descriptors.pop(), *running.values()):
                os.close(end)
            for number, end in enumerate(descriptors):
                os.dup2(end, number)
                os.close(end)
            details: dict[str, Any] = json.loads(message)
            return details


def _tell(end: int, number: int, is_last: bool = True) -> None:
    try:
        os.write(end, f"{number}\n".encode())
    except BrokenPipeError:  # nobody waits for it any more
        pass
    if is_last:
        os.close(end)


def become(request: Mapping[str, Any]) -> str:
    """Make this process what a new interpreter would be for the request; returns the script to run."""
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    buffering = 1 if os.isatty(1) else -1
    sys.stdout = sys.__stdout__ = open(1, "w", buffering=buffering, closefd=False)  # noqa: SIM115
    errors = "backslashreplace"
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors=errors, closefd=False)  # noqa: SIM115
    sys.argv = [request["script"], *request["arguments"]]
    sys.path[0] = str(Path(request["script"]).resolve().parent)
    return str(request["script"])


if __name__ == "__main__":
    sys.path.insert(1, str(ROOT))
    if sys.argv[2:]:
        runpy.run_path(sys.argv[2])
    for loaded in (*LIBRARIES, *(f"opduel.commands.{name}" for name in LOADED)):
        importlib.import_module(loaded)
    sys.path.remove(str(ROOT))
    gc.collect()
    gc.freeze()
    runpy.run_path(become(serve(socket.socket(fileno=int(sys.argv[1])))), run_name="__main__")
