#!/usr/bin/env python3
"""The pictures in docs/images: a report's page in light, in dark and on a phone, and a case that is opened.

.venv/bin/python benchmarks/screenshots.py reports/.../report.json
.venv/bin/python benchmarks/screenshots.py report.json --case conv2d_small_0/forward
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402

from opduel.reporters import read_report  # noqa: E402
from opduel.reporters.html import write_page  # noqa: E402
from opduel.reporters.summary import worst_first  # noqa: E402

IMAGES = ROOT / "docs" / "images"
LARGEST = 200_000  # bytes of a picture
DESK = {"width": 1180, "height": 760}
TALL = {"width": 1180, "height": 1060}
PHONE = {"width": 390, "height": 780}


def main() -> None:
    """Write docs/images/report-*.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--case", help="that is shown opened (the worst one unless given)")
    parser.add_argument("--folder", type=Path, default=IMAGES)
    options = parser.parse_args()
    report = read_report(options.report)
    case = options.case or worst_first(report.comparisons)[0].case
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        path = Path(folder) / "report.html"
        write_page(path, report)
        plain, opened = path.as_uri(), f"{path.as_uri()}#case={quote(case, safe='')}"
        for name, address, size, scheme in (
            ("report-light", plain, TALL, "light"),
            ("report-dark", plain, DESK, "dark"),
            ("report-case", opened, TALL, "light"),
            ("report-phone", plain, PHONE, "light"),
        ):
            with opened_page(browser, address, size, scheme) as page:
                expect(page.locator("#effects-plot svg")).to_be_visible()
                expect(page.locator("html")).not_to_contain_class("loading")
                if size is PHONE:
                    page.evaluate("document.getElementById('cases').scrollIntoView()")
                take(page, options.folder / f"{name}.png")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's own, without a window."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened_page(browser: Browser, address: str, size: Any, scheme: Literal["light", "dark"]) -> Iterator[Page]:
    """The page at an address, in a window of that size."""
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    yield page
    context.close()


def take(page: Page, path: Path) -> None:
    """What the window shows, as a PNG at ``path``, small enough for a repository."""
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path}: {size / 1e3:.0f} kB")
    if size > LARGEST:
        raise SystemExit(f"{path} is larger than {LARGEST / 1e3:.0f} kB: show less")


if __name__ == "__main__":
    main()
