"""What git printed, on one line and without secrets: nothing of it reaches an error or a log but through here."""

import re
from collections.abc import Iterable

from opduel.records.redaction import redact

TOKEN_VARIABLE = "OPDUEL_GIT_TOKEN"

_LONGEST = 400  # characters of one error
_TELLING = ("fatal:", "error:", "remote:", "ERROR:")


def one_line(stderr: bytes, secrets: Iterable[str] = ()) -> str:
    """What git said, redacted: its errors and the server's words if there are any, else all of it; "nothing" if
    nothing."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", stderr.decode("utf-8", "replace"))]
    telling = [line for line in lines if line.startswith(_TELLING)] or lines
    said = redact("; ".join(dict.fromkeys(line for line in telling if line)), secrets)
    said = "".join(character if character.isprintable() else "?" for character in said)
    if len(said) > _LONGEST:
        said = said[: _LONGEST // 2] + " ... " + said[-_LONGEST // 2 :]
    return said or "nothing"
