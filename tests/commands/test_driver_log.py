"""The driver's log file on a disk that takes nothing more."""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import report_samples as samples
from command_line import ROOT, fresh_logging
from forked import ONE_FORK, Forked

from opduel.commands.driver_findings import Teller
from opduel.commands.driver_log import logging_to
from opduel.commands.entry import run_command
from opduel.commands.notifying import Notifications
from opduel.driver.outcome import Outcome
from opduel.records import Commit


def test_a_full_disk_costs_the_log_its_lines_and_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "logs" / "driver.log"
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    with logging_to(path):
        for number in range(3):
            logging.getLogger("any").error("line %d", number)
    assert capsys.readouterr().err == ""
    messages = [record.getMessage() for record in caplog.records if record.name != "any"]
    assert messages == [f"{path}: can't be written (No space left on device): free some space, or fix its permissions"]
    assert [message for message in caplog.messages if message not in messages] == ["line 0", "line 1", "line 2"]


def test_an_output_that_takes_nothing_costs_no_pass_and_no_exit_code(tmp_path: Path) -> None:
    """As of cron, whose log lies on a full disk."""
    script = tmp_path / "script.py"
    code = "from opduel.commands.driver_findings import say; say(['first bad']); say(['more']); sys.exit(1)"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}")
    with (
        Path("/dev/full").open("w") as full,
        Forked([sys.executable, script], stdout=full, first=ONE_FORK) as process,
    ):
        _, errors = process.communicate()
    assert process.returncode == 1, errors
    assert errors == (
        "standard output: can't be written (No space left on device): what was found is in the log and in reports\n"
    )


def test_what_was_found_is_printed_once_and_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, nobody = tmp_path / "logs" / "driver.log", SimpleNamespace(report_outcome=lambda *_: None)
    teller = Teller(cast("Notifications", nobody), [], [], traced=False)

    def act() -> int:
        with logging_to(path):
            logging.getLogger("opduel.test").info("the way there")
            teller.report_outcome(Outcome(samples.report()), Path("culprits.json"))
        return 0

    with fresh_logging():
        assert run_command("opduel bisect", act) == 0
    captured = capsys.readouterr()
    printed = ["culprits: culprits.json", "next: --regression measures again what regressed, and names the commit"]
    assert (captured.out.splitlines(), captured.err) == (printed, "opduel bisect: the way there\n")
    lines = path.read_text().splitlines()
    assert [line.partition(" INFO ")[2] for line in lines] == ["the way there", *printed]


def test_the_answer_is_printed_after_the_table_of_an_earlier_start(capsys: pytest.CaptureFixture[str]) -> None:
    nobody, report = SimpleNamespace(report_outcome=lambda *_: None), samples.report()
    teller = Teller(
        cast("Notifications", nobody), [], [], traced=True, show_again=lambda shown: print(f"table of {shown.run.id}")
    )
    teller.report_outcome(Outcome(report), Path("culprits.json"))
    assert capsys.readouterr().out.splitlines() == [f"table of {report.run.id}", "culprits: culprits.json"]


def test_a_bisection_says_at_its_start_how_long_it_may_take(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    line = [Commit(str(number) * 40, 0, "Ada", "Work") for number in range(8)]
    for traced, commits in ((True, line), (True, line[:2]), (False, line)):
        teller = Teller(cast("Notifications", None), [], [], traced, longest_s=180.0)
        teller.begin_line("why", commits, "auto", None)
    texts = [text for text in caplog.messages if text.startswith("bisection")]
    most = "at most 8 comparisons where one of 7 commits is to blame"
    assert texts == [f"bisection  {most}, each over as soon as it is decided, in all at most 24 min"]


@pytest.mark.parametrize("traced", [False, True])
def test_a_regression_that_is_not_traced_says_what_names_the_commit(
    traced: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = SimpleNamespace(report_outcome=lambda *_: None)
    Teller(cast("Notifications", nobody), [], [], traced).report_outcome(Outcome(samples.report()), None)
    advice = "next: --regression measures again what regressed, and names the commit\n"
    assert (advice in capsys.readouterr().out) == (not traced)


def test_what_is_logged_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "driver.log"
    with logging_to(path):
        logging.getLogger("any").error("fetching https://ada:secret@toy.example/toy")
    (line,) = path.read_text().splitlines()
    assert "ERROR fetching https://" in line
    assert "secret" not in line
