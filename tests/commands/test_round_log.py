"""--round_log: what is kept is found again, whatever the process died of."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opduel.commands.round_log import FileRoundLog
from opduel.records import UsageError


def seven() -> int:
    return 7


def test_rounds_and_seed_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    with FileRoundLog(path, seven) as log:
        assert (log.seed, log.rounds()) == (7, [])
        log.keep('{"a": 1}')
        log.keep('{"b": "\\u0085 and \\r"}')
    with FileRoundLog(path, lambda: 8) as log:
        assert log.seed == 7
        assert log.rounds() == ['{"a": 1}', '{"b": "\\u0085 and \\r"}']


@pytest.mark.parametrize("cut", [1, 4, 7])
def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rounds"
    with FileRoundLog(path, seven) as log:
        log.keep("first")
        log.keep("second")
    path.write_bytes(path.read_bytes()[:-cut])
    with FileRoundLog(path, seven) as log:
        log.keep("third")
    with FileRoundLog(path, seven) as log:
        assert log.rounds()[0] == "first"
        assert log.rounds()[-1] == "third"
        assert len(log.rounds()) == (2 if cut == 7 else 3)


@pytest.mark.parametrize(
    "content", [b"[]\n", b"{}\n", b"\xff\n", b'{"opduel_round_log": 2, "seed": 1}\n', b"text", b"\n"]
)
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rounds"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a round log"):
        FileRoundLog(path, seven)
    assert path.read_bytes() == content


def test_two_runs_can_not_share_one(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    with FileRoundLog(path, seven), pytest.raises(UsageError, match="another run is using it"):
        FileRoundLog(path, seven)
    with FileRoundLog(path, seven):
        pass


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        FileRoundLog(tmp_path / "gone" / "rounds", seven)


def test_a_device_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a regular file"):
        FileRoundLog(Path("/dev/full"), seven)


def test_a_full_disk_is_one_line(tmp_path: Path, full_disk: Callable[[str], None]) -> None:
    full_disk("fsync")
    with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\)"):
        FileRoundLog(tmp_path / "rounds", seven)


def test_a_disk_that_is_full_at_the_start_is_one_line_on_it(small_disk: Any) -> None:
    small_disk.fill()
    words = rf"^--round_log {small_disk.path}/rounds: cannot be written \(No space left on device\): give another path$"
    with pytest.raises(UsageError, match=words):
        FileRoundLog(small_disk.path / "rounds", seven)


def test_a_disk_that_fills_up_leaves_no_half_line(small_disk: Any) -> None:
    path = small_disk.path / "rounds"
    with FileRoundLog(path, seven) as log:
        log.keep("round 0")
        small_disk.fill()
        with pytest.raises(OSError, match="No space left"):
            log.keep("x" * 100_000)
        small_disk.free()
        log.keep("round 1")
    with FileRoundLog(path, seven) as log:
        assert log.rounds() == ["round 0", "round 1"]


def test_a_pipe_is_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a regular file"):
        FileRoundLog(tmp_path / "pipe", seven)


def test_a_large_file_of_something_else_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UsageError, match="is not a round log"):
        FileRoundLog(path, seven)
    assert path.stat().st_size == 2**40


@pytest.mark.parametrize("line", ["[" * 190, "{}", "null", '{"opduel_round_log": 2, "seed": 1}'])
def test_a_header_of_something_else_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "rounds").write_text(f"{line}\n")
    with pytest.raises(UsageError, match="is not a round log"):
        FileRoundLog(tmp_path / "rounds", seven)
    assert (tmp_path / "rounds").read_text() == f"{line}\n"


def test_it_goes_when_the_run_is_over(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    with FileRoundLog(path, seven) as log:
        log.forget()
    assert not path.exists()
