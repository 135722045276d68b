"""Access control: FastAPI dependencies that let a request read or write, or refuse it."""

import ipaddress
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, cast
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from sqlalchemy.orm import Session

from opduel.server.database import Database
from opduel.server.models import Token
from opduel.server.settings import Settings
from opduel.server.tokens import find_login, find_token

COOKIE = "opduel_session"
_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="`Authorization: Bearer <token>`")
_BASIC = HTTPBasic(auto_error=False, scheme_name="password", description="for feeds: the token as the password")
_COOKIE = APIKeyCookie(
    name=COOKIE, auto_error=False, scheme_name="login", description="The cookie that /login sets; it can read, not post"
)

Basic = Annotated[HTTPBasicCredentials | None, Security(_BASIC)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
SessionCookie = Annotated[str | None, Security(_COOKIE)]


class LoginNeeded(Exception):
    """Raised for a browser that needs a login: it is redirected to one, and afterwards to ``target``."""

    def __init__(self, target: str) -> None:
        """Keep ``target``, the path and query of the request."""
        super().__init__("a login is needed")
        self.target = target


def database_of(request: Request) -> Database:
    """Return the server's database."""
    return cast(Database, request.app.state.database)


def settings_of(request: Request) -> Settings:
    """Return the server's settings."""
    return cast(Settings, request.app.state.settings)


def is_for_this_server(request: Request) -> bool:
    """Return whether the Host header names this server.

    A page of another site can have its own name lead here, and so read what needs no token (DNS rebinding). Such a
    name has a dot, and the page has no token to send. Behind a proxy names are known from ``--public_url`` alone.
    """
    settings = settings_of(request)
    if "authorization" in request.headers or (settings.behind_proxy and settings.public_url is None):
        return True
    try:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return False
    own_names = (settings.host.lower(), socket.gethostname().lower(), urlsplit(settings.public_url or "").hostname)
    return "." not in name or name.endswith(".localhost") or name in own_names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_api(request: Request) -> bool:
    """Return whether the request is a program's, which gets JSON; browsers get pages."""
    return request.url.path.startswith(("/api/", "/healthz", "/mcp"))


def reader(request: Request, bearer: Bearer, login: SessionCookie) -> str | None:
    """Check that a request may read, and return its token's name; None with ``--open_read``, when no token is needed.

    The token comes in the request, or from the login of a browser. Raises HTTPException: 401 or 403, for the API;
    LoginNeeded: for a page."""
    if settings_of(request).open_read:
        return None
    token = _find_token(request, bearer, login)
    if token is not None and token.can_read:
        return token.name
    if bearer is None and not is_api(request):
        query = f"?{request.url.query}" if request.url.query else ""
        raise LoginNeeded(request.url.path + query)
    if token is not None:
        raise HTTPException(403, "this token may not read: use one with --scope read")
    raise _unknown("read")


def writer(request: Request, bearer: Bearer) -> str:
    """Return the name of the request's token, which a login is no substitute for. Raises HTTPException: 401, there is
    no valid one; 403, it may not write."""
    token = _find_token(request, bearer)
    if token is None:
        raise _unknown("write")
    if not token.can_write:
        raise HTTPException(403, "this token may not write: use one with --scope write")
    return token.name


def feed_reader(request: Request, bearer: Bearer, login: SessionCookie, basic: Basic) -> str | None:
    """Check as ``reader`` does, but also take the token as the password of HTTP basic authentication, which is what
    feed readers know. Raises HTTPException: 401 or 403."""
    if basic is not None:
        bearer = HTTPAuthorizationCredentials(scheme="Bearer", credentials=basic.password)
    try:
        return reader(request, bearer, login)
    except LoginNeeded:
        pass
    except HTTPException as error:
        if error.status_code != 401:
            raise
    detail = "a feed needs a token with scope read: give it as the password, with any user name"
    raise HTTPException(401, detail, {"WWW-Authenticate": 'Basic realm="opduel results"'})


def writing_login(request: Request, login: SessionCookie) -> str | None:
    """Return the name of the token with which the browser logged in, if it may write, else None."""
    token = _find_token(request, None, login)
    return token.name if token is not None and token.can_write else None


def _find_token(request: Request, bearer: Bearer, login: str | None = None) -> Token | None:
    """Return the valid token that the request has, or else that of the browser's login."""
    now = datetime.now(UTC)
    with database_of(request).reading() as session:
        if bearer is not None:
            return find_token(session, bearer.credentials, now)
        return find_login(session, login, now) if login else None


def browser_writer(request: Request, login: SessionCookie) -> str:
    """Return the name of the token with which the browser logged in. Raises HTTPException: 403, it may not write."""
    name = writing_login(request, login)
    if name is None:
        raise HTTPException(403, "log in with a token that may read and write to acknowledge change points")
    return name


def refuse_other_sites(request: Request) -> None:
    """Refuse a form that another site's page sends (cross-site request forgery).

    Every header that names the sending page must name this server. A browser so old that it sends no such header is
    refused too, because its own forms look the same as other sites'. Raises HTTPException: 403."""
    headers = request.headers
    site = headers.get("sec-fetch-site")
    pages = [headers[name] for name in ("origin", "referer") if name in headers]
    if site is None and not pages:
        raise HTTPException(403, "the browser doesn't say which page sent this: use one that sends Origin or Referer")
    if site not in (None, "none", "same-origin") or not all(is_own_page(page, request) for page in pages[:1]):
        raise HTTPException(403, "this must be sent from this server's own page")


def is_own_page(page: str, request: Request) -> bool:
    """Return whether ``page``, an address or an origin, has the host and port of the request. Its scheme is compared
    only when the request came by TLS, as a proxy may not pass it on."""
    try:
        there = urlsplit(page)
    except ValueError:
        return False
    is_secure = there.scheme == "https" or (there.scheme == "http" and request.url.scheme != "https")
    return is_secure and there.netloc.lower() == request.headers.get("host", "").lower()


def _unknown(scope: str) -> HTTPException:
    detail = (
        f"no token, or one that is unknown, expired or revoked: send Authorization: Bearer <token> with scope {scope}"
    )
    return HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})


CanRead = Annotated[str | None, Depends(reader)]
CanWrite = Annotated[str, Depends(writer)]


def _read_session(request: Request, _reader: CanRead) -> Iterator[Session]:
    """Yield a transaction that only reads, to a request that may read; it ends before the answer is sent."""
    with database_of(request).reading() as session:
        yield session


ReadSession = Annotated[Session, Depends(_read_session, scope="function")]
