"""An attempt to reach a server: in bounded time, whether another may help, and why one failed."""

import email.utils
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

import requests
from requests.auth import HTTPBasicAuth
from requests.utils import get_auth_from_url
from urllib3.exceptions import NewConnectionError

A = TypeVar("A")

_LATER = (408, 425, 429)  # and all 5xx


class TooLongError(Exception):
    """An attempt was given up before it had a result."""


def within(seconds: float, action: Callable[[], A]) -> A:
    """Return what the action returns, or raise what it raises, within ``seconds``.

    The action runs in a thread, which is abandoned after that time: looking up a name can't be aborted, and a server
    that sends a byte now and then never times out. Raises TooLongError: the action took longer, and may still succeed.
    """
    future: Future[A] = Future()

    def attempt() -> None:
        try:
            future.set_result(action())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    if not wait([future], seconds).done:
        raise TooLongError
    return future.result()


def _by_address(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request with the credentials in its address, if any."""
    name, password = get_auth_from_url(str(request.url))
    has_some = "Authorization" in request.headers or not (name or password)
    return request if has_some else HTTPBasicAuth(name, password)(request)


class OneAnswerSession(requests.Session):
    """A session that follows no redirection, so that nothing goes where nobody sent it, and ignores ~/.netrc.

    ``allow_redirects=False`` would still read and unpack a redirection's body, and parse its address.
    """

    def __init__(self) -> None:
        """Take credentials from each request's headers, or else from its address."""
        super().__init__()
        self.auth = _by_address  # without any, requests would take credentials from ~/.netrc, in place of a token

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: no answer is followed."""


def is_later(status: int) -> bool:
    """Return whether the server may answer otherwise in a moment."""
    return 500 <= status < 600 or status in _LATER


def retry_after_s(header: str | None) -> float | None:
    """Return a ``Retry-After`` in seconds from now; None if there is none, or it can't be read."""
    if header is None:
        return None
    if header.isascii() and header.isdigit() and len(header) < 10:
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and all errors that it wraps or that caused it."""
    chain: list[BaseException] = []
    todo: list[object] = [error]
    while todo:
        cause = todo.pop(0)
        if isinstance(cause, BaseException) and cause not in chain:
            chain.append(cause)
            yield cause
            todo += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]


def is_unconnected(error: requests.ConnectionError) -> bool:
    """Return whether there was no connection yet, to the server or to the proxy, so that nothing can have been
    delivered."""
    never = (requests.ConnectTimeout, requests.exceptions.ProxyError, NewConnectionError)
    return any(isinstance(cause, never) for cause in causes(error))
