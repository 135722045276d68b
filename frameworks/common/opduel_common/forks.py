"""Imports that a worker does before it forks, once they are known to be safe: each case's process is forked from it."""

import contextlib
import os
import signal

LIMIT_S = 120
TASKS = "/proc/self/task"


def import_if_safe(import_all, names):
    """``import_all(names)`` in this process, if a child of it has done the same without an error.

    Otherwise, as on a system without /proc, nothing is imported here, and each case's process does it for itself: a
    module that crashes, hangs or raises when it is imported then fails its own cases alone.
    """
    if names and os.path.isdir(TASKS) and is_safe(import_all, names):
        import_all(names)


def is_safe(import_all, names):
    """Whether a child of this process can import all of them, and begins no thread by that, which a fork would lose."""
    pid = os.fork()
    if pid == 0:
        done = 1
        with contextlib.suppress(BaseException):
            signal.alarm(LIMIT_S)
            threads = len(os.listdir(TASKS))
            import_all(names)
            done = 0 if len(os.listdir(TASKS)) == threads else 1
        os._exit(done)
    return os.waitpid(pid, 0)[1] == 0
