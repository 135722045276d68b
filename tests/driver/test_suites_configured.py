"""What asv's configuration says of the project beside its suite."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opduel.driver.suites.configured import SuiteSettings, read_suite_settings
from opduel.driver.suites.source import Suite, open_suite

URL = "https://git.example/made.git"


def suite_in(folder: Path, **configuration: Any) -> Suite:
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "bench.py").write_text("def time_it(): pass\n")
    (folder / "asv.conf.json").write_text(json.dumps({"project": "made", **configuration}))
    return open_suite(str(folder), folder / "cache", folder / "scratch")


@pytest.mark.parametrize(
    ("configuration", "repository", "branch"),
    [
        ({}, None, None),
        (
            {"repo": "https://git.example/made.git", "branches": ["develop", "old"]},
            "https://git.example/made.git",
            "develop",
        ),
        ({"repo": "../made", "branches": []}, "{}/made", None),
        ({"repo": URL, "branches": ["HEAD"]}, URL, None),  # NumPy's and SciPy's
    ],
)
def test_repository_and_branch(
    configuration: dict[str, Any], repository: str | None, branch: str | None, tmp_path: Path
) -> None:
    settings = read_suite_settings(suite_in(tmp_path / "bench", **configuration))
    assert (settings.repository, settings.branch) == (repository and repository.format(tmp_path), branch)


def test_of_a_suite_at_a_commit_it_is_that_repository(tmp_path: Path) -> None:
    suite_in(tmp_path / "made" / "bench", repo="..")
    git = ["git", "-C", str(tmp_path / "made"), "-c", "user.name=Ada", "-c", "user.email=ada@toy.example"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Benchmarks"]):
        subprocess.run([*git, *words], check=True)
    suite = open_suite(f"{tmp_path / 'made'}@main:bench", tmp_path / "cache", tmp_path / "scratch")
    assert read_suite_settings(suite).repository == str(tmp_path / "made")


def test_of_tests_for_pytest_it_is_their_checkout(tmp_path: Path) -> None:
    project = tmp_path / "made"
    (project / "tests").mkdir(parents=True)
    (project / "tests" / "test_it.py").write_text("def test_it(benchmark): benchmark(int)\n")
    git = ["git", "-C", str(project), "-c", "user.name=Ada", "-c", "user.email=ada@toy.example"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Tests"]):
        subprocess.run([*git, *words], check=True)
    for requested in (str(project / "tests"), f"{project}@main:tests"):
        scratch = tmp_path / str(len(requested))
        suite = open_suite(requested, tmp_path / "cache", scratch)
        assert read_suite_settings(suite) == SuiteSettings(str(project))


def test_a_folder_without_configuration_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "bench.py").write_text("def time_it(): pass\n")
    suite = open_suite(str(tmp_path / "own"), tmp_path, tmp_path)
    assert read_suite_settings(suite) == SuiteSettings()
