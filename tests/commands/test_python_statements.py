"""opduel compare BUILD BUILD -s SETUP STATEMENT...: lines of Python as cases, on real interpreters."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import ANYWAY, ROOT, Outcome, fresh_logging, run_process
from plain_package import SLOWER, PlainPackage

from opduel.commands.opduel import main
from opduel.harness.rounds import pair

BUILDS = (sys.executable, sys.executable)
SETUP = "x = np.arange(1000.0); count = 0\nasync def f(): pass"
ROUNDS = ("--max_rounds", "2", "--sentinels", "0")
STATEMENTS = (
    *("np.sort(x)", "count += 1\nassert count > 0", "for i in range(3): math.sqrt(i)"),
    *("[][3]", "f()", "xml.dom.pulldom.START_ELEMENT"),
)


Run = Callable[..., Outcome]


@pytest.fixture
def compare(opduel: Run) -> Run:
    return partial(opduel, "compare")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of one run; builds are named by an option and by position."""
    folder = tmp_path_factory.mktemp("report")
    words = ("--control", *BUILDS, "-s", SETUP, *STATEMENTS)
    with fresh_logging(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair, "MOST_FORKS", 1)
        main(["compare", *words, *ROUNDS, "--simple_local_reporter", str(folder), *ANYWAY])
    document: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return document


def test_statements_are_cases_named_by_their_text(report: dict[str, Any]) -> None:
    """The setup is run once in each process, and names that nothing defines are modules, by the names people use."""
    reasons = {comparison["case"]: (comparison["failure"] or {}).get("reason") for comparison in report["comparisons"]}
    assert reasons == {
        "np.sort(x)": None,
        "count += 1 assert count > 0": None,
        "for i in range(3): math.sqrt(i)": None,
        "xml.dom.pulldom.START_ELEMENT": None,  # which nothing has imported
        "[][3]": "IndexError: list index out of range",
        "f()": "ValueError: makes a coroutine, of which nothing is executed: write asyncio.run(...)",
    }


def test_the_report_keeps_builds_setup_and_statements_as_they_were_given(report: dict[str, Any]) -> None:
    configuration = report["run"]["configuration"]
    assert (configuration["setup"], configuration["statement"]) == (SETUP, list(STATEMENTS))
    assert [report["control"]["requested"], report["treatment"]["requested"]] == list(BUILDS)
    assert STATEMENTS[0] in " ".join(report["run"]["command"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["np.sort(x"], "--statement np.sort(x: is no Python code ('(' was never closed)"),
        (["-s", "x = = 1", "x"], "--setup x = = 1: is no Python code (invalid syntax)"),
        (["# nothing"], "--statement # nothing: has nothing to execute"),
        (["1 + 1", "--metric", "error"], "--metric error: a statement has no outputs to compare"),
        (["1 + 1", "1  + 1"], "--statement 1 + 1: stands twice, but for white space"),
        (["1 + 1", "-b", "conv"], "--benchmark_file: is not for --statement"),
        (["-s", "x = 1", "-b", "conv"], "--setup: belongs to statements"),
    ],
)
def test_bad_code_and_what_does_not_go_with_it_is_wrong_usage(compare: Run, words: list[str], message: str) -> None:
    assert message in compare(*BUILDS, *words).error_line()


def test_a_name_that_neither_build_has_is_wrong_usage(compare: Run) -> None:
    reason = "AttributeError: module 'numpy' has no attribute 'srot'"
    line = compare(*BUILDS, "-s", SETUP, "np.sort(x)", "np.srot(x)").error_line()
    assert f"--statement np.srot(x): neither build can execute it: {reason}" in line


def test_a_line_in_a_builds_place_is_told_so(compare: Run) -> None:
    assert "np.sort(x): is in a build's place" in compare(BUILDS[0], "np.sort(x)").error_line()


@pytest.mark.nightly
def test_a_commit_against_the_work_tree(tmp_path: Path) -> None:
    package = PlainPackage(tmp_path / "checkout")
    package.write("src/smoother/__init__.py", SLOWER)
    words = ("HEAD", ".", "smoother.smooth(x)", "-s", "x = range(100)", "--simple_local_reporter", str(tmp_path))
    environment = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "opduel", "compare", *words, "--time_budget", "60", *ANYWAY]
    outcome = run_process(command, environment, package.folder)
    assert outcome.code == 1, outcome.err
    report = json.loads((tmp_path / "report.json").read_text())
    assert [comparison["verdict"] for comparison in report["comparisons"]] == ["regressed"]
    assert report["control"]["commit"]["id"] == package.git("rev-parse", "HEAD")
    assert report["treatment"]["commit"]["subject"] == "uncommitted changes on main"
