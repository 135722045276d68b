"""benchmarks/peers.py: its table, and what it refuses."""

import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

from forked import Forked

from benchmarks.bench import ROOT
from benchmarks.peer_tools.results import Result, markdown, read_results

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


def test_the_table_counts_false_flags_detections_and_wrong_directions() -> None:
    results = [RESULT, replace(RESULT, session=1, seconds=24.0), replace(RESULT, settings="9 s")]
    assert markdown(results, 0.05).splitlines() == [
        "| rule | false flags of A/A | found of +5 % | called faster though slowed | failed | s a case |",
        "| --- | --- | --- | --- | --- | --- |",
        "| tango | 2 of 6 (4.3 to 77.7 %) | 2 of 4 (6.8 to 93.2 %) | 2 | 2 | 3.0 |",
        "| tango | 1 of 3 (0.8 to 90.6 %) | 1 of 2 (1.3 to 98.7 %) | 1 | 1 | 2.0 |",
    ]
    assert markdown([replace(RESULT, share=0.0)], 0.0).splitlines()[-1] == (
        "| tango | 3 of 5 (14.7 to 94.7 %) | 0 | 1 | 2.0 |"
    )


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    for arguments, words in (("--tools=naive,stopwatch", "stopwatch"), ("--table", "holds no result")):
        code, _, err = peers("--data", str(tmp_path / "data.jsonl"), arguments)
        assert code == 2
        assert words in err
        assert len(err.splitlines()) == 1


def test_spec_load_and_slowdown_have_tables_of_their_own(tmp_path: Path) -> None:
    results = [RESULT, replace(RESULT, load="bursts"), replace(RESULT, share=0.01)]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(f"{json.dumps(asdict(result))}\n" for result in results))
    assert read_results(path) == results
    assert len({result.key for result in results}) == 3
    code, out, err = peers("--table", "--data", str(path))
    assert code == 0, err
    assert [line for line in out.splitlines() if line.startswith("Spec")] == [
        "Spec: smoke, load: quiet, 6 cases a session, half slowed by 5 %",
        "Spec: smoke, load: quiet, 6 cases a session, half slowed by 1 %",
        "Spec: smoke, load: bursts, 6 cases a session, half slowed by 5 %",
    ]


def test_the_page_has_the_rows_of_the_raw_results() -> None:
    results = sorted((ROOT / "benchmarks" / "results").glob("peers*.jsonl"))
    outputs = [peers("--table", "--data", str(path)) for path in results]
    assert [code for code, _, _ in outputs] == [0] * len(outputs)
    printed = {line for _, out, _ in outputs for line in out.splitlines()}
    page = (ROOT / "docs" / "explanation" / "peers.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and " of " in line and " %)" in line]
    assert rows
    assert [row for row in rows if row not in printed] == []


def test_the_short_table_has_the_counts_of_the_raw_results() -> None:
    """Each cell has the false flags and the slowed cases that were found, of one slowdown and load."""
    page = (ROOT / "docs" / "explanation" / "peers.md").read_text(encoding="utf-8")
    table = page.partition("| rule: false flags, found |")[2].partition("\n\n")[0].splitlines()[2:]
    sections = [("2 %", "quiet", "0.5 %"), ("1 %", "quiet", "0.25 %"), ("5 %", "bursts", "2 %")]
    _, out, _ = peers("--table")
    counts: dict[tuple[str, str], str] = {}
    for section in out.split("Spec: ")[1:]:
        title, *lines = section.splitlines()
        for line in lines:
            if cells := re.match(r"\| (.*?) \| (\d+) of \d+ \(.*?\) \| (\d+) of ", line):
                counts[title, cells[1]] = f"{cells[2]}, {cells[3]}"
    assert len(table) == 7
    for row in table:
        rule, *cells = row.strip("| ").split(" | ")
        for (slowdown, load, minimum), cell in zip(sections, cells, strict=True):
            least = "1 %" if rule.startswith("tango") and minimum == "2 %" else minimum
            name = rule.replace("and the minimum change", f"and {'beyond' if 'naive' in rule else '>'} {least}")
            assert counts[f"all, load: {load}, 40 cases a session, half slowed by {slowdown}", name] == cell, row
