"""run_bench.py --list: every case that there is, and where."""

import sys
from pathlib import Path

import pytest
from command_line import RUN_BENCH, run_bench_main
from forked import ONE_FORK, Forked


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    assert run_bench_main(["--list", *arguments]) == 0
    return [line.split("\t") for line in capsys.readouterr().out.splitlines()]


def test_it_lists_every_case_once_with_operator_and_spec(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys)
    assert all(len(row) == 3 for row in rows)
    assert len({tuple(row) for row in rows}) == len(rows)
    catalogue = [[row[0], row[1]] for row in rows if row[2].startswith("operators/") or row[2] == "hostile.json"]
    assert sorted(catalogue) == sorted(row[:2] for row in listed(capsys, "-b", "all"))
    assert {"smoke.json", "conv.json"} <= {row[2] for row in rows}
    assert "all.json" not in {row[2] for row in rows}


@pytest.mark.parametrize(
    ("pattern", "column", "expected_specs"),
    [
        ("nd.linalg.", 1, {"operators/linalg.json"}),
        ("operators/gemm.json", 2, {"operators/gemm.json"}),
        ("dot_plain_*/backward", 0, {"operators/gemm.json"}),
    ],
)
def test_a_pattern_is_looked_for_in_all_three(
    home: Path, capsys: pytest.CaptureFixture[str], pattern: str, column: int, expected_specs: set[str]
) -> None:
    rows = listed(capsys, pattern)
    assert rows
    assert {row[2] for row in rows} == expected_specs
    assert all(pattern.partition("*")[0] in row[column] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--list", "no such", "-b", "smoke"], "nothing matches 'no such'"),
        (["--list", "take", "-b", "smoke", "--operators", "exp"], "nothing matches 'take'"),
        (["--list", "--category", "unray"], "has no category 'unray': use "),
        (["--list", "--suite", "."], "the benchmarks of a --suite are known only once builds are measured"),
        (["--list", "--calibrate"], "--list: does nothing else: leave --calibrate out"),
    ],
)
def test_bad_usage(home: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], words: str) -> None:
    assert run_bench_main(arguments) == 2
    assert words in caplog.text


def test_a_reader_that_leaves_is_no_error() -> None:
    """The list is longer than a pipe holds."""
    with Forked([sys.executable, RUN_BENCH, "--list", "-b", "scipy/distributions"], first=ONE_FORK) as process:
        assert process.stdout is not None
        assert process.stdout.readline().count("\t") == 2
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == ("", 0)
