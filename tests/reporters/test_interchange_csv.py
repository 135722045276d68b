"""The CSV tables, read by Python's csv module."""

import csv
import io
from dataclasses import replace

import interchange_samples
import pytest

from opduel.records import Report, Verification
from opduel.reporters.interchange.table import (
    CASE_COLUMNS,
    RUN_COLUMNS,
    SAMPLE_COLUMNS,
    text_cell,
    to_csv,
    to_csv_samples,
)
from opduel.reporters.simple_screen import COLUMNS


def rows(text: str) -> list[dict[str, str]]:
    """The rows by column; every line has as many cells as the first, and ends as RFC 4180 says."""
    assert text.endswith("\r\n")
    lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert {len(line) for line in lines} == {len(lines[0])}
    assert len(lines) == text.count("\r\n")  # no cell holds a line's end
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def test_a_line_a_case_with_every_figure_unrounded() -> None:
    lines = rows(to_csv(interchange_samples.report()).text)
    assert list(lines[0]) == [*RUN_COLUMNS, *COLUMNS, *CASE_COLUMNS]
    for line, comparison in zip(lines, interchange_samples.report().comparisons, strict=True):
        assert (line["case"], line["verdict"], line["metric"]) == (
            comparison.case,
            comparison.verdict,
            comparison.metric,
        )
        for column in ("ratio", "control", "treatment", "q_value", "mde"):
            value = getattr(comparison, column)
            assert (float(line[column]) if line[column] else None) == value
        assert (line["control_build"], line["treatment_build"]) == ("mxnet==1.8.0.post0", "mxnet==1.9.1")
    assert lines[0]["inputs"] == '{"data": [8, 3], "kernel": null}'


def test_a_line_a_sample_of_every_stage() -> None:
    first = interchange_samples.CHANGED[0]
    again = Verification("regressed", "regressed", samples=interchange_samples.samples("conv/forward", 1.05, 2))
    report = interchange_samples.report(replace(first, verification=again))
    lines = rows(to_csv_samples(report).text)
    assert list(lines[0])[-len(SAMPLE_COLUMNS) :] == list(SAMPLE_COLUMNS)
    stages = [line["stage"] for line in lines]
    assert [stages.count(stage) for stage in ("screening", "confirmation", "verification")] == [3, 12, 2]
    assert [float(line["log_ratio"]) for line in lines[:15]] == [sample.log_ratio for sample in first.samples]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        (" =1", "' =1"),
        ("＝1", "'＝1"),
        ("'quoted", "''quoted"),
        ("\t=1", "\\t=1"),
        ("\r\n=1", "\\r\\n=1"),
        ("a=1", "a=1"),
        ("a\\b", "a\\\\b"),
        ("", ""),
    ],
)
def test_no_text_is_a_formula(text: str, cell: str) -> None:
    assert text_cell(text) == cell


def test_a_column_of_numbers_stays_one() -> None:
    line = to_csv(interchange_samples.report(interchange_samples.CHANGED[1])).text.splitlines()[1]
    assert ",0.8,0.792," in line  # ratio and ci_low, without quotes


def test_an_empty_report_is_a_head() -> None:
    empty: Report = interchange_samples.report_samples.report([])
    assert rows(to_csv(empty).text) == rows(to_csv_samples(empty).text) == []
