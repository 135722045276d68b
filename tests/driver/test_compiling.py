"""Commits of a native project compiled for real: incrementally, within limits, or not at all, but never by half."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from toy_framework import builds, leftovers
from toy_native import NativeToy, write_specifications
from toy_project import ToyProject

from opduel.driver.builds import BuildCache
from opduel.driver.builds.builder import BuildSettings
from opduel.driver.builds.commit_builder import CommitBuilder
from opduel.driver.builds.compiler import Limits
from opduel.driver.git.repository import Repository, open_repository
from opduel.records import BrokenBuildError, Build, NoSpaceError, RunError

Compile = Callable[..., Build]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """Branches of one commit each, besides main: "slower", "broken", "stalling", "commented"."""
    project = ToyProject(tmp_path_factory.mktemp("project") / "toy")
    for branch, change in {
        "slower": {"slow": {"mul": 2.0}},
        "broken": {"broken": True},
        "stalling": {"stalls": STALL},
        "python": {"python_only": True},
    }.items():
        project.branch(branch, "main")
        project.commit(branch, **change)  # type: ignore[arg-type]
    project.checkout("main")
    return project


STALL = f"600.{os.getpid()}"  # by which its process is known


class Workshop:
    """Builders with one work directory and one cache."""

    def __init__(self, folder: Path, project: ToyProject, ccache: Path) -> None:
        self.folder = folder
        self.ccache = ccache
        self.cache = BuildCache(folder / "cache")
        self.framework = NativeToy(write_specifications(folder / "specifications", project.folder))
        self.repository: Repository = open_repository(folder / "work", str(project.folder))
        self.repository.fetch()

    def builder(
        self, *flags: str, time_s: float = 300.0, free_bytes: int = 0, strategy: str = "source"
    ) -> CommitBuilder:
        settings = BuildSettings(Limits(time_s, free_bytes, jobs=2), strategy, flags=flags)
        return CommitBuilder(self.framework, self.repository, self.cache, settings, self.folder / "work" / "builds")

    def build(self, branch: str, builder: CommitBuilder | None = None) -> Build:
        return (builder or self.builder()).build(self.repository.resolve(branch), "source")

    def compiled(self) -> list[list[str]]:
        """The C files that each compile made objects of, in the order of the compiles."""
        logs = sorted((self.folder / "work" / "builds" / "logs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return [sorted(re.findall(r"Building C object \S*/(\w+)\.c\.o", path.read_text())) for path in logs]

    def statistics(self) -> dict[str, int]:
        """What ccache counted."""
        command = ["ccache", "--print-stats"]
        environment = {**os.environ, "CCACHE_DIR": str(self.ccache)}
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        return {name: int(value) for name, value in (line.split("\t") for line in output.splitlines())}

    def nothing_but(self, count: int) -> bool:
        """Whether the cache holds so many builds, all whole, and the work directory no library any more."""
        libraries = self.folder / "work" / "builds" / "libraries"
        files = list(libraries.rglob("*.so")) if libraries.exists() else []
        return (len(builds(self.cache.directory)), leftovers(self.cache.directory), files) == (count, [], [])


@pytest.fixture
def workshop(project: ToyProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    ccache = tmp_path / "ccache"
    monkeypatch.setenv("CCACHE_DIR", str(ccache))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return Workshop(tmp_path, project, ccache)


def test_a_second_compile_makes_only_what_changed(workshop: Workshop) -> None:
    first = workshop.build("main")
    second = workshop.build("slower")
    assert workshop.compiled() == [["add", "mul", "revision", "steps", "sum"], ["mul", "revision"]]
    assert first.digest != second.digest
    assert first.commit
    assert (first.strategy, first.commit.subject, first.version) == ("source", "A toy", "1.0")
    assert workshop.nothing_but(2)

    assert workshop.build("main") == first  # from the cache
    assert len(workshop.compiled()) == 2


def test_another_build_folder_is_served_by_ccache(workshop: Workshop, tmp_path: Path, project: ToyProject) -> None:
    workshop.build("main")
    before = workshop.statistics()
    other = Workshop(tmp_path / "elsewhere", project, workshop.ccache)
    build = other.build("main")
    after = other.statistics()
    assert other.compiled() == [["add", "mul", "revision", "steps", "sum"]]
    hits = ("direct_cache_hit", "preprocessed_cache_hit")
    assert sum(after[name] - before[name] for name in hits) >= 4  # CMake's own trial of the compiler may be one more
    assert after["cache_miss"] == before["cache_miss"]
    assert build.digest == workshop.build("main").digest


def test_a_commit_of_python_alone_takes_a_compiled_library_from_the_cache(workshop: Workshop) -> None:
    builder = workshop.builder()
    commit = workshop.repository.resolve("python")
    earlier = workshop.repository.resolve("main")
    assert builder.to_compile([earlier, commit], "source") == [earlier]
    first = workshop.build("main")
    assert builder.is_cached(commit, "source")
    second = workshop.build("python")
    assert len(workshop.compiled()) == 1
    assert first.digest != second.digest
    libraries = [next(Path(str(build.directory)).rglob("libtoy.so")) for build in (first, second)]
    assert os.path.samefile(*libraries)


def test_a_build_from_the_cache_leaves_another_thread_s_compile_alone(workshop: Workshop) -> None:
    workshop.build("main")
    short = workshop.repository.resolve("main").short
    library = workshop.folder / "work" / "builds" / "libraries" / short / "libtoy.so"
    library.parent.mkdir(parents=True)
    library.touch()
    workshop.build("main")
    assert library.exists()


def test_other_arguments_of_cmake_make_another_library(workshop: Workshop) -> None:
    plain, double = workshop.build("main"), workshop.build("main", workshop.builder("-DTOY_PERCENT=200"))
    assert plain.digest != double.digest
    libraries = [next(Path(str(build.directory)).rglob("libtoy.so")) for build in (plain, double)]
    assert libraries[0].read_bytes() != libraries[1].read_bytes()
    assert workshop.compiled() == [["add", "mul", "revision", "steps", "sum"]] * 2  # each in a folder of its own


def test_a_compile_that_fails_shows_the_compilers_error_and_where_the_log_is(workshop: Workshop) -> None:
    with pytest.raises(BrokenBuildError) as failure:
        workshop.build("broken")
    text = str(failure.value)
    (log,) = (workshop.folder / "work" / "builds" / "logs").iterdir()
    reason = r"^\S+/src/broken\.c:1:2: error: #error broken on purpose; build\.sh ended with exit code 1, log: "
    assert re.search(f"{reason}{re.escape(str(log))}$", text), text
    assert "\n" not in text
    assert workshop.nothing_but(0)

    workshop.build("main")  # and the next one is none the worse
    assert workshop.nothing_but(1)


def test_a_build_folder_gone_bad_is_rebuilt(workshop: Workshop) -> None:
    workshop.build("main")
    (cache,) = (workshop.folder / "work" / "builds" / "host").glob("build-*/CMakeCache.txt")
    cache.write_text(cache.read_text().replace("CMAKE_GENERATOR:INTERNAL=Ninja", "CMAKE_GENERATOR:INTERNAL=Other"))
    workshop.build("slower")
    assert workshop.nothing_but(2)


@pytest.mark.nightly
def test_a_compile_that_takes_too_long_is_ended_with_all_its_processes(workshop: Workshop) -> None:
    with pytest.raises(RunError, match=r"compiling took longer than 5 s \(--build_timeout\); log: "):
        workshop.build("stalling", workshop.builder(time_s=5.0))
    assert wait_until_empty(stalled)
    assert workshop.nothing_but(0)


def test_a_compile_can_be_stopped_from_another_thread(workshop: Workshop) -> None:
    builder = workshop.builder()
    errors: list[BaseException] = []

    def build() -> None:
        try:
            workshop.build("stalling", builder)
        except RunError as error:
            errors.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    assert wait_for(stalled)
    builder.stop()
    thread.join()
    assert [str(error) for error in errors] == ["compiling was stopped"]
    assert wait_until_empty(stalled)
    assert workshop.nothing_but(0)


def test_stopped_before_it_ever_compiled_it_does_not_begin(workshop: Workshop) -> None:
    builder = workshop.builder()
    builder.stop()
    with pytest.raises(RunError, match=r"^compiling was stopped$"):
        workshop.build("main", builder)
    assert workshop.nothing_but(0)
    builder.resume()
    workshop.build("main", builder)
    assert workshop.nothing_but(1)


def test_what_a_killed_driver_left_compiling_is_ended_first(workshop: Workshop) -> None:
    """All its processes hold the lock of the folder: else the next compile would wait for them."""
    driver = os.fork()
    if driver == 0:
        try:
            workshop.build("stalling")
        finally:
            os._exit(1)
    assert wait_for(stalled)
    os.kill(driver, signal.SIGKILL)
    os.waitpid(driver, 0)
    assert stalled()
    workshop.build("main")
    assert wait_until_empty(stalled)
    assert workshop.nothing_but(1)


def test_a_disk_with_too_little_space_left_compiles_nothing(workshop: Workshop) -> None:
    with pytest.raises(NoSpaceError, match="must stay: free some space, or lower --min_free"):
        workshop.build("main", workshop.builder(free_bytes=2**62))
    assert workshop.nothing_but(0)


def stalled() -> list[psutil.Process]:
    """The processes that stall a compile."""
    processes = []
    for process in psutil.process_iter():
        try:
            if STALL in " ".join(process.cmdline()):
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def wait_until_empty(condition: Callable[[], object]) -> bool:
    """Killed processes take a moment to be gone."""
    return wait_for(lambda: not condition(), 30.0)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    for process in stalled():
        process.kill()
