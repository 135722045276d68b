"""benchmarks/peers.py: wrong usage is one line and exit code 2; what is there gives the table without measuring."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from forked import Forked

from benchmarks.peer_tools.results import Result, append_result

ROOT = Path(__file__).resolve().parents[2]


def peers(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and errors."""
    with Forked([sys.executable, ROOT / "benchmarks" / "peers.py", *arguments]) as process:
        out, err = process.communicate()
        return process.wait(), out, err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tools", "naive,stopwatch"], "stopwatch"),
        (["--operators", "exp"], "--operators"),
        (["--sessions", "0"], "--sessions"),
        (["--table"], "holds no result"),
        (["--loads", "traffic"], "--loads"),
        (["--sample", "0"], "--sample"),
        (["--threshold", "200%"], "--threshold"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    code, _, err = peers("--data", str(tmp_path / "data.jsonl"), *arguments)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_the_table_comes_from_the_results_alone(tmp_path: Path) -> None:
    answers = {"a rule": {"a": "same", "b": "slower"}}
    result = Result(0, "tango", "3 s", "real", "mxnet==1.9.1", "smoke", 1, 0.05, ["b"], 4.0, answers, {})
    append_result(tmp_path / "data.jsonl", result)
    append_result(tmp_path / "data.jsonl", replace(result, load="bursts", seconds=8.0))
    append_result(tmp_path / "data.jsonl", replace(result, share=0.01, seconds=16.0))
    code, out, err = peers("--table", "--markdown", "--data", str(tmp_path / "data.jsonl"))
    assert code == 0, err
    quiet, small = out.split("Spec: smoke, load: quiet, 2 cases a session, half slowed by 1 %\n")
    small, bursts = small.split("Spec: smoke, load: bursts, 2 cases a session, half slowed by 5 %\n")
    assert "Spec: smoke, load: quiet, 2 cases a session, half slowed by 5 %\n" in quiet
    assert "| rule | false flags of A/A | found of +1 % |" in small
    assert "| a rule | 0 of 1 (0.0 to 97.5 %) | 1 of 1 (2.5 to 100.0 %) | 0 | 0 | 8.0 |" in small
    assert "| a rule | 0 of 1 (0.0 to 97.5 %) | 1 of 1 (2.5 to 100.0 %) | 0 | 0 | 2.0 |" in quiet
    assert "| a rule | 0 of 1 (0.0 to 97.5 %) | 1 of 1 (2.5 to 100.0 %) | 0 | 0 | 4.0 |" in bursts


def test_the_rows_of_the_page_are_those_of_the_raw_results() -> None:
    """With or without the two columns that say what a tool is."""
    results = ROOT / "benchmarks" / "results"
    printed = [peers("--table", "--markdown", "--data", str(path)) for path in sorted(results.glob("peers*.jsonl"))]
    assert [code for code, _, _ in printed] == [0] * len(printed)
    measured = {line for _, out, _ in printed for line in out.splitlines()}
    measured |= {line.rsplit(" | ", 2)[0] + " |" for line in measured}
    page = (ROOT / "docs" / "explanation" / "peers.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and " of " in line and " %)" in line]
    assert len(rows) > 30
    assert [row for row in rows if row not in measured] == []
