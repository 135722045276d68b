"""opduel run COMMAND COMMAND: two command lines against each other, in the user's folder."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from command_line import ANYWAY, Outcome

Run = Callable[..., Outcome]
ROUNDS = ("--max_rounds", "2", "--sentinels", "0")


@pytest.fixture
def run(opduel: Run, one_fork: None, home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call it in the user's folder."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    return partial(opduel, "run")


def test_two_commands_are_compared_with_what_is_around_each_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("7\n")
    slow, fast = 'sh -c "read n; test -e there; sleep 0.03; exit $n"', 'sh -c "read n; test -e there; exit $n"'
    around = (
        *ROUNDS,
        "-p",
        "touch there",
        "--cleanup",
        "rm there",
        "--input",
        "input",
        "--ignore-failure",
    )
    outcome = run(*around, "--simple_local_reporter", "report", *ANYWAY, fast, slow)
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert outcome.code in (0, 1, 3), outcome.err
    assert [report["control"]["requested"], report["treatment"]["requested"]] == [fast, slow]
    (comparison,) = report["comparisons"]
    assert comparison["failure"] is None
    assert comparison["ratio"] > 2
    assert not (tmp_path / "there").exists()


def test_each_value_of_a_parameter_is_a_case_in_both_commands(run: Run, tmp_path: Path) -> None:
    command = 'sh -c "test {word} = $(cat there) && sleep 0.0{n}"'
    parameters = ("-P", "n", "1", "3", "-D", "2", "-L", "word", "a,b", "-p", 'sh -c "echo {word} > there"')
    outcome = run(
        *parameters, *ROUNDS, "--simple_local_reporter", "report", *ANYWAY, command, command,
        "--export-json", "times.json",
    )  # fmt: skip
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert outcome.code in (0, 3), outcome.err
    assert [(case["operator"], case["inputs"]["parameters"]) for case in report["cases"]] == [
        ("word=a,n=1", {"word": "a", "n": "1"}),
        ("word=a,n=3", {"word": "a", "n": "3"}),
        ("word=b,n=1", {"word": "b", "n": "1"}),
        ("word=b,n=3", {"word": "b", "n": "3"}),
    ]
    assert [comparison["failure"] for comparison in report["comparisons"]] == [None] * 4
    results = json.loads((tmp_path / "times.json").read_text())["results"]
    assert [result["parameters"]["n"] for result in results] == ["1", "1", "3", "3"] * 2
    assert results[2]["command"] == command.replace("{n}", "3").replace("{word}", "a")


def test_of_one_command_the_first_value_is_compared_with_others(run: Run, tmp_path: Path) -> None:
    outcome = run(
        "-L", "tool", "true,sleep 0.03,no-such-tool", "{tool}", *ROUNDS,
        "--simple_local_reporter", "report", *ANYWAY,
    )  # fmt: skip
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [report["control"]["requested"], report["treatment"]["requested"]] == ["env true", "env {tool}"]
    slower, failed = report["comparisons"]
    assert outcome.code == 1, outcome.err
    assert slower["ratio"] > 2
    assert (failed["operator"], failed["verdict"]) == ("tool=no-such-tool", "failed")
    assert "no-such-tool" in failed["failure"]["reason"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gzip -k big"], "give two commands, each in quotes"),
        (["cat big | wc", "wc big"], "cat big | wc: has '|', and there is no shell: write sh -c"),
        (["ls", "no-such-command -x"], "no-such-command: no such program"),
        (["ls", "ls -l", "-p", "cp a b && rm a"], "--prepare has '&&', and there is no shell"),
        (["ls", "ls -l", "--input", "missing"], "missing"),
        (["ls", "ls -l", "--control", "cat"], "--control: the two commands say what is measured"),
        (["true", "ls", "--style", "full"], "unrecognized arguments: --style; see opduel run --help"),
        (["sleep {n}", "-P", "n", "1"], "-P/--parameter-scan: expected 3 arguments"),
        (["sleep {n}", "sleep 1", "-P", "n", "a", "4"], "--parameter-scan a 4, by 1: give numbers"),
        (["sleep {n}", "sleep 1", "-P", "n", "4", "1"], "--parameter-scan 4 1, by 1: is empty"),
        (["sleep {n}", "sleep 1", "-P", "n", "1", "4", "-D", "0"], "by 0: is empty"),
        (["sleep {n}", "sleep 1", "-P", "n", "1", "9e9"], "more than 1000 combinations"),
        (["sleep 1", "ls", "-L", "n", "1,2"], "parameter n: no command has {n}"),
        (["sleep {n}", "ls", "-D", "2"], "--parameter-step-size: goes with --parameter-scan"),
        (["ls {n}", "ls", "-L", "n", "1,2", "-L", "n", "3"], "two parameters have one name"),
        (["sleep {n}", "-L", "n", "1"], "give two commands, each in quotes"),
        (["sleep {n}", "-L", "n", "1,2", "-p", "rm {n}"], "--prepare rm {n}: has a parameter, so give both"),
    ],
)
def test_what_can_not_be_run_is_wrong_usage(run: Run, words: list[str], message: str) -> None:
    assert message in run(*words).error_line()


def test_a_cache_that_can_not_be_written_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    outcome = run("ls", "ls -l")
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
    assert "internal error" not in outcome.err
