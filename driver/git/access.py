"""How a remote is reached unattended: its URL without credentials, and the login handed over in the environment."""

import base64
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from opduel.records import UsageError
from opduel.support.redaction import without_user

TOKEN_VARIABLE, USER_VARIABLE = "OPDUEL_GIT_TOKEN", "OPDUEL_GIT_USER"
DEFAULT_USER = "x-access-token"

_TOKEN_PREFIXES = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glcbt-")
_WEB = ("http", "https")

# A credential helper (gitcredentials, "Custom helpers"), which gets the secret in its environment.
_HELPER = f"""!f() {{ printf 'password=%s\\n' "${TOKEN_VARIABLE}"; }}; f"""


@dataclass(frozen=True)
class Login:
    """A user name and a secret, for one site ("https://host:port") and no other."""

    site: str
    user: str = field(repr=False)  # may be a token
    secret: str = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All that must not be seen: the secret, a user name that is one, and both as basic authentication sends
        them."""
        pair = base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()
        return (self.secret, pair, *((self.user,) if _is_token(self.user) else ()))

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Git's settings by which it uses the login: for its site only, so that a submodule or a redirection elsewhere
        gets nothing; without the user's helpers, since one of them might keep it."""
        section = f"credential.{self.site}"
        return (f"{section}.helper", ""), (f"{section}.helper", _HELPER), (f"{section}.username", self.user)


@dataclass(frozen=True)
class Access:
    """A remote's URL as it is stored and run with, and what is handed over in the environment besides.

    ``url`` holds no credentials; None: there is no remote. ``config`` is in force for every command (key, value), the
    login for those that use the network.
    """

    url: str | None = None
    login: Login | None = None
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All of the login that must not be seen."""
        return self.login.secrets if self.login else ()

    def environment(self, network: bool, settings: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the variables of a command with these settings of git."""
        login = self.login if network else None
        own = (*settings, *self.config, *(login.settings if login else ()))
        return {**config_environment(own), TOKEN_VARIABLE: login.secret if login else ""}


def check_remote(
    url: str,
    alternative: str = f"use git's credential helper or the variable {TOKEN_VARIABLE}",
    option: str = "--remote_repository",
) -> None:
    """Raise UsageError for what, given on the command line, can be no URL or folder, or holds a password or a token."""
    _, login = split(url)
    user_at_host = re.match(r"([^/@:]+)@[^/@:]+:", url)
    if login or (user_at_host and _is_token(user_at_host[1])):
        raise UsageError(
            f"{option} {without_user(url)}: holds a password or token, which the process list would show: "
            f"give the URL without it, and {alternative}"
        )
    if not url.strip() or url.startswith("-"):
        raise UsageError(f"{option} {url!r}: neither a URL nor a folder")
    try:
        _ = urlsplit(url if "://" in url else "").port
    except ValueError:
        if "@" in url:  # else git says that it is no address
            raise UsageError(f"{option} {without_user(url)}: is no URL: write a / in a password as %2F") from None


def access_to(url: str, effective: str, config: tuple[tuple[str, str], ...] = ()) -> Access:
    """Return the access to a URL that may hold credentials, and that the user's ``url.<x>.insteadOf`` makes
    ``effective``.

    The login is the one of OPDUEL_GIT_TOKEN and OPDUEL_GIT_USER, else that of the effective URL, else that of the
    URL. It is used for http and https only.
    """
    clean, own = split(url)
    target, rewritten = split(effective)
    login = _from_environment(target) or rewritten or own
    if rewritten:  # a rule without credentials that is more exact than the user's, or comes to the same
        clean = target
        config = (*config, (f"url.{target}.insteadOf", target))
    return Access(clean, login, config)


def split(url: str) -> tuple[str, Login | None]:
    """Return a URL without its secret, and the login that it held. A user name that is no token stays."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, None
    user_info, at, host = parts.netloc.rpartition("@")
    if not at or "://" not in url:
        return url, None
    user, _, password = (unquote(part) for part in user_info.partition(":"))
    if not password and not _is_token(user):
        return url, None
    if parts.scheme not in _WEB:
        return urlunsplit(parts._replace(netloc=f"{user_info.partition(':')[0]}@{host}")), Login(host, user, password)
    clean = urlunsplit(parts._replace(netloc=host))
    return clean, Login(f"{parts.scheme}://{host}", user, password or "x-oauth-basic")


def token_site(url: str) -> str | None:
    """Return the site that gets the environment's token for this URL; None without a token, or if the URL is none of
    the web."""
    login = _from_environment(url)
    return None if login is None else login.site


def is_url(text: str) -> bool:
    """Tell whether git takes it for a URL or "host:path", not for a folder: gitdocs, "GIT URLS"."""
    return "://" in text or "::" in text or bool(re.match(r"[^/]+:", text))


def config_environment(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return settings as git reads them from its environment, after those that are there already (git-config,
    GIT_CONFIG_COUNT)."""
    text = os.environ.get("GIT_CONFIG_COUNT", "")
    count = int(text) if text.isdigit() else 0
    variables: dict[str, str] = {}
    for key, value in settings:
        variables |= {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
        count += 1
    return {**variables, "GIT_CONFIG_COUNT": str(count)}


def _from_environment(url: str) -> Login | None:
    """Return the login of the environment, for a URL of the web."""
    try:
        parts = urlsplit(url) if "://" in url else None
    except ValueError:  # git will say that it is no address
        return None
    token = os.environ.get(TOKEN_VARIABLE)
    if not token or not parts or parts.scheme not in _WEB:
        return None
    site = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return Login(site, os.environ.get(USER_VARIABLE) or DEFAULT_USER, token)


def _is_token(user: str) -> bool:
    """Tell whether a user name is a token: one of the known forges, or too long and too odd for a name."""
    is_odd = len(user) >= 12 and re.search(r"\d[^\W\d_]", user) is not None
    return user.startswith(_TOKEN_PREFIXES) or is_odd or (len(user) >= 20 and any(map(str.isdigit, user)))
