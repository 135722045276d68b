"""run_bench.py --calibrate: what it runs within its budget, what it says, what it keeps; measuring is a stand-in."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import RELEASE, Outcome, outcome_of, run_bench_main
from made_reports import Measuring

from opduel.commands.calibrate import evenly, exactly
from opduel.commands.calibration_text import smallest_found
from opduel.comparator.calibration import Rate, Row
from opduel.harness.other_runs import power_analysis
from opduel.harness.run_request import RunRequest
from opduel.harness.specs import select_cases
from opduel.records import Case, Comparison, PairSample, Report, RunError
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters.options import WEBHOOK_VARIABLE

Run = Callable[..., Outcome]


class Machine:
    """Stands in for measuring: finds every slowdown of ``finds`` or more; a run takes ``takes_s`` of a made clock."""

    def __init__(self) -> None:
        self.requests: list[RunRequest] = []
        self.finds, self.takes_s, self.now = 0.02, 60.0, 1000.0
        self.breaks_at = self.fails_at = 0
        self.more: dict[str, Any] = {}

    def run_ab(self, request: RunRequest, on_progress: object = None) -> Report:
        self.requests.append(request)
        self.now += self.takes_s
        if len(self.requests) == self.fails_at:
            raise RunError("the worker could not be started")
        broken, inject = len(self.requests) == self.breaks_at, request.configuration.inject
        how = {"id": "made", "framework": "mxnet", "configuration": {"inject": inject}, "complete": not broken,
               "aborted": broken, "stop_reason": "stopped by SIGINT" if broken else None, "wall_s": 60.0,
               "timed_s": 30.0, "cpus": {"nice": 0}, **self.more}  # fmt: skip
        comparisons = [self._compare(case, bool(i % 2 and inject), request) for i, case in enumerate(request.cases)]
        return Report(
            RunRecord.of({**how, **asdict(request.labels)}),
            request.control,
            request.treatment,
            HostRecord(),
            comparisons,
        )

    def _compare(self, case: Case, injected: bool, request: RunRequest) -> Comparison:
        detected = injected and request.configuration.inject >= self.finds
        samples = tuple(
            PairSample(case.id, "screening", i, 1000.0 + i, 1001.0 + i % 3, i % 5 / 1e4, 1, 1) for i in range(6)
        )
        return Comparison(
            *(case.id, case.operator, "forward", "time", "ns", "regressed" if detected else "unchanged", 1.01),
            threshold=case.threshold,
            rounds=6,
            decided_on="screening",
            injected=injected,
            samples=samples,
        )


@pytest.fixture
def machine(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> Machine:
    simulated = Machine()
    measuring.measure = simulated.run_ab
    # rougher, and ten times as quick: no figure is looked at here
    monkeypatch.setattr(power_analysis, "CHANGED_CASES", 10)
    # a server of other tests, on a thread of this process, needs the real one
    monkeypatch.setattr("opduel.commands.calibrate.time", SimpleNamespace(monotonic=lambda: simulated.now))
    return simulated


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: outcome_of(run_bench_main, ["--calibrate", *arguments], capsys)


def read_result(home: Path) -> dict[str, Any]:
    (path,) = home.rglob("calibration.json")
    document: dict[str, Any] = json.loads(path.read_text())
    assert all((path.parent / name).exists() for name in document["reports"])
    return document


def test_by_default_one_build_plain_and_slowed_in_five_minutes(machine: Machine, run: Run, home: Path) -> None:
    outcome = run("--seed", "1")
    assert outcome.code == 0, outcome.err
    assert {run_request.control.requested for run_request in machine.requests} == {
        run_request.treatment.requested for run_request in machine.requests
    }
    assert len({run_request.control.requested for run_request in machine.requests}) == 1
    assert sorted(run_request.configuration.inject for run_request in machine.requests[:4]) == [0, 0.01, 0.02, 0.05]
    assert len(machine.requests) == 5  # of 60 s each
    assert len({run_request.seed for run_request in machine.requests}) == 5
    # Each run may take its part of what is left: the sixty seconds of the earlier ones leave more to the later ones.
    assert [run_request.configuration.time_budget for run_request in machine.requests] == [75, 80, 90, 120, 60]
    document = read_result(home)
    assert (document["schema_version"], document["complete"], document["runs"]) == (1, True, 5)
    assert document["smallest"]["share"] == 0.02
    assert [row["share"] for row in document["rows"]] == [0, 0.01, 0.02, 0.05]
    assert document["not_run"] == []
    assert len(document["forecasts"]) == 3


def test_a_sample_is_drawn_once(machine: Machine, run: Run) -> None:
    assert run("--sample", "3", "--seed", "1").code == 0
    chosen = {tuple(case.id for case in run_request.cases) for run_request in machine.requests}
    assert {len(cases) for cases in chosen} == {3}
    assert len(chosen) == 1


def test_a_folder_may_be_in_the_home_folder(
    machine: Machine, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    assert run("--local_reporter=~/ours").code == 0
    assert read_result(home)
    assert not (home / "~").exists()
    assert (home / "ours" / "calibration").is_dir()


def test_small_thresholds_have_fewer_cases_and_more_rounds(machine: Machine, run: Run) -> None:
    assert run("--threshold", "0.1%", "--time_budget", "1200").code == 0
    assert {run_request.max_rounds for run_request in machine.requests} == {160}
    assert {len(run_request.cases) for run_request in machine.requests} == {
        16
    }  # of 6 s a case for each of four runs and 50 rounds


def test_it_ends_with_what_was_found_and_advice(machine: Machine, run: Run) -> None:
    out = run("--seed", "1").out
    assert "the smallest regression found in 80 % of its cases or more: +2 %, with --threshold 0.5%, in 5.5 s" in out
    assert "false flags: 0 of " in out
    assert "--max_rounds 200" in out
    assert out.index("advice:") > out.index("false flags:")
    assert "harness" not in out.splitlines()[0]


def test_nobody_is_notified_of_slowdowns_that_were_injected(
    machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WEBHOOK_VARIABLE, "an invalid address is refused by a run that would use it")
    outcome = run("--treatment", RELEASE)
    assert outcome.code == 0, outcome.err
    assert machine.requests
    assert os.environ[WEBHOOK_VARIABLE].startswith("an invalid address")


def test_what_the_time_was_up_for_is_reported(machine: Machine, run: Run, home: Path) -> None:
    machine.takes_s = 200.0
    out = run("--seed", "1").out
    (line,) = [line for line in out.splitlines() if line.startswith("not measured for lack of time: ")]
    missing = read_result(home)["not_run"]
    assert len(missing) == 2
    assert len(machine.requests) == 2
    assert all(("the plain run" if share == 0 else f"+{share * 100:g} %") in line for share in missing)


def test_what_was_not_found_is_not_claimed(machine: Machine, run: Run, home: Path) -> None:
    machine.finds = 0.5
    assert "no injected slowdown was found in 80 %" in run().out
    assert read_result(home)["smallest"] is None


def test_options_go_to_the_runs_and_the_budget_chooses_the_cases(machine: Machine, run: Run, home: Path) -> None:
    options = ["-b", "conv", "--operators", "conv2d", "--control", RELEASE, "--max_rounds", "7", "--alpha", "0.1"]
    assert run(*options, "--time_budget", "144", "--local_reporter", str(home / "mine"), "--threads", "1").code == 0
    first = machine.requests[0]
    assert (first.configuration.max_rounds, first.configuration.alpha, first.control.requested) == (7, 0.1, RELEASE)
    assert len(first.cases) == 6
    assert all(case.id.startswith("conv2d") for case in first.cases)
    assert read_result(home / "mine" / "calibration")["cases"] == 6


def test_a_threshold_is_that_of_all_runs(machine: Machine, run: Run) -> None:
    run("--threshold", "10%")
    assert {case.threshold for run_request in machine.requests for case in run_request.cases} == {0.1}
    assert sorted({run_request.configuration.inject for run_request in machine.requests}) == [0, 0.15, 0.25, 0.5]


@pytest.mark.parametrize("at", ["breaks_at", "fails_at"])
def test_what_was_measured_before_the_end_is_reported(machine: Machine, run: Run, home: Path, at: str) -> None:
    setattr(machine, at, 3)
    outcome = run()
    assert outcome.code == 3
    assert len(machine.requests) == 3
    assert "not completed" in outcome.err
    document = read_result(home)
    assert (document["complete"], document["forecasts"], document["runs"]) == (False, [], 2)
    assert sum(row["runs"] for row in document["rows"]) == 2


def test_ctrl_c_in_the_first_run_claims_nothing(machine: Machine, run: Run, home: Path) -> None:
    machine.breaks_at = 1
    outcome = run()
    assert (outcome.code, read_result(home)["rows"]) == (3, [])
    assert "no injected slowdown was" not in outcome.out


def test_nothing_measured_is_an_error(machine: Machine, run: Run, home: Path) -> None:
    machine.fails_at = 1
    outcome = run()
    assert (outcome.code, outcome.out) == (3, "")
    assert "nothing was measured: the worker could not be started" in outcome.err
    assert not list(home.rglob("calibration.json"))


def test_runs_held_back_are_reported(machine: Machine, run: Run) -> None:
    machine.more = {"validity": {"valid": False, "reasons": ["busy"]}}
    assert "runs disturbed by other load" in run().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--inject", "5%"], "--inject: is set by --calibrate itself"),
        (["--screen_reporter"], "--screen_reporter: can't be combined with --calibrate: leave it out"),
        (["--export_reporter", "md=a.md"], "--export_reporter: can't be combined with --calibrate"),
        (["--profiler", "native"], "--profiler: only applies to one build alone"),
        (["--profile_output", "x"], "--profile_output: is for one run of harness.py"),
        (["--suite", "anywhere"], "--suite: is for a suite, which --calibrate can't measure"),
        (["--control", "a", "--treatment", "b"], "one build against itself"),
        (["--operators", "dot"], "two cases or more"),
        (["--operators", "nothing like it"], "no case matches"),
        (["--threshold", "70%"], "give a smaller one"),
        (["-b", "no-such-spec"], "neither a file nor a spec"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_wrong_usage_is_one_line(machine: Machine, run: Run, arguments: list[str], words: str) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err.splitlines()[-1]
    assert not machine.requests


def test_cases_are_spread_evenly_and_named_exactly() -> None:
    names = [f"c{i}" for i in range(10)]
    assert evenly(names, 4) == ["c0", "c2", "c5", "c7"]
    assert evenly(names, 99) == names
    cases = [Case(name, "op", "forward", {}, "", "", 0.02, 1.0) for name in ("dot/forward", "batch_dot/forward")]
    assert [case.id for case in select_cases(cases, [exactly("dot/forward")])] == ["dot/forward"]


def row(share: float, count: int, of: int = 10) -> Row:
    return Row(
        share,
        0.02,
        1,
        0,
        0,
        Rate(count, of),
        Rate(0, of),
        0,
        Rate(0, of),
        Rate(0, of),
        0,
        1.0,
        0.5,
        (),
    )


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([row(0.1, 10), row(0.05, 8), row(0.02, 7)], 0.05),
        ([row(0.1, 7), row(0.05, 10)], None),  # luck, when the larger one is missed
        ([row(0.1, 10), row(0, 0, of=0)], 0.1),
        ([], None),
    ],
)
def test_the_smallest_share_found(rows: list[Row], share: float | None) -> None:
    smallest_row = smallest_found(rows)
    assert (smallest_row and smallest_row.share) == share
