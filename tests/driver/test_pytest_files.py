"""Files of tests for pytest-benchmark: which of a folder's, their project, and what is said if there are none."""

from pathlib import Path

import pytest

from opduel.driver.suites.pytest_files import in_project, named_files, timed_files
from opduel.driver.suites.source import Suite, copy_suite, open_suite
from opduel.records import UsageError

TIMED = "def test_it(benchmark):\n    benchmark(int)\n"
MARKED = "import pytest\n@pytest.mark.benchmark\ndef test_it(): pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": "",
        "conftest.py": "",
        "pkg/__init__.py": "",
        "src/other/tests/test_deep.py": TIMED,
        "tests/conftest.py": "import pytest\n@pytest.fixture\ndef clock(benchmark): return benchmark\n",
        "tests/data.json": "{}",
        "tests/test_plain.py": "def test_it(): pass\n",
        "tests/benchmarks/test_clock.py": "def test_it(clock):\n    clock(int)\n",
        "tests/benchmarks/bench_marked.py": MARKED,
        "tests/.benchmarks/0001.json": "{}",
        ".venv/lib/test_others.py": TIMED,
        "bench_top.py": TIMED,
        "testing/benchmark.py": TIMED,
    }
    for name, text in files.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project"


def opened(text: str, folder: Path) -> Suite:
    return open_suite(text, folder / "cache", folder / "scratch")


def test_a_folder_s_files_are_those_with_timed_tests(project: Path) -> None:
    files = [str(path.relative_to(project)) for path in timed_files(project)]
    assert files == [
        "bench_top.py",
        "src/other/tests/test_deep.py",
        "testing/benchmark.py",
        "tests/benchmarks/bench_marked.py",
        "tests/benchmarks/test_clock.py",
    ]


def test_tests_come_with_their_folder_and_the_project_s_settings(project: Path) -> None:
    own = in_project([project / "tests/benchmarks/test_clock.py", project / "src/other/tests/test_deep.py"])
    assert (own.root, own.parts) == (project, ("tests", "src/other/tests", "conftest.py", "pyproject.toml"))
    assert in_project([project / "bench_top.py"]).parts == ("bench_top.py", "conftest.py", "pyproject.toml")


@pytest.mark.parametrize(
    ("test", "parts", "packages"),
    [
        ("pkg/testsuite/benchmarks/test_it.py", ("pkg/testsuite", "pkg/conftest.py"), ("pkg",)),
        ("pkg/test_it.py", ("pkg/test_it.py", "pkg/conftest.py"), ("pkg",)),
        ("pkg/testing/test_it.py", ("pkg/testing/test_it.py", "pkg/conftest.py"), ("pkg", "pkg/testing")),
        ("pkg/perf/tests/test_it.py", ("pkg/perf/tests", "pkg/conftest.py"), ("pkg", "pkg/perf")),
        ("src/core/deep/tests/test_it.py", ("src/core/deep/tests",), ("src/core", "src/core/deep")),
        ("benchmarks/deep/test_it.py", ("benchmarks",), ()),
        ("checks/quick/test_it.py", ("checks/quick", "checks/conftest.py"), ()),
    ],
)
def test_of_a_package_only_its_tests_are_a_part(
    tmp_path: Path, test: str, parts: tuple[str, ...], packages: tuple[str, ...]
) -> None:
    for name in ("pyproject.toml", test, "pkg/conftest.py", "checks/conftest.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TIMED)
    for folder in (tmp_path / test).parents:
        if folder.is_relative_to(tmp_path) and folder.name not in ("src", "checks", "quick", tmp_path.name):
            (folder / "__init__.py").write_text("")
    own = in_project([tmp_path / test])
    assert (own.parts, own.packages) == ((*parts, "pyproject.toml"), packages)


def test_a_suite_is_what_belongs_to_its_tests(project: Path, tmp_path: Path) -> None:
    suite = opened(str(project / "tests" / "benchmarks"), tmp_path)
    assert (suite.framework, suite.name, suite.folder) == ("pytest", "project", project)
    assert suite.tests == ("tests/benchmarks/bench_marked.py", "tests/benchmarks/test_clock.py")
    copied = copy_suite(suite, tmp_path / "copy")
    names = {str(path.relative_to(copied)) for path in copied.rglob("*.*") if path.is_file()}
    assert names == {
        *("conftest.py", "pyproject.toml", "tests/conftest.py", "tests/data.json", "tests/test_plain.py"),
        *("tests/benchmarks/test_clock.py", "tests/benchmarks/bench_marked.py"),
    }
    one_file = opened(str(project / "tests/benchmarks/test_clock.py"), tmp_path)
    assert one_file.digest == suite.digest
    assert one_file.identity != suite.identity


def test_files_are_named_by_words_and_patterns(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    two = [project / "tests/benchmarks/bench_marked.py", project / "tests/benchmarks/test_clock.py"]
    assert named_files("tests/benchmarks/*.py") == two
    assert named_files("tests/benchmarks/bench_marked.py tests/benchmarks/test_clock.py") == two
    assert named_files("bench_top.py tests") == [project / "bench_top.py", *two]
    assert named_files("https://host.example/a/b@main:tests/test_clock.py") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}/tests/gone.py", "/tests/gone.py: no such file: correct it"),
        ("{}/tests/gone_*.py", "gone_*.py: no such file: correct it"),
        ("{}/bench_top.py::test_it", "names a test: give the file, and the test as --bench test_it"),
        ("{}/gone", "no such folder or file: give a folder that has asv.conf.json or tests for pytest-benchmark"),
    ],
)
def test_what_has_no_timed_tests_is_one_line(project: Path, tmp_path: Path, text: str, words: str) -> None:
    (project / "tests" / "plain").mkdir()
    (project / "tests" / "plain" / "test_it.py").write_text("def test_it(): pass\n")
    with pytest.raises(UsageError) as caught:
        opened(text.format(project), tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
