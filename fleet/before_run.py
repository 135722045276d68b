"""A host's own command before it measures a shard: to drop caches, to wait until it has cooled down."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

from opduel.records.text import one_line

POLL_S = 0.2
SAID_EVERY_S = 30.0  # whoever hears nothing of a host for minutes gives it up
_TAIL = 2000  # bytes of its output


def run_before(command: str, timeout_s: float, say: Callable[[], None]) -> str | None:
    """Run the shell command; returns why the host can't measure then, in one line: it failed, or took too long, and was
    killed with all that it started. ``say`` is called at its start and now and then. An exception ends it, too."""
    began = time.monotonic()
    said = began - SAID_EVERY_S
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            while process.poll() is None:
                if time.monotonic() - said >= SAID_EVERY_S:
                    said = time.monotonic()
                    say()
                if time.monotonic() - began > timeout_s:
                    return f"--before_run took more than {timeout_s:g} s: it was ended, and nothing is measured here"
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
        finally:
            if process.poll() is None:
                _kill(process)
        if process.returncode == 0:
            return None
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL))
        lines = output.read().decode("utf-8", "replace").strip().splitlines()
    how = (
        f"ended with {process.returncode}" if process.returncode > 0 else f"was killed by signal {-process.returncode}"
    )
    return f"--before_run {how}: {one_line(lines[-1]) if lines else 'it said nothing'}"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
