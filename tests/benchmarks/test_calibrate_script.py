"""benchmarks/calibrate.py: which runs are made, and which are kept; harness.py is a stand-in here."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from made_calibration import BUILD, Harness, call, report

from benchmarks import calibrate
from benchmarks.calibration_data import read
from opduel.comparator.calibration import Rate
from opduel.driver.builds import BuildCache
from opduel.records import Build, Report
from opduel.records.measurement import SIDES


def test_only_missing_runs_are_made_and_the_table_is_of_all(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path) == 0
    assert len(harness.commands) == 4
    table = capsys.readouterr().out
    plain, slowed = [line for line in table.splitlines() if line.startswith(("| nothing", "| 5 %"))]
    assert [cell.strip() for cell in plain.strip("|").split("|")] == [
        "nothing", "2 %", "2", "4", "", "", "2 of 4, 50 % (6.76 to 93.2 %)", "1 (0.12 to 3.6)",
        "2 of 4, 50 % (6.76 to 93.2 %)", "0 of 4, 0 % (0 to 60.2 %)", "5", "10 (10 to 10)", "10", "50 %",
    ]  # fmt: skip
    assert "2 of 2, 100 % (15.8 to 100 %)" in slowed
    assert call(tmp_path) == 0
    assert call(tmp_path, "--runs", "3", "--table") == 0
    assert len(harness.commands) == 4
    assert call(tmp_path, "--runs", "3") == 0
    assert len(harness.commands) == 6


def test_each_run_is_harness_on_one_build_with_a_seed_of_its_own(harness: Harness, tmp_path: Path) -> None:
    harness.answer = lambda inject, threshold: report(
        inject, threshold, max_rounds=5, configuration={"max_rounds": 5, "inject": inject}
    )
    call(tmp_path, "--", "--max_rounds", "5")
    for command in harness.commands:
        assert command[1].endswith("harness.py")
        assert command[-2:] == ["--max_rounds", "5"]
        assert [command[command.index(f"--{side}") + 1] for side in ("control", "treatment")] == [BUILD.requested] * 2
    seeds = {command[command.index("--seed") + 1] for command in harness.commands}
    assert len(seeds) == 4
    call(tmp_path, "--runs", "3", "--", "--max_rounds", "5")
    kept = read(tmp_path / "data.jsonl")
    assert [trial.report.configuration.max_rounds for trial in kept] == [5] * 6
    assert sorted(trial.report.configuration.inject for trial in kept) == [0.0, 0.0, 0.0, 0.05, 0.05, 0.05]
    assert Counter("--inject" in command for command in harness.commands) == {True: 3, False: 3}


def test_runs_of_other_rounds_at_the_same_threshold_need_another_file(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call(tmp_path)
    harness.answer = lambda inject, threshold: report(inject, threshold, max_rounds=50)
    assert call(tmp_path, "--runs", "3") == 2  # they are kept, and not counted
    assert call(tmp_path, "--runs", "4") == 2
    words = "data.jsonl: has runs with --max_rounds 30 and 50 at the threshold 0.02: keep them in two files"
    assert [words in message for message in caplog.messages] == [True, True]
    assert len(harness.commands) == 6


def test_rows_and_loads_take_turns_and_a_run_keeps_its_seed_in_another_plan() -> None:
    rows = [(0.0, 0.02), (0.0, 0.02), (0.05, 0.02), (0.02, 0.005)]
    steps = calibrate.plan_steps(rows, ["quiet", "steady"], runs=20, base=1)
    expected = sorted((*row, load) for row in rows for load in ("quiet", "steady"))
    for number in range(20):
        turn = steps[8 * number : 8 * number + 8]
        assert sorted((step.inject, step.threshold, step.load) for step in turn) == expected
    assert len({step.name for step in steps}) == len({calibrate.seed_of(step, 1) for step in steps}) == 160
    assert set(steps) > set(calibrate.plan_steps(rows[:1], ["quiet"], 5, base=1))


def test_runs_of_a_sample_are_of_a_load_and_no_run_begins_too_late(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "--sample", "7", "--loads", "quiet", "steady", "--minutes", "0") == 2
    assert not harness.commands
    assert call(tmp_path, "--sample", "7", "--loads", "quiet", "steady", "--runs", "1") == 0
    assert [command[command.index("--sample") + 1] for command in harness.commands] == ["7"] * 4
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("Load: ")] == ["Load: quiet", "Load: steady"]


def test_a_run_that_was_aborted_is_made_again(harness: Harness, tmp_path: Path) -> None:
    harness.answer = lambda inject, threshold: report(inject, threshold, aborted=bool(inject), complete=not inject)
    harness.code = 3
    assert call(tmp_path) == 3
    harness.answer = report
    harness.commands.clear()
    assert call(tmp_path) == 0
    assert ["--inject" in command for command in harness.commands] == [True, True]


def test_a_run_held_back_counts_as_what_it_is(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.code = 3
    harness.answer = lambda inject, threshold: report(inject, threshold, validity={"valid": False, "reasons": ["busy"]})
    assert call(tmp_path) == 0
    assert "runs held back: 4" in capsys.readouterr().out


def test_runs_without_a_result_end_it_and_wrong_usage_at_once(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.answer, harness.code, harness.words = lambda *_: None, 3, "harness.py: error: no memory\n"
    assert call(tmp_path) == 3
    assert len(harness.commands) == calibrate.FAILED_RUNS
    assert "no result: harness.py: error: no memory" in capsys.readouterr().err
    harness.commands.clear()
    harness.code = 2
    assert call(tmp_path) == 2
    assert len(harness.commands) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--table"], "holds no run of the plan"),
        (["--plan", "5%"], "write 5%:2%"),
        (["--plan", "5%:200%"], "is not a share"),
        (["--runs", "0"], "--runs"),
        (["--suite", "/suite"], "--spec"),
    ],
)
def test_wrong_usage_is_one_line(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], words: str
) -> None:
    assert call(tmp_path, *arguments) == 2
    assert words in caplog.messages[-1]
    assert not harness.commands


def of_suite(digest: str) -> Callable[[float, float], Report]:
    """What the stand-in reports when it is given a suite, of whose files this is the digest, in place of a spec."""
    suite = {"requested": "/suite", "commit": "c" * 40, "digest": digest}
    return lambda inject, threshold: report(inject, threshold, spec="numpy", suite=suite)


def test_a_suite_in_place_of_a_spec(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    arguments = ["--suite", "/suite@v1", "--data", str(tmp_path / "suite.jsonl"), "--plan", "0:2%", "5%:2%"]
    harness.answer = of_suite("a" * 64)
    assert calibrate.main([*arguments, "--runs", "1"]) == 0
    assert [harness.option("--suite"), "-b" in harness.commands[-1]] == ["/suite@v1", False]
    assert "mxnet==1.9.1 against itself, numpy's suite, aaaaaaaaaaaa, on a CPU, 2 CPUs" in capsys.readouterr().out
    assert calibrate.main([*arguments, "--runs", "1"]) == 0
    assert len(harness.commands) == 2
    harness.answer = of_suite("d" * 64)  # other files at the same commit: another folder, or changed
    assert calibrate.main([*arguments, "--runs", "2"]) == 2
    assert "is of mxnet==1.9.1 numpy's suite, dddddddddddd: give another file" in caplog.messages[-1]
    assert call(tmp_path, "--data", str(tmp_path / "suite.jsonl"), "--table") == 2
    harness.answer = report
    assert call(tmp_path) == 0
    assert calibrate.main([*arguments, "--data", str(tmp_path / "data.jsonl"), "--table"]) == 2
    assert ["give another file" in message for message in caplog.messages[-2:]] == [True, True]


def test_a_suites_draws_are_not_a_specs(harness: Harness, tmp_path: Path) -> None:
    """Their runs have the same seeds."""
    call(tmp_path)
    harness.answer = of_suite("a" * 64)
    suite = tmp_path / "suite.jsonl"
    assert calibrate.main(["--suite", "/suite", "--data", str(suite), "--plan", "0:2%", "5%:2%", "--runs", "2"]) == 0
    assert {one.report.run.seed for one in read(suite)} == {
        one.report.run.seed for one in read(tmp_path / "data.jsonl")
    }
    assert call(tmp_path, "--short", "--without", str(suite)) == 0
    assert call(tmp_path, "--short", "--without", str(tmp_path / "data.jsonl")) == 2


def test_a_line_that_was_cut_off_is_made_again(harness: Harness, tmp_path: Path) -> None:
    call(tmp_path)
    data = tmp_path / "data.jsonl"
    whole = data.read_text()
    data.write_text(whole[:-20])
    harness.commands.clear()
    assert call(tmp_path) == 0
    assert len(harness.commands) == 1
    assert len(read(data)) == 4
    assert data.read_text().count("\n") == 4


def test_another_builds_reports_are_not_taken(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call(tmp_path)
    assert call(tmp_path, "--table", "--build", "mxnet==1.8.0.post0") == 2
    assert call(tmp_path, "--table", "--spec", "smoke") == 2
    assert call(tmp_path, "--table", "--", "--threads", "2") == 2
    assert ["give another file" in message for message in caplog.messages] == [True, True, True]


def test_two_installations_are_environments_at_two_paths_with_data_of_their_own(
    harness: Harness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def resolve(request: str, _: object, cache: BuildCache) -> Build:
        return dataclasses.replace(BUILD, requested=request, directory=str(cache.directory / request))

    monkeypatch.setattr(calibrate, "resolve_build", resolve)
    monkeypatch.setenv("UV_LINK_MODE", "hardlink")
    assert call(tmp_path, "--installations", str(tmp_path / "second")) == 0
    sides = {tuple(command[command.index(f"--{side}") + 1] for side in SIDES) for command in harness.commands}
    assert sides == {(str(BuildCache().directory / BUILD.requested), str(tmp_path / "second" / BUILD.requested))}
    assert "mxnet==1.9.1 against a second installation, calibration" in capsys.readouterr().out
    assert call(tmp_path, "--table") == 2
    assert "is of mxnet==1.9.1, installed twice" in caplog.messages[-1]
    assert calibrate.main(["--installations", "--suite", "/suite"]) == 2
    assert "--installations: is for a spec" in caplog.messages[-1]


def test_a_line_of_another_kind_is_named(harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    call(tmp_path)
    with (tmp_path / "data.jsonl").open("a") as stream:
        stream.write("{}\n")
    assert call(tmp_path, "--table") == 2
    assert "line 5 is no run of calibrate.py" in caplog.messages[-1]


def test_the_figure_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    from benchmarks.calibration_figure import draw

    rows = calibrate.evaluate([report(0, 0.02), report(0.05, 0.02), report(0.02, 0.005), report(0, 0.01)])
    for name in ("a.svg", "b.svg"):
        draw(rows, tmp_path / name)
    first = (tmp_path / "a.svg").read_bytes()
    assert first == (tmp_path / "b.svg").read_bytes()
    assert b"injected slowdowns found" in first
    assert b"<dc:date>" not in first
    draw([dataclasses.replace(row, found=Rate(0, 0)) for row in rows], tmp_path / "plain.svg")
    assert (tmp_path / "plain.svg").read_bytes() != first


def test_help_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        calibrate.main(["--help"])
    assert ended.value.code == 0
    assert "5%:2%" in capsys.readouterr().out
