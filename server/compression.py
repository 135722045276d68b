"""Answers packed by gzip, where that saves something and can't tell others what is in them.

The length of a packed page says how much of a text in it repeats another one. Who can make a browser ask for pages
with texts of their own, and sees the lengths of the answers, could so guess a secret in them (BREACH, CVE-2013-3587).
No page holds a token, a cookie or another secret that opens anything, but reports may be confidential. So what another
site or another host made a browser ask for, which the browser says in Sec-Fetch-Site, is not packed.
"""

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

SMALLEST = 1024  # bytes: below, packing saves no packet
_LEVEL = 6
_OWN = ("none", "same-origin")


def may_be_packed(headers: Headers) -> bool:
    """Whether the answer to a request with these headers may be packed."""
    accepted = {one.partition(";")[0].strip().lower() for one in headers.get("accept-encoding", "").split(",")}
    return "gzip" in accepted and headers.get("sec-fetch-site", "none") in _OWN


class Compression:
    """Packs answers; those that are packed already, or small, stay as they are."""

    def __init__(self, app: ASGIApp) -> None:
        """Around ``app``."""
        self._plain = app
        self._packing = GZipMiddleware(app, minimum_size=SMALLEST, compresslevel=_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        wanted = scope["type"] == "http" and may_be_packed(Headers(scope=scope))
        await (self._packing if wanted else self._plain)(scope, receive, send)
