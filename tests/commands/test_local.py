"""repo_driver.py --local: what is measured, against what, and which cases; on a real git checkout, nothing is built."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome, driver_main, fresh_logging, run_bench_main

from opduel.commands.driver_options import parse_driver_options
from opduel.commands.driver_text import compile_lines
from opduel.commands.local import begin_local, plan_local
from opduel.commands.session import plan_session
from opduel.records import Commit

Drive = Callable[..., Outcome]


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=master")
    process = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return process.stdout.strip()


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


@pytest.fixture(scope="module")
def fixture_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Something like the framework's repository, and a clone of it on a branch of its own, beside each other."""
    folder = tmp_path_factory.mktemp("made")
    remote, clone = folder / "remote", folder / "checkout"
    remote.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(folder / "gitconfig"))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        git(remote, "init", "--quiet")
        for path in (
            "python/mxnet/gluon/loss.py",
            "python/mxnet/util.py",
            "src/operator/nn/convolution.cc",
            "README.md",
        ):
            write(remote, path, "1\n")
        git(remote, "add", ".")
        git(remote, "commit", "--quiet", "-m", "First")
        git(folder, "clone", "--quiet", str(remote), str(clone))
        git(clone, "checkout", "--quiet", "-b", "mine")
    return folder


@pytest.fixture
def checkout(fixture_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The clone, for this test alone."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("remote", "checkout"):
        shutil.copytree(fixture_repository / name, tmp_path / name)
    git(tmp_path / "checkout", "remote", "set-url", "origin", str(tmp_path / "remote"))
    return tmp_path / "checkout"


@pytest.fixture
def drive(home: Path, checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Drive:
    """A dry run in the checkout; overlays need no compiler, and there is no release of these sources."""
    monkeypatch.chdir(checkout)

    def call(*arguments: str, command: Callable[..., int] = driver_main) -> Outcome:
        with fresh_logging():
            code = command(["--local", "--dry_run", *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.mark.parametrize("command", [driver_main, run_bench_main])
def test_the_work_tree_against_the_merge_base_and_the_cases_it_can_touch(
    drive: Drive, checkout: Path, command: Callable[..., int]
) -> None:
    write(checkout, "python/mxnet/gluon/loss.py", "2\n")
    outcome = drive(command=command)
    assert outcome.code == 0, outcome.err
    assert "uncommitted changes in 1 file (python/mxnet/gluon/loss.py)" in outcome.err
    assert "python/mxnet/gluon/loss.py) can touch gluon.loss.*" in outcome.err
    assert "(where mine left origin/master)" in outcome.out
    assert "uncommitted changes on mine" in outcome.out
    assert "about 70 min" in outcome.out or "compiles" in outcome.out


def test_what_no_rule_is_about_touches_all_of_the_spec(drive: Drive, checkout: Path) -> None:
    write(checkout, "python/mxnet/util.py", "2\n")
    git(checkout, "commit", "--quiet", "-am", "Mine")
    outcome = drive("-b", "smoke")
    assert "python/mxnet/util.py) can touch every case: all of smoke.json" in outcome.err
    assert "uncommitted" not in outcome.err
    assert "1 to measure on 22 cases" in outcome.out


def test_the_report_has_the_cases_that_were_left_out(home: Path, checkout: Path, tmp_path: Path) -> None:
    write(checkout, "python/mxnet/gluon/loss.py", "2\n")
    for words, is_narrowed in (([], True), (["--all_cases"], False)):
        options = begin_local(parse_driver_options(["--local", str(checkout), *words]))
        planned = plan_local(options, plan_session(options.harness, {}, [], driver=options.own), tmp_path / "work")
        assert planned is not None
        left_out, cases = planned[1].labels.left_out, planned[1].cases
        assert (left_out is not None) == is_narrowed
        if left_out:
            assert left_out.total == len(left_out.cases) + len(cases)
            assert left_out.changed == ("python/mxnet/gluon/loss.py",)


def test_documentation_alone_is_nothing_to_measure(drive: Drive, checkout: Path) -> None:
    write(checkout, "README.md", "2\n")
    outcome = drive()
    assert (outcome.code, outcome.out) == (0, "")
    assert "nothing to measure: the changes can't touch any case" in outcome.err
    assert "1 to measure on" in drive("-b", "smoke", "--operators", "*").out


def test_what_can_not_be_meant_is_one_last_line(drive: Drive, checkout: Path, tmp_path: Path) -> None:
    def last(*arguments: str) -> str:
        outcome = drive(*arguments)
        assert outcome.code == 2
        return outcome.err.splitlines()[-1]

    unchanged = drive("-b", "smoke")
    assert unchanged.code == 0
    assert "nothing to measure: no file is changed" in unchanged.err
    write(checkout, "python/mxnet/gluon/loss.py", "2\n")
    assert "the changes can't touch any of the 22 cases of smoke.json" in last("-b", "smoke")
    assert "--branch nope: origin has no such branch" in last("-b", "smoke", "--branch", "nope")
    for option, value in (("--commit", "x"), ("--repo_dir", "."), ("--interval", "5"), ("--step", "2")):
        assert "--local measures the checkout as it is, once" in last(option, value)
    git(checkout, "rm", "-r", "--quiet", "--force", "python")
    git(checkout, "commit", "--quiet", "-m", "Gone")
    assert "is not a checkout of mxnet: it has no python/mxnet" in last("-b", "smoke")


def test_a_commit_by_the_name_head(home: Path, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(checkout, "python/mxnet/util.py", "2\n")
    git(checkout, "commit", "--quiet", "-am", "Mine")
    write(checkout, "python/mxnet/util.py", "3\n")
    options = ["--ab_testing", "-b", "smoke", "--repo_dir", str(checkout), "--commit", "HEAD", "--dry_run"]
    with fresh_logging():
        assert driver_main([*options, "--work_dir", str(home / "work")]) == 0
    captured = capsys.readouterr()
    assert f"treatment  {git(checkout, 'rev-parse', 'HEAD')[:12]}" in captured.out


def test_what_a_compile_takes_is_said() -> None:
    first, second = (Commit(str(number) * 40, 0, "", "") for number in (1, 2))
    assert compile_lines([], None, True) == []
    assert "about 70 min from nothing" in compile_lines([first], 70.0, True)[0]
    assert "the second one compiles only what differs" in compile_lines([first, second], None, True)[0]
    assert compile_lines([first], None, True)[0].endswith("native code that no release and no build in the cache has")
    assert compile_lines([first], None, False) == ["builds     111111111111: not in the cache yet"]


def test_a_suite_is_measured_as_it_was_asked_for(drive: Drive, checkout: Path) -> None:
    """No spec is meant, whose name would be a pattern for the names of benchmarks."""
    write(checkout, "pyproject.toml", "")
    write(checkout, "README.md", "2\n")
    suite = Path(__file__).resolve().parent.parent / "fixtures" / "asv_suite"
    outcome = drive("--suite", str(suite), "--bench", "time_")
    assert outcome.code == 0, outcome.err
    assert "1 file (README.md) changed; the suite's cases, as asked for" in outcome.err
