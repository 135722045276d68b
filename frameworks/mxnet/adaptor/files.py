"""Temporary files for operators that read or write one: in memory where there is a place for it, without a name."""

import os
import tempfile

MEMORY = "/dev/shm"


class HeldPath(str):
    """A path that keeps its file: it has no other name, so that it goes with the process, however that ends."""

    file = None


def file_holding(content):
    """The path of a new file with ``content``: bytes, a function that writes to a path, or None for nothing."""
    handle = tempfile.TemporaryFile(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)  # noqa: SIM115 - the path keeps it
    path = HeldPath("/proc/self/fd/{}".format(handle.fileno()))
    path.file = handle
    if isinstance(content, bytes):
        handle.write(content)
        handle.flush()
    elif content is not None:
        content(path)
    return path
