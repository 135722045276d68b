"""Reception of posted bodies within limits of size and time: reports as JSON, and small bodies such as forms."""

import asyncio
import errno
import tempfile
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from opduel.server.error_handlers import later
from opduel.server.logs import logger
from opduel.server.subprocess_jobs import LARGE_BYTES

_IN_MEMORY = LARGE_BYTES  # a larger body waits on disk
_PATIENCE_S = 300.0
_MOST_DISCARDED = 2**28  # bytes
LARGEST_FORM, MOST_FIELDS = 65_536, 1000  # bytes, fields
_FORM_PATIENCE_S = 10.0


async def receive(request: Request, most: int, when_large: Callable[[], None]) -> tempfile.SpooledTemporaryFile[bytes]:
    """Return the body, of at most ``most`` bytes, as a file at its end, which the caller closes. A large one is on
    disk, where another process can read it.

    ``when_large`` is called once, as soon as it is known that the body is too large for memory; it may raise to refuse
    it. Raises HTTPException: 415 for another type, 413 for a larger body, 408 for an incomplete one, 503 if the disk is
    full; and what ``when_large`` raises."""
    _check_type(request)
    file = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _fill(file, request, most, when_large)
    except BaseException as error:
        with suppress(OSError):  # the disk may be full for what is still buffered
            file.close()
        if isinstance(error, TimeoutError):
            raise HTTPException(408, f"the body was not complete within {_PATIENCE_S:.0f} s") from None
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            logger.error("no space for an upload in %s: %s", tempfile.gettempdir(), error.strerror)
            await _discard(request)
            raise later("the server has no space now, and nothing was stored: try again later") from None
        if isinstance(error, HTTPException):
            await _discard(request)
        raise
    return file


async def _fill(
    file: tempfile.SpooledTemporaryFile[bytes], request: Request, most: int, when_large: Callable[[], None]
) -> None:
    chunks, is_large = request.stream(), False
    size = int(request.headers.get("content-length", 0))  # as announced, and then as received
    chunk: bytes | None = b""
    while chunk is not None:
        await run_in_threadpool(file.write, chunk)  # a slow disk must not block other requests
        size = max(size, file.tell())
        if size > most:
            detail = f"the body is larger than the {most} bytes that are accepted: see --max_report_bytes"
            raise HTTPException(413, detail)
        if size > _IN_MEMORY and not is_large:
            is_large = True
            when_large()
        chunk = await anext(chunks, None)
    await run_in_threadpool(file.flush)


def _check_type(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    if kind.strip().lower() != "application/json" or "charset" in parameters.lower().replace("charset=utf-8", ""):
        raise HTTPException(415, "the body must be JSON in UTF-8: send Content-Type: application/json")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise HTTPException(415, "the body must be sent as it is, without a Content-Encoding")


async def _discard(request: Request) -> None:
    """Read the rest of the body for a while and drop it, because a client that is cut off while sending never reads the
    answer; but not of a client that waits for "100 Continue"."""
    if "100-continue" in request.headers.get("expect", "").lower():
        return
    size = 0
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # the last if the body has ended
        async with asyncio.timeout(_PATIENCE_S / 10):
            async for chunk in request.stream():
                size += len(chunk)
                if size > _MOST_DISCARDED:
                    return


async def small_body(request: Request) -> bytes:
    """Return a small body. Raises HTTPException: 413 for a larger one, 408 for an incomplete one."""
    body = b""
    try:
        async with asyncio.timeout(_FORM_PATIENCE_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_FORM:
                    raise HTTPException(413, f"the form is too large: at most {LARGEST_FORM} bytes are accepted")
    except TimeoutError:
        raise HTTPException(408, "the body was incomplete") from None
    return body


async def form_of(request: Request) -> list[tuple[str, str]]:
    """Return a form's fields, in order. Raises HTTPException: as ``small_body``, and 400 for too many fields."""
    body = await small_body(request)
    try:
        return parse_qsl(body.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "the form has too many fields") from None
