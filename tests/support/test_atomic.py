"""The atomic writer: a file is complete or as it was, whoever writes it and whatever goes wrong."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from opduel.commands.config import write_config
from opduel.driver.documents import write_document
from opduel.driver.git.borrowing import borrow
from opduel.records import RunError
from opduel.support.atomic import write_atomically


def test_bytes_and_what_a_function_writes(tmp_path: Path) -> None:
    def content(stream: BinaryIO) -> None:
        stream.write(b"wrong")
        stream.seek(0)
        stream.truncate()
        stream.write(b"right")

    write_atomically(tmp_path / "one", b"bytes")
    write_atomically(tmp_path / "two", content, mode=0o600)
    assert [(tmp_path / name).read_bytes() for name in ("one", "two")] == [b"bytes", b"right"]
    assert stat.S_IMODE((tmp_path / "two").stat().st_mode) == 0o600


@pytest.mark.parametrize("where", ["content", "before_replace"])
def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, where: str) -> None:
    def fail(_: object) -> None:
        raise ValueError(where)

    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match=where):
        write_atomically(path, fail if where == "content" else b"new", fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


WRITERS: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "document": (lambda folder: write_document(folder / "file", {}), RunError),
    "config": (lambda folder: write_config(folder / "file", {}), RunError),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_leaves_nothing_on_a_full_disk(
    tmp_path: Path, full_disk: Callable[[str], None], name: str
) -> None:
    write, error = WRITERS[name]
    full_disk("fsync")
    with pytest.raises(error, match="No space left on device"):
        write(tmp_path)
    assert os.listdir(tmp_path) == []


def test_the_list_of_borrowed_objects_is_written_whole(tmp_path: Path, full_disk: Callable[[str], None]) -> None:
    (tmp_path / "objects").mkdir()
    borrow(tmp_path, tmp_path)
    assert (tmp_path / "objects" / "info" / "alternates").read_text() == f"{tmp_path}\n"
    full_disk("replace")
    with pytest.raises(OSError, match="No space left on device"):
        borrow(tmp_path, tmp_path / "objects")
    assert (tmp_path / "objects" / "info" / "alternates").read_text() == f"{tmp_path}\n"
