"""The HTML report for everybody: in the dark, on a phone, on paper, read aloud, without motion and without scripts."""

from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from axe_playwright_python.sync_playwright import Axe
from made_report import made_report
from playwright.sync_api import Browser, expect
from shown_report import MADE, Shown

from opduel.reporters.html import write_page


@pytest.mark.nightly
def test_light_and_dark(opened: Shown) -> None:
    looks = []
    for scheme in ("light", "dark"):
        opened.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page = opened.open()
        grounds = [
            page.locator(where).evaluate("at => getComputedStyle(at).backgroundColor")
            for where in ("body", "svg >> nth=1")
        ]
        mark = page.locator("#effects-plot .effect-regressed").first.evaluate("at => getComputedStyle(at).fill")
        looks.append((grounds, mark, page.screenshot()))
    (light, light_mark, light_picture), (dark, dark_mark, dark_picture) = looks
    assert light == ["rgb(255, 255, 255)"] * 2
    assert dark == ["rgb(20, 23, 27)"] * 2
    assert light_mark != dark_mark
    assert light_picture != dark_picture


@pytest.mark.nightly
@pytest.mark.parametrize("width", [320, 360])
def test_a_phone_never_scrolls_sideways(opened: Shown, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 700})
    page = opened.open(replace(MADE, comparisons=(samples.comparison("x" * 300, "regressed", 2.0), *MADE.comparisons)))
    for details in page.locator("details").all():
        details.evaluate("at => { at.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#case-table a").first.click()
    expect(page.locator("dialog")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


A4 = 718  # pixels between a browser's usual margins, of 794


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_columns_are_on_paper(opened: Shown, scheme: str) -> None:
    """In print on A4, upright, whatever the screen was like: nothing is left out, cut off, or white on white."""
    page = opened.open(made_report(12, seed=7))
    page.set_viewport_size({"width": A4, "height": 1000})
    page.emulate_media(media="print", color_scheme=scheme)  # type: ignore[arg-type]
    for heading in ("interval", "q", "control", "treatment"):
        expect(page.locator("#case-table").get_by_role("columnheader", name=heading, exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= A4
    for cell in page.locator("#case-table tbody tr").first.locator("td, th").all():
        box = cell.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= A4
        assert cell.evaluate("at => at.scrollWidth <= at.clientWidth + 1")
    assert page.locator("body").evaluate("at => getComputedStyle(at).color") == "rgb(27, 32, 38)"


@pytest.mark.nightly
def test_no_fault_of_accessibility_is_found(opened: Shown) -> None:
    page = opened.open()
    assert Axe().run(page).response["violations"] == []
    page.locator("#case-table a").first.click()
    expect(page.locator(".case-plots svg").last).to_be_visible()
    assert Axe().run(page).response["violations"] == []


def test_a_screen_reader_has_labels(opened: Shown) -> None:
    page = opened.open(samples.report(validity=samples.validity("the host was busy")))
    for role in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)  # type: ignore[arg-type]
    expect(page.get_by_role("main")).to_match_aria_snapshot(
        """
        - region "Summary":
          - list:
            - listitem:
              - strong: "2"
              - text: regressed
            - listitem:
              - strong: "1"
              - text: failed
          - paragraph: /The host was disturbed/
        - region "Cases":
          - heading "Cases" [level=2]
          - search "Find a case":
            - searchbox "Find a case"
            - group "Verdicts shown":
              - checkbox "regressed 2" [checked]
              - checkbox "not smaller 1" [checked]
              - checkbox "not slower 1" [checked]
            - status: 8 rows
          - region "Table of cases":
            - table /Cases, what changed first/:
              - rowgroup:
                - row:
                  - columnheader "verdict"
                  - columnheader "case"
          - figure /Each case's change and its interval/:
            - region "Plot of all cases":
              - img /8 cases, each with its change and interval/
        - region "How it was measured":
          - region "What was compared":
            - table "What was compared":
              - rowgroup:
                - row /control treatment/
        """
    )
    expect(page.get_by_role("row", name="much slower").get_by_role("rowheader")).to_have_text("much slower")
    page.get_by_role("link", name="much slower").click()
    dialog = page.get_by_role("dialog", name="much slower")
    expect(dialog.get_by_role("button", name="Close")).to_be_visible()


@pytest.mark.nightly
def test_one_who_wants_no_motion_gets_none(opened: Shown) -> None:
    opened.page.emulate_media(reduced_motion="reduce")
    page = opened.open()
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_without_scripts_the_figures_are_there(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, samples.report())
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    expect(page.get_by_role("row", name="much slower")).to_contain_text("x12.3")
    expect(page.get_by_text("Scripts don't run here")).to_be_visible()
    context.close()
