"""Tests for pytest are chosen by their ids, in whole or in part, by regular expressions, and as pytest's -k does."""

from pathlib import Path

import pytest

from opduel.commands.options import harness_parser
from opduel.commands.suite_patterns import check_patterns, named_by
from opduel.commands.words import options_and_others
from opduel.driver.suites.discovery import Benchmark, SuiteCase
from opduel.records import UsageError

SORT = Benchmark("tests/test_sort.py::TestSort::test_sort", "test", "", ("id",), (("1-int", "20-f[8]"),))
MERGE = Benchmark("tests/test_sort.py::test_sort_merge", "test", "", (), ())
CASES = [
    SuiteCase(benchmark, parameters, ("control",))
    for benchmark in (SORT, MERGE)
    for parameters in benchmark.parameters()
]
FIRST, SECOND, THIRD = (case.name for case in CASES)


def test_cases_have_pytest_s_ids() -> None:
    assert [case.name for case in CASES] == [f"{SORT.name}[1-int]", f"{SORT.name}[20-f[8]]", MERGE.name]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (SECOND, {SECOND}),
        (f"{SECOND}/memory", {SECOND}),
        (SORT.name, {FIRST, SECOND}),
        ("test_sort[20-f[8]]", {SECOND}),
        ("TestSort::test_sort", {FIRST, SECOND}),
        ("tests/test_sort.py::TestSort", {FIRST, SECOND}),
        ("test_sort", {FIRST, SECOND}),
        ("tests/test_sort.py", {FIRST, SECOND, THIRD}),
        ("sort_m.*e$", {THIRD}),
        ("sort and not int", {SECOND, THIRD}),
        ("(merge or INT) and sort", {FIRST, THIRD}),
        ("and sort", set()),
        ("quick and sort", set()),
    ],
)
def test_what_a_pattern_chooses(pattern: str, names: set[str]) -> None:
    check_patterns("-b", [pattern])
    assert named_by(pattern, CASES) == names


def test_what_is_no_name_and_no_pattern_is_refused() -> None:
    check_patterns("-b", ["test_sort[20-f[8]"])
    with pytest.raises(UsageError, match=r"-b \(sort: is not a regular expression"):
        check_patterns("-b", ["(sort"])


def test_a_shell_s_pattern_is_one_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("bench_a.py", "bench_b.py"):
        Path(name).write_text("")
    builds = ["a==1", "a==2"]
    for words in ([*builds, "--suite", "bench_a.py", "bench_b.py"], ["--suite=bench_a.py", "bench_b.py", *builds]):
        options, unnamed = options_and_others(words, harness_parser())
        assert (options, unnamed) == ([["--suite", "bench_a.py bench_b.py"]], builds)
