"""Suites: where they are, which version of them, and what two builds find in them."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from made_repository import serve
from made_suite import BUILD, FIXTURE, FRAMEWORK, PLAIN, opened

from opduel.driver.suites.configuration import SuiteConfiguration
from opduel.driver.suites.discovery import Discovered, all_cases, discover, problems_of
from opduel.driver.suites.source import copy_suite, files_of, find_benchmarks, open_suite
from opduel.records import RunError, UsageError


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, list[str]]:
    """A repository with a suite in the folder ``bench``, at two commits."""
    folder, commits = tmp_path / "project", []
    benchmarks = folder / "bench" / "benchmarks"
    benchmarks.mkdir(parents=True)
    (folder / "bench" / "asv.conf.json").write_text('{"project": "made"}')
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")

    def git(*words: str) -> str:
        process = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
        return process.stdout.strip()

    git("init", "--quiet", "--initial-branch", "main")
    for number in range(2):
        (benchmarks / "one.py").write_text(f"def track_number():\n    return {number}\n")
        git("add", ".")
        git("commit", "--quiet", "--message", f"number {number}")
        commits.append(git("rev-parse", "HEAD"))
    return folder, commits


def test_a_folder_is_found_by_its_configuration_or_by_itself(tmp_path: Path) -> None:
    benchmarks = FIXTURE / "made_benchmarks"
    discovered = find_benchmarks(FIXTURE)
    assert discovered[:2] == (benchmarks, "made-suite")
    assert discovered[2].requirements == ("packaging==24.2", "six")
    assert find_benchmarks(benchmarks) == discovered
    alone = tmp_path / "own"
    alone.mkdir()
    (alone / "one.py").write_text("")
    assert find_benchmarks(alone) == (alone, "own", SuiteConfiguration())


def test_a_commit_of_a_repository_is_taken_as_it_was(repository: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, (first, second) = repository
    at_first = opened(f"{folder}@{first}:bench", tmp_path / "a")
    assert (at_first.commit, at_first.dirty, at_first.name) == (first, False, "made")
    assert "return 0" in (at_first.folder / "one.py").read_text()
    assert at_first.pinned == f"{folder}@{first}:bench"
    at_second = opened(f"{folder}@main:bench/benchmarks", tmp_path / "b")
    assert at_second.commit == second
    assert at_second.digest != at_first.digest
    assert at_second.digest == opened(f"{folder}:bench", tmp_path / "c").digest


def test_an_address_is_cloned_once_and_followed(repository: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, (first, second) = repository
    with serve(tmp_path) as server:
        place = f"{server.url}/project/.git"
        newest = opened(f"{place}:bench", tmp_path)
        assert (newest.commit, newest.pinned) == (second, f"{place}@{second}:bench")
        (folder / "bench" / "benchmarks" / "two.py").write_text("")
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (("add", "."), (*author, "commit", "--quiet", "--message", "a third")):
            subprocess.run(["git", *words], cwd=folder, check=True)
        third = opened(f"{place}:bench", tmp_path / "again")
        assert third.commit not in (first, second)
        shutil.rmtree(tmp_path / "scratch")
        assert opened(f"{place}@main:bench", tmp_path).commit == third.commit
    assert len(list((tmp_path / "cache").iterdir())) == 1
    shutil.rmtree(tmp_path / "scratch")
    assert opened(f"{place}@{first}:bench", tmp_path).commit == first, "what is there needs no server"


def test_a_folder_in_a_work_tree_has_its_commit_and_says_whether_it_differs(
    repository: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, (_, second) = repository
    clean = opened(str(folder / "bench"), tmp_path)
    assert (clean.commit, clean.dirty, clean.pinned) == (second, False, str(folder / "bench"))
    assert opened(str(folder), tmp_path).folder == clean.folder, "the only one in the project"
    (folder / "elsewhere.py").write_text("")
    assert opened(str(folder / "bench"), tmp_path).dirty is False
    configuration = folder / "bench" / "asv.conf.json"
    committed = configuration.read_text()
    configuration.write_text('{"project": "made", "matrix": {"six": []}}')
    assert opened(str(folder / "bench"), tmp_path).dirty is True
    configuration.write_text(committed)
    (folder / "bench" / "benchmarks" / "two.py").write_text("")
    changed = opened(str(folder / "bench"), tmp_path)
    assert (changed.commit, changed.dirty) == (second, True)
    assert changed.digest != clean.digest
    outside = tmp_path / "own"
    outside.mkdir()
    (outside / "one.py").write_text("")
    assert (opened(str(outside), tmp_path).commit, opened(str(outside), tmp_path).dirty) == (None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}/nowhere", "no such folder"),
        ("{}/project@{}:nowhere", "has no such folder: name one after a colon"),
        ("{}/project@abcdef0:bench", "abcdef0"),
        ("{}/two", "/two: a and b have an asv.conf.json each: name one of these folders"),
        ("{}/plain", "has neither asv.conf.json nor Python files"),
        ("{}/project:nowhere", "no such folder"),
        ("{}/project@main:bench:more", "is neither a folder nor PATH_OR_REPOSITORY"),
        ("{}/plain@main:bench", "not a usable git repository"),
        ("{}/broken", "is not JSON with comments"),
        ("{}/lacking", "benchmark_dir: there is no folder benchmarks"),
        ("{}/my-benchmarks", "can't be imported under that name"),
        ("{}/list", "/list/asv.conf.json: matrix: is not a JSON object"),
    ],
)
def test_what_is_no_suite_is_refused_in_one_line(
    repository: tuple[Path, list[str]], tmp_path: Path, text: str, message: str
) -> None:
    for name in ("plain", "broken", "lacking", "my-benchmarks", "list", "list/benchmarks", "two", "two/a", "two/b"):
        (tmp_path / name).mkdir()
    for name in ("a", "b"):
        (tmp_path / "two" / name / "asv.conf.json").write_text("{}")
    (tmp_path / "broken" / "asv.conf.json").write_text('{"project": ')
    (tmp_path / "lacking" / "asv.conf.json").write_text("{}")
    (tmp_path / "my-benchmarks" / "one.py").write_text("")
    (tmp_path / "list" / "asv.conf.json").write_text('{"matrix": ["x"]}')
    with pytest.raises(UsageError) as refused:
        opened(text.format(tmp_path, repository[1][0]), tmp_path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "--suite" in str(refused.value) or "asv.conf.json" in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "https://ada:hunter22x@127.0.0.1:9/x.git",
        "https://ada:hunter22x@127.0.0.1:9/x.git@main:sub",
        "https://ada:hun/ter22x@127.0.0.1:9/x.git",
        "https://ada:p@ss/hunter22x@127.0.0.1:9/x.git@main",
        "https://x-access-token:hunter22x@127.0.0.1:9/x.git",
        "https://ghp_0123456789abcdef0123@127.0.0.1:9/x.git",
        "https://hunter22xhunter@127.0.0.1:9/x.git",
        "ssh://ada:hunter22x@127.0.0.1:9/x",
        "ghp_0123456789abcdef0123@127.0.0.1:x.git",
        "ada:hunter22x@127.0.0.1:9/x.git",
    ],
)
def test_a_secret_in_an_address_is_refused_and_in_no_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    caplog.set_level("INFO")
    with pytest.raises(UsageError, match=r"^--suite ") as refused:
        opened(address, tmp_path)
    for text in (str(refused.value), caplog.text, *map(str, tmp_path.rglob("*"))):
        assert not re.search("hunter|ter22x|ghp_", text)


def test_an_address_names_its_folder_without_its_user(repository: tuple[Path, list[str]], tmp_path: Path) -> None:
    opened(f"file://somebody@localhost{repository[0]}@main:bench", tmp_path)
    assert not list(tmp_path.rglob("*somebody*"))


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 2500, "x" * 300 + "@main", "\udcff"])
def test_a_name_that_no_file_can_have_is_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^--suite .*: no such folder"):
        opened(name, tmp_path)


def test_a_suite_that_is_edited_meanwhile_is_not_measured_as_what_it_was(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "bench.py").write_text("def time_one(): pass\n")
    suite = open_suite(str(tmp_path / "own"), tmp_path / "cache", tmp_path)
    assert copy_suite(suite, tmp_path / "first")
    (tmp_path / "own" / "bench.py").write_text("def time_other(): pass\n")
    with pytest.raises(RunError, match="was changed since it was read: start the run again"):
        copy_suite(suite, tmp_path / "second")


def test_a_suite_has_packages_of_whatever_name_and_what_links_lead_to(tmp_path: Path) -> None:
    suite, linked_folder = tmp_path / "suite", tmp_path / "elsewhere"
    for folder in (suite / "html", suite / "env", suite / "results", suite / "deep" / "env", linked_folder):
        folder.mkdir(parents=True)
        (folder / "bench.py").touch()
    (suite / "html" / "__init__.py").touch()
    (suite / "a_link").symlink_to(suite / "html")  # and html itself stays
    (suite / "linked").symlink_to(linked_folder)
    (linked_folder / "back").symlink_to(suite / "deep")
    for name, target in (("loop", suite), ("up", tmp_path), ("root", Path("/")), ("across", linked_folder)):
        (suite / "deep" / name).symlink_to(target)
    paths = list(map(str, files_of(suite)))
    assert [path for path in paths if "across" not in path and "back" not in path] == [
        *("a_link/__init__.py", "a_link/bench.py", "deep/env/bench.py"),
        *("html/__init__.py", "html/bench.py", "linked/bench.py"),
    ]
    assert {"deep/across/bench.py", "linked/back/env/bench.py"} <= set(paths)
    assert len(paths) < 12


def test_other_requirements_make_it_another_suite(tmp_path: Path) -> None:
    def identity(configuration: str) -> str:
        (tmp_path / "asv.conf.json").write_text(configuration)
        return opened(str(tmp_path), tmp_path).identity

    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "one.py").write_text("")
    plain = identity("{}")
    assert plain == identity('{"matrix": {"req": {}}}')
    first, other = (identity(f'{{"matrix": {{"req": {{"six": ["{version}"]}}}}}}') for version in ("1.16", "1.17"))
    assert len({plain, first, other}) == 3


def test_both_builds_benchmarks_are_one_list_that_says_who_has_what() -> None:
    wide = replace(PLAIN, name="m.Wide.time_it", names=("n", "how"), values=(("1", "2"), ("'x'",)))
    narrow = replace(wide, values=(("2", "3"), ("'x'",)), skipped=frozenset({1}))
    control = Discovered((PLAIN, wide), ("m.py: no", "both: no (/a/b.py)"))
    treatment = Discovered((wide and narrow,), ("both: no (/c/b.py)",))
    discovered = {"control": control, "treatment": treatment}
    assert {case.name: case.sides for case in all_cases(discovered)} == {  # type: ignore[arg-type]
        "m.time_one": ("control",),
        "m.Wide.time_it(1, 'x')": ("control",),
        "m.Wide.time_it(2, 'x')": ("control", "treatment"),
    }
    assert problems_of(discovered) == ["control: m.py: no", "both: no"]  # type: ignore[arg-type]
    assert wide.count == 2


def test_discovery_sees_the_users_variables(tmp_path: Path) -> None:
    folder = tmp_path / "asking"
    folder.mkdir()
    (folder / "one.py").write_text("import os\nif os.environ.get('SLOW') == '1':\n    def time_slow(): pass\n")
    assert discover(BUILD, FRAMEWORK, folder, tmp_path).benchmarks == ()
    (discovered,) = discover(BUILD, FRAMEWORK, folder, tmp_path, {"SLOW": "1"}).benchmarks
    assert discovered.name == "one.time_slow"


def test_a_build_that_cannot_import_the_suite_or_has_no_asv_runner_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken_suite"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('no data')")
    with pytest.raises(UsageError, match=r"^--suite: can't be imported by this one: RuntimeError: no data"):
        discover(BUILD, FRAMEWORK, broken, tmp_path)
    bare = replace(BUILD, environment={"PYTHONPATH": str(tmp_path / "hides")})
    (tmp_path / "hides").mkdir()
    (tmp_path / "hides" / "asv_runner.py").write_text("raise ModuleNotFoundError(\"No module named 'asv_runner'\")")
    with pytest.raises(UsageError, match=r"has no package asv_runner.*: install asv_runner=="):
        discover(bare, FRAMEWORK, FIXTURE / "made_benchmarks", tmp_path)
