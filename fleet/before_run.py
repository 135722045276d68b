"""A host's own command before each shard, such as to drop caches or to wait until the processor is cool."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

from opduel.records import RunError
from opduel.support.text import one_line

POLL_S = 0.2
EVENT_EVERY_S = 30.0  # a client gives up a host that sends nothing for minutes
_TAIL = 2000  # bytes of its output


def run_before(command: str, timeout_s: float, report_progress: Callable[[], None]) -> None:
    """Run the shell command. Raise RunError if it fails or takes too long.

    At the end, also by an exception, it is killed with all that it started. ``report_progress`` is called at its start
    and every ``EVENT_EVERY_S``.
    """
    began = time.monotonic()
    last_report = began - EVENT_EVERY_S
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            while process.poll() is None:
                if time.monotonic() - last_report >= EVENT_EVERY_S:
                    last_report = time.monotonic()
                    report_progress()
                if time.monotonic() - began > timeout_s:
                    raise RunError(
                        f"--before_run took more than {timeout_s:g} s: it was ended, and nothing is measured here"
                    )
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode == 0:
            return
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL))
        lines = output.read().decode("utf-8", "replace").strip().splitlines()
    code = process.returncode
    how = f"ended with {code}" if code > 0 else f"was killed by signal {-code}"
    raise RunError(f"--before_run {how}: {one_line(lines[-1]) if lines else 'it said nothing'}")
