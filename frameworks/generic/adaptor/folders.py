"""Give a run a working folder of its own: a fresh one, removed afterwards, or one that no other run uses meanwhile."""

import contextlib
import fcntl
import os
import shutil
import tempfile

PREFIX = "opduel-run-"


@contextlib.contextmanager
def reserved(folder):
    """Yield the folder when no other run has it. OSError: it can't be used."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def fresh_folder(template):
    """Yield a new folder: a copy of the folder ``template``, or an empty one for None. OSError: it can't be made."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        if template:
            not_these = shutil.ignore_patterns(PREFIX + "*")
            shutil.copytree(template, folder, symlinks=True, ignore=not_these, dirs_exist_ok=True)
        yield folder
