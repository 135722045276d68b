"""Cases asked one by one on one build: what dies costs its case alone, and the next worker is started."""

from collections.abc import Iterator

import psutil
import pytest
from toy_bench import ADAPTOR, toy_build, toy_case

from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import FAILED_STARTS, RestartingWorker
from opduel.records import Failure, RunError


def restarting(**environment: str) -> RestartingWorker:
    build = toy_build("treatment", **environment)
    return RestartingWorker("treatment", build, ADAPTOR, worker_environment(), plan_cpus(1).prepare)


@pytest.fixture
def worker() -> Iterator[RestartingWorker]:
    with restarting() as restarting_worker:
        yield restarting_worker


def ask(worker: RestartingWorker, operator: str, timeout_s: float = 20.0, fork: bool = True) -> object:
    request = CaseRequest(toy_case("a", operator), seed=1).message("treatment")
    return worker.ask([request], timeout_s, fork=fork)


def test_a_request_may_be_made_of_the_answers_so_far(worker: RestartingWorker) -> None:
    prepare = CaseRequest(toy_case("a"), seed=1).message("treatment")
    answer_lists = []

    def block(answers: object) -> dict[str, object]:
        answer_lists.append(answers)
        return {"op": "block", "discard": 0, "calls": 3, "inner": 1}

    answers = worker.ask([prepare, block], 20.0)
    assert not isinstance(answers, Failure)
    assert answer_lists == [[answers[0], answers[1]]], "one list, which grew"
    assert len(answers[1]["ns"]) == 3


@pytest.mark.parametrize("fork", [True, False])
@pytest.mark.parametrize(
    ("operator", "kind"), [("refuse", "error"), ("abort", "crash"), ("kill", "killed"), ("hang", "timeout")]
)
def test_what_fails_costs_its_own_case_alone(worker: RestartingWorker, operator: str, kind: str, fork: bool) -> None:
    failed = ask(worker, operator, 0.5 if operator == "hang" else 20.0, fork)
    assert isinstance(failed, Failure)
    assert (failed.side, failed.kind) == ("treatment", kind)
    assert isinstance(ask(worker, "work"), list)


@pytest.mark.parametrize("fork", [True, False])
def test_no_case_sees_what_another_left_behind(worker: RestartingWorker, fork: bool) -> None:
    assert all(isinstance(ask(worker, "remember", fork=fork), list) for _ in range(2))


def test_a_worker_is_used_again_and_ended_with_the_last() -> None:
    with restarting() as worker:
        ask(worker, "work")
        assert worker._worker is not None
        pid = worker._worker.pid
        ask(worker, "abort")
        ask(worker, "work")
        assert worker._worker.pid == pid
    assert not psutil.pid_exists(pid)


def test_one_that_never_starts_is_tried_a_few_times() -> None:
    with restarting(TOY_IMPORT="dies") as worker:
        for _ in range(FAILED_STARTS - 1):
            failed = ask(worker, "work")
            assert isinstance(failed, Failure)
            assert "no such library" in failed.reason
        with pytest.raises(RunError, match=f"could not be started {FAILED_STARTS} times in a row: exited with code 1"):
            ask(worker, "work")
