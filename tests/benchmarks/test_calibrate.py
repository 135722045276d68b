"""benchmarks/calibrate.py: which runs it makes, and which it takes from the file; harness.py is a stand-in here."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fake_harness import BUILD, FakeHarness, call, report

from benchmarks import calibrate
from opduel.driver.builds import BuildCache
from opduel.records import Build


def test_only_missing_runs_are_made_and_the_table_is_of_all(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path) == 0
    assert len(harness.commands) == 4
    table = capsys.readouterr().out
    plain, slowed = [line for line in table.splitlines() if line.startswith(("| nothing", "| 5 %"))]
    assert [cell.strip() for cell in plain.strip("|").split("|")] == [
        "nothing", "2 %", "2", "4", "", "", "2 of 4, 50 % (6.76 to 93.2 %)",
        "2 of 4, 50 % (6.76 to 93.2 %)", "0 of 4, 0 % (0 to 60.2 %)", "5", "10 (10 to 10)", "50 %",
    ]  # fmt: skip
    assert "2 of 2, 100 % (15.8 to 100 %)" in slowed
    assert call(tmp_path) == 0
    assert call(tmp_path, "--runs", "3", "--table") == 0
    assert len(harness.commands) == 4
    assert call(tmp_path, "--runs", "3", "--minutes", "0") == 3
    assert len(harness.commands) == 4
    assert call(tmp_path, "--runs", "3") == 0
    assert len(harness.commands) == 6


def test_each_run_is_harness_on_one_build_with_its_own_seed_beside_a_load(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = ("--loads", "quiet", "steady")
    assert call(tmp_path, "--runs", "1", "--sample", "7", *loads, "--", "--max_rounds", "5") == 0
    for command in harness.commands:
        assert command[1].endswith("harness.py")
        assert command[-2:] == ["--max_rounds", "5"]
        for option, value in (("--control", BUILD.requested), ("--treatment", BUILD.requested), ("--sample", "7")):
            assert command[command.index(option) + 1] == value
    assert len({command[command.index("--seed") + 1] for command in harness.commands}) == 4
    assert Counter("--inject" in command for command in harness.commands) == {True: 2, False: 2}
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Load: ")] == ["Load: quiet", "Load: steady"]


def test_rows_and_loads_take_turns_and_a_run_keeps_its_seed_in_another_plan() -> None:
    rows = [(0.0, 0.02), (0.0, 0.02), (0.05, 0.02), (0.02, 0.005)]
    planned = calibrate.plan_runs(rows, ["quiet", "steady"], runs=20, base=1)
    expected = sorted((*row, load) for row in rows for load in ("quiet", "steady"))
    for number in range(20):
        turn = planned[8 * number : 8 * number + 8]
        assert sorted((run.inject, run.threshold, run.load) for run in turn) == expected
    assert len({run.name for run in planned}) == len({calibrate.seed_of(run, 1) for run in planned}) == 160
    assert set(planned) > set(calibrate.plan_runs(rows[:1], ["quiet"], 5, base=1))


def test_a_run_that_was_aborted_is_made_again(harness: FakeHarness, tmp_path: Path) -> None:
    harness.answer = lambda inject, threshold: report(inject, threshold, aborted=bool(inject), complete=not inject)
    harness.code = 3
    assert call(tmp_path) == 3
    harness.answer = report
    harness.commands.clear()
    assert call(tmp_path) == 0
    assert ["--inject" in command for command in harness.commands] == [True, True]


def test_three_runs_without_a_result_end_it_and_wrong_usage_at_once(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.answer, harness.code, harness.message = lambda *_: None, 3, "harness.py: error: no memory\n"
    assert call(tmp_path) == 3
    assert len(harness.commands) == calibrate.MOST_FAILURES
    assert "no result: harness.py: error: no memory" in capsys.readouterr().err
    harness.commands.clear()
    harness.code = 2
    assert call(tmp_path) == 2
    assert len(harness.commands) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "5%"], "write 5%:2%"),
        (["--plan", "5%:200%"], "is not a share"),
        (["--table", "--build", "mxnet==1.8.0.post0"], "give another file"),
        (["--table", "--spec", "smoke"], "give another file"),
        (["--table", "--", "--threads", "2"], "give another file"),
        (["--table", "--data", "/dev/null"], "holds no run of the plan"),
    ],
)
def test_wrong_usage_and_results_of_something_else_are_one_line(
    harness: FakeHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], message: str
) -> None:
    assert call(tmp_path) == 0
    assert call(tmp_path, *arguments) == 2
    assert message in caplog.messages[-1]
    assert len(harness.commands) == 4


def test_two_installations_are_environments_at_two_paths(
    harness: FakeHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(request: str, _: object, cache: BuildCache) -> Build:
        return replace(BUILD, requested=request, directory=str(cache.directory / request))

    monkeypatch.setattr(calibrate, "resolve_build", resolve)
    monkeypatch.setenv("UV_LINK_MODE", "hardlink")
    assert call(tmp_path, "--installations", str(tmp_path / "second")) == 0
    sides = {
        (command[command.index("--control") + 1], command[command.index("--treatment") + 1])
        for command in harness.commands
    }
    assert sides == {(str(BuildCache().directory / BUILD.requested), str(tmp_path / "second" / BUILD.requested))}
    assert "mxnet==1.9.1 against a second installation, calibration" in capsys.readouterr().out
    assert call(tmp_path, "--table") == 2  # the results are of two installations
