"""The page's table of cases by kind of host in a real browser: sorted by a kind, and a way to each case."""

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from test_kinds_report import NEW, OLD, SAMPLE

from opduel.reporters.html import write_page


def test_the_table_is_sorted_and_opens_cases(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, SAMPLE)
    page.goto(path.as_uri())
    expect(page.locator("html")).not_to_contain_class("loading")
    table = page.locator("#by-kind table")
    names = table.locator("tbody th")
    assert names.all_inner_texts() == ["slower", "open", "steady"]
    table.get_by_role("button", name=NEW).click()
    assert names.all_inner_texts() == ["open", "slower", "steady"]  # inconclusive before unchanged
    violations = Axe().run(page).response["violations"]
    assert [violation["id"] for violation in violations] == []
    table.get_by_role("row", name="slower").get_by_role("link", name="regressed").click()
    expect(page.get_by_role("dialog", name=f"slower@{OLD}")).to_contain_text(f"bench-x, of the kind {OLD}")
