"""Middleware around every request: a check of its Host, security headers, a line in the log, an answer to every error,
compression; and HEAD for all that has GET.

The length of a compressed page tells how much of a text in it repeats another one. An attacker who makes a browser
request pages with chosen texts, and sees the lengths of the answers, could so guess a secret (BREACH, CVE-2013-3587).
No page holds a token or a cookie, but reports may be confidential. So answers to requests that another site or host
caused, which the browser says in Sec-Fetch-Site, are not compressed.
"""

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from opduel.server.access import is_for_this_server
from opduel.server.error_handlers import RETRY_AFTER_S, answer
from opduel.server.logs import logger, one_field

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_LONGEST_PATH = 200
SMALLEST = 1024  # bytes: below, compression saves no packet
_LEVEL = 6
_OWN = ("none", "same-origin")


class SecurityMiddleware:
    """Adds security headers, logs each request, and answers errors that nothing else has handled."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request; pass other messages on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def guarded_send(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        # HEAD is answered as GET; uvicorn leaves out the body.
        inner_scope = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            if is_for_this_server(Request(scope)):
                await self.app(inner_scope, receive, guarded_send)
            else:
                response = answer(
                    Request(scope), 421, "the server is not known by this name: give it with --public_url"
                )
                await response(scope, receive, guarded_send)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the server is ending, and has waited long enough
            if status == 0:
                again = {"Retry-After": str(RETRY_AFTER_S)}
                response = answer(Request(scope), 503, "the server is being stopped: try again later", again)
                await response(scope, receive, guarded_send)
        except Exception:
            logger.exception("a request failed")
            if status == 0:
                response = answer(Request(scope), 500, "the server failed: its log says why")
                await response(scope, receive, guarded_send)
        # Only the path is logged: a query string may hold a secret.
        took_ms = round((time.monotonic() - began) * 1000)
        client = one_field((scope.get("client") or ("-",))[0])
        path = one_field(scope["path"])[:_LONGEST_PATH]  # masked before it is cut: half a token would not be masked
        logger.info("%s %s %s %s %d ms", client, one_field(scope["method"]), path, status or "gone", took_ms)


class Compression(GZipMiddleware):
    """Compresses answers, except those that are small, or to requests that another site caused."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, minimum_size=SMALLEST, compresslevel=_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        may_pack = scope["type"] == "http" and Headers(scope=scope).get("sec-fetch-site", "none") in _OWN
        await (super().__call__ if may_pack else self.app)(scope, receive, send)
