"""--round_log: a run keeps its rounds in a file, so that the same command goes on where the last one ended."""

import contextlib
import json
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from opduel.driver.lock import try_lock
from opduel.records import UsageError
from opduel.support.atomic import is_special
from opduel.support.files import UnreadableError, parse_json

FORMAT = 1
HEADER = "opduel_round_log"
_LONGEST_HEADER = 200  # bytes


class FileRoundLog:
    """Rounds in a file of lines: a header with the run's seed, then a text for each round. Use as a context manager.

    A line is durable once it is kept; a last line that was cut off costs its own round. The file is locked while it is
    open: two runs can't share it.
    """

    def __init__(self, path: Path, draw_seed: Callable[[], int]) -> None:
        """Open the file, or begin it with a seed that is drawn. UsageError: it can't be written, is in use, or is no
        such file."""
        self._path = path
        if is_special(path):  # not even opened: a pipe would be waited for
            raise self._refusal("is not a regular file: give another path")
        with contextlib.ExitStack() as stack:
            try:
                # Unbuffered: what could not be written is not written later either.
                self._file: FileIO = stack.enter_context(path.open("a+b", buffering=0))
                if not try_lock(self._file.fileno()):
                    raise self._refusal("another run is using it: wait for that, or give another path")
                self.seed = self._read_header(draw_seed)
            except OSError as error:
                raise self._refusal(f"cannot be written ({error.strerror}): give another path") from None
            stack.pop_all()  # it stays open

    def __enter__(self) -> "FileRoundLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def rounds(self) -> list[str]:
        """The texts that were kept, in order."""
        return [line.decode("utf-8", "replace") for line in self._lines()[1:]]

    def keep(self, text: str) -> None:
        """Append a text; it is durable when this returns. OSError: it could not be kept, and nothing of it is there."""
        size = os.fstat(self._file.fileno()).st_size
        try:
            self._write(text.encode("utf-8") + b"\n")
            os.fsync(self._file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):  # half a line would run into the next one
                self._file.truncate(size)
            raise

    def forget(self) -> None:
        """Remove the file: the run is over, and told."""
        self._path.unlink(missing_ok=True)

    def _refusal(self, why: str) -> UsageError:
        return UsageError(f"--round_log {self._path}: {why}")

    def _lines(self) -> list[bytes]:
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        return lines if lines[-1] else lines[:-1]

    def _read_header(self, draw_seed: Callable[[], int]) -> int:
        self._file.seek(0)
        line, newline, _ = self._file.read(_LONGEST_HEADER).partition(b"\n")
        if not line and not newline:
            seed = draw_seed()
            self.keep(json.dumps({HEADER: FORMAT, "seed": seed}))
            return seed
        try:
            header = parse_json(line)
            if header[HEADER] == FORMAT and isinstance(header["seed"], int):
                self._end_last_line()
                return int(header["seed"])
        except (UnreadableError, KeyError, TypeError):
            pass
        raise self._refusal("is not a round log: give another path")

    def _end_last_line(self) -> None:
        """A line that was cut off when its process died must not run into the next one."""
        self._file.seek(-1, os.SEEK_END)
        if self._file.read(1) != b"\n":
            self._write(b"\n")

    def _write(self, content: bytes) -> None:
        while content:
            content = content[self._file.write(content) :]
