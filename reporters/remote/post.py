"""One attempt to post a report, and the meaning of the server's answer or silence."""

import http
import json
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlsplit

from opduel.reporters.http_request import Limits, Reply, RequestFailedError, is_later, repeat, send
from opduel.reporters.remote.place import Place
from opduel.reporters.remote.token import Token
from opduel.reporters.text import short_line

# "stored": the server has it. "again": a later attempt may succeed. "stuck": none will until somebody fixes something,
# such as the token. "refused": the server will never take this report.
Kind = Literal["stored", "again", "stuck", "refused"]

LIMITS = Limits(silence_s=30.0, whole_s=60.0)
_LONGEST_WORDS = 300  # characters of an answer that are shown
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


def post(payload: Payload, token: Token | None, limits: Limits = LIMITS) -> Answer:
    """Post, and again after the pauses of ``repeat`` while another attempt may help.

    That an attempt which was given up may still arrive does no harm: it arrives once.
    """

    def attempt() -> Answer:
        answer = _post_once(payload, token, limits)
        if answer.kind == "again":
            raise RequestFailedError(answer.words, True, status=answer.status, wait_s=answer.after_s or 0.0)
        return answer

    try:
        return repeat(attempt)
    except RequestFailedError as error:
        return Answer("again" if error.is_temporary else "stuck", str(error), error.status)


def _post_once(payload: Payload, token: Token | None, limits: Limits) -> Answer:
    """Post once. Raises RequestFailedError: there is no answer."""
    headers = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Idempotency-Key": quote(payload.run, safe="!#$&'()*+,/:;=?@[]~"),
        "User-Agent": "opduel",
        **({"Authorization": f"Bearer {token.text}"} if token else {}),
    }
    return _understood(payload, send("POST", payload.place.endpoint, payload.body, headers, limits), token)


def _understood(payload: Payload, reply: Reply, token: Token | None) -> Answer:
    """Return the meaning of the server's answer about ``payload``."""
    status = reply.status

    def hidden(words: str) -> str:
        return short_line(token.hide(words) if token else words, _LONGEST_WORDS)

    def describe(fix: str = "") -> str:
        words = f"it says {status} {hidden(reply.reason)}".strip()
        detail = _object(reply.text).get("detail")
        detail = hidden(detail if isinstance(detail, str) else "" if detail is None else json.dumps(detail))
        return words + (f": {detail}" if detail else "") + (f" ({fix})" if fix else "")

    if status in (http.HTTPStatus.OK, http.HTTPStatus.CREATED):
        if reply.text is None:
            return Answer("again", f"its answer {status} was cut off", status)
        document = _object(reply.text)
        if document.get("run_id") == payload.run:  # and no other server's friendly words
            words = "stored" if status == http.HTTPStatus.CREATED else "already stored"
            page = page_address(payload.place.endpoint, document.get("page"))
            return Answer("stored", words, status, page=page if hidden(page) == page else "")
        return Answer("stuck", describe(_OTHER_SERVER), status)
    if is_later(status):
        return Answer("again", describe(), status, reply.retry_after_s)
    if 300 <= status < 400:
        there = hidden(reply.headers.get("Location", ""))
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


def _object(text: str | None) -> dict[str, Any]:
    """Return the answer's JSON object; an empty one if it is not an object."""
    try:
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
