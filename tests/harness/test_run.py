"""From a request to a report, with the toy framework."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from toy_bench import ADAPTOR, toy_build, toy_case

from opduel.comparator import RunAnalysis
from opduel.frameworks import Builds, Framework
from opduel.harness.measurement_plan import Progress
from opduel.harness.prior_runs import Setting, learn
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Case, Comparison, RunConfiguration, RunError, UsageError
from opduel.records.run_record import ForksRecord, RunLabels
from opduel.reporters.document import from_text, to_bytes
from opduel.support.redaction import redact


class Toy(Framework):
    """Needs nothing, and behaves in a fork."""

    name = "toy"
    builds = Builds(import_name="toy")

    @property
    def adaptor(self) -> Path:
        return ADAPTOR

    def environment(self, threads: int) -> Mapping[str, str]:
        return {"TOY_THREADS": str(threads)}

    def can_fork(self, threads: int, context: str) -> bool:
        return True


def request(*cases: Case, max_rounds: int = 3, **environment: str) -> RunRequest:
    return RunRequest(
        framework=Toy(),
        control=toy_build("control", **environment),
        treatment=toy_build("treatment", **environment),
        cases=cases,
        seed=11,
        configuration=RunConfiguration(max_rounds=max_rounds, explain="none"),  # which starts processes of its own
        labels=RunLabels(spec="toy"),
    )


@pytest.mark.parametrize("metric", ["time", "memory", "process_memory", "error"])
def test_the_users_variables_reach_both_sides(metric: str) -> None:
    case = replace(toy_case("a", "variable", asked="GIVEN"), metric=metric)
    report = run_ab(replace(request(case), env={"GIVEN": "here"}))
    failure = report.comparisons[0].failure
    assert failure is not None
    assert (failure.side, failure.reason) == ("both", "ValueError: GIVEN is here")
    assert report.run.env == ("GIVEN",)
    assert report.run.environment["GIVEN"] == "***", "it may be a secret"


@pytest.mark.usefixtures("nothing_masked")
@pytest.mark.parametrize("metric", ["time", "memory", "error"])
def test_a_users_variable_that_a_framework_prints_is_masked(metric: str) -> None:
    """It may be a secret, whatever its name; the values that are known to be harmless stay."""
    case = replace(toy_case("a", "variable", asked="GIVEN"), metric=metric)
    report = run_ab(replace(request(case), env={"GIVEN": "wonderful horse", "DNNL_VERBOSE": "profile_exec"}))
    assert report.comparisons[0].failure is not None
    assert report.comparisons[0].failure.reason == "ValueError: GIVEN is ***"
    assert b"wonderful" not in to_bytes(report)
    assert report.run.environment["DNNL_VERBOSE"] == "profile_exec"
    assert redact("wonderful horse; profile_exec") == "***; profile_exec", "in the log, too"


def test_a_run_knows_what_the_one_before_it_took() -> None:
    """From real workers to a report, and from that to the next run's forecast."""
    cases, progresses = [toy_case("a"), toy_case("b")], list[Progress]()
    first = run_ab(request(*cases, max_rounds=2))
    assert first.run.prior_runs is None
    prior = learn([from_text(to_bytes(first).decode())], Setting("toy", 1, False, first.host))
    second = run_ab(replace(request(*cases, toy_case("new"), max_rounds=2), prior_runs=prior), progresses.append)
    record = second.run.prior_runs
    assert record is not None
    assert (record.reports, record.skipped, record.known) == (1, 0, 2)
    assert record.expected_s
    assert record.expected_rounds == {"a": 2, "b": 2, "new": 2}
    assert all(progress.end_s is not None for progress in progresses if progress.open_cases)
    assert {len(comparison.samples) for comparison in second.comparisons if comparison.case != "new"} == {2}


def test_progress_says_what_is_left_of_the_time_budget_of_the_whole_run() -> None:
    for budget_s in (600.0, None):
        progresses: list[Progress] = []
        run_ab(request(toy_case("a"), max_rounds=2).configured(time_budget=budget_s), progresses.append)
        last = progresses[-1]
        assert last.budget_left_s == (math.inf if budget_s is None else budget_s - last.elapsed_s)


def test_a_variable_that_one_build_sets_is_refused() -> None:
    with pytest.raises(UsageError, match="--env TOY_SIDE: is set by the build toy itself"):
        run_ab(replace(request(toy_case("a")), env={"TOY_SIDE": "control"}))


def test_the_report_tells_what_was_asked_and_done() -> None:
    report = run_ab(request(replace(toy_case("a"), threshold=0.5), toy_case("bad", "refuse")))
    assert [comparison.case for comparison in report.comparisons] == ["a", "bad"]
    assert report.comparisons[0].verdict in ("unchanged", "inconclusive")
    assert report.comparisons[1].failure is not None
    run = report.run
    assert (run.seed, run.spec, run.framework, run.inject) == (11, "toy", "toy", None)
    assert run.environment["TOY_THREADS"] == "1"
    assert run.environment["MALLOC_TRIM_THRESHOLD_"]
    assert run.wipe_cache is None
    assert (run.complete, run.aborted, run.stop_reason) == (True, False, None)
    assert run.rounds >= report.comparisons[0].rounds
    assert run.timed_s > 0  # by the toy's simulated clock, so that it may be more than
    assert run.wall_s > 0
    assert report.host.during is not None


def test_when_nothing_was_measured_there_is_no_report() -> None:
    with pytest.raises(RunError, match=r"nothing was measured.*no such library"):
        run_ab(request(toy_case("a"), TOY_IMPORT="dies"))


def test_a_pair_that_would_be_ready_too_late_is_not_waited_for() -> None:
    """Under valgrind a start takes many times what it takes without."""
    case = replace(toy_case("a"), metric="memory")
    report = run_ab(request(case, TOY_IMPORT="sleeps").configured(time_budget=1.0))
    assert (report.run.aborted, report.run.stop_reason) == (False, "the time budget was spent")
    assert report.comparisons[0].failure is None
    assert report.run.incidents == ()
    assert report.run.forks == ForksRecord(forked=1)


def test_ctrl_c_during_the_analysis_costs_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RunAnalysis.comparisons
    calls: list[int] = []

    def comparisons(analysis: RunAnalysis) -> list[Comparison]:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt("stopped by SIGINT")
        return original(analysis)

    monkeypatch.setattr(RunAnalysis, "comparisons", comparisons)
    report = run_ab(request(toy_case("a")))
    assert report.comparisons[0].rounds >= 1
    assert (report.run.aborted, report.run.stop_reason) == (True, "stopped by SIGINT")
