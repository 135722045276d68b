"""run_bench.py --convert, through the front door."""

from pathlib import Path

import pytest
from made_reports import build, comparison

from commands.run_bench import main
from records import Report
from reporters import write_report
from reporters.markdown import to_markdown


def test_a_report_is_printed_as_markdown(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    sides = build("mxnet==1.8.0.post0"), build("mxnet==1.9.1")
    report = Report({"spec": "smoke"}, *sides, {}, (comparison("regressed"), comparison("failed", "treatment", 1)))
    write_report(path, report)
    assert main(["--convert", str(path), "--to", "md"]) == 0
    assert capsys.readouterr().out == to_markdown(report)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--convert", "report.json"], "--to html|md"),
        (["--convert", "report.json", "--to", "md", "-b", "smoke"], "no other options"),
        (["--convert", "gone.json", "--to", "md"], "gone.json: cannot be read"),
        (["--convert", "gone.json", "--to", "pdf"], "invalid choice: 'pdf'"),
    ],
)
def test_wrong_usage_is_one_line(home: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], said: str) -> None:
    assert main(arguments) == 2
    (message,) = caplog.messages
    assert said in message
    assert "\n" not in message
