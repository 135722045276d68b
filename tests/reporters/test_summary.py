"""What a run came to: its conclusion, why to doubt it, what it left open or out, and what to do next."""

from dataclasses import replace
from typing import Literal

import pytest
import report_samples as samples
from rich.cells import cell_len

from opduel.records import Commit, Comparison, Failure, RunRecord, Verification
from opduel.records.cause import Cause
from opduel.records.measurement import Side
from opduel.reporters.html.page import to_html
from opduel.reporters.markdown import to_markdown
from opduel.reporters.screen import render
from opduel.reporters.simple_screen import tab_separated
from opduel.reporters.summary import caveats, conclusion, next_line, validity_line

DISTRUSTED = samples.DISTRUSTED


def test_a_run_of_which_both_builds_skipped_every_case_compared_nothing() -> None:
    skipped = [{"case": name, "reason": "needs AVX512"} for name in ("a", "b")]
    report = samples.report((), skipped=skipped)
    text = render(report)
    assert "all 2 cases were skipped by both builds: needs AVX512 (2)" in text
    assert "Nothing was compared: every case was skipped by both builds" in text
    assert conclusion(report) == "incomplete"
    assert "\n2 cases were skipped by both builds" in render(samples.report(skipped=skipped))


@pytest.mark.parametrize(
    ("side", "kind", "want"),
    [
        ("both", "error", "incomplete"),
        ("both", "missing", "incomplete"),
        ("control", "error", "incomplete"),
        ("control", "skipped", "done"),
        ("treatment", "killed", "incomplete"),
        ("treatment", "skipped", "regressed"),
    ],
)
def test_no_failed_comparison_is_done(side: Side | Literal["both"], kind: str, want: str) -> None:
    broken = samples.failed("gate.Broken", Failure(side, kind, "no such thing"))
    report = samples.report([samples.comparison("steady"), broken])
    assert conclusion(report) == want
    where = "both sides" if side == "both" else side
    words = "1 case failed, and could not be compared"
    assert (words in render(report)) == (want == "incomplete")
    assert (f"{words}: gate.Broken ({where})" in "\n".join(tab_separated(report))) == (want == "incomplete")
    assert conclusion(samples.report([broken])) == ("regressed" if want == "regressed" else "incomplete")


def test_a_run_without_a_verdict_is_incomplete() -> None:
    undecided = [samples.comparison(name, "inconclusive") for name in "ab"]
    assert conclusion(samples.report(undecided)) == "incomplete"
    broken = samples.failed("gate.Broken", Failure("both", "error", "no such thing"))
    report = samples.report([*undecided, broken])
    assert conclusion(report) == "incomplete"
    line = (
        "nothing was compared to a verdict: 1 of 3 cases failed, the others are undecided"  # as workflows look for it
    )
    assert line in caveats(report)
    assert line not in caveats(samples.report([*undecided, broken, samples.comparison("steady")]))


def test_files_of_a_suite_that_cannot_be_collected_are_a_caveat() -> None:
    problems = ["addopts: --gone: no plugin here has it", "test_a.py: ImportError: no b", "test_c.py: Skipped: no d"]
    report = samples.report(suite={"problems": problems})
    assert caveats(report) == ["1 problem of the suite: test_a.py: ImportError: no b"]
    assert "1 problem of the suite: test\\_a.py: ImportError: no b" in to_markdown(report)
    assert "1 problem of the suite: test_a.py: ImportError: no b" in to_html(report)
    assert "\n1 problem of the suite: test_a.py: ImportError: no b\n" in render(report)


def test_where_every_case_failed_the_host_is_not_blamed() -> None:
    assert validity_line(samples.report([samples.failed("a", samples.CRASH)], **DISTRUSTED)) == ""


def test_a_run_that_cant_be_trusted_says_so_above_the_table() -> None:
    withheld = samples.comparison(
        "slower", "inconclusive", 1.05, held_back="regressed", note="held back: would be regressed"
    )
    text = render(samples.report([withheld, samples.comparison("odd", "inconclusive")], **DISTRUSTED))
    assert (
        text.index("host ") < text.index("This run can't be trusted: other processes kept 0.52") < text.index("case ")
    )
    words = " ".join(text.split())
    assert "busy; 1 verdict was held back; measure again when the machine is quiet" in words
    assert "held back: would be regressed" in words
    assert all(cell_len(line) <= 80 for line in text.splitlines())


def test_without_a_verdict_to_hold_back_it_says_that() -> None:
    assert "and none was held back" in " ".join(render(samples.report(**DISTRUSTED)).split())


def test_old_reports_that_know_of_no_trust_say_nothing() -> None:
    old = samples.run()
    del old["validity"]
    report = replace(samples.report(), run=RunRecord.of(old))
    assert "trusted" not in render(report) + "".join(tab_separated(report))


def test_on_a_disturbed_host_it_is_counted_what_stands_and_what_does_not() -> None:
    withheld = samples.comparison("slower", "inconclusive", 1.05, held_back="regressed")
    some = [withheld, samples.comparison("same", "unchanged"), samples.comparison("slow", "regressed", 1.5)]
    words = " ".join(render(samples.report(some, **DISTRUSTED)).split())
    assert "The host was disturbed: other processes kept 0.52" in words
    assert "2 verdicts stand nevertheless; 1 verdict was held back: give more rounds or time" in words
    assert "can't be trusted" not in words
    words = " ".join(render(samples.report(some[1:], **DISTRUSTED)).split())
    assert "2 verdicts stand nevertheless, and none was held back" in words
    reported = {"validity": {**DISTRUSTED["validity"], "hold": False}}
    words = " ".join(render(samples.report(some[1:], **reported)).split())
    assert "This run can't be trusted: other processes kept 0.52" in words


def test_lines_say_that_a_host_was_disturbed_before_other_remarks() -> None:
    lines = list(tab_separated(samples.report(complete=False, stop_reason="out of time", **DISTRUSTED)))
    assert lines[-2].startswith("# the host was disturbed: other processes kept 0.52")
    assert lines[-1] == "# not complete: out of time"


def test_a_run_with_a_verdict_on_every_case_is_complete_unless_it_was_aborted() -> None:
    """It might have gone on: what is not slower may be faster."""
    cases, why = [samples.comparison("a", "not_worse"), samples.comparison("b", "regressed", 1.1)], "out of time"
    report = samples.report(cases, complete=False, stop_reason=why)
    assert f"\nthe run ended with a verdict on every case: {why}\n" in render(report)
    assert "not complete" not in f"{render(report)}{list(tab_separated(report))}".lower()
    aborted = samples.report(cases, complete=False, aborted=True, stop_reason=why)
    undecided = samples.report([*cases, samples.comparison("c", "inconclusive")], complete=False, stop_reason=why)
    for other_report in (aborted, undecided):
        assert f"NOT COMPLETE: {why}" in render(other_report)
        assert "with a verdict on every case" not in render(other_report)


def _injected_cases() -> list[Comparison]:
    return [
        *(samples.comparison(f"found{number}", "regressed", 1.05, injected=True) for number in range(9)),
        samples.comparison("missed", "inconclusive", 1.02, injected=True),
        *(samples.comparison(f"clean{number}") for number in range(10)),
    ]


def test_the_last_line_is_what_became_of_the_injection() -> None:
    line = "injected +5 %: found 9 of 10, missed 1; false alarms 0 of 10"
    report = samples.report(_injected_cases(), inject=0.05)
    assert render(report).splitlines()[-1] == line
    assert list(tab_separated(report))[-1] == f"# {line}"


def test_failed_cases_are_counted_apart_and_false_alarms_go_both_ways() -> None:
    cases = [
        samples.comparison("found", "regressed", 1.1, injected=True),
        samples.comparison("lost", "improved", 0.9, injected=True),
        samples.failed("broken", injected=True),
        samples.failed("also broken"),
        samples.comparison("alarm", "regressed", 1.1),
        samples.comparison("another", "improved", 0.9),
        samples.comparison("clean", "inconclusive"),
    ]
    last = render(samples.report(cases, inject=0.1)).splitlines()[-1]
    assert last == "injected +10 %: found 1 of 2, missed 1; false alarms 2 of 3; failed 2"


def test_a_line_says_what_the_change_can_not_reach() -> None:
    left_out = {"cases": ["b", "c"], "total": 3, "changed": ["pkg/a.py:f"]}
    text = " ".join(render(samples.report(left_out=left_out)).split())
    assert "2 of 3 cases can't be reached by this change (pkg/a.py:f): left out; --all_cases measures them" in text
    assert "can't be reached" not in render(samples.report(left_out={"total": 3}))


def test_what_changed_can_be_measured_again_explained_and_traced() -> None:
    slower = samples.comparison("slower", "regressed", 1.05)
    report = samples.report([slower, samples.comparison("steady")])
    line = "next: --verify measures again what changed; --explain all says why"
    assert next_line(report) == line
    assert render(report).splitlines()[-1] == line
    assert f"\n{line}\n" in to_markdown(report).replace("\\", "")
    assert f"<p>{line}</p>" in to_html(report)
    again = Verification("regressed", "regressed", 1.06, (1.04, 1.08), rounds=8)
    known = replace(slower, verification=again, cause=Cause("it sleeps"))
    assert next_line(samples.report([known])) == ""
    commits = [Commit(digit * 40, 1_700_000_000, "Ada <ada@example.org>", "Change") for digit in "01"]
    of_commits = replace(
        samples.report([known], configuration={"control": "HEAD~1", "treatment": "HEAD"}),
        control=replace(samples.CONTROL, commit=commits[0]),
        treatment=replace(samples.TREATMENT, commit=commits[1]),
    )
    assert next_line(of_commits) == "next: opduel bisect finds the commit"
    assert next_line(replace(of_commits, run=samples.report([slower]).run)) == "", "the driver says what comes next"


@pytest.mark.parametrize("cases", [[samples.comparison("steady")], [samples.failed("broken")], []])
def test_where_nothing_changed_nothing_follows(cases: list[Comparison]) -> None:
    assert next_line(samples.report(cases)) == ""
