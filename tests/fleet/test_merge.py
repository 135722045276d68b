"""Merging of shards' reports into that of the run, and the family of a run in which cases moved."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case, pairs
from report_samples import CONTROL, TREATMENT, report

from opduel.comparator import Looks, RunAnalysis, benjamini_hochberg, plan_looks
from opduel.fleet.merge import (
    NOT_MEASURED,
    HostReport,
    RunTiming,
    count_attempts,
    merge,
    report_of,
    with_problems_of_hosts,
)
from opduel.frameworks import get_framework
from opduel.harness.run_request import RunRequest
from opduel.records import Case, Failure, PairSample, Report, RunRecord
from opduel.records.run_record import SuiteRecord

LOOKS = plan_looks(30)
ALPHA = 0.05


def samples(case: Case, change: float, sd: float = 0.003) -> list[PairSample]:
    """Thirty around a change, all but the first two of them fresh."""
    log_ratios = [change + sd * (number % 7 - 3) for number in range(30)]
    return [*pairs(case.id, "screening", log_ratios[:2]), *pairs(case.id, "confirmation", log_ratios[2:])]


def shard(
    cases: Sequence[Case], changes: Sequence[float], other_comparisons: int, looks: Looks = LOOKS, **changed: Any
) -> Report:
    """Return a shard's report, of a run with so many comparisons elsewhere."""
    measured = {case.id: samples(case, change) for case, change in zip(cases, changes, strict=True)}
    failures = changed.pop("failures", {})
    comparisons = RunAnalysis(
        cases, measured, failures, looks, ALPHA, other_p_values=(1.0,) * other_comparisons
    ).comparisons()
    return replace(report(comparisons, **{"complete": True, **changed}), cases=tuple(cases))


def merged(parts: Sequence[tuple[str, Report]], cases: Sequence[Case]) -> Report:
    return merge([HostReport(host, part) for host, part in parts], cases, LOOKS, ALPHA)


def test_each_case_has_its_host_and_the_order_is_the_runs() -> None:
    cases = [a_case(name) for name in "abcd"]
    parts = [("one", shard([cases[1], cases[3]], [0.1, 0.0], 2)), ("two", shard([cases[0], cases[2]], [0.0, 0.0], 2))]
    merged_report = merged(parts, cases)
    assert [(comparison.case, comparison.host) for comparison in merged_report.comparisons] == [
        ("a", "two"),
        ("b", "one"),
        ("c", "two"),
        ("d", "one"),
    ]
    assert [comparison.verdict for comparison in merged_report.comparisons] == [
        "unchanged",
        "regressed",
        "unchanged",
        "unchanged",
    ]
    assert [host.name for host in merged_report.run.fleet.hosts] == ["one", "two"]
    assert (merged_report.control, merged_report.treatment) == (CONTROL, TREATMENT)


def test_what_a_shard_flags_is_flagged_whatever_the_others_come_to() -> None:
    cases = [a_case(f"c{number}") for number in range(40)]
    few = shard(cases[:2], [0.1, 0.0], 38)
    many = shard(cases[2:], [0.0] * 38, 2)
    assert few.comparisons[0].verdict == "regressed"
    merged_report = merged([("one", few), ("two", many)], cases)
    assert merged_report.comparisons[0].verdict == "regressed"
    assert merged_report.comparisons[0].q_value is not None
    assert merged_report.comparisons[0].q_value <= ALPHA


def a_part(own: Sequence[Case], changes: Sequence[float], other_comparisons: int, looks: Looks) -> Report:
    """Return a shard with these changes; so many further comparisons are made elsewhere."""
    measured = {case.id: samples(case, change, 0.006)[:5] for case, change in zip(own, changes, strict=True)}
    comparisons = RunAnalysis(own, measured, {}, looks, ALPHA, other_p_values=(1.0,) * other_comparisons).comparisons()
    return replace(report(comparisons, complete=True), cases=tuple(own))


def smallest_flagged(case: Case, looks: Looks) -> float:
    """Return the smallest change that is flagged where the case is the only one."""
    sizes = [size / 1000 for size in range(20, 400, 5)]
    return next(size for size in sizes if a_part([case], [size], 0, looks).comparisons[0].verdict == "regressed")


def test_the_correction_is_over_all_hosts() -> None:
    """A change that would be flagged alone isn't among many cases of other hosts; with changes there, it is."""
    looks = plan_looks(5)
    cases = [a_case(f"c{number}") for number in range(60)]

    alone = smallest_flagged(cases[0], looks)
    among_many = a_part(cases[:1], [alone], 59, looks)
    assert (among_many.comparisons[0].verdict, among_many.comparisons[0].finding) == ("inconclusive", None)
    for changes, finding in ((0.0, None), (0.5, "regressed")):
        parts = [HostReport("one", among_many), HostReport("two", a_part(cases[1:], [changes] * 59, 1, looks))]
        assert merge(parts, cases, looks, ALPHA).comparisons[0].finding == finding


def test_what_a_verification_has_not_confirmed_is_not_flagged_afterwards() -> None:
    cases = [a_case(f"c{number}") for number in range(2)]
    first = shard(cases[:1], [0.021], 1, configuration={"verify": True})
    assert first.comparisons[0].finding is None
    merged_report = merged([("one", first), ("two", shard(cases[1:], [0.5], 1))], cases)
    assert merged_report.comparisons[0].finding is None


def test_a_case_nobody_came_to_is_inconclusive_and_says_so() -> None:
    cases = [a_case("a"), a_case("b")]
    merged_report = merged([("one", shard(cases[:1], [0.0], 1))], cases)
    assert (merged_report.comparisons[1].verdict, merged_report.comparisons[1].note) == ("inconclusive", NOT_MEASURED)


def test_failures_count_as_ones_in_the_family() -> None:
    cases = [a_case("a"), a_case("b")]
    broken = {"b": Failure("treatment", "crash", "signal 11")}
    parts = [("one", shard(cases[:1], [0.1], 1)), ("two", shard(cases[1:], [0.1], 1, failures=broken))]
    merged_report = merged(parts, cases)
    assert [comparison.verdict for comparison in merged_report.comparisons] == ["regressed", "failed"]
    assert merged_report.comparisons[0].q_value == pytest.approx(2 * (merged_report.comparisons[0].p_value or 0.0))


def test_a_disturbed_host_is_named_and_its_verdicts_stay_as_they_are() -> None:
    cases = [a_case("a"), a_case("b")]
    disturbed = {"valid": False, "hold": True, "reasons": ["busy"], "aa_checks": []}
    parts = [
        ("one", shard(cases[:1], [0.0], 1, validity=disturbed)),
        ("two", shard(cases[1:], [0.0], 1, validity={"valid": True, "hold": True, "reasons": [], "aa_checks": []})),
    ]
    merged_report = merged(parts, cases)
    assert merged_report.run.validity.valid is False
    assert merged_report.run.validity.reasons == ("one: busy",)


def test_no_case_is_counted_twice() -> None:
    case = a_case("a")
    part = shard([case], [0.0], 0)
    with pytest.raises(ValueError, match="a was measured twice"):
        merged([("one", part), ("two", part)], [case])
    with pytest.raises(ValueError, match="no part"):
        merged([], [case])


def test_what_ended_a_part_early_is_said_of_the_whole() -> None:
    cases = [a_case("a"), a_case("b")]
    parts = [
        (
            "one",
            replace(shard(cases[:1], [0.0], 1), run=RunRecord(complete=False, stop_reason="the time is up", rounds=3)),
        ),
        ("two", replace(shard(cases[1:], [0.0], 1), run=RunRecord(complete=True, rounds=4))),
    ]
    merged_report = merged(parts, cases)
    assert (merged_report.run.complete, merged_report.run.stop_reason, merged_report.run.rounds) == (
        False,
        "the time is up",
        7,
    )


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=8), min_size=1, max_size=6))
def test_no_host_flags_what_all_together_do_not(hosts: list[list[float]]) -> None:
    """With p = 1 for the comparisons elsewhere, as ``Job.other_comparisons`` has it."""
    everything = [p for own in hosts for p in own]
    together = iter(benjamini_hochberg(everything))
    for own in hosts:
        alone = benjamini_hochberg([*own, *(1.0 for _ in range(len(everything) - len(own)))])[: len(own)]
        assert all(next(together) <= q + 1e-12 for q in alone)


def test_cases_that_were_begun_twice_are_two_in_the_family() -> None:
    """What is flagged with the other comparisons alone, and not with the attempts that were given up, is withdrawn."""
    looks = plan_looks(5)
    cases = [a_case(f"c{number}") for number in range(30)]
    sizes = [size / 1000 for size in range(20, 400)]

    def part(size: float) -> Report:
        changes = [size] + [0.0] * 29
        measured = {case.id: samples(case, change, 0.006)[:5] for case, change in zip(cases, changes, strict=True)}
        return replace(
            report(RunAnalysis(cases, measured, {}, looks, ALPHA).comparisons(), complete=True), cases=tuple(cases)
        )

    flagged = next(candidate for candidate in map(part, sizes) if candidate.comparisons[0].verdict == "regressed")
    q_value = flagged.comparisons[0].q_value or 0.0
    for given_up in (0, 3, 60):
        merged_report = merge([HostReport("one", flagged)], cases, looks, ALPHA, given_up=given_up).comparisons[0]
        assert merged_report.q_value == pytest.approx(q_value * (30 + given_up) / 30)
        assert merged_report.verdict == ("regressed" if merged_report.q_value <= ALPHA else "inconclusive")
    assert (merged_report.verdict, merged_report.suspected) == ("inconclusive", "regressed")
    both = merge([HostReport("one", flagged)], cases, looks, ALPHA, other_comparisons=30, given_up=3).comparisons[0]
    assert both.q_value == pytest.approx(q_value * 63 / 30), "those of other kinds of host count, too"
    assert merge([HostReport("one", flagged)], cases, looks, ALPHA, given_up=3).run.fleet.given_up == 3
    assert merged_report.note.startswith("regressed if no case had been begun on two hosts")


def test_a_part_that_lost_its_open_cases_is_not_weighed_again() -> None:
    looks = plan_looks(5)
    cases = [a_case(f"c{number}") for number in range(60)]

    alone = smallest_flagged(cases[0], looks)
    few, many = a_part(cases[:1], [alone], 59, looks), a_part(cases[1:], [0.5] * 59, 1, looks)
    for is_whole, finding in ((True, "regressed"), (False, None)):
        parts = [HostReport("one", few, is_whole), HostReport("two", many)]
        assert merge(parts, cases, looks, ALPHA).comparisons[0].finding == finding


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=2, max_size=4), st.integers(0, 9))
def test_attempts_that_were_given_up_are_ones(hosts: list[list[float]], given_up: int) -> None:
    """What a shard that knew of the attempts flags, all together flag."""
    everything = [p for own in hosts for p in own] + [1.0] * given_up
    together = iter(benjamini_hochberg(everything))
    for own in hosts:
        alone = benjamini_hochberg([*own, *(1.0,) * (len(everything) - len(own))])[: len(own)]
        assert all(next(together) <= q + 1e-12 for q in alone)


@pytest.mark.parametrize(("counted", "low", "high"), [(True, 0.03, 0.06), (False, 0.08, 0.11)])
def test_a_second_chance_is_paid_for(counted: bool, low: float, high: float) -> None:
    """Nothing has changed, and all cases that the first host doesn't flag move: the worst that a choice by interim
    results can do.  How often anything is flagged, with and without the attempts that were given up in the family."""
    rng, runs, cases = random.Random(1), 4000, 20
    wrong = 0
    for _ in range(runs):
        first, second = ([rng.random() for _ in range(cases)] for _ in range(2))
        stay = [p <= ALPHA / cases for p in first]
        final = [
            first_value if stays else second_value
            for first_value, second_value, stays in zip(first, second, stay, strict=True)
        ]
        given_up = stay.count(False) if counted else 0
        wrong += min(benjamini_hochberg([*final, *(1.0,) * given_up])) <= ALPHA
    assert low < wrong / runs < high


def test_what_is_wrong_with_a_suite_names_the_hosts_on_which_it_is() -> None:
    cases = [a_case(name) for name in "abc"]
    first_problem, own = "x: cannot be imported", "control: setup_cache of one.A: OSError: no data set"
    parts = [
        HostReport(host, shard([case], [0.0], 2, suite={"name": "s", "problems": problems}))
        for host, case, problems in zip(
            "oto", cases, ([first_problem], [first_problem, own], [first_problem, own]), strict=True
        )
    ]
    suite = with_problems_of_hosts(SuiteRecord(name="s", problems=(first_problem,)), parts)
    assert suite == SuiteRecord(name="s", problems=(first_problem, f"t, o: {own}"))


def request_of(cases: int, kinds: int) -> Any:
    return SimpleNamespace(cases=[SimpleNamespace(metric="time")] * cases, other_comparisons=(kinds - 1) * cases)


@pytest.mark.parametrize(("cases", "kinds", "given_up"), [(30, 1, 4), (30, 2, 4), (7, 5, 3), (1, 3, 1), (40, 4, 0)])
def test_the_levels_of_all_kinds_add_up_to_alpha(cases: int, kinds: int, given_up: int) -> None:
    """Each kind's level is alpha times the share of the family that its own attempts are."""
    request = request_of(cases, kinds)
    family = cases + request.other_comparisons + count_attempts(request, given_up)
    assert kinds * (cases + given_up) / family == pytest.approx(1)


@pytest.mark.parametrize(
    ("log", "stopped", "parts", "resumable"),
    [
        (True, None, [{"complete": False, "resumable": True}, {"complete": True, "resumable": True}], True),
        (True, None, [{"complete": True, "resumable": True}], False),
        (True, None, [{"complete": False, "resumable": False}], False),
        (True, "no host was there", [{"complete": True, "resumable": True}], True),
        (False, "no host was there", [{"complete": False, "resumable": True}], False),
    ],
)
def test_a_run_is_resumable_where_a_host_would_go_on(
    log: bool, stopped: str | None, parts: list[dict[str, Any]], resumable: bool
) -> None:
    """The log is kept then: a longer time budget continues what the earlier one cut short."""
    cases = [a_case(f"c{number}") for number in range(len(parts))]
    log_or_none: Any = SimpleNamespace() if log else None
    request = RunRequest(get_framework("python"), CONTROL, TREATMENT, cases, 1, log=log_or_none)
    looks = plan_looks(request.max_rounds)
    reports = [
        replace(report(RunAnalysis([case], {}, {}, looks).comparisons(), **run), cases=(case,))
        for case, run in zip(cases, parts, strict=True)
    ]
    course = RunTiming(datetime.now(UTC), 1.0, stopped, False)
    merged_report = report_of(request, [HostReport("one", each) for each in reports], course, 0)
    assert merged_report.run.resumable is resumable


def test_where_some_rows_failed_elsewhere_it_is_no_less() -> None:
    request = request_of(30, 3)
    request.other_comparisons -= 7
    family = 30 + request.other_comparisons + count_attempts(request, 5)
    assert (30 + 5 + 53 + 2 * 5) / family <= 1
