"""--suite: the cases that the options choose of a suite, and what they are measured by; on this environment."""

import functools
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from made_suite import BUILD, FIXTURE, FRAMEWORK

from opduel.commands import suite_selection
from opduel.commands.case_selection import Choice
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.launch import run_harness
from opduel.commands.options import read_options
from opduel.commands.suite_patterns import check_patterns, named_by
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.builds.uv import UnresolvableError
from opduel.driver.suites.discovery import Benchmark, Discovered, SuiteCase, discover
from opduel.records import Build, Case, RunError, UsageError

GRADIENT = Benchmark("m.time", "time", "b.m", ("grid",), (), frozenset(), None, None, None, "seconds", "v", None, True)


@functools.cache
def discovered() -> Discovered:
    """What this environment finds: asked once."""
    with tempfile.TemporaryDirectory() as folder:
        return discover(BUILD, FRAMEWORK, FIXTURE / "made_benchmarks", Path(folder))


def parsed(*words: str) -> HarnessOptions:
    return read_options(["--suite", str(FIXTURE), *words])


def select(*words: str, suite: Discovered | None = None) -> SuiteSelection:
    return SuiteSelection(parsed(*words), lambda *_: suite or discovered())


def chosen(*words: str, suite: Discovered | None = None) -> Choice:
    selection = select(*words, suite=suite)
    return selection.choose(selection.on_sides({"control": BUILD, "treatment": BUILD}))


def cases(*words: str) -> dict[str, Case]:
    return {case.id: case for case in chosen(*words).cases}


def test_cases_are_named_as_asv_names_them_and_measured_by_what_their_benchmarks_are() -> None:
    choice = chosen("-b", r"^kinds\.Sorted")
    case_by_id = {case.id: case for case in choice.cases}
    assert list(case_by_id)[:2] == ["kinds.Sorted.mem_list(10, 'up')/value", "kinds.Sorted.mem_list(10, 'down')/value"]
    assert len(case_by_id) == 4 * 5 - 1
    assert "kinds.Sorted.time_reverse(10, 'down')" not in case_by_id
    sort = case_by_id["kinds.Sorted.time_sort(1000, 'down')"]
    assert (sort.operator, sort.metric, sort.timeout_s) == ("kinds.Sorted.time_sort", "time", 17.0)
    assert sort.inputs == {"size": "1000", "order": "'down'"}
    size = case_by_id["kinds.Sorted.track_size(10, 'up')/value"]
    assert (size.unit, size.lower_is_better) == ("items", True)
    assert case_by_id["kinds.Sorted.mem_list(10, 'up')/value"].unit == "bytes"
    assert case_by_id["kinds.Sorted.peakmem_sort(10, 'up')/process_memory"].metric == "process_memory"
    record = choice.suite_record
    assert record is not None
    assert record.benchmarks["kinds.Sorted.time_sort"]["version"] == "first"
    assert record.skipped_by_parameters == 1
    assert len(record.problems) == 2
    assert choice.framework
    environment = choice.framework.environment(1)
    assert environment["OPDUEL_SUITE_DIGEST"] == record.digest


@pytest.mark.parametrize(("problems", "asked"), [((), ["1", "2"]), (("can't be imported",), ["1", "1", "2"])])
def test_a_build_is_asked_for_its_benchmarks_once_unless_it_had_problems(
    problems: tuple[str, ...], asked: list[str]
) -> None:
    digests: list[str] = []

    def count(build: Build, *_: object) -> Discovered:
        digests.append(build.digest)
        return replace(discovered(), problems=problems)

    selection = SuiteSelection(parsed(), count)
    first, second = (replace(BUILD, digest=digest) for digest in ("1", "2"))
    selection.collect(selection.on_sides({"control": first, "treatment": first}))
    selection.renew()
    again = selection.another()
    again.collect(again.on_sides({"control": first, "treatment": second}))
    assert digests == asked


def test_workers_preload_what_both_builds_can() -> None:
    selection = select("-b", "time_sum")  # without caches to make
    by_interpreter = {BUILD.digest: ("numpy", "xarray"), "other": ("scipy", "xarray")}
    selection._discover = lambda build, *_: replace(discovered(), preloaded=by_interpreter[build.digest])
    choice = selection.choose(selection.on_sides({"control": BUILD, "treatment": replace(BUILD, digest="other")}))
    assert choice.framework
    assert choice.framework.environment(1)["OPDUEL_SUITE_PRELOADED"] == "xarray"
    plain = chosen("-b", "time_sum", suite=replace(discovered(), preloaded=())).framework
    assert plain
    assert "OPDUEL_SUITE_PRELOADED" not in plain.environment(1)


def test_patterns_match_the_whole_name_and_operators_choose_further() -> None:
    assert list(cases("-b", r"Array\.time_sort\(1000\)")) == ["numeric.Array.time_sort(1000)"]
    both = cases("--bench", "kinds.time_sum", "--bench", "time_product$")
    assert list(both) == ["kinds.time_sum", "kinds.time_product"]
    assert list(cases("-b", "kinds", "--operators", "kinds.time_sum")) == ["kinds.time_sum"]


def test_an_exact_name_chooses_itself_and_patterns_come_second() -> None:
    gradients = [
        SuiteCase(replace(GRADIENT, name=name, values=(("'480km'", "'C++ [fast]'"),)), {"grid": grid}, ("control",))
        for name in ("grids.time_gradient", "grids.time_gradient_twice")
        for grid in ("'480km'", "'C++ [fast]'")
    ]
    names = [case.name for case in gradients]
    for case in gradients:
        assert named_by(case.name, gradients) == named_by(f"{case.name}/memory", gradients) == {case.name}
        check_patterns("-b", [case.name])
    assert named_by("grids.time_gradient", gradients) == set(names[:2])
    assert named_by("time_gradient", gradients) == set(names)
    assert named_by(r"time_gradient\(.*480km", gradients) == {names[0]}
    assert named_by("grids.time_gradient('C++ [fast')", gradients) == set()


def test_metrics_are_chosen_among_those_that_a_benchmark_can_be_measured_by() -> None:
    chosen = cases("-b", r"time_sort\(10, 'up'\)|track_score|Raw|peakmem_sort\(10, 'up'", "--metric", "time,memory")
    assert list(chosen) == [
        *("kinds.Sorted.time_sort(10, 'up')", "kinds.Sorted.time_sort(10, 'up')/memory"),
        "kinds.Raw.timeraw_loop(20000)",
    ]
    assert list(cases("-b", "track_score|time_sum$", "--metric", "value")) == ["kinds.track_score/value"]
    own = cases("--timeout", "3", "--threshold", "value=7%", "-b", "track_score")["kinds.track_score/value"]
    assert (own.timeout_s, own.threshold, own.lower_is_better, own.unit) == (3, 0.07, False, "share")


def test_higher_is_better_where_an_option_says_so() -> None:
    chosen = cases("-b", "track_(random|size)", "--higher_is_better", "track_size.*1000")
    assert {id: case.lower_is_better for id, case in chosen.items() if "size(10, 'up')" in id or "1000" in id} == {
        "kinds.Sorted.track_size(10, 'up')/value": True,
        "kinds.Sorted.track_size(1000, 'up')/value": False,
        "kinds.Sorted.track_size(1000, 'down')/value": False,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--higher_is_better", "("), "--higher_is_better (: is not a regular expression"),
        (
            ("-b", "no_such"),
            "-b no_such: matches no benchmark of the suite by its name or as a regular expression: the",
        ),
        (
            ("--bench", "nosuch", "-b", "other"),
            "--bench nosuch -b other: matches no benchmark of the suite by its name",
        ),
        (("--bench", "("), "--bench (: is not a regular expression"),
        (("-b", "kinds.time_smu"), "by its name or as a regular expression: did you mean kinds.time_sum?"),
        (("-b", "Srted"), "by its name or as a regular expression: did you mean Sorted?"),
        (
            ("-b", "kinds.time_sum(+)"),
            "by its name, and is not a regular expression (nothing to repeat at position 15): did",
        ),
        (("-b", "("), r"-b (: is not a regular expression"),
        (("-b", "track_score", "--metric", "memory"), "--metric memory: no selected benchmark"),
        (
            ("--metric", "instructions"),
            "--metric instructions: no selected benchmark is measured by it: choose among time, ",
        ),
        (("--inputs", "{}"), "--inputs: is not for a suite's benchmarks"),
        (("--program", "out/{build}/bench"), "--program: is not for a suite's benchmarks"),
        (("--command_args", "-n 3"), "--command_args: is not for a suite's benchmarks"),
        (("--string_map", '{"size": "100"}'), "--string_map: is not for a suite's benchmarks"),
        (("--framework", "mxnet"), "--framework mxnet: measures no suites"),
        (("-b", "time_sum$", "--inject", "5%"), "--inject slows every second case"),
        (("-b", "kinds", "--operators", "nowhere"), "no case matches 'nowhere'"),
    ],
)
def test_what_chooses_nothing_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen(*words)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-b", "smoke", "--bench", "one"), "--bench: is for a suite's benchmarks: add --suite"),
        (("-b", "smoke", "--higher_is_better", "one"), "--higher_is_better: is for a suite's benchmarks"),
        (("--suite", "anywhere", "--treatment", "numpy==2.2.6", "--rounds", "2"), "--suite: needs two builds"),
        (("--suite", "anywhere", "--golden", "there"), "--suite: needs two builds"),
    ],
)
def test_a_suite_needs_two_builds_and_its_options_need_a_suite(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_harness("harness.py", words)


def test_a_sample_of_a_suite_is_drawn_by_the_seed() -> None:
    selection = select("-b", r"kinds\.Sorted", "--sample", "5")
    builds = selection.on_sides({"control": BUILD, "treatment": BUILD})
    some = [case.id for case in selection.choose(builds, 1).cases]
    assert len(some) == 5
    assert some == [case.id for case in selection.choose(builds, 1).cases]
    assert some != [case.id for case in selection.choose(builds, 2).cases]


def configured(tmp_path: Path, configuration: str, *words: str) -> SuiteSelection:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "bench.py").write_text("def time_it(): pass\n")
    (tmp_path / "asv.conf.json").write_text(configuration)
    return SuiteSelection(read_options(["--suite", str(tmp_path), *words]))


def test_the_configurations_variables_are_set_where_the_user_and_opduel_set_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    variables = '{"LEVEL": ["7"], "MODE": ["a"], "OMP_NUM_THREADS": ["1"], "MKL_NUM_THREADS": ["8"], "OPDUEL_X": ["1"]}'
    selection = configured(tmp_path, f'{{"matrix": {{"env_nobuild": {variables}}}}}', "--env", "MODE=b")
    assert selection.options.variables == {"LEVEL": "7", "MODE": "b"}
    assert selection.options.env == ("LEVEL", "MODE")
    notes = [record.getMessage() for record in caplog.records]
    assert len(notes) == 2
    assert notes[0].startswith(
        "asv.conf.json: matrix: MKL_NUM_THREADS=8: not followed: --env MKL_NUM_THREADS: is set by"
    )
    assert notes[1].startswith("asv.conf.json: matrix: OPDUEL_X=1: not followed")


def test_packages_of_a_suite_are_replaced_by_an_option(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    configuration = '{"environment_type": "conda", "matrix": {"geos": [], "numpy": ["1"], "pip+six": ["1.16"]}}'
    selection = configured(tmp_path, configuration)
    assert selection.framework.builds.suite_required == ("six==1.16",)
    assert "geos, numpy: not installed, as PyPI may have others of these names" in caplog.text
    assert "--suite_packages 'six==1.16 geos numpy'" in caplog.text
    caplog.clear()
    for words, packages in (("numpy six", ("numpy", "six")), ("none", ())):
        selection = SuiteSelection(read_options(["--suite", str(tmp_path), "--suite_packages", words]))
        assert selection.framework.builds.suite_required == packages
    assert "not installed" not in caplog.text
    with pytest.raises(
        UsageError, match=r"^--suite_packages ./own: is a path: give requirements, such as numpy==2.2.6"
    ):
        SuiteSelection(read_options(["--suite", str(tmp_path), "--suite_packages", "./own"]))


def test_benchmarks_without_a_limit_have_the_configurations() -> None:
    selection = select("-b", "kinds.time_sum")
    configuration = replace(selection.suite.configuration, timeout_s=300.0)
    selection.suite = replace(selection.suite, configuration=configuration)
    (case,) = selection.choose(selection.on_sides({"control": BUILD, "treatment": BUILD})).cases
    assert case.timeout_s == 300.0


def test_modules_are_found_where_asv_looks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASV_PYTHONPATH", f"helpers{os.pathsep}/opt/shared")
    expected = f"{tmp_path / 'helpers'}{os.pathsep}/opt/shared"
    assert SuiteSelection(parsed()).options.variables == {"PYTHONPATH": expected}
    assert SuiteSelection(parsed("--env", "PYTHONPATH=/own")).options.variables == {"PYTHONPATH": "/own"}


def test_what_a_projects_tests_need_is_installed_unless_the_user_says_what(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[dependency-groups]\ntest = ['hypothesis', 'six==1']\n")
    (tmp_path / "test_it.py").write_text("def test_it(benchmark): benchmark(int)\n")
    suite, resolved = ["--suite", str(tmp_path)], []
    caplog.set_level("INFO")
    monkeypatch.setattr(suite_selection, "lock", lambda lines, *_, **__: resolved.append(lines))
    packages = SuiteSelection(read_options(suite)).framework.builds.suite_required
    assert [packages] == resolved == [("hypothesis", "six==1")]
    assert "builds get the group test of pyproject.toml, 2 packages (others: --suite_packages" in caplog.text
    assert SuiteSelection(read_options([*suite, "--suite_packages", "none"])).framework.builds.suite_required == ()

    error: Exception = UnresolvableError("six==1", "there is no six==1", "")

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(suite_selection, "lock", refuse)
    assert SuiteSelection(read_options(suite)).framework.builds.suite_required == ()
    assert "the group test of pyproject.toml can't be resolved, and is left out: there is no six==1: giv" in caplog.text
    error = RunError("the package index can't be reached")
    assert SuiteSelection(read_options(suite)).framework.builds.suite_required == packages
