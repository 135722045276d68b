"""The operators of a case, on the terminal: those that differ most first, for cases that changed or for all."""

from dataclasses import replace

import pytest
import report_samples as samples

from opduel.records import Breakdown, Comparison, OperatorTime, Report, RunRecord
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.screen import render


def operators(**ns: float) -> tuple[OperatorTime, ...]:
    return tuple(OperatorTime(name, 2, value, value / sum(ns.values())) for name, value in ns.items())


PARTS = Breakdown(operators(Convolution=60e3, dot=40e3), operators(Convolution=66e3, dot=20e3, add=14e3))


def report(verdict: str, parts: Breakdown = PARTS, of_all: bool = False) -> Report:
    sample = samples.report(configuration={"breakdown": of_all})
    comparison: Comparison = next(case for case in sample.comparisons if case.verdict == verdict)
    return replace(sample, comparisons=(replace(comparison, breakdown=parts),))


def table(text: str) -> list[str]:
    """From the breakdown's title to the next empty line."""
    return text.partition("operators of")[2].partition("\n\n")[0].splitlines()[1:]


def test_the_operators_that_differ_most_come_first() -> None:
    rows = [line.split() for line in table(render(report("regressed")))]
    assert [row[0] for row in rows] == ["operator", "dot", "add", "Convolution"]
    assert " ".join(rows[1]) == "dot 2 40.0 us 40.0 % 20.0 us 20.0 % -20.0 us"
    assert " ".join(rows[2]) == "add 2 - - 14.0 us 14.0 % +14.0 us"


def test_breakdowns_that_the_time_budget_had_no_room_for_are_named() -> None:
    line = "no operator breakdown of 2 cases: the time budget was spent; give a larger one"
    short = replace(report("regressed"), run=RunRecord(not_broken_down=2))
    assert line in render(short).splitlines()
    assert "no operator breakdown" not in render(report("regressed"))


@pytest.mark.parametrize(
    ("verdict", "of_all", "is_shown"),
    [("improved", False, True), ("unchanged", False, False), ("unchanged", True, True)],
)
def test_it_is_shown_for_what_changed_or_when_asked(verdict: str, of_all: bool, is_shown: bool) -> None:
    assert bool(table(render(report(verdict, of_all=of_all)))) == is_shown


def test_what_is_left_is_summed_up() -> None:
    many = {f"operator_with_a_rather_long_name_{i}": 1e6 - i for i in range(20)}
    lines = table(render(report("regressed", Breakdown(operators(**many), operators(**many)))))
    assert len(lines) == 1 + 8 + 1
    assert lines[-1].split()[:4] == ["12", "others", "24", "12.0"]
    assert max(map(len, lines)) <= 80


def test_a_side_without_one_is_said() -> None:
    parts = Breakdown(PARTS.control, (), "treatment: crash: it died\x1b[31m")
    text = render(report("regressed", parts))
    assert "not profiled: treatment: crash: it died\\x1b[31m" in text
    assert all(line.endswith("-") for line in table(text)[1:3])


def test_it_survives_the_document() -> None:
    sample = report("regressed")
    assert from_text(to_bytes(sample).decode()).comparisons[0].breakdown == PARTS
