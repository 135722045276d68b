"""A posted body, received in bounds: as large as allowed, within a while, and in JSON by its own word."""

import asyncio
import tempfile

from fastapi import HTTPException, Request

_IN_MEMORY = 2**20  # bytes; what is more waits on disk until it is its turn
_PATIENCE_S = 300.0
_MOST_DISCARDED = 2**28  # bytes


async def receive(request: Request, most: int) -> tempfile.SpooledTemporaryFile[bytes]:
    """The body, of at most ``most`` bytes, in a file that the caller closes.

    Raises:
        HTTPException: 415 for another type, 413 for a larger body, 408 for one that doesn't come to an end, 400 for a
            length that is none.
    """
    _check_type(request)
    await _check_length(request, most)
    file = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            size = 0
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    await _discard(request)
                    raise _too_large(most)
                file.write(chunk)
    except TimeoutError:
        file.close()
        raise HTTPException(408, f"the body did not come to an end within {_PATIENCE_S:.0f} s") from None
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


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
    """Read on, and keep nothing: who is cut off while sending never reads the answer.  Not for ever, though, and not
    from one who asked first."""
    if "100-continue" in request.headers.get("expect", "").lower():
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
