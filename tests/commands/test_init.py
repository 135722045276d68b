"""opduel init: what it finds in a checkout, what it writes, and that it overwrites nothing."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from command_line import Outcome, fresh_logging
from plain_package import PROJECT, PlainPackage

from opduel.commands.init import TEMPLATES
from opduel.commands.opduel import main

WORKFLOW = ".github/workflows/opduel.yml"
Init = Callable[..., Outcome]


@pytest.fixture
def package(home: Path) -> PlainPackage:
    return PlainPackage(home / "checkout")


@pytest.fixture
def init(package: PlainPackage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Init:
    """Run ``opduel init`` in the checkout."""
    monkeypatch.chdir(package.folder)

    def call(*arguments: str) -> Outcome:
        with fresh_logging():
            code = main(["init", *arguments])
        return Outcome(code, *capsys.readouterr())

    return call


def add_suite(package: PlainPackage) -> None:
    package.write("benchmarks/asv.conf.json", "{}")


def test_a_suite_is_named_in_five_lines_and_a_workflow_is_written(init: Init, package: PlainPackage) -> None:
    add_suite(package)
    outcome = init()
    assert (outcome.code, outcome.err) == (0, "")
    text = (package.folder / "pyproject.toml").read_text()
    assert text.startswith(PROJECT)
    assert len(text.removeprefix(PROJECT).split("\n")) == 7
    settings = tomllib.loads(text)["tool"]["opduel"]
    assert settings == {"threshold": "5%", "time_budget": 180, "local": {"suite": "benchmarks"}}
    assert (package.folder / WORKFLOW).read_text() == (TEMPLATES / "opduel.github.yml").read_text()
    first, *_, last = outcome.out.splitlines()
    assert first == "smoother: an asv suite in benchmarks"
    assert last == "try next: opduel local"
    assert '    suite = "benchmarks"' in outcome.out
    again = init()
    assert "pyproject.toml: has settings of opduel already, which stay as they are" in again.out
    assert "opduel.yml: is there already, and stays as it is" in again.out
    assert (package.folder / "pyproject.toml").read_text() == text


def test_a_dry_run_writes_nothing(init: Init, package: PlainPackage) -> None:
    outcome = init("--dry-run")
    assert "would write 6 lines to " in outcome.out
    assert f"would write {package.folder / WORKFLOW}, which measures each pull request" in outcome.out
    assert package.git("status", "--porcelain") == ""


def test_without_anything_to_measure_it_says_how_to_name_a_call(init: Init, package: PlainPackage) -> None:
    outcome = init("--ci", "none")
    assert outcome.out.startswith("smoother: no asv suite, and no tests that use the fixture benchmark\n")
    assert "try next: opduel local 'smoother.f(x)' --setup 'import smoother; x = 1'" in outcome.out
    assert not (package.folder / ".github").exists()
    assert tomllib.loads((package.folder / "pyproject.toml").read_text())["tool"]["opduel"]["local"] == {}


def test_tests_with_the_fixture_are_a_suite(init: Init, package: PlainPackage) -> None:
    package.write("tests/test_speed.py", "def test_smooth(benchmark):\n    benchmark(sum, [1])\n")
    package.write("tests/test_other.py", "def test_other(benchmarked):\n    pass\n")
    package.write(".venv/lib/test_theirs.py", "def test_theirs(benchmark):\n    pass\n")
    assert init().out.startswith("smoother: tests that use the fixture benchmark in tests/test_speed.py\n")


def test_a_merge_request_is_measured_where_the_remote_is_a_gitlab(init: Init, package: PlainPackage) -> None:
    package.git("remote", "add", "origin", "git@gitlab.example.org:team/smoother.git")
    assert ".gitlab-ci.yml, which measures each merge request" in init().out
    written = yaml.safe_load((package.folder / ".gitlab-ci.yml").read_text())
    assert any("opduel local" in line for line in written["opduel"]["script"])
    (package.folder / ".gitlab-ci.yml").write_text("test: {script: [make]}\n")
    outcome = init()
    assert ".gitlab/opduel.yml, which measures each merge request when .gitlab-ci.yml has" in outcome.out
    assert "    include: .gitlab/opduel.yml" in outcome.out
    assert (package.folder / ".gitlab-ci.yml").read_text() == "test: {script: [make]}\n"


def test_without_a_project_file_the_settings_are_in_a_file_of_their_own(init: Init, package: PlainPackage) -> None:
    package.git("mv", "pyproject.toml", "setup.py")
    package.write("setup.cfg", "[metadata]\nname = smoother\n")
    add_suite(package)
    assert init().code == 0
    settings = tomllib.loads((package.folder / "opduel.toml").read_text())
    assert settings == {"threshold": "5%", "time_budget": 180, "local": {"suite": "benchmarks"}}


def test_of_a_package_in_a_folder_the_workflow_names_the_folder(init: Init, package: PlainPackage) -> None:
    package.write("python pkg/pyproject.toml", PROJECT)
    (package.folder / "pyproject.toml").unlink()
    assert init("python pkg").code == 0
    assert "opduel local 'python pkg' --branch" in (package.folder / WORKFLOW).read_text()
    assert "[tool.opduel.local]" in (package.folder / "python pkg/pyproject.toml").read_text()


def test_mistakes_are_one_line(init: Init, package: PlainPackage, home: Path) -> None:
    assert "nowhere: no such folder" in init("nowhere").error_line()
    assert "is not in a git checkout" in init(str(home)).error_line()
    package.write("pyproject.toml", "[project\n")
    assert "pyproject.toml: is not TOML" in init().error_line()
    package.write("pyproject.toml", PROJECT)
    package.write("asv_bench/asv.conf.json", "{}")
    add_suite(package)
    assert (
        "asv_bench and benchmarks have a suite each: choose one, with opduel local --suite asv_bench"
        in init().error_line()
    )
    package.git("rm", "--quiet", "--force", "pyproject.toml")
    assert "has no package" in init().error_line()
