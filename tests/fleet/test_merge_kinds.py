"""One report of what each kind of host measured: no kind's verdict depends on another's, and none is lost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import a_case, pairs
from report_samples import report

from opduel.comparator import RunAnalysis, benjamini_hochberg, plan_looks
from opduel.fleet.merge import NOT_MEASURED, HostReport, KindReport, merge, merge_kinds
from opduel.records import Case, Report

LOOKS = plan_looks(30)
ALPHA = 0.05
NAMES = ("a", "b")


def of_kind(kind: str, changes: Sequence[float], other_comparisons: int, **run: Any) -> Report:
    """Return the report of one kind whose only host measured a case for each change."""
    cases = [a_case(name).of_kind(kind) for name, _ in zip(NAMES, changes, strict=False)]
    spread = [0.003 * (number % 7 - 3) for number in range(15)]
    samples = {
        case.id: [
            *pairs(case.id, "screening", [change + deviation for deviation in spread]),
            *pairs(case.id, "confirmation", [change + deviation for deviation in spread]),
        ]
        for case, change in zip(cases, changes, strict=True)
    }
    comparisons = RunAnalysis(cases, samples, {}, LOOKS, ALPHA, other_p_values=(1.0,) * other_comparisons).comparisons()
    part = replace(report(comparisons, **{"complete": True, **run}), cases=tuple(cases))
    return merge([HostReport(f"host-{kind}", part)], cases, LOOKS, ALPHA, other_comparisons)


def rows(*kinds: str) -> list[Case]:
    return [a_case(name).of_kind(kind) for name in NAMES for kind in kinds]


def test_each_row_is_a_case_on_a_kind_with_its_own_verdict() -> None:
    parts = [KindReport("old", of_kind("old", [0.1, 0.0], 2)), KindReport("new", of_kind("new", [0.0, 0.0], 2))]
    merged_report = merge_kinds(parts, rows("old", "new"), False, False)
    rows_of_report = [
        (comparison.case, comparison.any_kind, comparison.kind, comparison.host, comparison.verdict)
        for comparison in merged_report.comparisons
    ]
    assert rows_of_report == [
        ("a@old", "a", "old", "host-old", "regressed"),
        ("a@new", "a", "new", "host-new", "unchanged"),
        ("b@old", "b", "old", "host-old", "unchanged"),
        ("b@new", "b", "new", "host-new", "unchanged"),
    ]
    assert [case.id for case in merged_report.cases] == [comparison.case for comparison in merged_report.comparisons]
    fleet = merged_report.run.fleet
    assert fleet is not None
    assert [(comparison.name, comparison.hosts, comparison.stop_reason) for comparison in fleet.kinds] == [
        ("old", ("host-old",), None),
        ("new", ("host-new",), None),
    ]
    assert [(comparison.name, comparison.kind) for comparison in fleet.hosts] == [
        ("host-old", "old"),
        ("host-new", "new"),
    ]
    assert (merged_report.run.complete, merged_report.run.aborted, merged_report.run.stop_reason) == (True, False, None)


def test_what_one_kind_finds_changes_nothing_on_another() -> None:
    """Its q values are those that it has beside rows of which nothing is known."""
    quiet = of_kind("new", [0.021, 0.0], 2)
    for changes in ([0.0, 0.0], [0.5, 0.5]):
        parts = [KindReport("old", of_kind("old", changes, 2)), KindReport("new", quiet)]
        merged_report = merge_kinds(parts, rows("old", "new"), False, False)
        assert [
            (comparison.verdict, comparison.q_value, comparison.p_value)
            for comparison in merged_report.comparisons
            if comparison.kind == "new"
        ] == [(comparison.verdict, comparison.q_value, comparison.p_value) for comparison in quiet.comparisons]


def test_a_kind_without_a_report_leaves_the_others_and_says_why() -> None:
    parts = [KindReport("old", of_kind("old", [0.1, 0.0], 2)), KindReport("new", None, "no host of it is there")]
    merged_report = merge_kinds(parts, rows("old", "new"), False, True)
    assert [comparison.verdict for comparison in merged_report.comparisons] == [
        "regressed",
        "inconclusive",
        "unchanged",
        "inconclusive",
    ]
    assert merged_report.comparisons[1].note == "not measured on a host of the kind new"
    assert (merged_report.run.complete, merged_report.run.aborted, merged_report.run.resumable) == (False, True, True)
    assert merged_report.run.stop_reason == "new: no host of it is there"
    with pytest.raises(ValueError, match="no kind of host has a report"):
        merge_kinds(parts[1:], rows("new"), False, False)


def test_a_kind_that_ended_early_says_so_with_its_name() -> None:
    incomplete = of_kind("new", [0.0], 2, complete=False, stop_reason="the time is up")
    parts = [KindReport("old", of_kind("old", [0.0, 0.0], 2)), KindReport("new", incomplete)]
    merged_report = merge_kinds(parts, rows("old", "new"), False, False)
    assert (merged_report.run.complete, merged_report.run.stop_reason) == (False, "new: the time is up")
    assert merged_report.comparisons[3].note == NOT_MEASURED


def test_a_disturbed_kind_is_named() -> None:
    busy = {"valid": False, "hold": True, "reasons": ["busy"], "aa_checks": []}
    parts = [
        KindReport("old", of_kind("old", [0.0, 0.0], 2, validity=busy)),
        KindReport("new", of_kind("new", [0.0, 0.0], 2)),
    ]
    merged_report = merge_kinds(parts, rows("old", "new"), False, False)
    assert (merged_report.run.validity.valid, merged_report.run.validity.reasons) == (False, ("old: busy",))


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=8), min_size=1, max_size=4))
def test_no_kind_flags_what_it_would_not_alone_or_what_all_would_not(kinds: list[list[float]]) -> None:
    """With p = 1 for the rows of other kinds, as ``run_across`` has it."""
    everything = [p for own in kinds for p in own]
    together = iter(benjamini_hochberg(everything))
    for own in kinds:
        alone = benjamini_hochberg(own)
        padded = benjamini_hochberg([*own, *(1.0 for _ in range(len(everything) - len(own)))])[: len(own)]
        for q, of_kind_alone in zip(padded, alone, strict=True):
            assert q >= of_kind_alone
            assert q >= next(together)
