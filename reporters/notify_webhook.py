"""The notifier that posts to an incoming webhook, of Slack or a similar service. Its address is secret and never
shown."""

import os
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import requests
import urllib3

from opduel.records import RunError, UsageError
from opduel.reporters.alert_text import slack_message
from opduel.reporters.alerts import Alert
from opduel.reporters.http_retry import OneAnswerSession, TooLongError, is_later, is_unconnected, within
from opduel.reporters.notifier import Notifier
from opduel.reporters.options import WEBHOOK_VARIABLE, ReporterOptions
from opduel.reporters.text import printable
from opduel.support.atomic import user_path
from opduel.support.files import UnreadableError, read_text

SILENCE_S = 10.0  # without any data from the server
WHOLE_S = 20.0  # for one attempt
LONGEST = 4096  # bytes of a file that holds the address
PAUSES_S = (1.0, 4.0)  # before the second attempt and the third
_WRONG = (requests.RequestException, urllib3.exceptions.HTTPError, ValueError)  # their texts hold the address


class NotifyWebhook(Notifier, option="notify_webhook"):
    """Posts the alarm as JSON. No redirection is followed: the message is for the address that was given."""

    def __init__(
        self,
        url: str,
        pauses_s: tuple[float, ...] = PAUSES_S,
        silence_s: float = SILENCE_S,
        whole_s: float = WHOLE_S,
        source: str = "--notify_webhook",
    ) -> None:
        """Post to ``url``; as many attempts as there are pauses, and one more. ``source``: who gave the address. Raises
        UsageError: it is no address that can be posted to; the text doesn't show it."""
        self._url = url
        self._host = _host_of(url, source)
        self._pauses_s = pauses_s
        self._silence_s = silence_s
        self._whole_s = whole_s

    @classmethod
    def from_options(cls, options: ReporterOptions) -> list[Self]:
        """Return the notifiers that the options ask for, or else that of the address in the environment."""
        text = os.environ.get(WEBHOOK_VARIABLE, "").strip()
        if not text or options.value(cls.option):
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
        message = slack_message(alert)
        for pause_s in (*self._pauses_s, None):
            reason, may_help = self._attempt(message)
            if not reason:
                return
            if not may_help or pause_s is None:
                raise RunError(f"{self._host}: {reason}")
            time.sleep(pause_s)

    def _attempt(self, message: object) -> tuple[str, bool]:
        """Return why the message was not taken (empty if it was), and whether another attempt may help."""
        settings: dict[str, Any] = {"timeout": self._silence_s, "stream": True}

        def post() -> tuple[str, bool]:
            with OneAnswerSession() as session, session.post(self._url, json=message, **settings) as response:
                return _judged(response.status_code)

        try:
            return within(self._whole_s, post)
        except TooLongError:
            return f"no answer within {self._whole_s:g} s", False
        except requests.exceptions.SSLError:
            return "its certificate is not trusted, or TLS failed", False
        except requests.exceptions.ConnectTimeout:
            return f"no connection within {self._silence_s:g} s", True
        except requests.Timeout:
            return f"no answer within {self._silence_s:g} s", False
        except requests.ConnectionError as error:
            if is_unconnected(error):
                return "no connection: is the network up?", True
            return "the connection ended before an answer came: the message may have been delivered", False
        except _WRONG as error:
            return f"the post failed ({type(error).__name__}): correct the address", False
        except OSError as error:  # a file of certificates that is not there
            reason = error.strerror or type(error).__name__
            return f"nothing could be posted ({reason}): correct REQUESTS_CA_BUNDLE, if that is set", False


def _judged(status: int) -> tuple[str, bool]:
    if 200 <= status < 300:
        return "", False
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    words = f"the server says {status} {phrase}".strip()
    if 300 <= status < 400:
        return f"{words}, and no redirection is followed: give the address that it leads to", False
    return (words, True) if is_later(status) else (f"{words}: correct the address", False)


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
