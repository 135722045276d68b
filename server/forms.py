"""Small bodies, such as forms that browsers send, received in bounds."""

import asyncio
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request

LARGEST_FORM, MOST_FIELDS = 65_536, 1000  # bytes, fields
_PATIENCE_S = 10.0


async def small_body(request: Request, largest: int = LARGEST_FORM) -> bytes:
    """A whole body.

    Raises:
        HTTPException: 413 for a larger one, 408 for one that doesn't come to its end.
    """
    body = b""
    try:
        async with asyncio.timeout(_PATIENCE_S):
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
