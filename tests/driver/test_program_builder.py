"""Commits of a program, built by the user's own script: kept, found again, and refused in one line."""

import subprocess
from pathlib import Path

import pytest
from made_repository import RemoteRepository, isolate

from opduel.driver.builds import BuildCache
from opduel.driver.builds.builder import Builder, BuildSettings
from opduel.driver.builds.builders import builder_of, platform_of
from opduel.driver.builds.compiler import Limits
from opduel.driver.git.repository import open_repository
from opduel.frameworks import get_framework
from opduel.records import BrokenBuildError, Commit, UsageError

SCRIPT = """set -e
echo ran >> "$(dirname "$0")/runs"
mkdir "$2/bin"
cp "$1/main.sh" "$2/bin/bench"
chmod +x "$2/bin/bench"
"""


class Place:
    """A repository of a program, and the folder with its build script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remote = RemoteRepository(folder / "remote.git")
        self.scripts = folder / "ci" / "generic" / "host"
        self.scripts.mkdir(parents=True)
        (self.scripts / "build.sh").write_text(SCRIPT)

    def commit(self, text: str) -> Commit:
        self.remote.commit({"main.sh": f"#!/bin/sh\n{text}\n", "README": text[-1]})
        repository = open_repository(self.folder / "work", str(self.remote.path))
        repository.fetch()
        return repository.resolve("main")

    def builder(self, program: str | None = "{build}/bin/bench", strategy: str = "auto") -> Builder:
        settings = BuildSettings(Limits(60, 0, 1), strategy, program=program)
        framework = get_framework("generic", self.folder / "ci")
        repository = open_repository(self.folder / "work", str(self.remote.path))
        return builder_of(framework, repository, BuildCache(self.folder / "cache"), settings, self.folder / "builds")

    def runs(self) -> int:
        path = self.scripts / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    isolate(monkeypatch, tmp_path)
    return Place(tmp_path)


def test_a_commit_is_built_once_by_the_script(place: Place) -> None:
    commit = place.commit("echo one")
    builder = place.builder()
    assert builder.strategy([commit]) == "source"
    assert builder.to_compile([commit], "source") == [commit]
    build = builder.build(commit, "source")
    program = build.environment["OPDUEL_PROGRAM"]
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "one\n"
    assert Path(program) == Path(str(build.directory)) / "bin" / "bench"
    assert (build.commit, build.requested) == (commit, commit.short)
    assert not any((place.folder / "builds" / "destinations").iterdir())
    again = place.builder()
    assert again.is_cached(commit, "source")
    assert again.build(commit, "source") == build
    assert place.runs() == 1
    (place.scripts / "build.sh").write_text(SCRIPT + "# changed\n")
    assert not place.builder().is_cached(commit, "source")


def test_a_script_of_ai_pep_writes_the_program_itself(place: Place) -> None:
    commit = place.commit("echo one")
    script = 'set -e\ncp "$1/main.sh" "$2"\nchmod +x "$2"\ncp "$1/README" "$(dirname "$2")/convert"\n'
    (place.scripts / "build.sh").write_text(script)
    for program in (None, "{build}"):
        build = place.builder(program=program).build(commit, "source")
        assert Path(build.environment["OPDUEL_PROGRAM"]) == Path(str(build.directory)) / "generic_benchmark"
        assert (Path(str(build.directory)) / "convert").exists()
    with pytest.raises(BrokenBuildError, match=r"has no program {build}/bench"):
        place.builder(program="{build}/bench").build(commit, "source")


def test_equal_files_are_an_equal_digest(place: Place) -> None:
    first, second, third = (place.commit(text) for text in ("echo one  # a", "echo one  # a", "echo two"))
    digests = [place.builder().build(equal, "source").digest for equal in (first, second, third)]
    assert digests[0] == digests[1] != digests[2]


def test_what_cannot_be_built_is_one_line(place: Place) -> None:
    commit = place.commit("echo one")
    for program in (None, "{build}"):
        with pytest.raises(BrokenBuildError, match=r"is a folder to it, add --program {build}/NAME"):
            place.builder(program=program).build(commit, "source")
    with pytest.raises(UsageError, match=r"^--build overlay: programs are built from source: leave it out"):
        place.builder(strategy="overlay")
    with pytest.raises(BrokenBuildError, match=r"has no program {build}/bench: correct --program, or correct what .*h"):
        place.builder(program="{build}/bench").build(commit, "source")
    (place.scripts / "build.sh").write_text("echo 'main.c:1: error: no such thing' >&2; exit 2\n")
    with pytest.raises(BrokenBuildError, match=r"^main.c:1: error: no such thing; build.sh ended with exit code 2, "):
        place.builder().build(commit, "source")
    (place.scripts / "build.sh").write_text('echo 1 > "$2/manifest.json"\n')
    with pytest.raises(BrokenBuildError, match=r"build.sh leaves a manifest.json, which is opduel's own there"):
        place.builder().build(commit, "source")
    (place.scripts / "build.sh").unlink()
    with pytest.raises(UsageError, match=r"--platform host: no build.sh in .*: write it"):
        place.builder()


def test_the_scripts_tools_may_be_stated(place: Place) -> None:
    framework = get_framework("generic", place.folder / "ci")
    assert platform_of(framework, "host").tools == ()
    (place.scripts / "platform.yaml").write_text("tools: [git]\n")
    assert platform_of(framework, "host").tools == ["git"]
