"""Give a run a working folder of its own: a fresh one, removed afterwards, or one that no other run uses meanwhile."""

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
import time

PREFIX = "opduel-run-"
YOUNG_S = 60  # a folder may not be locked yet


@contextlib.contextmanager
def reserved(folder, wait=True):
    """Yield the folder while no other run has it, for which it may ``wait``. OSError: it can't be used, or another has
    it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield folder
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def fresh_folder(template):
    """Yield a new folder: a copy of the folder ``template``, or an empty one for None. OSError: it can't be made."""
    with reserved(tempfile.mkdtemp(prefix=PREFIX)) as folder:
        try:
            if template:
                not_these = shutil.ignore_patterns(PREFIX + "*")
                shutil.copytree(template, folder, symlinks=True, ignore=not_these, dirs_exist_ok=True)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_left_folders():
    """Remove fresh folders that nobody holds: their processes were killed."""
    for folder in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), PREFIX + "*")):
        with contextlib.suppress(OSError):
            if time.time() - os.stat(folder).st_ctime > YOUNG_S:
                with reserved(folder, wait=False):
                    shutil.rmtree(folder, ignore_errors=True)
