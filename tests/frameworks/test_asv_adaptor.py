"""The adaptor for asv suites, in this process, on a small suite that has benchmarks of every kind."""

import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from adaptor_modules import load_adaptor
from suites import case_of as case
from suites import discovered

from opduel.frameworks import get_framework

FRAMEWORK = get_framework("asv")
SUITE = Path(__file__).resolve().parent.parent / "fixtures" / "asv_suite" / "made_benchmarks"


@pytest.fixture(scope="module")
def adaptor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """As a worker loads it, under a name of its own."""
    modules, finders, paths = set(sys.modules), list(sys.meta_path), list(sys.path)
    work = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPDUEL_SUITE", str(SUITE))
        patch.setenv("OPDUEL_SUITE_WORK", str(work))
        patch.setenv("PYTHONPATH", "")
        yield load_adaptor("asv")
    sys.meta_path[:], sys.path[:] = finders, paths
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("asv_adaptor", "made_benchmarks"):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the process is afterwards, whatever folder a benchmark works in."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def modules() -> list[dict[str, Any]]:
    """What a build finds: this environment's own."""
    listed: list[dict[str, Any]] = discovered("asv", SUITE)["modules"]
    return listed


@pytest.fixture(scope="module")
def benchmarks(modules: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The benchmarks by name."""
    return {benchmark["name"]: benchmark for module in modules for benchmark in module["benchmarks"]}


def test_all_kinds_are_discovered_and_what_cannot_be_used_is_told(
    modules: list[dict[str, Any]], benchmarks: dict[str, dict[str, Any]]
) -> None:
    kinds = {name: benchmark["kind"] for name, benchmark in benchmarks.items() if name.startswith("kinds.")}
    assert {kinds[f"kinds.{name}"] for name in ("time_sum", "Consumed.time_pop", "Sorted.time_sort")} == {"time"}
    assert kinds["kinds.Sorted.mem_list"] == "mem"
    assert kinds["kinds.Sorted.peakmem_sort"] == "peakmem"
    assert kinds["kinds.Sorted.track_size"] == "track"
    assert kinds["kinds.Raw.timeraw_loop"] == "timeraw"
    assert [line for module in modules for line in module["problems"]] == [
        "misbehaving.TooMany.time_one: ValueError: has 1000000 sets of parameters, more than 10000",
        "made_benchmarks.not_importable: ModuleNotFoundError: No module named 'no_such_library'",
    ]
    reverse = benchmarks["kinds.Sorted.time_reverse"]
    assert (reverse["names"], reverse["values"]) == (["size", "order"], [["10", "1000"], ["'up'", "'down'"]])
    assert (reverse["skipped"], reverse["timeout"]) == ([1], 17.0)
    assert reverse["version"] == "first"
    assert benchmarks["kinds.time_sum"]["pretty_name"] == "Sum a range"
    assert benchmarks["kinds.track_score"]["unit"] == "share"
    assert benchmarks["kinds.track_score"]["lower_is_better"] is False


def test_a_module_that_ends_its_process_costs_itself_alone(tmp_path: Path) -> None:
    suite = tmp_path / "ending_suite"
    suite.mkdir()
    for name, body in (("__init__", ""), ("ending", "import os; os._exit(0)"), ("good", "def time_it(): pass")):
        (suite / f"{name}.py").write_text(body)
    modules = discovered("asv", suite)["modules"]
    assert [benchmark["name"] for module in modules for benchmark in module["benchmarks"]] == ["good.time_it"]
    expected = "ending_suite.ending ended the process that imported it"
    assert [problem for module in modules for problem in module["problems"]] == [expected]


def test_what_most_modules_import_is_imported_once_where_that_is_safe(tmp_path: Path) -> None:
    imports = "import noted, with_thread\nimport sub.module as module\nfrom fractions import Fraction\n"
    bodies = {
        "plain": f"{imports}def time_it(): pass",
        "sets_mode": "import os\nimport sub\nfrom fractions import Fraction\nos.environ['MODE'] = 'fast'\nimport noted",
        "third": "import decimal\n    import colorsys",
    }
    suite = tmp_path / "importing_suite"
    suite.mkdir()
    (suite / "__init__.py").write_text("")
    for name, body in bodies.items():
        (suite / f"{name}.py").write_text(body)
    (tmp_path / "sub").mkdir()
    for name in ("sub/__init__", "sub/module", "noted", "with_thread"):
        (tmp_path / f"{name}.py").write_text("")
    note = f"open({str(tmp_path / 'imported')!r}, 'a').write('x')\n"
    (tmp_path / "sub" / "__init__.py").write_text(note)
    assert discovered("asv", suite)["preloaded"] == ["fractions", "sub"]
    assert (tmp_path / "imported").read_text() == "xx"  # to try it, and to have it
    (tmp_path / "sub" / "__init__.py").write_text(
        f"import threading, time\n{note}threading.Thread(target=time.sleep, args=[9], daemon=True).start()"
    )
    assert discovered("asv", suite)["preloaded"] == []


def test_texts_of_parameters_are_the_same_in_every_process(
    benchmarks: dict[str, dict[str, Any]], adaptor: ModuleType
) -> None:
    texts = benchmarks["kinds.Addressed.time_repr"]["values"][0]
    assert len(set(texts)) == 5
    assert not [line for line in texts if "0x" in line or len(line) > 60 or "\n" in line]
    for text in texts:
        adaptor.make_call(case("kinds.Addressed.time_repr", what=text), 1)()


def test_setup_is_done_with_the_parameters_and_both_sides_draw_the_same(adaptor: ModuleType) -> None:
    sorted_case = case("kinds.Sorted.time_sort", size="1000", order="'down'")
    ready_benchmarks = [adaptor.set_up_benchmark(sorted_case, 3, *adaptor.suite_folders()) for _ in range(2)]
    values = [ready.benchmark.func.__self__.values for ready in ready_benchmarks]
    assert values[0] == values[1]
    assert len(values[0]) == 1000
    assert values[0][0] > values[0][-1]
    assert (
        adaptor.set_up_benchmark(sorted_case, 4, *adaptor.suite_folders()).benchmark.func.__self__.values != values[0]
    )


def test_each_setup_draws_the_same_however_often_it_is_run(adaptor: ModuleType) -> None:
    ready = adaptor.set_up_benchmark(
        case("kinds.Sorted.time_sort", size="10", order="'up'"), 3, *adaptor.suite_folders()
    )
    instance = ready.benchmark.func.__self__
    first = instance.values
    for _ in range(2):  # setup's own numbers, then those of a second time
        ready.set_up_again()
    assert instance.values is not first
    assert instance.values == first


def test_a_call_works_in_a_folder_of_its_own_that_close_removes(adaptor: ModuleType) -> None:
    call = adaptor.make_call(case("kinds.Sorted.time_sort", size="10", order="'up'"), 1)
    folder = Path.cwd()
    assert folder.parent == Path(os.environ["OPDUEL_SUITE_WORK"])
    call.close()
    assert not folder.exists()


def test_setup_is_run_before_each_call(adaptor: ModuleType) -> None:
    call = adaptor.make_call(case("kinds.Consumed.time_pop"), 1)
    assert call.number == 1
    for _ in range(3):
        call.before()
        call()
    with pytest.raises(IndexError):
        call()
    assert not hasattr(adaptor.make_call(case("kinds.time_sum"), 1), "before")


def test_what_a_benchmark_reports_itself_is_a_value(adaptor: ModuleType) -> None:
    assert adaptor.value(case("kinds.Sorted.track_size", size="1000", order="'up'"), 1) == 1000
    assert adaptor.value(case("kinds.track_score"), 1) == 0.25
    assert adaptor.value(case("kinds.track_random"), 5) == adaptor.value(case("kinds.track_random"), 5)
    small = adaptor.value(case("kinds.Sorted.mem_list", size="10", order="'up'"), 1)
    assert 10 * adaptor.value(case("kinds.Sorted.mem_list", size="1000", order="'up'"), 1) > 100 * small > 0
    with pytest.raises(TypeError, match="returned a str, not a number"):
        adaptor.value(case("misbehaving.track_text"), 1)


def test_skips_say_why(adaptor: ModuleType) -> None:
    with pytest.raises(Exception, match="needs a larger machine") as error:
        adaptor.make_call(case("kinds.NoFeature.time_nothing"), 1)
    assert error.value.kind == "skipped"  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError, match="this build has no such feature") as error:
        adaptor.make_call(case("kinds.time_without_feature"), 1)()
    assert error.value.kind == "skipped"  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="it returned nan") as error:
        adaptor.value(case("misbehaving.track_nan"), 1)
    assert error.value.kind == "skipped"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("kinds.time_nothing", {}),
        ("nowhere.time_sum", {}),
        ("kinds.Sorted.time_sort", {"size": "11", "order": "'up'"}),
        ("kinds.Sorted.time_sort", {"size": "10"}),
    ],
)
def test_a_benchmark_that_the_suite_lacks_is_missing(adaptor: ModuleType, name: str, inputs: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"has no|has the parameters") as error:
        adaptor.make_call(case(name, **inputs), 1)
    assert error.value.kind == "missing"  # type: ignore[attr-defined]


def test_a_module_that_cannot_be_imported_costs_its_own_benchmarks_alone(adaptor: ModuleType) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        adaptor.make_call(case("not_importable.time_nothing"), 1)


def test_own_clocks_and_fresh_interpreters_time_themselves(adaptor: ModuleType) -> None:
    assert adaptor.make_call(case("kinds.time_own_clock"), 1).sample() >= 0
    raw = adaptor.make_call(case("kinds.Raw.timeraw_loop", param1="20000"), 1)
    assert 1e4 < raw.sample() < 1e9  # nanoseconds of the loop, not of the interpreter's start alone


def make_cache(folder: Path, name: str, max_bytes: int = 1 << 20) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(FRAMEWORK.scripts.suite), "cache", str(SUITE), name, str(folder), str(max_bytes)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_cache_is_made_once_and_handed_to_the_benchmarks(
    adaptor: ModuleType, benchmarks: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    (name,) = {benchmark["setup_cache"] for name, benchmark in benchmarks.items() if ".Cached." in name}
    folder = Path(os.environ["OPDUEL_SUITE_WORK"], name)
    folder.mkdir()
    assert make_cache(folder, "kinds.Cached.track_made").returncode == 0
    with (folder / "cache.pickle").open("rb") as stream:
        assert pickle.load(stream)["made"] == 7
    assert adaptor.value(case("kinds.Cached.track_made"), 1) == 7
    assert adaptor.value(case("kinds.Cached.track_same_process"), 1) == 0
    assert adaptor.runs_elsewhere(case("kinds.Cached.track_made")) == "its setup_cache runs in a process of its own"
    (folder / "failed.txt").write_text("setup_cache of it: no data set")
    with pytest.raises(Exception, match="setup_cache of it: no data set"):
        adaptor.value(case("kinds.Cached.track_made"), 1)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("CacheFails", "OSError: no data set"),
        ("CacheTooLarge", "File too large"),
        ("CacheUnpicklable", "Can't pickle|Can't get local object"),
    ],
)
def test_a_cache_that_cannot_be_made_says_why_in_one_line(tmp_path: Path, name: str, why: str) -> None:
    process = make_cache(tmp_path, f"misbehaving.{name}.time_with_it")
    assert process.returncode == 1
    assert re.search(why, process.stderr.strip().splitlines()[-1])


def test_memory_is_what_a_call_holds_beyond_its_setup(adaptor: ModuleType) -> None:
    sorted_case = case("kinds.Sorted.time_sort", size="1000", order="'up'")
    assert 8000 < adaptor.memory(sorted_case, 1, 3)["cpu"] < 16000
    assert math.isfinite(adaptor.memory(case("kinds.Consumed.time_pop"), 1, 3)["cpu"])


def test_memory_ends_with_teardown_and_leaves_no_folder(adaptor: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = sys.modules["made_benchmarks.kinds"]
    torn: list[Path] = []
    monkeypatch.setattr(kinds.Sorted, "teardown", lambda *_: torn.append(Path.cwd()))
    adaptor.memory(case("kinds.Sorted.time_sort", size="10", order="'up'"), 1, 2)
    monkeypatch.setattr(kinds.Sorted, "time_sort", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        adaptor.memory(case("kinds.Sorted.time_sort", size="10", order="'up'"), 1, 2)
    assert len(torn) == 4, "after each of three calls, and after the one that fails"
    assert not [folder for folder in torn if folder.exists()]


def test_memory_is_of_calls_after_a_setup_each_and_leaves_nothing(
    adaptor: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed = sys.modules["made_benchmarks.kinds"].Consumed
    monkeypatch.setattr(consumed, "setup", lambda self: setattr(self, "stack", [1]))  # enough for one call
    work = Path(os.environ["OPDUEL_SUITE_WORK"])
    folders_before = set(work.iterdir())
    assert adaptor.memory(case("kinds.Consumed.time_pop"), 1, 3)["cpu"] >= 0
    assert set(work.iterdir()) == folders_before
    assert Path.cwd() == work


def test_without_a_suite_a_case_says_so(adaptor: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPDUEL_SUITE")
    with pytest.raises(ValueError, match="--suite"):
        adaptor.make_call(case("kinds.time_sum"), 1)


def test_a_setup_cache_in_the_suites_own_file_has_one_name_on_both_sides(tmp_path: Path) -> None:
    code = "def setup_cache():\n    return 1\n\ndef time_one(one):\n    pass\n\ntime_one.setup_cache = setup_cache\n"
    names = set()
    for side in "ct":
        folder = tmp_path / side / "own"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code)
        (benchmark,) = [entry for module in discovered("asv", folder)["modules"] for entry in module["benchmarks"]]
        names.add(benchmark["setup_cache"])
    assert len(names) == 1
    assert names != {None}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("np.float64(1.5)", "1.5"),
        ("[np.int64(3), np.True_, np.str_('a b')]", "[3, True, 'a b']"),
        ("<function f at 0x7f00ab>", "<function f>"),
        ("np.array([1.5])", "np.array([1.5])"),
        ("<class 'numpy.bool'> <class 'numpy.bool_'>", "<class 'numpy.bool_'> <class 'numpy.bool_'>"),
        ("np.interp(1)", "np.interp(1)"),
        ("mynp.float64(1)", "mynp.float64(1)"),
    ],
)
def test_a_parameter_has_one_text_in_all_processes_and_releases(adaptor: ModuleType, text: str, want: str) -> None:
    assert sys.modules[f"{adaptor.__name__}.benchmarks"].without_differences(text) == want


def test_a_parameter_that_is_a_path_of_the_suite_has_the_same_text_in_every_copy(
    adaptor: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmarks = sys.modules[f"{adaptor.__name__}.benchmarks"]
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(benchmarks, "PLACES", [])
    monkeypatch.setenv("PYTHONPATH", "")
    texts = set()
    for copy in ("c", "t"):
        (tmp_path / copy / "bench").mkdir(parents=True)
        benchmarks.make_importable(str(tmp_path / copy / "bench"))
        texts.add(benchmarks.without_differences(repr(tmp_path / copy / "bench" / "data" / "a.json")))
    assert texts == {"PosixPath('bench/data/a.json')"}
