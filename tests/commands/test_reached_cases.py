"""Cases that a change can't reach are left out; what each runs is recorded in workers of real interpreters."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_reports import Measuring

from opduel.commands.harness_adapter import NOT_REACHED, HarnessAdapter
from opduel.commands.options import read_options
from opduel.commands.reached_cases import leave_out
from opduel.commands.round_log import FileRoundLog
from opduel.commands.session import exit_code, plan_session
from opduel.commands.statements import statement_choice
from opduel.driver.attribution import Change
from opduel.driver.bisection import Step
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.runs import RunOrder
from opduel.driver.steps import steps_of
from opduel.frameworks import get_framework
from opduel.harness.processes.case_request import one_of_each_first
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Build, Case, RunError
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.summary import notes

WORK = """
import subprocess, sys, threading

def double(x):
    return 2 * x

TABLE = [double(number) for number in range(3)]

def by_key(values):
    return sorted(values, key=negative)

def negative(value):
    return -value

def threaded():
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()

def in_thread():
    return 1

def process():
    subprocess.check_call([sys.executable, "-c", ""])

def make():
    return Lazy()

class Lazy:
    def value(self):
        return 1
"""
STATEMENTS = ["pkg.by_key([1, 2])", "pkg.threaded()", "pkg.process()", "lazy.value()"]


@pytest.fixture(scope="module", autouse=True)
def _shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The user's cache, where recordings are kept: most tests have one control, which is recorded once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of recordings in a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "opduel" / "reach"


def build(folder: Path, text: str, interpreter: str = sys.executable) -> Build:
    site = folder / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    (site / "pkg.py").write_text(text)
    digest = str(abs(hash((text, interpreter))))
    environment = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    return Build(
        "python", "pkg", "source", interpreter, "pkg 1", "3", digest, environment=environment, directory=str(folder)
    )


def statement(code: str) -> Case:
    setup = "import pkg; lazy = pkg.make()"
    inputs = {"statement": code, "setup": setup, "modules": {}, "imports": ["pkg"]}
    return Case(code, "statement", "forward", inputs, "float64", "cpu", 0.02, 20.0)


def request(folder: Path, changed: str, interpreter: str = sys.executable) -> RunRequest:
    control, treatment = (build(folder / side, text, interpreter) for side, text in (("c", WORK), ("t", changed)))
    return RunRequest(get_framework("python"), control, treatment, list(map(statement, STATEMENTS)), 1)


def reached(folder: Path, changed: str, interpreter: str = sys.executable) -> dict[str, str]:
    """What reaches the cases, but for those of which it can't be known."""
    not_measured = leave_out(request(folder, changed, interpreter))
    assert not_measured is not None
    left_out = not_measured.left_out
    assert not not_measured.failures
    assert left_out.total == len(STATEMENTS) == len(left_out.cases) + len(left_out.reached)
    unknown = {case: reason for case, reason in left_out.reached.items() if reason.startswith("unknown")}
    assert unknown == {"pkg.process()": "unknown: it starts processes"}
    return {case: reason for case, reason in left_out.reached.items() if case not in unknown}


def interpreters() -> list[str]:
    """One that tells functions by a trace hook, and one with sys.monitoring, if there are such."""
    interpreters = []
    for version in ("3.8", "3.12", "3.13"):
        try:
            interpreters.append(str(find_interpreter(version)))
        except RunError:
            continue
    return [sys.executable, *interpreters]


@pytest.mark.parametrize("interpreter", interpreters())
def test_threads_callbacks_and_setups_count(tmp_path: Path, interpreter: str) -> None:
    changed = WORK.replace("return -value", "return -value - 0")
    assert reached(tmp_path / "callback", changed, interpreter) == {"pkg.by_key([1, 2])": "pkg.py:negative"}
    changed = WORK.replace("def in_thread():\n    return 1", "def in_thread():\n    return 2")
    assert reached(tmp_path / "thread", changed, interpreter) == {"pkg.threaded()": "pkg.py:in_thread"}
    changed = WORK.replace("return Lazy()", "return Lazy() or None")
    assert len(reached(tmp_path / "setup", changed, interpreter)) == 3


def test_what_imports_run_reaches_every_case(tmp_path: Path) -> None:
    words = set(reached(tmp_path, WORK.replace("2 * x", "x + x")).values())
    assert words == {"pkg.py:double"}


def test_a_method_that_comes_is_found_on_the_treatment(tmp_path: Path) -> None:
    names = WORK.replace("class Lazy:\n", "class Base:\n    def value(self):\n        return 0\n\nclass Lazy(Base):\n")
    without_method = names.replace("    def value(self):\n        return 1\n", "    pass\n")
    control, treatment = build(tmp_path / "c", without_method), build(tmp_path / "t", names)
    cases = [statement("lazy.value()"), statement("pkg.by_key([1])")]
    not_measured = leave_out(RunRequest(get_framework("python"), control, treatment, cases, 1))
    assert not_measured is not None
    left_out = not_measured.left_out
    assert (left_out.cases, left_out.changed) == (("pkg.by_key([1])",), ("pkg.py:Lazy.value",))


def test_what_was_recorded_is_kept(empty_cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    first = request(tmp_path, WORK.replace("return -value", "return 0 - value"))
    first = replace(first, cases=first.cases[:2])
    not_measured = leave_out(first)
    assert not_measured is not None
    assert [case.id for case in not_measured.without(first).cases] == ["pkg.by_key([1, 2])"]
    assert "recording what 2 cases run" in caplog.text
    assert "1 of 2 cases can be reached by this change; --all_cases measures all" in caplog.text
    caplog.clear()
    assert leave_out(first) == not_measured
    assert "recording" not in caplog.text
    damaged = next(empty_cache.glob("*.json"))
    damaged.write_text("{")
    assert leave_out(first) == not_measured


def test_a_case_of_each_benchmark_is_recorded_first() -> None:
    cases = [replace(statement(f"{name}{number}"), operator=name, inputs={}) for name in "abc" for number in (0, 1)]
    assert [case.id for case in one_of_each_first(cases)] == ["a0", "b0", "c0", "a1", "b1", "c1"]
    lines = [statement("f()"), replace(statement("f()"), id="again"), statement("g()")]
    assert [case.id for case in one_of_each_first(lines)] == ["f()", "g()", "again"]


def test_what_one_case_of_a_benchmark_reaches_counts_for_the_others(tmp_path: Path) -> None:
    first = request(tmp_path, WORK.replace("return -value", "return 0 - value"))
    again = [replace(case, id=f"{case.id} again") for case in map(statement, ("pkg.by_key([1, 2])", "lazy.value()"))]
    not_measured = leave_out(replace(first, cases=[*first.cases, *again]))
    assert not_measured is not None
    reached = not_measured.left_out.reached
    assert reached["pkg.by_key([1, 2]) again"] == reached["pkg.by_key([1, 2])"] == "pkg.py:negative"
    assert "lazy.value() again" in not_measured.left_out.cases


def test_cases_of_which_it_is_unknown_what_they_run_are_counted_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = request(tmp_path, WORK.replace("return -value", "return 0 - value"))
    assert leave_out(replace(first, cases=first.cases[:3])) is not None
    assert "1 of 3 cases can be reached by this change, as far as is known; --all" in caplog.text
    assert "1 more is measured, as what it runs isn't known: it starts processes" in caplog.text


@pytest.mark.usefixtures("one_fork")
def test_cases_that_neither_build_runs_are_not_measured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    statements = ["pkg.gone()", "pkg.lost()", "pkg.new()", "pkg.by_key([1])", "pkg.old"]
    control, treatment = (
        f"{WORK}def old():\n    pass\n",
        f"{WORK}def new():\n    pass\n".replace("-value", "0 - value"),
    )
    for at in ("first", "again"):  # what fails is looked at again, as its cause may be outside the builds
        builds = build(tmp_path / at / "c", control), build(tmp_path / at / "t", treatment)
        first = RunRequest(get_framework("python"), *builds, list(map(statement, statements)), 1)
        not_measured = leave_out(first)
        assert not_measured is not None
        assert {case: failure.side for case, failure in not_measured.failures.items()} == dict.fromkeys(
            ("pkg.gone()", "pkg.lost()", "pkg.old"), "both"
        )
    assert "1 case not measured, as both builds can't run it: missing: " in caplog.text
    later = not_measured.without(first)
    assert len(later.cases) == 5 - len(not_measured.left_out.cases)
    report = run_ab(later.configured(max_rounds=2))
    failed = {comparison.case: comparison for comparison in report.comparisons if comparison.failure}
    assert {"pkg.gone()", "pkg.lost()"} < failed.keys()
    assert "gone" in failed["pkg.gone()"].failure.reason
    assert failed["pkg.gone()"].rounds == 0


CACHED = """
import pkg

class Cached:
    def setup_cache(self):
        return 1

    def time_reached(self, cached):
        pkg.by_key([1, 2])

    def time_other(self, cached):
        pass
"""


def test_a_case_with_a_setup_cache_is_measured_as_what_that_runs_is_not_seen(tmp_path: Path) -> None:
    """133 of them were taken for cases that fail on both builds."""
    suite, work = tmp_path / "suite", tmp_path / "work"
    suite.mkdir()
    (suite / "kept.py").write_text(CACHED)
    variables = {"OPDUEL_SUITE": str(suite), "OPDUEL_SUITE_WORK": str(work)}
    builds = [build(tmp_path / "c", WORK), build(tmp_path / "t", WORK.replace("-value", "0 - value"))]
    control, treatment = (replace(side, environment={**side.environment, **variables}) for side in builds)

    def ask_suite(*words: str) -> Any:
        command = [sys.executable, str(get_framework("asv").scripts.suite), *words]
        process = subprocess.run(
            command, check=True, capture_output=True, env={**os.environ, **control.environment}, cwd=tmp_path
        )
        return json.loads(process.stdout or b"null")

    (suite / "__init__.py").touch()
    modules = ask_suite("discover", str(suite))["modules"]
    (folder_name,) = {benchmark["setup_cache"] for module in modules for benchmark in module["benchmarks"]}
    (work / folder_name).mkdir(parents=True)
    ask_suite("cache", str(suite), "kept.Cached.time_other", str(work / folder_name), str(1 << 20))
    names = ["kept.Cached.time_reached", "kept.Cached.time_other"]
    cases = [Case(name, name, "forward", {}, "float64", "cpu", 0.02, 20.0) for name in names]
    not_measured = leave_out(RunRequest(get_framework("asv"), control, treatment, cases, 1))
    assert not_measured is not None
    assert not_measured.failures == {}
    reasons = ["pkg.py:negative", "unknown: its setup_cache runs in a process of its own"]
    assert not_measured.left_out.reached == dict(zip(names, reasons, strict=True))


def test_comments_alone_record_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    not_measured = leave_out(request(tmp_path, f"# more\n{WORK}"))
    assert not_measured is not None
    assert len(not_measured.left_out.cases) == len(STATEMENTS)
    assert "recording" not in caplog.text


def test_builds_that_are_no_commits_are_measured_on_every_case(tmp_path: Path) -> None:
    first = request(tmp_path, f"{WORK}\n1 + 1\n")
    assert leave_out(replace(first, control=replace(first.control, directory=None))) is None
    assert leave_out(replace(first, control=replace(first.control, python="4"))) is None


LINES = ("pkg.threaded()", "pkg.by_key([3])", "pkg.process()")


def adapter_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...] = LINES, **choice: bool
) -> HarnessAdapter:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    options = read_options(["--local_reporter", str(tmp_path / "reports"), "--max_rounds", "2"], "opduel local")
    options = replace(options, setup="import pkg", statement=lines)
    session = plan_session(options, {}, [], chosen=lambda _: statement_choice(options))
    return HarnessAdapter(session, **choice)


COMMENTS = f"{WORK}\n# more\n"
IN_THREAD = WORK.replace("def in_thread():\n    return 1", "def in_thread():\n    return 2")


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize(
    ("changed", "all_cases", "expected_cases"),
    [
        (COMMENTS, False, []),
        (IN_THREAD, False, ["pkg.threaded()", "pkg.process()"]),  # of the latter it isn't known
        (COMMENTS, True, ["pkg.threaded()", "pkg.by_key([3])", "pkg.process()"]),
    ],
)
def test_a_step_of_a_search_measures_the_cases_that_run_what_differs(
    changed: str,
    all_cases: bool,
    expected_cases: list[str],
    measuring: Measuring,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    adapter = adapter_of(tmp_path, monkeypatch, all_cases=all_cases)
    sought_cases = ["pkg.threaded()", "pkg.by_key([3])", "pkg.process()"]
    log = FileRoundLog(tmp_path / "log", lambda: 1)
    order = RunOrder("x", "regress", build(tmp_path / "c", WORK), build(tmp_path / "t", changed), log, sought_cases)
    report = adapter.measure(order)
    assert [case.id for request in measuring.requests for case in request.cases] == expected_cases
    log.keep("a round")
    adapter.measure(order)  # when it goes on, the cases are the same
    assert [case.id for request in measuring.requests for case in request.cases] == 2 * expected_cases
    assert ("..pkg: nothing that these cases run differs" in caplog.text) == (not expected_cases)
    assert ("recording" in caplog.text) == (changed == IN_THREAD)
    left_out = report.run.left_out.cases if report.run.left_out else ()
    assert {*expected_cases, *left_out} == set(sought_cases)
    if not expected_cases:
        steps = steps_of(from_text(to_bytes(report).decode()), sought_cases, dict.fromkeys(sought_cases, "regressed"))
        assert set(steps.values()) == {Step("unchanged", Change(0.0, 0.0, 0.0))}


def test_a_run_without_reached_cases_passes_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control, treatment = (build(tmp_path / side, text) for side, text in (("c", WORK), ("t", COMMENTS)))
    log = FileRoundLog(tmp_path / "log", lambda: 1)
    order = RunOrder("x", "benchmark", control, treatment, log)
    report = adapter_of(tmp_path, monkeypatch, reached_only=True).measure(order)
    report = from_text(to_bytes(report).decode())
    assert [comparison.note for comparison in report.comparisons] == [NOT_REACHED] * 3
    assert exit_code(report) == 0
    assert notes(report)[0] == ("3 of 3 cases can't be reached by this change: left out; --all_cases measures them")


def test_lines_that_run_nothing_of_what_changed_are_told_apart_from_good_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    control, treatment = (build(tmp_path / side, text) for side, text in (("c", WORK), ("t", IN_THREAD)))
    order = RunOrder("x", "benchmark", control, treatment, FileRoundLog(tmp_path / "log", lambda: 1))
    report = adapter_of(tmp_path, monkeypatch, ("pkg.by_key([3])",), reached_only=True).measure(order)
    assert [comparison.note for comparison in report.comparisons] == [NOT_REACHED]
    warning = "nothing was measured, as no line runs what changed: pkg.py:in_thread: measure a line that does"
    assert warning in caplog.messages


def test_what_the_cases_of_a_step_run_is_recorded_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, treatment = (build(tmp_path / side, text) for side, text in (("c", WORK), ("t", "\n" + WORK)))
    log = FileRoundLog(tmp_path / "log", lambda: 1)
    order = RunOrder("", "regress", control, treatment, log, ["pkg.by_key([3])"])
    first_lines = []
    for reach in adapter_of(tmp_path, monkeypatch).reaches(order) or ():
        places = reach["pkg.by_key([3])"].functions
        first_lines.append(sorted(int(place.removeprefix("pkg.py:")) for place in places))
    assert first_lines[1] == [line + 1 for line in first_lines[0]]
    assert len(first_lines[0]) == 2, "by_key and negative"
    assert adapter_of(tmp_path, monkeypatch, all_cases=True).reaches(order) is None
    order_without_folder = replace(order, control=replace(control, directory=None))
    assert adapter_of(tmp_path, monkeypatch).reaches(order_without_folder) is None
