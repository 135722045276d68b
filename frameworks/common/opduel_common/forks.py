"""Import modules in a worker before it forks the processes of its cases, if a trial shows that this is safe."""

import contextlib
import os
import signal
import time

LIMIT_S = 60
ENDING_S = 0.2  # a joined thread stays listed until the kernel has removed it
TASKS = "/proc/self/task"


def import_if_safe(import_all, names):
    """Call ``import_all(names)`` in this process if a child of it could do the same without an error; return whether.

    Otherwise, as on a system without /proc, import nothing: each case's process imports for itself, so that a module
    that crashes, hangs or raises fails only its own cases.
    """
    if not (names and os.path.isdir(TASKS) and is_safe(import_all, names)):
        return False
    import_all(names)
    return True


def import_here(import_all, names):
    """Call ``import_all(names)``, and return whether this process can then be forked. End it if that hangs."""
    signal.alarm(LIMIT_S)
    import_all(names)
    signal.alarm(0)
    return os.path.isdir(TASKS) and not loses_threads()


def is_safe(import_all, names):
    """Return whether a child of this process can import all of them without starting threads that a fork would lose."""
    pid = os.fork()
    if pid == 0:
        exit_code = 1
        with contextlib.suppress(BaseException):
            exit_code = 0 if import_here(import_all, names) else 1
        os._exit(exit_code)
    return os.waitpid(pid, 0)[1] == 0


def loses_threads():
    """Fork once, and return whether this process still has threads other than the calling one.

    A library that handles forks stops its threads before a fork and starts them again when they are needed: OpenBLAS's
    are gone after a fork. A library that starts them again at once counts as losing them.
    """
    if len(os.listdir(TASKS)) == 1:
        return False
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    deadline = time.time() + ENDING_S
    while len(os.listdir(TASKS)) > 1:
        if time.time() > deadline:
            return True
        time.sleep(0.001)
    return False
