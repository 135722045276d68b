"""What a reader must know of a run is said once wherever table and log are read together."""

import logging
import sys
from pathlib import Path

import pytest
import report_samples as samples

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
        patched.setattr(logging.getLogger("opduel"), "handlers", [logging.StreamHandler(err)])
        warn_of_report(report, [reporter])
        reporter.report(report)
    text = " ".join(path.read_text() for path in tmp_path.iterdir()).lower()
    assert text.count("nothing was compared") == times
