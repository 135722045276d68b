"""A week of commits on the native project: a culprit that was named costs its later commits a benchmark each."""

import json
from pathlib import Path

import pytest
from toy_driver import QUICK, Outcome, Shared, ToyDriver, toy_driver
from toy_project import ToyProject

pytestmark = pytest.mark.nightly  # the rules are in tests/driver/test_known_culprits.py
MUL, ADD = "mul/float64/forward", "add/float64/forward"


@pytest.fixture(scope="module")
def week(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> tuple[ToyDriver, dict[str, str], list[Outcome]]:
    """Four nights: mul gets slower; nothing; mul gets slower again, and add, too; the first of these is taken back.

    The driver, the commits by name, and how each night ended.
    """
    folder = tmp_path_factory.mktemp("week")
    project = ToyProject(folder / "toy")
    driver = toy_driver(folder, project, shared.caches, options=(*QUICK, "--operators", "mul", "--operators", "add"))
    last = folder / "last"
    commits, nights = {}, []
    project.commit("Change 1")
    for name, change in (
        ("slow", {"mul": 1.6}),
        ("quiet", {}),
        ("slower", {"mul": 1.6, "add": 1.6}),
        ("fixed", {"mul": 1 / 1.6}),
    ):
        commits[name] = project.commit(f"The {name} one", slow=change)
        nights.append(driver.run("--regression", "--commit_file", str(last), *notified(driver)))
    return driver, commits, nights


def notified(driver: ToyDriver) -> tuple[str, ...]:
    return "--notify_command", f"tee -a {driver.work.parent / 'notified'}"


def runs(driver: ToyDriver, commit: str) -> list[tuple[str, list[str]]]:
    """Kind and cases of the runs of one night, in order: those of its line, by the journal."""
    rows = driver.journal("SELECT run, text FROM reports ORDER BY rowid")
    reports = [json.loads(text) for run, text in rows if f"..{commit[:12]}/" in run.partition("/regress/")[0] + "/"]
    return [(report["run"]["run_type"], [row["case"] for row in report["comparisons"]]) for report in reports]


def test_the_culprit_is_named_in_its_own_night(week: tuple[ToyDriver, dict[str, str], list[Outcome]]) -> None:
    driver, commits, nights = week
    assert nights[0].code == 1, nights[0].err
    assert f"first bad: {commits['slow'][:12]} " in nights[0].out
    kinds = [kind for kind, _ in runs(driver, commits["slow"])]
    assert kinds[:2] == ["benchmark", "verify"]
    assert set(kinds[2:]) == {"regress"}


def test_the_next_night_costs_a_benchmark_and_says_what_is_known(
    week: tuple[ToyDriver, dict[str, str], list[Outcome]],
) -> None:
    driver, commits, nights = week
    assert [kind for kind, _ in runs(driver, commits["quiet"])] == ["benchmark"], nights[1].err
    assert nights[1].code == 1
    assert f"known, first bad: {commits['slow'][:12]} 2024-01-08 Ada Toymaker: The slow one\n" in nights[1].out
    (line,) = [line for line in nights[1].out.splitlines() if line.startswith(f"  {MUL}: regressed, +")]
    assert line.endswith(" in all: nothing else was investigated")
    document = json.loads(next((driver.work / "culprits").glob(f"*..{commits['quiet'][:12]}-*.json")).read_text())
    assert (document["culprits"], document["attributions"][MUL]["finding"]) == ([], "accounted")
    assert document["known"][0]["bad"][0]["commit"] == commits["slow"]


def test_a_further_regression_is_sought_alone_and_another_case_from_the_beginning(
    week: tuple[ToyDriver, dict[str, str], list[Outcome]],
) -> None:
    driver, commits, nights = week
    assert nights[2].code == 1, nights[2].err
    own_runs = runs(driver, commits["slower"])
    assert own_runs[:2] == [("benchmark", [ADD, MUL]), ("verify", [ADD])]
    assert f"known, first bad: {commits['slow'][:12]} " in nights[2].out
    assert nights[2].out.count(f"\nfirst bad: {commits['slower'][:12]} ") >= 1
    assert "more than known culprits explain: investigated" in nights[2].out
    document = json.loads(next((driver.work / "culprits").glob(f"*..{commits['slower'][:12]}-*.json")).read_text())
    commit_by_case = {
        case: culprit["bad"][0]["commit"] for culprit in document["culprits"] for case in culprit["cases"]
    }
    assert commit_by_case == {ADD: commits["slower"], MUL: commits["slower"]}


def test_what_was_taken_back_is_accounted_for_without_a_further_run(
    week: tuple[ToyDriver, dict[str, str], list[Outcome]],
) -> None:
    driver, commits, nights = week
    assert [kind for kind, _ in runs(driver, commits["fixed"])] == ["benchmark"], nights[3].err
    document = json.loads(next((driver.work / "culprits").glob(f"*..{commits['fixed'][:12]}-*.json")).read_text())
    assert {case: share["finding"] for case, share in document["attributions"].items()} == {
        MUL: "less",
        ADD: "accounted",
    }


def test_each_culprit_is_notified_of_once(week: tuple[ToyDriver, dict[str, str], list[Outcome]]) -> None:
    driver, commits, _ = week
    text = Path(driver.work.parent / "notified").read_text()
    since = [line for line in text.splitlines() if line.startswith("since ")]
    assert sorted(line.split()[1] for line in since) == sorted(commits[name][:12] for name in ("slow", "slower"))
