"""The check that all cases are measured on both builds."""

from opduel.harness.conformance.subject import Outcome, Subject, sides_of
from opduel.records import VALUE, Failure

BLOCK = {"discard": 1, "calls": 3, "inner": 1}


def check_cases(subject: Subject, outcome: Outcome) -> None:
    """Every case prepares and its calls take time, or it reports its value; on either side, in a process as a run's."""
    with subject.workers() as workers:
        for case in subject.cases:
            for side, worker in sides_of(workers):
                if case.metric == VALUE:
                    outcome.answered(side, case, VALUE, subject.ask(worker, case, VALUE))
                    continue
                requests = [*subject.messages(case, "prepare"), {"op": "block", **BLOCK}]
                answer = worker.ask(requests, case.timeout_s, fork=subject.can_fork(case))
                if outcome.answered(side, case, "measured", answer) and not isinstance(answer, Failure):
                    times = answer[-1]["ns"]
                    if len(times) != BLOCK["calls"] or not all(value > 0 for value in times):
                        outcome.problem(f"{case.id} on the {side}: three calls took {times} ns")
