"""The driver's notifications: each culprit once, whatever fails or is killed in between. Nothing is measured here."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

import pytest
from made_reports import build, comparison
from results_server import REPORTS, running_server

from opduel.commands.driver_findings import Teller
from opduel.commands.notifying import Notifications, alert_of_outcome, verified_report
from opduel.driver.bisection import CulpritRange
from opduel.driver.culprit_code import ChangedCode, Match
from opduel.driver.journal import Journal
from opduel.driver.outcome import Culprit, Outcome
from opduel.driver.revisions import Revision
from opduel.driver.steps import step_of
from opduel.records import Commit, Comparison, Report, RunError
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters.alert_text import headline, plain_text
from opduel.reporters.alerts import Alert
from opduel.reporters.base import FindingsReporter
from opduel.reporters.export import HtmlReporter
from opduel.reporters.local import SimpleLocalReporter
from opduel.reporters.notifier import Notifier
from opduel.reporters.options import ReporterOptions
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import parse_place
from opduel.reporters.remote.reporter import RemoteReporter
from opduel.reporters.remote.spool import Spool
from opduel.reporters.remote.token import Token
from opduel.reporters.simple_screen import JsonReporter
from opduel.reporters.summary import conclusion
from opduel.support.outbox import Outbox

AUTHOR = "Ada <ada@toy.example>"
COMMITS = [Commit(f"{number:x}" * 40, 1_700_000_000, AUTHOR, f"Change {number}") for number in range(9)]
POINTS = [Revision(commit.short, build, commit) for commit in COMMITS]
SLOW, SLOWER, BROKEN = (
    comparison("regressed", number=0),
    comparison("regressed", number=1),
    comparison("failed", "treatment", number=2),
)


@dataclass(eq=False)
class Recorder(Notifier):
    """Keeps what it is sent, unless it fails as configured."""

    option: ClassVar[str] = "made_notifier"
    help: ClassVar[str] = "for tests"

    sent: list[Alert] = field(default_factory=list)
    fails: list[BaseException] = field(default_factory=list)
    refuses: str = ""  # the key of a cause
    unverified: bool = False

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        return cls()

    def send(self, alert: Alert) -> None:
        if self.fails:
            raise self.fails.pop(0)
        if alert.causes[0].key == self.refuses:
            raise RunError("refused")
        self.sent.append(alert)


class Start:
    """One start after the other of a driver with two notifiers, on one journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first, self.second = Recorder(), Recorder()
        self.disk = SimpleLocalReporter(folder)
        self.again()

    def again(self) -> None:
        """As a new process would begin."""
        self.journal = Journal(self.folder / "journal.db")
        self.notifications = Notifications(self.journal, [self.disk], [self.first, self.second])

    def pass_by(self, *outcomes: Outcome) -> None:
        """One pass."""
        self.notifications.deliver()
        for outcome in outcomes:
            self.notifications.report_outcome(outcome, None)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started = Start(tmp_path)
    yield started
    started.journal.close()


def run_of(comparisons: Sequence[Comparison], run_id: str = "1", last: int = 8) -> Report:
    sides = (replace(build(commit.short), commit=commit) for commit in (COMMITS[0], COMMITS[last]))
    return Report(
        RunRecord.of({"id": run_id, "framework": "toy", "spec": "s"}), *sides, HostRecord(), tuple(comparisons)
    )


def culprit(first: int, last: int, *cases: Comparison) -> Culprit:
    steps = {comparison.case: step_of(comparison) for comparison in cases}
    return Culprit(CulpritRange(first, last, steps), tuple(POINTS[first : last + 1]), ("7",))


def traced(*guilty: Culprit, last: int = 8) -> Outcome:
    """A line whose verification confirmed all that the culprits did."""
    of_cases = {comparison.case: comparison for comparison in (SLOW, SLOWER, BROKEN)}
    cases = sorted({case for traced_culprit in guilty for case in traced_culprit.range.cases})
    comparisons = [of_cases[case] for case in cases]
    return Outcome(run_of(comparisons, last=last), run_of(comparisons, "2", last=last), tuple(cases), guilty)


def test_a_culprit_is_named_with_its_own_figures(start: Start) -> None:
    slower = replace(SLOW, ratio=1.083, ci=(1.071, 1.094))
    outcome = traced(culprit(3, 4, slower))
    start.disk.report(outcome.verification)  # type: ignore[arg-type]
    start.pass_by(outcome)
    (alert,) = start.first.sent
    text = plain_text(alert)
    assert headline(alert) == "1 case regressed"
    assert f"since {COMMITS[4].short} 2023-11-14 Ada: Change 4\n  exp_0/forward  +8.3 % [+7.1, +9.4]\n" in text
    assert "traced by bisection" in text
    assert f"report     {start.folder / 'report.json'}\n" in text
    assert start.second.sent == [alert]


def test_what_a_culprit_changed_is_told_with_it(start: Start) -> None:
    """Also where another culprit of the same alert was reported before."""
    code = ChangedCode((Match("exp_0/forward", "op::exp", "src/exp.cc", "changed"),), ("dep",))
    start.pass_by(traced(culprit(1, 2, SLOWER)), traced(culprit(1, 2, SLOWER), replace(culprit(3, 4, SLOW), code=code)))
    text = plain_text(start.first.sent[1])
    assert "\n  changed in the culprit: src/exp.cc (op::exp)\n  the culprit changes dependencies: dep\n" in text
    assert "culprit" not in plain_text(start.first.sent[0])


def test_the_page_of_a_run_that_was_sent_to_a_server_is_in_the_notification(tmp_path: Path) -> None:
    """Posted as the driver does, by a remote reporter to a real server, which says where the page is."""
    with running_server(tmp_path) as server:
        sender = Sender(Spool(tmp_path / "spool"), Token(server.write_token, "a test"))
        remote = RemoteReporter(parse_place(f"{server.url}{REPORTS}|nightly"), sender)
        journal, notifier = Journal(tmp_path / "journal.db"), Recorder()
        traced_outcome = traced(culprit(2, 3, SLOW))
        assert traced_outcome.verification is not None
        sent = [
            replace(sent_report, run=RunRecord.of({**asdict(sent_report.run), "started": "2024-01-01"}))
            for sent_report in (traced_outcome.benchmark, traced_outcome.verification)
        ]
        for report in sent:
            remote.report(report)
        outcome = replace(traced_outcome, benchmark=sent[0], verification=sent[1])
        Notifications(journal, [remote], [notifier]).report_outcome(outcome, None)
        (alert,) = notifier.sent
        assert alert.pages == (f"{server.url}/runs/2",)  # of the run that confirmed it
        assert f"page       {server.url}/runs/2\n" in plain_text(alert) + "\n"
        with server.client("read") as client:
            assert client.get(alert.pages[0]).status_code == 200
        journal.close()


def test_an_open_range_and_what_was_traced_to_nobody_are_reported_as_such() -> None:
    alert = alert_of_outcome(replace(traced(culprit(3, 6, SLOW)), benchmark=run_of([SLOW, SLOWER])))
    assert alert is not None
    assert [cause.key for cause in alert.causes] == [f"{COMMITS[3].short}..{COMMITS[6].short}"]
    assert alert.causes[0].since.startswith(f"since one of 3 after {COMMITS[3].short} up to {COMMITS[6].short} ")
    untraced = replace(traced(culprit(3, 6, SLOW)), culprits=())
    alert = alert_of_outcome(untraced)
    assert alert is not None
    assert "traced to no commit" in alert.causes[0].since


def test_a_commit_that_breaks_a_case_is_reported(start: Start) -> None:
    start.pass_by(traced(culprit(1, 2, BROKEN)))
    assert "exp_2/forward  fails: crash: killed by SIGSEGV" in plain_text(start.first.sent[0])


def test_nobody_is_notified_of_what_a_second_measurement_did_not_find(start: Start) -> None:
    fine = [comparison("unchanged", number=0), comparison("unchanged", number=2)]
    outcome = Outcome(run_of([SLOW, BROKEN]), run_of(fine, "2"))
    assert [case_result.verdict for case_result in verified_report(outcome).comparisons] == ["inconclusive"] * 2
    start.pass_by(outcome, Outcome(run_of([SLOW])), Outcome(run_of([comparison("improved")])))
    assert start.first.sent == []


def test_a_second_measurement_that_was_held_back_leaves_it_open() -> None:
    held_back = replace(comparison("inconclusive", number=0), held_back="regressed")
    report = verified_report(Outcome(run_of([SLOW]), run_of([held_back], "2")))
    assert [(case_result.verdict, case_result.held_back) for case_result in report.comparisons] == [
        ("inconclusive", "regressed")
    ]
    assert conclusion(report) == "incomplete"


def test_without_tracing_only_what_is_broken_is_reported_unless_asked_for(start: Start) -> None:
    start.pass_by(Outcome(run_of([SLOW, BROKEN])))
    assert [(alert.regressed, alert.broken) for alert in start.first.sent] == [(0, 1)]
    start.first.unverified = True
    start.pass_by(Outcome(run_of([SLOW, BROKEN])))
    assert [(alert.regressed, alert.broken) for alert in start.first.sent] == [(0, 1), (1, 0)]


def test_a_culprit_is_reported_once_however_often_and_in_whatever_line_it_is_found(start: Start) -> None:
    start.pass_by(traced(culprit(3, 4, SLOW)))
    start.pass_by(traced(culprit(3, 4, SLOW)), traced(culprit(3, 4, SLOW), last=7))
    start.again()
    start.pass_by(traced(culprit(3, 4, SLOW), culprit(5, 6, SLOWER)))
    keys_by_alert = [[cause.key for cause in sent_alert.causes] for sent_alert in start.first.sent]
    assert keys_by_alert == [[COMMITS[4].short], [COMMITS[6].short]]


def test_of_many_cases_none_is_reported_later(start: Start) -> None:
    many = [comparison("regressed", number=number) for number in range(40)]
    culprit_of_all = culprit(3, 4, *many)
    outcome = Outcome(run_of(many), run_of(many, "2"), tuple(alert.case for alert in many), (culprit_of_all,))
    start.pass_by(outcome, outcome)
    assert [alert.regressed for alert in start.first.sent] == [40]
    assert "  and 35 more\n" in plain_text(start.first.sent[0])


def test_what_could_not_be_sent_is_said_and_sent_later_to_who_did_not_get_it(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    start.first.fails = [RunError("the network is down"), ZeroDivisionError("a bug")]
    start.pass_by(traced(culprit(3, 4, SLOW)))
    assert (len(start.first.sent), len(start.second.sent)) == (0, 1)
    assert "--made_notifier failed: the network is down; the next run tries again" in caplog.messages
    start.again()
    start.pass_by()
    assert start.first.sent == []
    assert "--made_notifier failed: ZeroDivisionError; the next run tries again" in caplog.messages
    for _ in range(2):
        start.pass_by()
    assert (len(start.first.sent), len(start.second.sent)) == (1, 1)
    assert [kind for _, kind, _ in start.journal.events()] == ["notification failed"] * 2


def test_one_that_nobody_takes_holds_up_no_other(start: Start) -> None:
    start.first.refuses = COMMITS[4].short
    start.pass_by(traced(culprit(3, 4, SLOW)))
    start.pass_by(traced(culprit(5, 6, SLOWER)))
    assert [alert.causes[0].key for alert in start.first.sent] == [COMMITS[6].short]
    start.first.refuses = ""
    start.pass_by()
    assert [alert.causes[0].key for alert in start.first.sent] == [COMMITS[6].short, COMMITS[4].short]


def test_a_notice_that_cannot_be_read_is_dropped_and_queued_again_when_it_is_found_again(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    start.first.fails = [RunError("the network is down")]
    start.pass_by(traced(culprit(3, 4, SLOW)))
    start.journal._connection.execute("UPDATE outbox SET payload = '{\"id\": ' WHERE state = 'waiting'")
    for _ in range(2):
        start.pass_by()
    assert start.first.sent == []
    assert [text for _, kind, text in start.journal.events() if kind == "damage" and "can't be read" in text]
    start.pass_by(traced(culprit(3, 4, SLOW)))
    assert (len(start.first.sent), len(start.second.sent)) == (1, 1)


@pytest.mark.parametrize("moment", ["add", "entries", "send", "_record"])
def test_killed_at_any_moment_nothing_is_lost(start: Start, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """And nothing is delivered twice, but for a kill between the receiver's answer and writing it down."""

    def killed(*_: object, **__: object) -> None:
        raise SystemExit("killed")

    with monkeypatch.context() as patch:
        if moment == "send":
            start.first.fails = [SystemExit("killed")]
        else:
            patch.setattr(Outbox, moment, killed)
        with pytest.raises(SystemExit):
            start.pass_by(traced(culprit(3, 4, SLOW)))
    start.journal.close()
    start.again()
    start.pass_by(traced(culprit(3, 4, SLOW)))  # the driver comes to the same outcome again
    start.pass_by(traced(culprit(3, 4, SLOW)))
    assert len(start.second.sent) == 1
    assert len({alert.id for alert in start.first.sent}) == 1
    assert len(start.first.sent) == (2 if moment == "_record" else 1)


def test_without_notifiers_nothing_is_kept_for_them(start: Start) -> None:
    Notifications(start.journal, [start.disk], []).report_outcome(traced(culprit(3, 4, SLOW)), None)
    start.pass_by()
    assert start.first.sent == []
    start.pass_by(traced(culprit(3, 4, SLOW)))
    assert len(start.first.sent) == 1


class Host(FindingsReporter):
    """Keeps what a code host would show of a commit; a broken one fails."""

    option: ClassVar[str] = "made_host"
    help: ClassVar[str] = "for tests"

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.findings: list[tuple[Report, Sequence[str]]] = []

    def report_findings(self, report: Report, culprits: Sequence[str]) -> None:
        if self.broken:
            raise ValueError("no such page")
        self.findings.append((report, culprits))


def test_code_hosts_get_each_commit_with_its_culprits(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    outcome, host = traced(culprit(3, 4, SLOW)), Host()
    teller = Teller(start.notifications, [start.disk], [start.first, Host(broken=True), host], traced=True)
    teller.report_outcome(outcome, None)
    ((report, culprits),) = host.findings
    assert report == verified_report(outcome)
    assert any(COMMITS[4].short in line for line in culprits)
    assert "--made_host failed: no such page" in caplog.text


def test_pages_name_the_culprits(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome, page = traced(culprit(3, 4, SLOW)), tmp_path / "found.html"
    disk = SimpleLocalReporter(tmp_path)
    disk.report(outcome.benchmark)
    disk.report(replace(outcome.benchmark, run=replace(outcome.benchmark.run, id="a later step")))
    reporters = HtmlReporter.from_options(ReporterOptions(html_reporter=str(page)))
    Teller(start.notifications, [disk], reporters, traced=True).report_outcome(outcome, None)
    paths = [tmp_path / f"report-{outcome.benchmark.run.id}.html", page]
    named = {path for path in tmp_path.glob("*.html") if f"first bad: {COMMITS[4].short}" in path.read_text()}
    assert named == set(paths)
    assert capsys.readouterr().out.splitlines()[-2:] == [f"page: {path}" for path in paths]


@pytest.mark.parametrize("prints_json", [False, True])
def test_beside_json_what_was_found_goes_to_standard_error(
    start: Start, capsys: pytest.CaptureFixture[str], prints_json: bool
) -> None:
    reporters = [start.disk, *([JsonReporter()] if prints_json else [])]
    Teller(start.notifications, reporters, [start.first], traced=True).report_outcome(traced(culprit(3, 4, SLOW)), None)
    captured = capsys.readouterr()
    lines, nothing = (captured.err, captured.out) if prints_json else (captured.out, captured.err)
    assert COMMITS[4].short in lines
    assert nothing == ""
