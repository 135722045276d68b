"""Change points: followed from run to run, acknowledged until they change, in the API, the feed and alerts."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import feedparser
import httpx
import pytest
import report_samples as samples
from hook_server import Answer, HookServer
from results_server import RunningServer, body, numbered, running_server
from sqlalchemy import select

from opduel.records import Commit, Report
from opduel.reporters.notify_webhook import NotifyWebhook
from opduel.server.alerts import send_alerts
from opduel.server.change_points import DetectedChange, follow, is_material
from opduel.server.command_line import main
from opduel.server.drift import DriftAnalysis
from opduel.server.findings import FindingFilter, find_findings, list_findings
from opduel.server.histories import BuildName
from opduel.server.ingest import accept
from opduel.server.models import AnalysedSeries, Case, ChangePoint, Result
from opduel.server.storage import store

STAR = 24  # nights, each against the release
STEP_AT = 12


def night(number: int, ratio: float, case: str = "steady", **changes: Any) -> Report:
    """Return a night's commit against the release, one case."""
    commit = Commit(f"{number:040x}", 1_700_000_000 + 86_400 * number, "A <a@example.org>", f"Change {number} <b>&")
    treatment = replace(samples.TREATMENT, commit=commit, digest=f"{number:064x}")
    comparison = samples.comparison(case, ratio=ratio, ci=(ratio * 0.995, ratio * 1.005))
    return replace(numbered(number, **changes), treatment=treatment, comparisons=(comparison,), cases=())


def fill(server: RunningServer, size: float = 1.08, nights: Sequence[int] = range(STAR)) -> None:
    """A step of that size at one commit, and no noise."""
    keep(server, *(night(number, size if number >= STEP_AT else 1.0) for number in nights))


def keep(server: RunningServer, *reports: Report, category: str = "nightly", analyse: bool = True) -> None:
    """Store reports as posts would, and weigh them."""
    for report in reports:
        submission = accept(json.dumps(body(report, category)).encode(), None, 2**26)
        with server.database.writing() as session:
            assert store(session, submission, "a test", datetime.now(UTC))
    if analyse:
        DriftAnalysis(server.database).analyse()


@pytest.fixture
def server(tmp_path: Path, database_url: str) -> Iterator[RunningServer]:
    """Yield a server that knows of one step, on either database."""
    with running_server(tmp_path, database_url) as running:
        fill(running)
        yield running


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield such a server for tests that leave its step as it is."""
    url = request.getfixturevalue("postgres").make("one step") if request.param == "postgresql" else None
    with running_server(tmp_path_factory.mktemp("shared"), url) as running:
        fill(running)
        yield running


def points(server: RunningServer, token: str = "read", **parameters: str) -> list[dict[str, Any]]:
    with server.client(token) as client:
        answer = client.get("/api/v1/change_points", params=parameters)
    assert answer.status_code == 200, answer.text
    change_points: list[dict[str, Any]] = answer.json()["change_points"]
    return change_points


def test_a_step_is_found_acknowledged_and_comes_back_when_it_changes(server: RunningServer) -> None:
    (point,) = points(server)
    assert point["kind"] == "step"
    assert point["after"]["commit"] == f"{STEP_AT:040x}"
    assert point["ratio"] == pytest.approx(1.08, abs=0.004)
    assert point["q_value"] < 0.05
    path = f"/api/v1/change_points/{point['number']}/acknowledgement"
    for token, status in (("read", 403), ("none", 401), ("write", 200)):
        with server.client(token) as client:
            assert client.put(path, json={"note": "the price of a fix"}).status_code == status
    (acknowledged,) = points(server, state="acknowledged")
    acknowledgement = acknowledged["acknowledgement"]
    expected = {"by": "writes", "note": "the price of a fix", "counts": True}
    assert {name: acknowledgement[name] for name in expected} == expected
    assert points(server) == []
    fill(server, nights=range(STAR, STAR + 4))  # more of the same changes nothing
    assert points(server) == []
    keep(server, *(night(number, 1.12) for number in range(STAR + 4, STAR + 20)))
    # larger, it seems
    keep(server, *(night(number, 1.12, id=f"again-{number}") for number in range(STEP_AT, STAR + 4)))
    (changed_point,) = (listed for listed in points(server) if listed["number"] == point["number"])
    assert changed_point["acknowledgement"]["counts"] is False
    assert changed_point["changed"] > changed_point["found"]
    with server.client("write") as client:
        assert client.delete(path).json()["acknowledgement"] is None


@pytest.mark.parametrize("body", [b"", b"{}", b'{"note": ""}', b'{"note": "  "}', b'{"note": 7}', b"[", b"x" * 70_000])
def test_an_acknowledgement_is_a_note_and_no_more(untouched: RunningServer, body: bytes) -> None:
    with untouched.client("write") as client:
        answer = client.put("/api/v1/change_points/1/acknowledgement", content=body)
        assert answer.status_code == (413 if len(body) > 65_536 else 422)
        assert client.put("/api/v1/change_points/1/acknowledgement", json={"note": "x"}).status_code == 404


def test_filters(shared_server: RunningServer) -> None:
    assert len(points(shared_server, direction="slower", platform="cpu", framework="mxnet", q="0.05")) == 1
    assert points(shared_server, direction="faster") == []
    assert points(shared_server, platform="gpu") == []
    assert points(shared_server, framework="other") == []
    today = datetime.now(UTC).date()
    assert len(points(shared_server, since=today.isoformat())) == 1
    assert points(shared_server, since=(today + timedelta(days=1)).isoformat()) == []


def point_with_figures(log_ratio: float, low: float, high: float) -> ChangePoint:
    return ChangePoint(known_log=log_ratio, known_low=low, known_high=high)


@pytest.mark.parametrize(
    ("before", "now", "material"),
    [
        ((0.070, 0.060, 0.080), (0.072, 0.065, 0.079), False),
        ((0.070, 0.060, 0.080), (0.082, 0.069, 0.095), False),  # by more than 1 %, and chance
        ((0.070, 0.040, 0.100), (0.085, 0.080, 0.090), False),  # within what was known
        ((0.070, 0.060, 0.080), (0.095, 0.085, 0.105), True),
        ((0.070, 0.060, 0.080), (0.030, 0.020, 0.040), True),
        ((0.0700, 0.0699, 0.0701), (0.0710, 0.0709, 0.0711), False),  # beyond chance, and too small to matter
    ],
)
def test_what_is_material(before: tuple[float, float, float], now: tuple[float, float, float], material: bool) -> None:
    assert is_material(point_with_figures(*before), now[0], now[1:], 0.01) == material


ORDER = {f"n{number}": float(number) for number in range(20)}


def change(first: int, last: int, size: float = 0.05, kind: str = "step") -> DetectedChange:
    builds = [BuildName(f"n{number}", f"n{number}", "", "", None, None, None) for number in (first, last)]
    return DetectedChange(kind, *builds, last - first, size, (size - 0.01, size + 0.01), 0.001)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (change(5, 6), change(6, 7), True),
        (change(5, 6), change(4, 9, kind="drift"), True),
        (change(5, 6), change(9, 10), False),
        (change(5, 6), change(5, 6, -0.05), False),
        (change(0, 19, kind="overall"), change(0, 18, kind="overall"), True),
        (change(0, 19, kind="overall"), change(5, 6), False),
    ],
)
def test_a_change_is_followed_while_runs_are_added(
    tmp_path: Path, before: DetectedChange, after: DetectedChange, same: bool
) -> None:
    with running_server(tmp_path) as server:
        first, second, third = (datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3))
        series = followed(server, None, before, first)
        followed(server, series, after, second)
        with server.database.reading() as session:
            rows = session.query(ChangePoint).order_by(ChangePoint.number).all()
        assert len(rows) == (1 if same else 2)
        assert (rows[0].gone is None) == same
        assert rows[0].found == first
        if not same:  # and it is the same again when it comes back
            followed(server, series, before, third)
            with server.database.reading() as session:
                rows = session.query(ChangePoint).order_by(ChangePoint.number).all()
            assert [finding.gone for finding in rows] == [None, third]
            assert rows[0].found == rows[0].changed == first


def followed(server: RunningServer, series: int | None, detected: DetectedChange, now: datetime) -> int:
    with server.database.writing() as session:
        if series is None:
            case = Case(framework="f", case="c", operator="o", direction="forward", metric="time", unit="ns")
            case.lower_is_better = True
            session.add(case)
            session.flush()
            figures = dict.fromkeys(("p_value", "drift_log"), 0.01)
            counts = dict.fromkeys(("threads", "run_count", "builds", "runs"), 1)
            row = AnalysedSeries(case_number=case.number, platform="host", branch="", **figures, **counts)
            session.add(row)
            session.flush()
            series = row.number
        follow(session, session.get_one(AnalysedSeries, series), [detected], ORDER, 0.01, now)
    return series


def feed_of(server: RunningServer, token: str | None = "read", **parameters: str) -> httpx.Response:
    with server.client(token) as client:
        return client.get("/drift.atom", params=parameters)


def test_the_feed_is_atom_that_a_reader_understands(shared_server: RunningServer) -> None:
    answer = feed_of(shared_server)
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    root = ElementTree.fromstring(answer.content)
    atom = "{http://www.w3.org/2005/Atom}"
    for parent in (root, *root.iter(f"{atom}entry")):
        for name in ("id", "title", "updated"):  # what RFC 4287 wants of both
            assert len(parent.findall(atom + name)) == 1
            assert parent.findtext(atom + name)
    read = feedparser.parse(answer.content)
    assert not read.bozo
    (entry,) = read.entries
    assert entry.title.startswith("steady +8.0 %: a step at 000000000000")
    assert "Change 12 <b>&" in entry.content[0].value
    assert entry.link.startswith(f"{shared_server.url}/cases/")
    with shared_server.client("read") as client:
        assert client.get(entry.link).status_code == 200
    assert entry.updated_parsed is not None
    assert feedparser.parse(feed_of(shared_server, direction="faster").content).entries == []
    assert feed_of(shared_server, direction="odd").status_code == 422


def test_the_feed_has_the_rules_of_access_that_pages_have(shared_server: RunningServer, tmp_path: Path) -> None:
    none = feed_of(shared_server, None)
    assert (none.status_code, none.headers["WWW-Authenticate"]) == (401, 'Basic realm="opduel results"')
    assert feed_of(shared_server, "write").status_code == 403
    with shared_server.client(None) as client:
        for password, status in ((shared_server.read_token, 200), ("wrong", 401), (shared_server.write_token, 403)):
            assert client.get("/drift.atom", auth=("anybody", password)).status_code == status
        assert client.get("/drift", auth=("anybody", shared_server.read_token)).status_code == 303  # pages have a login
    with running_server(tmp_path / "open", open_read=True, public_url="https://r.example.org/") as other:
        (tmp_path / "open").mkdir(exist_ok=True)
        assert b"<id>https://r.example.org/drift.atom</id>" in feed_of(other, None).content


@contextmanager
def browser(server: RunningServer, token: str) -> Iterator[httpx.Client]:
    """Yield one that has logged in."""
    with server.client(None) as client:
        client.headers["Origin"] = server.url
        assert client.post("/login", data={"token": token}).status_code == 303
        yield client


def test_a_page_acknowledges_and_takes_back(shared_server: RunningServer) -> None:
    (point,) = points(shared_server)
    form = {"number": str(point["number"]), "note": "known", "back": "platform=cpu&odd=1"}
    with browser(shared_server, shared_server.read_token) as reader:
        assert "Acknowledge those chosen" not in reader.get("/drift").text
        assert reader.post("/drift/acknowledge", data=form).status_code == 403
    with browser(shared_server, shared_server.token) as writer:
        assert "Acknowledge those chosen" in writer.get("/drift").text
        assert writer.post("/drift/acknowledge", data=form, headers={"Origin": "https://evil"}).status_code == 403
        assert writer.post("/drift/acknowledge", data={"note": "known"}).status_code == 400
        assert writer.post("/drift/acknowledge", data={"number": form["number"]}).status_code == 400
        assert points(shared_server, state="acknowledged") == []
        answer = writer.post("/drift/acknowledge", data=form)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/drift?platform=cpu")
        assert "steady" not in writer.get("/drift").text
        assert "acknowledged by both" in writer.get("/drift?state=acknowledged").text
        assert writer.post("/drift/acknowledge", data={**form, "withdraw": "1"}).status_code == 303
    assert points(shared_server)[0]["acknowledgement"] is None


def test_what_is_new_since_the_last_look_is_marked(shared_server: RunningServer) -> None:
    with browser(shared_server, shared_server.read_token) as reader:
        assert "Last seen" not in reader.get("/drift").text
        assert reader.post("/drift/seen", headers={"Origin": "https://evil"}).status_code == 403
        assert reader.post("/drift/seen").status_code == 303
        assert "Last seen" in reader.get("/drift").text
        assert "steady" not in reader.get("/drift?new=1").text
        reader.cookies.set("opduel_seen", "2020-01-01T00:00:00+00:00")
        page = reader.get("/drift?new=1").text
        assert '<span class="flag">new</span>' in page
        for odd in ("x", "2020-01-01", "9" * 500):
            reader.cookies.set("opduel_seen", odd)
            assert reader.get("/drift?new=1").status_code == 200


def test_an_alert_is_sent_once_and_again_when_it_changes(server: RunningServer) -> None:
    with HookServer(Answer(404), Answer()) as hook:
        webhook = NotifyWebhook(hook.url())
        (failure,) = send_alerts(server.database, [webhook], "https://r.example.org")
        assert "the next alert tries again" in failure
        assert send_alerts(server.database, [webhook], "https://r.example.org") == []
        text = hook.posts[-1][1]["text"]
        assert "1 case regressed" in text
        assert "since 000000000000 2023-11-26 Change 12 &lt;b&gt;&amp;" in text
        assert "steady on cpu  +8.0 %" in text
        assert "https://r.example.org/drift" in text
        assert send_alerts(server.database, [webhook], None) == []
        assert len(hook.posts) == 2
        with server.database.writing() as session:
            (finding,) = list_findings(session, FindingFilter())
            number = finding.point.number
            finding.point.changed = datetime.now(UTC) + timedelta(seconds=1)
        assert send_alerts(server.database, [webhook], None) == []
        assert len(hook.posts) == 3
        with server.client("write") as client:
            client.put(f"/api/v1/change_points/{number}/acknowledgement", json={"note": "known"})
        with server.database.writing() as session:
            (finding,) = find_findings(session, [number])
            finding.point.changed = finding.point.acknowledged - timedelta(seconds=1)  # type: ignore[operator]
        other = NotifyWebhook(hook.url())
        assert send_alerts(server.database, [webhook, other], None) == []
        assert len(hook.posts) == 3  # nobody hears of what somebody knows


def test_the_alert_command(server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.database.url.render_as_string(hide_password=False).replace("+pysqlite", "").replace("+psycopg", "")
    out = tmp_path / "alert.txt"
    command = ["alert", "--database", url, "--notify_command", f"tee {out}", "--public_url", "https://r.example.org"]
    assert main(command) == 0
    text = out.read_text(encoding="utf-8")
    assert re.search(
        r"^page       https://r\.example\.org/cases/\d+\?platform=cpu&threads=1&branch=$", text, re.MULTILINE
    )
    assert "control" not in text
    assert main(["alert", "--database", url]) == 2
    assert "alert: no receiver" in capsys.readouterr().err
    assert main([*command[:-1], "ftp://x"]) == 2
    failing = ["alert", "--database", url, "--notify_command", "true", "--notify_command", "false"]
    assert main(failing) == 3  # the second receiver has received nothing yet
    assert "--notify_command failed" in capsys.readouterr().err


def test_a_gradual_drift_is_one_change_point(tmp_path: Path) -> None:
    """Ten commits of +0.7 % each, none of which any run calls."""
    with running_server(tmp_path, open_read=True) as server:
        keep(server, *(night(number, 1.007 ** min(max(number - 9, 0), 10)) for number in range(30)))
        (point,) = points(server)
        assert point["kind"] == "drift"
        assert point["ratio"] == pytest.approx(1.007**10, abs=0.005)
        with server.client(None) as client:
            assert "a drift over" in client.get("/drift").text
        assert json.dumps(point)


def test_where_more_is_better_a_loss_is_the_slowdown(tmp_path: Path, database_url: str) -> None:
    def rate(case: str, number: int, ratio: float) -> Report:
        report = night(number, ratio, case, id=f"{case}-{number}")
        finding = replace(report.comparisons[0], metric="value", unit="calls/s", lower_is_better=False)
        return replace(report, comparisons=(finding,))

    def cases_by_direction(server: RunningServer) -> list[list[str]]:
        return [
            [finding["case"]["case"] for finding in points(server, direction=way)]
            for way in ("slower", "faster", "all")
        ]

    with running_server(tmp_path, database_url) as server:
        for case, size in (("gain", 1.08), ("loss", 0.92)):
            keep(server, *(rate(case, number, size if number >= STEP_AT else 1.0) for number in range(STAR)))
        assert cases_by_direction(server) == [["loss"], ["gain"], ["loss", "gain"]]
        with HookServer() as hook:
            assert send_alerts(server.database, [NotifyWebhook(hook.url())], None) == []
            text = hook.posts[-1][1]["text"]
        assert "loss" in text
        assert "gain" not in text
        with server.client("read") as client:
            feed = feedparser.parse(client.get("/drift.atom").text)
        terms = {finding.title.split()[0]: finding.tags[0].term for finding in feed.entries}
        assert terms == {"loss": "slower", "gain": "faster"}


def test_of_a_fleet_s_run_only_what_a_disturbed_host_measured_is_left_out(tmp_path: Path, database_url: str) -> None:
    hosts = [{"name": "busy", "valid": False}, {"name": "quiet", "valid": True}]

    def both(number: int, ratio: float) -> Report:
        report = night(number, ratio, validity=samples.validity("busy: the processor was busy"), fleet={"hosts": hosts})
        own = report.comparisons[0]
        return replace(report, comparisons=tuple(replace(own, case=name, host=name) for name in ("busy", "quiet")))

    def trusted(server: RunningServer) -> dict[str, set[bool]]:
        with server.database.reading() as session:
            rows = session.execute(select(Case.case, Result.trusted).join(Case)).all()
        return {case: {finding for name, finding in rows if name == case} for case, _ in rows}

    with running_server(tmp_path, database_url) as server:
        keep(server, *(both(number, 1.08 if number >= STEP_AT else 1.0) for number in range(STAR)))
        keep(
            server, *(night(number, 1.0, "alone", id=f"a-{number}", validity=samples.validity("")) for number in (1, 2))
        )
        assert [finding["case"]["case"] for finding in points(server)] == ["quiet"]
        assert trusted(server) == {"busy": {False}, "quiet": {True}, "alone": {False}}
        with server.client("read") as client:
            numbers = {listed["case"]: listed["number"] for listed in client.get("/api/v1/cases").json()["cases"]}
            for case, left_out in (("busy", True), ("quiet", False)):
                history = client.get(f"/api/v1/cases/{numbers[case]}/history").json()["points"]
                assert {finding["trusted"] for finding in history} == {not left_out}
                assert ("t be trusted" in client.get(f"/cases/{numbers[case]}").text) is left_out
