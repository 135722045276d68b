"""What a report means for a search: what is ruled out, and what is unsure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from made_runs import BIASED, a_build, a_comparison, a_report

from opduel.driver.attribution import Change
from opduel.driver.bisection import Step, bisect
from opduel.driver.outcome import UNTRUSTED, Outcome
from opduel.driver.steps import steps_of
from opduel.records.run_record import LeftOutRecord

SOUGHT = {"a": Step("regressed", Change(0.3, 0.29, 0.31)), "b": Step("regressed", Change(0.3, 0.29, 0.31))}
CULPRITS = {"a": 4, "b": 1}  # no other revision changes what the case runs


def test_a_search_narrows_a_case_down_to_the_only_revision_that_changes_what_it_runs() -> None:
    measured: list[tuple[int, int, str]] = []

    def measure(start: int, end: int, cases: Sequence[str]) -> Mapping[str, Step]:
        reached = [case for case in cases if start < CULPRITS[case] <= end]
        measured.extend((start, end, case) for case in reached)
        left_out = LeftOutRecord(cases=tuple(sorted({*cases} - {*reached})), total=len(cases))
        comparisons = [a_comparison(case, "regressed", 1.35) for case in reached]
        report = a_report(comparisons, a_build(f"p{start}"), a_build(f"p{end}"), left_out=left_out)
        return steps_of(report, cases, dict.fromkeys(cases, "regressed"))

    culprits = bisect(4, SOUGHT, measure, lambda _: True, (), dict.fromkeys(SOUGHT, 0.02))
    assert [(culprit.end, list(culprit.cases), culprit.is_named, culprit.note) for culprit in culprits] == [
        (1, ["b"], True, ""),
        (4, ["a"], True, ""),
    ]
    assert measured == [(0, 2, "b"), (0, 1, "b"), (3, 4, "a")]


def test_on_a_fleet_only_what_a_disturbed_host_measured_is_unsure() -> None:
    hosts = [{"name": "one", "valid": False}, {"name": "two", "valid": True}]
    comparisons = [replace(a_comparison(name, "regressed", 1.3), host=name) for name in ("one", "two")]
    report = a_report(comparisons, a_build("a"), a_build("b"), validity=BIASED, fleet={"hosts": hosts})
    steps = steps_of(report, ["one", "two"], {"one": "regressed", "two": "regressed"})
    assert {case: step.unsure for case, step in steps.items()} == {"one": True, "two": False}


def test_a_failure_that_an_aborted_step_found_is_there_and_one_that_it_did_not_find_is_open() -> None:
    outcome = steps_of(
        a_report(
            [a_comparison("a", "failed", None, "treatment"), a_comparison("b", "unchanged")],
            a_build("p0"),
            a_build("p1"),
            aborted=True,
        ),
        ["a", "b", "c"],
        {"a": "failed", "b": "failed", "c": "regressed"},
    )
    assert {case: (step.verdict, step.unsure) for case, step in outcome.items()} == {
        "a": ("failed", False),
        "b": ("unchanged", True),
        "c": ("inconclusive", True),
    }


@pytest.mark.parametrize("stands", [True, False])
def test_a_report_with_verdicts_that_were_held_back_is_untrusted(stands: bool) -> None:
    comparisons = [a_comparison("a", "inconclusive", 1.1, held_back="regressed")]
    comparisons += [a_comparison("b", "regressed", 1.2)] if stands else []
    assert Outcome(a_report(comparisons, a_build("a"), a_build("b"))).why_open == UNTRUSTED
