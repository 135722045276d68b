"""From a finished run to its reporters and exit code: nothing that was measured is lost, and the code tells."""

import errno
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import SAME_BUILD, Outcome, only_report
from made_reports import Measuring, build, comparison, run_ab_giving

from opduel.commands.session import deliver_report
from opduel.harness.run_request import RunRequest
from opduel.records import Cause, Comparison, Forecast, Report, Verdict
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters import Reporter, simple_screen
from opduel.reporters.export import HtmlReporter
from opduel.reporters.local import SimpleLocalReporter

Run = Callable[..., Outcome]
MINIMAL = ("-b", "smoke", *SAME_BUILD)
UNCHANGED = comparison("unchanged")
OPEN = replace(comparison("inconclusive", number=2), p_value=0.2)  # it had a look
UNREACHED = replace(OPEN, p_value=None, forecast=Forecast(None, 4))
UNLIKE_ITSELF = replace(OPEN, metric="error", p_value=None)  # the control's outputs differ from each other


pytestmark = pytest.mark.usefixtures("measuring")


def test_callgrinds_files_of_explained_cases_lie_beside_the_report(
    run: Run, measuring: Measuring, tmp_path: Path
) -> None:
    explained = replace(comparison("improved"), cause=Cause("not explained"))

    def measure(request: RunRequest) -> Report:
        assert request.callgrind is not None
        request.callgrind.mkdir()
        (request.callgrind / "callgrind.out").write_text("events: Ir")
        return run_ab_giving(explained)(request)

    measuring.measure = measure
    assert run(*MINIMAL, "--simple_local_reporter", str(tmp_path)).code == 0
    assert (tmp_path / "report.callgrind" / "callgrind.out").read_text() == "events: Ir"


@pytest.mark.parametrize(
    ("comparisons", "broken", "code"),
    [
        ([UNCHANGED], False, 0),
        ([UNCHANGED, comparison("improved", number=1), OPEN], False, 0),
        ([UNCHANGED, comparison("improved", number=1), UNREACHED], False, 3),
        ([UNCHANGED, UNLIKE_ITSELF], False, 0),
        ([UNCHANGED, comparison("regressed", number=1)], False, 1),
        ([UNCHANGED, comparison("failed", "treatment", number=1)], False, 1),
        ([UNCHANGED, comparison("failed", "treatment", kind="killed", number=1)], False, 3),
        ([UNCHANGED, comparison("failed", "control", number=1)], False, 3),
        ([UNCHANGED, comparison("failed", "both", number=1)], False, 3),
        ([comparison("failed", "both"), comparison("failed", "control", number=1)], False, 3),
        ([comparison("failed", "treatment")], False, 1),
        ([UNCHANGED, comparison("regressed", number=1)], True, 3),
    ],
)
def test_exit_codes(run: Run, measuring: Measuring, comparisons: list[Comparison], broken: bool, code: int) -> None:
    stopped = "stopped by SIGTERM" if broken else None
    measuring.give(*comparisons, aborted=broken, stop_reason=stopped, complete=not broken)
    outcome = run(*MINIMAL)
    assert outcome.code == code
    assert ("not completed: stopped by SIGTERM" in outcome.err) == broken
    assert "repeat the command" not in outcome.err


def test_a_run_whose_rounds_are_in_a_log_goes_on_by_the_same_command(run: Run, measuring: Measuring) -> None:
    measuring.give(OPEN, aborted=True, stop_reason="stopped by SIGINT", complete=False, resumable=True)
    assert "what was measured is in the report; repeat the command to measure on\n" in run(*MINIMAL).err


HELD = replace(comparison("inconclusive", number=3), held_back="regressed")


@pytest.mark.parametrize(
    ("comparisons", "broken", "code"),
    [
        ([HELD], False, 3),
        ([UNCHANGED, HELD], False, 3),  # a regression may be there
        ([UNCHANGED, replace(HELD, held_back="improved")], False, 0),
        ([UNCHANGED, replace(HELD, held_back="unchanged")], False, 0),
        ([replace(HELD, held_back="unchanged")], False, 3),  # nothing stands
        ([comparison("regressed"), HELD], False, 1),
        ([UNCHANGED, OPEN], False, 0),  # nothing was there to be held back
        ([HELD, comparison("failed", "treatment", number=1)], False, 1),  # noise makes nothing crash
        ([HELD, comparison("failed", "control", number=1)], False, 3),
        ([HELD, comparison("failed", "treatment", number=1)], True, 3),
    ],
)
def test_a_regression_held_back_ends_in_3_unless_another_case_is_worse(
    run: Run, measuring: Measuring, comparisons: list[Comparison], broken: bool, code: int
) -> None:
    validity = {"valid": False, "hold": True, "reasons": ["the host was busy"], "aa_checks": []}
    measuring.give(*comparisons, aborted=broken, validity=validity)
    outcome = run(*MINIMAL)
    assert outcome.code == code
    (line,) = [line for line in outcome.err.splitlines() if "the host was busy" in line]
    stands = any(case_result.verdict in ("unchanged", "regressed") for case_result in comparisons)
    assert ("1 verdict stands nevertheless" in line) == stands
    assert ("can't be trusted" in line) != stands
    assert HELD not in comparisons or "1 verdict was held back" in line
    assert not stands or HELD in comparisons or "held back" in line


def test_a_run_to_be_trusted_says_nothing_of_it(run: Run, measuring: Measuring) -> None:
    validity = {"valid": True, "hold": True, "reasons": [], "aa_checks": []}
    measuring.give(UNCHANGED, validity=validity)
    assert "can't be trusted" not in run(*MINIMAL).err


@pytest.mark.parametrize(
    ("arguments", "sentinels", "hold", "verify_after", "run_type"),
    [
        ([], None, True, None, "benchmark"),
        (["--sentinels", "0", "--busy_host", "report"], 0, False, None, "benchmark"),
        (["--verify"], None, True, 0.0, "verify"),
        (["--verify", "--verify_after", "60", "--busy_host", "hold"], None, True, 60.0, "verify"),
        (["--verify", "--verify_after", "0", "--run_type", "regress", "--sentinels", "3"], 3, True, 0.0, "regress"),
    ],
)
def test_what_is_said_of_trust_reaches_the_run(
    run: Run,
    measuring: Measuring,
    arguments: list[str],
    sentinels: int | None,
    hold: bool,
    verify_after: float | None,
    run_type: str,
) -> None:
    assert run(*MINIMAL, *arguments).code == 0
    (request,) = measuring.requests
    asked_for = request.configuration
    assert (asked_for.sentinels, asked_for.holds, asked_for.verifies_after) == (sentinels, hold, verify_after)
    assert asked_for.run_type == run_type


def test_a_spent_budget_is_no_failure(run: Run, measuring: Measuring) -> None:
    measuring.give(UNCHANGED, complete=False, stop_reason="the time budget")
    assert run(*MINIMAL).code == 0


def test_without_reporters_a_pipe_gets_a_table_and_the_disk_a_report(run: Run, home: Path) -> None:
    outcome = run(*MINIMAL)
    assert "\nunchanged (1)\nexp_0/forward " in outcome.out
    assert only_report(home / "state" / "opduel" / "reports")["run"]["id"] == "made"
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("report: ")]
    assert Path(line.removeprefix("report: ")).is_file()
    lines = run(*MINIMAL, "--tsv").out.splitlines()
    assert lines[1].startswith("unchanged\texp_0/forward\t")


def test_with_a_local_reporter_alone_a_pipe_stays_empty_and_the_path_is_said(run: Run, home: Path) -> None:
    outcome = run(*MINIMAL, "--local_reporter", str(home / "reports"))
    assert (outcome.code, outcome.out) == (0, "")
    assert f"report: {home / 'reports'}" in outcome.err
    assert only_report(home / "reports")
    assert not (home / "state").exists()


def test_the_simple_local_reporter_is_a_local_one_too(run: Run, home: Path) -> None:
    assert run(*MINIMAL, "--simple_local_reporter", str(home / "reports")).code == 0
    assert only_report(home / "reports")
    assert not (home / "state").exists()


def test_the_configs_folder_comes_before_the_default(run: Run, home: Path) -> None:
    (home / "config" / "opduel").mkdir(parents=True)
    (home / "config" / "opduel" / "config.json").write_text(f'{{"local_reporter": "{home}/mine"}}')
    assert run(*MINIMAL).code == 0
    assert only_report(home / "mine")
    assert not (home / "state").exists()


def test_above_the_table_stands_the_path(run: Run, home: Path) -> None:
    outcome = run(*MINIMAL, "--screen_reporter")
    assert outcome.out.splitlines()[0].startswith("report: ")
    assert "report: " not in outcome.err


@pytest.mark.parametrize("option", ["--local_reporter", "--simple_local_reporter"])
def test_a_folder_that_cant_be_written_is_reported_before_measuring(
    run: Run, home: Path, measuring: Measuring, option: str
) -> None:
    (home / "file").touch()
    outcome = run(*MINIMAL, option, str(home / "file" / "reports"))
    assert outcome.code == 2
    assert f"{option} {home / 'file' / 'reports'}: cannot be written" in outcome.err
    assert measuring.requests == []


def spoil(measuring: Measuring, folder: Path, measured: Comparison = UNCHANGED) -> None:
    """While the run measures, ``folder`` becomes a file."""

    def measure(request: RunRequest) -> Report:
        shutil.rmtree(folder)
        folder.touch()
        return run_ab_giving(measured)(request)

    measuring.measure = measure


def test_a_folder_that_cant_be_written_costs_no_report(run: Run, home: Path, measuring: Measuring) -> None:
    spoil(measuring, home / "file")
    outcome = run(*MINIMAL, "--local_reporter", str(home / "file"), "--simple_screen_reporter")
    assert outcome.code == 0
    assert "unchanged\texp_0/forward" in outcome.out
    assert only_report(home / "state")
    lines = outcome.err.splitlines()
    assert f"report: {home / 'state'}" in lines[-2]
    assert lines[-1].startswith(f"harness.py: --local_reporter failed: cannot write below {home / 'file'}")
    assert lines[-1].endswith(f"; the data is in {lines[-2].removeprefix('report: ')}")


def test_when_nothing_can_be_written_it_says_so_and_still_prints(run: Run, home: Path, measuring: Measuring) -> None:
    spoil(measuring, home / "state")
    outcome = run(*MINIMAL)
    assert outcome.code == 3
    assert "unchanged (1)\nexp_0/forward" in outcome.out
    assert str(home / "state") in outcome.err.splitlines()[-1]


@pytest.mark.parametrize("full", [True, False])
def test_a_run_that_broke_says_that_its_report_has_what_was_measured_if_it_was_written(
    run: Run, measuring: Measuring, monkeypatch: pytest.MonkeyPatch, small_disk: Any, full: bool
) -> None:
    def measure(request: RunRequest) -> Report:
        if full:
            small_disk.fill()
        return run_ab_giving(UNCHANGED, aborted=True, stop_reason="the worker is gone", complete=False)(request)

    measuring.measure = measure
    monkeypatch.setenv("XDG_STATE_HOME", str(small_disk.path / "state"))
    outcome = run(*MINIMAL, "--local_reporter", str(small_disk.path / "reports"))
    assert outcome.code == 3
    assert "not completed: the worker is gone\n" in outcome.err
    assert ("what was measured is in the report" in outcome.err) != full
    assert ("No space left on device" in outcome.err.splitlines()[-1]) == full


@pytest.mark.parametrize(("verdict", "code"), [("unchanged", 0), ("regressed", 1), ("inconclusive", 3)])
def test_a_reporter_that_fails_fails_no_run(
    run: Run, home: Path, measuring: Measuring, verdict: Verdict, code: int
) -> None:
    held_back = "regressed" if code == 3 else None
    spoil(measuring, home / "file", replace(comparison(verdict), held_back=held_back))
    reporters = ("--local_reporter", str(home / "file"), "--simple_local_reporter", str(home / "reports"))
    outcome = run(*MINIMAL, *reporters)
    assert outcome.code == code
    assert only_report(home / "reports")
    assert outcome.err.splitlines()[-1].endswith(f"; the data is in {home / 'reports' / 'report.json'}")
    assert not (home / "state").exists()


def test_a_screen_that_fails_costs_no_report(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(stream: object, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(simple_screen, "write_text", full)
    outcome = run(*MINIMAL, "--tsv")
    assert outcome.code == 0
    assert only_report(home / "state")
    assert "--simple_screen_reporter failed" in outcome.err.splitlines()[-1]


def test_ctrl_c_while_reporting_costs_no_report(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = SimpleLocalReporter.report

    def interrupted(self: SimpleLocalReporter, *arguments: Any) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return report(self, *arguments)

    monkeypatch.setattr(SimpleLocalReporter, "report", interrupted)
    outcome = run(*MINIMAL, "--simple_local_reporter", str(home / "reports"))
    assert outcome.code == 0
    assert only_report(home / "reports")
    assert "the report is being written" in outcome.err


def test_labels_are_in_the_report(run: Run, home: Path) -> None:
    labels = ("--threshold", "3%", "--user_identifier", "me", "--run_type", "verify", "-p", "rack 7")
    run(*MINIMAL, *labels)
    document = only_report(home)["run"]
    expected_labels = {
        "threshold": 0.03,
        "user_identifier": "me",
        "run_type": "verify",
        "platform": "rack 7",
        "spec": "smoke",
    }
    assert {key: document[key] for key in expected_labels} == expected_labels
    assert document["command"] == ["harness.py", *MINIMAL, *labels]


def test_a_reports_path_moves_no_cursor(run: Run, tmp_path: Path) -> None:
    folder = f"{tmp_path}/a\x1b[31m\nb"
    places = ("--simple_local_reporter", folder, "--html_reporter", f"{folder}/x.html")
    lines = run(*MINIMAL, *places, "--export_reporter", f"csv={folder}/x.csv").err.splitlines()
    place = f"{tmp_path}/a\\x1b[31m\\x0ab"
    assert {f"report: {place}/report.json", f"page: {place}/x.html", f"csv: {place}/x.csv"} <= set(lines)


def test_exports_are_written_beside_the_report_and_named(run: Run, home: Path) -> None:
    exports = ("--export_reporter", f"csv={home}/new/cases.csv", "--export_reporter", f"pyperf={home}/{{side}}.json")
    outcome = run(*MINIMAL, *exports)
    assert (outcome.code, outcome.out) == (0, "")
    assert only_report(home / "state")
    assert '"exp_0/forward"' in (home / "new" / "cases.csv").read_text()
    assert f"csv: {home}/new/cases.csv" in outcome.err.splitlines()
    for side in ("control", "treatment"):
        assert (home / f"{side}.json").is_file()
        assert f"pyperf: {home}/{side}.json (left out: 1 without samples (time))" in outcome.err.splitlines()


def test_an_export_that_cant_be_written_costs_no_report(run: Run, home: Path, measuring: Measuring) -> None:
    spoil(measuring, home / "file")
    outcome = run(*MINIMAL, "--export_reporter", f"md={home}/file/a.md", "--export_reporter", f"bmf={home}/b.json")
    assert only_report(home / "state")
    assert (home / "b.json").is_file()
    message = (
        f"--export_reporter failed: cannot write {home}/file/a.md (Not a directory): give --export_reporter a file"
    )
    assert message in outcome.err.splitlines()[-1]


def test_each_line_is_said_before_the_next_reporter_begins(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who posts to a server that is away keeps nobody's page waiting."""
    lines: list[str] = []

    class Posts(Reporter):
        option = "posts"
        help = "posts"

        def report(self, report: Report) -> None:
            lines.append(capsys.readouterr().err)

    measured_report = Report(
        RunRecord.of({"id": "made"}),
        build("mxnet==1.8.0.post0"),
        build("mxnet==1.9.1"),
        HostRecord(),
        (comparison("unchanged"),),
    )
    page = HtmlReporter.from_option(f"{tmp_path}/page.html")
    deliver_report([SimpleLocalReporter(tmp_path), page, Posts()], measured_report)
    assert lines == [f"report: {tmp_path}/report.json\npage: {tmp_path}/page.html\n"]
