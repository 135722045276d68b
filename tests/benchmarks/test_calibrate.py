"""benchmarks/calibrate.py: which runs it makes, and which it takes from the file; harness.py is a stand-in here."""

from pathlib import Path

import pytest
from fake_harness import BUILD, FakeHarness, call, report

from benchmarks import calibrate


def test_only_missing_runs_are_made_and_the_table_is_of_all(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path) == 0
    assert len(harness.runs) == 4
    table = capsys.readouterr().out
    plain, slowed = [line for line in table.splitlines() if line.startswith(("| nothing", "| 5 %"))]
    assert [cell.strip() for cell in plain.strip("|").split("|")] == [
        "nothing", "2 %", "2", "4", "", "", "2 of 4, 50 % (6.76 to 93.2 %)",
        "2 of 4, 50 % (6.76 to 93.2 %)", "0 of 4, 0 % (0 to 60.2 %)", "5", "10 (10 to 10)", "50 %",
    ]  # fmt: skip
    assert "2 of 2, 100 % (15.8 to 100 %)" in slowed
    assert call(tmp_path) == 0
    assert call(tmp_path, "--runs", "3", "--table") == 0
    assert len(harness.runs) == 4
    assert call(tmp_path, "--runs", "3") == 0
    assert len(harness.runs) == 6


def test_each_run_is_harness_on_one_build_with_its_own_seed_beside_a_load(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = ("--loads", "quiet", "bursts")
    assert call(tmp_path, "--runs", "1", "--sample", "7", *loads, "--", "--max_rounds", "5") == 0
    build = BUILD.requested
    expected = {"-b": "all", "--control": build, "--treatment": build, "--sample": "7", "--max_rounds": "5"}
    assert all(run.items() >= expected.items() for run in harness.runs)
    assert len({run["--seed"] for run in harness.runs}) == 4
    assert sorted("--inject" in run for run in harness.runs) == [False, False, True, True]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Load: ")] == ["Load: quiet", "Load: bursts"]


def test_rows_and_loads_take_turns_and_a_run_keeps_its_seed_in_another_plan() -> None:
    rows = [(0.0, 0.02), (0.0, 0.02), (0.05, 0.02), (0.02, 0.005)]
    planned = calibrate.plan_runs(rows, ["quiet", "bursts"], runs=20, base=1)
    expected = sorted((*row, load) for row in rows for load in ("quiet", "bursts"))
    for number in range(20):
        turn = planned[8 * number : 8 * number + 8]
        assert sorted((run.inject, run.threshold, run.load) for run in turn) == expected
    assert len({run.name for run in planned}) == len({calibrate.seed_of(run, 1) for run in planned}) == 160
    assert set(planned) > set(calibrate.plan_runs(rows[:1], ["quiet"], 5, base=1))


def test_a_run_without_a_result_is_made_again_and_wrong_usage_ends_it(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.answer = lambda inject, threshold: report(inject, threshold, aborted=bool(inject), complete=not inject)
    harness.exit_code = 3
    assert call(tmp_path) == 3
    assert "no result: harness.py: error: no memory" in capsys.readouterr().err
    harness.answer, harness.exit_code = lambda *_: None, 2
    harness.runs.clear()
    assert call(tmp_path) == 2
    assert len(harness.runs) == 1
    harness.answer, harness.exit_code = report, 0
    harness.runs.clear()
    assert call(tmp_path) == 0
    assert ["--inject" in run for run in harness.runs] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "5%"], "write 5%:2%"),
        (["--plan", "5%:200%"], "is not a share"),
        (["--table", "--installations"], "give another file"),
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
    assert len(harness.runs) == 4
