"""What a host is sent: a suite's files and its setup_cache, files of cases; on this environment, without Dask."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from made_samples import a_case
from made_suite import BUILD, FRAMEWORK

from opduel.driver.suites.elsewhere import ChosenSuite, pack_suite, unpack_suite
from opduel.driver.suites.source import Suite, open_suite
from opduel.driver.suites.work import CacheOrder, without_suite
from opduel.fleet.archives import Archives
from opduel.fleet.job import BUILDS, Job, SuiteJob
from opduel.fleet.received import KEPT_SUITES, SuiteHere, cases_with_files
from opduel.harness.models import fetch_files
from opduel.harness.run_request import RunRequest
from opduel.records import Build, Case, Commit, ModelFile, RunError, UsageError
from opduel.records.measurement import SIDES, Side

BUILDS_OF_SIDES: dict[Side, Build] = dict.fromkeys(SIDES, BUILD)
CODE = """
from pathlib import Path

class Cached:
    def setup_cache(self):
        with open("times.txt", "a") as stream:
            stream.write("made ")
        return (Path(__file__).parent / "data" / "answer.txt").read_text()

    def track_made(self, cache):
        return int(cache)

class Fails:
    def setup_cache(self):
        raise OSError("no data set")

    def track_never(self, cache):
        return 1
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Return a suite with a file of data, linked from elsewhere."""
    folder = tmp_path / "own" / "bench"
    (folder / "data").mkdir(parents=True)
    (folder / "one.py").write_text(CODE)
    (tmp_path / "answer").write_text("42")
    (folder / "data" / "answer.txt").symlink_to(tmp_path / "answer")
    return open_suite(str(folder), tmp_path / "clones", tmp_path / "scratch")


def order(name: str, side: Side) -> CacheOrder:
    return CacheOrder(f"cache-{name}", side, f"one.{name}.track_{'made' if name == 'Cached' else 'never'}", 60.0)


ORDERS = [order(name, side) for name in ("Cached", "Fails") for side in SIDES]


def host_with(suite: Suite, folder: Path) -> Path:
    """Return a host that was sent the suite."""
    (folder / BUILDS).mkdir(parents=True)
    pack_suite(suite, folder / BUILDS / suite.digest)
    return folder


def job(suite: Suite, run: str = "0" * 16, orders: Sequence[CacheOrder] = ORDERS) -> tuple[Job, SuiteJob]:
    own = SuiteJob(
        suite.digest, suite.folder.name, suite.configuration.requirements, {"OPDUEL_SUITE_DIGEST": suite.digest}, orders
    )
    return Job(run, "1-a", RunRequest(FRAMEWORK, BUILD, BUILD, [], 1), suite=own), own


def test_a_host_makes_each_setup_cache_once_in_a_run(suite: Suite, tmp_path: Path) -> None:
    host = host_with(suite, tmp_path / "host")
    for number in range(2):
        builds, problems = SuiteHere(*job(suite), host).prepare(BUILDS_OF_SIDES, FRAMEWORK)
        for side in SIDES:
            place, copy = builds[side].environment["OPDUEL_SUITE_WORK"], Path(builds[side].environment["OPDUEL_SUITE"])
            assert Path(place, "cache-Cached", "times.txt").read_text() == "made "
            assert (copy.name, (copy / "data" / "answer.txt").read_text()) == ("bench", "42")
            assert copy.is_relative_to(host)
            assert not (copy / "data" / "answer.txt").is_symlink()
            assert without_suite(builds[side].environment) == BUILD.environment
        assert problems == [f"{side}: setup_cache of one.Fails.track_never: OSError: no data set" for side in SIDES], (
            number
        )
    _, none = SuiteHere(*job(suite, orders=ORDERS[:1]), host).prepare(BUILDS_OF_SIDES, FRAMEWORK)
    assert none == []


def test_what_was_interrupted_is_made_again(suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_with(suite, tmp_path / "host")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    here = SuiteHere(*job(suite), host)
    monkeypatch.setattr("opduel.driver.suites.work.SuiteWork._make_cache", stop)
    with pytest.raises(KeyboardInterrupt):
        here.prepare(BUILDS_OF_SIDES, FRAMEWORK)
    (suite_folder,) = host.glob("*/suite")
    (suite_folder / "c" / "bench" / "half").touch()
    SuiteHere(*job(suite, orders=()), host)
    assert not (suite_folder / "c" / "bench" / "half").exists()


def test_the_suites_of_the_last_runs_stay(suite: Suite, tmp_path: Path) -> None:
    host = host_with(suite, tmp_path / "host")
    runs = [f"{number:016x}" for number in range(KEPT_SUITES + 2)]
    for run in runs:
        SuiteHere(*job(suite, run, []), host)
    assert sorted(folder.parent.name for folder in host.glob("*/suite")) == runs[-KEPT_SUITES:]


def test_another_suite_than_the_runs_is_refused(suite: Suite, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    pack_suite(suite, archive)
    with pytest.raises(RunError, match="holds another suite than 123"):
        unpack_suite(archive, "123", tmp_path / "there")
    archive.write_bytes(b"no tar file")
    with pytest.raises(RunError, match="archive: is damaged"):
        unpack_suite(archive, suite.digest, tmp_path / "nowhere")
    (suite.folder / "one.py").write_text("")
    with pytest.raises(RunError, match="bench: was changed since it was read: start the run again"):
        pack_suite(suite, archive)


def test_tests_of_a_project_are_sent_without_the_rest_of_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / "pkg.py").touch()
    (project / "tests" / "test_it.py").write_text("def test_it(benchmark): benchmark(int)\n")
    suite = open_suite(str(project / "tests"), tmp_path / "clones", tmp_path / "scratch")
    host = host_with(suite, tmp_path / "host")
    job_of_suite, own = job(suite, orders=[])
    builds, _ = SuiteHere(job_of_suite, replace(own, parts=suite.parts), host).prepare(BUILDS_OF_SIDES, FRAMEWORK)
    copy = Path(builds["control"].environment["OPDUEL_SUITE"])
    files = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert files == {"pyproject.toml", "tests/test_it.py"}


def test_only_what_the_cases_of_a_shard_need_is_prepared(suite: Suite) -> None:
    chosen = ChosenSuite(
        suite, ORDERS, {"one.Cached.track_made": "cache-Cached", "one.Fails.track_never": "cache-Fails"}
    )
    cases = [replace(a_case("a"), operator="one.Fails.track_never"), replace(a_case("b"), operator="one.time_other")]
    assert chosen.needed_by(cases) == ORDERS[2:]
    assert chosen.needed_by(cases[1:]) == []


def network(folder: Path, content: bytes = b"weights") -> Case:
    """Return a case whose file only the client has."""
    file = folder / "client" / "net.bin"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    needed = ModelFile(str(file), sha256=hashlib.sha256(content).hexdigest())
    return replace(a_case("network"), files={"model": needed})


def test_a_file_that_was_sent_is_used_and_the_record_of_it_stays(tmp_path: Path) -> None:
    own = network(tmp_path)
    (fetched,) = fetch_files([own], tmp_path / "cache")
    file = fetched.files["model"]
    digest = f"sha256-{file.sha256}"
    host = tmp_path / "host"
    (host / BUILDS).mkdir(parents=True)
    Path(str(file.path)).rename(host / BUILDS / digest)
    Path(file.location).unlink()
    for _ in range(2):  # it is in the host's cache then
        (there,) = cases_with_files([fetched], host)
        model = there.files["model"]
        assert replace(model, path=file.path) == file
        assert Path(str(model.path)).read_bytes() == b"weights"
        assert Path(str(model.path)).is_relative_to(host)
        assert not (host / BUILDS / digest).exists()
    with pytest.raises(UsageError, match=r"network: files.model: .*net.bin: cannot be read"):
        cases_with_files([fetched], tmp_path / "another")


def test_what_hosts_can_not_have_is_sent(suite: Suite, tmp_path: Path) -> None:
    (case,) = fetch_files([network(tmp_path)], tmp_path / "cache")
    plain = a_case("plain")
    commit = Commit("a" * 40, 0, "A <a@b.c>", "first")
    compiled = replace(BUILD, digest="compiled", commit=commit, directory=str(tmp_path))
    request = RunRequest(FRAMEWORK, BUILD, compiled, [case, plain], 1)
    digest = f"sha256-{case.files['model'].sha256}"
    archives = Archives(tmp_path, request, ChosenSuite(suite, ORDERS, {}))
    assert archives.needed_by([plain]) == ("compiled", suite.digest)
    assert archives.needed_by([case]) == ("compiled", suite.digest, digest)
    archives = Archives(tmp_path, request, None)
    assert archives.needed_by([plain]) == ("compiled",)
    assert archives.suite_for([plain]) is None
