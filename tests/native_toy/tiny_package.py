"""A package with a C extension in a git repository, commit by commit, and builders of its commits."""

import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.driver.builds import BuildCache
from opduel.driver.builds.builder import BuildSettings
from opduel.driver.builds.builders import builder_of
from opduel.driver.builds.compiler import Limits
from opduel.driver.builds.package_builder import PackageBuilder
from opduel.driver.git.repository import Repository, open_repository
from opduel.frameworks import get_framework
from opduel.records import Build, Commit

PYTHON = get_framework("python")
PROJECT = """[build-system]
requires = ["setuptools==80.9.0"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny-sum"
version = "1.0"
dependencies = ["packaging"]
requires-python = ">=3.9"
[tool.setuptools]
ext-modules = [{name = "tinysum._native", sources = ["src/tinysum/_native.c"]}]
"""
NATIVE = """#include <Python.h>
static PyObject *total(PyObject *self, PyObject *count) { return PyLong_FromLong(FACTOR * PyLong_AsLong(count)); }
static PyMethodDef methods[] = {{"total", total, METH_O, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "", -1, methods};
PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
"""
CODE = "from tinysum._native import total\n\n\ndef answer():\n    return total(FACTOR)\n"


class Tiny:
    """The package's repository, and a builder of its commits. ``add`` makes a commit of files, path -> text."""

    def __init__(self, folder: Path, cache: BuildCache | None = None) -> None:
        """``cache``: by default one of its own. A test that makes one is skipped where it can't be compiled."""
        if shutil.which("cc") is None or shutil.which("git") is None:
            pytest.skip("needs git and a C compiler")
        self.folder = folder / "tiny"
        self.folder.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")
        self.cache = cache or BuildCache(folder / "cache")
        self.work = folder / "work"
        self.commits: dict[str, str] = {}

    def add(self, subject: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        self._git("add", "--all")
        self._git("-c", "user.name=Ada", "-c", "user.email=ada@toy.example", "commit", "--quiet", "-m", subject)
        self.commits[subject] = self._git("rev-parse", "HEAD")

    def open(self) -> None:
        self.repository: Repository = open_repository(self.work, str(self.folder))
        self.repository.fetch()

    def commit(self, subject: str) -> Commit:
        return self.repository.resolve(self.commits[subject])

    def builder(self, strategy: str = "auto", cache: BuildCache | None = None) -> PackageBuilder:
        chosen = BuildSettings(Limits(300.0, 0, jobs=2), strategy)
        builder = builder_of(PYTHON, self.repository, cache or self.cache, chosen, self.work / "builds")
        assert isinstance(builder, PackageBuilder)
        return builder

    def build(self, subject: str) -> Build:
        return self.builder().build(self.commit(subject), "auto")

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def answer(build: Build) -> str:
    """What the package computes."""
    command = [build.interpreter, "-c", "import tinysum; print(tinysum.answer())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
