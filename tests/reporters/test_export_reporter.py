"""The export reporter: files of formats, during a run."""

import argparse
import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import interchange_samples
import pyperf
import pytest

from opduel.records import RunError, UsageError
from opduel.reporters import add_reporter_options, chosen_reporters, report_all
from opduel.reporters.export import ExportReporter
from opduel.reporters.formats import FORMATS
from opduel.reporters.options import OPTION_BY_NAME, ReporterOptions


def reporters_of(*values: str, options: Sequence[str] = ()) -> list[ExportReporter]:
    """The reporters that the options ask for."""
    parser = argparse.ArgumentParser()
    add_reporter_options(parser)
    words = [word for value in values for word in ("--export_reporter", value)]
    chosen = chosen_reporters(ReporterOptions.of(parser.parse_args([*words, *options])), terminal=False)
    return [reporter for reporter in chosen if isinstance(reporter, ExportReporter)]


def test_several_formats_are_written_and_named(tmp_path: Path) -> None:
    reporters = reporters_of(f"junit={tmp_path}/new/junit.xml", f"pyperf={tmp_path}/{{side}}-{{run}}.json")
    for reporter in reporters:
        reporter.check()
    outcome = report_all(reporters, interchange_samples.report(id="../run 1"))
    assert not outcome.failures
    junit, pair = outcome.lines
    assert junit == f"junit: {tmp_path}/new/junit.xml"
    assert ElementTree.parse(tmp_path / "new" / "junit.xml").getroot().tag == "testsuites"
    files = sorted(path.name for path in tmp_path.glob("*.json"))
    assert files == ["control-__run_1.json", "treatment-__run_1.json"]
    for line, name in zip(pair.splitlines(), files, strict=True):
        assert line.startswith(f"pyperf: {tmp_path}/{name} (left out: 2 failed")
    sides = [pyperf.BenchmarkSuite.load(str(tmp_path / name)).get_metadata()["side"] for name in files]
    assert sides == ["control", "treatment"]


def test_benchstat_goes_in_one_file_or_in_two(tmp_path: Path) -> None:
    report_all(
        reporters_of(f"benchstat={tmp_path}/both.txt", f"benchstat={tmp_path}/{{side}}.txt"),
        interchange_samples.report(),
    )
    results = {
        path.stem: [line for line in path.read_text().splitlines() if line.startswith("Benchmark")]
        for path in tmp_path.iterdir()
    }
    assert results["both"] == results["control"] + results["treatment"]


def test_what_was_there_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "bmf.json"
    path.write_text("old")
    (reporter,) = reporters_of(f"bmf={path}")
    reporter.report(interchange_samples.report())
    assert "conv/forward" in json.loads(path.read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["bmf.json"]
    path.unlink()
    path.mkdir()
    with pytest.raises(RunError, match=r"cannot write .*bmf\.json \(Is a directory\): give --export_reporter"):
        reporter.report(interchange_samples.report())
    assert [path.name for path in tmp_path.iterdir()] == ["bmf.json"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("junit", "names no file: write junit=FILE"),
        ("junit=", "names no file: write junit=FILE"),
        ("xml=a", "'xml' is no format: use one of pyperf, "),
        ("a.xml", "'a.xml' is no format: use one of pyperf, "),
        ("pyperf=a.json", "a file of pyperf has one side: put {side} into the file's name"),
        ("csv={side}.csv", "a file of csv has both sides: leave {side} out"),
        ("md=.", "is a folder"),
        ("md=/proc/none/a.md", "--export_reporter /proc/none: cannot be written"),
    ],
)
def test_wrong_usage_is_said_before_measuring(value: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        [reporter.check() for reporter in reporters_of(value)]
    assert message in str(raised.value)
    assert str(raised.value).startswith("--export_reporter")


def test_one_file_is_not_written_by_two(tmp_path: Path) -> None:
    here = os.path.relpath(tmp_path)
    for first, second in (
        (f"csv={tmp_path}/a", f"md={tmp_path}/a"),
        (f"csv={tmp_path}/a", f"md={here}/./b/../a"),
        (f"pyperf={tmp_path}/{{side}}.json", f"csv={tmp_path}/control.json"),
        (f"csv={tmp_path}/{{run}}", f"md={here}/{{run}}"),
    ):
        with pytest.raises(UsageError, match=r"^--export_reporter: .* is given twice"):
            reporters_of(first, second)
    with pytest.raises(UsageError, match="is given twice"):
        reporters_of(f"csv={tmp_path}/a", options=["--html_reporter", f"{here}/a"])


def test_the_run_may_name_a_folder(tmp_path: Path) -> None:
    (reporter,) = reporters_of(f"csv={tmp_path}/out/{{run}}/more/cases.csv")
    reporter.check()
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]
    reporter.report(interchange_samples.report(id="r1"))
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "r1", "more", "cases.csv"]


def test_every_format_says_who_reads_it() -> None:
    assert all(name in OPTION_BY_NAME["export_reporter"].help and format.help for name, format in FORMATS.items())
