"""Secrets taken out of what is said: nothing that git prints reaches an error, a log or a report but through here."""

import os
import re
from collections.abc import Iterable
from urllib.parse import quote

TOKEN_VARIABLE = "OPDUEL_GIT_TOKEN"

_MASK = "***"
_LONGEST = 400  # characters of one error
_USER_INFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)([^\s/'\"]*)@")
_HEADER = re.compile(r"(?i)\b(authorization:\s*\w+\s+)\S+")
_TELLING = ("fatal:", "error:", "remote:", "ERROR:")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without user names and passwords in URLs, authorization headers, the given secrets and the token
    variable.

    A secret is found as it is and percent-encoded. The bare user name of an ssh URL is no secret and stays.
    """
    text = _HEADER.sub(rf"\g<1>{_MASK}", text)
    for secret in sorted({*secrets, os.environ.get(TOKEN_VARIABLE, "")} - {""}, key=len, reverse=True):
        for form in (secret, quote(secret, safe="")):
            text = text.replace(form, _MASK)
    return _USER_INFO.sub(_mask_user, text)


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


def _mask_user(found: re.Match[str]) -> str:
    scheme, user = found.groups()
    if "ssh" in scheme.lower() and ":" not in user:
        return found.group()
    return f"{scheme}{_MASK}@"
