"""The notifier that posts to an incoming webhook, of Slack or what is like it. Its address is a secret: never shown."""

import argparse
import os
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import urlsplit

import requests

from records import RunError, UsageError
from reporters.alarm import Alarm
from reporters.alarm_text import slack_message
from reporters.notifier import Notifier
from reporters.text import printable

VARIABLE = "OPDUEL_NOTIFY_WEBHOOK"
SILENCE_S = 10.0  # without a word from the server
WHOLE_S = 20.0  # for one attempt
ATTEMPTS = 3
PAUSES_S = (1.0, 4.0)  # before the second attempt and the third
_LATER = (408, 425, 429, 500, 502, 503, 504)


class NotifyWebhook(Notifier):
    """Posts the alarm as JSON. No redirection is followed: the message is for the address that was given."""

    option: ClassVar[str] = "notify_webhook"
    secret_options: ClassVar[frozenset[str]] = frozenset({"notify_webhook"})
    metavar: ClassVar[str | None] = "URL"
    help: ClassVar[str] = (
        f"likewise, post JSON as Slack takes it to URL, or to that in the file of @FILE; else to that in {VARIABLE}"
    )

    def __init__(
        self, url: str, pauses_s: tuple[float, ...] = PAUSES_S, silence_s: float = SILENCE_S, whole_s: float = WHOLE_S
    ) -> None:
        """Post to ``url``; as many attempts as there are pauses, and one more.

        Raises:
            UsageError: it is no address that can be posted to; the text doesn't show it.
        """
        super().__init__()
        self._url = url
        self._host = _host_of(url)
        self._pauses_s = pauses_s
        self._silence_s = silence_s
        self._whole_s = whole_s

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> list[Self]:
        """Those that were asked for; without any, the one whose address is in the environment."""
        given = getattr(options, cls.option, None) or [os.environ.get(VARIABLE, "").strip()]
        if given == [""]:
            return []
        return super().from_options(argparse.Namespace(**{**vars(options), cls.option: given}))

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """The notifier for ``--notify_webhook URL`` or ``@FILE``.

        Raises:
            UsageError: the file can't be read, or it is no address.
        """
        text = (value or "").strip()
        return cls(_read(Path(text[1:]).expanduser()) if text.startswith("@") else text)

    def send(self, alarm: Alarm) -> None:
        """Post it; again after a pause where that may help.

        Raises:
            RunError: it was not taken. After a silence it may have been all the same.
        """
        message = slack_message(alarm)
        reason = ""
        for pause_s in (0.0, *self._pauses_s):
            time.sleep(pause_s)
            reason, later = self._attempt(message)
            if not reason:
                return
            if not later:
                break
        raise RunError(f"{self._host}: {reason}")

    def _attempt(self, message: object) -> tuple[str, bool]:
        """Why it was not taken (empty if it was), and whether another attempt may help."""
        answers: list[tuple[str, bool]] = []
        # A server that sends a byte now and then keeps requests waiting for ever, but not us.
        _within(self._whole_s, lambda: answers.append(self._post(message)))
        return answers[0] if answers else (f"no answer within {self._whole_s:g} s", False)

    def _post(self, message: object) -> tuple[str, bool]:
        try:
            with requests.post(
                self._url, json=message, timeout=self._silence_s, allow_redirects=False, stream=True
            ) as response:
                return _judged(response.status_code)
        except requests.exceptions.SSLError:
            return "its certificate is not trusted, or TLS failed", False
        except requests.exceptions.ConnectTimeout:
            return f"no connection within {self._silence_s:g} s", True
        except requests.Timeout:
            return f"no answer within {self._silence_s:g} s", False
        except requests.ConnectionError:
            return "no connection: is the network up?", True
        except (requests.RequestException, ValueError) as error:  # their texts hold the address
            return f"the post failed ({type(error).__name__}): correct the address", False


def _judged(status: int) -> tuple[str, bool]:
    if 200 <= status < 300:
        return "", False
    known = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    words = f"the server says {status} {known}".strip()
    if 300 <= status < 400:
        return f"{words}, and no redirection is followed: give the address that it leads to", False
    return (words, True) if status in _LATER else (f"{words}: correct the address", False)


def _within(seconds: float, action: Callable[[], None]) -> None:
    """Wait for the action, but no longer than that; what then still goes on is left to itself."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(seconds)


def _host_of(url: str) -> str:
    """The host, which may be shown."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or not url.isprintable() or " " in url:
        raise UsageError("--notify_webhook: what it was given is no http(s) address: write https://, host and path")
    return printable(host)


def _read(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"--notify_webhook @{path}: cannot be read ({reason}): give the file of the address") from None
    if len(lines) != 1:
        raise UsageError(f"--notify_webhook @{path}: holds {len(lines)} words: write the address there, alone")
    return lines[0]
