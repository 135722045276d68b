"""Cases without a ratio: every output shows both values, and none a change in percent."""

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from made_report import made_report

from opduel.records import Case, PairSample, Report, Verification
from opduel.reporters.alert_text import plain_text
from opduel.reporters.alerts import alert_of
from opduel.reporters.document import to_bytes
from opduel.reporters.formats import FORMATS
from opduel.reporters.github import _annotations_by_kind as annotations_by_kind
from opduel.reporters.github import annotations
from opduel.reporters.kinds import verdict_text
from opduel.reporters.screen import render
from opduel.reporters.simple_screen import tab_separated


def a_report() -> Report:
    report = made_report(1)
    samples = tuple(PairSample("report.copies/value", "screening", i, 0.0, 3.0, 0.0, 1, 1) for i in range(8))
    again = Verification(
        "regressed", "regressed", difference=3.0, difference_ci=(3.0, 3.0), control=0.0, treatment=3.0, rounds=5
    )
    comparison = replace(
        report.comparisons[0], case="report.copies/value", metric="value", unit="copies", verdict="regressed",
        ratio=None, ci=None, mde=None, difference=3.0, difference_ci=(3.0, 3.0), control=0.0, treatment=3.0,
        failure=None, suspected=None, samples=samples, rounds=8, verification=again,
    )  # fmt: skip
    case = Case(comparison.case, "report", "forward", {}, "float32", "cpu", 0.02, 60.0, "value", unit="copies")
    return replace(report, comparisons=(comparison,), cases=(case,))


OUTPUTS: dict[str, Callable[[Report], str]] = {
    "screen": render,
    "md": lambda report: FORMATS["md"].write(report, None).text,
    "html": lambda report: FORMATS["html"].write(report, None).text,
    "junit": lambda report: FORMATS["junit"].write(report, None).text,
    "alert": lambda report: plain_text(alert_of(report) or pytest.fail("no alert")),
    "github": lambda report: "".join(annotations("error", annotations_by_kind(report)["error"])),
    "kinds": lambda report: verdict_text(report.comparisons[0]),
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_both_values_are_shown(output: str) -> None:
    text = OUTPUTS[output](a_report())
    arrow = text.replace("&gt;", ">").replace("\\", "")
    assert "0 -> 3" in arrow
    assert "+0.0 %" not in text


def test_programs_read_the_difference() -> None:
    report = a_report()
    header, line, *_ = tab_separated(report)
    row = dict(zip(header.split("\t"), line.split("\t"), strict=True))
    assert [row[name] for name in ("ratio", "control", "treatment", "difference")] == ["", "0.0", "3.0", "3.0"]
    assert b'"difference": 3.0' in to_bytes(report)
    (test,) = ElementTree.fromstring(FORMATS["junit"].write(report, None).text).iter("testcase")
    (failure,) = test.iter("failure")
    assert failure.get("message") == "change 0 -> 3, interval by +3, control 0 copies, 8 rounds"
    for name in FORMATS:
        FORMATS[name].write(report, "control" if FORMATS[name].sides == "one" else None)
