"""The notifier that posts to an incoming webhook, of Slack or a similar service. Its address is secret and never
shown."""

import json
import os
from http import HTTPStatus
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from opduel.records import RunError, UsageError
from opduel.reporters.alert_text import slack_message
from opduel.reporters.alerts import Alert
from opduel.reporters.http_request import RequestFailedError, is_later, repeat, send
from opduel.reporters.notifier import Notifier
from opduel.reporters.options import WEBHOOK_VARIABLE, ReporterOptions
from opduel.reporters.text import printable
from opduel.support.atomic import user_path
from opduel.support.files import UnreadableError, read_text

LONGEST = 4096  # bytes of a file that holds the address


class NotifyWebhook(Notifier, option="notify_webhook"):
    """Posts the alarm as JSON. No redirection is followed: the message is for the address that was given."""

    def __init__(self, url: str, source: str = "--notify_webhook") -> None:
        """Post to ``url``. ``source``: who gave the address. Raises UsageError: it is no address that can be posted to;
        the text doesn't show it."""
        self._url = url
        self._host = _host_of(url, source)

    @classmethod
    def from_options(cls, options: ReporterOptions) -> list[Self]:
        """Return the notifiers that the options ask for, or else that of the address in the environment."""
        text = os.environ.get(WEBHOOK_VARIABLE, "").strip()
        if not text or options.notify_webhook:
            return super().from_options(options)
        notifier = cls._of(text, WEBHOOK_VARIABLE)
        notifier.unverified = options.notify_unverified
        return [notifier]

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        return cls._of((value or "").strip(), f"--{cls.option}")

    @classmethod
    def _of(cls, text: str, source: str) -> Self:
        if not text.startswith("@"):
            return cls(text, source=source)
        path = user_path(text[1:], source)
        source = f"{source} @{path}"
        return cls(_read(path, source), source=source)

    def send(self, alert: Alert) -> None:
        """Post it, again after a pause if that may help. After a silence it may have been delivered nevertheless."""
        message = json.dumps(slack_message(alert)).encode()
        try:
            repeat(lambda: self._post(message))
        except RequestFailedError as error:
            raise RunError(f"{self._host}: {error}") from None

    def _post(self, message: bytes) -> None:
        """Post it once. Raises RequestFailedError: it was not taken, or perhaps not."""
        try:
            status = send("POST", self._url, message, {"Content-Type": "application/json"}).status
        except RequestFailedError as error:
            if error.may_have_arrived:
                raise RequestFailedError(f"{error}: the message may have been delivered", False) from None
            raise
        if 200 <= status < 300:
            return
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        words = f"the server says {status} {phrase}".strip()
        if 300 <= status < 400:
            words += ", and no redirection is followed: give the address that it leads to"
        elif not is_later(status):
            words += ": correct the address"
        raise RequestFailedError(words, is_later(status))


def _host_of(url: str, source: str) -> str:
    """Return the host, which may be shown; errors name ``source``."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or not url.isprintable() or " " in url:
        raise UsageError(f"{source}: not an http(s) address: write https://, host and path")
    return printable(host)


def _read(path: Path, source: str) -> str:
    try:
        lines = read_text(path, LONGEST).split()
    except UnreadableError as error:
        raise UsageError(f"{source}: cannot be read ({error}): give the file of the address") from None
    if len(lines) != 1:
        raise UsageError(f"{source}: holds {len(lines)} words: write the address there, alone")
    return lines[0]
