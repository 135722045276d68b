"""benchmarks/peers.py: its results file, its tables, and what it refuses."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from forked import Forked

from benchmarks.peer_tools.results import Result, append_result, read_results
from benchmarks.peer_tools.table import markdown, rows_of
from opduel.records import UsageError

ROOT = Path(__file__).resolve().parents[2]
RESULT = Result(
    session=0,
    tool="tango",
    settings="3 s",
    build="mxnet==1.9.1",
    spec="smoke",
    seed=1,
    share=0.05,
    injected=["b", "d"],
    seconds=12.0,
    answers={"tango": {"a": "same", "b": "slower", "c": "faster", "d": "faster", "e": "failed", "f": "same"}},
    host={},
)


def peers(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and errors."""
    with Forked([sys.executable, ROOT / "benchmarks" / "peers.py", *arguments]) as process:
        out, err = process.communicate()
        return process.wait(), out, err


def test_results_are_read_back_with_the_same_keys_and_a_line_that_was_cut_off_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "results.jsonl"
    second = replace(RESULT, session=1, seed=2)
    append_result(path, RESULT)
    complete = path.read_bytes()
    path.write_bytes(complete + complete[:40])
    assert read_results(path) == [RESULT]
    append_result(path, second)
    assert read_results(path) == [RESULT, second]
    assert [result.key for result in read_results(path)] == [RESULT.key, second.key]
    assert len({RESULT.key, second.key, replace(RESULT, load="bursts").key}) == 3
    path.write_text('{"session": 0}\n')
    with pytest.raises(UsageError, match="line 1"):
        read_results(path)


def test_the_table_counts_false_flags_detections_and_wrong_directions() -> None:
    rows = rows_of([RESULT, replace(RESULT, session=1, seconds=24.0), replace(RESULT, settings="9 s")])
    assert markdown(rows, 0.05).splitlines() == [
        "| rule | false flags of A/A | found of +5 % | called faster though slowed | failed | s a case |",
        "| --- | --- | --- | --- | --- | --- |",
        "| tango | 2 of 6 (4.3 to 77.7 %) | 2 of 4 (6.8 to 93.2 %) | 2 | 2 | 3.0 |",
        "| tango | 1 of 3 (0.8 to 90.6 %) | 1 of 2 (1.3 to 98.7 %) | 1 | 1 | 2.0 |",
    ]
    assert markdown(rows_of([replace(RESULT, share=0.0)]), 0.0).splitlines()[-1] == (
        "| tango | 3 of 5 (14.7 to 94.7 %) | 0 | 1 | 2.0 |"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tools", "naive,stopwatch"], "stopwatch"),
        (["--operators", "exp"], "--operators"),
        (["--sessions", "0"], "--sessions"),
        (["--table"], "holds no result"),
        (["--loads", "traffic"], "--loads"),
        (["--threshold", "200%"], "--threshold"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    code, _, err = peers("--data", str(tmp_path / "data.jsonl"), *arguments)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_spec_load_and_slowdown_have_tables_of_their_own(tmp_path: Path) -> None:
    for result in (RESULT, replace(RESULT, load="bursts"), replace(RESULT, share=0.01)):
        append_result(tmp_path / "data.jsonl", result)
    code, out, err = peers("--table", "--data", str(tmp_path / "data.jsonl"))
    assert code == 0, err
    assert [line for line in out.splitlines() if line.startswith("Spec")] == [
        "Spec: smoke, load: quiet, 6 cases a session, half slowed by 5 %",
        "Spec: smoke, load: quiet, 6 cases a session, half slowed by 1 %",
        "Spec: smoke, load: bursts, 6 cases a session, half slowed by 5 %",
    ]
    assert "| rule | false flags of A/A | found of +1 % |" in out


def test_the_page_has_the_rows_of_the_raw_results() -> None:
    results = sorted((ROOT / "benchmarks" / "results").glob("peers*.jsonl"))
    outputs = [peers("--table", "--data", str(path)) for path in results]
    assert [code for code, _, _ in outputs] == [0] * len(outputs)
    printed = {line for _, out, _ in outputs for line in out.splitlines()}
    page = (ROOT / "docs" / "explanation" / "peers.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and " of " in line and " %)" in line]
    assert rows
    assert [row for row in rows if row not in printed] == []
