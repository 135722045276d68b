"""The server's pages over HTTP: what they show, that every link leads somewhere, who may see them, hostile texts."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import report_samples as samples
from made_nights import TRUTH, case_id, commit_id, made_reports
from results_server import CASES, COMMIT_URL, RUNS, RunningServer, numbered, running_server
from server_pages import HOSTILE_PATHS, PAYLOAD, Page, compared, get_page, hostile

from opduel.records import ONE_SIDED
from opduel.server import pages


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path, open_read=True, commit_url=COMMIT_URL) as server:
        yield server


def test_every_link_of_every_page_leads_somewhere(nights: RunningServer) -> None:
    """All that can be reached within the server answers; what leaves it are links to commits."""
    visited, waiting = set(), ["/", "/drift", "/hosts", "/compare", "/search?q=softmax"]
    kinds: dict[str, int] = {}
    while waiting:
        path = waiting.pop()
        kind = re.sub(r"[0-9]{8}T[0-9A-Za-z-]+|[0-9]+|\?.*", "#", path)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] > 3 or path in visited:
            continue
        visited.add(path)
        with nights.client(None) as client:
            answer = client.get(path)
        assert answer.status_code == 200, path
        if not answer.headers["content-type"].startswith("text/html") or path.endswith("report.html"):
            continue
        for link in Page(answer.text).links:
            if link.startswith("https:"):
                assert re.fullmatch(r"https://git\.example\.org/commit/[0-9a-f]{40}", link)
            elif not link.startswith("#"):
                assert link.startswith("/")
                waiting.append(link)
    assert {"/runs/#", "/cases/#"} <= {kind.rstrip("#") + "#" for kind in kinds}


def test_what_drifted_and_what_stepped_comes_first_and_nothing_else(nights: RunningServer) -> None:
    page = get_page(nights, "/drift")
    while "Being analysed" in page.text:
        page = get_page(nights, "/drift")
    with nights.client(None) as client:
        rows = re.findall(r'<th scope="row".*?</tr>', client.get("/drift").text, re.DOTALL)
    texts = [Page(row).text for row in rows]
    listed = {text.split()[0]: text for text in texts}
    assert {case_id(number) for number in (0, 2, 3)} <= set(listed) <= {case_id(number) for number in TRUTH}
    assert f"a step at {commit_id(22)[:12]}" in listed[case_id(2)]
    assert "a drift over" in listed[case_id(0)]
    assert f"all {CASES} histories" in page.text


def test_the_history_of_a_drift_says_how_much_and_where(nights: RunningServer) -> None:
    with nights.client(None) as client:
        number = next(
            case["number"] for case in client.get("/api/v1/cases", params={"text": case_id(0)}).json()["cases"]
        )
        text = client.get(f"/cases/{number}").text
    row = re.search(r"<tr data-from.*?</tr>", text, re.DOTALL)
    assert row is not None
    size = float(re.findall(r'data-log="([^"]+)"', row.group())[0])
    assert size == pytest.approx(10 * math.log(1.007), abs=0.012)
    assert "a drift over" in row.group()
    assert text.count("data-place=") == 38 + 1  # commits, and the release


def test_lists_are_narrowed_and_paged(nights: RunningServer) -> None:
    assert f"{RUNS} runs, the latest first" in get_page(nights, "/").text
    newest = commit_id(37)
    assert "1 run, the latest first" in get_page(nights, "/", commit=newest[:10]).text
    assert "1 run, the latest first" in get_page(nights, "/", text="change number 37 ").text
    assert "No run is like that" in get_page(nights, "/", text="100% sure").text
    assert "No run is like that" in get_page(nights, "/", verdict="failed").text
    assert "No run is like that" in get_page(nights, "/", spec="nothing").text
    assert f"{RUNS} runs" in get_page(nights, "/", verdict="nonsense").text


def test_more_runs_than_a_page_holds(empty: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "RUNS_A_PAGE", 3)
    for number in range(5):
        empty.post(compared("a", "b", number))
    first, second = get_page(empty, "/"), get_page(empty, "/", page="2")
    assert "page 1 of 2" in first.text
    assert [link for link in first.links if link.startswith("/runs/")] == ["/runs/run-4", "/runs/run-3", "/runs/run-2"]
    assert [link for link in second.links if link.startswith("/runs/")] == ["/runs/run-1", "/runs/run-0"]
    assert "/?page=2" in first.links
    assert "page 2 of 2" in get_page(empty, "/", page="99").text


def test_search_finds_cases_runs_and_commits(nights: RunningServer) -> None:
    assert case_id(3) in get_page(nights, "/search", q=case_id(3)).text
    assert case_id(3) in get_page(nights, "/search", q="SOFTMAX forward").text
    newest = commit_id(37)
    assert newest[:12] in get_page(nights, "/search", q=newest).text
    assert newest[:12] in get_page(nights, "/search", q="number 37 (#").text
    assert "None. Runs 0" in get_page(nights, "/search", q="%").text
    assert "None. Runs 0" in get_page(nights, "/search", q="\x00' OR 1=1 --").text
    assert "Give a run's id" in get_page(nights, "/search").text


def test_nothing_there_yet_is_said(untouched: RunningServer) -> None:
    assert "No report has come in yet" in get_page(untouched, "/").text
    assert "There is no history yet" in get_page(untouched, "/drift").text
    assert "There are no runs yet" in get_page(untouched, "/compare").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/none", 404),
        ("/runs/none/report.html", 404),
        ("/cases/7", 404),
        ("/cases/0", 422),
        ("/cases/99999999999999999999", 422),
        ("/cases/x", 422),
        ("/compare?first=none&second=none", 404),
        ("/?page=0", 422),
        ("/?text=" + "x" * 300, 422),
        ("/runs/..%2f..%2fetc%2fpasswd", 404),
    ],
)
def test_what_is_not_there_is_one_line(untouched: RunningServer, path: str, status: int) -> None:
    with untouched.client(None) as client:
        answer = client.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_pages_need_a_token_that_may_read(server: RunningServer) -> None:
    server.post(numbered(1))
    paths = ["/", "/drift", "/hosts", "/compare", "/search?q=a", "/runs/run-1", "/runs/run-1/report.html", "/cases/1"]
    for path in paths:
        with server.client(None) as client:
            answer = client.get(path)
        assert answer.status_code == 303
        assert answer.headers["Location"].startswith("/login?next=%2F")
        with server.client("write") as client:
            assert client.get(path).status_code == 403
        with server.client("read") as client:
            assert client.get(path).status_code == 200


def test_what_cannot_count_is_shown_with_the_reason_and_left_out(empty: RunningServer) -> None:
    empty.post(compared("a", "b", 1))
    empty.post(compared("a", "b", 2, 1.9, inject=0.1))
    empty.post(compared("a", "b", 3, 1.9, validity=samples.validity("the host <b>was</b> busy")))
    empty.post(compared("a", "a", 4, 1.9))
    empty.post(replace(compared("a", "b", 5), comparisons=(samples.failed("steady"),)))
    page = get_page(empty, "/cases/1")
    for reason in ("slowed on purpose", "can't be trusted", "one build against itself", "no interval"):
        assert f"left out: {reason}" in page.text
    assert "+5.0 %" in page.text
    assert "over 2 builds and 1 run." in page.text
    assert "the host <b>was</b> busy" in get_page(empty, "/runs/run-3").text


def test_a_run_says_how_sure_its_intervals_are_and_whether_it_left_a_case_open(empty: RunningServer) -> None:
    empty.post(compared("a", "b", 1, alpha=0.1, complete=False))
    empty.post(replace(compared("a", "b", 2, complete=False), comparisons=(samples.comparison("x", "inconclusive"),)))
    settled, left_open = (get_page(empty, f"/runs/run-{number}").text for number in (1, 2))
    assert "interval, in which the true change lies, at least 90 % sure" in settled
    ended = "The run ended before every case was settled"
    assert (ended in settled, ended in left_open) == (False, True)


def test_the_reason_stands_beside_the_verdict(empty: RunningServer) -> None:
    """On the page of the run and on that of the case, with the verdict that was held back."""
    why = "interval -82.0%..-81.0% lies beyond the threshold, but was not confirmed in rounds of its own"
    comparison = samples.comparison("steady", "inconclusive", 0.18, ci=(0.18, 0.19), note=why, held_back="improved")
    empty.post(replace(compared("a", "b", 1), comparisons=(comparison,)))
    with empty.client(None) as client:
        for path in ("/runs/run-1", "/cases/1", "/compare?first=run-1&second=run-1"):
            cells = re.findall(r'<td class="why">(.*?)</td>', client.get(path).text, re.DOTALL)
            assert cells, path
            for cell in cells:
                assert " ".join(Page(cell).text.split()) == f"inconclusive held back: improved {why}", path
        results = client.get("/api/v1/runs/run-1/results").json()["results"]
    assert [comparison["figures"]["note"] for comparison in results] == [why]


def test_values_without_a_ratio_are_both_shown(empty: RunningServer) -> None:
    comparison = samples.comparison(
        "copies/value", "regressed", metric="value", unit="copies", ratio=None, ci=None, mde=None,
        difference=3.0, difference_ci=(3.0, 3.0), control=0.0, treatment=3.0,
    )  # fmt: skip
    empty.post(replace(numbered(1), comparisons=(comparison,), cases=()))
    with empty.client(None) as client:
        (case,) = client.get("/api/v1/cases").json()["cases"]
        pages = [client.get(path).text for path in ("/runs/run-1", f"/cases/{case['number']}")]
    assert ["0 -&gt; 3" in page for page in pages] == [True, True]


def test_people_read_words_for_one_sided_verdicts_and_programs_the_names(empty: RunningServer) -> None:
    hardly_faster, hardly_larger = (
        comparison for comparison in samples.EVERY_VERDICT if comparison.verdict in ONE_SIDED
    )
    held_back = samples.comparison("held", "inconclusive", held_back="not_worse")
    empty.post(replace(numbered(1), comparisons=(hardly_faster, hardly_larger, held_back), cases=()))
    with empty.client(None) as client:
        cases = client.get("/api/v1/cases").json()["cases"]
        (number,) = (case["number"] for case in cases if case["case"] == hardly_larger.case)
        (run,) = client.get("/api/v1/runs", params={"verdict": "not_worse"}).json()["runs"]
        (result,) = client.get("/api/v1/runs/run-1/results", params={"verdict": "not_worse"}).json()["results"]
        run_page, case_page, list_page = (
            " ".join(client.get(path).text.split())
            for path in ("/runs/run-1", f"/cases/{number}", "/?verdict=not_better")
        )
    assert (run["verdicts"]["not_worse"], run["verdicts"]["unchanged"]) == (1, 0)
    assert (result["case"]["case"], result["figures"]["verdict"]) == (hardly_faster.case, "not_worse")
    assert re.findall(r"<strong>1</strong><span class=\"verdict (\w+)\">([\w ]+)</span>", run_page) == [
        *(("inconclusive", "inconclusive"), ("not_better", "not smaller"), ("not_worse", "not slower")),
    ]
    assert '<span class="verdict not_worse">not slower</span> <span class="note">faster by 0.4 to 2.2 %' in run_page
    assert "held back: not slower" in run_page
    assert '<span class="verdict not_better">not smaller</span>' in case_page
    assert '<option value="not_better" selected>not better</option>' in list_page
    assert '<span class="verdict not_worse" title="not worse">1' in list_page
    assert "No run is like that" in get_page(empty, "/", verdict="unchanged").text


def test_platforms_and_threads_have_histories_of_their_own(empty: RunningServer) -> None:
    empty.post(compared("a", "b", 1, 1.05))
    empty.post(compared("a", "b", 2, 1.25, platform="gpu"))
    empty.post(compared("a", "b", 3, 1.5, threads=4))
    assert "+50.0 %" in get_page(empty, "/cases/1").text  # the newest
    assert "+25.0 %" in get_page(empty, "/cases/1", platform="gpu").text
    assert "+5.0 %" in get_page(empty, "/cases/1", platform="cpu", threads="1").text
    with empty.client(None) as client:
        assert client.get("/cases/1", params={"platform": "none"}).status_code == 404


def test_hostile_texts_stay_texts(empty: RunningServer) -> None:
    for number in (1, 2):
        assert empty.post(hostile(number), PAYLOAD[:100]).status_code == 201
    plain = {"script", "img", "style"}
    for path in HOSTILE_PATHS:
        page = get_page(empty, path)
        assert not [
            tag for tag, attributes in page.tags if tag in plain and "/assets/" not in str(attributes.get("src"))
        ]
        assert not [
            name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "style"
        ]
        assert all(link.startswith(("/", "#", "https://git.example.org/commit/")) for link in page.links), path
    assert PAYLOAD in get_page(empty, "/runs/run-1").text


def test_a_commit_that_is_no_commit_cannot_lead_elsewhere(tmp_path: Path) -> None:
    with running_server(tmp_path, open_read=True) as server:
        server.post(hostile(1))
        assert not [link for link in get_page(server, "/runs/run-1").links if not link.startswith(("/", "#"))]


ODD_FIGURES = (
    {"threshold": -5.0},
    {"threshold": 1e308},
    {"ratio": 1e308, "ci": (1e-308, 1e308)},
    {"ratio": 1.0, "ci": (2.0, 0.5)},
    {"ratio": -1.0, "ci": (-2.0, 0.0)},
    {"ratio": 0.0, "ci": (0.0, 0.0)},
    {"ratio": 1.0, "ci": (1.0, 1.0)},
    {"ratio": 5e-324, "ci": (5e-324, 5e-324)},
    {"control": -1e308, "mde": 1e308, "p_value": -1.0, "q_value": 7.0},
)


def test_no_figure_that_a_report_may_hold_breaks_a_page(empty: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is refused today, and may be there from before."""
    monkeypatch.setattr("opduel.server.ingest._problems", lambda _: ())
    for number, figures in enumerate(ODD_FIGURES):
        comparison = samples.comparison("steady", **figures)
        report = replace(compared("a", f"b{number}", number), comparisons=(comparison,))
        assert empty.post(report).status_code == 201
    for number, alpha in enumerate((1e-300, 0.999999999)):
        empty.post(compared("a", f"c{number}", 100 + number, alpha=alpha))
    for path in ("/", "/drift", "/cases/1", *(f"/runs/run-{number}" for number in range(len(ODD_FIGURES)))):
        get_page(empty, path)
    for number in range(1, len(ODD_FIGURES)):
        get_page(empty, "/compare", first="run-0", second=f"run-{number}")


def test_the_report_is_handed_over_as_a_file(nights: RunningServer) -> None:
    with nights.client(None) as client:
        run = client.get("/api/v1/runs", params={"limit": 1}).json()["runs"][0]["run_id"]
        answer = client.get(f"/runs/{run}/report.html")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="report-{run}.html"'
    assert case_id(2) in answer.text


def test_pages_are_the_same_on_every_database(database_url: str, tmp_path: Path) -> None:
    with running_server(tmp_path, database_url, open_read=True) as server:
        for report in made_reports(12, 4):
            server.post(report)
        server.post(hostile(1))
        for path in (
            "/",
            "/?commit=ABCD&text=%25",
            "/drift",
            "/hosts",
            f"/hosts/{quote(PAYLOAD)}",
            "/cases/1",
            "/runs/run-1",
            "/compare",
            "/search?q=nd.",
            "/search?q=%00",
        ):
            get_page(server, path)
        assert case_id(3) in get_page(server, "/search", q=case_id(3).upper()).text


def test_a_page_is_never_kept_by_the_browser(nights: RunningServer) -> None:
    answer = httpx.get(nights.url, trust_env=False)
    assert answer.headers["Cache-Control"] == "no-store"
