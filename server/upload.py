"""Posted bodies received in bounds, as large as allowed and within a while: reports, which are JSON by their own word,
and small ones, such as forms that browsers send."""

import asyncio
import errno
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from opduel.server.error_handlers import later
from opduel.server.logs import logger
from opduel.server.subprocess_jobs import LARGE_BYTES

_IN_MEMORY = LARGE_BYTES  # what is more waits on disk until it is its turn
_PATIENCE_S = 300.0
_MOST_DISCARDED = 2**28  # bytes
LARGEST_FORM, MOST_FIELDS = 65_536, 1000  # bytes, fields
_FORM_PATIENCE_S = 10.0


@dataclass
class Posted:
    """A body of ``size`` bytes. A large one is on disk, where another process can read it."""

    file: tempfile.SpooledTemporaryFile[bytes]
    size: int = 0

    @property
    def is_large(self) -> bool:
        """Whether it is on disk, and not in memory."""
        return self.size > _IN_MEMORY

    def __enter__(self) -> Self:
        """Its file is closed at the end."""
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(OSError):  # what it has yet to write may have no room
            self.file.close()


async def receive(request: Request, most: int, when_large: Callable[[], None]) -> Posted:
    """The body, of at most ``most`` bytes, which the caller closes.

    ``when_large`` is called once, as soon as it is known that the body is larger than what is kept in memory; it may
    refuse it.

    Raises:
        HTTPException: 415 for another type, 413 for a larger body, 408 for one that doesn't come to an end, 400 for a
            length that is none, 503 while there is no room to keep it; and what ``when_large`` raises.
    """
    _check_type(request)
    length = await _length(request, most)
    posted = Posted(tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY))
    try:
        if length is not None and length > _IN_MEMORY:
            await _announce(request, when_large)
            when_large = _nothing
        await _fill(posted, request, most, when_large)
    except BaseException as error:
        posted.__exit__()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            logger.error("no space for an upload in %s: %s", tempfile.gettempdir(), error.strerror)
            await _discard(request)
            raise later("the server has no space now, and nothing was stored: try again later") from None
        raise
    return posted


def _nothing() -> None:
    """What is to be done has been done."""


async def _announce(request: Request, when_large: Callable[[], None]) -> None:
    try:
        when_large()
    except HTTPException:
        await _discard(request)
        raise


async def _fill(posted: Posted, request: Request, most: int, when_large: Callable[[], None]) -> None:
    waiting = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            async for chunk in _chunks(request):
                posted.size += len(chunk)
                if posted.size > most:
                    await _discard(request)
                    raise _too_large(most)
                if posted.is_large:
                    await _announce(request, when_large)
                    when_large = _nothing
                waiting += chunk
                if len(waiting) >= _IN_MEMORY:  # in a thread, for a slow disk must not keep all others waiting
                    await run_in_threadpool(posted.file.write, bytes(waiting))
                    waiting.clear()
    except TimeoutError:
        raise HTTPException(408, f"the body was not complete within {_PATIENCE_S:.0f} s") from None
    await run_in_threadpool(_finish, posted, bytes(waiting))


def _finish(posted: Posted, rest: bytes) -> None:
    posted.file.write(rest)
    if posted.is_large:
        posted.file.flush()


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = request.state.more_comes = message.get("more_body", False)
        yield message.get("body", b"")


def _check_type(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    if kind.strip().lower() != "application/json" or "charset" in parameters.lower().replace("charset=utf-8", ""):
        raise HTTPException(415, "the body must be JSON in UTF-8: send Content-Type: application/json")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise HTTPException(415, "the body must be sent as it is, without a Content-Encoding")


async def _length(request: Request, most: int) -> int | None:
    length = request.headers.get("content-length")
    if length is None:
        return None
    if not (length.isascii() and length.isdecimal()):
        raise HTTPException(400, "Content-Length is not a number")
    if len(length) > 18 or int(length) > most:
        await _discard(request)
        raise _too_large(most)
    return int(length)


async def _discard(request: Request) -> None:
    """Read on, and keep nothing: who is cut off while sending never reads the answer.  Not for ever, though, not from
    one who asked first, and not beyond the end, where nothing comes while the sender waits."""
    if "100-continue" in request.headers.get("expect", "").lower() or not getattr(request.state, "more_comes", True):
        return
    size = 0
    try:
        async with asyncio.timeout(_PATIENCE_S / 10):
            message = await request.receive()
            while message["type"] == "http.request" and message.get("more_body") and size < _MOST_DISCARDED:
                size += len(message.get("body", b""))
                message = await request.receive()
    except TimeoutError:
        pass


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than the {most} bytes that are accepted: see --max_report_bytes")


async def small_body(request: Request, largest: int = LARGEST_FORM) -> bytes:
    """A whole body.

    Raises:
        HTTPException: 413 for a larger one, 408 for one that doesn't come to its end.
    """
    body = b""
    try:
        async with asyncio.timeout(_FORM_PATIENCE_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > largest:
                    raise HTTPException(413, f"the form is too large: at most {largest} bytes are accepted")
    except TimeoutError:
        raise HTTPException(408, "the body was incomplete") from None
    return body


async def form_of(request: Request, largest: int = LARGEST_FORM, most: int = MOST_FIELDS) -> list[tuple[str, str]]:
    """A form's fields, in order.

    Raises:
        HTTPException: as ``small_body``, and 400 for too many fields.
    """
    body = await small_body(request, largest)
    try:
        return parse_qsl(body.decode("utf-8", "replace"), max_num_fields=most)
    except ValueError:
        raise HTTPException(400, "the form has too many fields") from None
