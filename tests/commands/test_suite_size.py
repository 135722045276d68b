"""How many cases a suite has, by its files alone."""

import ast
from pathlib import Path

import pytest

from opduel.commands.checkout import find_suite
from opduel.commands.suite_size import LONGEST_S, SHORTEST_S, SuiteSize, _public, size_of

ASV = """
import numpy as np

SIZES = [10, 100, 1000]

class _Base:
    params = [[1, 2], ["a", "b", "c"]]

    def time_inherited(self, n, kind): ...

class Suite(_Base):
    def setup(self, n, kind): ...
    def time_own(self, n, kind): ...
    def helper(self): ...

class Flat:
    params = [np.float32, np.float64]
    def track_size(self, dtype): ...

class Named:
    params: list = [SIZES, range(2)]
    def peakmem_it(self, n, times): ...

def time_plain(): ...
def time_several(n): ...
time_several.params = SIZES
def not_timed(): ...
"""
TESTS = """
import pytest

def test_plain(benchmark): ...
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ("a", "b"))
def test_several(benchmark, n, kind): ...
@pytest.mark.benchmark
def test_marked(): ...
def test_untimed(): ...
@pytest.mark.parametrize("n", range(4))
class TestGroup:
    def test_it(self, n, benchmark): ...
    def test_other(self, n): ...
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def size(folder: Path) -> SuiteSize:
    suite = find_suite(folder)
    assert suite is not None
    return size_of(suite)


def asv(folder: Path, text: str) -> SuiteSize:
    return size(write(folder, {"asv.conf.json": "{}", "benchmarks/__init__.py": "", "benchmarks/inner/own.py": text}))


def test_benchmarks_for_asv_count_for_each_set_of_parameters(tmp_path: Path) -> None:
    assert asv(tmp_path, ASV) == SuiteSize(6 + 6 + 2 + 6 + 1 + 3)


def test_tests_count_for_each_set_of_parameters(tmp_path: Path) -> None:
    assert size(write(tmp_path, {"tests/test_speed.py": TESTS})) == SuiteSize(1 + 6 + 1 + 4)


@pytest.mark.parametrize(
    ("params", "count"),
    [("tuple(it.product(A, range(4)))", 8), ("A + (3,)", 3), ("[f'{a}_{b}' for a, b in it.product(A, A)]", 4)],
)
def test_lists_that_are_made_of_others_count(tmp_path: Path, params: str, count: int) -> None:
    test = f"A = (1, 2)\n@pytest.mark.parametrize('n', {params})\ndef test_it(benchmark, n): ...\n"
    assert size(write(tmp_path, {"tests/test_speed.py": test})) == SuiteSize(count)
    filtered = test.replace(params, "[a for a in A if a]")
    assert size(write(tmp_path, {"tests/test_speed.py": filtered})) == SuiteSize(1, is_exact=False)


def test_tests_that_are_timed_by_a_fixture_of_their_own_count(tmp_path: Path) -> None:
    fixture = "import pytest\n@pytest.fixture\ndef timed(benchmark): return benchmark\n"
    tests = "def test_one(timed): ...\ndef test_two(timed): ...\n"
    assert size(write(tmp_path, {"tests/conftest.py": fixture, "tests/test_speed.py": tests})) == SuiteSize(2)


def test_parameters_of_fixtures_count_where_a_test_uses_them_and_replaces_none(tmp_path: Path) -> None:
    """In pytest's words: those of its own module, those of a conftest.py, and those that other fixtures use."""
    fixture = "@pytest.fixture(params={})\ndef {}({}): ...\n"
    above = "import pytest\n" + fixture.format("[1, 2]", "store", "") + fixture.format("[1]", "layout", "store")
    own = "import pytest\nN = (0, 0.03, 1)\n" + fixture.format("N", "latency", "layout, latency")
    tests = "def test_one(benchmark, latency, tmp_path): ...\ndef test_plain(benchmark): ...\n"
    tests += (
        "@pytest.mark.parametrize('n, store', [(1, 2)] , indirect=['store'])\ndef test_two(benchmark, n, layout): ..."
    )
    files = {"conftest.py": above, "speed/test_it.py": own + tests, ".git/config": "", "speed/conftest.py": "def ("}
    assert size(write(tmp_path, files)) == SuiteSize(6 + 1 + 1)
    unknown = "import pytest\n" + fixture.format("many()", "layout", "")
    assert size(write(tmp_path, {"speed/conftest.py": unknown})) == SuiteSize(3, is_exact=False)


@pytest.mark.parametrize(
    "params",
    [
        "names()",
        "[list(names()), [1, 2]]",
        "[*SIZES, 3]",
        "range(N)",
        f"[range({2**64})]",
        "[x for x in (1, 2)]",
        "[1] + [2]",
        "list(product([1, 2]))",
        "[names()]",
    ],
)
def test_parameters_that_only_running_would_tell_count_once(tmp_path: Path, params: str) -> None:
    suite_size = asv(tmp_path, f"def time_it(n): ...\ntime_it.params = {params}\ndef time_other(): ...\n")
    assert suite_size == SuiteSize(2, is_exact=False)
    assert suite_size.words == "at least 2 cases"


def test_parameters_of_a_decorator_count_once(tmp_path: Path) -> None:
    text = "@parameterized(['n'], [1, 2])\ndef time_it(n): ...\nclass Own:\n    @skip(1)\n    def time_own(self): ...\n"
    assert asv(tmp_path, text) == SuiteSize(2, is_exact=False)


def test_a_file_that_is_no_python_and_a_suite_without_its_folder_count_nothing(tmp_path: Path) -> None:
    assert asv(tmp_path / "a", "def time_it(:\n") == SuiteSize(0)
    (alias,) = ast.parse("x = 1").body
    alias.name = ast.Name("X")  # type: ignore[attr-defined]  # as of "type X = int", from Python 3.12 on
    assert list(_public([alias])) == []
    assert size(write(tmp_path / "b", {"asv.conf.json": "{}"})) == SuiteSize(0)


def test_a_time_budget_is_enough_for_all_cases_or_does_not_fit() -> None:
    for cases in range(0, 2000, 7):
        suite_size = SuiteSize(cases)
        assert SHORTEST_S <= suite_size.budget_s <= LONGEST_S, cases
        assert suite_size.budget_s % 60 == 0, cases
        assert suite_size.fits == (suite_size.needed_s <= suite_size.budget_s), cases
