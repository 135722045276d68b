"""Tests inside the package that they time: their names, what they import of the suite, and what of the build."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opduel.driver.suites.source import copy_suite, open_suite
from opduel.frameworks import get_framework

CODE = {"__init__.py": "", "code.py": "PLACE = 'checkout'\n", "sub/__init__.py": "from .. import code\n"}
CONFTEST = "import pytest\n@pytest.fixture(params=[1, 2])\ndef size(request): return request.param\n"
# The names of tests say where their modules come from: of the suite, the build's code and the suite's helper.
TESTS = """
import os, subprocess, sys
import pytest
from {up}code import PLACE
from {up}{helper} import HELPER

CHILD = [sys.executable, "-c", "import {package}.code; print({package}.code.PLACE)"]

@pytest.mark.parametrize("place", [__name__, PLACE, HELPER, subprocess.check_output(CHILD, text=True).strip()])
def test_it(benchmark, size, place):
    benchmark(int)
"""


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def discovered(project: Path, requested: str, build: Path, tmp_path: Path) -> dict[str, Any]:
    """What a build with this site-packages collects of a copy of the project's suite."""
    suite = open_suite(str(project / requested), tmp_path / "cache", tmp_path / "scratch")
    copy = copy_suite(suite, tmp_path / "copies")
    script = str(get_framework("pytest").scripts.suite)
    environment = {**os.environ, **suite.variables, "PYTHONPATH": str(build)}
    command = [sys.executable, script, "discover", str(copy), *suite.tests]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    document: dict[str, Any] = json.loads(process.stdout)
    return document


@dataclass(frozen=True)
class Layout:
    """Where a package named PKG is in its project, its tests, the module of their helper, and the tests' own name."""

    folder: str
    tests: str
    helper: str
    module: str

    def of(self, package: str) -> "Layout":
        """The layout of a package of that name."""
        return Layout(*(text.replace("PKG", package) for text in (self.folder, self.tests, self.helper, self.module)))


LAYOUTS = (
    Layout("PKG", "PKG/testsuite/benchmarks", "testsuite.helpers", "PKG.testsuite.benchmarks.test_it"),
    Layout("PKG", "PKG/tests", "tests.helpers", "PKG.tests.test_it"),
    Layout("src/PKG", "src/PKG/tests", "tests.helpers", "PKG.tests.test_it"),
    Layout("src/PKG", "src/PKG/sub/tests", "sub.tests.helpers", "PKG.sub.tests.test_it"),
    Layout("src/PKG", "src/PKG/sub", "code", "PKG.sub.test_it"),
)
INSTALLED = ("with tests", "with tests that are imported", "without tests")


def write_package(project: Path, build: Path, layout: Layout, installed: str) -> dict[str, list[list[str]]]:
    """Write a package, its tests, and what a build has of it; returns what is to be collected: test -> its values."""
    folder, helper = project / layout.folder, layout.helper
    write(folder, {**CODE, "conftest.py": CONFTEST})
    helpers = {f"{helper.replace('.', '/')}.py": "HELPER = 'helper of the suite'\n"}
    place = project / layout.tests
    while place != folder:
        write(place, {"__init__.py": ""})
        place = place.parent
    up = "." * layout.module.count(".") if helper != "code" else ".."
    if helper == "code":  # tests beside the package's code, of which nothing is the suite's
        helpers = {}
        write(folder, {"code.py": "PLACE = 'checkout'\nHELPER = 'checkout'\n"})
    write(folder, helpers)
    write(project / layout.tests, {"test_it.py": TESTS.format(up=up, helper=helper, package=folder.name)})

    installed_package = build / folder.name
    write(installed_package, {**CODE, "code.py": "PLACE = 'build'\nHELPER = 'helper of the build'\n"})
    if installed != "without tests" and helpers:
        inner = Path(next(iter(helpers))).parent
        write(
            installed_package, {f"{inner}/__init__.py": "", f"{inner}/helpers.py": "HELPER = 'helper of the build'\n"}
        )
        if "imported" in installed:
            write(installed_package, {"__init__.py": f"import {folder.name}.{helper}\n", "sub/__init__.py": ""})
    owner = "build" if helper == "code" else "suite"
    places = [layout.module, "build0", f"helper of the {owner}", "build1"]
    return {f"{layout.tests}/test_it.py::test_it": [[f"{size}-{place}" for size in (1, 2) for place in places]]}


def collected(project: Path, requested: str, build: Path, tmp_path: Path) -> dict[str, list[list[str]]]:
    """What a build collects without problems: test -> its values."""
    [answer] = discovered(project, requested, build, tmp_path)["modules"]
    assert answer["problems"] == []
    return {benchmark["name"]: benchmark["values"] for benchmark in answer["benchmarks"]}


@pytest.mark.parametrize("settings", ["", '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n'])
def test_tests_in_packages_are_the_suite_s_and_their_code_is_the_build_s(tmp_path: Path, settings: str) -> None:
    project, build = tmp_path / "project", tmp_path / "build"
    write(project, {"pyproject.toml": settings})
    expected = {}
    for number, (layout, installed) in enumerate(itertools.product(LAYOUTS, INSTALLED)):
        expected |= write_package(project, build, layout.of(f"pkg{number}"), installed)
    assert collected(project, ".", build, tmp_path) == expected


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.tests)
def test_so_they_are_where_their_folder_alone_is_the_suite(tmp_path: Path, layout: Layout) -> None:
    project, build, package = tmp_path / "project", tmp_path / "build", layout.of("pkg")
    write(project, {"pyproject.toml": ""})
    expected = write_package(project, build, package, "with tests that are imported")
    assert collected(project, package.tests, build, tmp_path) == expected


def test_a_package_that_the_build_cannot_import_fails_its_own_tests_alone(tmp_path: Path) -> None:
    project, build = tmp_path / "project", tmp_path / "build"
    test = "def test_it(benchmark): benchmark(int)\n"
    packages = {f"{name}/tests/{file}": test for name in ("good", "bad") for file in ("__init__.py", "test_it.py")}
    write(project, {"pyproject.toml": "", "good/__init__.py": "", "bad/__init__.py": "", **packages})
    write(build, {"good/__init__.py": "", "bad/__init__.py": "import no_such_package\n"})
    [answer] = discovered(project, ".", build, tmp_path)["modules"]
    assert [benchmark["name"] for benchmark in answer["benchmarks"]] == ["good/tests/test_it.py::test_it"]
    assert answer["problems"] == [
        "bad/tests/test_it.py: ModuleNotFoundError: No module named 'no_such_package'",
    ]
