"""benchmarks/calibrate.py: which runs are made, which are kept, what the table says; harness.py is a stand-in here."""

import dataclasses
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import calibrate
from opduel.comparator.calibration import Rate
from opduel.records import Build, Comparison, Report, Verdict
from opduel.reporters import write_report

BUILD = Build("mxnet", "mxnet==1.9.1", "release", "/python", "1.9.1", "3.11.7", "aa")
NOTHING: dict[str, Any] = dict.fromkeys(("ci", "p_value", "q_value", "mde", "control", "treatment", "decided_on"))
RUN = {"spec": "calibration", "complete": True, "aborted": False, "wall_s": 20.0, "timed_s": 10.0}
HOST = {"cpu_model": "a CPU", "logical_cpus": 2}


def report(inject: float, threshold: float, **run: Any) -> Report:
    """Two cases, one of them slowed and found; a plain run has a false flag."""
    verdicts: list[tuple[Verdict, bool]] = [("regressed", bool(inject)), ("unchanged", False)]
    comparisons = [
        Comparison(f"c{i}", "op", "forward", "time", "ns", verdict, 1.01, threshold=threshold, rounds=5, failure=None,
                   injected=injected, **NOTHING)
        for i, (verdict, injected) in enumerate(verdicts)
    ]  # fmt: skip
    return Report({**RUN, "inject": inject or None, **run}, BUILD, BUILD, HOST, tuple(comparisons))


class Harness:
    """Stands in for the process: notes its command, writes the report that ``answer`` makes of it, if any."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.answer: Callable[[float, float], Report | None] = report
        self.code, self.words = 0, ""

    def __call__(self, command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        self.commands.append(command)
        made = self.answer(float(self.option("--inject", "0")), float(self.option("--threshold")))
        if made:
            path = Path(self.option("--simple_local_reporter")) / "report.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_report(path, made)
        return subprocess.CompletedProcess(command, self.code, "", self.words)

    def option(self, name: str, default: str | None = None) -> str:
        command = self.commands[-1]
        return command[command.index(name) + 1] if name in command or default is None else default


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    made = Harness()
    monkeypatch.setattr(subprocess, "run", made)
    return made


def call(folder: Path, *arguments: str) -> int:
    return calibrate.main(["--folder", str(folder), "--plan", "0:2%", "5%:2%", "--runs", "2", *arguments])


def test_only_missing_runs_are_made_and_the_table_is_of_all(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path) == 0
    assert len(harness.commands) == 4
    table = capsys.readouterr().out
    plain, slowed = [line for line in table.splitlines() if line.startswith(("| nothing", "| 5 %"))]
    assert [cell.strip() for cell in plain.strip("|").split("|")] == [
        "nothing", "2 %", "2", "4", "", "", "2 of 4, 50 % (6.76 to 93.2 %)", "1 (0.12 to 3.6)",
        "2 of 4, 50 % (6.76 to 93.2 %)", "10", "50 %",
    ]  # fmt: skip
    assert "2 of 2, 100 % (15.8 to 100 %)" in slowed
    assert call(tmp_path) == 0
    assert call(tmp_path, "--runs", "3", "--table") == 0
    assert len(harness.commands) == 4
    assert call(tmp_path, "--runs", "3") == 0
    assert len(harness.commands) == 6


def test_each_run_is_harness_on_one_build_with_a_seed_of_its_own(harness: Harness, tmp_path: Path) -> None:
    call(tmp_path, "--", "--max_rounds", "5")
    for command in harness.commands:
        assert command[1].endswith("harness.py")
        assert command[-2:] == ["--max_rounds", "5"]
        assert [command[command.index(f"--{side}") + 1] for side in ("control", "treatment")] == [BUILD.requested] * 2
    seeds = {command[command.index("--seed") + 1] for command in harness.commands}
    assert len(seeds) == 4
    assert Counter("--inject" in command for command in harness.commands) == {True: 2, False: 2}


def test_rows_take_turns_and_a_run_keeps_its_seed_in_another_plan() -> None:
    rows = [(0.0, 0.02), (0.05, 0.02), (0.02, 0.005)]
    steps = calibrate.plan_steps(rows, runs=20, base=1)
    for number in range(20):
        turn = steps[3 * number : 3 * number + 3]
        assert sorted((step.inject, step.threshold) for step in turn) == sorted(rows)
    assert len({(step.inject, step.threshold) for step in steps[::3]}) == 3
    assert {step.seed(1) for step in steps} > {step.seed(1) for step in calibrate.plan_steps(rows[:1], 5, base=1)}
    assert len({step.name for step in steps}) == len({step.seed(1) for step in steps}) == 60


def test_a_run_that_was_broken_off_is_made_again(harness: Harness, tmp_path: Path) -> None:
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
    ],
)
def test_wrong_usage_is_one_line(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], words: str
) -> None:
    assert call(tmp_path, *arguments) == 2
    assert words in caplog.messages[-1]
    assert not harness.commands


def test_another_builds_reports_are_not_taken(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call(tmp_path)
    assert call(tmp_path, "--table", "--build", "mxnet==1.8.0.post0") == 2
    assert call(tmp_path, "--table", "--spec", "smoke") == 2
    assert ["another build or spec" in message for message in caplog.messages] == [True, True]


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


def test_anyway_counts_what_was_held_back() -> None:
    told = report(0.05, 0.02)
    held = [dataclasses.replace(one, verdict="inconclusive", held_back=one.verdict) for one in told.comparisons[:1]]
    trusted = calibrate.as_if_trusted(dataclasses.replace(told, comparisons=[*held, told.comparisons[1]]))
    assert [one.verdict for one in trusted.comparisons] == [one.verdict for one in told.comparisons]
