"""One attempt to post a report, and the meaning of the server's answer or silence."""

import http
import io
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlsplit

import requests
import urllib3

from opduel.reporters.http_retry import OneAnswerSession, TooLongError, causes, is_later, retry_after_s, within
from opduel.reporters.remote.place import Place
from opduel.reporters.remote.token import Token
from opduel.reporters.text import short_line

# "stored": the server has it. "again": another attempt may succeed. "stuck": nothing will until somebody fixes
# something, such as the token. "refused": the server will never take this report.
Kind = Literal["stored", "again", "stuck", "refused"]

_USER = re.compile(r"//[^\s]*@")  # in the address of a proxy, say
_LONGEST_ANSWER = 65_536  # bytes of it that are read
_LONGEST_WORDS = 300  # characters of it that are shown
_ENDPOINT = "/api/v1/reports"  # of our own server, wherever a proxy has put it
_PAGE = re.compile(r"/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,250}")
_STUCK = (401, 403, 407)
_OTHER_SERVER = "this answer is not from a results server: is the address right?"
_FIXES = {
    400: "opduel and the server may be of different versions",
    401: "give a token that it knows (--remote_access_token_file)",
    403: "give a token that may write",
    404: "is there a results server at this address?",
    407: "the proxy requires a user and password",
    409: "a run has one report there, in one category",
    413: "raise the server's limit on the size of reports",
    422: "opduel and the server may be of different versions",
}


@dataclass(frozen=True)
class Waits:
    """Seconds, at most: to connect, for a word of the server, for all attempts of one command together; and the pauses
    between attempts, each about twice the one before it."""

    connect_s: float = 10.0
    read_s: float = 30.0
    whole_s: float = 60.0
    first_pause_s: float = 1.0
    longest_pause_s: float = 20.0


@dataclass(frozen=True)
class Answer:
    """``words``: one line, safe to print, without the token. ``after_s``: when the server wants to be asked again."""

    kind: Kind
    words: str
    status: int = 0
    after_s: float | None = None
    page: str = ""  # the address of the run's page, if the server has named one


class Payload(NamedTuple):
    """What is posted, and where."""

    place: Place
    run: str
    body: bytes


def post(payload: Payload, token: Token | None, waits: Waits, left_s: float) -> Answer:
    """Post once, and wait for the answer ``left_s`` seconds at most, whatever it is that takes so long.

    That an attempt which was given up may still arrive does no harm: it arrives once.
    """
    try:
        return within(left_s, lambda: _attempt(payload, token, waits, left_s))
    except TooLongError:
        return Answer("again", f"no complete answer within {left_s:.3g} s")


def _attempt(payload: Payload, token: Token | None, waits: Waits, left_s: float) -> Answer:
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "Idempotency-Key": quote(payload.run, safe="!#$&'()*+,/:;=?@[]~"),
        "User-Agent": "opduel",
        **({"Authorization": f"Bearer {token.text}"} if token else {}),
    }
    timeout = min(waits.connect_s, left_s), min(waits.read_s, left_s)
    try:
        with (
            OneAnswerSession() as session,
            session.post(
                payload.place.endpoint,
                data=io.BytesIO(payload.body),  # which is sent piece by piece: the time-out is for each of them
                headers=headers,
                timeout=timeout,
                stream=True,
            ) as response,
        ):
            answer = response.status_code, response.reason, response.headers, _text(response)
            return _understood(payload, *answer, token)
    except requests.ConnectTimeout:
        return Answer("again", f"no connection within {timeout[0]:.3g} s")
    except requests.Timeout:
        return Answer("again", f"no answer for {timeout[1]:.3g} s")
    except requests.exceptions.SSLError as error:
        return _of_tls(error)
    except requests.ConnectionError as error:
        return Answer("again", f"no connection ({_cause(error)})")
    # An address, a proxy or a file of certificates that is none.
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        return Answer("stuck", f"{type(error).__name__}: {_line(_USER.sub('//***@', str(error)))}")


def _understood(
    payload: Payload, status: int, reason: str, headers: Mapping[str, str], text: str | None, token: Token | None
) -> Answer:
    """Return the meaning of the server's answer about ``payload``; ``text`` is its body, None if it was cut off."""

    def hidden(words: str) -> str:
        return _line(token.hide(words) if token else words)

    def describe(fix: str = "") -> str:
        words = f"it says {status} {hidden(reason or '')}".strip()
        detail = _object(text).get("detail")
        detail = hidden(detail if isinstance(detail, str) else "" if detail is None else json.dumps(detail))
        return words + (f": {detail}" if detail else "") + (f" ({fix})" if fix else "")

    if status in (http.HTTPStatus.OK, http.HTTPStatus.CREATED):
        if text is None:
            return Answer("again", f"its answer {status} was cut off", status)
        document = _object(text)
        if document.get("run_id") == payload.run:  # and no other server's friendly words
            words = "stored" if status == http.HTTPStatus.CREATED else "already stored"
            page = page_address(payload.place.endpoint, document.get("page"))
            return Answer("stored", words, status, page=page if hidden(page) == page else "")
        return Answer("stuck", describe(_OTHER_SERVER), status)
    if is_later(status):
        return Answer("again", describe(), status, retry_after_s(headers.get("Retry-After")))
    if 300 <= status < 400:
        there = hidden(headers.get("Location", ""))
        fix = f"it sends on to {there or 'nowhere'}: if that is right, give that address"
        return Answer("stuck", describe(fix), status)
    if status in _STUCK:
        no_token = status == http.HTTPStatus.UNAUTHORIZED and token is None
        fix = "no token was sent: give --remote_access_token_file FILE" if no_token else _FIXES[status]
        return Answer("stuck", describe(fix), status)
    if 400 <= status < 500:
        return Answer("refused", describe(_FIXES.get(status, "")), status)
    return Answer("stuck", describe(_OTHER_SERVER), status)


def page_address(endpoint: str, page: object) -> str:
    """Return the address of ``page``, a path below the server of this endpoint; empty for anything else."""
    if not isinstance(page, str) or not _PAGE.fullmatch(page):
        return ""
    parts = urlsplit(endpoint)
    below = parts.path.removesuffix(_ENDPOINT) if parts.path.endswith(_ENDPOINT) else ""
    return f"{parts.scheme}://{parts.netloc}{below}{page}"


def _text(response: requests.Response) -> str | None:
    """Return the answer's body, or its beginning; None if it was cut off, which only a read after the last one
    finds."""
    content = b""
    try:
        while len(content) < _LONGEST_ANSWER and (piece := response.raw.read(8192, decode_content=False)):
            content += piece
    except (urllib3.exceptions.HTTPError, OSError):
        return None
    return content.decode("utf-8", "replace")


def _object(text: str | None) -> dict[str, Any]:
    """Return the answer's JSON object; an empty one if it is not an object."""
    try:
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _line(text: str) -> str:
    return short_line(text, _LONGEST_WORDS)


def _of_tls(error: requests.exceptions.SSLError) -> Answer:
    for cause in causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = _line(cause.verify_message)
            fix = "to trust it, name its authority's certificates in REQUESTS_CA_BUNDLE"
            return Answer("stuck", f"its certificate is not trusted ({why}): {fix}")
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            return Answer("stuck", "the server has no TLS: use http:// if that is intended")
    return Answer("again", f"TLS failed ({_cause(error)})")


def _cause(error: BaseException) -> str:
    """Return the system's own words for an error of the system, else the innermost error's name."""
    chain = list(causes(error))
    words = [error.strerror for error in chain if isinstance(error, OSError) and error.strerror]
    return _line(words[-1] if words else type(chain[-1]).__name__)
