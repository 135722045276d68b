"""What a reader must know of a run is said once wherever table and log are read together."""

import logging
import sys
from pathlib import Path

import pytest
import report_samples as samples

from opduel.commands.entry import PRINTED
from opduel.commands.session import warn_of_report
from opduel.reporters.screen import ScreenReporter


@pytest.mark.parametrize(("log_name", "times"), [("out", 1), ("err", 2)])
def test_in_one_log_nothing_is_said_twice(
    log_name: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, reporter = samples.report([samples.failed("a")]), ScreenReporter()
    with (tmp_path / "out").open("a") as out, (tmp_path / log_name).open("a") as err, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        on_screen, in_file = logging.StreamHandler(err), logging.FileHandler(tmp_path / "driver.log")
        on_screen.addFilter(lambda record: record.name != PRINTED)
        patched.setattr(logging.getLogger("opduel"), "handlers", [on_screen, in_file])
        warn_of_report(report, [reporter])
        reporter.report(report)
        in_file.close()
    text = " ".join((tmp_path / name).read_text() for name in {"out", log_name}).lower()
    assert text.count("nothing was compared") == times
    assert (tmp_path / "driver.log").read_text().lower().count("nothing was compared") == 1
