"""The access token: where it is found, and how it is never shown."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opduel.records import UsageError
from opduel.reporters.options import TOKEN_VARIABLE
from opduel.support.atomic import user_path
from opduel.support.files import TooLargeError, UnreadableError, read_bytes
from opduel.support.redaction import SHORTEST_SECRET, redact

_LONGEST = 4096  # characters
_TOKEN = re.compile(rf"[\x21-\x7e]{{1,{_LONGEST}}}")


@dataclass(frozen=True)
class Token:
    """``text`` is the secret; ``where`` says where it was found, for texts about it."""

    text: str = field(repr=False)
    where: str

    def hide(self, words: str) -> str:
        """Return ``words`` with the token masked: a server may send it back. A very short token is not masked."""
        return redact(words, [self.text] if len(self.text) >= SHORTEST_SECRET else [])


def find_token(text: str | None, file: str | None, environment: Mapping[str, str]) -> Token | None:
    """Return the token of ``--remote_access_token``, else of ``--remote_access_token_file``, else of the environment.
    Raises UsageError: it can't be a token, or the file can't be read, or others can read it. The text doesn't show the;
    token."""
    if text is not None:
        return _checked(text, "--remote_access_token")
    if file is not None:
        return _checked(_read(user_path(file, "--remote_access_token_file")), f"--remote_access_token_file {file}")
    return _checked(environment[TOKEN_VARIABLE], TOKEN_VARIABLE) if environment.get(TOKEN_VARIABLE) else None


def _checked(text: str, where: str) -> Token:
    text = text.strip()
    if not _TOKEN.fullmatch(text):
        fix = f"give one of 1 to {_LONGEST} letters, digits and signs, without blanks"
        raise UsageError(f"{where}: holds no token: {fix}")
    return Token(text, where)


def _read(path: Path) -> str:
    """Return the file's text. Raises UsageError: it can't be read, is not a regular file, or others than its owner can
    read or change it."""
    option = f"--remote_access_token_file {path}"

    def look(status: os.stat_result) -> None:
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise UsageError(f"{option}: others can read or change it: chmod 600 {path}")

    try:
        return read_bytes(path, _LONGEST + 100, pipes=False, look=look).decode("ascii", "replace")
    except TooLargeError:
        return ""  # which is no token
    except UnreadableError as error:
        raise UsageError(f"{option}: cannot be read ({error}): give the path of a file that holds the token") from None
