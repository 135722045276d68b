"""The log of a run: what its texts hold, and what becomes of those that are damaged, doubled or another run's."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from resumable_run import ListLog, logged_request, same, samples, slow, stop_at

import opduel.harness.rounds.pair
from opduel.comparator import plan_looks
from opduel.harness.checkpoint import Checkpoint, StoredRound, Verifying, from_text, to_text
from opduel.harness.machine.host import HostMonitor
from opduel.harness.measurement_plan import MeasurementPlan
from opduel.harness.run import run_ab
from opduel.records import Failure, PairSample, Report
from opduel.records.host_record import MeasureRecord, NoiseRecord

LOOKS = plan_looks(6)


def test_an_entry_survives_whatever_its_numbers_and_words() -> None:
    sample = PairSample("a", "confirmation", 3, math.inf, 0.1 + 0.2, -math.inf, 2, 5, 1)
    failure = Failure("both", "error", "line\nfeed\u2028\udc80", "\x00\x1b")
    inner = opduel.harness.rounds.pair.RoundResult(mhz=[2500.0, 1e-300], refused={"a": failure})
    result = opduel.harness.rounds.pair.RoundResult([sample], lost={"b": failure}, lost_worker=failure, aa_result=inner)
    noise = NoiseRecord(samples=3, seconds=0.5, load=MeasureRecord(min=0.0, max=math.inf, mean=1.0))
    planned = (("a", "confirmation"), ("b", "screening"))
    entry = StoredRound("r", "verify", 3, True, planned, ("a",), planned[1:], result, 1.5, noise)  # type: ignore[arg-type]
    text = to_text(entry)
    assert "\n" not in text
    read = from_text(text)
    printable = Failure("both", "error", "line\nfeed\u2028?", "\x00\x1b")
    inner.refused["a"] = result.lost["b"] = result.lost_worker = printable
    assert read == entry
    nan = replace(entry, result=replace(result, samples=[replace(sample, log_ratio=math.nan)]))
    back = from_text(to_text(nan))
    assert isinstance(back, StoredRound)
    assert math.isnan(back.result.samples[0].log_ratio)
    assert from_text(to_text(Verifying("r", 2.5, None))) == Verifying("r", 2.5, None)


def damage(text: str, kind: str) -> str:
    document = json.loads(text)
    if kind == "half":
        return text[: len(text) // 2]
    if kind == "stage":
        document["planned"][0][1] = "later"
    elif kind == "number":
        document["result"]["samples"][0]["control"] = "12"
    elif kind == "noise":
        del document["noise"]["load"]["mean"]
    elif kind == "time":
        document["elapsed_s"] = -1.0
    elif kind == "null":
        return "null"
    elif kind == "empty":
        return ""
    elif kind == "case":
        document["result"]["samples"][0]["case_id"] = "elsewhere"
    return json.dumps(document)


@pytest.fixture(scope="module")
def stopped() -> tuple[Report, tuple[str, ...]]:
    """A run that was stopped after three rounds, and the texts of its log."""
    log = ListLog()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opduel.harness.rounds.pair, "MOST_FORKS", 1)
        report = run_ab(logged_request(log, same()), stop_at(3))
    return report, tuple(log.texts)


@pytest.mark.parametrize("kind", ["half", "stage", "number", "noise", "time", "null", "empty", "case"])
def test_a_damaged_text_costs_its_round_alone(
    kind: str, stopped: tuple[Report, tuple[str, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    start, *texts = stopped[1]
    damaged = [start, texts[0], damage(texts[1], kind), texts[2]]
    order = MeasurementPlan([same()], LOOKS, 0.05, 11, aa_count=1)
    checkpoint = Checkpoint(ListLog(damaged), from_text(start).run)
    rounds = checkpoint.phase("first").rounds(order)
    assert [stored.number for stored in rounds] == [0, 2]
    assert len(caplog.records) == 1
    assert "skipped" in caplog.text


def test_a_text_that_was_kept_twice_counts_once() -> None:
    """A signal while a text is being kept: it is kept again, as nobody knows how far it came."""

    class Interrupted(ListLog):
        def keep(self, text: str) -> None:
            super().keep(text)
            if len(self.texts) == 3:
                raise KeyboardInterrupt("stopped by SIGINT")

    log = Interrupted()
    first = run_ab(logged_request(log, same()))
    assert (first.run.interrupted, first.run.rounds) == (True, 2)
    assert [stored.number for stored in log.stored_rounds()] == [0, 1, 1]
    second = run_ab(logged_request(log, same()))
    assert second.run.complete
    assert [sample.round for sample in samples(second)] == list(range(second.run.rounds))


@pytest.mark.parametrize(
    "changes",
    [{"seed": 12}, {"alpha": 0.1}, {"cases": [same(), same("other")]}, {"max_rounds": 7}],
)
def test_a_log_of_another_run_is_passed_over(
    changes: dict[str, Any], stopped: tuple[Report, tuple[str, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    first, texts = stopped
    log, foreign = ListLog(texts), len(texts)
    configured = {name: value for name, value in changes.items() if name in ("alpha", "max_rounds")}
    changed_fields = {name: value for name, value in changes.items() if name not in configured}
    second = run_ab(replace(logged_request(log, same(), **configured), **changed_fields))
    assert f"{foreign} of {foreign} entries are of other cases, builds or settings" in caplog.text
    assert second.run.resumed == ()
    assert second.run.id != first.run.id
    assert not set(samples(first)) & set(samples(second))


def test_a_label_of_its_cases_makes_it_no_other_run(stopped: tuple[Report, tuple[str, ...]]) -> None:
    """A label decides nothing that is measured."""
    first, texts = stopped
    second = run_ab(replace(logged_request(ListLog(texts), same()), cases=[replace(same(), category="spec")]))
    assert second.run.id == first.run.id
    assert set(samples(first)) <= set(samples(second))


def test_a_full_disk_costs_no_result(caplog: pytest.LogCaptureFixture) -> None:
    class Full(ListLog):
        def keep(self, text: str) -> None:
            raise OSError(28, "No space left on device")

    report = run_ab(logged_request(Full(), same()))
    assert report.run.complete
    assert "No space left on device" in caplog.text


def test_a_fault_of_the_log_ends_the_run_with_what_was_measured() -> None:
    class Faulty(ListLog):
        def keep(self, text: str) -> None:
            super().keep(text)
            if len(self.texts) == 3:
                raise ValueError("journal closed")

    report = run_ab(logged_request(Faulty(), same()))
    assert (report.run.aborted, report.run.interrupted) == (True, False)
    assert report.run.stop_reason == "ValueError: journal closed"
    assert len(samples(report)) == 2


def test_rounds_of_a_verification_whose_beginning_is_lost_are_not_taken_for_the_first_measurement() -> None:
    log = ListLog()
    run_ab(logged_request(log, slow(), verify=True, verify_after=0.0))
    texts = [text for text in log.texts if not isinstance(from_text(text), Verifying)]
    checkpoint = Checkpoint(ListLog(texts), from_text(texts[0]).run)
    assert checkpoint.parts("verify") == []
    assert sum(map(len, checkpoint.parts("first"))) == len(
        [stored for stored in log.stored_rounds() if stored.phase == "first"]
    )


class OnceSeen(HostMonitor):
    """A host on which this was going on for so many seconds."""

    def __init__(self, seconds: float, neighbours: float) -> None:
        spread = MeasureRecord(min=0.0, max=2 * neighbours, mean=neighbours)
        self.noise_seen = NoiseRecord(samples=2, seconds=seconds, neighbours=spread)

    def sample(self) -> None: ...

    @property
    def during(self) -> NoiseRecord:
        return self.noise_seen


def test_noise_is_that_of_all_parts() -> None:
    """Of each process up to its last round: the later entries of one tell of the time of those before, too."""
    log = ListLog()
    for part, noises in enumerate([[(10.0, 0.9), (30.0, 0.5)], [(30.0, 0.1)]]):
        checkpoint = Checkpoint(log, "r")
        checkpoint.begin("id", "now")
        for number, (seconds, mean) in enumerate(noises):
            phase = checkpoint.phase("first", OnceSeen(seconds, mean))
            phase.keep(
                opduel.harness.rounds.pair.RoundResult(),
                opduel.harness.rounds.pair.Round([], 2 * part + number),
                1.0,
            )
    noise = Checkpoint(log, "r").phase("first", OnceSeen(60.0, 0.2)).noise()
    assert noise is not None
    assert (noise.samples, noise.seconds, noise.stolen) == (6, 120, None)
    mean = (30 * 0.5 + 30 * 0.1 + 60 * 0.2) / 120
    assert noise.neighbours == MeasureRecord(min=0.0, max=1.0, mean=pytest.approx(mean))
