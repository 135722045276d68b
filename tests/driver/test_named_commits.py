"""Commits by their names as builds: in a checkout, as its work tree, and at an address; real git, a real wheel."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_package import CODE, SLOWER, PlainPackage

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.named_commit import named_commit
from opduel.driver.builds.uv import UnresolvableError
from opduel.frameworks import get_framework
from opduel.records import BrokenBuildError, Build, UsageError

PYTHON = get_framework("python")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainPackage]:
    """A checkout with two commits, a tag and changes that are not committed; the current folder."""
    folder = tmp_path_factory.mktemp("named")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        package = PlainPackage(folder / "checkout")
        package.git("tag", "v1.0")
        package.write("src/smoother/__init__.py", SLOWER)
        package.commit("Second")
        package.git("branch", "docs")
        for name in ("docs", "benchmarks", "venv/bin"):
            package.write(f"{name}/README.md", "Text.")
        package.write("benchmarks/bench_smooth.py", "def test_smooth(benchmark): pass")
        package.write("venv/bin/python", "")
        (package.folder / ".git/info/exclude").write_text("docs\nbenchmarks\nvenv\n")
        patch.chdir(package.folder)
        yield package


@pytest.fixture(scope="module")
def builds(package: PlainPackage) -> dict[str, Build]:
    package.write("src/smoother/__init__.py", CODE + "# Changed.\n")
    cache = BuildCache(package.folder.parent / "builds")
    address = f"smoother @ git+file://{package.folder}@v1.0"
    return {name: resolve_build(name, PYTHON, cache) for name in ("v1.0", "HEAD", ".", "HEAD~1", address)}


def code_of(build: Build) -> str:
    command = [build.interpreter, "-c", "import smoother; print(open(smoother.__file__).read(), end='')"]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout


def test_a_commit_is_built_once_and_the_work_tree_as_it_is(builds: dict[str, Build], package: PlainPackage) -> None:
    first, second, work_tree, before, at_address = builds.values()
    assert [code_of(build) for build in (first, second, work_tree)] == [CODE, SLOWER, CODE + "# Changed.\n"]
    assert first.directory == before.directory == at_address.directory != second.directory
    assert first.commit == before.commit == at_address.commit
    short = package.git("rev-parse", "HEAD")[:12]
    assert second.requested == f"HEAD {short}"
    assert second.version == "smoother 1.0"
    assert work_tree.commit is not None
    assert work_tree.commit.subject == "uncommitted changes on main"
    assert work_tree.requested == f". {work_tree.commit.short}"


@pytest.mark.parametrize("name", ["main", "HEAD", "HEAD~1", "main^", "v1.0", "@", "main python==3.12"])
def test_names_of_commits(package: PlainPackage, name: str) -> None:
    commit = named_commit(name)
    assert commit is not None
    assert (commit.place, commit.name) == (str(package.folder), name.split()[0])
    assert commit.besides == tuple(name.split()[1:])


@pytest.mark.parametrize(
    "name", ["numpy==1.26.4", "scipy numpy>=1", "smoother", "venv", "./venv", "missing.txt", "/x/y"]
)
def test_names_of_other_builds(package: PlainPackage, name: str) -> None:
    assert named_commit(name) is None


def test_the_package_is_the_nearest_one(package: PlainPackage) -> None:
    package.write("tools/inner/pyproject.toml", "[project]\n")
    inner = package.folder / "tools/inner"
    for here, word, folder in (
        (inner, "HEAD", "tools/inner"),
        (inner.parent, ".", ""),
        (package.folder, str(inner), "tools/inner"),
    ):
        commit = named_commit(word, here)
        assert commit is not None
        assert commit.subfolder == folder
    commit = named_commit("x[all] @ git+https://host/a/b.git@feature/c#subdirectory=d&egg=x numpy==2")
    assert commit is not None
    assert (commit.place, commit.name, commit.subfolder) == ("https://host/a/b.git", "feature/c", "d")
    assert commit.besides == ("numpy==2",)


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        ("mian", "no branch, tag or commit of .*checkout has that name: .* or a release as smoother==VERSION$"),
        ("master", "master: no branch, tag or commit of .*checkout has that name: give one that has$"),
        ("main~9", "main~9: no branch, tag or commit"),
        ("docs", "docs: is a commit's name, and a folder: write ./docs for that, or [0-9a-f]{12} for the commit"),
        ("./docs", "./docs: is no build: give a commit, a release"),
        ("benchmarks", "benchmarks: is no build: .* --suite benchmarks"),
        ("benchmarks/bench_smooth.py", "bench_smooth.py: is no build"),
        ("v1.0..HEAD", "v1.0..HEAD: no branch, tag or commit"),
        ("smoother @ git+file://{folder}@mian", "'mian': no branch, tag or commit of that name; similar: main"),
        ("x @ git+https://me:secret@host/x@main", "holds a password or token"),
    ],
)
def test_what_is_no_build(package: PlainPackage, request_text: str, message: str) -> None:
    request_text = request_text.replace("{folder}", str(package.folder))
    with pytest.raises(UsageError, match=message) as raised:
        resolve_build(request_text, PYTHON, BuildCache(package.folder.parent / "builds"))
    assert "--repo" not in str(raised.value)
    assert "--local" not in str(raised.value)


def test_folders_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(words: str, *_: object, **__: object) -> str:
        raise UnresolvableError(words, "no index has it", "")

    monkeypatch.setattr("opduel.driver.builds.uv.resolve", resolve)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"main: is a commit's name, and .* is in no git checkout: change into one"):
        named_commit("main")
    with pytest.raises(UsageError, match=r"^nosuch==1 can't be resolved"):
        resolve_build("nosuch==1", PYTHON, BuildCache(tmp_path / "builds"))
    with pytest.raises(UsageError, match=r"^\.: is no build: give a commit"):
        named_commit(".")


def test_a_commit_that_cant_be_built_is_named(package: PlainPackage) -> None:
    package.git("stash", "--quiet")
    package.git("checkout", "--quiet", "-b", "broken")
    package.write("backend.py", "raise RuntimeError('no backend today')")
    package.commit("Broken")
    package.git("checkout", "--quiet", "main")
    with pytest.raises(BrokenBuildError, match=r"broken: [0-9a-f]{12} can't be built: .*no backend today.*log: "):
        resolve_build("broken", PYTHON, BuildCache(package.folder.parent / "builds"))


def test_a_commit_whose_project_file_is_no_toml_is_named(package: PlainPackage) -> None:
    package.git("checkout", "--quiet", "-b", "no-toml")
    package.write("pyproject.toml", "[project]\nname = smoother\n")
    package.commit("No TOML")
    package.git("checkout", "--quiet", "main")
    with pytest.raises(BrokenBuildError, match=r"no-toml: [0-9a-f]{12} can't be built: pyproject.toml: can't be read"):
        resolve_build("no-toml", PYTHON, BuildCache(package.folder.parent / "builds"))
