"""Attempts to reach a server: each in bounded time, again while that may help, and why one failed."""

import email.utils
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

import requests
from requests.auth import HTTPBasicAuth
from requests.utils import get_auth_from_url
from tenacity import RetryCallState, Retrying, retry_always
from urllib3.exceptions import NewConnectionError

A = TypeVar("A")

_LATER = (408, 425, 429)  # and all 5xx


class TooLongError(Exception):
    """An attempt was given up before it had come to anything."""


def within(seconds: float, action: Callable[[], A]) -> A:
    """What the action returns, or raises; it is waited for no longer than that.

    It has a thread of its own, which is left to itself then: looking up a name can't be aborted, and a server that
    sends a byte now and then is never silent.

    Raises:
        TooLongError: it was given up, and may still come to something.
    """
    found: Future[A] = Future()

    def attempt() -> None:
        try:
            found.set_result(action())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    if not wait([found], seconds).done:
        raise TooLongError
    return found.result()


def retried(
    attempt: Callable[[], A],
    pause_s: Callable[[int, A], float],
    may_wait: Callable[[A, float], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> A:
    """The result of the last attempt: the first one after whose pause no other may follow.

    ``pause_s``: from the number of attempts so far, and the last one's result, to seconds.
    """

    def result(state: RetryCallState) -> A:
        found: A = state.outcome.result()  # type: ignore[union-attr]
        return found

    retrying = Retrying(
        retry=retry_always,
        wait=lambda state: pause_s(state.attempt_number, result(state)),
        stop=lambda state: not may_wait(result(state), state.upcoming_sleep),
        sleep=sleep,
        retry_error_callback=result,
    )
    return retrying(attempt)


def _by_address(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """The request with the credentials that its address has, if any."""
    name, password = get_auth_from_url(str(request.url))
    has_some = "Authorization" in request.headers or not (name or password)
    return request if has_some else HTTPBasicAuth(name, password)(request)


class OneAnswerSession(requests.Session):
    """A session that asks once, and that ~/.netrc has no say in. ``allow_redirects=False`` alone would still read a
    redirection's whole body, unpacked, and its address, however wrong."""

    def __init__(self) -> None:
        """Credentials are those that each request has in its headers, or else in its address."""
        super().__init__()
        self.auth = _by_address  # without any, requests takes credentials from there, in place of a token

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Nothing is a redirection."""


def is_later(status: int) -> bool:
    """Whether such an answer may be another one in a moment."""
    return 500 <= status < 600 or status in _LATER


def retry_after_s(header: str | None) -> float | None:
    """A ``Retry-After`` in seconds from now; None without one, or when it can't be read."""
    if header is None:
        return None
    if header.isascii() and header.isdigit() and len(header) < 10:
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it wraps or came of."""
    seen: list[BaseException] = []
    todo: list[object] = [error]
    while todo:
        one = todo.pop(0)
        if isinstance(one, BaseException) and one not in seen:
            seen.append(one)
            yield one
            todo += [*one.args, getattr(one, "reason", None), one.__cause__, one.__context__]


def is_unconnected(error: requests.ConnectionError) -> bool:
    """Whether there was no connection yet, to the server or to the proxy, so that it has surely taken nothing."""
    never = (requests.ConnectTimeout, requests.exceptions.ProxyError, NewConnectionError)
    return any(isinstance(one, never) for one in causes(error))
