"""The place that a report is sent to: the endpoint of a results server, and the category under which it stores it."""

import ipaddress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from opduel.records import UsageError
from opduel.reporters.options import PLACE
from opduel.support.redaction import redact, without_user
from opduel.support.text import clipped, printable

LONGEST_CATEGORY = 100  # characters
_LONGEST_ENDPOINT = 2000


@dataclass(frozen=True)
class Place:
    """``endpoint``: a URL without user, query and fragment, https unless http was written out."""

    endpoint: str
    category: str


def parse_place(text: str) -> Place:
    """Return the place that ``<domain>/<endpoint>|<category>`` names. Raises UsageError: it names none, or contains a
    password; the text shows no password."""
    endpoint, bar, category = (part.strip() for part in text.rpartition("|"))
    if not bar or not endpoint or not category or "|" in endpoint:
        raise _wrong(text, f"write {PLACE}, in quotes, with one bar")
    if len(category) > LONGEST_CATEGORY or not category.isprintable():
        raise _wrong(text, f"give a category of at most {LONGEST_CATEGORY} printable characters")
    return Place(parse_endpoint(endpoint), category)


def parse_endpoint(text: str) -> str:
    """Return the URL of an endpoint, with its host in lower case, and https if there is no scheme. Raises UsageError:
    it is not such a URL, or contains a password; the text shows no password."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(text, f"correct the address ({error})") from None
    if "@" in parts.netloc:
        raise _wrong(text, "holds a user or password, which anybody can read in the process list: use a token")
    is_plain = text.isprintable() and len(text) <= _LONGEST_ENDPOINT and not {*" \\?#"} & {*text}
    if not is_plain or parts.scheme not in ("http", "https") or not host or not parts.path.strip("/"):
        raise _wrong(text, "give the address of an http or https server with the endpoint, such as /api/v1/reports")
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path, "", ""))


def origin(endpoint: str) -> str:
    """Return scheme, host and port, which identify who gets a token that is sent there."""
    parts = urlsplit(endpoint)
    usual: dict[str, Literal[80, 443]] = {"http": 80, "https": 443}
    return f"{parts.scheme}://{parts.hostname}:{parts.port or usual[parts.scheme]}"


def is_open(endpoint: str) -> bool:
    """Return whether others on the network path can read what is sent: by http, to another machine."""
    parts = urlsplit(endpoint)
    if parts.scheme == "https" or parts.hostname is None:
        return False
    try:
        return not ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname != "localhost"


def _wrong(text: str, fix: str) -> UsageError:
    address = printable(clipped(redact(without_user(text)), 200))
    return UsageError(f"--remote_reporter {address}: {fix}")
