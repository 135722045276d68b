"""Imports that a worker does before it forks, once they are known to be safe: each case's process is forked from it."""

import contextlib
import os
import signal
import time

LIMIT_S = 120
ENDING_S = 0.2  # a thread that was waited for is still listed until the kernel has put it away
TASKS = "/proc/self/task"


def import_if_safe(import_all, names):
    """``import_all(names)`` in this process, if a child of it has done the same without an error.

    Otherwise, as on a system without /proc, nothing is imported here, and each case's process does it for itself: a
    module that crashes, hangs or raises when it is imported then fails its own cases alone.
    """
    if names and os.path.isdir(TASKS) and is_safe(import_all, names):
        import_all(names)


def is_safe(import_all, names):
    """Whether a child of this process can import all of them, and begins no thread by that which a fork would lose."""
    pid = os.fork()
    if pid == 0:
        done = 1
        with contextlib.suppress(BaseException):
            signal.alarm(LIMIT_S)
            import_all(names)
            done = 1 if loses_threads() else 0
        os._exit(done)
    return os.waitpid(pid, 0)[1] == 0


def loses_threads():
    """Whether this process, when it forks, has other threads than the one that does. Found out by forking.

    A library that knows of forks stops its threads before, and begins them again when they are needed: OpenBLAS's,
    which it begins when it is loaded, are gone after a fork. One that begins them again at once counts as losing them.
    """
    if len(os.listdir(TASKS)) == 1:
        return False
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    ends = time.time() + ENDING_S
    while len(os.listdir(TASKS)) > 1:
        if time.time() > ends:
            return True
        time.sleep(0.001)
    return False
