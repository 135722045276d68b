"""What a worker imports before it forks: the modules of the run's cases, which a child would import for each case."""

import contextlib
import importlib
import os
import signal
import sys

from opduel_common.names import is_standard

NAMES = "OPDUEL_IMPORTS"  # set by the framework: dotted names, with commas between
LIMIT_S = 120
TASKS = "/proc/self/task"


def import_all(names):
    """Import the modules of these names, as far as each is one: the rest may be a class."""
    for name in names:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            try:
                importlib.import_module(".".join(parts[:count]))
            except ImportError:
                break  # a class, or what this build doesn't have; its case says so


def try_all(names):
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


def import_before_forking():
    """Import what the run's cases name, if that is safe; otherwise each case's process does.

    It is tried in a child first: a package that crashes, hangs or raises when it is imported fails its own cases alone.
    """
    names = [name for name in os.environ.get(NAMES, "").split(",") if name and not is_standard(name.split(".")[0])]
    if any(name not in sys.modules for name in names) and os.path.isdir(TASKS) and try_all(names):
        import_all(names)
