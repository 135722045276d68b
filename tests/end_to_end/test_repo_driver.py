"""repo_driver.py from a git remote to a culprit: a native project, through real git, CMake, Ninja and ccache."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from faulty_server import TOKEN, ResultsServer, refusal
from toy_driver import Outcome, Shared, ToyDriver, toy_driver, verdicts, wait_for

MUL = "mul/float64/forward"


@pytest.fixture(scope="module")
def traced(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, ToyDriver]:
    """A whole campaign on main: its control is the first commit of the week.

    In caches of its own: a bisection prefers commits whose builds are there, and would pass by the broken one.
    """
    driver = toy_driver(tmp_path_factory.mktemp("traced"), shared.project)
    return driver.run("--regression", "--commit_file", str(driver.work / "last"), *notifying(driver)), driver


def notifying(driver: ToyDriver) -> tuple[str, ...]:
    """Options by which all that is notified gets into a file."""
    return "--notify_command", f"tee -a {driver.work / 'notified'}"


def test_a_slow_commit_is_named(traced: tuple[Outcome, ToyDriver], shared: Shared) -> None:
    outcome, driver = traced
    assert outcome.code == 1, outcome.err
    assert f"first bad: {shared.slow[:12]} 2024-01-08 Ada Toymaker: Check every product twice\n" in outcome.out
    assert f"  {MUL}: regressed, +" in outcome.out
    (path,) = (driver.work / "culprits").glob("*.json")
    assert f"culprits: {path}\n" in outcome.out
    document = json.loads(path.read_text())
    assert document["confirmed"] == [MUL]
    (culprit,) = document["culprits"]
    assert culprit["named"] is True
    (bad,) = culprit["bad"]
    assert (bad["commit"], bad["subject"]) == (shared.slow, "Check every product twice")
    assert bad["author"] == "Ada Toymaker <ada@toy.example>"
    assert culprit["cases"][MUL]["verdict"] == "regressed"
    assert culprit["cases"][MUL]["ci"][0] > 1.15


def test_every_run_is_reported_with_its_kind(traced: tuple[Outcome, ToyDriver]) -> None:
    _, driver = traced
    reports = driver.reports()
    kinds = [report["run"]["run_type"] for report in reports]
    assert kinds[:3] == ["benchmark", "verify", "regress"]
    assert set(kinds[3:]) <= {"regress"}
    assert verdicts(reports[0])[MUL] == verdicts(reports[1])[MUL] == "regressed"
    assert [verdicts(reports[0])[f"{name}/float64/forward"] for name in ("add", "sum")] == ["unchanged"] * 2
    assert all(set(verdicts(report)) == {MUL} for report in reports[1:])
    assert len({report["run"]["id"] for report in reports}) == len(reports) == len(delivered_runs(driver))
    assert {report["treatment"]["strategy"] for report in reports} == {"source"}


def test_a_commit_that_does_not_compile_is_passed_over(traced: tuple[Outcome, ToyDriver], shared: Shared) -> None:
    _, driver = traced
    events = driver.journal("SELECT text FROM events WHERE kind = 'unbuildable'")
    assert len(events) == 1
    assert events[0][0].startswith(f"{shared.broken[:12]} can't be built: ")
    assert "#error broken on purpose" in events[0][0]
    measured = {report[side]["requested"] for report in driver.reports() for side in ("control", "treatment")}
    assert shared.broken[:12] not in measured


def test_the_same_command_again_measures_nothing_and_says_the_same(
    traced: tuple[Outcome, ToyDriver], shared: Shared
) -> None:
    outcome, driver = traced
    before = driver.reports()
    # Without the commit file, by which there is nothing left to do.
    again = driver.run("--regression", *notifying(driver))
    assert (again.code, again.out) == (1, outcome.out)
    assert driver.reports() == before
    assert (driver.work / "notified").read_text().count("opduel: 1 case regressed\n") == 1


def test_the_culprit_is_notified_of_with_its_figures(traced: tuple[Outcome, ToyDriver], shared: Shared) -> None:
    _, driver = traced
    lines = (driver.work / "notified").read_text().splitlines()
    assert lines[:3] == [
        "opduel: 1 case regressed",
        "",
        f"since {shared.slow[:12]} 2024-01-08 Ada Toymaker: Check every product twice",
    ]
    assert lines[3].startswith(f"  {MUL}  +")
    (path,) = (driver.work / "culprits").glob("*.json")
    verification = driver.reports()[1]["run"]
    places = [line.removeprefix("report     ") for line in lines if line.startswith("report ")]
    assert json.loads(Path(places[0]).read_text())["run"]["id"] == verification["id"]
    assert places[1:] == [str(path)]


def test_the_commit_file_ends_it(traced: tuple[Outcome, ToyDriver], shared: Shared) -> None:
    _, driver = traced
    last = driver.work / "last"
    assert last.read_text() == f"{driver.project.id_of('main')}\n"
    again = driver.run("--regression", "--commit_file", str(last))
    assert (again.code, again.out) == (0, "")


def test_the_builds_described_by_the_driver_are_understood_by_the_harness(traced: tuple[Outcome, ToyDriver]) -> None:
    _, driver = traced
    (info,) = (driver.work / "info").glob("*.json")
    described = json.loads(info.read_text())
    assert [culprit["commit"] for culprit in described["regression_commits"]] == [
        json.loads(next((driver.work / "culprits").glob("*.json")).read_text())["culprits"][0]["bad"][0]["commit"]
    ]
    folder = driver.work / "by_info"
    spec = str(driver.specifications / "toy.json")
    options = ["--operators", "mul", "--max_rounds", "2", "--sentinels", "0", "--busy_host", "report"]
    outcome = driver.run_other(
        "harness", "-b", spec, "--info", str(info), *options, "--simple_local_reporter", str(folder)
    )
    assert outcome.code in (0, 1, 3), outcome.err  # 3: two rounds may be too few for a verdict
    report = json.loads((folder / "report.json").read_text())
    for side in ("control", "treatment"):
        assert report[side]["commit"]["id"] == described[side]["commit"]
        assert report[side]["interpreter"] == described[side]["program"]


def test_a_run_of_the_harness_that_was_killed_goes_on_where_it_was(
    traced: tuple[Outcome, ToyDriver], tmp_path: Path
) -> None:
    _, driver = traced
    (info,) = (driver.work / "info").glob("*.json")
    rounds, reports = tmp_path / "rounds", tmp_path / "reports"
    options = ["-b", str(driver.specifications / "toy.json"), "--info", str(info), "--operators", "add"]
    options += ["--threshold", "0.1%", "--sentinels", "0", "--busy_host", "report", "--max_rounds", "30"]
    options += ["--round_log", str(rounds), "--simple_local_reporter", str(reports)]
    with (
        Path(os.devnull).open("w") as quiet,
        driver.fork(driver.launch("harness", *options), stdout=quiet, stderr=quiet) as process,
    ):
        wait_for(lambda: rounds.exists() and rounds.read_bytes().count(b'"kind": "round"') >= 2, process)
        process.kill()
    round_count = rounds.read_bytes().count(b'"kind": "round"')
    outcome = driver.run_other("harness", *options)
    assert outcome.code in (0, 1, 3), outcome.err  # 3: at so low a threshold there may be no verdict
    (path,) = reports.rglob("report.json")
    run = json.loads(path.read_text())["run"]
    assert len(run["resumed"]) == 1
    assert run["rounds"] > round_count
    assert run["complete"]
    assert not rounds.exists()


def test_builds_that_are_paths_need_no_data_of_the_framework(traced: tuple[Outcome, ToyDriver], tmp_path: Path) -> None:
    """A plug-in that has just been begun has no releases.yaml, and an adaptor of two functions."""
    _, driver = traced
    bare = tmp_path / "specifications"
    bare.mkdir()
    spec = bare / "toy.json"
    spec.write_bytes((driver.specifications / "toy.json").read_bytes())
    alone = replace(driver, specifications=bare)
    described = json.loads(next((driver.work / "info").glob("*.json")).read_text())
    sides = [word for side in ("control", "treatment") for word in (f"--{side}", described[side]["program"])]
    options = ["-b", str(spec), "--operators", "mul", "--max_rounds", "2", "--sentinels", "0", "--busy_host", "report"]
    outcome = alone.run_other("harness", *options, *sides, "--simple_local_reporter", str(tmp_path))
    assert outcome.code in (0, 1, 3), outcome.err  # 3: two rounds may be too few for a verdict
    assert json.loads((tmp_path / "report.json").read_text())["comparisons"][0]["rounds"]
    for metric, function in (("error", "results(case, seed, folder, limit)"), ("memory", "memory(case, seed, calls)")):
        refused = alone.run_other("harness", *options, *sides, "--metric", metric)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert f"error: --metric {metric}: " in refused.err
        assert f"the adaptor has no function {function}: add it, or leave the option out" in refused.err
    refused = alone.run_other("harness", *options)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--control: toy has no default build: give one" in refused.err


def test_where_nothing_is_slower_nobody_is_named(driver: ToyDriver) -> None:
    outcome = driver.run("--regression", "--branch", "quiet")
    assert (outcome.code, outcome.out) == (0, ""), outcome.err
    (report,) = driver.reports()
    assert set(verdicts(report).values()) == {"unchanged"}
    assert not (driver.work / "culprits").exists()


def test_what_a_server_would_not_have_is_sent_at_the_next_start_though_nothing_is_new(driver: ToyDriver) -> None:
    driver = driver.with_environment(OPDUEL_REMOTE_ACCESS_TOKEN=TOKEN)
    with ResultsServer(refusal(401)) as server:
        command = "--branch", "quiet", "--operators", "add", "--remote_reporter", server.place
        first = driver.run(*command)
        assert "--remote_reporter failed: " in first.err
        assert server.stored == {}
        again = driver.run(*command)
        (report,) = driver.reports()
        assert list(server.stored) == [report["run"]["id"]]
    assert ": 1 that waited\n" in again.err
    assert (first.code, again.code) == (0, 0)


def test_a_dry_run_says_what_it_would_do_and_does_none_of_it(driver: ToyDriver, shared: Shared, tmp_path: Path) -> None:
    nowhere = tmp_path / "no cache"
    outcome = driver.run("--regression", "--dry_run", "--exec_dir", str(nowhere))
    assert outcome.code == 0, outcome.err
    project = shared.project
    assert (
        f"control    {project.first[:12]} 2024-01-08 Ada Toymaker: A toy (the first commit of the week" in outcome.out
    )
    assert f"treatment  {project.id_of('main')[:12]} 2024-01-08 Ada Toymaker: Change 8, 7 between\n" in outcome.out
    assert outcome.out.endswith("1 to measure on 3 cases, then verify and bisect; nothing was built or measured\n")
    assert not list(nowhere.rglob("manifest.json"))
    assert driver.reports() == []
    assert driver.compile_logs() == []


def delivered_runs(driver: ToyDriver) -> list[tuple[str]]:
    return driver.journal("SELECT run FROM reports WHERE run NOT IN (SELECT key FROM outbox WHERE kind = 'run')")
