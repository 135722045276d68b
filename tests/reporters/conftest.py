"""What the tests of reporters share: servers are reached directly, and again without a pause; and a browser."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Request
from shown_report import Shown

from opduel.reporters import http_request


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_request, "PAUSES_S", (0.0, 0.0))


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> Iterator[Shown]:
    """Yield what opens reports as files. A test in which a page asked for anything else, or logged a problem, fails."""
    requests: list[str] = []

    def heard(request: Request) -> None:
        if urlsplit(request.url).scheme not in ("file", "data"):
            requests.append(request.url)

    page.on("request", heard)
    yield Shown(page, tmp_path)
    assert not requests
