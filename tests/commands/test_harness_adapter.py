"""The driver's replication: the one of ``harness.py --verify``, on the same samples. No process is started here."""

import dataclasses
import random
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_reports import Measuring, build

from opduel.commands import harness_adapter
from opduel.commands.harness_adapter import HarnessAdapter
from opduel.commands.options import read_options
from opduel.commands.round_log import FileRoundLog
from opduel.commands.session import Session, plan_session
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.runs import RunOrder
from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.harness.planning import schedule
from opduel.harness.processes.pair_pool import PairPool
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.harness.run import run_ab
from opduel.harness.run_recording import without_measuring
from opduel.harness.run_request import RunRequest
from opduel.records import Build, Cause, Comparison, Failure, PairSample, Report, Stage
from opduel.records.run_record import LeftOutRecord
from opduel.reporters.document import from_text as read_report
from opduel.reporters.document import to_bytes
from opduel.reporters.local import LocalReporter
from opduel.reporters.screen import ScreenReporter

CONTROL, TREATMENT = build("a"), replace(build("b"), digest="11")
# Case by case, in the order of the spec: the change at screening, the change afterwards (log ratios), and the noise.
CHANGES = [(0.10, 0.10, 0.01), (0.10, 0.0, 0.01), (0.06, 0.043, 0.012), (-0.08, -0.08, 0.01), (0.09, 0.024, 0.02)]
BROKEN = len(CHANGES)  # this one fails on the treatment; all others are unchanged
NOISE = 0.01


class Recorded:
    """Rounds that were measured before: each case's samples of a stage, in order, the same for every run."""

    def __init__(self, session: Session) -> None:
        self._places = {case.id: place for place, case in enumerate(session.cases)}
        self.broken = session.cases[BROKEN].id
        self.rounds = 0
        self._used: Counter[tuple[str, str]] = Counter()

    def rewind(self) -> None:
        """Another run begins."""
        self._used.clear()
        self.rounds = 0

    def __call__(self, pool: PairPool, plan: Round, rng: random.Random, result: RoundResult) -> None:
        self.rounds += 1
        for request in plan.requests:
            if request.case.id == self.broken:
                result.refused[self.broken] = Failure("treatment", "error", "ValueError: no")
            else:
                result.samples.append(self._next(request.case.id, request.stage, plan.number))
        samples = [self._next(request.case.id, "aa", plan.number) for request in plan.aa_requests]
        result.aa_result = RoundResult(samples=samples)

    def _next(self, case_id: str, stage: str, number: int) -> PairSample:
        place, used = self._places[case_id], self._used[(case_id, stage)]
        self._used[(case_id, stage)] += 1
        first, second, noise = CHANGES[place] if place < len(CHANGES) else (0.0, 0.0, NOISE)
        change = {"screening": first, "confirmation": second, "aa": 0.0}[stage]
        draws = np.random.default_rng([place, len(stage), used]).normal([0, change], noise / 2**0.5)
        control, treatment = (1000.0 * float(np.exp(log_time)) for log_time in draws)
        kind: Stage = "confirmation" if stage == "confirmation" else "screening"
        return PairSample(case_id, kind, number, control, treatment, float(np.log(treatment / control)), 10, 1000)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    folder = str(tmp_path / "reports")
    options = read_options(
        ["-b", "smoke", "--seed", "5", "--local_reporter", folder, "--busy_host", "report", "--explain", "none"]
    )
    return plan_session(options, {}, ["repo_driver.py"])


@pytest.fixture
def recorded(session: Session, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    adapter = Recorded(session)
    monkeypatch.setitem(schedule.ROUNDS, "time", adapter)
    return adapter


Order = Callable[..., RunOrder]


@pytest.fixture
def order(tmp_path: Path) -> Order:
    def make(name: str, **settings: Any) -> RunOrder:
        log = FileRoundLog(tmp_path / name, lambda: 1)
        usual = {"name": name, "run_type": name, "control": CONTROL, "treatment": TREATMENT, "log": log}
        return RunOrder(**{**usual, **settings})

    return make


def stored(report: Report) -> Report:
    """The report as the journal gives it back."""
    return read_report(to_bytes(report).decode())


def found_by_the_driver(session: Session, recorded: Recorded, order: Order) -> tuple[Report, Report]:
    """The benchmark, and the replication of all that it flagged."""
    adapter = HarnessAdapter(session)
    recorded.rewind()
    benchmark = stored(adapter.measure(order("benchmark")))
    cases = [
        comparison.case
        for comparison in benchmark.comparisons
        if comparison.verdict in ("regressed", "improved", "failed")
    ]
    return benchmark, stored(adapter.measure(order("verify", cases=cases, replicates=benchmark)))


def without_numbers(comparison: Comparison) -> dict[str, Any]:
    """A comparison without the numbers of process pairs, which the driver counts from 0 in each run."""
    fields = dataclasses.asdict(comparison)
    for sample in fields["verification"]["samples"] if fields["verification"] else ():
        del sample["round"]
    return fields


def test_both_commands_come_to_the_same_verdicts_on_the_same_samples(
    session: Session, recorded: Recorded, order: Order
) -> None:
    benchmark, second = found_by_the_driver(session, recorded, order)
    driver = HarnessAdapter(session).replicate(benchmark, second)
    recorded.rewind()
    alone = stored(run_ab(session.request(CONTROL, TREATMENT).configured(verify=True)))
    assert list(map(without_numbers, driver.comparisons)) == list(map(without_numbers, alone.comparisons))
    verdicts = [comparison.verdict for comparison in alone.comparisons[: BROKEN + 1]]
    assert verdicts == ["regressed", "not_better", "regressed", "improved", "inconclusive", "failed"]


def test_a_replication_reports_its_own_samples_alone(session: Session, recorded: Recorded, order: Order) -> None:
    benchmark, second = found_by_the_driver(session, recorded, order)
    samples = [sample for comparison in second.comparisons for sample in comparison.samples]
    assert {sample.stage for sample in samples} == {"confirmation"}
    assert all(comparison.rounds == len(comparison.samples) for comparison in second.comparisons)
    assert {comparison.decided_on for comparison in second.comparisons if not comparison.failure} == {"confirmation"}
    assert second.run.replicates == benchmark.run.id
    assert benchmark.run.replicates is None
    first_checks, checks = (comparison.run.validity.aa_checks for comparison in (benchmark, second))
    assert {comparison.case for comparison in checks} <= {comparison.case for comparison in first_checks}
    assert len(second.comparisons) == BROKEN, "the second case was not flagged: its fresh samples don't agree"


def test_a_replication_that_was_cut_short_shows_no_figures_of_the_first_measurement(
    session: Session, recorded: Recorded, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = HarnessAdapter(session)
    benchmark = stored(adapter.measure(order("benchmark")))
    case = benchmark.comparisons[0].case

    def interrupt(pool: PairPool, plan: Round, rng: random.Random, result: RoundResult) -> None:
        raise KeyboardInterrupt("stopped by SIGTERM")

    monkeypatch.setitem(schedule.ROUNDS, "time", interrupt)
    with pytest.raises(KeyboardInterrupt, match="nothing was measured"):
        adapter.measure(order("verify", cases=[case], replicates=benchmark))
    monkeypatch.setitem(schedule.ROUNDS, "time", _once(recorded))
    report = adapter.measure(order("verify", cases=[case], replicates=benchmark))
    (comparison,) = report.comparisons
    assert (report.run.interrupted, comparison.rounds, comparison.verdict) == (True, 1, "inconclusive")
    (sample,) = comparison.samples
    assert (comparison.control, comparison.treatment) == (sample.control, sample.treatment)
    assert (comparison.ci, comparison.decided_on, comparison.p_value) == (None, None, None)
    assert comparison.suspected == "regressed"
    assert report.open_suspects


def _once(recorded: Recorded) -> Callable[..., None]:
    def measure(pool: PairPool, plan: Round, rng: random.Random, result: RoundResult) -> None:
        if recorded.rounds:
            raise KeyboardInterrupt("stopped by SIGTERM")
        recorded(pool, plan, rng, result)

    recorded.rewind()
    return measure


def test_a_start_that_goes_on_has_a_time_budget_on_top_and_the_cases_of_the_one_before(
    session: Session, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = replace(session.configuration, time_budget=30.0, run_type="benchmark")
    session = replace(session, configuration=configuration)
    adapter, left_out = HarnessAdapter(session, reached_only=True), LeftOutRecord(cases=("a",), total=2)
    first = order("benchmark", is_awaited=True)
    request = adapter._request(first)
    earlier = without_measuring(request.configured(time_budget=20.0), "")
    earlier = replace(earlier, run=replace(earlier.run, left_out=left_out))
    further = replace(first, budgets=2, earlier=earlier)
    request = adapter._request(further)
    assert (request.configuration.time_budget, request.labels.earlier_budget) == (50.0, 20.0)
    assert not request.suspects_only
    monkeypatch.setattr(harness_adapter, "leave_out", lambda *_: pytest.fail("recorded again"))
    assert adapter._reached(request, further).labels.left_out == left_out


def test_an_identical_pair_has_none_of_the_values_of_the_pair_before(
    session: Session, recorded: Recorded, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovered = list(session.cases[: BROKEN + 1])
    monkeypatch.setattr(harness_adapter, "discover_cases", lambda *_: discovered)
    adapter = HarnessAdapter(session)
    assert len(adapter.measure(order("benchmark")).comparisons) == len(discovered)
    report = adapter.measure(replace(order("later"), treatment=CONTROL))
    assert [comparison.case for comparison in report.comparisons] == [case.id for case in session.cases]


def test_a_replication_is_resumed(
    session: Session, recorded: Recorded, order: Order, caplog: pytest.LogCaptureFixture
) -> None:
    benchmark, second = found_by_the_driver(session, recorded, order)
    measured = recorded.rounds
    cases = [comparison.case for comparison in second.comparisons]
    caplog.set_level("INFO")
    replication = order("verify", cases=cases, replicates=benchmark)
    entries = len(replication.log.rounds())
    again = HarnessAdapter(session).measure(replication)
    assert recorded.rounds == measured, "every round is in the log"
    assert f", resuming after {entries - 1} rounds" in caplog.text, "the other entry is the first start"
    assert [comparison.verdict for comparison in again.comparisons] == [
        comparison.verdict for comparison in second.comparisons
    ]
    assert again.run.id == second.run.id


def test_callgrinds_files_reach_the_report_of_their_run_and_no_other(
    session: Session, recorded: Recorded, order: Order, measuring: Measuring
) -> None:
    folders: list[Path] = []

    def look(request: RunRequest) -> Report:
        assert request.callgrind is not None
        folders.append(request.callgrind)
        request.callgrind.mkdir()
        (request.callgrind / "callgrind.out").write_text(request.configuration.run_type or "")
        report = without_measuring(request, "only looked at")
        changed = replace(report.comparisons[0], verdict="regressed", cause=Cause("not explained"))
        return replace(report, comparisons=(changed, *report.comparisons[1:]))

    measuring.measure = look
    adapter = HarnessAdapter(session)
    first = adapter.measure(order("benchmark"))
    second = adapter.measure(order("verify"))
    continued = replace(second, run=replace(second.run, id=f"{second.run.id}-open-1"))
    adapter.deliver(stored(first))
    adapter.deliver(stored(continued))
    (reporter,) = session.reporters
    assert isinstance(reporter, LocalReporter)
    (copied,) = reporter.directory.rglob("callgrind.out")
    assert copied.read_text() == "verify"
    assert copied.parent.with_name("report.json") == reporter.saved_path(continued)
    assert not any(folder.exists() for folder in folders)


BREAKABLE = """
import os

class Cached:
    def setup_cache(self):
        with open("made_by.txt", "w") as stream:
            stream.write(os.environ["NAME"])
        if os.environ["NAME"] == "broken":
            raise OSError("as it was made to")

    def track_made(self):
        return 1
"""


def one_of(name: str) -> Build:
    return Build("asv", name, "interpreter", sys.executable, "1", "3", name, environment={"NAME": name})


def test_what_a_suite_left_of_one_commit_is_not_there_for_the_next(
    tmp_path: Path, order: Order, measuring: Measuring
) -> None:
    """Its ``setup_cache`` fails on the first treatment alone."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "one.py").write_text(BREAKABLE)
    (tmp_path / "asv.conf.json").write_text("{}")
    words = ["--suite", str(tmp_path), "--local_reporter", str(tmp_path / "reports"), "--busy_host", "report"]
    options = read_options(words)
    suite = SuiteSelection(options)
    adapter = HarnessAdapter(plan_session(options, {}, ["repo_driver.py"], chosen=suite.none_yet), suite)
    leftovers: list[tuple[list[str], list[str]]] = []

    def look(request: RunRequest) -> Report:
        work = Path(request.treatment.environment["OPDUEL_SUITE_WORK"])
        problems = list(request.labels.suite.problems if request.labels.suite else ())
        leftovers.append((problems, [path.name for path in work.rglob("failed.txt")]))
        return without_measuring(request, "only looked at")

    measuring.measure = look
    for name in ("broken", "good"):
        adapter.measure(order(name, control=one_of("control"), treatment=one_of(name)))
    why = "treatment: setup_cache of one.Cached.track_made: OSError: as it was made to"
    assert leftovers == [([why], ["failed.txt"]), ([], [])]


def test_a_suite_is_measured_ahead_in_copies_of_its_own(
    tmp_path: Path, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ``setup_cache`` is run by hosts alone."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "one.py").write_text(BREAKABLE)
    words = ["--suite", str(tmp_path / "benchmarks"), "--local_reporter", str(tmp_path / "reports")]
    options = read_options([*words, "--fleet", "local:2"])
    suite = SuiteSelection(options)
    requests: list[tuple[int | None, RunRequest, ChosenSuite | None]] = []

    def measures(_: Namespace, rank: int | None = None, suite: ChosenSuite | None = None) -> Callable[..., Report]:
        def look(request: RunRequest, *_: Any) -> Report:
            requests.append((rank, request, suite))
            return without_measuring(request, "only looked at")

        return look

    monkeypatch.setattr("opduel.commands.harness_adapter.measurer", measures)
    adapter = HarnessAdapter(plan_session(options, {}, ["repo_driver.py"], chosen=suite.none_yet), suite)
    ordered = order("step", control=one_of("control"), treatment=one_of("treatment"))
    assert adapter.measure_ahead(ordered, 3, lambda: False) is not None
    adapter.measure(ordered)
    (_, first, _), (_, second, _) = requests
    assert [rank for rank, _, _ in requests] == [3, None]
    assert first.cases == second.cases != []
    assert first.framework.suite_variables == second.framework.suite_variables
    assert first.treatment.environment["OPDUEL_SUITE"] != second.treatment.environment["OPDUEL_SUITE"]
    for _, request, chosen in requests:
        assert chosen is not None
        assert [cache.side for cache in chosen.needed_by(request.cases)] == ["control", "treatment"]
        assert not list(Path(request.treatment.environment["OPDUEL_SUITE_WORK"]).rglob("made_by.txt"))


def test_a_step_of_a_search_prints_its_verdicts_alone_and_reports_the_whole(
    session: Session, recorded: Recorded, order: Order, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = HarnessAdapter(replace(session, reporters=[*session.reporters, ScreenReporter()]))
    cases = [session.cases[0].id]
    for run_type in ("benchmark", "regress"):
        recorded.rewind()
        report = adapter.measure(order(run_type, cases=cases))
        capsys.readouterr()
        adapter.deliver(report)
        output = capsys.readouterr().out.splitlines()
        assert (len(output) <= 5) == (run_type == "regress")
        assert any(line.startswith("report: ") for line in output)
        assert any(cases[0] in line for line in output)
    assert f"a..b: {cases[0]} regressed, " in "\n".join(output)


def test_causes_are_looked_for_as_ordered_unless_the_user_says(tmp_path: Path, order: Order) -> None:
    def asked(*words: str, **settings: Any) -> str:
        options = read_options(["-b", "smoke", "--local_reporter", str(tmp_path / "reports"), *words])
        adapter = HarnessAdapter(plan_session(options, {}, ["repo_driver.py"]))
        return adapter._request(order("regress", **settings)).configuration.explain

    assert asked() == "confirmed", "as usual"
    assert asked(explains=True) == "all"
    assert asked(explains=False) == "none"
    assert asked("--explain", "none", explains=True) == "none"
    assert asked("--explain", "all", explains=False) == "all"
