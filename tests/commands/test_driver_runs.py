"""repo_driver.py around its loop and its bisections: exit codes, and what is asked before anything is measured."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Outcome, driver_main, outcome_of
from made_reports import build, comparison

from opduel.commands import driver_places, repo_driver
from opduel.commands.config import config_path
from opduel.commands.driver_options import parse_driver_options
from opduel.comparator import replicate_report
from opduel.driver import investigation
from opduel.driver.runs import TRIES, RunOrder
from opduel.driver.watch import Tally
from opduel.driver.watch_settings import Services
from opduel.frameworks import FRAMEWORKS_DIR, get_framework
from opduel.records import Build, Case, Commit, Report, RunError, Verdict
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters.document import from_text, to_bytes

Drive = Callable[..., Outcome]


@pytest.fixture
def drive(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Call ``repo_driver.main`` in a work directory of its own; it opens no repository."""
    monkeypatch.setattr(repo_driver, "open_repository", lambda *_, **__: None)
    common = ("-b", "smoke", "--work_dir", str(home / "work"))
    return lambda *arguments: outcome_of(driver_main, [*common, *arguments], capsys)


def report(*verdicts: Any, **run: Any) -> Report:
    """One that says so of its cases, one verdict each."""
    comparisons = tuple(comparison(verdict, number=number) for number, verdict in enumerate(verdicts))
    how = {"id": "made", "complete": True, "aborted": False, "stop_reason": None, "framework": "mxnet", **run}
    return Report(RunRecord.of(how), build("a"), build("b"), HostRecord(), comparisons)


def loop_that(monkeypatch: pytest.MonkeyPatch, *steps: investigation.Outcome | BaseException) -> None:
    """Put a stand-in in the loop's place: what it finds in each pass, or what ends it."""

    class MadeWatch:
        def __init__(self, services: Services, _settings: object) -> None:
            self._listener = services.listener

        def once(self) -> Tally:
            tally = Tally()
            for step in steps:
                if isinstance(step, BaseException):
                    raise step
                self._listener.report_outcome(step, None)
                tally.outcomes.append((Commit("a" * 40, 1_700_000_000, "Ada", "Change"), step))
            return tally

        def for_ever(self, after_pass: Callable[[Tally], None]) -> None:
            self.once()

    monkeypatch.setattr(repo_driver, "Watch", MadeWatch)


REGRESSED, QUIET = investigation.Outcome(report("regressed")), investigation.Outcome(report("unchanged"))
STOPPED, FULL = KeyboardInterrupt("stopped by SIGTERM"), RunError("journal.db: can't be written: free some space")


@pytest.mark.parametrize("interval", [(), ("--interval", "1")], ids=["once", "for ever"])
@pytest.mark.parametrize("end", [STOPPED, FULL], ids=["signal", "journal"])
@pytest.mark.parametrize(("pass_outcome", "code"), [(REGRESSED, 1), (QUIET, 3)], ids=["regressed", "quiet"])
def test_a_regression_goes_before_what_ended_the_driver(
    drive: Drive,
    monkeypatch: pytest.MonkeyPatch,
    interval: tuple[str, ...],
    end: BaseException,
    pass_outcome: investigation.Outcome,
    code: int,
) -> None:
    loop_that(monkeypatch, pass_outcome, end)
    outcome = drive("--ab_testing", *interval)
    assert outcome.code == code, outcome.err
    assert outcome.err.splitlines()[-1].startswith("repo_driver.py: ")
    assert str(end) in outcome.err.splitlines()[-1]


@pytest.mark.nightly  # tests/end_to_end/test_repo_driver.py names a culprit, and nobody where nothing is slower
@pytest.mark.parametrize(("outcome", "code"), [(REGRESSED, 1), (QUIET, 0)], ids=["regressed", "quiet"])
def test_a_pass_that_ends_by_itself_says_what_it_found(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, outcome: investigation.Outcome, code: int
) -> None:
    loop_that(monkeypatch, outcome)
    assert drive("--ab_testing").code == code


class MadeHarness:
    """Stands in for the harness: each run's one case has the next of the verdicts; a text before it is held back."""

    hosts = 1

    def __init__(self) -> None:
        self.verdicts: list[Verdict | tuple[Verdict, Verdict]] = []
        self.orders: list[RunOrder] = []
        self.reported: list[Report] = []

    def __call__(self, session: object, suite: object = None, **_: bool) -> "MadeHarness":
        return self

    def reaches(self, order: RunOrder) -> None:
        pass

    def measure(self, order: RunOrder) -> Report:
        self.orders.append(order)
        verdict = self.verdicts.pop(0)
        held_back = None
        if isinstance(verdict, tuple):
            verdict, held_back = verdict
        measured = replace(report(verdict), control=order.control, treatment=order.treatment)
        measured = replace(
            measured,
            run=RunRecord.of({**asdict(measured.run), "id": f"run-{len(self.orders)}", "run_type": order.run_type}),
        )
        return replace(
            measured, comparisons=tuple(replace(comparison, held_back=held_back) for comparison in measured.comparisons)
        )

    def replicate(self, first: Report, second: Report) -> Report:
        return replicate_report(first, second)

    def dump(self, report: Report) -> str:
        return to_bytes(report).decode()

    def parse(self, text: str) -> Report:
        return from_text(text)

    def deliver(self, report: Report) -> None:
        self.reported.append(report)


HELD: tuple[Verdict, Verdict] = ("inconclusive", "regressed")
RELEASES = ("--bisect_releases", "mxnet==1.8.0.post0,mxnet==1.9.1", "--retry_after", "0")


class Releases:
    """Those that were asked for; each is made at once, but for those that are lost."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.lost: list[str] = []

    def resolve(self, name: str, *_: object) -> Build:
        self.requests.append(name)
        if name in self.lost:
            raise RunError("the package index can't be reached")
        return build(name)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Releases:
    releases = Releases()
    monkeypatch.setattr(repo_driver, "resolve_build", releases.resolve)
    return releases


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> MadeHarness:
    made_harness = MadeHarness()
    monkeypatch.setattr(repo_driver, "HarnessAdapter", made_harness)
    return made_harness


@pytest.mark.usefixtures("built")
def test_releases_whose_verdicts_were_held_back_are_measured_again_by_the_next_start(
    drive: Drive, harness: MadeHarness
) -> None:
    harness.verdicts = [*[HELD] * TRIES, "unchanged"]
    assert drive(*RELEASES).code == 3
    assert len(harness.orders) == TRIES
    assert drive(*RELEASES).code == 0
    assert len(harness.orders) == TRIES + 1
    assert drive(*RELEASES).code == 0  # that is settled
    assert len(harness.orders) == TRIES + 1


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "damaged", ['\'{"schema_version": 1, "run\'', "''", "'[]'", "'{}'", "x'ff00'", "17", "CAST(x'80ff' AS TEXT)"]
)
def test_a_journalled_report_that_cannot_be_read_is_dropped_and_its_run_made_again(
    drive: Drive, harness: MadeHarness, home: Path, damaged: str
) -> None:
    harness.verdicts = ["unchanged", "unchanged"]
    assert drive(*RELEASES).code == 0
    with closing(sqlite3.connect(home / "work" / "journal.db")) as journal, journal:
        (run,) = journal.execute("SELECT run FROM reports").fetchone()
        journal.execute(f"UPDATE reports SET text = {damaged}")
        journal.execute("UPDATE outbox SET state = 'waiting'")
    outcome = drive(*RELEASES)
    assert outcome.code == 0, outcome.err
    assert outcome.err.count(f"damage: {run} can't be read (") == 1
    assert len(harness.orders) == 2
    assert "damage" not in drive(*RELEASES).err
    with closing(sqlite3.connect(home / "work" / "journal.db")) as journal:
        assert [kind for (kind,) in journal.execute("SELECT kind FROM events")] == ["damage"]


@pytest.mark.parametrize(("verdict", "code", "words"), [("regressed", 1, "first bad"), ("improved", 3, "improved by")])
def test_a_search_among_releases_that_ended_early_is_said_and_goes_on(
    drive: Drive, built: Releases, harness: MadeHarness, verdict: Verdict, code: int, words: str
) -> None:
    built.lost = ["mxnet==1.8.0.post0"]
    harness.verdicts = [verdict] * 9
    releases = ("--bisect_releases", "mxnet==1.7.0.post2,mxnet==1.8.0.post0,mxnet==1.9.1", "--improved")
    outcome = drive(*releases)
    assert outcome.code == code
    assert outcome.err.splitlines()[-1] == (
        "repo_driver.py: error: the search for the culprit ended: mxnet==1.8.0.post0 can't be built: "
        "the package index can't be reached"
    )
    measured = len(harness.orders)
    built.lost.clear()
    outcome = drive(*releases)
    assert outcome.code == (1 if verdict == "regressed" else 0)
    assert f"{words}: mxnet==1.8.0.post0\n" in outcome.out
    assert {order.run_type for order in harness.orders[measured:]} == {"regress"}


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize("dry", [(), ("--dry_run",)], ids=["measured", "dry run"])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("wrong", ["mxnet==9.9", "mxnet", "", "/no/such/folder"])
def test_a_release_that_is_none_is_wrong_usage(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...], place: int, wrong: str
) -> None:
    monkeypatch.setattr("opduel.driver.builds.resolve.release_build", lambda request, *_: build(request))
    names = ["mxnet==1.8.0.post0", "mxnet==1.9.1"]
    names.insert(place, wrong)
    line = drive("--bisect_releases", ",".join(names), *dry).error_line()
    assert (wrong.removeprefix("mxnet==") or "''") in line


@pytest.mark.usefixtures("built")
def test_a_broken_config_stops_no_driver_that_needs_none_of_its_answers(
    drive: Drive, harness: MadeHarness, home: Path
) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text("[]")
    harness.verdicts = ["unchanged"]
    assert drive(*RELEASES, "--local_reporter", str(home / "reports")).code == 0
    assert f"{config_path()}: must hold one JSON object" in drive(*RELEASES).error_line()


def test_a_platform_that_is_none_is_wrong_usage(drive: Drive) -> None:
    line = drive("--ab_testing", "--build", "source", "--platforms", "nosuch").error_line()
    assert "--platform nosuch: no build.sh in " in line


@pytest.mark.parametrize("option", ["--ab_testing", "--bisect_releases=numpy==2.1.3,numpy==2.2.6"])
def test_a_spec_of_two_frameworks_is_wrong_usage(drive: Drive, option: str) -> None:
    words = "the spec compares two frameworks, one on each side: give a spec of one of them"
    outcome = drive(option, "-b", "cross/numpy-onnxruntime")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        f"repo_driver.py: error: {option.partition('=')[0]}: {words}, or compare two builds with harness.py"
    ]


@pytest.mark.usefixtures("built")
def test_with_other_frameworks_data_it_is_another_run(
    drive: Drive, harness: MadeHarness, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Its build script may be another, and so may its builds."""
    (home / "mine").symlink_to(FRAMEWORKS_DIR)
    harness.verdicts = ["unchanged"] * 3
    monkeypatch.chdir(home)
    for folder, runs in ((None, 1), ("mine", 2), (str(home / "mine"), 2), (str(FRAMEWORKS_DIR), 3), (None, 3)):
        options = [] if folder is None else ["--frameworks_dir", folder]
        assert drive(*RELEASES, *options).code == 0
        assert len(harness.orders) == runs


@pytest.mark.usefixtures("built")
def test_with_other_requirements_of_its_suite_it_is_another_run(
    drive: Drive, harness: MadeHarness, tmp_path: Path
) -> None:
    (tmp_path / "made" / "benchmarks").mkdir(parents=True)
    (tmp_path / "made" / "benchmarks" / "one.py").write_text("def time_it(): pass\n")
    harness.verdicts = ["unchanged"] * 2
    for version, runs in (("1.16", 1), ("1.17", 2), ("1.16", 2)):
        (tmp_path / "made" / "asv.conf.json").write_text(f'{{"matrix": {{"req": {{"six": ["{version}"]}}}}}}')
        assert drive(*RELEASES, "--suite", str(tmp_path / "made")).code == 0
        assert len(harness.orders) == runs


@pytest.mark.parametrize("option", ["--bench", "--higher_is_better"])
def test_options_of_a_suite_need_one(drive: Drive, built: Releases, option: str) -> None:
    outcome = drive(*RELEASES, "--dry_run", option, "time_it")
    assert (outcome.code, built.requests) == (2, [])
    assert f"{option}: is for a suite's benchmarks: add --suite, or leave it out" in outcome.err
    assert outcome.err.count("\n") == 1


def test_of_a_suite_another_threshold_makes_another_run(home: Path) -> None:
    """Its cases, which have their thresholds, are not known before there are builds."""

    def identity(threshold: str) -> str:
        options = parse_driver_options(["--ab_testing", "-b", "smoke", "--threshold", threshold])
        session: Any = SimpleNamespace(cases=())
        return driver_places.run_identity(options, session, "digest")

    for metric in ("value", "cpu_time", "time"):
        assert identity(f"{metric}=10%") != identity(f"{metric}=1%")


def test_with_another_time_budget_it_is_the_same_run(home: Path) -> None:
    """A run with the time budget that the one before had proposed began from zero, with another seed."""

    def identity(*words: str) -> str:
        session: Any = SimpleNamespace(cases=())
        return driver_places.run_identity(parse_driver_options(["--ab_testing", "-b", "smoke", *words]), session)

    assert identity("--time_budget", "20") == identity("--time_budget", "30") == identity()
    assert identity("--max_rounds", "20") != identity()


def test_a_label_of_a_case_makes_no_other_run_and_what_is_measured_does(home: Path) -> None:
    case = Case("a", "nd.add", "forward", {}, "float32", "cpu", 0.02, 60.0)

    def identity(**changes: Any) -> str:
        session: Any = SimpleNamespace(cases=[replace(case, **changes)])
        return driver_places.run_identity(parse_driver_options(["--ab_testing", "-b", "smoke"]), session)

    assert identity(category="unary") == identity()
    assert len({identity(), identity(dtype="float64"), identity(input_sets=2), identity(kind="avx2")}) == 4


def test_repositories_have_work_directories_of_their_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --repo_dir, --remote_repository is only a remote's name; a relative path is another in another folder."""
    session: Any = SimpleNamespace(framework=get_framework("python"))

    def place(*words: str, folder: str = "one") -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        options = parse_driver_options(["--ab_testing", "--framework", "python", "-b", "numpy", *words])
        return driver_places.work_directory(options.own, session)

    upstream, url = ("--remote_repository", "upstream"), ("--remote_repository", "https://example.org/numpy.git")
    numpy, scipy = (str(tmp_path / name) for name in ("numpy", "scipy"))
    assert place("--repo_dir", numpy, *upstream) != place("--repo_dir", scipy, *upstream)
    assert place("--repo_dir", numpy, *upstream) == place("--repo_dir", numpy)
    for words in (("--repo_dir", "."), ("--remote_repository", ".")):
        assert place(*words) != place(*words, folder="two")
        assert place(*words).name.startswith("one-")
    assert place(*url) == place(*url, folder="two")
    assert place(*url).name.startswith("numpy-")
