"""Checks of what fails: refusals, crashes, hangs and garbage cost their own cases alone, and are reported."""

import contextlib
import dataclasses
import time

import psutil

from opduel.harness.conformance.subject import HANG_S, VARIABLE, Outcome, Subject, renamed
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Comparison, Failure, RunConfiguration, RunError

ROUNDS = 2
GRACE_S = 5.0  # for processes that were killed
# What has to become of a case of ``check_faults``, by its name.
EXPECTED = {
    "good": "measured",
    "crash": "crash on side treatment",
    "hang": "timeout on side treatment",
    "garbage": "measured",
    "good outputs": "unchanged",
    "garbage outputs": "unchanged",
    "changed outputs": "regressed",
}
# How a case is to be refused, by the kind of its failure.
REFUSALS = {"error": "raise an exception", "missing": 'raise an exception that has kind = "missing"'}


def check_refusals(subject: Subject, outcome: Outcome) -> None:
    """An argument that there isn't, and an operator that there isn't, fail as ``error`` and ``missing``; the case after
    them runs in the same worker."""
    expected_cases = {"error": subject.refused_case, "missing": subject.missing_case}
    if not subject.framework.cases.has_operators:
        del expected_cases["missing"]
        outcome.note("cases of programs name no operator: one that isn't there is not checked")
    if subject.framework.scripts.suite is not None:
        del expected_cases["error"]
        outcome.note("cases of a suite have the parameters that it states: an unknown argument is not checked")
    good = subject.cases[0]
    with subject.workers() as workers:
        for side, worker in workers.items():
            for kind, case in expected_cases.items():
                answer = subject.ask(worker, case, "prepare")
                description = f"{case.operator} with the inputs {dict(case.inputs)}, on the {side}"
                if not isinstance(answer, Failure):
                    outcome.problem(f"{description}: ran: {REFUSALS[kind]}")
                elif answer.kind != kind or not answer.reason.strip():
                    words = f"{answer.kind}, {answer.reason or 'without a reason'}"
                    outcome.problem(f"{description}: failed as {words}: {REFUSALS[kind]}")
            outcome.answered(subject.ask(worker, good, "prepare"), side, good, "after a refusal")


def check_faults(subject: Subject, outcome: Outcome) -> None:
    """A run in which the treatment's calls crash and hang, print garbage, and compute something else: each failure is
    reported with its side and reason, the other cases are measured, and no process is left."""
    good = subject.cases[0]
    cases = {name: renamed(good, name, metric="time") for name in ("good", "crash", "hang", "garbage")}
    cases["hang"] = dataclasses.replace(cases["hang"], timeout_s=min(HANG_S, good.timeout_s))
    compares = "results" in subject.has
    for name in ("good", "garbage", "changed") if compares else ():
        twin = renamed(good, name, metric="error")
        cases[f"{name} outputs"] = dataclasses.replace(twin, id=f"{twin.id}/error")
    by_id = {renamed(good, name).id: name for name in ("crash", "hang", "garbage", "changed")}
    faulty = subject.with_faults(treatment=by_id)
    configuration = RunConfiguration(max_rounds=ROUNDS, sentinels=0, busy_host="report")
    request = RunRequest(
        faulty.framework, faulty.control, faulty.treatment, list(cases.values()), subject.seed, configuration
    )
    report = run_ab(request)
    if report.run.aborted:
        raise RunError(f"the run of the check faults ended early: {report.run.stop_reason}")
    comparison_by_id = {comparison.case: comparison for comparison in report.comparisons}
    for name, case in cases.items():
        _judge(name, comparison_by_id[case.id], outcome)
    for line in _left_behind(faulty):
        outcome.problem(f"a process was left behind: {line}: end what the adaptor starts with its parent")


def _judge(name: str, comparison: Comparison, outcome: Outcome) -> None:
    """Add a problem if something else became of the case than has to."""
    failure, actual, why = comparison.failure, str(comparison.verdict), comparison.note
    if failure is not None:
        actual, why = f"{failure.kind} on side {failure.side}", failure.reason
    elif name in ("good", "crash", "hang", "garbage") and comparison.rounds:
        actual = "measured"
    if actual != EXPECTED[name]:
        outcome.problem(f"the case {name!r} was {actual}, not {EXPECTED[name]}: {why}")


def _left_behind(faulty: Subject) -> list[str]:
    """Return the command lines of processes that were started in a worker and outlived it."""
    values = {build.environment[VARIABLE] for build in faulty.builds.values()}
    end = time.monotonic() + GRACE_S
    while survivors := [process for process in psutil.process_iter() if _variable(process) in values]:
        if time.monotonic() > end:
            return [" ".join(process.cmdline()) or process.name() for process in survivors if process.is_running()]
        time.sleep(0.05)
    return []


def _variable(process: psutil.Process) -> str | None:
    with contextlib.suppress(psutil.Error, OSError):
        if process.status() != psutil.STATUS_ZOMBIE:
            value: str | None = process.environ().get(VARIABLE)
            return value
    return None
