"""A report that is open in a browser."""

from pathlib import Path

from made_report import made_report
from playwright.sync_api import Page, expect

from opduel.records import Report
from opduel.reporters.html import write_page

MADE = made_report(40, seed=40)


class Shown:
    """A page, and the way to open a report in it."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self._path = folder / "report.html"

    def open(self, report: Report = MADE, fragment: str = "") -> Page:
        write_page(self._path, report)
        self.page.goto(self._path.as_uri() + fragment)
        expect(self.page.locator("#effects-plot svg")).to_be_visible()
        expect(self.page.locator("html")).not_to_contain_class("loading")
        return self.page
