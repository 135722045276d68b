"""The procedures run, on the toy adaptor in real workers."""

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.peer_tools import opduel_itself, pairs
from benchmarks.peer_tools.trial import Tool, Trial
from benchmarks.peers import Session
from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.specs import select_cases
from opduel.records import Build, Case, Comparison, RunError, Verdict
from opduel.records.measurement import SIDES

TOY = Path(__file__).resolve().parents[1] / "harness" / "toy_adaptor.py"


def case(name: str, operator: str = "work") -> Case:
    return Case(name, operator, "forward", {}, "float32", "cpu", threshold=0.02, timeout_s=20.0)


@pytest.fixture
def trial() -> Trial:
    """One case is plain, one takes ten times its time on the treatment; the framework refuses one, and dies of one."""
    build = Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest")
    bench = Bench(dict.fromkeys(SIDES, build), TOY, worker_environment(), plan_cpus(1))
    cases = [case("plain"), case("slowed"), case("refused", "refuse"), case("lost", "abort")]
    return Trial(bench, "toy", cases, seed=1, share=9.0, injected=frozenset({"slowed"}), opduel_seconds=6.0)


NIGHTLY = (pairs.tango(0.4, 0.005), pairs.benchstat(0.4), pairs.benchstat_pairs(0.4, 5), pairs.paired_t(0.02))


@pytest.mark.parametrize(
    "tool",
    [pairs.naive(0.4, 0.02), *(pytest.param(tool, marks=pytest.mark.nightly) for tool in NIGHTLY)],
    ids=lambda tool: tool.name,
)
def test_each_procedure_finds_a_tenfold_time_and_reports_refused_and_lost_cases(tool: Tool, trial: Trial) -> None:
    by_rule = tool.measure(trial)
    assert by_rule
    for answers in by_rule.values():
        assert set(answers) == {"plain", "slowed", "refused", "lost"}
        assert answers["slowed"] == "slower"
        assert answers["refused"] == answers["lost"] == "failed"


def test_a_case_that_fails_while_it_is_timed_fails_alone(trial: Trial) -> None:
    trial = replace(trial, cases=[case("later", "refuse_later"), case("slowed")])
    for answers in pairs.naive(0.4, 0.02).measure(trial).values():
        assert answers == {"later": "failed", "slowed": "slower"}


def test_paired_t_needs_the_time_that_opduel_took(trial: Trial) -> None:
    with pytest.raises(RunError, match="add opduel to --tools"):
        pairs.paired_t(0.02).measure(replace(trial, opduel_seconds=None))


def test_opduels_verdicts_are_its_answers(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts: dict[str, Verdict] = {
        "plain": "unchanged", "slowed": "inconclusive", "refused": "failed", "lost": "regressed",
    }  # fmt: skip
    comparisons = [
        Comparison.without_figures(case, verdicts[case.id], injected=case.id in trial.injected) for case in trial.cases
    ]
    patterns: list[str] = []

    def run_harness(*options: str) -> SimpleNamespace:
        patterns[:] = [value for name, value in pairwise(options) if name == "--operators"]
        return SimpleNamespace(exit_code=1, message="", report=SimpleNamespace(comparisons=comparisons))

    monkeypatch.setattr(opduel_itself, "run_harness", run_harness)
    tool = opduel_itself.opduel(0.02)
    assert tool.measure(trial) == {"opduel": {"plain": "same", "slowed": "same", "refused": "failed", "lost": "slower"}}
    assert select_cases([*trial.cases, case("plain_2")], patterns) == trial.cases, "exactly these"
    assert tool.settings == "harness.py --threshold 2% --busy_host report"
    with pytest.raises(RunError, match="other cases"):
        tool.measure(replace(trial, injected=frozenset({"plain"})))


def test_each_session_draws_cases_of_its_own() -> None:
    cases = [case(f"work_{number}") for number in range(30)]
    draws = [Session(0, seed, "toy", 0.05, "quiet").draw(cases, 6) for seed in range(8)]
    assert {len(draw) for draw in draws} == {6}
    assert len({tuple(case.id for case in draw) for draw in draws}) == 8
    assert len(Session(0, 1, "toy", 0.05, "quiet").injected(draws[1])) == 3
