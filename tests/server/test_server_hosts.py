"""The hosts of runs over HTTP: what they measured, how noisy they were, which need attention; pages and API."""

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import report_samples as samples
from made_hosts import FLEET, NOISY, SOLO, Noise, made_host_reports
from playwright.sync_api import Page, expect
from results_server import RunningServer, numbered, running_server
from sqlalchemy import select

from opduel.comparator.history.host_noise import REFERENCE_RUNS, log_spread
from opduel.records import PairSample, Report
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.server.models import CaseNoise, HostRun, Run
from opduel.server.storage import remove_runs

FLEET_RUNS, CASES = 30, 40


@pytest.fixture(scope="module")
def fleet_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server that anybody may read, with four hosts of a fleet, one of which became noisier, and a fifth."""
    with running_server(tmp_path_factory.mktemp("hosts"), open_read=True) as server:
        for report in made_host_reports(FLEET_RUNS, CASES, Noise(factor=4)):
            assert server.post(report).status_code == 201
        yield server


def get(server: RunningServer, path: str) -> Any:
    with server.client("read") as client:
        answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def page(server: RunningServer, path: str) -> str:
    with server.client("read") as client:
        answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def measured(case: str, *log_ratios: float, **changes: Any) -> Any:
    pairs = [PairSample(case, "screening", i, 1e5, 1e5, value, 8, 640) for i, value in enumerate(log_ratios)]
    return samples.comparison(case, samples=tuple(pairs), **changes)


def plain(number: int, name: str | None, spread: float = 0.01, cases: int = 10, **changes: Any) -> Report:
    """Return a run on one host; all its cases have that spread."""
    comparisons = tuple(measured(f"case {case}", spread, -spread, 2 * spread, 0.0) for case in range(cases))
    report = replace(numbered(number, **changes), comparisons=comparisons, cases=())
    return replace(report, host=HostRecord.of({**asdict(report.host), "name": name, "machine": "x86_64"}))  # type: ignore[arg-type]


def test_the_host_that_became_noisier_comes_first_and_is_marked(fleet_server: RunningServer) -> None:
    answer = get(fleet_server, "/hosts")
    assert answer["total"] == len(FLEET) + 1
    assert {summary["host"] for summary in answer["hosts"]} == {*FLEET, SOLO}
    noisy, *quiet = answer["hosts"]
    assert noisy["host"] == NOISY
    assert "rise" in {mark["rule"] for mark in noisy["marks"]}
    assert noisy["noise"] > 2
    assert noisy["noisier_since"].startswith("2026-08-2")  # run 24 of 30, which began on 3 August
    assert not any(summary["marks"] for summary in quiet)
    assert all(0.5 < summary["noise"] < 2 for summary in quiet)
    assert noisy["runs"] == noisy["looked_at"] == FLEET_RUNS
    assert noisy["measured"] == {"toy": ["all"]}
    text = page(fleet_server, "/hosts")
    assert "5 hosts" in text
    assert "1 needs attention" in text
    assert text.index(NOISY) < min(text.index(host) for host in (*FLEET, SOLO) if host != NOISY)


def test_the_page_of_a_host_has_its_runs(fleet_server: RunningServer) -> None:
    answer = get(fleet_server, f"/hosts/{NOISY}")
    assert [run["run_id"] for run in answer["runs"]] == [
        f"fleet-{number:04d}" for number in reversed(range(FLEET_RUNS))
    ]
    assert {run["cases"] for run in answer["runs"]} == {CASES // len(FLEET)}
    assert answer["runs"][-1]["noise"] is None  # nothing was known then
    assert all(run["noise"] for run in answer["runs"][:-1])
    assert answer["host"]["disturbed"] == sum(not run["valid"] for run in answer["runs"]) > 0
    reasons = {run["distrust"] for run in answer["runs"] if not run["valid"]}
    assert reasons == {"other processes kept 0.41 of opduel's processors busy"}
    text = page(fleet_server, f"/hosts/{NOISY}")
    assert "Needs attention" in text
    assert text.count('data-started="') == FLEET_RUNS
    assert 'href="/runs/fleet-0029"' in text
    assert "Needs attention" not in page(fleet_server, f"/hosts/{SOLO}")
    with fleet_server.client(None) as client:
        assert client.get("/hosts/nobody").status_code == client.get("/api/v1/hosts/nobody").status_code == 404


def test_noise_is_the_median_excess_over_what_cases_had_in_their_first_runs(server: RunningServer) -> None:
    """By a naive account of the same runs."""
    spreads = [0.01 * (1 + 0.3 * math.sin(number)) for number in range(REFERENCE_RUNS + 3)]
    history: list[float] = []
    expected: list[float | None] = []
    for number, spread in enumerate(spreads):
        server.post(plain(number, "a", spread))
        own = log_spread((spread, -spread, 2 * spread, 0.0))
        assert own is not None
        excess = own - statistics.fmean(history[:REFERENCE_RUNS]) if history else None
        expected.append(excess)
        history.append(own - (excess or 0.0))
    noise = [run["noise"] for run in get(server, "/hosts/a")["runs"]][::-1]
    assert noise[0] is None
    for ratio, excess in zip(noise[1:], expected[1:], strict=True):
        assert excess is not None
        assert math.log(ratio) == pytest.approx(excess, abs=1e-9)
    with server.database.reading() as session:
        assert set(session.scalars(select(CaseNoise.runs))) == {REFERENCE_RUNS}


def test_cases_that_are_new_are_taken_to_be_what_the_host_is(server: RunningServer) -> None:
    for number, spread in enumerate((0.01, 0.03, 0.03, 0.03)):
        server.post(plain(number, "a", spread))
    report = plain(5, "a", 0.03)
    new_comparisons = tuple(replace(comparison, case=f"other {comparison.case}") for comparison in report.comparisons)
    server.post(replace(report, comparisons=new_comparisons))
    quiet = tuple(measured(comparison.case, 0.01, -0.01, 0.02, 0.0) for comparison in new_comparisons)
    server.post(replace(plain(6, "b"), comparisons=quiet))
    assert get(server, "/hosts/a")["runs"][0]["noise"] is None
    assert get(server, "/hosts/a")["runs"][1]["noise"] == pytest.approx(3)
    assert get(server, "/hosts/b")["runs"][0]["noise"] == pytest.approx(1)


def test_what_changed_was_injected_or_failed_tells_nothing_of_the_host(server: RunningServer) -> None:
    server.post(plain(1, "a"))
    report = plain(2, "a", 0.01)
    noisy = (0.5, -0.5, 1.0, 0.0)
    odd = (
        *(measured(f"case {case}", *noisy, verdict="regressed") for case in range(3)),
        *(measured(f"case {case}", *noisy, injected=True) for case in range(3, 6)),
        *(replace(samples.failed(f"case {case}"), samples=measured("x", *noisy).samples) for case in range(6, 9)),
        *(measured(f"case {case}", *noisy, metric="memory") for case in range(9, 12)),
    )
    server.post(replace(report, comparisons=odd))
    run = get(server, "/hosts/a")["runs"][0]
    assert (run["cases"], run["noise_cases"], run["spread"], run["noise"]) == (12, 0, None, None)


def test_reports_that_name_no_host_stand_together_by_their_kind(server: RunningServer) -> None:
    for number, name in enumerate((None, None, "", " ", "..")):
        server.post(plain(number, name))
    (only,) = get(server, "/hosts")["hosts"]
    assert only["host"] == "unnamed: AMD EPYC, 2 processors, x86_64, Linux"
    assert not only["is_named"]
    assert only["runs"] == 5
    assert "Reports don't name their host" in page(server, f"/hosts/{quote(only['host'])}")


def test_failed_aa_checks_mark_a_host(server: RunningServer) -> None:
    def check(flagged: bool) -> dict[str, Any]:
        record = {**samples.validity()["aa_checks"][0], "case": "case 1", "ratio": 1.1 if flagged else 0.999}
        pairs = [PairSample("case 1", "screening", pair, 1.0, 1.0, 0.1 * pair, 1, 1) for pair in (1, 0, 2)]
        return {**record, "flagged": flagged, "samples": pairs}

    for number, flagged in enumerate((True, False, False, False, False, True)):
        validity = {**samples.validity(*(["an A/A check"] if flagged else [])), "aa_checks": [check(flagged)]}
        server.post(plain(number, "a", validity=validity))
        marks = [mark["rule"] for mark in get(server, "/hosts/a")["host"]["marks"]]
        assert marks == []  # one in the last five runs is no surprise
    server.post(plain(7, "a", validity={**samples.validity("x"), "aa_checks": [check(True)]}))
    answer = get(server, "/hosts/a")
    assert [mark["rule"] for mark in answer["host"]["marks"]] == ["aa"]
    assert answer["runs"][0]["aa_ratio"] == pytest.approx(1.1)
    assert "A/A checks found differences in 2 of its last 5 runs" in page(server, "/hosts/a")


def test_a_host_that_is_noisier_than_the_others_of_its_kind_is_marked(server: RunningServer) -> None:
    number = 0
    for host, factor in (("a", 1.0), ("b", 1.03), ("c", 0.97), ("d", 1.05), ("e", 0.95), ("f", 3.0)):
        for _ in range(2):
            number += 1
            server.post(plain(number, host, 0.01 * factor))
    server.post(replace(plain(99, "g", 0.1), host=HostRecord(name="g", cpu_model="another")))  # type: ignore[arg-type]
    marks_by_host = {
        summary["host"]: [mark["rule"] for mark in summary["marks"]] for summary in get(server, "/hosts")["hosts"]
    }
    assert marks_by_host == {**{host: [] for host in "abcdeg"}, "f": ["others"]}


ODD_HOSTS: Sequence[Any] = (
    [{"name": "x"}, {"name": "x"}],
    [{"name": ""}, {"shards": -4, "cases": 10**30, "rounds": 2**40}],
    [{"name": "a/b?c#d%2f"}, {"name": "//"}, {"name": "x" * 5000}, {"name": "\u202e\x1b[2J"}],
    [{"name": str(number)} for number in range(1200)],
)


def test_no_fleet_that_a_report_may_hold_breaks_anything(server: RunningServer) -> None:
    for number, hosts in enumerate(ODD_HOSTS):
        report = plain(number, "plain")
        report = replace(report, run=RunRecord.of({**asdict(report.run), "fleet": {"hosts": hosts}}))  # type: ignore[arg-type]
        pairs = [PairSample("case 1", "screening", pair, 1.0, 1.0, 1e308, 1, 1) for pair in range(2)]
        checks = [{"case": "case 1", "ratio": -1.0, "samples": pairs}]
        report = replace(
            report, run=RunRecord.of({**asdict(report.run), "validity": {**samples.validity(), "aa_checks": checks}})
        )  # type: ignore[arg-type]
        assert server.post(report).status_code == 201
    page(server, "/hosts")
    page(server, "/hosts?page=2")
    page(server, "/hosts?page=999")
    answer = get(server, "/hosts?limit=100&offset=0")
    assert answer["next_offset"] == 100
    for name in ("a/b?c#d%2f", "//", *(summary["host"] for summary in answer["hosts"][:5])):
        page(server, f"/hosts/{quote(name, safe='')}")
        assert get(server, f"/hosts/{quote(name, safe='')}")["host"]["host"] == name
    with server.database.reading() as session:
        per_run = [len(list(session.scalars(select(HostRun.host).filter_by(run_number=run)))) for run in (1, 4)]
    assert per_run == [1, 1000]


def test_the_hosts_of_runs_are_stored(tmp_path: Path, database_url: str) -> None:
    with running_server(tmp_path, database_url) as server:
        for report in (*made_host_reports(4, CASES), plain(1, None), plain(2, "a"), plain(3, "a", threads=None)):
            assert server.post(report).status_code == 201
        with server.database.reading() as session:
            hosts = session.scalars(select(HostRun)).all()
        assert len(hosts) == 4 * len(FLEET) + 2 + 3
        assert any(host.noise is not None for host in hosts)
        assert get(server, "/hosts")["total"] == len(FLEET) + 3


def test_a_run_that_is_removed_is_no_part_of_its_hosts_any_more(server: RunningServer) -> None:
    server.post(plain(1, "a"))
    server.post(plain(2, "b"))
    with server.database.writing() as session:
        remove_runs(session, ["run-2"])
    assert [summary["host"] for summary in get(server, "/hosts")["hosts"]] == ["a"]
    with server.database.writing() as session:
        remove_runs(session, ["run-1"])
        assert list(session.scalars(select(CaseNoise.case_number))) == []
        assert list(session.scalars(select(Run.number))) == []
    assert "No run has been stored yet" in page(server, "/hosts")


@pytest.mark.nightly
def test_plots_follow_the_tables_and_the_keys(page: Page, fleet_server: RunningServer) -> None:
    page.goto(f"{fleet_server.url}/hosts")
    expect(page.locator("figure svg .host-level :is(path, circle)")).to_have_count(5)
    page.get_by_role("searchbox", name="Find a host").fill("bench")
    expect(page.locator("figure svg .host-level :is(path, circle)")).to_have_count(4)
    page.get_by_role("link", name=NOISY).click()
    expect(page.locator("figure svg .host-dot :is(path, circle)")).to_have_count(FLEET_RUNS - 1)
    expect(page.locator("figure svg .host-rise rect")).to_have_count(1)
    page.get_by_role("group", name="Plot of runs").focus()
    page.keyboard.press("ArrowLeft")
    status = page.locator(".history-status")
    expect(status).to_contain_text("(toy, all)")
    assert re.search(r"\+\d+ %", status.inner_text())
    page.keyboard.press("ArrowLeft")
    status.get_by_role("link").click()
    expect(page).to_have_url(re.compile("/runs/fleet-0028$"))
