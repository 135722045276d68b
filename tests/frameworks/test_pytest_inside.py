"""Tests inside the package that they time: their names, what they import of the suite, and what of the build."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
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

CHILD = [sys.executable, "-c", "import pkg.code; print(pkg.code.PLACE)"]

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


@pytest.mark.parametrize("settings", ["", '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n'])
@pytest.mark.parametrize("installed", ["with tests", "with tests that are imported", "without tests"])
@pytest.mark.parametrize(
    ("folder", "tests", "helper", "module"),
    [
        ("pkg", "pkg/testsuite/benchmarks", "testsuite.helpers", "pkg.testsuite.benchmarks.test_it"),
        ("pkg", "pkg/tests", "tests.helpers", "pkg.tests.test_it"),
        ("src/pkg", "src/pkg/tests", "tests.helpers", "pkg.tests.test_it"),
        ("src/pkg", "src/pkg/sub/tests", "sub.tests.helpers", "pkg.sub.tests.test_it"),
        ("src/pkg", "src/pkg/sub", "code", "pkg.sub.test_it"),
    ],
)
def test_tests_in_a_package_are_the_suite_s_and_its_code_is_the_build_s(
    tmp_path: Path, folder: str, tests: str, helper: str, module: str, installed: str, settings: str
) -> None:
    project, build = tmp_path / "project", tmp_path / "build"
    write(project / folder, {**CODE, "conftest.py": CONFTEST})
    write(project, {"pyproject.toml": settings})
    of_tests = {f"{helper.replace('.', '/')}.py": "HELPER = 'helper of the suite'\n"}
    for place in (project / folder, project / tests):
        while place != project / folder:
            write(place, {"__init__.py": ""})
            place = place.parent
    up = "." * (module.count(".")) if helper != "code" else ".."
    if helper == "code":  # tests beside the package's code, of which nothing is the suite's
        of_tests = {}
        write(project / folder, {"code.py": "PLACE = 'checkout'\nHELPER = 'checkout'\n"})
    write(project / folder, of_tests)
    write(project / tests, {"test_it.py": TESTS.format(up=up, helper=helper)})

    write(build / "pkg", {**CODE, "code.py": "PLACE = 'build'\nHELPER = 'helper of the build'\n"})
    if installed != "without tests" and of_tests:
        inner = Path(next(iter(of_tests))).parent
        write(build / "pkg", {f"{inner}/__init__.py": "", f"{inner}/helpers.py": "HELPER = 'helper of the build'\n"})
        if "imported" in installed:
            write(build / "pkg", {"__init__.py": f"import pkg.{helper}\n", "sub/__init__.py": ""})

    [answer] = discovered(project, tests, build, tmp_path)["modules"]
    assert answer["problems"] == []
    [benchmark] = answer["benchmarks"]
    assert benchmark["name"] == f"{tests}/test_it.py::test_it"
    of = "build" if helper == "code" else "suite"
    places = [module, "build0", f"helper of the {of}", "build1"]
    assert benchmark["values"] == [[f"{size}-{place}" for size in (1, 2) for place in places]]


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
