"""Logins of browsers: a page takes a token once, and a cookie then holds the id of a login instead of it."""

import time
from collections import OrderedDict, deque
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from opduel.server.access import COOKIE, database_of, refuse_other_sites
from opduel.server.templating import page, redirect_with_cookie
from opduel.server.tokens import LOGIN_LASTS, begin_login, end_login, find_token
from opduel.server.upload import form_of

_MOST_FAILURES, _FAILURES_WITHIN_S, _MOST_ADDRESSES = 10, 60.0, 1000

router = APIRouter(include_in_schema=False)


class Failures:
    """Counts failed logins by address: after ten within a minute, further ones are refused unseen."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return how many seconds ``address`` has to wait; 0 if it need not."""
        times = self._times.get(address)
        if times is None or len(times) < _MOST_FAILURES:
            return 0.0
        return max(0.0, times[0] + _FAILURES_WITHIN_S - time.monotonic())

    def add(self, address: str) -> None:
        """Count a failure of ``address``. The addresses that failed longest ago are forgotten beyond 1000."""
        self._times.setdefault(address, deque(maxlen=_MOST_FAILURES)).append(time.monotonic())
        self._times.move_to_end(address)
        while len(self._times) > _MOST_ADDRESSES:
            self._times.popitem(last=False)


@router.get("/login")
def login_page(request: Request, next: str = "/") -> Response:
    """Show the page that asks for a token.

    A browser that follows a link from another site comes here even when logged in, because a strict cookie isn't sent
    then; the page's own link sends it.
    """
    from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    return page(request, "login.html", next=_local(next), problem=None, go_on=from_elsewhere and next != "/")


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Take a token, and redirect to the page that the browser asked for, or show what was wrong."""
    refuse_other_sites(request)
    form = dict(await form_of(request))
    target = _local(form.get("next", "/"))
    failures: Failures = request.app.state.failures
    address = request.client.host if request.client else ""
    if (wait_s := failures.wait_s(address)) > 0:
        problem = "Too many failed attempts: wait a minute."
        answer = page(request, "login.html", 429, next=target, problem=problem, go_on=False)
        answer.headers["Retry-After"] = str(int(wait_s) + 1)
        return answer
    login = await run_in_threadpool(_begin, request, form.get("token", "").strip())
    if login is None:
        failures.add(address)
        problem = "That is not a valid token with scope read."
        return page(request, "login.html", 401, next=target, problem=problem, go_on=False)
    return redirect_with_cookie(request, target, COOKIE, login, LOGIN_LASTS)


@router.post("/logout")
def log_out(request: Request) -> Response:
    """End the browser's login."""
    refuse_other_sites(request)
    if login := request.cookies.get(COOKIE):
        with database_of(request).writing() as session:
            end_login(session, login)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _begin(request: Request, text: str) -> str | None:
    """Return the id of a new login. Return None, without a write, if ``text`` is not a token that may read."""
    now = datetime.now(UTC)
    with database_of(request).reading() as session:
        token = find_token(session, text, now)
    if token is None or not token.can_read:
        return None
    with database_of(request).writing() as session:
        return begin_login(session, token, now)


def _local(target: str) -> str:
    """Return ``target`` if it is a path of this server, else "/", so that nobody is redirected to another site."""
    is_path = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if is_path and target.isprintable() and "\\" not in target else "/"
