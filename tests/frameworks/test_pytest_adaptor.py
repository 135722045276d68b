"""Tests that time a call by pytest's fixture ``benchmark``: what is collected of them, and what is called, and when."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from suites import case_of, discovered, prepare, suite_worker

from opduel.harness.processes.process import SLOTS
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Failure

SETTINGS = """
[tool.pytest.ini_options]
addopts = "-p no_such_plugin -p xdist -n auto --cov pkg -m 'not slow' --gone=3 --depth 2"
filterwarnings = ["error", "ignore::no_such_module.Warning"]
required_plugins = ["pytest-nowhere"]
strict = true
strict_config = true
faulthandler_exit_on_timeout = true
asyncio_mode = "auto"
"""
CONFTEST = """
import os, pytest

def note(*words):
    with open(os.environ["NOTES"], "a") as stream:
        print(*words, file=stream)

def pytest_addoption(parser):
    parser.addoption("--depth", type=int)

@pytest.fixture(scope="session")
def server():
    note("server")
    yield "server"
    note("server ended")

@pytest.fixture
def timer(benchmark):
    return benchmark
"""
TESTS = """
import pytest
from conftest import note
from pytest_codspeed import BenchmarkFixture

class File:
    def __init__(self):
        self.is_open = True
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.is_open = False
        note("closed")

def test_plain():
    pass

def test_call(benchmark: BenchmarkFixture, server, tmp_path, pytestconfig):
    assert pytestconfig.getoption("--depth") == 2
    benchmark.extra_info["who"] = benchmark.name
    with File() as file:
        assert benchmark(lambda number, more: note("call", number, more, file.is_open, tmp_path.is_dir()), 1, more=2)
    note("never")

@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("kind", ["a-b", "c[d]"])
def test_sizes(benchmark, size, kind):
    @benchmark
    def result():
        note("sizes", size, kind)

class TestGroup:
    @pytest.mark.benchmark(group="one")
    def test_pedantic(self, benchmark):
        count = []
        def setup():
            count.append(1)
            note("setup", len(count))
            return (len(count),), {"word": "x"}
        benchmark.pedantic(lambda n, word: note("call", n, word), setup=setup, rounds=3,
                           teardown=lambda n, word: note("teardown", n))

    def test_through_another(self, timer):
        timer.pedantic(note, args=("args",), iterations=10, rounds=2)

@pytest.mark.benchmark
def test_marked(server):
    note("whole", server)

"""
OUTCOMES = """
import pytest

@pytest.mark.skip(reason="no device")
def test_skipped(benchmark):
    benchmark(int)

def test_skips(benchmark):
    pytest.skip("not today")

@pytest.mark.xfail(reason="known")
def test_xfails(benchmark):
    benchmark(int, "x")

def test_raises(benchmark):
    benchmark(int, "x")

def test_asserts(benchmark):
    assert 1 == 2

def test_fails(benchmark):
    pytest.fail("in words")

def test_without_fixture(benchmark, no_such_fixture):
    benchmark(int)

def test_forgets(benchmark):
    pass

def test_weaves(benchmark):
    benchmark.weave(int)

def test_catches(benchmark):
    with pytest.raises(ValueError):
        benchmark(int, "x")
"""

# Of aspectlib what pytest-benchmark uses: it replaces a function, and can undo that.
ASPECTLIB = """
class Weaving:
    def __init__(self, place, name, aspect):
        self.place, self.name, self.function = place, name, getattr(place, name)
        setattr(place, name, aspect(self.function))
    def rollback(self):
        setattr(self.place, self.name, self.function)

def weave(target, aspect, place):
    return Weaving(place, target, aspect)
"""
WOVEN = """
import sys
from conftest import note

def factorial(number):
    note("factorial", number)
    return number * factorial(number - 1) if number else 1

def test_woven(benchmark):
    benchmark.weave("factorial", place=sys.modules[__name__])
    assert factorial(2) == 2
    note("never")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text(SETTINGS)
    (root / "tests").mkdir()
    (root / "tests" / "conftest.py").write_text(CONFTEST)
    (root / "tests" / "test_calls.py").write_text(TESTS)
    (root / "tests" / "bench_outcomes.py").write_text(OUTCOMES)
    (root / "tests" / "woven").mkdir()
    (root / "tests" / "woven" / "aspectlib.py").write_text(ASPECTLIB)
    (root / "tests" / "woven" / "test_woven.py").write_text(WOVEN)
    (root / "tests" / "test_broken.py").write_text("import no_such_package\n")
    (root / "tests" / "test_skipped.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    return root


def test_pytest_collects_the_timed_tests_and_the_suite_s_settings_do_not_stop_it(project: Path) -> None:
    names = ("test_calls", "bench_outcomes", "test_broken", "test_skipped")
    [module] = discovered("pytest", project, *(f"tests/{name}.py" for name in names))["modules"]
    benchmarks = {benchmark["name"]: benchmark for benchmark in module["benchmarks"]}
    assert list(benchmarks)[:5] == [
        "tests/test_calls.py::test_call",
        "tests/test_calls.py::test_sizes",
        "tests/test_calls.py::TestGroup::test_pedantic",
        "tests/test_calls.py::TestGroup::test_through_another",
        "tests/test_calls.py::test_marked",
    ]
    assert benchmarks["tests/test_calls.py::test_sizes"]["values"] == [["a-b-1", "a-b-20", "c[d]-1", "c[d]-20"]]
    assert benchmarks["tests/test_calls.py::test_call"]["values"] == []
    assert module["problems"] == [
        "addopts: --gone=3: no plugin here has it",
        "addopts: -p no_such_plugin: is not installed",
        "tests/test_broken.py: ModuleNotFoundError: No module named 'no_such_package'",
        "tests/test_skipped.py: Skipped: could not import 'no_such_package': No module named 'no_such_package'",
    ]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("conftest.py", "import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("pyproject.toml", "[tool.pytest.ini_options]\nminversion = '99'\n", "requires pytest-99"),
    ],
)
def test_what_stops_pytest_is_one_line(tmp_path: Path, file: str, text: str, words: str) -> None:
    (tmp_path / file).write_text(text)
    (tmp_path / "test_it.py").write_text("def test_it(benchmark): benchmark(int)\n")
    error = discovered("pytest", tmp_path, "test_it.py")["error"]
    assert words in error
    assert "\n" not in error


# As pytest-cov begins: before any option can be left out.
COVERAGE = """
import sys, pytest

def pytest_addoption(parser):
    parser.addoption("--cov", dest="cov_source", action="append")

@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    if early_config.known_args_namespace.cov_source:
        sys.settrace(lambda *_: None)
"""


def test_no_coverage_is_recorded_of_what_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_coverage.py").write_text(COVERAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTEST_PLUGINS", "made_coverage")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --cov-report html --cov made_coverage\n")
    text = "import sys\nassert sys.gettrace() is None\ndef test_it(benchmark): benchmark(int)\n"
    (tmp_path / "test_it.py").write_text(text)
    [module] = discovered("pytest", tmp_path, "test_it.py")["modules"]
    assert [benchmark["name"] for benchmark in module["benchmarks"]] == ["test_it.py::test_it"], module


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the worker works, and beside which are the notes of the suite."""
    return tmp_path_factory.mktemp("worker") / "work"


@pytest.fixture(scope="module")
def shared_worker(project: Path, work: Path) -> Iterator[RestartingWorker]:
    with suite_worker("pytest", project, work, NOTES=str(work.with_name("notes"))) as worker:
        yield worker


@pytest.fixture
def worker(shared_worker: RestartingWorker, work: Path) -> RestartingWorker:
    """The worker, whose earlier cases have ended; no notes are there."""
    notes(shared_worker, work)
    work.with_name("notes").unlink(missing_ok=True)
    return shared_worker


def prepared(worker: RestartingWorker, name: str, **inputs: str) -> list[dict[str, Any]] | Failure:
    """What a worker says that prepares a case, and measures a block of it."""
    block = {"op": "block", "discard": 0, "calls": 2, "inner": 3}
    return worker.ask([prepare(name, **inputs), block], 60.0)


def notes(worker: RestartingWorker, work: Path) -> list[str]:
    for _ in range(SLOTS):
        worker.ask([], 30.0)  # waits until the last cases have ended
    path = work.with_name("notes")
    return path.read_text().splitlines() if path.exists() else []


def test_a_call_is_timed_where_the_test_makes_it_and_then_the_test_ends(worker: RestartingWorker, work: Path) -> None:
    answer = prepared(worker, "tests/test_calls.py::test_call")
    assert not isinstance(answer, Failure), answer
    assert len(answer[1]["ns"]) == 2
    first, *calls, closed, last = notes(worker, work)
    assert (first, closed, last) == ("server", "closed", "server ended")
    assert set(calls) == {"call 1 2 True True"}
    assert len(calls) > 6
    assert list(work.iterdir()) == []


def test_setup_and_teardown_surround_each_call(worker: RestartingWorker, work: Path) -> None:
    assert not isinstance(prepared(worker, "tests/test_calls.py::TestGroup::test_pedantic"), Failure)
    lines = notes(worker, work)
    expected = [line for n in range(1, len(lines) // 3 + 1) for line in (f"setup {n}", f"call {n} x", f"teardown {n}")]
    assert lines == expected


@pytest.mark.parametrize(
    ("name", "inputs", "line"),
    [
        ("test_sizes", {"id": "c[d]-20"}, "sizes 20 c[d]"),
        ("TestGroup::test_through_another", {}, "args"),
        ("test_marked", {}, "whole server"),
    ],
)
def test_decorators_other_fixtures_and_marks(
    worker: RestartingWorker, work: Path, name: str, inputs: dict[str, str], line: str
) -> None:
    assert not isinstance(prepared(worker, f"tests/test_calls.py::{name}", **inputs), Failure)
    assert notes(worker, work).count(line) > 6


def test_a_woven_function_is_timed_where_the_test_calls_it(worker: RestartingWorker, work: Path) -> None:
    assert not isinstance(prepared(worker, "tests/woven/test_woven.py::test_woven"), Failure)
    lines = notes(worker, work)
    assert len(lines) > 18
    assert lines == ["factorial 2", "factorial 1", "factorial 0"] * (len(lines) // 3)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("test_skipped", "skipped", "no device"),
        ("test_skips", "skipped", "not today"),
        ("test_xfails", "skipped", "expected to fail: known"),
        ("test_forgets", "skipped", "doesn't use benchmark"),
        ("test_raises", "error", "ValueError: invalid literal for int"),
        ("test_asserts", "error", "AssertionError: assert 1 == 2"),
        ("test_fails", "error", "in words"),
        ("test_without_fixture", "error", "fixture 'no_such_fixture' not found"),
        ("test_weaves", "error", "benchmark.weave needs aspectlib: add it with --suite_packages aspectlib"),
        ("test_catches", "error", "ValueError: invalid literal for int"),
        ("test_gone", "missing", "no test tests/bench_outcomes.py::test_gone"),
    ],
)
def test_what_does_not_run_says_why(worker: RestartingWorker, name: str, kind: str, words: str) -> None:
    answer = prepared(worker, f"tests/bench_outcomes.py::{name}")
    assert isinstance(answer, Failure)
    assert (answer.kind, words in answer.reason) == (kind, True), answer


def test_a_file_that_cannot_be_collected_fails_its_cases(worker: RestartingWorker) -> None:
    answer = prepared(worker, "tests/test_broken.py::test_it")
    assert isinstance(answer, Failure)
    assert "No module named 'no_such_package'" in answer.reason


def test_memory_of_a_call(worker: RestartingWorker) -> None:
    request = {"op": "memory", "case": case_of("tests/test_calls.py::test_marked"), "seed": 1, "calls": 2}
    answer = worker.ask([request], 60.0)
    assert not isinstance(answer, Failure), answer
    assert answer[0]["bytes"]["cpu"] > 0
