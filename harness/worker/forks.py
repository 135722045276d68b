"""Whether a fork of a worker loses threads: seen at the fork itself, before runs of several threads.

Libraries that know of forks stop their threads before, and begin them again when they are needed (POSIX,
pthread_atfork); those of others are lost, and the child waits for them forever.  Handlers run in the reverse order of
their registration: one that is registered before the framework is imported sees what is left when all libraries have
stopped theirs. Standard library and Python 3.6 syntax only, as main.py.
"""

import contextlib
import ctypes
import os
import time

TASKS = "/proc/self/task"
ENDING_S = 0.2  # a thread that was waited for is still listed until the kernel has put it away


class Watch:
    """The threads that the latest fork has lost, ``lost``: their names; None where they can't be seen.

    A child has what was seen at its own fork.
    """

    def __init__(self):
        self.lost = None
        self.handler = ctypes.CFUNCTYPE(None)(self.look)  # kept: the C library calls it for as long as we live
        library = ctypes.CDLL(None)
        # glibc has pthread_atfork in the part of it that is linked into each program; this is what it calls.
        register = getattr(library, "__register_atfork", None)
        if register is not None:
            register(self.handler, None, None, None)

    def look(self):
        self.lost = None
        deadline = time.monotonic() + ENDING_S
        while other_threads() and time.monotonic() < deadline:
            time.sleep(0.001)
        self.lost = other_threads()


def other_threads():
    """The names of this process' threads but for the first. Raises OSError where there is no /proc."""
    names = []
    for task in os.listdir(TASKS):
        if int(task) != os.getpid():
            with contextlib.suppress(OSError), open(os.path.join(TASKS, task, "comm")) as stream:  # it may have ended
                names.append(stream.read().strip())
    return names
