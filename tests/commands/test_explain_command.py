"""opduel explain: the cause of a case of a report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Outcome, fresh_logging
from made_reports import build, comparison

from opduel.commands.opduel import main
from opduel.records import Candidate, Cause, Examination, Report
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters import write_report

PROD = Candidate("prod", 0.0, 900.0, 0.9, (0.85, 0.95), (None, 2.0), "a.py:3", caller="f")
CAUSE = Cause(
    "2 calls of prod per call, new (a.py:3), account for 90 % [85, 95] of the added time",
    (
        Examination("Python functions", "ns", 5, 1e3, 2e3, (9e2, 11e2), (PROD,), 0.9, "NumPy's own time isn't seen"),
        Examination("native functions", "instructions", 0, note="valgrind is not installed"),
    ),
)


@pytest.fixture
def report(home: Path, tmp_path: Path) -> Path:
    """Three cases: one with a cause, one without, one that did not change."""
    cases = replace(comparison("regressed"), cause=CAUSE), comparison("improved", number=1)
    every = (*cases, comparison("unchanged", number=2))
    path = tmp_path / "report.json"
    write_report(path, Report(RunRecord.of({"spec": "smoke"}), build("a==1"), build("a==2"), HostRecord(), every))
    return path


def call(capsys: pytest.CaptureFixture[str], *words: str) -> Outcome:
    with fresh_logging():
        code = main(["explain", *words])
    return Outcome(code, *capsys.readouterr())


def test_a_cause_is_the_sentence_then_what_each_source_saw(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, str(report), "exp_0/forward")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        f"exp_0/forward: regressed, +25.0 % [+20.0, +30.0]: {CAUSE.sentence}",
        "",
        "Python functions: 1.00 us to 2.00 us a call, 5 process pairs",
        "   calls  control  treatment  share  95 % interval  part",
        "  - to 2  0.00 ns     900 ns    90%     85% to 95%  prod; a.py:3; called by f",
        "  NumPy's own time isn't seen",
        "",
        "native functions",
        "  valgrind is not installed",
    ]


def test_a_part_of_an_id_is_enough_where_only_one_case_has_it(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, str(report), "p_0").out == call(capsys, str(report), "exp_0/forward").out


def test_without_a_case_there_is_a_line_for_each_that_has_a_cause(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = call(capsys, str(report)).out.splitlines()
    assert line.startswith("exp_0/forward: ")
    assert line.endswith(CAUSE.sentence)


def test_programs_get_the_same_as_json(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(call(capsys, str(report), "exp_0", "--json").out)
    assert (document["case"], document["ratio"], document["cause"]["sentence"]) == (
        "exp_0/forward",
        1.25,
        CAUSE.sentence,
    )
    assert document["cause"]["examinations"][0]["candidates"][0]["ci"] == [0.85, 0.95]
    assert "flame" not in document["cause"]["examinations"][0]
    assert json.loads(call(capsys, str(report), "--json").out) == [document]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("exq_0/forward", "has no case 'exq_0/forward': did you mean exp_0/forward?"),
        ("exp", "'exp' is a part of 3 cases, such as exp_0/forward: give more"),
        (
            "exp_2",
            "has no cause of exp_2/forward: measure with --explain all, which looks at changed cases",
        ),
    ],
)
def test_what_has_no_cause_is_one_line(report: Path, capsys: pytest.CaptureFixture[str], case: str, why: str) -> None:
    outcome = call(capsys, str(report), case)
    assert outcome.error_line() == f"opduel explain: error: {report}: {why}\n"


def test_a_report_without_causes_says_how_to_get_them(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    write_report(
        path,
        Report(RunRecord.of({"spec": "smoke"}), build("a==1"), build("a==2"), HostRecord(), (comparison("regressed"),)),
    )
    assert f"{path}: has no causes: measure with --explain all" in call(capsys, str(path)).err
