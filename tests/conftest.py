"""What all tests share: real MXNet builds, from the user's build cache, and a processor for each of several workers."""

import errno
import gc
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from made_reports import Measuring
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.records import Build
from opduel.reporters.options import TOKEN_VARIABLE as TOKEN
from opduel.reporters.options import WEBHOOK_VARIABLE as WEBHOOK
from opduel.support import redaction

# How long an example takes says what else the machine does; and each run draws other examples.
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """A worker of pytest-xdist, and whatever its tests start, keeps to a processor of its own.

    So runs of the product that are tested at the same time don't measure on the same one.  Ctrl-C and a closed terminal
    stop what tests start, also where the tests were started with these signals ignored: in a shell's background, or by
    nohup.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # gw0, gw1, ...
    if worker:
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[int(worker.removeprefix("gw")) % len(allowed)]})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folders with the longest files come first, so that all workers end at about the same time."""
    longest = ("end_to_end", "server", "frameworks", "opduel")
    places = {name: place for place, name in enumerate(longest)}
    items.sort(key=lambda item: places.get(item.path.parent.name, len(longest)))


def pytest_collection_finish() -> None:
    """What has been imported and collected stays: garbage collections leave it out, of which some took seconds."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_receivers() -> Iterator[None]:
    """The user's notifiers are for real runs; tests notify nobody."""
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


@dataclass(frozen=True)
class SmallDisk:
    """A file system of its own that a test can fill."""

    path: Path

    def fill(self) -> None:
        """Leave no byte free."""
        with (self.path / "filling").open("ab", buffering=0) as stream:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while stream.write(bytes(size)):
                        pass

    def free(self) -> None:
        """Make room again."""
        (self.path / "filling").unlink()


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    """Nothing is built or measured."""
    stand_in = Measuring()
    monkeypatch.setattr("opduel.commands.builds.resolve_build", lambda *arguments: stand_in.resolve(*arguments))
    monkeypatch.setattr("opduel.commands.fleet.run_ab", stand_in.run_ab)
    return stand_in


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go in this process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def nothing_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is masked because of what an earlier test took for a secret."""
    monkeypatch.setattr(redaction, "_MASKED_VALUES", set())


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``full_disk("fsync")``: from now on this function of ``os`` finds the disk full."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda name: monkeypatch.setattr(os, name, refuse)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """One of 32 MiB."""
    disk = SmallDisk(tmp_path / "disk")
    disk.path.mkdir()
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "opduel", disk.path], capture_output=True, check=False
    )
    if process.returncode:
        pytest.skip(f"no file system can be mounted here: {process.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk.path], check=True)


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
