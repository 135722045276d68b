"""Tokens and logins: made at random, known at rest by their SHA-256 alone, compared in constant time."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from opduel.records import UsageError
from opduel.server.models import Login, Token

SCOPES = ("read", "write")
TOKEN_PATTERN = re.compile(r"opduel_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")  # the public part, and 256 secret bits
LOGIN_LASTS = timedelta(days=7)
_LONGEST_NAME = 100


def add_token(session: Session, name: str, scopes: Sequence[str], now: datetime, lasts: timedelta | None = None) -> str:
    """Store a token called ``name`` and return it, this once only. With ``lasts`` None it is valid until revoked.
    Raises UsageError: the name is taken, empty or not printable, or there are no scopes."""
    expires = check_token(name, scopes, now, lasts)
    if session.scalar(select(Token).where(Token.name == name)) is not None:
        raise UsageError(f"token add {name}: a token of this name exists, or was revoked: give another name")
    key, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    session.add(
        Token(
            name=name,
            key=key,
            digest=_digest(secret),
            can_read="read" in scopes,
            can_write="write" in scopes,
            created=now,
            expires=expires,
        )
    )
    return f"opduel_{key}_{secret}"


def check_token(name: str, scopes: Sequence[str], now: datetime, lasts: timedelta | None = None) -> datetime | None:
    """Check a token's name, scopes and life, and return when it would expire. Raises UsageError: the name is empty, too
    long or not printable, there are no scopes, or it would last too long."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise UsageError(f"token add: NAME must be 1 to {_LONGEST_NAME} printable characters")
    if not scopes:
        raise UsageError("token add: give --scope read, --scope write, or both")
    try:
        return None if lasts is None else now + lasts
    except OverflowError:
        raise UsageError("token add: --expires: that is too far away: give fewer days, or none") from None


def revoke_token(session: Session, name: str, now: datetime) -> None:
    """Revoke the token called ``name``, and remove the logins made with it. Raises UsageError: there is none."""
    token = session.scalar(select(Token).where(Token.name == name))
    if token is None:
        raise UsageError(f"token revoke {name}: there is no token of this name: see token list")
    token.revoked = token.revoked or now
    session.execute(delete(Login).where(Login.token_number == token.number))


def find_token(session: Session, text: str, now: datetime) -> Token | None:
    """Return the token that ``text`` is, if it is valid."""
    parts = TOKEN_PATTERN.fullmatch(text)
    if parts is None:
        return None
    token = session.scalar(select(Token).where(Token.key == parts[1]))
    if token is None or not hmac.compare_digest(token.digest, _digest(parts[2])):
        return None
    return token if is_valid(token, now) else None


def is_valid(token: Token, now: datetime) -> bool:
    """Return whether ``token`` is neither revoked nor expired."""
    return token.revoked is None and (token.expires is None or now < token.expires)


def begin_login(session: Session, token: Token, now: datetime) -> str:
    """Store a login of ``token``'s owner, return its random id for a cookie, and remove logins that have expired."""
    session.execute(delete(Login).where(Login.expires <= now))
    text = secrets.token_urlsafe(32)
    session.add(Login(digest=_digest(text), token_number=token.number, created=now, expires=now + LOGIN_LASTS))
    return text


def find_login(session: Session, text: str, now: datetime) -> Token | None:
    """Return the token of the login whose id is ``text``, if both are valid."""
    login = session.get(Login, _digest(text))
    if login is None or login.expires <= now or not is_valid(login.token, now):
        return None
    return login.token


def end_login(session: Session, text: str) -> None:
    """Remove the login whose id is ``text``."""
    session.execute(delete(Login).where(Login.digest == _digest(text)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
