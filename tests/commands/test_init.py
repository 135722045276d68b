"""opduel init: what it finds in a checkout, what it writes, and that it overwrites nothing."""

import json
import tomllib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from command_line import Outcome, fresh_logging
from plain_package import PROJECT, PlainPackage

from opduel.commands import init as init_module
from opduel.commands.init import TEMPLATES
from opduel.commands.opduel import main

WORKFLOW = ".github/workflows/opduel.yml"
Init = Callable[..., Outcome]


@pytest.fixture
def package(home: Path) -> PlainPackage:
    return PlainPackage(home / "checkout")


@pytest.fixture
def init(package: PlainPackage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Init:
    """Run ``opduel init`` in the checkout, by an opduel that isn't installed."""
    monkeypatch.chdir(package.folder)
    install(monkeypatch, PackageNotFoundError())

    def call(*arguments: str) -> Outcome:
        with fresh_logging():
            code = main(["init", *arguments])
        return Outcome(code, *capsys.readouterr())

    return call


def install(monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    """Let opduel be installed from there: what the installer has noted, None for an index."""

    def distribution(name: str) -> SimpleNamespace:
        assert name == "opduel"
        if isinstance(origin, Exception):
            raise origin
        text = origin if isinstance(origin, str | None) else json.dumps(origin)
        return SimpleNamespace(read_text={"direct_url.json": text}.get)

    monkeypatch.setattr(init_module, "distribution", distribution)


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
    assert settings == {"threshold": "5%", "time_budget": 600, "local": {"suite": "benchmarks"}}
    assert (package.folder / WORKFLOW).read_text() == (TEMPLATES / "opduel.github.yml").read_text()
    first, *_, last = outcome.out.splitlines()
    assert first == "smoother: an asv suite in benchmarks"
    assert last == "try next: opduel local"
    assert '    suite = "benchmarks"' in outcome.out
    again = init()
    assert "pyproject.toml: has settings of opduel already, which stay as they are" in again.out
    assert "opduel.yml: is there already, and stays as it is" in again.out
    assert (package.folder / "pyproject.toml").read_text() == text


def test_the_suite_is_the_innermost_folder_that_has_all_timed_tests(init: Init, package: PlainPackage) -> None:
    for name in ("deep/test_a", "test_b"):
        package.write(f"tests/benchmarks/{name}.py", "def test_it(benchmark): benchmark(int)\n")
    package.write("tests/test_plain.py", "def test_it(): pass\n")
    assert '    suite = "tests/benchmarks"' in init("--dry-run").out
    package.write("test_top.py", "def test_it(benchmark): benchmark(int)\n")
    assert '    suite = "."' in init("--dry-run").out


def test_a_dry_run_writes_nothing(init: Init, package: PlainPackage) -> None:
    outcome = init("--dry-run", "smooth(1)")
    assert "would write 5 lines to " in outcome.out
    assert f"would write {package.folder / WORKFLOW}, which measures each pull request" in outcome.out
    assert package.git("status", "--porcelain") == ""


def test_without_anything_to_measure_it_says_how_to_name_a_call(init: Init, package: PlainPackage) -> None:
    """And writes no workflow, which would fail on every pull request."""
    line = init("--ci", "github").error_line()
    assert "smoother: has no asv suite, and no tests that use the fixture benchmark: give a line to measure" in line
    assert 'opduel init "mypackage.f(x)" --setup "import mypackage; x = 1"' in line
    assert not (package.folder / ".github").exists()
    assert (package.folder / "pyproject.toml").read_text() == PROJECT


def test_lines_of_python_go_into_the_settings(init: Init, package: PlainPackage) -> None:
    path = package.folder / "pyproject.toml"
    setup = 'import smoother; x = ["\\u2028", "ü"]'
    outcome = init("smoother.smooth(x)", "--setup", setup, "x[0]")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "try next: opduel local")
    lines = {"setup": setup, "statement": ["smoother.smooth(x)", "x[0]"]}
    assert tomllib.loads(path.read_text())["tool"]["opduel"] == {"threshold": "5%", "time_budget": 180, "local": lines}
    assert (package.folder / WORKFLOW).exists()
    text = path.read_text()
    assert 'which stay as they are: to measure these lines, add statement = ["x[1]"]' in init("x[1]").out
    assert path.read_text() == text


def test_a_line_of_python_goes_before_a_suite(init: Init, package: PlainPackage) -> None:
    add_suite(package)
    init(".", "f(2)")
    settings = tomllib.loads((package.folder / "pyproject.toml").read_text())
    assert settings["tool"]["opduel"]["local"] == {"statement": ["f(2)"]}


def test_a_line_that_is_no_python_is_refused(init: Init) -> None:
    assert "STATEMENT f(: is no Python code (" in init("f(").error_line()
    assert "STATEMENT # f(1): has nothing to execute" in init("# f(1)").error_line()
    assert "--setup x = 1: has no line of Python to measure after it" in init("--setup", "x = 1").error_line()


def test_tests_with_the_fixture_are_a_suite(init: Init, package: PlainPackage) -> None:
    package.write("tests/test_speed.py", "def test_smooth(benchmark):\n    benchmark(sum, [1])\n")
    package.write("tests/test_other.py", "def test_other(benchmarked):\n    pass\n")
    package.write(".venv/lib/test_theirs.py", "def test_theirs(benchmark):\n    pass\n")
    assert init().out.startswith("smoother: tests that use the fixture benchmark in tests\n")


def test_a_merge_request_is_measured_where_the_remote_is_a_gitlab(init: Init, package: PlainPackage) -> None:
    package.git("remote", "add", "origin", "git@gitlab.example.org:team/smoother.git")
    add_suite(package)
    assert ".gitlab-ci.yml, which measures each merge request" in init().out
    written = yaml.safe_load((package.folder / ".gitlab-ci.yml").read_text())
    assert any("opduel local" in line for line in written["opduel"]["script"])
    (package.folder / ".gitlab-ci.yml").write_text("test: {script: [make]}\n")
    outcome = init()
    assert ".gitlab/opduel.yml, which measures each merge request when .gitlab-ci.yml has" in outcome.out
    assert "    include: .gitlab/opduel.yml" in outcome.out
    assert (package.folder / ".gitlab-ci.yml").read_text() == "test: {script: [make]}\n"


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("host", ["github", "gitlab"])
@pytest.mark.parametrize(
    ("origin", "source"),
    [
        (None, "opduel"),
        (
            {"url": "https://git.example.org/opduel", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"opduel @ git+https://git.example.org/opduel@{COMMIT}",
        ),
        (
            {"url": "https://example.org/opduel-1.0-py3-none-any.whl", "archive_info": {}},
            "opduel @ https://example.org/opduel-1.0-py3-none-any.whl",
        ),
        ({"url": "file:///home/ada/opduel", "dir_info": {}}, None),
        ({"url": "https://ada:secret@git.example.org/o", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, None),
        ({"url": 'https://example.org/$(id)"', "archive_info": {}}, None),
        ({"vcs_info": {}}, None),
        ("not JSON", None),
        (PackageNotFoundError(), None),
    ],
)
def test_the_workflow_installs_opduel_from_where_this_one_came(
    init: Init, package: PlainPackage, monkeypatch: pytest.MonkeyPatch, origin: object, source: str | None, host: str
) -> None:
    install(monkeypatch, origin)
    add_suite(package)
    out = init("--ci", host).out
    path = package.folder / {"github": WORKFLOW, "gitlab": ".gitlab-ci.yml"}[host]
    job = yaml.safe_load(path.read_text())
    lines = job["opduel"]["before_script"] if host == "gitlab" else [step.get("run", "") for step in steps_of(job)]
    (line,) = [line for line in lines if line.startswith("uv tool install")]
    to_fill_in = f"fill in where opduel is installed from, in {path}: this one is from a folder"
    assert (to_fill_in in out, "fill in where opduel comes from" in path.read_text()) == ((source is None,) * 2)
    assert line == f'uv tool install "{source or "opduel @ git+https://FILL-IN.example/opduel"}"'


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = workflow["jobs"]["opduel"]["steps"]
    return steps


def test_without_a_project_file_the_settings_are_in_a_file_of_their_own(init: Init, package: PlainPackage) -> None:
    package.git("mv", "pyproject.toml", "setup.py")
    package.write("setup.cfg", "[metadata]\nname = smoother\n")
    add_suite(package)
    assert init().code == 0
    settings = tomllib.loads((package.folder / "opduel.toml").read_text())
    assert settings == {"threshold": "5%", "time_budget": 600, "local": {"suite": "benchmarks"}}


def test_of_a_package_in_a_folder_the_workflow_names_the_folder(init: Init, package: PlainPackage) -> None:
    package.write("python pkg/pyproject.toml", PROJECT)
    package.write("python pkg/benchmarks/asv.conf.json", "{}")
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
