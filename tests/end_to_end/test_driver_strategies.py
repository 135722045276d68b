"""Overlay and release strategies: a Python commit over a release's library, and releases bisected; no compiler."""

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from toy_driver import ToyDriver, toy_driver, verdicts
from toy_native import HERE
from toy_project import ToyProject


@dataclass(frozen=True)
class Released:
    """Three releases, the second of which slowed sum; and Python commits on top of the first, on the branch work."""

    driver: ToyDriver
    slow: str  # the commit that slows a front end
    docs: str  # the one after it


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Released:
    folder = tmp_path_factory.mktemp("released")
    project = ToyProject(folder / "toy")
    commits = {}
    for version, slow in (("1.0", {}), ("2.0", {"sum": 1.6}), ("3.0", {})):
        commits[version] = project.commit(f"Release {version}", slow=slow)
        project.tag(version)
        project.write_wheel(compiled(project, folder / f"library-{version}"), version, folder / "index")
    project.branch("work", "1.0")
    project.commit("Another front end", python_only=True)
    slow_commit = project.commit("Check the arguments", python_slow={"add": 8.0})
    docs = project.commit("Say what it computes", docs_only=True)
    driver = toy_driver(folder, project, releases=commits)
    index = (folder / "index" / "simple").as_uri()
    return Released(driver.with_environment(UV_DEFAULT_INDEX=index), slow_commit, docs)


def compiled(project: ToyProject, folder: Path) -> Path:
    """The library of what is checked out, made by the build script itself."""
    folder.mkdir()
    script = HERE / "specifications" / "host" / "build.sh"
    variables = {**os.environ, "BUILD_DIR": str(folder / "build"), "JOBS": "2"}
    subprocess.run(["sh", script, project.folder, folder], env=variables, capture_output=True, check=True)
    return folder / "libtoy.so"


def in_new_folder(released: Released, folder: Path) -> ToyDriver:
    return replace(released.driver, work=folder)


@pytest.mark.nightly
def test_a_slow_front_end_is_named_without_a_compiler(released: Released, tmp_path: Path) -> None:
    driver = in_new_folder(released, tmp_path)
    options = ["--base_commit", "1.0", "--exact_base", "--branch", "work"]
    outcome = driver.run("--regression", *options)
    assert outcome.code == 1, outcome.err
    assert f"first bad: {released.slow[:12]} 2024-01-08 Ada Toymaker: Check the arguments\n" in outcome.out
    assert "build      overlay" in outcome.err
    assert {report["treatment"]["strategy"] for report in driver.reports()} == {"overlay"}
    assert driver.compile_logs() == []


def test_a_commit_of_documentation_alone_is_unchanged_without_measuring(released: Released, tmp_path: Path) -> None:
    driver = in_new_folder(released, tmp_path)
    options = ["--base_commit", released.slow, "--exact_base", "--commit", released.docs]
    outcome = driver.run("--regression", *options)
    assert (outcome.code, outcome.out) == (0, ""), outcome.err
    (report,) = driver.reports()
    assert set(verdicts(report).values()) == {"unchanged"}
    assert len(verdicts(report)) == 3
    assert report["run"]["rounds"] == 0
    assert report["control"]["digest"] == report["treatment"]["digest"]
    assert [report[side]["commit"]["id"] for side in ("control", "treatment")] == [released.slow, released.docs]
    assert "byte-identical" in outcome.err


def test_two_tags_are_measured_as_their_releases(released: Released, tmp_path: Path) -> None:
    driver = in_new_folder(released, tmp_path)
    options = ["--base_commit", "2.0", "--exact_base", "--commit", "3.0", "--operators", "add", "--max_rounds", "2"]
    outcome = driver.run(*options, "--threshold", "50%")
    assert outcome.code in (0, 3), outcome.err  # 3: two rounds may be too few for a verdict
    (report,) = driver.reports()
    assert [report[side]["strategy"] for side in ("control", "treatment")] == ["release", "release"]
    assert [report[side]["version"] for side in ("control", "treatment")] == ["1.0", "1.0"]
    assert driver.compile_logs() == []


@pytest.mark.nightly
def test_the_first_bad_release_is_found(released: Released, tmp_path: Path) -> None:
    driver = in_new_folder(released, tmp_path)
    outcome = driver.run("--bisect_releases", "toy==1.0,toy==2.0,toy==3.0")
    assert outcome.code == 1, outcome.err
    assert "first bad: toy==2.0\n" in outcome.out
    (path,) = (driver.work / "culprits").glob("*.json")
    (culprit,) = json.loads(path.read_text())["culprits"]
    assert (culprit["good"], culprit["bad"]) == ("toy==1.0", [{"release": "toy==2.0"}])
    assert list(culprit["cases"]) == ["sum/float64/forward"]
    assert driver.compile_logs() == []


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("overlay", "has native sources of its own, unlike every release"),
        ("release", "is not the commit of a release"),
    ],
)
def test_a_strategy_that_does_not_serve_names_the_commit(
    released: Released, tmp_path: Path, strategy: str, words: str
) -> None:
    driver = in_new_folder(released, tmp_path)
    first = released.driver.project.first
    outcome = driver.run("--build", strategy, "--base_commit", first, "--exact_base", "--commit", "1.0")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"repo_driver.py: error: --build {strategy}: {first[:12]} (A toy) {words}" in outcome.err
    assert outcome.err.count("\n") == 1
