"""opduel local on a Python package: what is measured against what, in the checkouts that people have."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import ANYWAY, Outcome, fresh_logging
from made_suite import BUILD
from plain_package import CODE, SLOWER, PlainPackage

from opduel.commands.opduel import main
from opduel.driver.builds.package_builder import PackageBuilder

MODULE = "src/smoother/__init__.py"
STATEMENT = ("smoother.smooth(x)", "--setup", "x = range(1000)")
Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def original_package(tmp_path_factory: pytest.TempPathFactory) -> PlainPackage:
    """The checkout that each test has a copy of."""
    return PlainPackage(tmp_path_factory.mktemp("original") / "checkout")


@pytest.fixture(scope="module")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The builds of the checkout's commit and of the slower work tree, each made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def package(home: Path, original_package: PlainPackage) -> PlainPackage:
    return PlainPackage(home / "checkout", copied_from=original_package)


@pytest.fixture
def run(package: PlainPackage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``opduel local`` in the checkout."""
    monkeypatch.chdir(package.folder)

    def call(*arguments: str, command: str = "local") -> Outcome:
        with fresh_logging():
            code = main([command, *arguments])
        return Outcome(code, *capsys.readouterr())

    return call


def refused(outcome: Outcome) -> str:
    """Return the one line that says what is wrong, below what was found before."""
    assert (outcome.code, outcome.out) == (2, ""), outcome.err
    last = outcome.err.splitlines()[-1]
    assert last.startswith("opduel local: error: ")
    return last


def test_a_slower_work_tree_is_a_regression_and_is_answered_at_once_the_next_time(
    run: Run, package: PlainPackage, build_cache: Path
) -> None:
    """What page one promises, for real: both builds are made, and measured."""
    package.git("checkout", "--quiet", "-b", "mine")
    package.write(MODULE, SLOWER)
    options = (*STATEMENT, *ANYWAY, "--sentinels", "0", "--threshold", "20%", "--screen_reporter")
    options += ("--exec_dir", os.path.relpath(build_cache))
    outcome = run(*options)
    assert outcome.code == 1, outcome.err
    assert "smoother.smooth(x)" in outcome.out
    assert "(where mine left main)" in outcome.err
    assert "uncommitted changes in 1 file (src/smoother/__init__.py)" in outcome.err
    assert "mxnet" not in (outcome.out + outcome.err).lower()
    assert not list(package.folder.glob("reports")), "nothing of the checkout changes"
    again = run(*options)
    assert again.code == 1
    assert "smoother.smooth(x)" in again.out
    assert "building" not in again.err


def test_where_nothing_is_changed_nothing_is_measured(run: Run, package: PlainPackage) -> None:
    outcome = run(*STATEMENT)
    assert (outcome.code, outcome.out) == (0, "")
    assert "nothing to measure: no file is changed, and" in outcome.err
    assert "--base_commit HEAD~1 measures the last commit" in outcome.err


@pytest.mark.usefixtures("one_fork")
def test_missing_names_are_refused_before_anything_is_measured(run: Run, package: PlainPackage, home: Path) -> None:
    package.write(MODULE, SLOWER)
    options = (*ANYWAY, "--exec_dir", str(home / "cache"))
    for line, reason in (
        ("smoother.smooth", "names a function and doesn't call it: did you mean smoother.smooth()?"),
        ("smoother.smoth([1])", "AttributeError: module 'smoother' has no attribute 'smoth'"),
        ("smooth(rnage(3))", "NameError: name 'smooth' is not defined"),
    ):
        outcome = run(line, *options)
        last = f"opduel local: error: --statement {line}: neither build can execute it: {reason}"
        assert refused(outcome) == last
        assert "recording" not in outcome.err
    last = refused(run("x + 1", "--setup", "x = smooth([1])", *options))
    assert "error: --setup x = smooth([1]): neither build can execute it: NameError: name 'smooth' is not" in last
    last = refused(run("test_add", *options))
    assert "--statement test_add: is taken as a line of Python, which neither build can execute: NameError: " in last
    assert last.endswith("'test_add' is not defined; --suite and --bench choose benchmarks, --base_commit a commit")
    package.write(MODULE, f"{SLOWER}\n\ndef renamed(values):\n    return smooth(values)\n")
    outcome = run("smoother.renamed([1])", *options, "--max_rounds", "2", "--sentinels", "0")
    assert outcome.code == 3, "the control alone lacks it"
    assert outcome.err.endswith("nothing was compared: every case failed\n")


def test_setups_run_in_the_folder_of_the_command_and_what_they_raise_is_wrong_usage(
    run: Run, package: PlainPackage, build_cache: Path
) -> None:
    package.write("values.txt", "1 2")
    package.write(MODULE, SLOWER)
    options = (*ANYWAY, "--max_rounds", "2", "--sentinels", "0", "--exec_dir", str(build_cache))
    line, started = "smoother.smooth([1, 2])", "import os; assert os.path.exists('values.txt')"
    outcome = run(line, "--setup", started, *options)
    assert "both: error" not in outcome.out + outcome.err
    last = (
        "--setup open('no.txt'): neither build can execute it: FileNotFoundError: [Errno 2] No such file or directory"
    )
    assert last in refused(run(line, "--setup", "open('no.txt')", *options))


def test_a_file_in_the_place_of_the_folder_is_told_so(run: Run, package: PlainPackage) -> None:
    path = package.folder / MODULE
    package.write(MODULE, SLOWER)
    assert refused(run(str(path))).endswith(f"no line of Python: to measure its tests, write --suite {path}")
    assert "--base_comit=*** (did you mean --base_commit?)" in refused(run("--base_comit=HEAD~6"))


def test_a_build_that_fails_is_told_with_the_package_the_reason_and_the_log(
    run: Run, package: PlainPackage, home: Path
) -> None:
    package.write("backend.py", "def build_wheel(*arguments):\n    raise RuntimeError('no wheel today')\n")
    package.write(MODULE, SLOWER)
    outcome = run(*STATEMENT, *ANYWAY, "--exec_dir", str(home / "cache"))
    assert outcome.code == 3
    begin = r"opduel local: error: [0-9a-f]{12} can't be built: smoother: "
    end = r"RuntimeError: no wheel today; build.sh ended with exit code \d+, log: /\S+\.log"
    assert re.fullmatch(begin + end, outcome.err.splitlines()[-1])


def test_how_long_it_takes_is_said(run: Run, package: PlainPackage) -> None:
    package.write(MODULE, SLOWER)
    assert "measuring takes at most 180 s: --time_budget" in run(*STATEMENT, "--dry_run").err
    assert (
        "each comparison takes at most 180 s, and what earlier ones left of theirs: "
        in run(*STATEMENT, "--regression", "--dry_run").err
    )


def test_the_project_file_of_a_work_tree_is_named_where_it_is_at_fault(
    run: Run, package: PlainPackage, home: Path
) -> None:
    package.write("pyproject.toml", "[project]\nname = smoother\n")
    outcome = run(*STATEMENT, *ANYWAY, "--exec_dir", str(home / "cache"))
    assert outcome.code == 3
    last = outcome.err.splitlines()[-1]
    assert " can't be built: pyproject.toml: can't be read (Invalid value (at line 2, column 8)): correct it" in last


@pytest.mark.parametrize("name", ["master", "develop", "trunk", "whatever"])
def test_a_main_branch_of_any_name_without_a_remote(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    package = PlainPackage(home / "other", name)
    package.git("checkout", "--quiet", "-b", "mine")
    package.write(MODULE, SLOWER)
    monkeypatch.chdir(package.folder / "src")
    outcome = run(*STATEMENT, "--dry_run")
    assert outcome.code == 0, outcome.err
    assert f"(where mine left {name})" in outcome.out
    assert "1 to measure on 1 case; nothing was built or measured" in outcome.out


def test_a_detached_head_and_files_that_git_does_not_track(run: Run, package: PlainPackage) -> None:
    package.git("checkout", "--quiet", "--detach")
    package.write(MODULE, SLOWER)
    package.write("src/smoother/more.py", "")
    package.write("scratch.py", "")
    outcome = run(*STATEMENT, "--dry_run")
    assert outcome.code == 0, outcome.err
    assert f"(where {package.git('rev-parse', 'HEAD')[:12]} left main)" in outcome.out
    assert "uncommitted changes in 2 files (src/smoother/__init__.py, src/smoother/more.py)" in outcome.err
    assert "not built, unless you git add them: 1 new file (scratch.py)" in outcome.err


def test_a_commit_that_is_named_in_a_clone_that_is_not_ahead(
    run: Run, package: PlainPackage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.write(MODULE, SLOWER)
    package.commit("Slower")
    package.git("clone", "--quiet", str(package.folder), str(home / "clone"))
    monkeypatch.chdir(home / "clone")
    assert "left origin/main; --base_commit HEAD~1 measures" in run(*STATEMENT).err
    outcome = run(*STATEMENT, "--base_commit", "HEAD~1", "--dry_run")
    assert "(the base commit HEAD~1, as asked for)" in outcome.out


def test_the_suite_of_a_checkout_is_measured_unless_something_else_is_named(run: Run, package: PlainPackage) -> None:
    package.write("benchmarks/asv.conf.json", '{"benchmark_dir": "benchmarks", "project": "smoother", "repo": ".."}')
    package.write(
        "benchmarks/benchmarks/smoothing.py", "import smoother\n\n\ndef time_smooth():\n    smoother.smooth([1])\n"
    )
    package.write(MODULE, SLOWER)
    outcome = run("--dry_run")
    assert outcome.code == 0, outcome.err
    assert f"measuring the suite {package.folder}/benchmarks" in outcome.err
    assert "1 to measure on the suite's cases" in outcome.out
    assert "1 to measure on 1 case" in run(*STATEMENT, "--dry_run").out
    assert "is not for --statement: leave one of the two" in refused(run(*STATEMENT, "--suite", "benchmarks"))


def test_what_the_project_file_names_is_measured_unless_the_command_line_does(
    run: Run, package: PlainPackage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (
        '[tool.opduel.local]\nsetup = "x = range(9)"\nstatement = ["smoother.smooth(x)", "smoother.smooth(range(3))"]\n'
    )
    package.write("pyproject.toml", f"{(package.folder / 'pyproject.toml').read_text()}{settings}")
    assert "1 to measure on 2 cases" in run("--dry_run").out
    assert "1 to measure on 1 case;" in run("smoother.smooth([])", "--dry_run").out
    monkeypatch.chdir(home)
    assert "1 to measure on 2 cases" in run("checkout", "--dry_run").out, "the file is the checkout's"
    (home / "opduel.toml").write_text('[local]\nstatement = ["print()"]\n')
    package.write("pyproject.toml", "")
    assert "local.statement: is not one of the settings that" in refused(run("checkout", "--dry_run"))


def test_settings_of_the_project_s_suite_do_not_stop_a_line_of_python(run: Run, package: PlainPackage) -> None:
    settings = '[tool.opduel.local]\nsuite = "benchmarks"\nbench = ["time_"]\nsuite_packages = ["six"]\n'
    package.write("pyproject.toml", f"{(package.folder / 'pyproject.toml').read_text()}{settings}")
    package.write("benchmarks/asv.conf.json", '{"project": "smoother", "repo": ".."}')
    package.write("benchmarks/benchmarks/own.py", "def time_own():\n    pass\n")
    outcome = run("--dry_run")
    assert "1 to measure on the suite's cases that match time_;" in outcome.out
    assert "  the suite's cases are listed here once " in outcome.out
    assert "the suite's cases that match own;" in run("--suite", "benchmarks", "--bench", "own", "--dry_run").out
    assert "1 to measure on 1 case" in run(*STATEMENT, "--dry_run").out


def test_a_dry_run_lists_the_suite_s_cases_where_the_control_is_built(
    run: Run, package: PlainPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.write("benchmarks/asv.conf.json", '{"project": "smoother", "repo": ".."}')
    package.write("benchmarks/benchmarks/own.py", "def time_own():\n    pass\n\ndef time_other():\n    pass\n")
    package.write(MODULE, SLOWER)
    monkeypatch.setattr(PackageBuilder, "is_cached", lambda *_: True)
    monkeypatch.setattr(PackageBuilder, "build", lambda *_: BUILD)
    outcome = run("--bench", "time_own", "--dry_run")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-2:] == ["  own.time_own", "1 to measure on 1 case; nothing was built or measured"]


def test_a_package_in_a_folder_of_its_repository(run: Run, package: PlainPackage) -> None:
    package.git("checkout", "--quiet", "-b", "moved")
    for name in ("src", "backend.py", "pyproject.toml"):
        (package.folder / "python").mkdir(exist_ok=True)
        package.git("mv", name, f"python/{name}")
    package.commit("Moved")
    package.write(f"python/{MODULE}", CODE + "\n\ndef other():\n    pass\n")
    outcome = run("smoother.other()", "--base_commit", "HEAD", "--dry_run")
    assert outcome.code == 0, outcome.err
    assert "builds     " in outcome.out


def test_mistakes_are_one_line(run: Run, package: PlainPackage, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package.write(MODULE, SLOWER)
    nothing = refused(run())
    assert "has no asv.conf.json, nor tests that use the fixture benchmark: name a suite with --suite, or" in nothing
    assert "'mypackage.f(x)' --setup 'import mypackage; x = 1'" in nothing
    assert nothing == refused(run("--bench", "time_add"))
    assert "smoother.smooth(: is no Python code" in refused(run("smoother.smooth("))
    assert "nowhere/at_all: no such folder" in refused(run("nowhere/at_all", *STATEMENT))
    assert "--branch nope: " in refused(run(*STATEMENT, "--branch", "nope"))
    assert "--setup: belongs to statements" in refused(run("--setup", "x = 1"))
    (home / "empty").mkdir()
    monkeypatch.chdir(home / "empty")
    assert "empty: is not in a git checkout" in refused(run(*STATEMENT))
    package.git("rm", "--quiet", "--force", "pyproject.toml")
    monkeypatch.chdir(package.folder)
    assert "has no package: there is neither pyproject.toml nor setup.py" in refused(run(*STATEMENT))
