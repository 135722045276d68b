"""The compiler with build scripts that compile nothing: what they get, where, and that none begins once stopped."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opduel.driver.builds import compiler as compiler_module
from opduel.driver.builds.compiler import Compiler, Limits
from opduel.driver.builds.framework_data import Platform
from opduel.records import BrokenBuildError, Commit, NoSpaceError, RunError

COMMIT = Commit("1" * 40, 0, "Ada <ada@toy.example>", "A commit")
NOTES = 'env > "$2/environment"; echo "$BUILD_DIR" > "$BUILD_DIR/kept"\n'


class Workbench:
    """A build script, a tool that it needs, and compilers that use them in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "build.sh"
        self.tool = folder / "bin" / "compile-it"
        self.tool.parent.mkdir()
        self.change(self.script, NOTES)
        self.change(self.tool, "echo compile-it 1.0\n")
        self.stopped = threading.Event()

    def change(self, path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\nset -eu\n{text}")
        path.chmod(0o755)

    def compiler(self, *flags: str, checkout: Callable[[Commit, Path], None] = lambda *_: None) -> Compiler:
        platform = Platform("host", self.script, (), (self.tool.name,))
        return Compiler(self.folder / "host", platform, flags, checkout, self.stopped)

    def compile(self, compiler: Compiler | None = None) -> dict[str, str]:
        """What the script found in its environment."""
        (compiler or self.compiler()).compile(COMMIT, self.folder / "made", self.log, Limits(60.0, 0, 1))
        lines = (self.folder / "made" / "environment").read_text().splitlines()
        return dict(line.partition("=")[::2] for line in lines)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def build_folders(self) -> set[str]:
        return {path.name for path in (self.folder / "host").glob("build-*")}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    bench = Workbench(tmp_path)
    monkeypatch.setenv("PATH", f"{bench.tool.parent}{os.pathsep}{os.environ['PATH']}")
    return bench


def test_the_environment_chooses_neither_compiler_nor_flags(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The library's identity knows nothing of them: with other ones, the same library would be served."""
    for name, value in {"CXX": "clang++", "CXXFLAGS": "-O0", "LANGUAGE": "de"}.items():
        monkeypatch.setenv(name, value)
    output = bench.compile()
    assert output["LANGUAGE"] == "de"
    assert not {"CXX", "CXXFLAGS"} & set(output)
    assert "CXX, CXXFLAGS: ignored when compiling; use --cmake_args instead" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        *("FC", "FFLAGS", "AR", "CC_LD", "CPATH", "LIBRARY_PATH", "CMAKE_ARGS"),
        *("SKBUILD_CMAKE_ARGS", "MESON_ARGS", "NPY_BLAS_ORDER", "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_TOY"),
    ],
)
def test_what_build_backends_read_of_the_environment_is_dropped(
    name: str, bench: Workbench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "-lunknown")
    assert name not in bench.compile()
    assert f"{name}: ignored when compiling" in caplog.text


@pytest.mark.parametrize("name", ["PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH"])
def test_where_libraries_lie_is_part_of_the_identity(
    name: str, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PKG_CONFIG_PATH", raising=False)
    monkeypatch.delenv("CMAKE_PREFIX_PATH", raising=False)
    plain = bench.compiler().toolchain
    assert plain == ("compile-it: compile-it 1.0",)  # unset, nothing is added: identities in caches stay
    identities = set()
    for value in ("/one", "/another"):
        monkeypatch.setenv(name, value)
        assert bench.compile()[name] == value
        identities.add(bench.compiler().toolchain)
    assert len({plain, *identities}) == 3


def test_what_another_script_or_tool_left_is_not_built_upon(bench: Workbench) -> None:
    """CMake keeps arguments that it is no longer given."""
    bench.compile(bench.compiler("-DOTHER=1"))
    (other,) = bench.build_folders
    before = Path(bench.compile()["BUILD_DIR"])
    assert Path(bench.compile()["BUILD_DIR"]) == before
    for changed, text in ((bench.script, f"echo again\n{NOTES}"), (bench.tool, "echo compile-it 2.0\n")):
        bench.change(changed, text)
        after = Path(bench.compile()["BUILD_DIR"])
        assert after != before
        assert bench.build_folders == {other, after.name}
        before = after


def test_only_where_something_was_built_before_a_failure_is_tried_again(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    good = 'echo again; test ! -e "$2/../bad"\n' + NOTES
    bench.change(bench.script, good)
    bad = bench.folder / "bad"
    for times in (1, 2):  # the second time there is nothing left of the first
        bad.touch()
        with pytest.raises(BrokenBuildError):
            bench.compile()
        assert bench.log.read_text() == "again\n"
        assert "retrying" not in caplog.text, times
    bad.unlink()
    bench.compile()
    bad.touch()
    with pytest.raises(BrokenBuildError):
        bench.compile()
    assert caplog.text.count("retrying in a fresh one") == 1


@pytest.mark.parametrize("log_elsewhere", [True, False])
def test_a_disk_that_fills_up_while_compiling_is_no_fault_of_the_commit(
    small_disk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log_elsewhere: bool
) -> None:
    """A commit whose build script fails by its own fault would never be tried again."""
    bench = Workbench(small_disk.path)
    monkeypatch.setenv("PATH", f"{bench.tool.parent}{os.pathsep}{os.environ['PATH']}")
    bench.change(bench.script, 'head -c 50m /dev/zero > "$BUILD_DIR/large"\n')
    log = tmp_path / "log" if log_elsewhere else bench.log
    with pytest.raises(
        NoSpaceError, match=rf"^{bench.folder}/host/build-\S+: the disk is full: free .* --work_dir; log"
    ):
        bench.compiler().compile(COMMIT, bench.folder / "made", log, Limits(60.0, 0, 1))


def test_a_script_that_prints_for_ever_does_not_fill_the_disk(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log keeps the beginning and the end, where the reason is."""
    monkeypatch.setattr(compiler_module, "MOST_KEPT", 3 * 2**20)
    bench.change(bench.script, "echo first; yes | head -c 32m; sleep 1; echo error: the reason; exit 1\n")
    with pytest.raises(RunError, match=r"error: the reason; build\.sh ended with exit code 1, log: "):
        bench.compile()
    log = bench.log.read_bytes()
    assert len(log) <= 3 * 2**20
    assert b"first\ny\n" in log[:1000]
    assert b"bytes of output left out]\ny\n" in log


def test_once_stopped_nothing_is_even_checked_out_until_it_goes_on(bench: Workbench) -> None:
    touched: list[Path] = []
    compiler = bench.compiler(checkout=lambda _, folder: touched.append(folder))
    bench.stopped.set()
    with pytest.raises(RunError, match=r"^compiling was stopped$"):
        bench.compile(compiler)
    assert touched == []
    bench.stopped.clear()
    bench.compile(compiler)
    assert len(touched) == 1


def test_stopped_while_checking_out_it_does_not_begin(bench: Workbench) -> None:
    compiler = bench.compiler(checkout=lambda *_: bench.stopped.set())
    with pytest.raises(RunError, match=r"^compiling was stopped$"):
        bench.compile(compiler)
    assert not bench.log.exists()


def test_stopped_as_it_begins_it_is_ended(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.change(bench.script, "sleep 600\n")
    compiler, start = bench.compiler(), subprocess.Popen
    started = []

    def popen(command: list[str], **options: Any) -> Any:
        process = start(command, **options)
        if command[0] == "nice":
            bench.stopped.set()
            started.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(RunError, match=r"^compiling was stopped$"):
        bench.compile(compiler)
    assert [process.returncode for process in started] == [-9]
