"""A posted body, received in bounds: as large as allowed, within a while, and in JSON by its own word."""

import asyncio
import errno
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from reporters.server.answers import RETRY_AFTER_S
from reporters.server.logs import logger

_IN_MEMORY = 2**20  # bytes; what is more waits on disk until it is its turn
_PATIENCE_S = 300.0
_MOST_DISCARDED = 2**28  # bytes


async def receive(request: Request, most: int) -> tempfile.SpooledTemporaryFile[bytes]:
    """The body, of at most ``most`` bytes, in a file that the caller closes.

    Raises:
        HTTPException: 415 for another type, 413 for a larger body, 408 for one that doesn't come to an end, 400 for a
            length that is none, 503 while there is no room to keep it.
    """
    _check_type(request)
    await _check_length(request, most)
    file = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY)
    try:
        await _fill(file, request, most)
    except BaseException as error:
        with suppress(OSError):  # what it has yet to write may have no room
            file.close()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            logger.error("no room for a body in %s: %s", tempfile.gettempdir(), error.strerror)
            await _discard(request)
            detail = "the server has no room just now, and nothing was stored: try again later"
            raise HTTPException(503, detail, {"Retry-After": str(RETRY_AFTER_S)}) from None
        raise
    return file


async def _fill(file: tempfile.SpooledTemporaryFile[bytes], request: Request, most: int) -> None:
    size = 0
    try:
        async with asyncio.timeout(_PATIENCE_S):
            async for chunk in _chunks(request):
                size += len(chunk)
                if size > most:
                    await _discard(request)
                    raise _too_large(most)
                file.write(chunk)
    except TimeoutError:
        raise HTTPException(408, f"the body did not come to an end within {_PATIENCE_S:.0f} s") from None
    file.seek(0)


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


async def _check_length(request: Request, most: int) -> None:
    length = request.headers.get("content-length")
    if length is None:
        return
    if not (length.isascii() and length.isdecimal()):
        raise HTTPException(400, "Content-Length is no number")
    if len(length) > 18 or int(length) > most:
        await _discard(request)
        raise _too_large(most)


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
    return HTTPException(413, f"the body is larger than the {most} bytes that are taken here: see --max_report_bytes")
