"""Commits of a package with a C extension, built for real by setuptools: from source, as overlays, and not at all."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tiny_package import CODE, NATIVE, PROJECT, PYTHON, Tiny, answer

from opduel.driver.builds import BuildCache
from opduel.driver.builds.builder import Builder, BuildSettings
from opduel.driver.builds.builders import builder_of, platform_of
from opduel.driver.builds.compiler import Limits
from opduel.driver.suites.configuration import interpret
from opduel.records import BrokenBuildError, RunError, UsageError
from opduel.records.build import differing_packages

pytestmark = pytest.mark.wheels


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    """One cache, so that the environment that builds packages is made once."""
    return BuildCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, cache: BuildCache) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("tiny"), cache)
    sources = {"pyproject.toml": PROJECT, "src/tinysum/__init__.py": CODE.replace("FACTOR", "2")}
    sources |= {f"src/tinysum/tests/{name}.py": f"# {name}\n" for name in ("__init__", "test_one", "test_two")}
    tiny.add("first", {**sources, "src/tinysum/_native.c": NATIVE.replace("FACTOR", "10")})
    (tiny.folder / "src/tinysum/tests/test_two.py").unlink()
    tests = {"src/tinysum/tests/test_one.py": "# Changed.\n", "src/tinysum/tests/test_three.py": "# Added.\n"}
    tiny.add("python", {"src/tinysum/__init__.py": CODE.replace("FACTOR", "3"), **tests})
    tiny.add("docs", {"README.md": "Tiny.\n"})
    tiny.add("native", {"src/tinysum/_native.c": NATIVE.replace("FACTOR", "100")})
    tiny.add("broken", {"src/tinysum/_native.c": "#error broken on purpose\n"})
    tiny.add("modern", {"pyproject.toml": PROJECT.replace(">=3.9", ">=3.99")})
    tiny.add("no TOML", {"pyproject.toml": PROJECT.replace('"1.0"', "1.0.0.")})
    tiny.add("no backend", {"pyproject.toml": PROJECT.replace("80.9.0", "0.0.1")})
    code = {"src/tinysum/_native.c": NATIVE.replace("FACTOR", "100")}
    tiny.add("no such need", {"pyproject.toml": PROJECT.replace('"packaging"', '"packaging==0.0.1"'), **code})
    tiny.open()
    return tiny


@pytest.mark.nightly
def test_a_line_of_commits_is_compiled_once_for_equal_native_sources(tiny: Tiny, tmp_path: Path) -> None:
    builder = tiny.builder()
    line = [tiny.commit(name) for name in ("first", "python", "docs", "native")]
    assert [first_commit.id for first_commit in builder.to_compile(line, "auto")] == [line[0].id, line[3].id]
    first, python, docs, native = (builder.build(first_commit, builder.strategy(line)) for first_commit in line)
    assert [first_commit.strategy for first_commit in (first, python, docs, native)] == [
        "source",
        "overlay",
        "overlay",
        "source",
    ]
    assert [answer(first_commit) for first_commit in (first, python, native)] == ["20", "30", "300"]
    assert docs.digest == python.digest != first.digest
    assert (docs.directory, docs.commit) == (python.directory, tiny.commit("docs"))
    assert builder.to_compile(line, "auto") == []
    assert first.version == "tiny-sum 1.0"
    assert "compiler of tinysum" in first.details
    assert set(first.packages) == {"tiny-sum", "packaging"}
    assert differing_packages(first, native) == {}  # but for the package itself
    difference = builder.difference(first, line[1])
    assert difference is not None
    assert difference.functions == {"tinysum/__init__.py:answer"}
    assert builder.difference(python, line[2]).parts == []  # type: ignore[union-attr]
    assert [builder.difference(first, tiny.commit(name)) for name in ("native", "no TOML")] == [None, None]
    assert (Path(str(first.directory)) / "bin" / "python").exists()
    # what an overlay holds is what compiling the same commit gives, tests that were changed, added and removed included
    assert [first_commit.stem for first_commit in sorted(Path(str(python.directory)).rglob("tinysum/tests/*.py"))] == [
        *("__init__", "test_one", "test_three"),
    ]
    compiled = tiny.builder("source", BuildCache(tmp_path / "another")).build(tiny.commit("python"), "source")
    assert (compiled.strategy, compiled.digest) == ("source", python.digest)
    manifest = json.loads((Path(str(compiled.directory)) / "manifest.json").read_text())
    assert "setuptools==80.9.0" in manifest["recipe"]["built_with"]
    assert manifest["source"]["distribution"] == "tiny-sum"
    place = tiny.cache.folder("python")
    for purpose in ("beside", "built-with"):  # what was resolved is preferred later, where the rest is alike
        assert [len(first_commit.stem) for first_commit in place.glob(f".{purpose}-*")] == [
            len(f".{purpose}-tiny-sum-0123456789")
        ]


def test_a_commit_that_does_not_compile_leaves_nothing(tiny: Tiny) -> None:
    with pytest.raises(BrokenBuildError, match=r"^tiny-sum: .*broken on purpose; build.sh ended"):
        tiny.build("broken")
    assert list(tiny.cache.directory.glob("*/*/.making-*")) == []


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("no TOML", r"^pyproject.toml: can't be read \(.*line 6.*\): correct it, or build another commit$"),
        ("no backend", r"^pyproject.toml: build-system.requires: setuptools==0.0.1 .*can't be resolved: "),
        ("no such need", r"^what tiny-sum needs: packaging==0.0.1 can't be resolved: "),
    ],
)
def test_a_commit_whose_project_file_is_at_fault_is_one_that_can_not_be_built(
    tiny: Tiny, subject: str, reason: str
) -> None:
    """So a bisection passes over it."""
    with pytest.raises(BrokenBuildError, match=reason):
        tiny.build(subject)


def test_a_commit_without_the_package_s_folder_can_not_be_built(tiny: Tiny) -> None:
    settings = BuildSettings(Limits(300.0, 0, jobs=2), subfolder="python")
    builder = builder_of(PYTHON, tiny.repository, tiny.cache, settings, tiny.work / "builds")
    with pytest.raises(BrokenBuildError, match=r"^it has no folder python$"):
        builder.build(tiny.commit("first"), "auto")


def test_what_can_not_be_built_is_said(tiny: Tiny) -> None:
    with pytest.raises(
        BrokenBuildError, match=r"tiny-sum at \w+ needs Python >=3.99, not 3\.\d+: choose another one, .*python==3.12"
    ):
        tiny.build("modern")
    modern, broken = tiny.commit("modern"), [tiny.commit("broken")]
    assert not tiny.builder().is_cached(modern, "auto")
    assert tiny.builder().to_compile([modern, *broken], "auto") == broken
    with pytest.raises(UsageError, match=r"^--build overlay: \w+ \(broken\) has native sources unlike those of every"):
        tiny.builder("overlay").strategy(broken)
    with pytest.raises(UsageError, match=r"^--build release: python has no releases of commits: use --build auto"):
        tiny.builder("release").strategy(broken)
    with pytest.raises(UsageError, match=r"^--platform cuda: no build.sh in .*packages/cuda: .* use one of: host"):
        platform_of(PYTHON, "cuda")


MESON = """project('tiny-sum', 'c', version: '1.0')
py = import('python').find_installation(pure: false)
py.extension_module('_native', 'src/tinysum/_native.c', install: true, subdir: 'tinysum')
py.install_sources('src/tinysum/__init__.py', subdir: 'tinysum')
"""
CMAKE = """cmake_minimum_required(VERSION 3.15)
project(tiny C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
python_add_library(_native MODULE src/tinysum/_native.c WITH_SOABI)
install(TARGETS _native DESTINATION tinysum)
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("requires", "backend", "further"),
    [
        ("meson-python", "mesonpy", {"meson.build": MESON}),
        ("scikit-build-core", "scikit_build_core.build", {"CMakeLists.txt": CMAKE}),
    ],
)
def test_other_build_backends(requires: str, backend: str, further: dict[str, str], tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    project = PROJECT.partition("[tool")[0].replace("setuptools==80.9.0", requires)
    project += '[tool.scikit-build]\nwheel.packages = ["src/tinysum"]\n'
    files = {"pyproject.toml": project.replace("setuptools.build_meta", backend), **further}
    files["src/tinysum/__init__.py"] = CODE.replace("FACTOR", "2")
    tiny.add("first", {**files, "src/tinysum/_native.c": NATIVE.replace("FACTOR", "10")})
    tiny.add("native", {"src/tinysum/_native.c": NATIVE.replace("FACTOR", "100")})
    tiny.add("python", {"src/tinysum/__init__.py": CODE.replace("FACTOR", "3")})
    tiny.open()
    builds = [tiny.build(subject) for subject in ("first", "native", "python")]
    assert [answer(build) for build in builds] == ["20", "200", "300"]
    assert [build.strategy for build in builds] == ["source", "source", "overlay"]
    compiled = tiny.builder("source", BuildCache(tmp_path / "another")).build(tiny.commit("python"), "source")
    assert compiled.digest == builds[2].digest


@pytest.mark.nightly
def test_a_package_of_python_alone_needs_no_compiler(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    project = PROJECT.partition("[tool")[0].replace("setuptools==80.9.0", "hatchling")
    files = {"pyproject.toml": project.replace("setuptools.build_meta", "hatchling.build")}
    files["pyproject.toml"] += '[tool.hatch.build.targets.wheel]\npackages = ["src/tinysum"]\n'
    files["src/tinysum/unused.py"] = "x = 1\n"
    tiny.add("first", {**files, "src/tinysum/__init__.py": "def answer():\n    return 1\n"})
    tiny.add("second", {"src/tinysum/__init__.py": "def answer():\n    return 2\n"})
    tiny.open()
    builds = [tiny.build(subject) for subject in ("first", "second")]
    assert [answer(build) for build in builds] == ["1", "2"]
    assert [build.strategy for build in builds] == ["source", "overlay"]
    assert [len([*Path(str(build.directory)).rglob("tinysum/__pycache__/unused.*.pyc")]) for build in builds] == [1, 1]
    assert builds[0].details == {}  # no compiler took part


def test_a_package_below_the_top_is_built_there_with_variables_of_its_own(
    tmp_path: Path, cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny(tmp_path, cache)
    (tmp_path / "tinysum.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)  # in a checkout it is the build that counts
    project = PROJECT.partition("[tool")[0].replace('version = "1.0"', 'dynamic = ["version"]')
    setup = 'import os, setuptools\nsetuptools.setup(version=os.environ["TINY_VERSION"], package_dir={"": "src"})\n'
    files = {"python/pyproject.toml": project.replace('dependencies = ["packaging"]\n', ""), "python/setup.py": setup}
    tiny.add("first", {**files, "python/src/tinysum/__init__.py": "def answer():\n    return 1\n", "native/tool.c": ""})
    tiny.add("python", {"python/src/tinysum/__init__.py": "def answer():\n    return 2\n"})
    tiny.add("docs", {"python/README.md": "Tiny.\n", "python/tests/test_tiny.py": "", "benchmarks/bench.py": ""})
    tiny.add("elsewhere", {"native/tool.c": "int one;\n"})
    tiny.open()
    settings = BuildSettings(Limits(300.0, 0, jobs=2), subfolder="python", variables={"TINY_VERSION": "7.0"})
    builder = builder_of(PYTHON, tiny.repository, tiny.cache, settings, tiny.work / "builds")
    first, python, docs = (builder.build(tiny.commit(name), "auto") for name in ("first", "python", "docs"))
    monkeypatch.chdir(tiny.folder)
    assert [(build.strategy, answer(build)) for build in (first, python)] == [("source", "1"), ("overlay", "2")]
    assert docs.directory == python.directory
    assert first.version == "tiny-sum 7.0"
    assert not builder.is_cached(tiny.commit("elsewhere"), "auto")  # what is beside the package may be built into it


SUITE = "six==1.16.0"  # which each build of a suite has, and the environment of its build_command
PLAIN = PROJECT.partition("[tool")[0].replace('dependencies = ["packaging"]\n', "")  # without native code


def returning(number: int) -> dict[str, str]:
    """The package's Python code, whose answer is the number."""
    return {"src/tinysum/__init__.py": f"def answer():\n    return {number}\n"}


def suite_builder(tiny: Tiny, commands: Mapping[str, list[str]], suite: str = SUITE) -> Builder:
    """A builder for a suite that has these commands in its asv.conf.json, and needs a package."""
    variables = interpret(dict(commands)).build_variables
    framework = PYTHON.of_suite({}, (suite,), "", variables)
    settings = BuildSettings(Limits(300.0, 0, jobs=2), variables=variables)
    return builder_of(framework, tiny.repository, tiny.cache, settings, tiny.work / "builds")


@pytest.fixture
def plain(tmp_path: Path, cache: BuildCache) -> Tiny:
    """Two commits without native code, and one with an invalid project file."""
    tiny = Tiny(tmp_path, cache)
    invalid = PLAIN.replace('requires-python = ">=3.9"', 'dependencies = [">"]')
    tiny.add("invalid", {"pyproject.toml": invalid, "src/tinysum/__init__.py": ""})
    tiny.add("first", {"pyproject.toml": PLAIN, **returning(1)})
    tiny.add("second", {**returning(2), "setup.cfg": ""})
    tiny.open()
    return tiny


@pytest.mark.parametrize("makes_wheel", [False, True])
def test_a_suite_s_own_commands_build_and_install(tmp_path: Path, cache: BuildCache, makes_wheel: bool) -> None:
    tiny = Tiny(tmp_path, cache)
    project = PLAIN + '[project.optional-dependencies]\nfast = ["packaging>=1"]\nslow = ["attrs"]\n'
    tiny.add("first", {"pyproject.toml": project, "src/tinysum/__init__.py": "from tinysum.made import answer\n"})
    tiny.open()
    make = "sh -c 'echo \"def answer(): return 7\" > src/tinysum/made.py'"
    wheel = ["python -m build --wheel --no-isolation --outdir {build_cache_dir} {build_dir}", "rm src/tinysum/made.py"]
    install = ["pip install {wheel_file}[fast]"]
    builder = suite_builder(
        tiny, {"build_command": [make, *(wheel if makes_wheel else [])], "install_command": install}
    )
    build = builder.build(tiny.commit("first"), "auto")
    assert answer(build) == "7"
    assert builder.difference(build, tiny.commit("first")).parts == []  # type: ignore[union-attr]
    assert set(build.packages) == {"tiny-sum", "packaging", "six"}


def test_where_build_command_fails_the_backend_builds_all(plain: Tiny, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    check = "import six, sys; sys.exit('error: no six ' + six.__version__)"  # which the suite's packages have
    builder = suite_builder(plain, {"build_command": [f'python -c "{check}"']})
    first, second = (plain.commit(subject) for subject in ("first", "second"))
    builds = [builder.build(commit, "source") for commit in (first, second)]
    assert [(answer(build), build.details["built by"]) for build in builds] == [
        *(("1", "setuptools.build_meta"), ("2", "setuptools.build_meta")),
    ]
    (line,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert line.startswith(f"build_command failed for {first.short} (error: no six 1.16.0; build.sh ")
    assert line.endswith("own build backend, setuptools.build_meta, builds it and later commits instead")
    assert "retrying" not in caplog.text
    assert f'building {second.short} "second" by setuptools.build_meta; log: ' in caplog.text


def test_both_sides_are_built_by_what_can_build_the_first(plain: Tiny) -> None:
    """A commit that nothing can build leaves build_command to others; one that it fails for isn't built otherwise."""
    commands = {"build_command": ["grep 'return 1' src/tinysum/__init__.py"]}
    builder = suite_builder(plain, commands)
    with pytest.raises(
        BrokenBuildError,
        match=r"^tiny-sum: ValueError: invalid pyproject.toml.*; build.sh ended with exit code \d+, log: ",
    ):
        builder.build(plain.commit("invalid"), "auto")
    first, second = (plain.commit(subject) for subject in ("first", "second"))
    assert builder.build(first, "source").details["built by"] == "build_command"
    with pytest.raises(BrokenBuildError, match=f"^build_command, which built {first.short}, failed: .*build.sh ended"):
        builder.build(second, "source")
    another = suite_builder(plain, commands)
    assert another.build(second, "source").details["built by"] == "setuptools.build_meta"
    with pytest.raises(RunError, match=f"^{second.short} was built by setuptools.*, {first.short} by build_command, "):
        builder.build(second, "source")


def test_suite_packages_that_the_project_can_not_be_built_with_are_left_out_of_build_command_s_environment(
    plain: Tiny, caplog: pytest.LogCaptureFixture
) -> None:
    builder = suite_builder(plain, {"build_command": ["make"]}, suite="setuptools==59.2.0")
    assert not builder.is_cached(plain.commit("first"), "auto")
    assert caplog.messages == [
        "build_command runs without the suite's packages (setuptools): they don't fit what builds the project",
    ]


HOOKS = """import pathlib
import zipfile


def get_requires_for_build_wheel(config_settings=None):
    return ["six"]


def build_wheel(folder, config_settings=None, metadata_directory=None):
    import six

    name, info = "tiny_sum-1.0-py3-none-any.whl", "tiny_sum-1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.write("src/tinysum/__init__.py", "tinysum/__init__.py")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tiny-sum\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


def test_what_the_build_backend_asks_for_by_its_hook_is_there(
    tmp_path: Path, cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend is the project's own, and needs no package but that."""
    tiny = Tiny(tmp_path, cache)
    project = PLAIN.replace("setuptools.build_meta", "hooks").replace('"setuptools==80.9.0"', "")
    project = project.replace("[build-system]", '[build-system]\nbackend-path = ["tools"]')
    tiny.add("first", {"pyproject.toml": project, "tools/hooks.py": HOOKS, **returning(1)})
    tiny.add("second", {"tools/hooks.py": HOOKS + "# changed\n"})
    tiny.open()
    builder = tiny.builder()
    assert answer(builder.build(tiny.commit("first"), "auto")) == "1"
    (versions,) = (tiny.work / "builds").rglob("backend-versions.txt")
    versions.write_text("six==1.16.0\n")
    builder.build(tiny.commit("second"), "source")
    assert "six==1.16.0" in versions.read_text(), "the other side is built with the same"
    assert builder.is_cached(tiny.commit("first"), "auto")
    monkeypatch.setenv("TINY_SUM_NO_EXTENSIONS", "1")  # it would be another build
    assert not builder.is_cached(tiny.commit("first"), "source")
