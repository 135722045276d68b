"""What a report means for a search: cases that were left out of a step are ruled out there."""

from collections.abc import Mapping, Sequence

from made_runs import a_build, a_comparison, a_report

from opduel.driver.bisection import Step, bisect
from opduel.driver.steps import steps_of
from opduel.records.run_record import LeftOutRecord

SOUGHT = {"a": Step("regressed", 0.3, 0.29, 0.31), "b": Step("regressed", 0.3, 0.29, 0.31)}
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
