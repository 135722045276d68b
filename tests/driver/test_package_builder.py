"""Commits of a package with a C extension, built for real by setuptools: from source, as overlays, and not at all."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.driver.builds import BuildCache
from opduel.driver.builds.builder import builder_of, platform_of
from opduel.driver.builds.commit_builder import BuildSettings
from opduel.driver.builds.compiler import Limits
from opduel.driver.builds.package_builder import PackageBuilder
from opduel.driver.git.repository import Repository, open_repository
from opduel.frameworks import get_framework
from opduel.records import BrokenBuildError, Build, Commit, UsageError
from opduel.records.build import differing_packages

pytestmark = pytest.mark.wheels
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tiny"
        self.folder.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")
        self.cache = BuildCache(folder / "cache")
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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    if shutil.which("cc") is None or shutil.which("git") is None:
        pytest.skip("needs git and a C compiler")
    tiny = Tiny(tmp_path_factory.mktemp("tiny"))
    sources = {"pyproject.toml": PROJECT, "src/tinysum/__init__.py": CODE.replace("FACTOR", "2")}
    tiny.add("first", {**sources, "src/tinysum/_native.c": NATIVE.replace("FACTOR", "10")})
    tiny.add("python", {"src/tinysum/__init__.py": CODE.replace("FACTOR", "3")})
    tiny.add("docs", {"README.md": "Tiny.\n"})
    tiny.add("native", {"src/tinysum/_native.c": NATIVE.replace("FACTOR", "100")})
    tiny.add("broken", {"src/tinysum/_native.c": "#error broken on purpose\n"})
    tiny.add("modern", {"pyproject.toml": PROJECT.replace(">=3.9", ">=3.99")})
    tiny.open()
    return tiny


def answer(build: Build) -> str:
    command = [build.interpreter, "-c", "import tinysum; print(tinysum.answer())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_line_of_commits_is_compiled_once_for_equal_native_sources(tiny: Tiny, tmp_path: Path) -> None:
    builder = tiny.builder()
    line = [tiny.commit(name) for name in ("first", "python", "docs", "native")]
    assert [one.id for one in builder.to_compile(line, "auto")[0]] == [line[0].id, line[3].id]
    first, python, docs, native = (builder.build(one, builder.strategy(line)) for one in line)
    assert [one.strategy for one in (first, python, docs, native)] == ["source", "overlay", "overlay", "source"]
    assert [answer(one) for one in (first, python, native)] == ["20", "30", "300"]
    assert docs.digest == python.digest != first.digest
    assert (docs.directory, docs.commit) == (python.directory, tiny.commit("docs"))
    assert builder.to_compile(line, "auto") == ([], None)
    assert first.version == "tiny-sum 1.0"
    assert {"compiler cc", "compiler c++"} & set(first.details or {})
    assert set(first.packages) == {"tiny-sum", "packaging"}
    assert differing_packages(first, native) == {}  # but for the package itself
    assert (Path(str(first.directory)) / "bin" / "python").exists()
    # what an overlay holds is what compiling the same commit gives
    compiled = tiny.builder("source", BuildCache(tmp_path / "another")).build(tiny.commit("python"), "source")
    assert (compiled.strategy, compiled.digest) == ("source", python.digest)
    manifest = json.loads((Path(str(compiled.directory)) / "manifest.json").read_text())
    assert "setuptools==80.9.0" in manifest["recipe"]["built_with"]
    assert manifest["source"]["distribution"] == "tiny-sum"
    if shutil.which("ccache"):  # the same native sources were compiled before
        assert list(manifest["source"]["ccache"].items()) in (
            [("direct_cache_hit", 1)],
            [("preprocessed_cache_hit", 1)],
        )


def test_a_commit_that_does_not_compile_leaves_nothing(tiny: Tiny) -> None:
    with pytest.raises(BrokenBuildError, match=r"build.sh ended with exit code \d+: .*broken on purpose; log: "):
        tiny.build("broken")
    assert list(tiny.cache.directory.glob("*/*/.making-*")) == []


def test_what_can_not_be_built_is_said(tiny: Tiny) -> None:
    with pytest.raises(
        BrokenBuildError, match=r"tiny-sum at \w+ needs Python >=3.99, not 3\.\d+: name one .*python==3.12"
    ):
        tiny.build("modern")
    broken = [tiny.commit("broken")]
    with pytest.raises(UsageError, match=r"^--build overlay: \w+ \(broken\) has native sources unlike those of every"):
        tiny.builder("overlay").strategy(broken)
    with pytest.raises(UsageError, match=r"^--build release: python has no releases of commits: use --build auto"):
        tiny.builder("release").strategy(broken)
    with pytest.raises(UsageError, match=r"^--platform cuda: no build.sh in .*packages/cuda: .* use one of: host"):
        platform_of(PYTHON, "cuda")
