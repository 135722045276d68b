"""The folders that a suite works in: copies for both sides, what ``setup_cache`` makes, and what lies beside."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from made_suite import BUILD, FIXTURE, FRAMEWORK, PLAIN, opened

from opduel.driver.suites import work as suite_work
from opduel.driver.suites.discovery import SuiteCase, all_cases, discover
from opduel.driver.suites.work import CacheOrder, SuiteWork, cache_orders, new_work_folder


def test_each_side_works_in_a_copy_of_its_own_and_a_cache_that_fails_names_its_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite_work, "CACHE_BYTES", 32 << 20)
    own_work = SuiteWork.of(opened(str(FIXTURE), tmp_path), new_work_folder())
    builds = {side: own_work.on_side(side, BUILD) for side in own_work.copies}
    folders = [build.environment["OPDUEL_SUITE"] for build in builds.values()]
    assert len(set(folders)) == 2
    assert len({len(folder) for folder in folders}) == 1
    discovered = discover(builds["control"], FRAMEWORK, own_work.copies["control"], own_work.place("control"))
    chosen = [case for case in all_cases(dict.fromkeys(builds, discovered)) if case.benchmark.setup_cache]
    problems = own_work.make_caches(builds, FRAMEWORK, cache_orders(chosen, None))
    failures: Sequence[tuple[str, str]] = [
        ("CacheFails", "OSError: no data set"),
        ("CacheTooLarge", "wrote more than 32 MiB"),
        ("CacheHangs", "took more than 1 s"),
        ("CacheUnpicklable", "lambda"),
    ]
    for side in builds:
        for name, why in failures:
            (line,) = [case for case in problems if case.startswith(f"{side}: setup_cache of misbehaving.{name}.")]
            assert why in line
            assert "\n" not in line
        (cached,) = {case.benchmark.setup_cache for case in chosen if ".Cached." in case.name}
        assert (own_work.place(side) / str(cached) / "written.txt").read_text() == "by setup_cache"
        swept = own_work.copies[side] / "swept"
        assert {path.name: path.read_text() for path in swept.iterdir()} == {"Sweeps": "3", "SweepsToo": "3"}
    assert len(problems) == 8
    folder = own_work.root
    del own_work
    assert not folder.exists()


def test_a_shared_cache_is_made_by_a_benchmark_that_the_side_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_work = SuiteWork.of(opened(str(FIXTURE), tmp_path), new_work_folder())
    calls: list[tuple[str, str, float]] = []

    def make(work: SuiteWork, order: CacheOrder, *_: object) -> None:
        calls.append((order.side, order.benchmark, order.limit_s))

    monkeypatch.setattr(SuiteWork, "_make_cache", make)
    old = SuiteCase(replace(PLAIN, name="m.old", setup_cache="cache-1", timeout=90.0), {}, ("control",))
    new = SuiteCase(replace(PLAIN, name="m.new", setup_cache="cache-1", timeout=70.0), {}, ("treatment",))
    alone = SuiteCase(replace(PLAIN, name="m.alone", setup_cache="cache-2"), {}, ("treatment",))
    builds = dict.fromkeys(own_work.copies, BUILD)
    for chosen in ([old, new, alone], [new, old, alone]):
        assert own_work.make_caches(builds, FRAMEWORK, cache_orders(chosen, None)) == []
        assert calls == [("control", "m.old", 90.0), ("treatment", "m.new", 90.0), ("treatment", "m.alone", 60.0)]
        calls.clear()


def test_what_lies_beside_a_suite_is_beside_its_copies_but_for_what_the_build_has(tmp_path: Path) -> None:
    bench = tmp_path / "project"
    files = ("benchmarks/one.py", "shared/__init__.py", "data/x.csv", "helper.py", "pytest/__init__.py", "env/big.bin")
    for name in (*files, "src/packaging/__init__.py", ".git/config"):
        (bench / name).parent.mkdir(parents=True, exist_ok=True)
        (bench / name).write_text("")
    suite = opened(str(bench / "benchmarks"), tmp_path)
    with tempfile.TemporaryDirectory() as folder:
        SuiteWork.within(suite, Path(folder)).link_neighbours("control", BUILD)
        assert [path.name for path in Path(folder, "c").iterdir()] == [
            "benchmarks"
        ]  # another's folder, for all we know
    (bench / "asv.conf.json").write_text("{}")
    with tempfile.TemporaryDirectory() as folder:
        work = SuiteWork.within(suite, Path(folder))
        for _ in range(2):
            work.link_neighbours("control", BUILD)
        linked = {path.name for path in Path(folder, "c").iterdir() if path.is_symlink()}
        assert linked == {"asv.conf.json", "shared", "data", "helper.py"}  # pytest and packaging are this build's


def test_of_a_package_with_tests_that_the_build_lacks_everything_is_linked(tmp_path: Path) -> None:
    for name in ("checks/__init__.py", "checks/helper.py", "checks/tests/__init__.py", "packaging/__init__.py"):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text("")
    (tmp_path / "project" / "pyproject.toml").write_text("")
    for package in ("checks", "packaging"):  # the latter is this build's
        test = tmp_path / "project" / package / "tests" / "test_it.py"
        test.parent.mkdir(exist_ok=True)
        test.write_text("def test_it(benchmark): benchmark(int)\n")
    work = SuiteWork.within(opened(str(tmp_path / "project"), tmp_path), tmp_path / "work")
    work.link_neighbours("control", BUILD)
    copy = work.copies["control"]
    assert {path.name for path in (copy / "checks").iterdir()} == {"__init__.py", "helper.py", "tests"}
    assert {path.name for path in (copy / "packaging").iterdir()} == {"tests"}
