"""The two screen reporters: what they print, in what order, in how many columns."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import report_samples as samples
from rich.cells import cell_len

from opduel.records import Comparison, Failure, HostRecord, RunRecord, Verification
from opduel.reporters.screen import render
from opduel.reporters.simple_screen import COLUMNS, tab_separated

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
not smaller (1)
hardly larger          +1.5 %    [-0.2, +3.2]  121 KiB      12  1.2 %
improved (1)
faster                -50.0 %  [-50.5, -49.5]  2.35 ms      12  1.2 %
not slower (1)
hardly faster          -1.3 %    [-2.2, -0.4]   123 us      12  1.2 %
  faster by 0.4 to 2.2 %
unchanged (1)
steady                 +0.1 %    [-0.9, +1.1]   123 us      12  1.2 %
interval: where the true change lies, in %, at least 95 % sure; mde: the
smallest change that this many rounds can show

2 regressed, 1 failed, 1 inconclusive, 1 not smaller, 1 improved, 1 not
  slower, 1 unchanged
threshold 2.0 %, false discovery rate 5 %, seed 7, 12 rounds, 3 min 50 s
failures:
  broken: treatment: crash: the worker died of SIGSEGV
    output tail: Segmentation fault: 11
next: --verify measures again what changed; --explain all says why
"""


def _cases(count: int, name: str = "case") -> list[Comparison]:
    return [samples.comparison(f"{name}{number:03d}") for number in range(count)]


def _positions(text: str, words: Sequence[str]) -> list[int]:
    return [text.index(f"\n{word}") for word in words]


def test_a_long_path_is_in_one_piece_and_the_versions_stay() -> None:
    path = "/home/somebody/projects/benchmarks/environments/control-2.2.6/bin/python"
    report = replace(samples.report(), control=replace(samples.CONTROL, requested=path))
    lines = render(report).splitlines()
    place = lines.index(f"control    {path}")
    assert lines[place + 1] == "           (mxnet 1.8.0, Python 3.11.7)"


def test_the_whole_screen() -> None:
    assert render(samples.report()) == WHOLE_SCREEN


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
    disturbed = samples.with_host(samples.report(**samples.DISTRUSTED), during={"seconds": 1.0, **noise})
    assert "busy host" not in render(disturbed), "it is said which processors were busy"
    assert "busy" not in render(report)


def test_the_hosts_noise_has_a_line_on_every_screen() -> None:
    words = "a quiet host: blocks differ by 1.0 %"
    report = samples.report(_cases(2, "clean"), noise={"quad_sd": 0.01, "words": words})
    line = f"noise: {words}"
    assert render(report).splitlines()[-1] == line
    assert list(tab_separated(report))[-1] == f"# {line}"


def test_injected_cases_are_marked() -> None:
    report = samples.report([samples.comparison("one", "regressed", 2.0, injected=True), samples.comparison("two")])
    assert "1.2 %\n  injected\nunchanged" in render(report)


def test_thousands_of_failed_cases_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(*_: object) -> bool:
        raise AssertionError("field by field, this takes minutes")

    cases = [*(samples.failed(f"f{number}") for number in range(5)), replace(samples.failed("g"), rounds=2)]
    monkeypatch.setattr(Comparison, "__eq__", compare)
    assert "5 without figures" in render(samples.report(cases))
