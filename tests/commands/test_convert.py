"""run_bench.py --convert, through the entry command."""

import logging
import os
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from command_line import run_bench_main
from made_reports import build, comparison

from opduel.records import Report
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters import read_report, write_report
from opduel.reporters.formats import FORMATS, write_format
from opduel.reporters.html import to_html
from opduel.reporters.markdown import to_markdown
from opduel.support.atomic import write_atomically


def test_a_report_is_printed_as_markdown(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    sides = build("mxnet==1.8.0.post0"), build("mxnet==1.9.1")
    report = Report(
        RunRecord.of({"spec": "smoke"}),
        *sides,
        HostRecord(),
        (comparison("regressed"), comparison("failed", "treatment", 1)),
    )
    write_report(path, report)
    assert run_bench_main(["--convert", str(path), "--to", "md"]) == 0
    assert capsys.readouterr().out == to_markdown(report)


def test_a_report_is_printed_as_a_page(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    report = Report(
        RunRecord.of({"spec": "smoke"}),
        build("mxnet==1.8.0.post0"),
        build("mxnet==1.9.1"),
        HostRecord(),
        (comparison("improved"),),
    )
    write_report(path, report)
    assert run_bench_main(["--convert", str(path), "--to", "html"]) == 0
    assert capsys.readouterr().out == to_html(report)


@pytest.mark.parametrize(
    ("arguments", "error_text"),
    [
        (["--convert", __file__], "the following arguments are required: --to"),
        (["--convert", __file__, "--to", "md", "-b", "smoke"], "unrecognized arguments: -b"),
        (["--convert", "gone.json", "--to", "md"], "gone.json: cannot be read"),
        (["--convert", __file__, "--to", "pdf"], "invalid choice: 'pdf'"),
        (["--to", "md", "-b", "smoke"], "unrecognized arguments: --to"),
    ],
)
def test_wrong_usage_is_one_line(
    home: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], error_text: str
) -> None:
    assert run_bench_main(arguments) == 2
    (message,) = caplog.messages
    assert error_text in message
    assert "\n" not in message


@pytest.fixture
def report_path(home: Path, tmp_path: Path) -> Path:
    """A report.json with one failed case."""
    sides = build("mxnet==1.8.0.post0"), build("mxnet==1.9.1")
    run = {"id": "20240229T101112Z-7f3a", "spec": "smoke"}
    write_report(
        tmp_path / "report.json",
        Report(
            RunRecord.of(run), *sides, HostRecord(), (comparison("regressed"), comparison("failed", "treatment", 1))
        ),
    )
    return tmp_path / "report.json"


@pytest.mark.parametrize("to", [name for name, format in FORMATS.items() if format.sides != "one"])
def test_every_format_is_printed(report_path: Path, capsys: pytest.CaptureFixture[str], to: str) -> None:
    assert run_bench_main(["--convert", str(report_path), "--to", to]) == 0
    printed = capsys.readouterr().out
    assert printed == write_format(read_report(report_path), to, None, "").text
    assert (
        run_bench_main(["--convert", str(report_path), "--to", to, "--output", str(report_path.with_name("out"))]) == 0
    )
    assert report_path.with_name("out").read_bytes().decode() == printed


def test_a_format_of_sides_is_printed_for_one_and_written_for_both(
    report_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert run_bench_main(["--convert", str(report_path), "--to", "pyperf", "--side", "treatment"]) == 0
    printed = capsys.readouterr().out
    assert caplog.messages == ["left out: 1 without samples (time), 1 failed"]
    caplog.clear()
    output = str(report_path.with_name("{side}-{run}.json"))
    assert run_bench_main(["--convert", str(report_path), "--to", "pyperf", "--output", output]) == 0
    files = [report_path.with_name(f"{side}-20240229T101112Z-7f3a.json") for side in ("control", "treatment")]
    assert files[1].read_text() == printed != files[0].read_text()
    assert [message.split()[1] for message in caplog.messages] == [str(path) for path in files]
    words = ["--convert", str(report_path), "--to", "pyperf", "--side", "treatment", "--output", str(files[0])]
    assert run_bench_main(words) == 0
    assert files[0].read_text() == printed


@pytest.mark.parametrize(
    ("arguments", "error_text"),
    [
        (["--to", "pyperf"], "--to: a file of pyperf has one side: add --side control or --side treatment"),
        (["--to", "csv", "--side", "control"], "--to: a file of csv has both sides: leave --side out"),
        (["--to", "pyperf", "--output", "a.json"], "--output: a file of pyperf has one side: put {side} into"),
        (
            ["--to", "md", "--output", "a.md", "--side", "control"],
            "a file of md has both sides: leave --side",
        ),
        (["--to", "pyperf", "--output", "{side}", "--side", "control"], "{side} writes both sides"),
        (["--to", "md", "--output", "/proc/none/a.md"], "--output /proc/none: cannot be written"),
        (["--to", "md", "--output", "/"], "--output /: is a folder"),
        (["--to", "md", "--output", ""], "--output: is empty"),
    ],
)
def test_sides_and_files_that_do_not_go_together(
    report_path: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], error_text: str
) -> None:
    assert run_bench_main(["--convert", str(report_path), *arguments]) == 2
    (message,) = caplog.messages
    assert error_text in message


def test_a_pipe_is_not_replaced_by_a_file(
    report_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = report_path.with_name("pipe")
    os.mkfifo(pipe)
    report_path.with_name("link").symlink_to(pipe)
    for name in ("pipe", "link"):
        caplog.clear()
        assert (
            run_bench_main(["--convert", str(report_path), "--to", "md", "--output", str(report_path.with_name(name))])
            == 2
        )
        assert f"{name}: is not a regular file: give a file's name" in caplog.text
    with pytest.raises(OSError, match="it is not a regular file"):
        write_atomically(pipe, b"x")
    assert pipe.is_fifo()
    assert report_path.with_name("link").is_symlink()


def test_an_output_that_takes_nothing_is_one_line(report_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Path("/dev/full").open("w") as full, redirect_stdout(full):
        assert run_bench_main(["--convert", str(report_path), "--to", "md"]) == 3
    assert caplog.messages == ["error: standard output: cannot be written (No space left on device): give --output"]
    caplog.clear()
    with redirect_stdout(None):
        assert run_bench_main(["--convert", str(report_path), "--to", "md"]) == 3
    assert caplog.messages == ["error: standard output: is closed: give --output"]
