"""Flagged cases measured again: what stays flagged, what doesn't, and what both measurements leave behind."""

import copy
import functools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from resumable_run import ListLog
from test_run import request
from toy_bench import toy_bench, toy_case

from opduel.comparator import RunAnalysis, plan_looks
from opduel.harness.checkpoint import Checkpoint, Verifying, from_text, to_text
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.planning.schedule import Schedule
from opduel.harness.run import run_ab
from opduel.harness.verification import FIRST_SHARE, Verifier, plan_first_measurement
from opduel.records import Case, Comparison, Report

LOOKS = plan_looks(6)
SHARE_SPENT = "the first measurement's share of the time budget was spent"


def slow(**inputs: Any) -> Case:
    return replace(toy_case("slow", slower=3, **inputs), threshold=0.3)


def same(name: str = "same") -> Case:
    return replace(toy_case(name), threshold=0.5)


def verified(*cases: Case, on_progress: Callable[[Progress], None] = lambda _: None, **changes: Any) -> Report:
    """A run that verifies, on a host of which nothing is asked."""
    run_request = request(*cases, max_rounds=6).configured(**{"busy_host": "report", "verify": True, **changes})
    return run_ab(run_request, on_progress)


@functools.cache
def replicated() -> tuple[Report, list[Progress]]:
    """A change that both measurements find, beside a case without one; and the progress that was reported."""
    progresses: list[Progress] = []
    return verified(slow(), same(), on_progress=progresses.append), progresses


def test_what_holds_twice_is_reported_with_both_measurements() -> None:
    report, progresses = replicated()
    case, other = report.comparisons
    again = case.verification
    assert (case.verdict, other.verdict) == ("regressed", "unchanged")
    assert other.verification is None
    assert again is not None
    assert (again.first, again.verdict) == ("regressed", "regressed")
    assert again.ratio is not None
    assert 2 < again.ratio < 4
    assert again.rounds == len(again.samples) >= LOOKS.counts[0]
    assert {sample.stage for sample in again.samples} == {"confirmation"}
    assert min(sample.round for sample in again.samples) > max(sample.round for sample in case.samples)
    assert report.run.rounds == 1 + max(sample.round for sample in again.samples)
    assert {progress.cases for progress in progresses if progress.verifying} == {1}
    assert not any(progress.outlook for progress in progresses if progress.verifying), "these cases have changed"
    assert [progress.elapsed_s for progress in progresses] == sorted(progress.elapsed_s for progress in progresses)
    assert progresses[-1].open_cases == 0
    assert report.run.complete is True
    assert report.run.wall_s >= progresses[-1].elapsed_s
    assert report.run.spent_s["timed calls"] == pytest.approx(report.run.timed_s)


def test_what_vanishes_is_not_reported(tmp_path: Path) -> None:
    neighbour = tmp_path / "neighbour"
    neighbour.touch()

    def leaves(progress: Progress) -> None:
        if progress.verifying:
            neighbour.unlink(missing_ok=True)

    report = verified(slow(slower_while=str(neighbour)), same(), on_progress=leaves, verify=True, verify_after=0.01)
    case, _ = report.comparisons
    assert case.verification is not None
    assert case.verification.first == "regressed"
    assert case.verification.verdict not in (None, "regressed", "improved")
    assert case.verdict == "inconclusive"
    assert case.note.startswith("regressed +")
    assert "not confirmed" in case.note
    assert case.ratio is not None
    assert case.ratio > 2, "the first measurement's figures are kept"


def test_an_injection_goes_on() -> None:
    report = verified(*(replace(toy_case(name), threshold=0.2) for name in "ab"), inject=0.9)
    (injected,) = [comparison for comparison in report.comparisons if comparison.injected]
    assert injected.verdict == "regressed"
    assert injected.verification is not None
    assert (injected.verification.ratio or 0) > 1.4
    assert all(comparison.verification is None for comparison in report.comparisons if not comparison.injected)


def test_sentinels_ride_along() -> None:
    report, _ = replicated()
    (aa_case,) = report.run.validity.aa_checks
    rounds = [sample.round for sample in aa_case.samples]
    last = max(sample.round for sample in report.comparisons[0].samples)
    assert min(rounds) <= last < max(rounds)
    assert sorted(set(rounds)) == rounds
    assert aa_case.rounds == len(rounds)


def test_nothing_flagged_nothing_measured_again() -> None:
    report = verified(same())
    assert report.host.verifying is None
    assert report.comparisons[0].verification is None
    assert report.run.verify_after == 0.0


def test_who_interrupts_the_wait_gets_what_was_measured() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.verifying:
            raise KeyboardInterrupt("stopped by SIGINT")

    report = verified(slow(), same(), on_progress=interrupt, verify=True, verify_after=60.0)
    case, other = report.comparisons
    assert (report.run.aborted, report.run.stop_reason) == (True, "stopped by SIGINT")
    assert (case.verdict, other.verdict) == ("inconclusive", "unchanged")
    assert case.note.endswith("not confirmed: not measured again: the run ended before")
    assert case.verification is not None
    assert case.verification.verdict is None


def test_an_interrupt_while_verifying_keeps_what_it_found() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.verifying:
            progresses.append(progress)
        if len(progresses) == 2:
            raise KeyboardInterrupt("stopped by SIGTERM")

    progresses: list[Progress] = []
    report = verified(slow(), on_progress=interrupt)
    (case,) = report.comparisons
    assert report.run.stop_reason == "stopped by SIGTERM"
    assert case.verdict == "inconclusive"
    assert case.verification is not None
    assert case.verification.rounds == 2
    assert "2 rounds are too few: a verdict takes 3" in case.note
    assert case.suspected == "regressed"
    assert case.forecast is not None
    assert case.forecast.rounds == 1


FIRST_PLAN = MeasurementPlan([slow()], LOOKS, alpha=0.05, seed=1)


@functools.cache
def measured_once() -> MeasurementResult:
    return Schedule(toy_bench(), FIRST_PLAN).run()


def first_measurement() -> tuple[MeasurementResult, list[Comparison]]:
    """Return the result of ``FIRST_PLAN``, which verifying changes, and the comparisons."""
    result = copy.deepcopy(measured_once())
    return result, RunAnalysis(FIRST_PLAN.cases, result.samples, result.failures, LOOKS).comparisons()


def test_the_first_measurement_leaves_time_for_the_second() -> None:
    assert plan_first_measurement(FIRST_PLAN) == FIRST_PLAN
    with_budget = replace(FIRST_PLAN, time_budget=100.0)
    assert plan_first_measurement(with_budget).time_budget == pytest.approx(100 * FIRST_SHARE)


def test_the_first_measurement_leaves_time_for_the_wait() -> None:
    first = plan_first_measurement(replace(FIRST_PLAN, time_budget=100.0), 40.0)
    assert first.time_budget == pytest.approx(60 * FIRST_SHARE)
    assert first.budget_words == "the first measurement's share of the time budget"


def test_a_spent_budget_leaves_suspects_unconfirmed() -> None:
    result, comparisons = first_measurement()
    assert comparisons[0].verdict == "regressed"
    verifier = Verifier(toy_bench(), replace(FIRST_PLAN, time_budget=5.0), time.monotonic() - 10, lambda _: None)
    (case,) = verifier.verify(result, comparisons)
    assert case.verdict == "inconclusive"
    assert result.stopped == "the time budget was spent while verifying"
    assert result.resumable, "with a larger budget"
    assert not result.aborted


def test_what_a_resumed_run_spent_before_it_verifies_on_counts() -> None:
    """It compares numbers again: 900 s were spent when the first measurement was over, and 200 s of this start."""
    result, comparisons = first_measurement()
    checkpoint = Checkpoint(ListLog([to_text(Verifying("r", 900.0, None))]), "r")
    again = replace(FIRST_PLAN, time_budget=1000.0, spent_s=200.0)
    verifier = Verifier(toy_bench(), again, time.monotonic(), lambda _: None, checkpoint=checkpoint)
    assert [case.verdict for case in verifier.verify(result, comparisons)] == ["inconclusive"]
    assert result.stopped == "the time budget was spent while verifying"
    assert result.wall_s >= 1100


def test_a_first_measurement_out_of_time_says_whose_share_that_was() -> None:
    first = plan_first_measurement(replace(FIRST_PLAN, time_budget=1e-3))
    result = Schedule(toy_bench(), first).run()
    assert result.stopped == "the first measurement's share of the time budget was spent"
    assert result.resumable


def test_a_verification_that_has_ended_closes_the_run_and_keeps_whose_share_was_spent() -> None:
    result, comparisons = first_measurement()
    result.stopped = SHARE_SPENT
    log = ListLog()
    verifier = Verifier(
        toy_bench(),
        replace(FIRST_PLAN, time_budget=1000.0),
        time.monotonic(),
        lambda _: None,
        checkpoint=Checkpoint(log, "r"),
    )
    assert result.resumable
    assert [case.verdict for case in verifier.verify(result, comparisons)] == ["regressed"]
    (verifying,) = [entry for entry in map(from_text, log.texts) if isinstance(entry, Verifying)]
    assert verifying.stopped == result.stopped == SHARE_SPENT
    assert not result.resumable


def test_a_case_that_crashes_the_second_time_is_not_confirmed() -> None:
    result, comparisons = first_measurement()
    crashing = replace(FIRST_PLAN, cases=[replace(slow(), operator="abort")])
    (case,) = Verifier(toy_bench(), crashing, time.monotonic(), lambda _: None).verify(result, comparisons)
    assert case.verdict == "inconclusive"
    assert "measured again it failed (killed by SIGABRT)" in case.note
    assert len(result.incidents) == 2
