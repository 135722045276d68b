"""The two screen reporters: what they print, in what order, in how many columns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
import report_samples as samples
from rich.cells import cell_len

from opduel.records import Comparison, Failure, HostRecord, RunRecord, Verdict, Verification
from opduel.records.measurement import Side
from opduel.reporters.html.page import to_html
from opduel.reporters.markdown import to_markdown
from opduel.reporters.screen import render
from opduel.reporters.simple_screen import COLUMNS, tab_separated
from opduel.reporters.summary import caveats, conclusion, validity_line

WHOLE_SCREEN = """\
spec       conv mxnet cpu
control    mxnet==1.8.0.post0 (mxnet 1.8.0, Python 3.11.7)
treatment  mxnet==1.9.1 (mxnet 1.9.1, Python 3.11.7)
host       AMD EPYC, 2 CPUs, 24 GiB, Linux 6.1

case                   change        interval  control  rounds    mde
regressed (2)
much slower             x12.3  [x12.2, x12.5]   123 us      12  1.2 %
slower                 +5.3 %    [+4.2, +6.4]   123 us      12  1.2 %
failed (1)
broken                      -               -        -       0      -
inconclusive (1)
unclear                +1.0 %    [+0.0, +2.0]   123 us      12  1.2 %
  two modes; needs a threshold of 3 %: --threshold 3%
not improved (1)
hardly larger          +1.5 %    [-0.2, +3.2]  121 KiB      12  1.2 %
improved (1)
faster                -50.0 %  [-50.5, -49.5]  2.35 ms      12  1.2 %
not regressed (1)
hardly faster          -1.3 %    [-2.2, -0.4]   123 us      12  1.2 %
  faster by 0.4 to 2.2 %
unchanged (1)
steady                 +0.1 %    [-0.9, +1.1]   123 us      12  1.2 %
interval: where the true change lies, in %, at least 95 % sure; mde: the
smallest change that this many rounds can show

2 regressed, 1 failed, 1 inconclusive, 1 not improved, 1 improved,
  1 not regressed, 1 unchanged
threshold 2.0 %, false discovery rate 5 %, seed 7, 12 rounds, 3 min 50 s
failures:
  broken: treatment: crash: the worker died of SIGSEGV
    output tail: Segmentation fault: 11
"""


def _cases(count: int, name: str = "case") -> list[Comparison]:
    return [samples.comparison(f"{name}{number:03d}") for number in range(count)]


def _positions(text: str, words: Sequence[str]) -> list[int]:
    return [text.index(f"\n{word}") for word in words]


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


def test_a_long_path_is_in_one_piece_and_the_versions_stay() -> None:
    path = "/home/somebody/projects/benchmarks/environments/control-2.2.6/bin/python"
    report = replace(samples.report(), control=replace(samples.CONTROL, requested=path))
    lines = render(report).splitlines()
    place = lines.index(f"control    {path}")
    assert lines[place + 1] == "           (mxnet 1.8.0, Python 3.11.7)"


def test_where_every_case_failed_the_host_is_not_blamed() -> None:
    assert validity_line(samples.report([samples.failed("a", samples.CRASH)], **DISTRUSTED)) == ""


def test_the_whole_screen() -> None:
    assert render(samples.report()) == WHOLE_SCREEN


DISTRUSTED = {"validity": samples.validity("other processes kept 0.52 of opduel's processors busy")}


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
    assert "2 verdicts stand nevertheless; 1 verdict was held back: for these, give more rounds or time" in words
    assert "can't be trusted" not in words
    words = " ".join(render(samples.report(some[1:], **DISTRUSTED)).split())
    assert "2 verdicts stand nevertheless, and none was held back" in words
    reported = {"validity": {**DISTRUSTED["validity"], "hold": False}}
    words = " ".join(render(samples.report(some[1:], **reported)).split())
    assert "This run can't be trusted: other processes kept 0.52" in words


@pytest.mark.parametrize(
    ("reasons", "held_back", "fix"),
    [
        (["a differed"], "regressed", "give more A/A checks (--sentinels), or measure again when"),
        (["a differed"], "unchanged", "for these, measure again when"),
        (["busy", "a differed"], "regressed", "give more rounds or time and more A/A checks (--sentinels), or measure"),
        (["busy", "a differed"], "unchanged", "give more rounds or time, or measure again when"),
    ],
)
def test_after_an_aa_check_that_found_a_difference_more_checks_are_advised_where_they_help(
    reasons: list[str], held_back: Verdict, fix: str
) -> None:
    checks = [{"case": "a", "ratio": 1.1, "flagged": True}, {"case": "b", "ratio": 1.0, "flagged": False}]
    validity = {"valid": False, "hold": True, "reasons": reasons, "aa_checks": checks}
    withheld = samples.comparison("slower", "inconclusive", 1.05, held_back=held_back)
    report = samples.report([withheld, samples.comparison("slow", "regressed", 1.5)], validity=validity)
    assert fix in validity_line(report)


def test_lines_say_that_a_host_was_disturbed_before_other_remarks() -> None:
    lines = list(tab_separated(samples.report(complete=False, stop_reason="out of time", **DISTRUSTED)))
    assert lines[-2].startswith("# the host was disturbed: other processes kept 0.52")
    assert lines[-1] == "# not complete: out of time"


def test_a_confirmed_case_shows_its_second_measurement() -> None:
    again = Verification("regressed", "regressed", 1.06, (1.04, 1.08), rounds=8)
    case = samples.comparison("slower", "regressed", 1.05, verification=again)
    assert "  confirmed: +6.0 % [+4.0, +8.0] in 8 rounds\n" in render(samples.report([case]))
    row = dict(zip(COLUMNS, list(tab_separated(samples.report([case])))[1].split("\t"), strict=True))
    assert (row["verified"], row["verified_ratio"], row["held_back"]) == ("regressed", "1.06", "")


def test_what_was_not_confirmed_is_left_to_the_note() -> None:
    again = Verification("regressed", "unchanged", 1.0, (0.99, 1.01), rounds=8)
    case = samples.comparison("slower", "inconclusive", 1.05, verification=again, note="not confirmed: so and so")
    assert "  not confirmed: so and so\n" in render(samples.report([case]))


def test_the_worst_comes_first_by_size() -> None:
    cases = [
        samples.comparison("r-small", "regressed", 1.03),
        samples.comparison("i-small", "improved", 0.9),
        samples.comparison("r-big", "regressed", 3.0),
        samples.comparison("i-big", "improved", 0.2),
        samples.comparison("q-none", "inconclusive", None),
        samples.comparison("q-some", "inconclusive", 0.95),
        samples.comparison("u-b"),
        samples.comparison("u-a"),
        samples.failed("f"),
        samples.comparison("r-endless", "regressed", float("inf")),
    ]
    order = ["r-endless", "r-big", "r-small", "f", "q-some", "q-none", "i-big", "i-small", "u-a", "u-b"]
    text = render(samples.report(cases))
    assert _positions(text, order) == sorted(_positions(text, order))


@pytest.mark.parametrize("width", [76, 80, 100, 200])
def test_nothing_is_wider_than_the_screen_but_single_words(width: int) -> None:
    long = "nd.Convolution(" + "1x3x224x224," * 16 + ")"
    words = "a reason without end " * 40
    cases = [
        *samples.EVERY_VERDICT,
        samples.comparison("x" * 200, "regressed", 123456.789, ci=(1e-9, 1e9), mde=1e9, control=9.99e18),
        samples.comparison(long, "regressed", 2.0, injected=True, note="a note " * 60),
        samples.comparison("大" * 100, "improved", 0.5),
        samples.failed(long + "b", Failure("both", "error", words, "y" * 900)),
    ]
    incident = {**samples.INCIDENT, "case_id": "z" * 200, "consequence": words}
    report = samples.report(cases, spec="s" * 300, incidents=[incident], complete=False, inject=0.05)
    lines = render(report, width).splitlines()
    words_of_wide_lines = [line.split() for line in lines if cell_len(line) > width]
    assert all(max(map(cell_len, words)) > width - 4 for words in words_of_wide_lines)
    assert long in lines
    assert len(lines) < 110
    assert all("…" not in line for line in lines)


@pytest.mark.parametrize(
    "name",
    [
        "conv2d_" + "x" * 186 + "_float32",
        "nd.Convolution(1x3x224x224,kernel=3x3,stride=2x2).forward.float32.cpu",
        "interpolate.Interpolate.time_interpolate('cubic', 1000, 'a dimension')/time",
    ],
)
def test_a_long_case_has_a_line_of_its_own_from_which_it_can_be_copied(name: str) -> None:
    lines = render(samples.report([samples.comparison(name), samples.comparison("short")])).splitlines()
    place = lines.index(name)
    assert " ".join(lines[place + 1].split()) == "+0.1 % [-0.9, +1.1] 123 us 12 1.2 %"
    (short,) = [line for line in lines if line.startswith("short ")]
    assert short.removeprefix("short").strip() == lines[place + 1].strip()
    assert len(short) == len(lines[place + 1]) <= 80


def test_the_id_of_a_case_that_failed_is_in_one_piece_too() -> None:
    name = "nd.Convolution(1x3x224x224,kernel=3x3,stride=2x2).forward.float32.cpu." + "x" * 99
    words = render(samples.report([samples.failed(name)])).split()
    assert (words.count(name), words.count(f"{name}:")) == (1, 1)


def test_many_unchanged_are_left_out_and_that_is_said() -> None:
    text = render(samples.report([*_cases(41), samples.comparison("bad", "regressed", 2.0)]))
    assert "case000" not in text
    assert "\nbad " in text
    assert "not shown: the 41 unchanged" in text
    assert "1 regressed, 0 failed, 0 inconclusive, 0 improved, 41 unchanged" in text


def test_some_unchanged_are_all_shown() -> None:
    text = render(samples.report(_cases(40)))
    assert all(f"\ncase{number:03d} " in text for number in range(40))
    assert "not shown" not in text


def test_only_unchanged_but_many() -> None:
    text = render(samples.report(_cases(50)))
    assert "0 regressed, 0 failed, 0 inconclusive, 0 improved, 50 unchanged" in text
    assert "change " not in text


def test_no_case_at_all() -> None:
    assert "0 regressed, 0 failed, 0 inconclusive, 0 improved, 0 unchanged" in render(samples.report([]))


def test_a_run_without_its_keys_is_still_reported() -> None:
    report = samples.report()
    bare = type(report)(RunRecord(), report.control, report.treatment, HostRecord(), report.comparisons)
    text = render(bare)
    assert "\nmuch slower" in text
    assert "at least 95 % sure" in text, "the default"
    assert "host       unknown CPU" in text


def test_incidents_are_said_and_those_that_are_alike_once() -> None:
    text = render(samples.report(incidents=[samples.INCIDENT]))
    assert "  round 3, nd.topk: control: killed: SIGKILL from outside\n    then: a new worker took its place\n" in text
    text = render(samples.report(incidents=[samples.INCIDENT, {**samples.INCIDENT, "case_id": None}]))
    assert "  2 incidents: control: killed: SIGKILL from outside\n    round 3, nd.topk, round 3, starting up\n" in text


def test_of_many_failures_the_rest_is_counted() -> None:
    failures = [Failure("treatment", "error", f"no {number:02d}") for number in range(23)]
    text = render(
        samples.report([samples.failed(f"f{number:02d}", failure) for number, failure in enumerate(failures)])
    )
    assert "\n  f19: treatment: error: no 19" in text
    assert "\n  f20: treatment: error" not in text
    assert "not shown: 3 more failures" in text


def test_failures_for_the_same_reason_are_listed_once_and_have_no_rows() -> None:
    missing, other = Failure("both", "error", "No module named 'cftime'"), Failure("control", "error", "broken")
    alike = [replace(samples.failed(f"f{number:02d}", missing), rounds=0) for number in range(7)]
    text = render(samples.report([*alike, replace(samples.failed("g", other), rounds=2), samples.comparison("steady")]))
    assert "\nfailed (8)\n  7 without figures: see below, under failures\ng " in text
    assert "\n  7 failures: both: error: No module named 'cftime'\n    f00, f01, f02, f03, f04 and 2 more\n" in text
    assert "\n  g: control: error: broken\n" in text


def test_several_threads_are_said_and_whether_cases_were_forked() -> None:
    assert "2 threads (3 cases in forks), 12 rounds" in " ".join(render(samples.report(threads=2)).split())
    alone = {"forked": 0, "alone": 3, "reason": "control: a fork loses 1 thread of the import (it)"}
    words = "2 threads (3 cases, each in a process pair of its own: control: a fork loses 1 thread of the import (it))"
    assert words in " ".join(render(samples.report(threads=2, forks=alone)).split())
    assert "2 threads, 12 rounds" in render(samples.report(threads=2, forks=None))
    assert "thread" not in render(samples.report())


def test_an_incomplete_run_says_so() -> None:
    why = "stopped by SIGTERM"
    assert f"NOT COMPLETE: {why}" in render(samples.report(complete=False, stop_reason=why))
    assert "NOT COMPLETE" not in render(samples.report())


def test_a_run_with_a_verdict_on_every_case_is_complete_unless_it_was_aborted() -> None:
    """It might have gone on: what has not regressed may be faster."""
    cases, why = [samples.comparison("a", "not_worse"), samples.comparison("b", "regressed", 1.1)], "out of time"
    report = samples.report(cases, complete=False, stop_reason=why)
    assert f"\nthe run ended with a verdict on every case: {why}\n" in render(report)
    assert "not complete" not in f"{render(report)}{list(tab_separated(report))}".lower()
    aborted = samples.report(cases, complete=False, aborted=True, stop_reason=why)
    undecided = samples.report([*cases, samples.comparison("c", "inconclusive")], complete=False, stop_reason=why)
    for other_report in (aborted, undecided):
        assert f"NOT COMPLETE: {why}" in render(other_report)
        assert "with a verdict on every case" not in render(other_report)


def test_what_the_driver_measures_beside_the_benchmark_says_what_it_is() -> None:
    steps = [render(samples.report(run_type=run_type)).splitlines()[0] for run_type in ("verify", "regress")]
    assert steps[0] == "run        the second measurement, on fresh processes, of what changed"
    assert steps[1] == "run        a step of the search for the culprit"


def test_the_host_s_gpus_are_named() -> None:
    report = samples.with_host(samples.report(), gpus=["One 80GB", "Other", "Other"])
    assert "2 CPUs, One 80GB, 2 × Other, 24 GiB" in render(report)


def test_a_busy_host_is_said() -> None:
    report = samples.report()
    noise = {name: {"min": mean, "max": mean, "mean": mean} for name, mean in (("other_cpu", 0.23), ("steal", 0.01))}
    busy = samples.with_host(report, during={"seconds": 1.0, **noise})
    assert "busy host  other processes took 23.0 % of the CPUs\n" in render(busy)
    disturbed = samples.with_host(samples.report(**DISTRUSTED), during={"seconds": 1.0, **noise})
    assert "busy host" not in render(disturbed), "it is said which processors were busy"
    assert "busy" not in render(report)


def _injected_cases() -> list[Comparison]:
    return [
        *(samples.comparison(f"found{number}", "regressed", 1.05, injected=True) for number in range(9)),
        samples.comparison("missed", "inconclusive", 1.02, injected=True),
        *_cases(10, "clean"),
    ]


def test_the_hosts_noise_has_a_line_on_every_screen() -> None:
    words = "a quiet host: blocks differ by 1.0 %"
    report = samples.report(_cases(2, "clean"), noise={"quad_sd": 0.01, "words": words})
    line = f"noise: {words}"
    assert render(report).splitlines()[-1] == line
    assert list(tab_separated(report))[-1] == f"# {line}"


def test_the_last_line_is_what_became_of_the_injection() -> None:
    line = "injected +5 %: found 9 of 10, missed 1; false alarms 0 of 10"
    report = samples.report(_injected_cases(), inject=0.05)
    assert render(report).splitlines()[-1] == line
    assert list(tab_separated(report))[-1] == f"# {line}"


def test_injected_cases_are_marked() -> None:
    report = samples.report([samples.comparison("one", "regressed", 2.0, injected=True), samples.comparison("two")])
    assert "1.2 %\n  injected\nunchanged" in render(report)


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
