"""One driver in a work directory, whatever became of the one before."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from opduel.driver.lock import sole_driver
from opduel.records import NoSpaceError, RunError


def test_a_second_one_is_refused_and_names_who_is_there(tmp_path: Path) -> None:
    with sole_driver(tmp_path / "work"):
        with pytest.raises(RunError) as refusal, sole_driver(tmp_path / "work"):
            pass
        with sole_driver(tmp_path / "other"):
            pass
    assert f"another driver (process {os.getpid()}) is using it" in str(refusal.value)
    with sole_driver(tmp_path / "work"):
        pass


def test_or_waits_for_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    locked, order = threading.Event(), []

    def second() -> None:
        locked.wait()
        with sole_driver(tmp_path, waits=True):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with sole_driver(tmp_path):
        locked.set()
        while "waiting for process" not in caplog.text:
            time.sleep(0.01)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert f"waiting for process {os.getpid()}, which is using {tmp_path}" in caplog.text


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with sole_driver(tmp_path):
            os.write(write, b"held")
            signal.pause()
    assert os.read(read, 4) == b"held"
    with pytest.raises(RunError, match=f"process {child}"), sole_driver(tmp_path):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with sole_driver(tmp_path):
        pass


def test_what_a_holder_starts_does_not_keep_the_lock(tmp_path: Path) -> None:
    with sole_driver(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    with sole_driver(tmp_path):
        pass
    child.kill()
    child.wait()


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="give another folder with --work_dir"), sole_driver(tmp_path / "file" / "work"):
        pass


def test_a_full_disk_is_one_line_with_the_path(small_disk: Any) -> None:
    small_disk.fill()
    words = ": No space left on device: free some space, or give another folder with --work_dir"
    with pytest.raises(NoSpaceError) as full, sole_driver(small_disk.path / "work"):
        pass
    assert str(full.value).startswith(f"{small_disk.path}/work")
    assert str(full.value).endswith(words)
