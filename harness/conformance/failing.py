"""Checks of what fails: refusals, crashes, hangs and garbage cost their own cases alone, and are reported."""

import contextlib
import dataclasses
import time

import psutil

from opduel.harness.conformance.subject import HANG_S, VARIABLE, Outcome, Subject, sides_of
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Case, Comparison, Failure, Report, RunConfiguration, RunError

ROUNDS = 2
GRACE_S = 1.0  # for processes that were killed
WANTED = {"crash": "crash", "hang": "timeout"}  # what happens to a case -> the kind of its failure


def check_refusals(subject: Subject, outcome: Outcome) -> None:
    """An argument that there isn't, and an operator that there isn't, fail as ``error`` and ``missing``; the case after
    them runs in the same worker."""
    wanted = {"error": subject.refused_case, "missing": subject.missing_case}
    if subject.framework.programs:
        del wanted["missing"]
        outcome.note("cases of programs name no operator: one that isn't there is not checked")
    if subject.framework.suite_script is not None:
        del wanted["error"]
        outcome.note("cases of a suite have the parameters that it states: an unknown argument is not checked")
    good = subject.cases[0]
    with subject.workers() as workers:
        for side, worker in sides_of(workers):
            for kind, case in wanted.items():
                answer = subject.ask(worker, case, "prepare")
                what = f"{case.operator} with the inputs {dict(case.inputs)}, on the {side}"
                if not isinstance(answer, Failure):
                    outcome.problem(f"{what}: ran: raise an exception{_of_kind(kind)}")
                elif answer.kind != kind:
                    said = f"{answer.kind}, {answer.reason}"
                    outcome.problem(f"{what}: failed as {said}, not as {kind}: raise an exception{_of_kind(kind)}")
                elif not answer.reason.strip():
                    outcome.problem(f"{what}: failed without a reason")
            outcome.answered(side, good, "after a refusal", subject.ask(worker, good, "prepare"))


def check_faults(subject: Subject, outcome: Outcome) -> None:
    """A run in which the treatment's calls crash and hang, print garbage, and compute something else: each failure is
    reported with its side and reason, the other cases are measured, and no process is left."""
    good = subject.cases[0]
    cases = {name: _renamed(good, name) for name in ("good", "crash", "hang", "garbage")}
    cases["hang"] = dataclasses.replace(cases["hang"], timeout_s=min(HANG_S, good.timeout_s))
    compares = "results" in subject.has
    for name in ("good", "garbage", "changed") if compares else ():
        twin = _renamed(good, name)
        cases[f"{name} error"] = dataclasses.replace(twin, id=f"{twin.id}/error", metric="error")
    by_id = {_renamed(good, name).id: name for name in ("crash", "hang", "garbage", "changed")}
    faulty = subject.with_faults(treatment=by_id)
    configuration = RunConfiguration(max_rounds=ROUNDS, sentinels=0, busy_host="report")
    request = RunRequest(
        faulty.framework, faulty.control, faulty.treatment, list(cases.values()), subject.seed, configuration
    )
    report = run_ab(request)
    if report.run.aborted:
        raise RunError(f"the run of the check faults ended early: {report.run.stop_reason}")
    found = {name: _comparison(report, case) for name, case in cases.items()}
    for name, one in found.items():
        _judge(name.split(), one, outcome)
    for line in _left_behind(faulty):
        outcome.problem(f"a process was left behind: {line}: end what the adaptor starts with its parent")


def _judge(words: list[str], one: Comparison, outcome: Outcome) -> None:
    """Compare one case's outcome with what was done to it."""
    name, compared = words[0], len(words) > 1
    if name in WANTED:
        failure = one.failure
        if failure is None:
            outcome.problem(f"a {name} on the treatment was not noticed: {one.verdict}: restore the signal handlers")
        elif (failure.side, failure.kind) != ("treatment", WANTED[name]):
            said = f"{failure.kind} on side {failure.side}: {failure.reason}"
            outcome.problem(f"a {name} on the treatment was reported as {said}: let the process die, or wait")
    elif one.failure is not None:
        beside = "beside cases that fail" if name == "good" else f"with {name} outputs" if compared else f"with {name}"
        outcome.problem(f"a case {beside}: {one.failure.kind} on side {one.failure.side}: {one.failure.reason}")
    elif compared and name == "changed" and one.verdict != "regressed":
        outcome.problem(f"changed outputs were not noticed: {one.verdict} {one.note}")
    elif compared and name != "changed" and one.verdict != "unchanged":
        beside = "" if name == "good" else f", with {name} printed"
        outcome.problem(f"equal builds compute different outputs{beside}: {one.verdict}: {one.note}")
    elif not compared and not one.rounds:
        outcome.problem(f"the case {name} was not measured: {one.verdict} {one.note}")


def _comparison(report: Report, case: Case) -> Comparison:
    return next(one for one in report.comparisons if one.case == case.id)


def _renamed(case: Case, name: str) -> Case:
    return dataclasses.replace(case, id=f"conformance_{name}/{case.direction}", metric="time")


def _left_behind(faulty: Subject) -> list[str]:
    """Processes that were started in a worker and outlived it."""
    told = {build.environment[VARIABLE] for build in faulty.builds.values()}
    end = time.monotonic() + GRACE_S
    while found := [one for one in psutil.process_iter() if _variable(one) in told]:
        if time.monotonic() > end:
            return [" ".join(one.cmdline()) or one.name() for one in found if one.is_running()]
        time.sleep(0.05)
    return []


def _variable(process: psutil.Process) -> str | None:
    with contextlib.suppress(psutil.Error, OSError):
        if process.status() != psutil.STATUS_ZOMBIE:
            found: str | None = process.environ().get(VARIABLE)
            return found
    return None


def _of_kind(kind: str) -> str:
    return ' that has kind = "missing"' if kind == "missing" else ""
