"""What all tests share: real MXNet builds, from the user's build cache, and a processor for each of several workers."""

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from driver.builds import BuildCache, resolve_build
from frameworks import get_framework
from records import Build
from reporters.notify_webhook import VARIABLE as WEBHOOK
from reporters.remote.token import VARIABLE as TOKEN

settings.register_profile("untimed", deadline=None)  # how long an example takes says what else the machine does
settings.load_profile("untimed")


def pytest_configure() -> None:
    """A worker of pytest-xdist, and whatever its tests start, keeps to a processor of its own.

    So runs of the product that are tested at the same time don't measure on the same one.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # gw0, gw1, ...
    if worker:
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[int(worker.removeprefix("gw")) % len(allowed)]})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, so that all workers end at about the same time."""
    items.sort(key=lambda item: "end_to_end" not in item.path.parts)


@pytest.fixture(scope="session", autouse=True)
def _no_receivers() -> Iterator[None]:
    """Whoever runs the tests may be told of real runs; of these nobody is."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in (WEBHOOK, TOKEN):
            patch.delenv(variable, raising=False)
        yield


def release(version: str) -> Build:
    return resolve_build(f"mxnet=={version}", get_framework("mxnet"), BuildCache())


@pytest.fixture(scope="session")
def mxnet_1_5() -> Build:
    """mxnet==1.5.1.post0."""
    return release("1.5.1.post0")


@pytest.fixture(scope="session")
def mxnet_1_8() -> Build:
    """mxnet==1.8.0.post0."""
    return release("1.8.0.post0")


@pytest.fixture(scope="session")
def mxnet_1_9() -> Build:
    """mxnet==1.9.1."""
    return release("1.9.1")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A real browser, without a window; the system's own."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on the PATH: bash .ci/tools installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A fresh page. A test in which anything was written to its console as a warning or an error fails."""
    context = chromium.new_context()
    page = context.new_page()
    problems: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert not problems
