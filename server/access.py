"""Who may do what: dependencies that let a request read or write, or refuse it."""

from datetime import UTC, datetime
from typing import Annotated, cast
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer

from opduel.server.database import Database
from opduel.server.settings import Settings
from opduel.server.tokens import find_login, find_token

COOKIE = "opduel_session"
_USUAL_PORTS = {"http": 80, "https": 443}
_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="`Authorization: Bearer <token>`")
_BASIC = HTTPBasic(auto_error=False, scheme_name="password", description="for feeds: the token as the password")
_COOKIE = APIKeyCookie(
    name=COOKIE, auto_error=False, scheme_name="login", description="The cookie that /login sets; it can read, not post"
)

Basic = Annotated[HTTPBasicCredentials | None, Security(_BASIC)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
SessionCookie = Annotated[str | None, Security(_COOKIE)]


class LoginNeeded(Exception):
    """A browser asked for a page that needs a login: it is led to one, and back to ``target``."""

    def __init__(self, target: str) -> None:
        """``target``: the path and query that were asked for."""
        super().__init__("a login is needed")
        self.target = target


def database_of(request: Request) -> Database:
    """The server's database."""
    return cast(Database, request.app.state.database)


def settings_of(request: Request) -> Settings:
    """The server's settings."""
    return cast(Settings, request.app.state.settings)


def is_api(request: Request) -> bool:
    """Whether a program asks, which is answered in JSON; others get pages."""
    return request.url.path.startswith(("/api/", "/healthz", "/mcp"))


def reader(request: Request, bearer: Bearer, login: SessionCookie) -> str | None:
    """Let a request read: anybody's with ``--open_read``, else one with a token that may, or of a browser that has
    logged in.  Returns the token's name; None for anybody.

    Raises:
        HTTPException: 401 or 403, for the API.
        LoginNeeded: for a page.
    """
    if settings_of(request).open_read:
        return None
    now = datetime.now(UTC)
    with database_of(request).reading() as session:
        if bearer is not None:
            token = find_token(session, bearer.credentials, now)
        else:
            token = find_login(session, login, now) if login else None
        if token is not None and token.can_read:
            return token.name
    if bearer is None and not is_api(request):
        query = f"?{request.url.query}" if request.url.query else ""
        raise LoginNeeded(request.url.path + query)
    if token is not None:
        raise HTTPException(403, "this token may not read: use one with --scope read")
    raise _unknown("read")


def writer(request: Request, bearer: Bearer) -> str:
    """Let a request write: one with a token that may; a browser's login never does.  Returns the token's name.

    Raises:
        HTTPException: 401 or 403.
    """
    if bearer is None:
        raise _unknown("write")
    with database_of(request).reading() as session:
        token = find_token(session, bearer.credentials, datetime.now(UTC))
    if token is None:
        raise _unknown("write")
    if not token.can_write:
        raise HTTPException(403, "this token may not write: use one with --scope write")
    return token.name


def feed_reader(request: Request, bearer: Bearer, login: SessionCookie, basic: Basic) -> str | None:
    """Let a feed reader read: as ``reader`` does, or with the token as the password of HTTP basic authentication, which
    is what feed readers know.  Returns the token's name; None for anybody.

    Raises:
        HTTPException: 401 or 403.
    """
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
    """The name of the token with which the browser logged in, if that may write; None otherwise."""
    if not login:
        return None
    with database_of(request).reading() as session:
        token = find_login(session, login, datetime.now(UTC))
        return token.name if token is not None and token.can_write else None


def browser_writer(request: Request, login: SessionCookie) -> str:
    """Let a browser acknowledge change points: one that logged in with a token that may write.  Returns its name.

    Raises:
        HTTPException: 403.
    """
    name = writing_login(request, login)
    if name is None:
        raise HTTPException(403, "log in with a token that may read and write to acknowledge change points")
    return name


def refuse_other_sites(request: Request) -> None:
    """See that a form was sent from a page of this server: nobody is logged in, logged out or made to write by somebody
    else's page.

    Every header that says where the form stands has to name this server, and one of them has to be there: a browser so
    old that it sends none is refused, for nothing would tell its own forms from those of others.

    Raises:
        HTTPException: 403.
    """
    headers = request.headers
    site = headers.get("sec-fetch-site")
    pages = [headers[name] for name in ("origin", "referer") if name in headers]
    if site is None and not pages:
        raise HTTPException(403, "the browser doesn't say which page sent this: use one that sends Origin or Referer")
    if site not in (None, "none", "same-origin") or not all(is_own_page(page, request) for page in pages[:1]):
        raise HTTPException(403, "this must be sent from this server's own page")


def is_own_page(page: str, request: Request) -> bool:
    """Whether the address of a page, or its origin, is at the host and port that the request is for. Only what came by
    TLS has to come from a page that did: a proxy may not say."""
    try:
        there = urlsplit(page)
        here = urlsplit(f"{there.scheme}://{request.headers.get('host', '')}")
        usual = _USUAL_PORTS.get(there.scheme)
        same = (there.hostname, there.port or usual) == (here.hostname, here.port or usual)
    except ValueError:
        return False
    return same and usual is not None and not (request.url.scheme == "https" and there.scheme != "https")


def _unknown(scope: str) -> HTTPException:
    detail = (
        f"no token, or one that is unknown, expired or revoked: send Authorization: Bearer <token> with scope {scope}"
    )
    return HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})


CanRead = Annotated[str | None, Depends(reader)]
CanWrite = Annotated[str, Depends(writer)]
