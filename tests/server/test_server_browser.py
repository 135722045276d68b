"""The server's pages in a real browser: sorting, filtering, plots, keys, narrow screens, logging in, hostile texts."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from made_nights import case_id
from made_report import made_report
from playwright.sync_api import Browser, Page, Request, expect
from results_server import CASES, COMMIT_URL, RunningServer, numbered, running_server
from server_pages import HOSTILE_PATHS, hostile
from test_server_drift import fill


@pytest.fixture
def visited(page: Page, nights: RunningServer) -> Page:
    """Return a page that may ask no other host for anything."""

    def refuse_other_hosts(request: Request) -> None:
        assert request.url.startswith((nights.url, "data:")), request.url

    page.on("request", refuse_other_hosts)
    return page


def newest_run(server: RunningServer) -> str:
    with server.client(None) as client:
        return str(client.get("/api/v1/runs", params={"limit": 1}).json()["runs"][0]["run_id"])


def case_number(server: RunningServer, case: str) -> int:
    with server.client(None) as client:
        cases = client.get("/api/v1/cases", params={"text": case}).json()["cases"]
    return int(cases[0]["number"])


def host_path(server: RunningServer) -> str:
    with server.client(None) as client:
        return f"/hosts/{quote(client.get('/api/v1/hosts').json()['hosts'][0]['host'])}"


def first_cells(page: Page) -> list[str]:
    return [text.split("\n")[0] for text in page.locator("#cases tbody tr:visible th").all_inner_texts()]


def test_a_runs_cases_sort_and_filter_and_the_plot_follows(visited: Page, nights: RunningServer) -> None:
    visited.goto(f"{nights.url}/runs/{newest_run(nights)}")
    marks = visited.locator("figure .effect-mark :is(path, circle)")
    marks.first.wait_for()
    assert marks.count() == CASES
    visited.get_by_role("button", name="Case", exact=True).click()
    assert first_cells(visited) == sorted(first_cells(visited))
    visited.get_by_role("button", name="Change", exact=True).focus()
    visited.keyboard.press("Enter")
    ratios = [float(row.get_attribute("data-ratio") or "nan") for row in visited.locator("#cases tbody tr").all()]
    assert ratios == sorted(ratios, reverse=True)
    visited.get_by_role("searchbox", name="Find a case").focus()
    visited.keyboard.type("softmax forward")
    expect(marks).to_have_count(1)
    assert first_cells(visited) == [case_id(3)]


def test_the_history_marks_what_changed(visited: Page, nights: RunningServer) -> None:
    visited.goto(f"{nights.url}/cases/{case_number(nights, case_id(3))}")
    visited.locator("svg .history-dot circle").first.wait_for()
    assert visited.locator("svg .history-dot circle").count() == 39
    assert visited.locator("svg .history-interval line").count() == 39
    bands = [band.bounding_box() for band in visited.locator("svg .history-change rect").all()]
    assert len(bands) == 2
    assert all(band is not None and band["height"] > 100 and band["width"] > 5 for band in bands)
    texts = visited.locator("svg .history-change-text text").all_text_contents()
    assert len(texts) == 2
    assert texts[0].startswith("+")
    assert texts[1].startswith("\u2212")
    plot = visited.get_by_role("img", name="39 builds against the oldest, 2 changes marked")
    assert plot.count() == 1
    visited.locator("summary").focus()
    visited.keyboard.press("Enter")
    visited.get_by_role("button", name="Against the oldest").click()
    places = visited.locator("#positions-1 tbody tr").all()
    levels = [float(row.get_attribute("data-log") or "nan") for row in places]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.nightly
def test_from_drift_to_a_case_to_a_run_to_two_compared(visited: Page, nights: RunningServer) -> None:
    visited.goto(nights.url)
    visited.get_by_role("link", name="Drift").click()
    while visited.get_by_role("link", name="Look again").count():
        visited.reload()
    visited.get_by_role("link", name=case_id(2)).click()
    assert visited.get_by_role("heading", level=1).inner_text() == case_id(2)
    visited.locator("#runs tbody th a").first.click()
    assert "against" in visited.get_by_role("heading", level=1).inner_text()
    visited.get_by_role("button", name="Compare").click()
    assert visited.get_by_role("heading", level=1).inner_text() == "Two runs"
    assert visited.locator("#cases tbody tr").count() == CASES
    assert "Implied:" in visited.locator("main").inner_text()


@pytest.mark.nightly
def test_search_by_keys_alone(visited: Page, nights: RunningServer) -> None:
    visited.goto(nights.url)
    visited.keyboard.press("Tab")
    assert visited.evaluate("document.activeElement.textContent") == "To the content"
    visited.get_by_role("searchbox", name="Search runs, commits and cases").focus()
    visited.keyboard.type(case_id(1))
    visited.keyboard.press("Enter")
    visited.get_by_role("heading", name="Search").wait_for()
    assert visited.get_by_role("link", name=case_id(1), exact=True).count() == 1


def paths(server: RunningServer) -> list[str]:
    run = newest_run(server)
    return [
        "/",
        "/drift",
        "/hosts",
        host_path(server),
        "/compare",
        f"/runs/{run}",
        "/cases/1",
        f"/compare?first={run}&second={run}",
        "/search?q=number",
    ]


@pytest.mark.nightly  # every page
def test_every_page_fits_a_phone_and_has_landmarks(chromium: Browser, nights: RunningServer) -> None:
    context = chromium.new_context(viewport={"width": 320, "height": 640})
    page = context.new_page()
    for path in (*paths(nights), "/login", "/runs/nothing"):
        page.goto(nights.url + path)
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
        if path in ("/login", "/runs/nothing"):  # pages without a bar
            continue
        tree = page.locator("body").aria_snapshot()
        for landmark in ("banner", 'navigation "Main"', "main", "contentinfo", "heading", "[level=1]"):
            assert landmark in tree, (path, landmark)
    page.goto(nights.url)  # what a run came to is in sight, without scrolling its table
    tally = page.locator("td.tally").first.bounding_box()
    assert tally is not None
    assert tally["x"] + tally["width"] <= 320
    context.close()


def drawn(page: Page) -> None:
    """Wait for all plots."""
    for figure in page.locator("figure").all():
        figure.locator("svg").last.wait_for()


@pytest.mark.nightly  # axe reads every page, in every width
def test_no_fault_of_accessibility_is_found(chromium: Browser, nights: RunningServer, tmp_path: Path) -> None:
    context = chromium.new_context()
    page = context.new_page()
    for path in (*paths(nights), "/login", "/runs/nothing", "/drift?since=2020-01-01&state=all"):
        page.goto(nights.url + path)
        drawn(page)
        assert Axe().run(page).response["violations"] == [], path
    context.close()


A4 = 718  # pixels between a browser's usual margins, of 794


@pytest.mark.nightly
def test_all_columns_are_on_paper(chromium: Browser, nights: RunningServer) -> None:
    context = chromium.new_context(viewport={"width": A4, "height": 1000}, color_scheme="dark")
    page = context.new_page()
    page.emulate_media(media="print")
    for path in paths(nights):
        page.goto(nights.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= A4, path
        hidden = "[...document.querySelectorAll('th.wide, td.wide')].filter((one) => !one.checkVisibility()"
        assert page.evaluate(f"{hidden} && !one.closest('details:not([open])')).length") == 0, path
    page.goto(f"{nights.url}/runs/{newest_run(nights)}")
    for heading in ("Interval", "q", "Control", "Treatment"):
        expect(page.locator("#cases").get_by_role("columnheader", name=heading, exact=True)).to_be_visible()
    context.close()


@pytest.mark.nightly
def test_a_point_of_the_history_leads_to_commit_and_runs(visited: Page, nights: RunningServer) -> None:
    visited.goto(f"{nights.url}/cases/{case_number(nights, case_id(3))}")
    dots = visited.locator(".history-dot circle")
    dots.first.wait_for()
    frame, status = visited.locator(".history-frame"), visited.locator(".history-status")
    ticks = "\n".join(visited.locator(".history-frame svg text").all_text_contents())
    assert "2023-01-" in ticks  # dates on the axis
    box = dots.nth(5).bounding_box()
    assert box is not None
    visited.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    row = visited.locator("#positions-1 tbody tr").nth(5)
    label = row.get_attribute("data-label") or ""
    expect(status).to_contain_text(label)
    expect(status.get_by_role("link", name=label)).to_have_attribute("href", re.compile(f"/commit/{label}"))
    assert visited.locator(".history-chosen circle").count() == 1
    frame.focus()
    visited.keyboard.press("ArrowRight")
    expect(status).to_contain_text(
        visited.locator("#positions-1 tbody tr").nth(6).get_attribute("data-label") or "none"
    )
    status.locator("a[href^='/runs/']").first.click()
    assert "against" in visited.get_by_role("heading", level=1).inner_text()


@pytest.mark.nightly
def test_the_history_zooms_by_keys_buttons_and_dragging(visited: Page, nights: RunningServer) -> None:
    visited.goto(f"{nights.url}/cases/{case_number(nights, case_id(3))}")
    dots = visited.locator(".history-dot circle")
    dots.first.wait_for()
    count = dots.count()
    visited.locator(".history-frame").focus()
    visited.keyboard.press("+")
    assert 3 < dots.count() <= count // 2 + 1
    for _ in range(10):
        visited.keyboard.press("+")
    assert dots.count() == 4  # no fewer
    visited.keyboard.press("0")
    assert dots.count() == count
    visited.get_by_role("button", name="Zoom in").press("Enter")
    first = visited.locator(".history-frame svg text").all_text_contents()
    visited.get_by_role("button", name="Later").press("Enter")
    assert visited.locator(".history-frame svg text").all_text_contents() != first
    visited.get_by_role("button", name="All builds").press("Enter")
    first_dot, second_dot = (dots.nth(number).bounding_box() for number in (10, 20))
    assert first_dot is not None
    assert second_dot is not None
    visited.mouse.move(first_dot["x"], first_dot["y"])
    visited.mouse.down()
    visited.mouse.move(second_dot["x"] + second_dot["width"], first_dot["y"] - 5, steps=3)
    visited.mouse.up()
    assert dots.count() in (10, 11)
    assert visited.locator(".history-band").count() == 0


@pytest.mark.nightly
def test_days_narrow_what_is_shown_and_not_what_is_found(visited: Page, nights: RunningServer) -> None:
    number = case_number(nights, case_id(3))
    visited.goto(f"{nights.url}/cases/{number}")
    changes = visited.locator("#changes-1").inner_text()
    visited.get_by_label("From", exact=True).fill("2023-01-10")
    visited.get_by_role("textbox", name="To", exact=True).fill("2023-01-19")
    visited.get_by_role("button", name="Narrow").click()
    visited.wait_for_url("**since=2023-01-10*")
    visited.locator(".history-dot circle").first.wait_for()
    assert visited.locator(".history-dot circle").count() == 10 + 1  # and the release
    assert visited.locator("#runs tbody tr").count() in (10, 11)
    assert visited.locator("#changes-1").inner_text() == changes
    assert visited.locator("svg .history-change rect").count() <= 2
    visited.goto(f"{nights.url}/?since=2023-01-10&until=2023-01-10")
    expect(visited.get_by_role("status")).to_contain_text(re.compile("^[12] runs?, the latest first"))


def test_a_finding_is_acknowledged_on_the_page(page: Page, server: RunningServer) -> None:
    fill(server)
    page.goto(f"{server.url}/drift")
    page.get_by_label("Token that may read").fill(server.token)
    page.keyboard.press("Enter")
    page.get_by_role("checkbox", name="Choose steady").check()
    page.get_by_label("Note").fill("the price of a fix")
    page.get_by_role("button", name="Acknowledge those chosen").click()
    page.wait_for_url("**/drift?")
    assert page.locator("#drift").count() == 0
    page.get_by_label("Show").select_option("acknowledged")
    page.get_by_role("button", name="Narrow").click()
    expect(page.locator("#drift")).to_contain_text("acknowledged by both")
    assert Axe().run(page).response["violations"] == []
    page.get_by_role("button", name="Mark all as seen").click()
    expect(page.get_by_text("Last seen")).to_be_visible()


@pytest.mark.nightly
def test_light_and_dark_differ(chromium: Browser, nights: RunningServer) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        context = chromium.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(f"{nights.url}/cases/1")
        page.locator("svg .history-dot circle").first.wait_for()
        style = "getComputedStyle(document.querySelector('{}')).{}"
        colours.add(
            tuple(page.evaluate(style.format(*part)) for part in (("body", "backgroundColor"), ("figure svg", "color")))
        )
        context.close()
    assert len(colours) == 2


def test_a_browser_logs_in_and_comes_back_to_where_it_wanted(page: Page, server: RunningServer) -> None:
    server.post(numbered(1))
    page.goto(f"{server.url}/runs/run-1")
    assert "/login" in page.url
    page.get_by_label("Token that may read").fill(server.read_token)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/runs/run-1")
    assert server.read_token not in page.content()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")
    page.goto(f"{server.url}/drift")
    assert "/login" in page.url


def test_hostile_texts_run_nowhere(page: Page, tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True, commit_url=COMMIT_URL) as server:
        for number in (1, 2):
            assert server.post(hostile(number)).status_code == 201
        page.on("request", lambda request: _own(request, server))
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        for path in HOSTILE_PATHS:
            page.goto(server.url + path)
            page.wait_for_load_state("load")
            assert page.evaluate("window.hacked") is None, path
            assert page.locator("main img, main script").count() == 0
        page.goto(f"{server.url}/runs/run-1")
        page.locator("figure .effect-mark :is(path, circle)").first.wait_for()
        page.locator("figure svg").last.hover()
        assert page.evaluate("window.hacked") is None


@pytest.mark.nightly
def test_the_flame_graph_of_a_cause_is_drawn_when_asked_for_and_goes_by_keys(chromium: Browser, tmp_path: Path) -> None:
    """In the dark and on a phone, too."""
    report = made_report(20, flames=1)
    (comparison,) = (comparison for comparison in report.comparisons if comparison.cause)
    with running_server(tmp_path, open_read=True) as server:
        assert server.post(report).status_code == 201
        context = chromium.new_context()
        page = context.new_page()
        page.on("request", lambda request: _own(request, server))
        page.goto(f"{server.url}/cases/{case_number(server, comparison.case)}")
        expect(page.locator(".flame")).to_have_count(0)
        page.get_by_role("button", name="Draw its flame graphs").press("Enter")
        expect(page.locator(".flame svg g.frame").first).to_be_attached()
        assert page.locator(".flame svg").count() == 2
        words = page.locator(".flame-status").first
        expect(words).to_contain_text("a call: 1 ms to 1.2 ms a call, +20 %")
        expect(page.locator(".flame").first).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(words).to_contain_text("toy::kernel_")
        assert Axe().run(page).response["violations"] == []
        page.set_viewport_size({"width": 360, "height": 740})
        page.emulate_media(color_scheme="dark")
        expect(page.locator(".flame svg").first).to_have_attribute("width", re.compile(r"^(2|3)\d\d$"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert Axe().run(page).response["violations"] == []
        context.close()


def _own(request: Request, server: RunningServer) -> None:
    assert request.url.startswith((server.url, "data:")), request.url
