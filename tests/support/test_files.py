"""Whatever a user names as a file is read within bounds, or refused at once with the reason."""

import contextlib
import os
import resource
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from opduel.commands.config import read_config
from opduel.driver.builds.data_file import Strict, read_data
from opduel.driver.descriptor import read_info
from opduel.harness.specs.read import read_plain
from opduel.records import UsageError
from opduel.reporters import read_report
from opduel.reporters.notify_webhook import NotifyWebhook
from opduel.reporters.remote.token import find_token
from opduel.reporters.single import read_single
from opduel.support.files import MissingError, TooLargeError, UnreadableError, parse_json, read_bytes, read_text

READERS = {  # every reader of a file that a user names
    "the config": read_config,
    "--info": lambda path: read_info(str(path)),
    "a spec": read_plain,
    "a report": read_report,
    "--baseline": read_single,
    "--notify_webhook": lambda path: NotifyWebhook.from_option(f"@{path}"),
    "--remote_access_token_file": lambda path: find_token(None, str(path), {}),
    "a framework's data": lambda path: read_data(path, Strict, "a test"),
}


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Files that a naive reader waits for, or fills its memory with, or stumbles over."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    (tmp_path / "latin").write_bytes(b'{"a": "\xe9"}')
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "digits").write_text("9" * 10_000)
    (tmp_path / "empty").touch()
    for path in tmp_path.iterdir():
        if path.name not in ("dangling", "loop"):
            path.chmod(0o600 | path.stat().st_mode & 0o100)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        path_by_name = {path.name: path for path in tmp_path.iterdir()}
        yield {
            **path_by_name,
            "null character": Path("a\0b"),
            "zeros": Path("/dev/zero"),
            "random": Path("/dev/urandom"),
        }


@pytest.mark.parametrize("kind", READERS)
def test_every_reader_refuses_all_that_is_hostile(kind: str, hostile: dict[str, Path]) -> None:
    for name, path in hostile.items():
        if kind == "the config" and name == "dangling":
            assert read_config(path) == {}
            continue
        with pytest.raises(UsageError) as raised:
            READERS[kind](path)
        assert len(str(raised.value)) < 500


def test_hostile_files_cost_no_memory(hostile: dict[str, Path]) -> None:
    """All of them, by every reader, in a fork that may take little more than this process does."""
    pid = os.fork()
    if not pid:
        try:
            bytes_now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (bytes_now + 50 * 2**20,) * 2)
            for read in READERS.values():
                for path in hostile.values():
                    with contextlib.suppress(UsageError):
                        read(path)
            os._exit(0)
        finally:  # whatever was raised
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "is a folder"),
        ("dangling", "No such file or directory"),
        ("loop", "Too many levels of symbolic links"),
        ("sparse", "is larger than 2 MiB"),
        ("latin", r"is not UTF-8 text \(byte 7\)"),
        ("socket", "No such device or address"),
        ("null character", "is no path"),
        ("zeros", "is not a regular file"),
    ],
)
def test_the_reason_is_said(name: str, reason: str, hostile: dict[str, Path]) -> None:
    with pytest.raises(UnreadableError, match=f"^{reason}$"):
        read_text(hostile[name])


def test_bounds_are_exact(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read_bytes(tmp_path / "file", 100) == b"x" * 100
    with pytest.raises(TooLargeError, match="is larger than 99 bytes"):
        read_bytes(tmp_path / "file", 99)
    with pytest.raises(MissingError):
        read_bytes(tmp_path / "other")


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As ``--info <(command)`` gives one; a writer that takes its time is waited for."""
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with (tmp_path / "pipe").open("wb") as pipe:
            for _ in range(3):
                pipe.write(b"x" * 100_000)
                pipe.flush()
                time.sleep(0.05)

    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDWR)):  # so that there is a writer from the beginning
        thread = threading.Thread(target=write)
        thread.start()
        reader = threading.Thread(target=lambda: contents.append(read_bytes(tmp_path / "pipe")))
        contents: list[bytes] = []
        reader.start()
        thread.join()
        time.sleep(0.1)
    reader.join()
    assert contents == [b"x" * 300_000]
    with pytest.raises(UnreadableError, match="is not a regular file"):
        read_bytes(tmp_path / "pipe", pipes=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("[" * 100_000, "is nested too deeply"), ("{", r"is not JSON \(Expecting"), ("9" * 5000, "is not JSON")],
)
def test_what_is_no_json_is_said(text: str, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        parse_json(text)
    assert parse_json('{"a": [1]}') == {"a": [1]}
