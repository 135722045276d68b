"""Runs that are cut short, by a signal or by SIGKILL, and resumed: what is taken over, and what is not."""

import math
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from forked import Forked
from resumable_run import FileLog, ListLog, kept_samples, logged_request, run, same, samples, slow, stop_at
from toy_bench import toy_bench, toy_case
from watching import Watch

import opduel.harness.rounds.pair
from opduel.comparator import plan_looks
from opduel.harness.checkpoint import Checkpoint, Start, StoredRound, Verifying, from_text, to_text
from opduel.harness.collector import FAILED_STARTS
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult, Progress
from opduel.harness.numerics import output_check
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.pair_pool import PairPool
from opduel.harness.run import InterruptedRunError, run_ab
from opduel.records import Failure, PairSample

HERE = Path(__file__).parent
LOOKS = plan_looks(6)


@pytest.fixture
def no_process(watch: Watch) -> None:
    watch.starting.append(lambda *_: pytest.fail("a process was started"))


def test_a_log_that_settles_every_case_gives_the_report_without_a_process(request: pytest.FixtureRequest) -> None:
    log = ListLog()
    first = run_ab(logged_request(log, slow(), same(), toy_case("bad", "refuse"), verify=True, verify_after=0.0))
    request.getfixturevalue("no_process")
    second = run_ab(logged_request(log, slow(), same(), toy_case("bad", "refuse"), verify=True, verify_after=600.0))
    assert second.comparisons == first.comparisons
    assert {comparison.verdict for comparison in second.comparisons} == {"regressed", "unchanged", "failed"}
    fields = {
        "id",
        "started",
        "rounds",
        "timed_s",
        "spent_s",
        "incidents",
        "complete",
        "resumable",
        "stop_reason",
        "aborted",
    }
    assert {key: getattr(first.run, key) for key in fields} == {key: getattr(second.run, key) for key in fields}
    assert first.run.validity.aa_checks == second.run.validity.aa_checks != ()
    assert (first.run.resumed, second.run.resumed) == ((), (first.run.rounds,))
    assert first.host.verifying.seconds >= second.host.verifying.seconds >= 0  # rounded


def test_a_signal_is_reported_and_the_next_start_goes_on() -> None:
    log = ListLog()
    first = run_ab(logged_request(log, same("a"), same("b")), stop_at(2))
    assert (first.run.interrupted, first.run.aborted, first.run.stop_reason) == (
        True,
        True,
        "stopped by SIGTERM",
    )
    before = log.stored_rounds()
    assert kept_samples(before) == set(samples(first))
    assert first.run.resumable
    progresses: list[Progress] = []
    second = run_ab(logged_request(log, same("a"), same("b")), progresses.append)
    assert (second.run.interrupted, second.run.aborted, second.run.complete) == (False, False, True)
    assert (second.run.id, second.run.started) == (first.run.id, first.run.started)
    assert second.run.resumed == (2,)
    assert progresses[0].rounds == 2
    assert kept_samples(before) < kept_samples(log.stored_rounds()) == set(samples(second))
    assert [stored.number for stored in log.stored_rounds()] == list(range(second.run.rounds))
    assert second.run.wall_s > first.run.wall_s
    assert second.run.timed_s == pytest.approx(sum(stored.result.timed_s for stored in log.stored_rounds()))
    assert second.run.wall_s >= log.stored_rounds()[-1].elapsed_s > before[-1].elapsed_s
    watched = before[-1].noise
    assert watched is not None
    assert second.host.during.samples > watched.samples


def test_a_resumed_run_makes_choices_of_its_own(watch: Watch) -> None:
    paddings: list[int] = []
    watch.starting.append(lambda _, environment: paddings.append(len(environment["OPDUEL_PADDING"])))
    log = ListLog()
    drawn = []
    for rounds in (1, 2, 99):
        paddings.clear()
        run_ab(logged_request(log, same()), stop_at(rounds))
        drawn.append(paddings[:2])
    assert len({tuple(some) for some in drawn}) == 3


def test_a_round_that_a_signal_cuts_short_is_kept_in_whole_samples(watch: Watch) -> None:
    watch.interrupt("turns", processes=4)
    log, cases = ListLog(), [same(name) for name in "abcd"]
    first = run_ab(logged_request(log, *cases, sentinels=0))
    (stored,) = log.stored_rounds()
    assert set(samples(first)) == set(stored.result.samples)
    assert len(stored.result.samples) == 2
    assert all(sample.blocks > 0 and math.isfinite(sample.log_ratio) for sample in stored.result.samples)
    assert len(stored.unmeasured) == 2
    second = run_ab(logged_request(log, *cases, sentinels=0))
    assert second.run.complete
    assert set(stored.result.samples) < set(samples(second))


def test_a_signal_while_a_pair_ends_costs_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    retire = PairPool.retire

    def interrupt(*arguments: Any) -> None:
        monkeypatch.undo()
        retire(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(PairPool, "retire", interrupt)
    before = psutil.Process().children()  # another file's browser, perhaps
    report = run_ab(logged_request(None, same("a"), same("b")))
    assert report.run.interrupted
    assert [comparison.rounds for comparison in report.comparisons] == [1, 1]
    children = [child for child in psutil.Process().children() if child not in before]
    assert not [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


def test_who_interrupts_before_anything_is_measured_is_distinguished(watch: Watch) -> None:
    log = ListLog()
    watch.interrupt("turns")
    with pytest.raises(InterruptedRunError, match=r"nothing was measured: stopped by SIGTERM"):
        run_ab(logged_request(log, same()))
    report = run_ab(logged_request(log, same()))
    assert report.run.complete
    assert report.run.resumed == (1,), "the round that was cut short has its number"


def test_what_a_case_has_cost_is_remembered() -> None:
    log, cases = ListLog(), (toy_case("bad", "abort"), same())
    first = run_ab(logged_request(log, *cases, sentinels=0), stop_at(1))
    assert first.comparisons[0].failure is None
    second = run_ab(logged_request(log, *cases, sentinels=0))
    assert second.comparisons[0].verdict == "failed"
    assert [incident.case_id for incident in second.run.incidents] == ["bad", "bad"]
    assert second.run.incidents[:1] == first.run.incidents


def test_a_run_that_gave_up_gives_up_again(no_process: None) -> None:
    failure = Failure("control", "start", "could not be started", "no such library")
    log = ListLog()
    checkpoint = Checkpoint(log, "r")
    for number in range(FAILED_STARTS):
        plan = opduel.harness.rounds.pair.Round([], number)
        checkpoint.phase("first").keep(opduel.harness.rounds.pair.RoundResult(lost_worker=failure), plan, 1.0)
    measured = scheduled(log, MeasurementPlan([same()], LOOKS, 0.05, 1))
    assert (measured.aborted, measured.interrupted) == (True, False)
    assert "could not be started 3 times in a row" in str(measured.stopped)
    assert len(measured.incidents) == FAILED_STARTS


def scheduled(log: ListLog, plan: MeasurementPlan) -> MeasurementResult:
    return Schedule(toy_bench(), plan, checkpoint=Checkpoint(log, "r").phase("first")).run()


def test_the_time_of_earlier_parts_counts(no_process: None) -> None:
    log = ListLog()
    sample = PairSample("same", "screening", 0, 1.0, 1.0, 0.0, 1, 1)
    result = opduel.harness.rounds.pair.RoundResult([sample], wall_s=99.0)
    plan = opduel.harness.rounds.pair.Round([], 0)
    Checkpoint(log, "r").phase("first").keep(result, plan, 100.0)
    measured = scheduled(log, MeasurementPlan([same()], LOOKS, 0.05, 1, time_budget=101.0))
    assert measured.stopped == "the time budget was spent"
    assert not measured.aborted
    assert measured.samples["same"] == [sample]
    assert measured.wall_s >= 100


def test_a_verification_is_resumed() -> None:
    """Its rounds are kept apart from the first measurement's, which is not taken up again; nobody waits twice."""

    def interrupt(progress: Progress) -> None:
        if progress.verifying and progress.rounds > len(first_rounds(log)) + 1:
            raise KeyboardInterrupt("stopped by SIGTERM")

    log, cases = ListLog(), (slow(), same())
    first = run_ab(logged_request(log, *cases, verify=True, verify_after=0.0, sentinels=1), interrupt)
    assert first.run.interrupted
    assert first.comparisons[0].verdict == "inconclusive"
    before = log.stored_rounds()
    second = run_ab(logged_request(log, *cases, verify=True, verify_after=600.0, sentinels=1))
    case = second.comparisons[0]
    assert second.run.complete
    assert case.verdict == "regressed"
    assert case.verification is not None
    assert case.samples == first.comparisons[0].samples
    assert [stored.phase for stored in log.stored_rounds()] == ["first"] * len(first_rounds(log)) + ["verify"] * (
        len(log.stored_rounds()) - len(first_rounds(log))
    )
    assert kept_samples(before) < kept_samples(log.stored_rounds()) == set(samples(second))
    assert [stored.number for stored in log.stored_rounds()] == list(range(second.run.rounds))
    assert second.run.wall_s >= log.stored_rounds()[-1].elapsed_s + first_rounds(log)[-1].elapsed_s


@pytest.mark.parametrize("budget", [None, 1000.0])
def test_a_first_measurement_that_ran_out_of_time_is_over_when_the_verification_is(
    budget: float | None, request: pytest.FixtureRequest
) -> None:
    """A larger budget, or none, doesn't take it up again: the run is as complete as it can be, and says so."""
    share = "the first measurement's share of the time budget was spent"
    log = ListLog()
    run_ab(logged_request(log, slow(), verify=True, verify_after=0.0, sentinels=0))
    verifying = next(entry for entry in map(from_text, log.texts) if isinstance(entry, Verifying))
    log.texts[log.texts.index(to_text(verifying))] = to_text(replace(verifying, stopped=share))
    request.getfixturevalue("no_process")
    report = run_ab(logged_request(log, slow(), verify=True, verify_after=0.0, sentinels=0, time_budget=budget))
    assert [comparison.verdict for comparison in report.comparisons] == ["regressed"]
    assert (report.run.complete, report.run.resumable, report.run.aborted) == (False, False, False)
    assert report.run.stop_reason == share


def test_numbers_that_were_not_come_to_do_not_end_the_measurement_for_good() -> None:
    log = ListLog()
    numbers = replace(toy_case("numbers/error"), metric="error", threshold=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_check, "OUTPUT_CHECK_SHARE", 0.0)
        first = run_ab(
            logged_request(log, slow(), numbers, verify=True, verify_after=0.0, sentinels=0, time_budget=1000.0)
        )
    assert [comparison.verdict for comparison in first.comparisons] == ["regressed", "inconclusive"]
    assert (first.run.stop_reason, first.run.resumable) == ("the time budget was spent", True)
    second = run_ab(
        logged_request(log, slow(), numbers, verify=True, verify_after=0.0, sentinels=0, time_budget=1000.0)
    )
    assert [comparison.verdict for comparison in second.comparisons] == ["regressed", "unchanged"]
    assert (second.run.complete, second.run.resumable) == (True, False)


@pytest.mark.parametrize(("verifying", "left_s"), [(False, 100.0), (True, 60.0)])
def test_numbers_get_half_of_what_earlier_starts_left_of_the_budget(
    verifying: bool, left_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, cases = ListLog(), (same(), replace(toy_case("numbers/error"), metric="error", threshold=0.0))
    run_ab(logged_request(log, *cases, sentinels=0), stop_at(1))
    (stored,) = log.stored_rounds()
    stored = replace(stored, elapsed_s=900.0)
    log.texts[-1] = to_text(stored)
    if verifying:
        again = replace(stored, phase="verify", number=1, elapsed_s=30.0)
        log.texts += [to_text(Verifying(stored.run, 910.0, None)), to_text(again)]
    limits_s: list[float] = []

    class Late(output_check.OutputCheck):
        def __init__(self, bench: Any, seed: Any, can_fork: Any, deadline: float, *more: Any) -> None:
            limits_s.append(deadline - time.monotonic())
            super().__init__(bench, seed, can_fork, deadline, *more)

    monkeypatch.setattr(output_check, "OutputCheck", Late)
    run_ab(logged_request(log, *cases, sentinels=0, time_budget=1000.0), stop_at(2))
    assert limits_s == [pytest.approx(left_s / 2, abs=1)]


def first_rounds(log: ListLog) -> list[StoredRound]:
    return [stored for stored in log.stored_rounds() if stored.phase == "first"]


def test_kill_9_at_random_loses_no_kept_round_and_doubles_none(tmp_path: Path) -> None:
    """Started again and again, each time killed a moment after it has kept some more, and at last left alone."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    path, rng = tmp_path / "log", random.Random(seed)
    log = FileLog(path)
    durable: list[str] = []
    for _ in range(4):
        kill_run(path, rng.randrange(3), rng.uniform(0, 0.4))
        texts = log.rounds()
        assert texts[: len(durable)] == durable
        durable = texts
    if rng.random() < 0.5:  # as a kill in the middle of a write leaves it
        with path.open("a", encoding="utf-8") as file:
            file.write('{"kind": "round", "nu')
    report = run(path)
    entries = [entry for entry in map(tolerant, log.rounds()) if entry]
    rounds = [entry for entry in entries if isinstance(entry, StoredRound)]
    starts = [entry for entry in entries if isinstance(entry, Start)]
    assert log.rounds()[: len(durable)] == durable
    assert [stored.number for stored in rounds] == list(range(report.run.rounds))
    assert kept_samples(rounds) == set(samples(report))
    assert len(samples(report)) == len(set(samples(report)))
    assert (report.run.id, report.run.started) == (starts[0].id, starts[0].started)
    assert report.run.resumed == tuple(start.round for start in starts[1:])
    verdicts = {comparison.case: comparison.verdict for comparison in report.comparisons}
    assert verdicts == {"slow": "regressed", "same": "unchanged", "bad": "failed"}
    assert run(path).comparisons == report.comparisons


def kill_run(path: Path, more: int, later_s: float) -> None:
    """Start a run; kill it once it has kept so many more texts and a moment has passed, if it has not ended."""
    lines = len(FileLog(path).rounds()) + more
    command = [sys.executable, HERE / "resumable_run.py", path]
    with Forked(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(FileLog(path).rounds()) < lines:
            time.sleep(0.01)
        time.sleep(later_s)
        process.kill()


def tolerant(text: str) -> Any:
    """None for half a text."""
    try:
        return from_text(text)
    except ValueError:
        return None
