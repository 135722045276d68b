"""The procedures run, on the toy adaptor in real workers; other tools' processes do the work that a worker does."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.peer_tools import inside, opduel_itself, pairs
from benchmarks.peer_tools.real_asv import parse_compare
from benchmarks.peer_tools.real_pyperf import parse_compare_to
from benchmarks.peer_tools.trial import Bench, Tool, Trial
from benchmarks.peers import Session
from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.specs import select_cases
from opduel.records import Build, Case, Comparison, RunError, Verdict

TOY = Path(__file__).resolve().parents[1] / "harness" / "toy_adaptor.py"


def case(name: str, operator: str = "work") -> Case:
    return Case(name, operator, "forward", {}, "float32", "cpu", threshold=0.02, timeout_s=20.0)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """One case is plain, one takes ten times its time on the treatment; the framework refuses one, and dies of one."""
    bench = Bench(
        build=Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest"),
        release="toy==1.0",
        requirements={},
        adaptor=TOY,
        environment=worker_environment(),
        cpus=plan_cpus(1),
        spec="toy",
        operators=(),
        cases=[case("plain"), case("slowed"), case("refused", "refuse"), case("lost", "abort")],
        cache=tmp_path / "cache",
    )
    return Trial(bench, seed=1, share=9.0, injected=frozenset({"slowed"}), folder=tmp_path, opduel_seconds=6.0)


NAIVE, TANGO, BENCHSTAT = pairs.naive(0.4, 0.02), pairs.tango(0.4, 0.005), pairs.benchstat(0.4)
NIGHTLY = (TANGO, BENCHSTAT, pairs.benchstat_pairs(0.4, 5), pairs.paired_t(0.02))


@pytest.mark.parametrize(
    "tool",
    [NAIVE, *(pytest.param(tool, marks=pytest.mark.nightly) for tool in NIGHTLY)],
    ids=lambda tool: tool.name,
)
def test_each_procedure_finds_a_tenfold_time_and_reports_refused_and_lost_cases(tool: Tool, trial: Trial) -> None:
    by_rule = tool.measure(trial)
    assert by_rule
    for answers in by_rule.values():
        assert set(answers) == {"plain", "slowed", "refused", "lost"}
        assert answers["slowed"] == "slower"
        assert answers["refused"] == answers["lost"] == "failed"


@pytest.mark.parametrize("tool", [NAIVE, TANGO, BENCHSTAT], ids=lambda tool: tool.name)
def test_a_case_that_fails_while_it_is_timed_fails_alone(tool: Tool, trial: Trial) -> None:
    trial = replace(trial, bench=replace(trial.bench, cases=[case("later", "refuse_later"), case("slowed")]))
    for answers in tool.measure(trial).values():
        assert answers == {"later": "failed", "slowed": "slower"}


def test_paired_t_has_the_time_that_opduel_took(trial: Trial) -> None:
    """Each pair has the same time, and shares it among the cases."""
    trial = replace(trial, bench=replace(trial.bench, cases=[case("plain"), case("slowed")]), opduel_seconds=3.0)
    tool, start = pairs.paired_t(0.02, pairs=3), time.monotonic()
    answers = tool.measure(trial)
    assert 2.9 < time.monotonic() - start < 20
    assert [by_case["slowed"] for by_case in answers.values()] == ["slower"] * 4
    with pytest.raises(RunError, match="add opduel to --tools"):
        tool.measure(replace(trial, opduel_seconds=None))


def test_opduels_verdicts_are_its_answers(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts: dict[str, Verdict] = {
        "plain": "unchanged", "slowed": "inconclusive", "refused": "failed", "lost": "regressed",
    }  # fmt: skip
    report = SimpleNamespace(
        comparisons=[
            Comparison.without_figures(case, verdicts[case.id], injected=case.id in trial.injected)
            for case in trial.bench.cases
        ]
    )
    monkeypatch.setattr(opduel_itself, "run_program", lambda *_, **__: "")
    monkeypatch.setattr(opduel_itself, "read_report", lambda _: report)
    tool = opduel_itself.opduel(0.02)
    assert tool.measure(trial) == {"opduel": {"plain": "same", "slowed": "same", "refused": "failed", "lost": "slower"}}
    assert tool.settings == "harness.py --threshold 2% --busy_host report"
    with pytest.raises(RunError, match="other cases"):
        tool.measure(replace(trial, injected=frozenset({"plain"})))


@pytest.mark.nightly
def test_another_tools_process_does_the_injected_work_on_the_treatment_alone(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(inside.JOB, str(trial.write_job()))
    assert inside.Operation("slowed", "treatment").session.spins > 0
    for name, side in (("slowed", "control"), ("plain", "treatment"), ("plain", "control")):
        assert inside.Operation(name, side).session.spins == 0
    slow, fast = inside.Operation("slowed", "treatment"), inside.Operation("slowed", "control")
    assert slow.seconds(500) > fast.seconds(500) > 0
    slow.function()()


def test_each_session_draws_cases_of_its_own_and_opduel_gets_exactly_these(trial: Trial) -> None:
    bench = replace(trial.bench, cases=[case(f"work_{number}") for number in range(30)])  # work_1 is part of work_10
    draws = set()
    for seed in range(8):
        session = Session(0, seed, 0.05, "quiet")
        drawn = session.draw(bench, 6)
        assert select_cases(bench.cases, drawn.operators) == drawn.cases
        assert len(drawn.cases) == 6
        assert session.injected(drawn) < {case.id for case in drawn.cases}
        draws.add(tuple(drawn.operators))
    assert len(draws) == 8
    assert session.draw(bench, 30) is session.draw(bench, None) is bench


ASV = """
All benchmarks:

| Change   | Before [9d2873f6] <control>   | After [1910397c] <treatment>   | Ratio   | Benchmark (Parameter)   |
|----------|-------------------------------|--------------------------------|---------|-------------------------|
|          | 681±200μs                     | 645±200μs                      | ~0.95   | case_0.time_case        |
| +        | 306±50μs                      | 490±100μs                      | 1.60    | case_1.time_case        |
| -        | 152±30μs                      | 95.0±10μs                      | 0.62    | case_2.time_case        |
| !        | 152±30μs                      | failed                         | n/a     | case_3.time_case        |
|          | failed                        | failed                         | n/a     | case_4.time_case        |
"""  # as asv 0.6.6 printed it

PYPERF = """Slower (2):
- dot/forward: 115 us +- 2 us -> 135 us +- 1 us: 1.17x slower
- add/forward: 10.1 us +- 0.1 us -> 10.2 us +- 0.1 us: 1.00x slower

Faster (1):
- topk/backward: 1.70 ms +- 0.01 ms -> 1.20 ms +- 0.01 ms: 1.42x faster

Benchmark hidden because not significant (2): exp/forward, transpose/forward

Geometric mean: 1.05x slower
"""  # as pyperf 2.10.0 printed it


def test_asv_compare_is_parsed_row_by_row() -> None:
    cases = ["exp/forward", "dot/forward", "transpose/forward", "a", "b", "without a row"]
    assert parse_compare(ASV, {f"case_{number}.time_case": case for number, case in enumerate(cases)}) == {
        "exp/forward": "same",
        "dot/forward": "slower",
        "transpose/forward": "faster",
        "a": "failed",
        "b": "failed",
        "without a row": "failed",
    }
    with pytest.raises(ValueError, match="can't be read"):
        parse_compare("| ? | 1±0μs | 1±0μs | 1.00 | case_0.time_case |", {"case_0.time_case": "exp/forward"})


def test_pyperf_compare_to_is_parsed_by_section() -> None:
    cases = ["exp/forward", "dot/forward", "transpose/forward", "add/forward", "topk/backward"]
    assert parse_compare_to(PYPERF, cases) == {
        "exp/forward": "same",
        "dot/forward": "slower",
        "transpose/forward": "same",
        "add/forward": "slower",
        "topk/backward": "faster",
    }
    with pytest.raises(ValueError, match="can't be read"):
        parse_compare_to(PYPERF, ["exp/forward"])
