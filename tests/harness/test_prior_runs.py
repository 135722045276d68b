"""What earlier runs say of cases: costs, noise, a plan, a forecast; and that no verdict depends on any of it."""

import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from resumable_run import ListLog
from toy_bench import toy_bench, toy_case

from opduel.comparator import RunAnalysis, plan_looks
from opduel.harness.checkpoint import Checkpoint
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.planning import schedule
from opduel.harness.planning.effort import CaseTime, Costs, Noise, Repetitions
from opduel.harness.planning.schedule import Schedule
from opduel.harness.prior_runs import PriorRuns, Setting, learn
from opduel.harness.processes.pair_pool import PairPool
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Build, Case, Comparison, Effort, HostRecord, PairSample, Report, RunRecord

HOST = {"cpu_model": "a model", "logical_cpus": 4, "machine": "x86_64"}
SETTING = Setting("toy", 1, False, HostRecord.of(HOST))
BUILD = Build("toy", "toy", "interpreter", "/python", "1.0", "3.11", "digest")
LOOKS = plan_looks(50)
NOISE, COSTS = Noise(0.01**2, 0.004**2, 0.002**2), Costs(0.002, 0.02, 0.01, 0.05)


def effort_of(noise: Noise = NOISE, costs: Costs = COSTS, seconds: float = 3.0) -> Effort:
    levels = [level**0.5 for level in (noise.quad, noise.fork, noise.pair)]
    return Effort(2, 12, *levels, costs.quad_s, costs.prepare_s, costs.beside_s, costs.pair_s, seconds)


EFFORT = effort_of()


def a_report(
    cases: Sequence[Case], effort: Effort | None = EFFORT, number: int = 1, host: Any = HOST, **changes: Any
) -> Report:
    comparisons = [replace(Comparison.without_figures(case, "unchanged"), effort=effort) for case in cases]
    run = {"id": f"run-{number}", "framework": "toy", "configuration": {"threads": 1}, **changes}
    return Report(RunRecord.of(run), BUILD, BUILD, HostRecord.of(host), comparisons, cases=cases)


def test_a_reports_effort_comes_back_as_costs_and_noise() -> None:
    cases = [toy_case("a"), toy_case("b")]
    prior = learn([a_report(cases)], SETTING)
    planner = prior.planner([*cases, toy_case("new"), replace(toy_case("b"), id="elsewhere", context="gpu")])
    assert planner.costs == {"a": COSTS, "b": COSTS}
    assert planner.noise["a"] == Noise(*map(pytest.approx, (NOISE.quad, NOISE.fork, NOISE.pair)))
    assert planner.noise.keys() == {"a", "b"}
    assert prior.of(replace(toy_case("a"), context="gpu")) is None, "another device"
    history = prior.of(toy_case("a"))
    assert history is not None
    assert history.seconds == 3.0


def test_of_several_runs_the_middle_one_counts() -> None:
    """One on a busy host doesn't mislead."""
    usual, busy = EFFORT, effort_of(Noise(0.1**2, 0.1**2, 0.1**2), Costs(1.0, 9.0, 9.0, 9.0), 900.0)
    prior = learn(
        [a_report([toy_case("a")], effort, number) for number, effort in enumerate((usual, busy, usual))], SETTING
    )
    assert prior == replace(learn([a_report([toy_case("a")], usual)], SETTING), reports=3)


def test_reports_of_other_hosts_frameworks_and_settings_are_counted() -> None:
    cases = [toy_case("a")]
    foreign = [
        a_report(cases, number=2, host={**HOST, "cpu_model": "another"}),
        a_report(cases, number=3, host={**HOST, "logical_cpus": 8}),
        a_report(cases, number=4, framework="mxnet"),
        a_report(cases, number=5, configuration={"threads": 2}),
        a_report(cases, number=6, configuration={"threads": 1, "wipe_cache": True}),
        a_report(cases, number=7, host={**HOST, "gpus": ["a model"]}),
    ]
    prior = learn([*foreign, a_report(cases), a_report(cases)], SETTING)
    assert (prior.reports, prior.skipped) == (1, 6), "and a copy counts once"
    assert learn(foreign, SETTING).cases == {}


def test_cases_that_were_slowed_on_purpose_say_nothing() -> None:
    report = a_report([toy_case("a"), toy_case("b")])
    slowed = [replace(comparison, injected=comparison.case == "a") for comparison in report.comparisons]
    prior = learn([replace(report, comparisons=slowed)], SETTING)
    assert prior.of(toy_case("a")) is None
    assert prior.of(toy_case("b")) is not None


@pytest.mark.parametrize(
    "effort",
    [
        None,
        replace(EFFORT, quad_sd=None, fork_sd=None, pair_sd=None),
        replace(EFFORT, quad_s=0.0),
        replace(EFFORT, fork_sd=0.0),
        replace(EFFORT, prepare_s=-1.0),
        replace(EFFORT, pair_sd=float("nan")),
    ],
)
def test_cases_of_which_a_report_says_nothing_that_can_be_planned_by_are_no_fault(effort: Effort | None) -> None:
    prior = learn([a_report([toy_case("a")], effort)], SETTING)
    assert (prior.cases, prior.reports) == ({}, 1)
    assert MeasurementPlan([toy_case("a")], LOOKS, 0.05, 1, prior_runs=prior).forecast is None


def test_the_report_says_what_was_expected() -> None:
    prior = learn([a_report([toy_case("a")])], SETTING)
    plan = MeasurementPlan([toy_case("a"), toy_case("new")], LOOKS, 0.05, 1, prior_runs=prior)
    record = prior.record(plan.forecast)
    assert (record.reports, record.skipped, record.known) == (1, 0, 1)
    assert record.expected_rounds == {"a": 5, "new": 5}
    assert record.expected_s > 0
    assert PriorRuns().record(None).expected_s is None


class MadeRounds:
    """Rounds with given samples: a case's n-th is always the same, whoever else is measured, when, and how often."""

    def __init__(self, changes: dict[str, float], case_s: float = 0.01) -> None:
        self.changes, self.case_s, self.wall_s = changes, case_s, 0.0
        self.plans = list[Round]()
        self.value_makers = {case_id: self._values(case_id) for case_id in changes}

    def _values(self, case_id: str) -> Callable[[], float]:
        draw = random.Random(case_id)
        return lambda: self.changes[case_id] + draw.gauss(0, 0.006)

    def __call__(self, pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
        self.plans.append(replace(this_round, repetitions=dict(this_round.repetitions)))
        for request in this_round.requests:
            case_id = request.case.id
            ratio = self.value_makers[case_id]()
            sample = PairSample(case_id, request.stage, this_round.number, 1e3, 1e3 * (1 + ratio), ratio, 48, 100, 2)
            result.samples.append(replace(sample, fork_ratios=((ratio, 0.003), (ratio, 0.003))))
            result.times[case_id] = CaseTime(2, 24, beside_s=self.case_s / 2, quads_s=self.case_s / 2)
        result.wall_s = self.case_s * len(this_round.requests)
        self.wall_s += result.wall_s


class NoisyRounds(MadeRounds):
    """Rounds in which a case's pairs differ by ``deviation``."""

    def __init__(self, changes: dict[str, float], deviation: float) -> None:
        self.deviation = deviation
        super().__init__(changes)

    def _values(self, case_id: str) -> Callable[[], float]:
        draw = random.Random(case_id)
        return lambda: self.changes[case_id] + draw.gauss(0, self.deviation if case_id == "noisy" else 0.004)


@pytest.mark.parametrize(("deviation", "shares"), [(0.03, False), (0.06, True)])
def test_what_may_be_a_regression_is_measured_before_what_is_not_slower(
    monkeypatch: pytest.MonkeyPatch, deviation: float, shares: bool
) -> None:
    """After the first look the one is not slower, and lacks three rounds to be called faster; the other may be slower.
    It has the rounds to itself, unless no number of them makes it precise."""
    rounds = NoisyRounds({"noisy": 0.0, "faster": -0.08}, deviation)
    measured(monkeypatch, None, rounds)
    together = [{request.case.id for request in plan.requests} for plan in rounds.plans]
    first = LOOKS.counts[0]
    assert together[:first] == [{"noisy", "faster"}] * first
    assert together[first] == ({"noisy", "faster"} if shares else {"noisy"})
    assert sum("faster" in names for names in together) == 8, "it comes to its turn"


def measured(
    monkeypatch: pytest.MonkeyPatch, prior: PriorRuns | None, rounds: MadeRounds, **order: Any
) -> tuple[MeasurementResult, list[Comparison], list[Progress]]:
    cases = [toy_case(name) for name in rounds.changes]
    progresses: list[Progress] = []
    monkeypatch.setitem(schedule.ROUNDS, "time", rounds)
    checkpoint = Checkpoint(order.pop("log", None), "").phase("first")
    plan = MeasurementPlan(cases, LOOKS, 0.05, 1, prior_runs=prior, **order)
    result = Schedule(toy_bench(), plan, progresses.append, checkpoint, now=lambda: rounds.wall_s).run()
    return result, RunAnalysis(cases, result.samples, result.failures, LOOKS, 0.05).comparisons(), progresses


@pytest.mark.parametrize("budget", [None, 3600.0])
def test_no_verdict_depends_on_earlier_runs(monkeypatch: pytest.MonkeyPatch, budget: float | None) -> None:
    """Given the same samples, everything that is said of a case is the same, whatever its history."""
    changes = {"same": 0.0, "slow": 0.08, "fast": -0.06, "edge": 0.021, "open": 0.015, "other": 0.001}

    def statements(comparisons: Sequence[Comparison]) -> dict[str, dict[str, Any]]:
        """All but in which round each sample was taken."""
        plain = [
            {**asdict(comparison), "samples": [s.log_ratio for s in comparison.samples]} for comparison in comparisons
        ]
        return {str(fields["case"]): fields for fields in plain}

    pilots = MadeRounds(changes)
    _, expected, _ = measured(monkeypatch, None, pilots, time_budget=budget)
    assert {comparison.verdict for comparison in expected} >= {"regressed", "improved", "unchanged"}
    assert pilots.plans[0].repetitions == {}
    for deviation in (1e-3, 0.01, 0.3):
        effort = effort_of(Noise(deviation**2, deviation**2, deviation**2))
        prior = learn([a_report([toy_case(name) for name in changes], effort)], SETTING)
        rounds = MadeRounds(changes)
        _, comparisons, progresses = measured(monkeypatch, prior, rounds, time_budget=budget)
        assert statements(comparisons) == statements(expected)
        assert rounds.plans[0].repetitions.keys() == changes.keys(), "as is known from earlier runs"
        assert all(progress.end_s is not None for progress in progresses if progress.open_cases)


def test_a_budget_too_short_for_all_brings_some_to_their_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are known before the first round: what can't be looked at in time isn't begun."""
    names = [f"c{number}" for number in range(10)]
    prior = learn([a_report([toy_case(name) for name in names])], SETTING)
    half_s = 5 * LOOKS.counts[0] * COSTS.of_pilot() + 0.1
    rounds, unknown = MadeRounds(dict.fromkeys(names, 0.0)), MadeRounds(dict.fromkeys(names, 0.0))
    measured(monkeypatch, prior, rounds, time_budget=half_s)
    assert len(rounds.plans[0].requests) == 5
    measured(monkeypatch, None, unknown, time_budget=half_s)
    assert len(unknown.plans[0].requests) == 10


@pytest.mark.parametrize("change", [0.3, -0.3])
@pytest.mark.parametrize("place", [0, 4, 9])
def test_a_budget_too_short_for_all_is_spent_first_on_what_looks_changed(
    monkeypatch: pytest.MonkeyPatch, place: int, change: float
) -> None:
    names = [f"c{number}" for number in range(10)]
    rounds = MadeRounds(dict.fromkeys(names, 0.0) | {names[place]: change}, case_s=1.0)
    result, _, _ = measured(monkeypatch, None, rounds, time_budget=25.0)
    looked_at = [case_id for case_id, samples in result.samples.items() if len(samples) >= LOOKS.counts[0]]
    assert names[place] in looked_at
    assert len(looked_at) < len(names) / 2


def test_a_budget_for_first_looks_alone_takes_what_looks_changed_to_its_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"c{number}" for number in range(10)]
    changes = {name: 0.3 * (number % 2) for number, name in enumerate(names)}
    _, comparisons, _ = measured(monkeypatch, None, MadeRounds(changes, case_s=1.0), time_budget=52.0)
    verdicts = {comparison.case: comparison.verdict for comparison in comparisons}
    assert {verdicts[name] for name in names if changes[name]} == {"regressed"}


class RoundsWithOneThatOutlasts(MadeRounds):
    """Rounds to whose last case, ``heavy``, none comes before the sixth, which it would make longer than a budget."""

    def __call__(self, pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
        others = [request for request in this_round.requests if request.case.id != "heavy"]
        if len(others) < len(this_round.requests) and len(self.plans) >= LOOKS.counts[0]:
            self.wall_s += 1000.0
        super().__call__(pool, replace(this_round, requests=others), rng, result)


def test_what_looks_changed_does_not_wait_for_a_case_of_which_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = RoundsWithOneThatOutlasts({"slow": 0.3, "same": 0.0, "heavy": 0.0}, case_s=1.0)
    result, comparisons, _ = measured(monkeypatch, None, rounds, time_budget=60.0)
    assert comparisons[0].verdict == "regressed"
    assert rounds.wall_s > 1000, "it comes to its turn"
    assert result.samples["heavy"] == []


class LongCalls(MadeRounds):
    """Rounds of a case whose quads differ by 20 %, and take a second each, but three in the sixth round."""

    def __call__(self, pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
        super().__call__(pool, this_round, rng, result)
        repetitions = this_round.repetitions.get("slow", Repetitions(2, 1))
        quads = repetitions.forks * repetitions.quads
        result.wall_s = quads * (3.0 if len(self.plans) == 6 else 1.0)
        self.wall_s += result.wall_s - self.case_s
        sample = result.samples[0]
        ratios = tuple((sample.log_ratio, 0.2 / repetitions.quads**0.5) for _ in range(repetitions.forks))
        result.samples[0] = replace(sample, fork_ratios=ratios, blocks=4 * quads)
        result.times["slow"] = CaseTime(repetitions.forks, quads, quads_s=result.wall_s)


@pytest.mark.parametrize("budget_s", [20.0, 30.0, 60.0])
def test_time_that_is_left_is_spent_on_rounds_that_it_is_enough_for(
    monkeypatch: pytest.MonkeyPatch, budget_s: float
) -> None:
    """A load made a round three times as long, and 46 s of 180 s were left unused, as two more such took longer."""
    rounds = LongCalls({"slow": 0.6})
    result, (comparison,), _ = measured(monkeypatch, None, rounds, time_budget=budget_s)
    assert (comparison.verdict, len(result.samples["slow"])) == ("regressed", 8)
    assert rounds.wall_s < budget_s


class RoundsThatEnd(MadeRounds):
    """Rounds that begin no case when they have taken as long as they may."""

    def __call__(self, pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
        count = math.ceil(min(this_round.most_s / self.case_s, len(this_round.requests)))
        super().__call__(pool, replace(this_round, requests=this_round.requests[:count]), rng, result)


def test_where_a_budget_is_shorter_than_a_first_round_some_cases_come_to_their_first_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = RoundsThatEnd({f"c{number}": 0.0 for number in range(60)}, case_s=0.8)
    result, _, _ = measured(monkeypatch, None, rounds, time_budget=12.0)
    counts = [len(samples) for samples in result.samples.values()]
    assert max(counts) >= LOOKS.counts[0]
    assert 0 in counts
    assert result.stopped is not None


def test_in_a_budget_what_the_change_is_known_to_reach_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = MadeRounds(dict.fromkeys("abcd", 0.0), case_s=1.0)
    reached, first_look = frozenset("bd"), LOOKS.counts[0]
    result, _, _ = measured(monkeypatch, None, rounds, time_budget=15.0, reached=reached)
    assert all({request.case.id for request in plan.requests} == reached for plan in rounds.plans[:first_look])
    assert result.samples["a"] or result.samples["c"], "the others come when these have been looked at"
    unlimited = MadeRounds(dict.fromkeys("abcd", 0.0))
    measured(monkeypatch, None, unlimited, reached=reached)
    assert len(unlimited.plans[0].requests) == 4


def test_in_a_budget_a_first_round_begins_with_the_likeliest_case_of_each_benchmark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["d", "d2", "b", "a", "c"]
    cases = {name: replace(toy_case(name), operator=name[0]) for name in names}
    monkeypatch.setattr(sys.modules[__name__], "toy_case", cases.__getitem__)
    rounds = MadeRounds(dict.fromkeys(sorted(names), 0.0), case_s=1.0)
    measured(monkeypatch, None, rounds, time_budget=90.0, likeliest=names)
    assert [request.case.id for request in rounds.plans[0].requests] == ["d", "b", "a", "c", "d2"]
    assert [plan.in_order for plan in rounds.plans[:2]] == [True, False]


def test_in_a_budget_a_first_round_has_one_case_of_each_benchmark_before_another_one_s_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["a", *(f"b{number}" for number in range(20)), "c"]
    cases = {name: replace(toy_case(name), operator=f"module_{name[0]}.{name[0]}") for name in names}
    monkeypatch.setattr(sys.modules[__name__], "toy_case", cases.__getitem__)
    rounds = MadeRounds(dict.fromkeys(names, 0.0), case_s=1.0)
    measured(monkeypatch, None, rounds, time_budget=90.0)
    first_round = rounds.plans[0]
    assert {request.case.id[0] for request in first_round.requests[:3]} == set("abc")
    assert first_round.in_order


def test_in_a_budget_a_reached_case_that_may_be_a_regression_goes_on_before_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One looked +27 % at its first look on a busy host, and then the budget went to cases that nothing reached."""
    rounds = NoisyRounds(dict.fromkeys("abcd", 0.0) | {"noisy": 0.25}, 0.2)
    rounds.case_s = 1.0
    measured(monkeypatch, None, rounds, time_budget=20.0, reached=frozenset({"noisy"}))
    requests = [request for plan in rounds.plans[: LOOKS.counts[1]] for request in plan.requests]
    assert [request.case.id for request in requests] == ["noisy"] * LOOKS.counts[1]


@pytest.mark.parametrize(
    ("order", "limit_s"),
    [
        ({"time_budget": 300.0}, 30.0),
        ({"time_budget": 30.0}, schedule.LEAST_PREPARE_S),
        ({"time_budget": 300.0, "log": ListLog()}, math.inf),  # a later start goes on
        ({"time_budget": 300.0, "log": ListLog(), "is_awaited": True}, 30.0),
        ({}, math.inf),
    ],
)
def test_a_case_may_take_a_tenth_of_the_only_budget_to_prepare(
    monkeypatch: pytest.MonkeyPatch, order: dict[str, Any], limit_s: float
) -> None:
    rounds = MadeRounds({"a": 0.0})
    measured(monkeypatch, None, rounds, **order)
    assert {plan.prepare_s for plan in rounds.plans} == {limit_s}


def test_in_a_budget_a_checks_are_of_reached_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{number}" for number in range(40)]
    rounds = MadeRounds(dict.fromkeys(names, 0.0), case_s=0.1)
    measured(monkeypatch, None, rounds, time_budget=90.0, reached=frozenset({"c7", "c9"}), aa_count=4)
    assert {request.case.id for plan in rounds.plans for request in plan.aa_requests} <= {"c7", "c9"}
    assert rounds.plans[0].aa_requests


def test_costs_of_earlier_runs_never_keep_a_run_from_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have been those of a much busier host."""
    busy = Costs(*(1e6 * seconds for seconds in (COSTS.quad_s, COSTS.prepare_s, COSTS.beside_s, COSTS.pair_s)))
    prior = learn([a_report([toy_case("a")], effort_of(costs=busy))], SETTING)
    result, (comparison,), _ = measured(monkeypatch, prior, MadeRounds({"a": 0.0}), time_budget=60.0)
    assert result.stopped is None
    assert comparison.verdict == "unchanged"
