"""The results file survives what stops a run; the table counts what it holds."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.peer_tools.results import Result, append_result, read_results
from benchmarks.peer_tools.table import interval, markdown, plain, rows_of
from opduel.records import UsageError

RESULT = Result(
    session=0,
    tool="tango",
    settings="3 s",
    origin="written from its documentation",
    build="mxnet==1.9.1",
    spec="smoke",
    seed=1,
    share=0.05,
    injected=["b", "d"],
    seconds=12.0,
    answers={"tango": {"a": "same", "b": "slower", "c": "faster", "d": "faster", "e": "failed", "f": "same"}},
    host={},
)


def test_what_is_appended_is_read_back_and_has_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "results.jsonl"
    other = replace(RESULT, session=1, seed=2)
    append_result(path, RESULT)
    append_result(path, other)
    assert read_results(path) == [RESULT, other]
    assert [one.key for one in read_results(path)] == [RESULT.key, other.key]
    assert RESULT.key != other.key
    assert replace(RESULT, load="bursts").key != RESULT.key


def test_a_line_that_was_cut_off_is_passed_over_and_then_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append_result(path, RESULT)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert read_results(path) == [RESULT]
    append_result(path, RESULT)
    assert path.read_bytes() == whole + whole


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"session": 0}\n')
    with pytest.raises(UsageError, match="line 1"):
        read_results(path)


def test_the_table_counts_false_flags_findings_and_wrong_directions() -> None:
    (row,) = rows_of([RESULT, replace(RESULT, session=1, seconds=24.0)])
    assert (row.plain, row.false, row.wrong_way, row.failed) == (6, 2, 2, 2)
    assert (row.injected, row.found) == ({0.05: 4}, {0.05: 2})
    assert row.seconds == [2.0, 4.0]
    assert "2 of 6 (4.3 to 77.7 %)" in plain([row])
    assert markdown([row]).splitlines()[2].startswith("| tango | 2 of 6 (4.3 to 77.7 %) | 2 of 4 (6.8 to 93.2 %) | 2 |")


def test_other_settings_and_shares_stand_apart() -> None:
    rows = rows_of([RESULT, replace(RESULT, settings="9 s"), replace(RESULT, share=0.02)])
    assert [row.settings for row in rows] == ["3 s", "9 s"]
    assert rows[0].injected == {0.05: 2, 0.02: 2}
    assert rows[1].injected == {0.05: 2}


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (0, 10, 0.0, 1 - 0.025 ** (1 / 10)),  # the closed forms at the ends
        (10, 10, 0.025 ** (1 / 10), 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_is_clopper_and_pearsons(count: int, total: int, low: float, high: float) -> None:
    assert interval(count, total) == pytest.approx((low, high))
