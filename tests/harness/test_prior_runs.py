"""What earlier runs say of cases: costs, noise, a forecast, an order; and that no verdict depends on any of it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from toy_bench import toy_bench, toy_case

from opduel.comparator import compare_cases, expected_rounds, plan_looks
from opduel.harness import schedule
from opduel.harness.budget import RoundDuration
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.pair import Round, RoundResult
from opduel.harness.pair_pool import PairPool
from opduel.harness.prior_runs import PriorRuns, Setting, forecast_run, learn, settled_first
from opduel.harness.schedule import Schedule
from opduel.records import Build, Case, Comparison, HostRecord, PairSample, Report, RunRecord

HOST = {"cpu_model": "a model", "logical_cpus": 4, "machine": "x86_64"}
SETTING = Setting("toy", 1, False, HostRecord(HOST))
BUILD = Build("toy", "toy", "interpreter", "/python", "1.0", "3.11", "digest")
LOOKS = plan_looks()
CALL_NS = 1e6


def samples_of(case: Case, noise: float, count: int = 8, seed: int = 1) -> list[PairSample]:
    """Two forks of 100 calls a side: 0.4 s of timed calls in each sample."""
    rng = random.Random(f"{case.id} {seed}")
    return [
        PairSample(case.id, "screening", number, CALL_NS, CALL_NS, rng.gauss(0, noise), 8, 200, 2)
        for number in range(count)
    ]


def a_report(cases: Sequence[Case], noise: float = 0.004, number: int = 1, **changes: Any) -> Report:
    """A run of eight rounds, each of which waited 2 s for its pair and took 0.1 s a fork beside timed calls."""
    rows = {case.id: samples_of(case, noise, seed=number) for case in cases}
    comparisons = [Comparison.without_figures(case, "unchanged", samples=rows[case.id]) for case in cases]
    forks = 2 * sum(map(len, rows.values()))
    spent = {"waiting for a pair": 16.0, "timed calls": 0.2 * forks, "ending and the rest": 0.1 * forks}
    run = {"id": f"run-{number}", "framework": "toy", "rounds": 8, "wall_s": sum(spent.values()), "spent_s": spent}
    run |= {"configuration": {"threads": 1}}
    host = changes.pop("host", HOST)
    return Report(RunRecord(run | changes), BUILD, BUILD, HostRecord(host), comparisons, cases=cases)


def test_what_a_case_cost_is_its_timed_calls_and_its_share_of_the_rest() -> None:
    prior = learn([a_report([toy_case("a"), toy_case("b")])], SETTING)
    assert prior.start_s == pytest.approx(2.0)
    history = prior.of(toy_case("a"))
    assert history is not None
    assert history.fork_s == pytest.approx(0.2 + 0.1)
    assert prior.of(replace(toy_case("a"), context="gpu")) is None, "another device"
    assert prior.of(toy_case("c")) is None


def test_the_whole_run_is_accounted_for() -> None:
    """A forecast for the very rounds that were made comes to what they took."""
    cases = [toy_case(name) for name in "abc"]
    report = a_report(cases)
    pace = learn([report], SETTING).pace(cases, lambda case: True)
    whole_s = 8 * pace.start_s("time", 0.0) + sum(2 * 8 * pace.of(case) for case in cases)
    assert whole_s == pytest.approx(report.run.wall_s)


def test_what_a_first_round_took_corrects_the_cases_to_come() -> None:
    cases = [toy_case(name) for name in "abc"]
    pace = learn([a_report(cases)], SETTING).pace(cases, lambda case: True)
    sample = PairSample("a", "screening", 0, CALL_NS, CALL_NS, 0.0, 4, 300)
    pace.note(Round([], 0), RoundResult(samples=[sample], wall_s=0.6), "time")
    assert [pace.of(case) for case in cases] == pytest.approx([0.6, 0.6, 0.6]), "twice what it was"
    pace.note(Round([], 1), RoundResult(samples=[sample], wall_s=1.2), "time")
    assert [pace.of(case) for case in cases] == pytest.approx([1.2, 0.6, 0.6]), "each case corrects the others once"


def test_reports_of_other_hosts_frameworks_and_settings_are_counted() -> None:
    cases = [toy_case("a")]
    others = [
        a_report(cases, number=2, host={**HOST, "cpu_model": "another"}),
        a_report(cases, number=3, host={**HOST, "logical_cpus": 8}),
        a_report(cases, number=4, framework="mxnet"),
        a_report(cases, number=5, configuration={"threads": 2}),
        a_report(cases, number=6, configuration={"threads": 1, "wipe_cache": True}),
        a_report(cases, number=7, host={**HOST, "gpus": ["a model"]}),
    ]
    prior = learn([*others, a_report(cases), a_report(cases)], SETTING)
    assert (prior.reports, prior.skipped) == (1, 6), "and a copy counts once"
    assert learn(others, SETTING).cases == {}


def test_cases_that_were_slowed_on_purpose_say_nothing() -> None:
    report = a_report([toy_case("a"), toy_case("b")])
    slowed = [replace(one, injected=one.case == "a") for one in report.comparisons]
    prior = learn([replace(report, comparisons=slowed)], SETTING)
    assert prior.of(toy_case("a")) is None
    assert prior.of(toy_case("b")) is not None


def test_a_report_without_times_or_samples_is_no_fault() -> None:
    empty = a_report([toy_case("a")], spent_s=None, wall_s=None, rounds=None)
    assert learn([replace(empty, comparisons=())], SETTING).cases == {}
    history = learn([empty], SETTING).of(toy_case("a"))
    assert history is not None
    assert history.fork_s == pytest.approx(0.2)


def test_noisier_cases_need_more_rounds() -> None:
    needed = [expected_rounds(noise**2, 10.0, 0.02, LOOKS, 0.05) for noise in (1e-4, 0.01, 0.02, 0.06)]
    assert (needed[0].rounds, needed[0].settles) == (LOOKS.screening[0], True)
    assert [one.rounds for one in needed[:3]] == sorted(one.rounds for one in needed[:3])
    assert needed[1].rounds < needed[2].rounds
    assert not needed[3].settles
    assert needed[3].rounds < LOOKS.screening[-1], "given up before its last look"


def test_the_forecast_names_rounds_and_seconds() -> None:
    cases = [toy_case("a"), toy_case("b")]
    prior = learn([a_report(cases, number=number) for number in range(3)], SETTING)

    def forecast(cases: Sequence[Case]) -> Any:
        return forecast_run(prior, cases, LOOKS, 0.05, lambda case: True)

    both = forecast(cases)
    assert both.known == 2
    assert both.settles == {"a", "b"}
    pace = prior.pace(cases, lambda case: True)
    assert both.seconds == pytest.approx(pace.seconds((case, both.rounds[case.id]) for case in cases))
    more = forecast([*cases, toy_case("new")])
    assert (more.known, more.rounds["new"]) == (2, max(both.rounds.values()))
    assert more.seconds > both.seconds
    assert forecast([toy_case("new")]) is None


def test_cases_that_can_be_settled_come_first() -> None:
    cheap, noisy, dear = toy_case("cheap"), toy_case("noisy"), toy_case("dear")
    prior = learn([a_report([cheap, dear], 0.001, 1), a_report([noisy], 0.5, 2)], SETTING)
    forecast = forecast_run(prior, [noisy, dear, cheap], LOOKS, 0.05, lambda case: True)
    assert forecast is not None
    pace = RoundDuration(lambda case: True, fork_s={"cheap": 1.0, "dear": 2.0, "noisy": 0.1})
    assert settled_first([noisy, dear, cheap], forecast, pace) == [cheap, dear, noisy]


class MadeRounds:
    """Rounds with given samples: a case's n-th is always the same, whoever else is measured and when."""

    def __init__(self, changes: dict[str, float], case_s: float = 0.0) -> None:
        self.changes, self.case_s, self.first = changes, case_s, list[str]()
        self.made = dict[tuple[str, str], Iterator[float]]()

    def __call__(self, pool: PairPool, plan: Round, rng: random.Random, result: RoundResult) -> None:
        self.first = self.first or [one.case.id for one in plan.requests]
        for one in plan.requests:
            case_id, stage = one.case.id, one.stage
            draw = random.Random(f"{case_id} {stage}")
            noise = self.made.setdefault((case_id, stage), iter(lambda draw=draw: draw.gauss(0, 0.006), None))
            ratio = self.changes[case_id] + next(noise)
            made = PairSample(case_id, stage, plan.number, 1e3, 1e3 * (1 + ratio), ratio, 8, 100, 1)
            result.samples.append(made)
        result.wall_s = self.case_s * len(plan.requests)


def measured(
    monkeypatch: pytest.MonkeyPatch, prior: PriorRuns | None, rounds: MadeRounds, **order: Any
) -> tuple[MeasurementResult, list[Comparison], list[Progress]]:
    cases = [toy_case(name) for name in rounds.changes]
    told: list[Progress] = []
    monkeypatch.setitem(schedule.ROUNDS, "time", rounds)
    plan = MeasurementPlan(cases, LOOKS, 0.05, 1, prior_runs=prior, **order)
    findings = Schedule(toy_bench(), plan, told.append).run()
    return findings, compare_cases(cases, findings.samples, findings.failures, LOOKS, 0.05), told


@pytest.mark.parametrize("noise", [1e-5, 0.004, 0.3])
@pytest.mark.parametrize("budget", [None, 3600.0])
def test_no_verdict_depends_on_earlier_runs(
    monkeypatch: pytest.MonkeyPatch, noise: float, budget: float | None
) -> None:
    """Given the same samples, everything that is said of a case is the same, whatever its history."""
    changes = {"same": 0.0, "slow": 0.08, "fast": -0.06, "edge": 0.021, "open": 0.015, "other": 0.001}
    prior = learn([a_report([toy_case(name) for name in changes], noise)], SETTING)
    without, expected, _ = measured(monkeypatch, None, MadeRounds(changes), time_budget=budget)
    with_prior, found, told = measured(monkeypatch, prior, MadeRounds(changes), time_budget=budget)
    assert {one.verdict for one in expected} >= {"regressed", "improved", "unchanged"}

    def said(comparisons: Sequence[Comparison]) -> dict[str, dict[str, Any]]:
        rounds_apart = [{**asdict(one), "samples": [s.log_ratio for s in one.samples]} for one in comparisons]
        return {str(one["case"]): one for one in rounds_apart}

    assert said(found) == said(expected)
    assert with_prior.rounds == without.rounds
    assert all(one.end_s is not None for one in told)


def test_a_budget_too_short_for_all_brings_some_to_their_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are known before the first round: what can't be looked at in time isn't begun."""
    names = [f"c{number}" for number in range(10)]
    changes = dict.fromkeys(names, 0.0)
    prior = learn([a_report([toy_case(name) for name in names], 0.001)], SETTING)
    pace = prior.pace([toy_case(name) for name in names], lambda case: True)
    half_s = pace.seconds((toy_case(name), LOOKS.screening[0]) for name in names[:5])
    rounds = MadeRounds(changes)
    measured(monkeypatch, prior, rounds, time_budget=half_s + 0.5)
    assert 3 <= len(rounds.first) <= 7
    all_at_once = MadeRounds(changes)
    measured(monkeypatch, None, all_at_once, time_budget=half_s + 0.5)
    assert len(all_at_once.first) == 10


def test_costs_of_earlier_runs_never_keep_a_run_from_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have been those of a much busier host."""
    prior = learn([a_report([toy_case("a")], spent_s={"timed calls": 1e6})], SETTING)
    findings, _, _ = measured(monkeypatch, prior, MadeRounds({"a": 0.0}), time_budget=60.0)
    assert findings.samples["a"]
    assert findings.stopped is None
