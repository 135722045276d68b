"""Lock files, and the lock by which one driver at a time uses a work directory."""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from opduel.records import RunError, disk_error

ANOTHER_FOLDER = "give another folder with --work_dir"
_NAME = "driver.lock"

log = logging.getLogger(__name__)


@contextmanager
def explained_disk_errors(place: Path, other_place: str = ANOTHER_FOLDER) -> Iterator[None]:
    """Raise RunError for an error of the file system on what is written at ``place``; ``other_place`` says how to give
    another one."""
    try:
        yield
    except OSError as error:
        raise disk_error(place, error, other_place) from None


@contextmanager
def sole_driver(work: Path, waits: bool = False) -> Iterator[None]:
    """Hold the lock of the work directory ``work``, which is made if it isn't there.

    The lock ends with this process, however that ends; the file stays. RunError: another driver holds it, unless this
    one ``waits`` for it; or the directory can't be written.
    """

    def wait(descriptor: int) -> None:
        holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip() or "unknown"
        if not waits:
            raise RunError(
                f"{work}: another driver (process {holder}) is using it: wait until it ends, or give another --work_dir"
            )
        log.info("waiting for process %s, which is using %s", holder, work)

    with ExitStack() as stack:
        with explained_disk_errors(work):
            work.mkdir(parents=True, exist_ok=True)
            descriptor = stack.enter_context(held_lock(work / _NAME, wait))
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield


@contextmanager
def held_lock(path: Path, wait: Callable[[int], None]) -> Iterator[int]:
    """Hold the lock of a file, and yield the descriptor that holds it. If somebody else has it, ``wait`` is called with
    the descriptor before it is waited for."""
    with lock_file(path) as descriptor:
        if not try_lock(descriptor):
            wait(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Yield the descriptor of a lock file, which is never removed: a lock on a removed file would exclude nobody."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock of a file, unless another process has it; return whether that was done."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
