"""Cases that are "not slower" or "not faster": how they are counted and shown, and that they are settled."""

from dataclasses import replace

import pytest
import report_samples as samples

from opduel.records import ONE_SIDED, Verdict
from opduel.reporters.html import to_notebook_html
from opduel.reporters.interchange.junit import to_junit
from opduel.reporters.interchange.pyperf import to_pyperf
from opduel.reporters.interchange.table import to_csv
from opduel.reporters.screen import render
from opduel.reporters.simple_screen import tab_separated
from opduel.reporters.summary import VerdictCount, conclusion, verdict_counts

HARDLY_FASTER, HARDLY_LARGER = (comparison for comparison in samples.EVERY_VERDICT if comparison.verdict in ONE_SIDED)


def test_counts_are_by_words_and_leave_out_one_sided_verdicts_that_no_case_has() -> None:
    assert [count.words for count in verdict_counts([])] == [
        *("regressed", "failed", "inconclusive", "improved", "unchanged"),
    ]
    counts = verdict_counts([HARDLY_FASTER, replace(HARDLY_FASTER, metric="memory"), HARDLY_FASTER, HARDLY_LARGER])
    assert [count for count in counts if count.count] == [
        VerdictCount("not_better", "not smaller", 1),
        VerdictCount("not_worse", "not larger", 1),
        VerdictCount("not_worse", "not slower", 2),
    ]


@pytest.mark.parametrize("verdict", ONE_SIDED)
def test_they_are_settled_for_the_gate(verdict: Verdict) -> None:
    report = samples.report([samples.comparison("a", verdict, p_value=None)], complete=False, stop_reason="time was up")
    assert conclusion(report) == "done"
    assert not report.is_open


def test_cases_of_two_metrics_are_apart_on_the_screen() -> None:
    text = render(samples.report([HARDLY_FASTER, replace(HARDLY_LARGER, case="same size", verdict="not_worse")]))
    assert text.index("\nnot larger (1)\nsame size ") < text.index("\nnot slower (1)\nhardly faster ")
    assert "0 inconclusive, 0 improved, 1 not larger, 1 not slower, 0 unchanged\n" in text.replace("\n  ", " ")


def test_many_that_are_not_slower_are_left_out_on_the_screen_and_none_that_is_not_faster() -> None:
    cases = [
        replace(HARDLY_FASTER, case=f"{verdict}{number}", verdict=verdict)
        for number in range(41)
        for verdict in (*ONE_SIDED, "unchanged")
    ]
    text = render(samples.report(cases))
    assert "not shown: the 41 not slower and the 41 unchanged (--tsv" in text
    assert [text.count(f"\n{verdict}") for verdict in ("not_worse", "not_better", "unchanged")] == [0, 41, 0]


def test_machine_formats_keep_the_literals_and_formats_for_people_have_words() -> None:
    report = samples.report([HARDLY_FASTER, HARDLY_LARGER])
    assert [line.split("\t")[0] for line in tab_separated(report)][1:] == ["not_worse", "not_better"]
    assert ["not slower" in text for text in (to_csv(report).text, to_pyperf(report, "control").text)] == [False, False]
    assert "verdict: not slower\n" in to_junit(report).text
    page = to_notebook_html(report)
    assert "<caption>1 not smaller, 1 not slower</caption>" in page
    assert '<td class="text not_worse">not slower</td>' in page
    assert '<td class="text note">faster by 0.4 to 2.2 %</td>' in page
