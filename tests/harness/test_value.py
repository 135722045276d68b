"""The metric value: what a case reports of itself, its unit and direction, and values that can't be compared."""

import math
import random
from dataclasses import replace

import pytest
from toy_bench import toy_bench, toy_case

from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import PairPool
from opduel.harness.rounds.counter_round import run_value_round
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Case, Failure


def reported() -> Case:
    return replace(toy_case("a/value"), metric="value")


def one_round(values: str, *cases: Case) -> RoundResult:
    result, rng = RoundResult(), random.Random(1)
    requests = [CaseRequest(case, 1) for case in cases or [reported()]]
    run_value_round(PairPool(toy_bench(TOY_REPORTS=values), rng), Round(requests, 7), rng, result)
    return result


def test_a_round_has_one_value_of_each_side_and_a_failure_costs_its_case_alone() -> None:
    crashes = replace(toy_case("bad/value", "abort"), metric="value")
    result = one_round("3,4.5", reported(), crashes)
    (sample,) = result.samples
    assert (sample.control, sample.treatment) == (3, 4.5)
    assert sample.log_ratio == pytest.approx(math.log(1.5))
    assert result.lost["bad/value"].side == "both"


def refused(values: str) -> Failure:
    return one_round(values).refused["a/value"]


@pytest.mark.parametrize("values", ["0,0", "0,3", "-1,-1.6"])
def test_values_without_a_ratio(values: str) -> None:
    (sample,) = one_round(values).samples
    assert (f"{sample.control:g},{sample.treatment:g}", sample.log_ratio) == (values, 0)


def test_what_is_no_number_is_a_failure_of_its_side() -> None:
    assert (refused("1,NaN").side, refused("-Infinity,1").side) == ("treatment", "control")
    assert "not a number" in refused('1,"fast"').reason
