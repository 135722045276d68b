"""The HTML report in a real browser, from disk: it sorts, filters, draws and opens cases, by mouse and by keyboard."""

import math
import re
from pathlib import Path

import pytest
import report_samples as samples
from axe_playwright_python.sync_playwright import Axe
from hostile import PAYLOAD, hostile
from made_report import made_report
from playwright.sync_api import Browser, Locator, Page, expect
from shown_report import MADE, Shown

from opduel.records import Breakdown, Candidate, Cause, Examination, OperatorTime
from opduel.reporters.html import write_page
from opduel.reporters.html.cases import fragment
from opduel.reporters.summary import WORST_FIRST, changed_first
from opduel.reporters.text import printable

MARKS = "#effects-plot .effect-mark > *"
ROWS = "#case-table tbody tr:visible"


def cases_of(page: Page) -> list[str]:
    return page.locator(f"{ROWS} th a").all_inner_texts()


def test_everything_is_drawn(opened: Shown) -> None:
    page = opened.open()
    assert page.locator(MARKS).count() == len(MADE.comparisons)
    with_interval = [comparison for comparison in MADE.comparisons if comparison.ci is not None]
    assert page.locator("#effects-plot .effect-interval line").count() == len(with_interval)
    assert all(MADE.count(verdict) for verdict in WORST_FIRST)
    for verdict in WORST_FIRST:
        assert page.locator(f"#effects-plot .effect-{verdict} > *").count() == MADE.count(verdict)
    assert cases_of(page) == [comparison.case for comparison in changed_first(MADE.comparisons)]


@pytest.mark.nightly
def test_the_marks_stand_where_the_changes_are(opened: Shown) -> None:
    """In the table's order from top to bottom, and slower ones farther to the right."""
    page = opened.open()
    marks = page.locator("#effects-plot .effect-regressed > *")
    places = [box for mark in marks.all() if (box := mark.bounding_box())]
    regressed = [comparison for comparison in changed_first(MADE.comparisons) if comparison.verdict == "regressed"]
    assert len(places) == len(regressed) > 2
    assert [box["y"] for box in places] == sorted(box["y"] for box in places)
    assert [box["x"] for box in places] == sorted((box["x"] for box in places), reverse=True)


@pytest.mark.nightly
def test_a_case_without_a_change_stands_apart_from_the_scale(opened: Shown) -> None:
    """Not at a tick, where it would read as that change: here the least change is at the scale's left end."""
    errors = [
        samples.comparison(f"error {n}", "unchanged", None, metric="error", unit="tol", control=0.5) for n in (1, 2)
    ]
    page = opened.open(samples.report([samples.comparison("quicker", "improved", 0.2, ci=(0.19, 0.21)), *errors]))
    ticks = {
        label.text_content(): box for label in page.locator("#effects-axis text").all() if (box := label.bounding_box())
    }
    assert {"n/a", "\u221280 %", "0 %"} <= set(ticks)
    apart = ticks.pop("n/a")
    scale = min(box["x"] for box in ticks.values())
    improved = page.locator("#effects-plot .effect-improved > *").bounding_box()
    assert improved is not None
    for mark in page.locator("#effects-plot .effect-unchanged > *").all():
        box = mark.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] < scale < improved["x"]
        assert apart["x"] <= box["x"] + box["width"] / 2 <= apart["x"] + apart["width"]
        mark.hover()
        expect(page.locator("#effects-plot .effect-tip").last).to_contain_text("error")


@pytest.mark.nightly
def test_a_header_sorts_by_its_numbers_both_ways(opened: Shown) -> None:
    page = opened.open()
    sorted_cases = sorted(
        (comparison for comparison in MADE.comparisons if comparison.ratio),
        key=lambda comparison: comparison.ratio or 0,
    )
    unknown = [comparison.case for comparison in changed_first(MADE.comparisons) if comparison.ratio is None]
    header = page.get_by_role("columnheader", name="change")
    header.get_by_role("button").click()
    assert cases_of(page) == [comparison.case for comparison in reversed(sorted_cases)] + unknown
    expect(header).to_have_attribute("aria-sort", "descending")
    header.get_by_role("button").press("Enter")
    assert cases_of(page) == [comparison.case for comparison in sorted_cases] + unknown
    expect(header).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("columnheader", name="case").get_by_role("button").click()
    assert page.locator("#case-table th[aria-sort]").count() == 1
    expect(page.locator("#effects-plot text").first).to_have_text(cases_of(page)[0])


def test_words_and_verdicts_filter_table_and_plot(opened: Shown) -> None:
    page = opened.open()
    search = page.get_by_role("searchbox", name="Find a case")
    search.fill("small FORWARD")
    expected = [
        comparison.case
        for comparison in changed_first(MADE.comparisons)
        if "small" in comparison.case and "forward" in comparison.case
    ]
    assert 0 < len(expected) < len(MADE.comparisons)
    expect(page.locator(ROWS)).to_have_count(len(expected))
    assert cases_of(page) == expected
    expect(page.get_by_role("status")).to_have_text(f"{len(expected)} of {len(MADE.comparisons)} rows")
    expect(page.locator(MARKS)).to_have_count(len(expected))
    search.fill("")
    for verdict in ("failed", "inconclusive", "not faster", "improved", "not slower", "unchanged"):
        page.get_by_role("checkbox", name=verdict).uncheck()
    expect(page.locator(ROWS)).to_have_count(MADE.count("regressed"))
    expect(page.locator(MARKS)).to_have_count(MADE.count("regressed"))
    search.fill("nothing is called so")
    expect(page.locator(ROWS)).to_have_count(0)
    expect(page.locator(MARKS)).to_have_count(0)


def test_a_case_is_opened_and_left_by_keyboard(opened: Shown) -> None:
    page = opened.open()
    first, second = (changed_first(MADE.comparisons)[number] for number in (0, 1))
    link = page.get_by_role("link", name=first.case)
    for _ in range(60):  # everything on the way is reached by Tab, and shows it
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")
        if link.evaluate("link => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=first.case)
    expect(dialog).to_be_visible()
    expect(dialog.locator(".round-control > *")).to_have_count(len(first.samples))
    assert dialog.locator(".round-treatment > *").count() == len(first.samples)
    assert dialog.locator(".ratio-mark > *").count() == len(first.samples)
    dialog.get_by_role("button", name="next case").press("Enter")
    expect(page.get_by_role("dialog", name=second.case)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    expect(page.get_by_role("link", name=second.case)).to_be_focused()  # by the dialog's event, a moment later
    expect(page).not_to_have_url(re.compile("case="))


@pytest.mark.nightly
def test_an_address_opens_its_case(opened: Shown) -> None:
    case = 'odd <b>"name"</b> [8, 3]/50 % & more#x'
    parts = Breakdown((OperatorTime("Convolution", 2, 1e6, 1.0),), (OperatorTime("Convolution", 2, 2e6, 1.0),))
    prod = Candidate("prod <i>", 0.0, 900.0, 0.9, (0.85, 0.95), (None, 2.0))
    cause = Cause("prod", (Examination("Python functions", "ns", 5, 1e3, 2e3, (9e2, 11e2), (prod,), 0.9),))
    slow = samples.comparison(case, "regressed", 1.5, breakdown=parts, cause=cause, note="a note")
    report = samples.report([*samples.EVERY_VERDICT, slow])
    page = opened.open(report)
    address = page.get_by_role("link", name=case).get_attribute("href")
    assert address
    page.goto("about:blank")
    dialog = opened.open(report, address).get_by_role("dialog", name=case)
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("row", name="Convolution")).to_contain_text("+1.00 ms")
    expect(dialog.get_by_role("row", name="prod <i>")).to_contain_text("85% to 95%")
    expect(dialog).to_contain_text("python3 harness.py --control mxnet==1.8.0.post0")
    expect(dialog.locator("p").first).to_contain_text(re.compile(r"^regressed \+50\.0 % .*a note$"))
    expect(page.locator("#case-table td.why").filter(has_text="a note")).to_have_text("a note")
    page.evaluate("location.hash = '#case=broken'")
    expect(page.get_by_role("dialog", name="broken")).to_contain_text("treatment: crash: the worker died of SIGSEGV")
    expect(page.get_by_label("output tail").last).to_contain_text("Segmentation fault: 11")
    for nowhere in ("#case=gone", "#case=%E0%A4%A", "#"):
        page.evaluate(f"location.hash = '{nowhere}'")
        expect(page.locator("dialog")).to_be_hidden()


def settled(place: Locator, attribute: str) -> str:
    """The attribute's value when it no longer changes: the graph moves to its place."""
    before = None
    for _ in range(100):
        now = place.get_attribute(attribute)
        if now is not None and now == before:
            return now
        before = now
        place.page.wait_for_timeout(400)
    raise AssertionError(f"{attribute} never settled")


@pytest.mark.nightly
def test_the_flame_graph_of_an_800_case_report_is_drawn_and_goes_by_keys(opened: Shown) -> None:
    """On demand, narrower for what is zoomed out of, and as a table; on a phone and in the dark, too."""
    report = made_report(800, flames=20)
    page = opened.open(report)
    assert page.locator(".flame").count() == 0  # until a case is opened
    explained = next(comparison for comparison in report.comparisons if comparison.cause)
    page.evaluate("hash => { location.hash = hash; }", fragment(explained.case))
    place = page.locator(".flame").first
    frames = place.locator("g.frame")
    expect(frames.first).to_be_attached()
    assert frames.count() > 20
    words = page.locator(".flame-status").first
    expect(words).to_contain_text("a call: 1 ms to 1.2 ms a call, +20 %")
    place.focus()
    page.keyboard.press("ArrowDown")
    expect(words).to_contain_text("toy::kernel_")
    expect(place.locator("g.chosen")).to_have_count(1)
    chosen = place.locator("g.chosen rect")
    width, full_width = settled(chosen, "width"), place.evaluate("(place) => place.clientWidth")
    assert float(width) < full_width
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("width", str(full_width))
    page.keyboard.press("Backspace")
    expect(chosen).to_have_attribute("width", width)
    page.keyboard.press("ArrowUp")
    expect(words).to_contain_text("a call: 1 ms")
    control = page.locator(".flame-figure").first.get_by_role("button", name="control")
    control.press("Enter")
    expect(control).to_have_attribute("aria-pressed", "true")
    page.get_by_text("The frames as a table").first.press("Enter")
    assert explained.cause
    rows = page.locator(".flame-figure").first.locator("tbody tr")
    expect(rows).to_have_count(len(explained.cause.examinations[0].flame))
    assert Axe().run(page, context="#case").violations_count == 0
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    expect(place.locator("svg")).to_have_attribute("width", re.compile(r"^(2|3)\d\d$"))
    assert page.evaluate("() => document.getElementById('case').scrollWidth <= innerWidth")
    assert Axe().run(page, context="#case").violations_count == 0


@pytest.mark.nightly
def test_a_click_on_the_plot_opens_the_case_there(opened: Shown) -> None:
    page = opened.open()
    box = page.locator("#effects-plot .effect-regressed > *").nth(1).bounding_box()
    assert box
    second = [comparison for comparison in changed_first(MADE.comparisons) if comparison.verdict == "regressed"][1]
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#effects-plot .effect-tip")).to_contain_text(second.case)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("dialog", name=second.case)).to_be_visible()


def test_nothing_that_a_report_says_is_run(opened: Shown) -> None:
    page = opened.open(hostile(samples.report()))
    slower = printable(PAYLOAD + "slower")
    assert slower in cases_of(page)
    page.get_by_role("link", name=slower, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("h2").first).to_have_text(slower)
    expect(dialog).to_contain_text(printable(PAYLOAD + "nd.Convolution"))
    page.mouse.move(300, 300)
    assert page.evaluate("window.hacked") is None
    assert (page.locator("img").count(), page.locator("body script").count()) == (0, 3)  # data, the page's own, Plot


def test_even_a_script_that_got_into_the_page_does_not_run(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, samples.report())
    text = path.read_text(encoding="utf-8")
    smuggled = "<script>window.hacked = 1</script><img src='x' onerror='window.hacked = 2'>"
    path.write_text(text.replace("<main>", f"<main>{smuggled}", 1), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    expect(page.locator("#effects-plot svg")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    page.close()


@pytest.mark.nightly  # a page of thousands of cases
def test_thousands_of_cases(opened: Shown) -> None:
    many = made_report(3000, rounds=3)
    page = opened.open(many)
    assert page.locator(MARKS).count() == 3000
    page.get_by_role("searchbox").fill("softmax_small_3/")
    expect(page.locator(ROWS)).to_have_count(2)
    expect(page.locator(MARKS)).to_have_count(2)


@pytest.mark.nightly
def test_extremes_are_drawn(opened: Shown) -> None:
    odd = [
        samples.comparison("endless", "inconclusive", math.inf, ci=(0.5, math.inf)),
        samples.comparison("nothing", "inconclusive", 0.0, ci=(0.0, 1.0)),
        samples.comparison("unknown", "inconclusive", None),
        samples.comparison("wide", "inconclusive", 1.0, ci=(1e-9, 1e9), threshold=0.0),
        samples.comparison("error", "unchanged", None, metric="error", unit="tol", threshold=0.0, control=0.5),
    ]
    page = opened.open(samples.report(odd))
    assert page.locator(MARKS).count() == len(odd)
    for comparison in odd:
        page.get_by_role("link", name=comparison.case).click()
        expect(page.get_by_role("dialog", name=comparison.case)).to_be_visible()
        page.keyboard.press("Escape")
