"""A request to a server: in bounded time, without redirections, again after a pause, and why it failed in words that
hide its address."""

import email.utils
import io
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeVar

import requests
import urllib3
from requests.auth import HTTPBasicAuth
from requests.utils import get_auth_from_url
from urllib3.exceptions import NewConnectionError

from opduel.reporters.text import short_line

A = TypeVar("A")

PAUSES_S = (1.0, 4.0)  # before the second attempt and the third
LONGEST_PAUSE_S = 60.0  # that a server may ask for
_LATER = (408, 425, 429)  # and all 5xx
_LONGEST_WORDS = 300  # characters


class RequestFailedError(Exception):
    """A request failed, for a reason in one line. ``is_temporary``: another attempt may help, not before ``wait_s``
    seconds. ``may_have_arrived``: there was no answer, but the server may have the request. ``status``: of a
    refusal."""

    def __init__(
        self,
        reason: str,
        is_temporary: bool,
        may_have_arrived: bool = False,
        status: int = 0,
        wait_s: float = 0.0,
    ) -> None:
        super().__init__(reason)
        self.is_temporary, self.may_have_arrived = is_temporary, may_have_arrived
        self.status, self.wait_s = status, wait_s


@dataclass(frozen=True)
class Limits:
    """Seconds, at most: to connect, for a word of the server, and for the whole request; and the bytes of the answer
    that are read."""

    connect_s: float = 10.0
    silence_s: float = 10.0
    whole_s: float = 20.0
    longest: int = 16 * 2**20


USUAL = Limits()


@dataclass(frozen=True)
class Reply:
    """A server's answer. ``text``: its body, or None if that was cut off."""

    status: int
    reason: str
    headers: Mapping[str, str]
    text: str | None

    @property
    def retry_after_s(self) -> float | None:
        """Its ``Retry-After`` in seconds from now; None if there is none, or it can't be read."""
        header = self.headers.get("Retry-After", "")
        if header.isascii() and header.isdigit() and len(header) < 10:
            return float(header)
        try:
            return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None


def send(method: str, address: str, body: bytes | None, headers: Mapping[str, str], limits: Limits = USUAL) -> Reply:
    """Send a request once, and return the answer, whatever its status. Raises RequestFailedError: there is none.

    A request runs in a thread, which is abandoned after ``Limits.whole_s``: looking up a name can't be aborted, and a
    server that sends a byte now and then never times out.
    """
    future: Future[Reply] = Future()

    def attempt() -> None:
        try:
            future.set_result(_ask(method, address, body, headers, limits))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    if not wait([future], limits.whole_s).done:
        raise RequestFailedError(f"no complete answer within {limits.whole_s:.3g} s", True, may_have_arrived=True)
    return future.result()


def repeat(attempt: Callable[[], A]) -> A:
    """Return what ``attempt`` returns, after pauses as long as it may help. Raises RequestFailedError, as the last
    attempt did."""
    for pause_s in PAUSES_S:
        try:
            return attempt()
        except RequestFailedError as error:
            wait_s = max(pause_s, error.wait_s)
            if not error.is_temporary or wait_s > LONGEST_PAUSE_S:
                raise
        time.sleep(wait_s)
    return attempt()


def is_later(status: int) -> bool:
    """Return whether the server may answer otherwise in a moment."""
    return 500 <= status < 600 or status in _LATER


class _OneAnswerSession(requests.Session):
    """A session that follows no redirection, so that nothing goes where nobody sent it, and ignores ~/.netrc.

    ``allow_redirects=False`` would still read and unpack a redirection's body, and parse its address.
    """

    def __init__(self) -> None:
        super().__init__()
        self.auth = _by_address  # without any, requests would take credentials from ~/.netrc, in place of a token

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: no answer is followed."""


def _by_address(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request with the credentials in its address, if any."""
    name, password = get_auth_from_url(str(request.url))
    has_some = "Authorization" in request.headers or not (name or password)
    return request if has_some else HTTPBasicAuth(name, password)(request)


def _ask(method: str, address: str, body: bytes | None, headers: Mapping[str, str], limits: Limits) -> Reply:
    content = None if body is None else io.BytesIO(body)  # is sent piece by piece: the time-out is for each of them
    timeout = limits.connect_s, limits.silence_s
    try:
        with (
            _OneAnswerSession() as session,
            session.request(
                method,
                address,
                data=content,
                headers={"Accept-Encoding": "identity", **headers},
                timeout=timeout,
                stream=True,
            ) as response,
        ):
            return Reply(response.status_code, response.reason or "", response.headers, _text(response, limits.longest))
    except requests.ConnectTimeout:
        raise RequestFailedError(f"no connection within {limits.connect_s:.3g} s", True) from None
    except requests.Timeout:
        reason = f"no answer for {limits.silence_s:.3g} s"
        raise RequestFailedError(reason, True, may_have_arrived=True) from None
    except requests.exceptions.SSLError as error:
        raise _of_tls(error) from None
    except requests.ConnectionError as error:
        never = (requests.exceptions.ProxyError, NewConnectionError)
        was_connected = not any(isinstance(cause, never) for cause in _causes(error))
        reason = f"{'the connection ended' if was_connected else 'no connection'} ({_cause(error)})"
        raise RequestFailedError(reason, True, was_connected) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        what = "the address, the proxy or REQUESTS_CA_BUNDLE"  # the error's own text may have secrets in it
        raise RequestFailedError(f"nothing was sent ({type(error).__name__}): correct {what}", False) from None


def _text(response: requests.Response, longest: int) -> str | None:
    """Return the answer's body, or its beginning; None if it was cut off, which only a read after the last one
    finds."""
    content = bytearray()
    try:
        while len(content) < longest and (piece := response.raw.read(65_536, decode_content=False)):
            content += piece
    except (urllib3.exceptions.HTTPError, OSError):
        return None
    return content.decode("utf-8", "replace")


def _of_tls(error: requests.exceptions.SSLError) -> RequestFailedError:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = short_line(cause.verify_message, _LONGEST_WORDS)
            fix = "to trust it, name its authority's certificates in REQUESTS_CA_BUNDLE"
            return RequestFailedError(f"its certificate is not trusted ({why}): {fix}", False)
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            return RequestFailedError("the server has no TLS: use http:// if that is intended", False)
    return RequestFailedError(f"TLS failed ({_cause(error)})", True)


def _cause(error: BaseException) -> str:
    """Return the system's own words for an error of the system, else the innermost error's name."""
    chain = list(_causes(error))
    words = [error.strerror for error in chain if isinstance(error, OSError) and error.strerror]
    return short_line(words[-1] if words else type(chain[-1]).__name__, _LONGEST_WORDS)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and all errors that it wraps or that caused it."""
    chain: list[BaseException] = []
    todo: list[object] = [error]
    while todo:
        cause = todo.pop(0)
        if isinstance(cause, BaseException) and cause not in chain:
            chain.append(cause)
            yield cause
            todo += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
