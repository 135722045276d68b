"""One file over http(s): with a limit on its size, a deadline, and further attempts when the network fails."""

import http
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import requests
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from urllib3.exceptions import DecodeError, ProtocolError, ReadTimeoutError

from opduel.records import RunError, UsageError
from opduel.support.redaction import bare_address

GIB = 1024**3
_AGAIN = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Limits:
    """Bounds on what is fetched and unpacked. ``silence_s``: without a byte; ``whole_s``: for one file in all."""

    max_bytes: int = 4 * GIB
    silence_s: float = 30.0
    whole_s: float = 3600.0
    attempts: int = 4
    pause_s: float = 1.0  # before the second attempt, twice that before the third...


class _TryAgainError(Exception):
    """What went wrong may be over in a moment."""


def download(url: str, stream: BinaryIO, limits: Limits) -> None:
    """Write what ``url`` holds to ``stream``, from its beginning again at each attempt. Raises UsageError: the server
    refuses, or there is too much of it. RunError: it could not be had in any attempt."""
    deadline = time.monotonic() + limits.whole_s
    retrying = Retrying(
        retry=retry_if_exception_type(_TryAgainError),
        stop=stop_after_attempt(limits.attempts),
        wait=wait_exponential(limits.pause_s),
        reraise=True,
    )
    try:
        retrying(_attempt, url, stream, limits, deadline)
    except _TryAgainError as error:
        place, times = bare_address(url), limits.attempts
        raise RunError(f"{place} could not be fetched in {times} attempts: {error}: is the network up?") from None


def _attempt(url: str, stream: BinaryIO, limits: Limits, deadline: float) -> None:
    stream.seek(0)
    stream.truncate()
    headers = {"Accept-Encoding": "identity"}  # the checksum is that of the file, not of a packed one
    try:
        with requests.get(url, stream=True, timeout=limits.silence_s, headers=headers) as response:
            if response.status_code != http.HTTPStatus.OK:
                words = f"the server says {response.status_code} {response.reason or ''}".strip()
                if response.status_code in _AGAIN:
                    raise _TryAgainError(words)
                raise UsageError(f"{bare_address(url)}: {words}: correct the location")
            length = response.headers.get("Content-Length", "")
            if length.isdigit() and int(length) > limits.max_bytes:
                raise _too_large(bare_address(url), limits)
            # read1 returns what has come: a server that sends a byte now and then can't outlast the deadline.
            chunks = iter(lambda: response.raw.read1(1 << 16, decode_content=True), b"")
            copy_limited(chunks, stream, limits, bare_address(url), deadline)
    except (requests.Timeout, ReadTimeoutError):
        raise _TryAgainError(f"no answer for {limits.silence_s:g} s") from None
    except (ProtocolError, DecodeError):
        raise _TryAgainError(f"it was cut off after {stream.tell()} bytes") from None
    except requests.ConnectionError as error:
        cause = getattr(error.args[0] if error.args else None, "reason", None)
        raise _TryAgainError(f"no connection ({type(cause or error).__name__})") from None
    except requests.RequestException as error:  # a URL that can't be one, a redirection to nowhere
        raise UsageError(f"{bare_address(url)}: {type(error).__name__}: correct the location") from None


def copy_limited(
    chunks: Iterable[bytes], stream: BinaryIO, limits: Limits, place: str, deadline: float = float("inf")
) -> None:
    """Write ``chunks`` to ``stream``, no more than the limit and not beyond ``deadline`` (of the monotonic clock).
    Raises UsageError: there is more; RunError: it takes too long."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limits.max_bytes:
            raise _too_large(place, limits)
        if time.monotonic() > deadline:
            raise RunError(f"{place}: not there after {limits.whole_s:g} s: use a closer copy")
        stream.write(chunk)


def _too_large(place: str, limits: Limits) -> UsageError:
    return UsageError(f"{place} has more than {limits.max_bytes} bytes, which is the limit")
