"""A culprit that was named is not sought again: later lines of one week, commit after commit, on levels that the test
knows."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import BIASED, a_comparison
from made_week import WORSE, Week, culprits_of, known_culprits

from opduel.driver.journal import Journal
from opduel.driver.outcome import culprits_document
from opduel.driver.runs import TRIES, RunOrder
from opduel.records import Comparison, Report, RunError, RunRecord


def test_later_commits_of_the_week_cost_a_benchmark_each(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6, 1.6], b=[1] * 7)
    assert culprits_of(week.land(4)) == [("p3", ("a",))]
    for last in (5, 6):
        before = week.count
        outcome = week.land(last)
        assert week.runs_since(before) == [("benchmark", "p0", f"p{last}")]
        assert (culprits_of(outcome), known_culprits(outcome)) == ([], [("p3", ("a",))])
        assert (outcome.culprits, outcome.verification, outcome.confirmed) == (None, None, ())
        attribution = outcome.attributions["a"]
        assert attribution.finding == "accounted"
        assert attribution.share is not None
        assert math.exp(attribution.share.estimate) == pytest.approx(1.6)
        (culprit,) = outcome.known_culprits
        assert culprit.range.is_named
        assert culprit.evidence == week.land(4).culprits[0].evidence  # type: ignore[index]


def test_an_investigation_made_again_from_its_journal_says_the_same(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6])
    first = week.land(4), week.land(5)
    before = week.count
    again = week.land(4), week.land(5)
    assert [culprits_document(outcome, "") for outcome in again] == [
        culprits_document(outcome, "") for outcome in first
    ]
    assert week.count == before


def test_made_again_on_demand_a_line_looks_for_its_own_culprit_again(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6])
    week.land(4)
    assert culprits_of(week.land(4, again=True)) == [("p3", ("a",))]
    assert known_culprits(week.land(5)) == [("p3", ("a",))]


def test_of_another_regression_on_top_only_that_is_sought(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6, 1.6, 1.9, 1.9])
    week.land(4)
    before = week.count
    outcome = week.land(8)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p7", ("a",))], [("p3", ("a",))])
    assert outcome.confirmed == ("a",)
    (new,) = outcome.culprits or ()
    change = new.range.cases["a"].change
    assert change is not None
    assert math.exp(change.estimate) == pytest.approx(1.9 / 1.6)
    runs = week.runs_since(before)
    assert runs[0] == ("benchmark", "p0", "p8")
    assert runs[1:3] == [("regress", "p0", "p2"), ("regress", "p3", "p8")]
    assert not {("verify", "p0", "p8"), ("regress", "p2", "p3")} & set(runs)
    assert known_culprits(week.land(8, again=True)) == [("p3", ("a",))]


def test_three_culprits_of_one_case_are_added_up(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1.2, 1.2, 1.5, 1.5, 2.0, 2.0, 2.0])
    assert [name for name, _ in culprits_of(week.land(2))] == ["p1"]
    assert [name for name, _ in culprits_of(week.land(4))] == ["p3"]
    assert [name for name, _ in culprits_of(week.land(6))] == ["p5"]
    before = week.count
    outcome = week.land(7)
    assert week.runs_since(before) == [("benchmark", "p0", "p7")]
    assert [name for name, _ in known_culprits(outcome)] == ["p1", "p3", "p5"]
    share = outcome.attributions["a"].share
    assert share is not None
    assert math.exp(share.estimate) == pytest.approx(2.0)
    assert share.high - share.estimate == pytest.approx(math.sqrt(3) * math.log(1.01))


def test_another_case_is_verified_and_bisected_without_the_one_that_is_known(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6, 1.6], b=[1, 1, 1, 1, 1.4, 1.4])
    week.land(3)
    before = len(week.harness.orders)
    outcome = week.land(5)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p4", ("b",))], [("p2", ("a",))])
    assert [order.cases for order in week.harness.orders[before + 1 :]] == [["b"]] * (week.count - before - 1)
    assert [kind for kind, _, _ in week.runs_since(before)][:2] == ["benchmark", "verify"]


def test_a_commit_that_slows_a_known_case_and_another_one_is_one_culprit(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.9, 1.9], b=[1, 1, 1, 1, 1.4, 1.4])
    week.land(3)
    outcome = week.land(5)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p4", ("b", "a"))], [("p2", ("a",))])
    assert outcome.confirmed == ("a", "b")
    (culprit,) = outcome.culprits or ()
    assert len(set(culprit.evidence)) == len(culprit.evidence) == 2
    assert known_culprits(week.land(5, first=1)) == [("p2", ("a",)), ("p4", ("a", "b"))]


def test_a_culprit_that_was_reverted_hides_no_later_one(tmp_path: Path) -> None:
    """The later one is as large, so that the whole is what it was before."""
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1, 1, 1.6, 1.6])
    week.land(3)
    quiet = week.land(5)
    assert (quiet.culprits, quiet.known_culprits, quiet.attributions) == (None, (), {})
    outcome = week.land(7)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p6", ("a",))], [])
    before = week.count
    assert known_culprits(week.land(7)) == []
    assert week.count == before


def test_a_culprit_that_was_fixed_in_part_accounts_for_what_is_left(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.3, 1.3, 1.6, 1.6])
    week.land(3)
    before = week.count
    partly = week.land(5)
    assert week.runs_since(before) == [("benchmark", "p0", "p5")]
    assert partly.attributions["a"].finding == "less"
    assert known_culprits(partly) == [("p2", ("a",))]
    outcome = week.land(7)  # as slow as with the culprit alone, but part of that was fixed
    assert culprits_of(outcome) == [("p6", ("a",))]


def test_a_culprit_that_is_no_longer_in_the_history_accounts_for_nothing(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6, 1.6])
    week.land(3)
    outcome = week.land(5, without=(2,))  # p2 was squashed into p3
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p3", ("a",))], [])


def test_where_the_control_holds_it_a_culprit_accounts_for_nothing(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 2.2, 2.2])
    week.land(3)
    outcome = week.land(5, first=2)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p4", ("a",))], [])


def test_with_other_settings_it_is_another_measurement(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6])
    week.land(3)
    assert culprits_of(week.land(4, settings="another spec")) == [("p2", ("a",))]


def test_a_case_that_fails_is_sought_once_until_it_works_again(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, None, None, None, 1, None, None])
    assert culprits_of(week.land(3)) == [("p2", ("a",))]
    before = week.count
    outcome = week.land(4)
    assert week.runs_since(before) == [("benchmark", "p0", "p4")]
    assert known_culprits(outcome) == [("p2", ("a",))]
    assert week.land(5).known_culprits == ()
    outcome = week.land(7)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p6", ("a",))], [])


def test_a_slow_case_that_then_fails_is_bisected_for_failing(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, None, None])
    week.land(3)
    assert culprits_of(week.land(5)) == [("p4", ("a",))]


def test_improvements_are_known_too_when_they_are_sought(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 0.6, 0.6, 0.6, 0.4, 0.4])
    sought: Any = [*WORSE, "improved"]
    assert culprits_of(week.land(3, sought=sought)) == [("p2", ("a",))]
    before = week.count
    assert known_culprits(week.land(4, sought=sought)) == [("p2", ("a",))]
    assert week.count == before + 1
    assert culprits_of(week.land(6, sought=sought)) == [("p5", ("a",))]


def test_what_was_sought_and_not_found_is_not_sought_again(tmp_path: Path) -> None:
    """The culprit's own A/B said a little too little: each later run finds more than it accounts for."""
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6, 1.6])
    measure = week.harness._compare

    def low(case: str, order: RunOrder, is_held_back: bool) -> Comparison:
        comparison = measure(case, order, is_held_back)
        if (order.control.requested, order.treatment.requested) == ("p1", "p2"):
            return a_comparison(case, comparison.verdict, 1.515)
        return comparison

    week.harness._compare = low  # type: ignore[method-assign]
    week.land(3)
    before = week.count
    outcome = week.land(4)
    assert week.runs_since(before) == [("benchmark", "p0", "p4"), ("regress", "p0", "p1"), ("regress", "p2", "p4")]
    assert (culprits_of(outcome), outcome.confirmed) == ([], ())
    before = week.count
    assert week.land(5).attributions["a"].finding == "accounted"
    assert week.runs_since(before) == [("benchmark", "p0", "p5")]


def test_a_range_that_could_not_be_split_is_known_as_such(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6])
    week.revisions[2].broken = True
    (traced,) = week.land(4).culprits or ()
    assert not traced.range.is_named
    before = week.count
    outcome = week.land(5)
    assert week.runs_since(before) == [("benchmark", "p0", "p5")]
    assert [[revision.name for revision in culprit.revisions] for culprit in outcome.known_culprits] == [
        ["p1", "p2", "p3"]
    ]


def test_a_search_that_ended_early_makes_nothing_known(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6])
    week.revisions[2].amiss = RunError("the package index can't be reached")
    assert week.land(4).unfinished
    week.revisions[2].amiss = None
    outcome = week.land(5)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p3", ("a",))], [])


def test_a_search_for_the_rest_that_ended_early_goes_on(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6, 1.6, 1.9, 1.9])
    week.land(4)
    week.revisions[6].amiss = RunError("the package index can't be reached")
    week.revisions[5].amiss = RunError("the package index can't be reached")
    outcome = week.land(8)
    assert outcome.unfinished
    assert (outcome.confirmed, culprits_of(outcome), known_culprits(outcome)) == (("a",), [], [("p3", ("a",))])
    for revision in week.revisions:
        revision.amiss = None
    before = week.count
    assert culprits_of(week.land(8)) == [("p7", ("a",))]
    assert ("benchmark", "p0", "p8") not in week.runs_since(before)


def test_verdicts_held_back_make_nothing_known_and_are_attributed_to_nobody(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6])
    week.land(3)
    week.harness.endings = ["held"] * 3
    outcome = week.land(4)
    assert (outcome.attributions, outcome.known_culprits) == ({}, ())
    assert known_culprits(week.land(4)) == [("p2", ("a",))]


def test_a_verdict_that_is_held_back_beside_others_that_stand_does_not_say_that_a_change_is_gone(
    tmp_path: Path,
) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1, 1.6], b=[1] * 6)
    week.land(3)
    compare = week.harness._compare

    def held_back(case: str, order: RunOrder, is_held_back: bool) -> Comparison:
        return compare(case, order, is_held_back=case == "a" and order.treatment.requested == "p4")

    week.harness._compare = held_back  # type: ignore[method-assign]
    week.land(4)
    before = week.count
    assert known_culprits(week.land(5)) == [("p2", ("a",))]
    assert week.runs_since(before) == [("benchmark", "p0", "p5")]


def test_a_ratio_from_a_host_whose_aa_check_found_a_difference_takes_no_part_of_a_known_change_back(
    tmp_path: Path,
) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6, 1.6], b=[1] * 6)
    week.land(3)
    measure = week.harness.measure
    hosts = [{"name": "a", "valid": False}, {"name": "b", "valid": True}]  # each measured the case of its name

    def off(order: RunOrder) -> Report:
        report = measure(order)
        if order.treatment.requested != "p4":
            return report
        slower = a_comparison("a", "regressed", 1.3)
        comparisons = tuple(
            replace(slower if comparison.case == "a" else comparison, host=comparison.case)
            for comparison in report.comparisons
        )
        return replace(
            report,
            run=RunRecord.of({**asdict(report.run), "validity": BIASED, "fleet": {"hosts": hosts}}),
            comparisons=comparisons,
        )

    week.harness.measure = off  # type: ignore[method-assign]
    assert known_culprits(week.land(4)) == [("p2", ("a",))]
    before = week.count
    assert week.land(5).attributions["a"].finding == "accounted"
    assert week.runs_since(before) == [("benchmark", "p0", "p5")]


def test_what_a_disturbed_host_confirmed_is_not_searched_by_its_size(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6], b=[1, 1, 1.6, 1.6, 1.6])
    measure, busy = week.harness.measure, [True]
    hosts = [{"name": "a", "valid": False}, {"name": "b", "valid": True}]  # each measured the case of its name

    def off(order: RunOrder) -> Report:
        report = measure(order)
        if not busy[0] or order.run_type != "verify":
            return report
        comparisons = tuple(replace(comparison, host=comparison.case) for comparison in report.comparisons)
        return replace(
            report,
            run=RunRecord.of({**asdict(report.run), "validity": BIASED, "fleet": {"hosts": hosts}}),
            comparisons=comparisons,
        )

    week.harness.measure = off  # type: ignore[method-assign]
    outcome = week.land(3)
    assert (outcome.confirmed, culprits_of(outcome), known_culprits(outcome)) == (("a", "b"), [("p2", ("b",))], [])
    busy[0] = False
    outcome = week.land(4)
    assert (culprits_of(outcome), known_culprits(outcome)) == ([("p2", ("a",))], [("p2", ("b",))])


@pytest.mark.parametrize("stands", [False, True])
def test_a_rest_of_which_no_step_can_be_trusted_is_looked_for_again_by_the_next_line(
    tmp_path: Path, stands: bool
) -> None:
    """Whether its verdicts were held back, or stand though they may be off."""
    week = Week(tmp_path, a=[1, 1, 1, 1.6, 1.6, 1.6, 1.6, 1.9, 1.9, 1.9])
    week.land(4)
    compare, measure, busy = week.harness._compare, week.harness.measure, [True]

    def held_back(case: str, order: RunOrder, is_held_back: bool) -> Comparison:
        return compare(case, order, is_held_back=busy[0] and order.run_type == "regress" and not stands)

    def off(order: RunOrder) -> Report:
        report = measure(order)
        is_off = busy[0] and order.run_type == "regress" and stands
        return replace(report, run=RunRecord.of({**asdict(report.run), "validity": BIASED})) if is_off else report

    week.harness._compare = held_back  # type: ignore[method-assign]
    week.harness.measure = off  # type: ignore[method-assign]
    for _ in range(TRIES):
        assert week.land(8).unfinished
    outcome = week.land(8)
    assert (outcome.unfinished, culprits_of(outcome), known_culprits(outcome)) == ("", [], [("p3", ("a",))])
    busy[0] = False
    assert culprits_of(week.land(9)) == [("p7", ("a",))]


@pytest.mark.parametrize("damage", ["{", "[1]", '[{"good": "p1"}]', '{"a": 1}', "null"])
def test_notes_that_are_damaged_cost_a_search_and_no_more(tmp_path: Path, damage: str) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6])
    week.land(3)
    journal = Journal(week.path)
    journal._connection.execute("UPDATE facts SET text = ? WHERE name LIKE 'known/%'", (damage,))
    journal.close()
    assert culprits_of(week.land(4)) == [("p2", ("a",))]


def test_the_document_has_shares_and_rests(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6, 1.9, 1.9])
    week.land(3)
    document = json.loads(json.dumps(culprits_document(week.land(6), "line")))
    (culprit,) = document["known"]
    assert culprit["bad"][0]["subject"] == "Change 2"
    assert culprit["cases"]["a"]["ratio"] == pytest.approx(1.6)
    attribution = document["attributions"]["a"]
    assert attribution["finding"] == "more"
    assert attribution["share"]["ratio"] == pytest.approx(1.6)
    assert attribution["rest"]["ratio"] == pytest.approx(1.9 / 1.6)
    (new,) = document["culprits"]
    assert new["bad"][0]["subject"] == "Change 5"


def test_a_benchmark_alone_knows_nothing(tmp_path: Path) -> None:
    week = Week(tmp_path, a=[1, 1, 1.6, 1.6, 1.6])
    week.land(3)
    assert week.land(4, sought=()) == replace(week.land(4, sought=()), known_culprits=(), attributions={})
