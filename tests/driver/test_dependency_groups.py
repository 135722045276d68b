"""The packages that a project lists for its tests: which group it is, and what it includes."""

import sys
from pathlib import Path

import pytest

from opduel.driver.suites.dependency_groups import group_for_tests

PROJECT = "[project]\nname = 'Own.Pkg'\n"
EXTRAS = "[project.optional-dependencies]\n"
GROUPS = "[dependency-groups]\n"


@pytest.mark.parametrize(
    ("text", "label", "requirements"),
    [
        (PROJECT + EXTRAS + "dev = ['pytest']\nTests = ['six >= 1']\n", "the extra tests of", ("six>=1",)),
        (PROJECT + EXTRAS + "bench = ['a']\n" + GROUPS + "test = ['b']\n", "the extra bench of", ("a",)),
        (PROJECT + EXTRAS + "test = ['a']\n" + GROUPS + "test = ['b']\n", "the group test of", ("b",)),
        (
            PROJECT + EXTRAS + "fast = ['numpy']\nall = ['own-pkg[fast,all]']\n" + GROUPS + "test = ['pytest==9', "
            "'own_pkg[all]', {include-group = 'More.io'}]\nmore-io = ['x; python_version > \"3\"', 'pytest==9', 7, "
            "{include-group = 'test'}]\n",
            "the group test of",
            ("pytest==9", 'x; python_version > "3"', "numpy"),
        ),
        (
            GROUPS
            + "test = ['six', 'a @ https://a.b/c.whl', 'beside']\n[tool.uv.sources]\nbeside = {workspace=true}\n",
            "the group test of",
            ("six",),
        ),
    ],
)
def test_the_likeliest_group_with_all_that_it_includes(
    text: str, label: str, requirements: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "tests").mkdir()
    group = group_for_tests(tmp_path / "tests")
    assert group is not None
    assert (group.label, group.requirements) == (f"{label} pyproject.toml", requirements)
    assert group.python == "{}.{}".format(*sys.version_info)


@pytest.mark.parametrize("text", ["", "project = 1", "[project", PROJECT + EXTRAS + "docs = ['sphinx']\ntest = []\n"])
def test_a_project_may_list_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert group_for_tests(tmp_path) is None


POETRY = """
[tool.poetry]
name = "own-pkg"
[tool.poetry.dependencies]
python = "^3.10"
attrs = "^23"
[tool.poetry.dev-dependencies]
ruff = "*"
[tool.poetry.group.bench.dependencies]
a = "^1.2.3"
b = {version = "~0.4", extras = ["x"], markers = "python_version > '3'"}
c = "^0.0.3"
d = {path = "../d"}
e = ">=2,<3"
f = "1.2.*"
g = "*"
h = [{version = "1", python = "<3.11"}, {version = "2", python = ">=3.11"}]
"""


def test_groups_of_poetry_are_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(POETRY)
    group = group_for_tests(tmp_path)
    assert group is not None
    assert group.label == "the group bench of pyproject.toml"
    own = ("a<2,>=1.2.3", "b[x]<0.5,>=0.4; python_version > '3'", "c<0.0.4,>=0.0.3", "e<3,>=2", "f==1.2.*", "g", "h")
    assert group.requirements == tuple(text.replace("'", '"') for text in own)


def test_what_the_tests_import_is_taken_from_other_groups(tmp_path: Path) -> None:
    rivals = "rivals = ['mist-une ~= 3.0', 'markdown', 'attrs < 1', 'unused', 'orjson']\nbench = ['pytest']\n"
    text = PROJECT + "dependencies = ['attrs']\n" + EXTRAS + rivals
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "bench_it.py").write_text(
        "import attrs\nimport it.adapters.orjson\ndef test_it(benchmark):\n    import mist_une\n    import markdown.x\n"
    )
    group = group_for_tests(tmp_path, ["bench_it.py"])
    assert group is not None
    assert group.requirements == ("pytest", "mist-une~=3.0", "markdown", "orjson")


def test_a_pyproject_above_the_repository_is_another_projects(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(GROUPS + "test = ['six']\n")
    for name in (".git", "tests"):
        (tmp_path / "here" / name).mkdir(parents=True)
    assert group_for_tests(tmp_path / "here" / "tests") is None


def test_of_tools_for_development_those_are_taken_that_the_timed_tests_can_use(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(GROUPS + "dev = ['Typing.Tools', 'ruff', 'pytest-asyncio', 'six', 'mypy']")
    files = {"conftest.py": "import typing_tools.extra", "tests/test_a.py": "if 1:\n    from six import moves\n"}
    (tmp_path / "tests").mkdir()
    for name, text in {**files, "tests/test_b.py": "import mypy"}.items():
        (tmp_path / name).write_text(text)
    group = group_for_tests(tmp_path, ["tests/test_a.py"])
    assert group is not None
    assert group.requirements == ("Typing.Tools", "pytest-asyncio", "six")


def test_packages_are_for_a_python_that_the_project_allows(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"{PROJECT}requires-python = '>=3.99'\n{GROUPS}test = ['six']\n")
    group = group_for_tests(tmp_path)
    assert group is not None
    assert group.python == "3.99"
