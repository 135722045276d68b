"""Which side a failure is reported: never the treatment's alone, when the control fails as well."""

import random
from dataclasses import replace

import pytest
from asked_sides import asked_pair, failure
from resumable_run import ListLog
from toy_bench import toy_bench, toy_case

from opduel.comparator import Looks, RunAnalysis
from opduel.harness.checkpoint import Checkpoint
from opduel.harness.measurement_plan import MeasurementPlan, MeasurementResult
from opduel.harness.planning.schedule import Schedule
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.worker_errors import AskError, CaseLostError, CaseRefusedError, WorkerLostError
from opduel.harness.rounds.block_plan import BlockPlan
from opduel.harness.rounds.blocks import OTHER_BLOCKS, BlockTimer
from opduel.harness.rounds.counter_round import at_once
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Comparison, PairSample
from opduel.records.measurement import SIDES, Side

CASE = replace(toy_case("a"), threshold=0.5)
LOOKS = Looks((3, 6))
PLAN = BlockPlan(1, dict.fromkeys(SIDES, 5), dict.fromkeys(SIDES, 1), quads=4, takes_ns=1e9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("error", [CaseRefusedError, CaseLostError, WorkerLostError])
def test_when_one_side_fails_the_other_is_asked(error: type[AskError], seed: int) -> None:
    """Also in the midst of blocks, and when a worker is lost: then there is no fork, and each case has its own pair."""
    rng, call_ns = random.Random(seed), dict.fromkeys(SIDES, 100.0)

    for run, answers, later in (
        (lambda pair: BlockTimer(pair, CASE, rng).settle(call_ns), 0, OTHER_BLOCKS - 1),  # type: ignore[arg-type]
        (lambda pair: BlockTimer(pair, CASE, rng).measure_blocks(PLAN), 5, OTHER_BLOCKS - 1),
    ):
        for pair, side in (
            (asked_pair(error, answers, answers), "both"),
            (asked_pair(error, answers, answers + later), "both"),
            (asked_pair(error, answers, 100), "control"),
            (asked_pair(error, 100, answers), "treatment"),
        ):
            with pytest.raises(error) as raised:
                run(pair)
            assert raised.value.failure.side == side
            assert max(process.blocks for process in pair.values()) <= answers + 1 + OTHER_BLOCKS


def test_both_sides_are_asked_at_once_though_a_worker_is_lost() -> None:
    for control, treatment, side in ((0, 0, "both"), (0, 1, "control"), (1, 0, "treatment")):
        pair = asked_pair(WorkerLostError, control, treatment)
        with pytest.raises(WorkerLostError) as raised:
            at_once({part: pair[part].asking({}, 1.0) for part in SIDES})
        assert raised.value.failure.side == side


def resumed(*results: RoundResult) -> tuple[MeasurementResult, Comparison]:
    """A run that takes these rounds from its log and has no time for another."""
    log = ListLog()
    for number, round_result in enumerate(results):
        Checkpoint(log, "r").phase("first").keep(round_result, Round([CaseRequest(CASE, 1)], number, False), 1.0)
    order = MeasurementPlan([CASE], LOOKS, alpha=0.05, seed=1, time_budget=0.5)
    result = Schedule(toy_bench(), order, checkpoint=Checkpoint(log, "r").phase("first")).run()
    return result, RunAnalysis([CASE], result.samples, result.failures, LOOKS, 0.05).comparisons()[0]


def lost(side: Side, kind: str = "crash") -> RoundResult:
    return RoundResult(lost={"a": failure(side, kind, f"{kind} of the {side}")})


def refused(side: Side) -> RoundResult:
    return RoundResult(refused={"a": failure(side, "error", f"ValueError on the {side}")})


MEASURED = RoundResult([PairSample("a", "screening", 0, 100.0, 100.0, 0.0, 1, 16, 16)])


@pytest.mark.parametrize(
    ("results", "side", "aborted"),
    [
        ([lost("control"), MEASURED, lost("treatment")], "both", False),
        ([lost("treatment"), MEASURED, lost("control")], "both", False),
        ([lost("treatment"), lost("treatment")], "treatment", True),
        ([lost("treatment", "killed"), lost("treatment")], "treatment", False),
        ([lost("control"), refused("treatment")], "both", False),
        ([refused("treatment")], "treatment", True),
        ([MEASURED, refused("treatment"), refused("treatment")], "treatment", True),
        ([MEASURED, refused("control"), refused("treatment")], "both", False),
    ],
)
def test_a_case_that_fails_now_here_now_there_fails_on_both(
    results: list[RoundResult], side: str, aborted: bool
) -> None:
    _, comparison = resumed(*results)
    assert comparison.verdict == "failed"
    assert comparison.failure is not None
    assert (comparison.failure.side, comparison.is_broken_by_treatment) == (side, aborted)


def test_a_refusal_after_good_rounds_is_tried_once_more() -> None:
    result, comparison = resumed(MEASURED, refused("treatment"))
    assert (comparison.verdict, comparison.failure) == ("inconclusive", None)
    (incident,) = result.incidents
    assert (incident.round, incident.case_id, incident.failure.kind) == (1, "a", "error")
    assert "goes on" in incident.consequence
