"""The worker process: what it answers, and how its end is reported."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from toy_bench import ADAPTOR, toy_build, toy_case

from opduel.frameworks import worker_environment
from opduel.harness.machine.host import own_cpu_seconds
from opduel.harness.processes import channel
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.channel import Background, complete
from opduel.harness.processes.process import CaseProcess, Worker
from opduel.harness.processes.worker_errors import CaseLostError, CaseRefusedError, WorkerLostError

CPUS = frozenset(os.sched_getaffinity(0))


def start(**environment: str) -> Worker:
    build = toy_build("treatment", **environment)
    return Worker("treatment", build, ADAPTOR, worker_environment(), CPUS)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with start() as started:
        assert started.wait_ready() == {"framework": "1.0"}
        yield started


def begin(worker: Worker, fork: bool = True) -> CaseProcess:
    return complete(worker.beginning(fork))


def prepare(worker: Worker, operator: str, timeout_s: float = 20.0, fork: bool = True) -> CaseProcess:
    """A case, ready to be measured."""
    case = begin(worker, fork)
    ask_to_prepare(case, operator, timeout_s)
    return case


def ask_to_prepare(case: CaseProcess, operator: str, timeout_s: float = 20.0) -> None:
    request = CaseRequest(toy_case("a", operator), seed=1).message("treatment")
    assert case.ask(request, timeout_s)["call_ns"] > 0


def block(case: CaseProcess, discard: int, calls: int, inner: int) -> list[float]:
    answer = case.ask({"op": "block", "discard": discard, "calls": calls, "inner": inner}, 20)
    return list(answer["ns"])


def end(case: CaseProcess) -> None:
    complete(case.ended())


def test_block_returns_one_positive_time_a_call(worker: Worker) -> None:
    times = block(prepare(worker, "work"), discard=3, calls=7, inner=2)
    assert len(times) == 7
    assert min(times) > 0


def test_per_call_time_does_not_depend_on_inner(worker: Worker) -> None:
    case = prepare(worker, "work")
    single_ns, ten = (min(block(case, 3, 50, inner)) for inner in (1, 10))
    assert 0.5 < single_ns / ten < 2


def test_refusals_leave_the_worker_alive(worker: Worker) -> None:
    for operator, kind, reason in (
        ("refuse", "error", "ValueError: Shapes (2,) and (3,)"),
        ("missing", "missing", "toy 1.0 has no operator nd.gone"),
        ("no_memory", "out-of-memory", "MemoryError"),
    ):
        case = begin(worker)
        with pytest.raises(CaseRefusedError) as caught:
            ask_to_prepare(case, operator)
        end(case)
        assert caught.value.failure.side == "treatment"
        assert caught.value.failure.kind == kind
        assert reason in caught.value.failure.reason
        next_case = prepare(worker, "work")
        assert block(next_case, 0, 1, 1)
        end(next_case)


LOSSES = [  # operator, kind of the failure, part of its reason, part of the output
    ("segfault_like_exit", "crash", "exited with code 255, having printed 'Segmentation fault'", "Stack trace"),
    ("abort", "crash", "killed by SIGABRT", ""),
    (
        "no_memory_in_native_code",
        "out-of-memory",
        "ran out of memory and aborted, after printing 'bad_alloc'",
        "what()",
    ),
    ("kill", "killed", "killed by SIGKILL", ""),
    ("hang", "timeout", "no answer within 1 s", "going to sleep"),
]


def test_lost_children_are_reported_and_the_worker_lives(worker: Worker) -> None:
    for operator, kind, reason, words in LOSSES:
        with pytest.raises(CaseLostError) as caught:
            prepare(worker, operator, timeout_s=1.0 if operator == "hang" else 20.0)
        failure = caught.value.failure
        assert (failure.side, failure.kind) == ("treatment", kind)
        assert reason in failure.reason
        assert words in failure.output_tail
        assert not psutil.Process(worker.pid).children()
        next_case = prepare(worker, "work")
        assert next_case.output_tail() == "", "it has its own"
        end(next_case)


@pytest.mark.parametrize(("operator", "kind", "reason", "words"), LOSSES)
def test_without_a_fork_the_worker_is_lost(worker: Worker, operator: str, kind: str, reason: str, words: str) -> None:
    with pytest.raises(WorkerLostError) as caught:
        prepare(worker, operator, timeout_s=1.0 if operator == "hang" else 20.0, fork=False)
    failure = caught.value.failure
    assert (failure.side, failure.kind) == ("treatment", kind)
    assert reason in failure.reason
    assert words in failure.output_tail
    assert not psutil.pid_exists(worker.pid)


@pytest.mark.parametrize("fork", [True, False])
def test_a_case_runs_in_a_fork_or_not(worker: Worker, fork: bool) -> None:
    case = prepare(worker, "work", fork=fork)
    assert [child.pid for child in psutil.Process(worker.pid).children()] == ([case.pid] if fork else [])
    assert (case.pid == worker.pid) != fork
    end(case)
    assert not psutil.Process(worker.pid).children()
    assert block(prepare(worker, "work", fork=not fork), 0, 1, 1)


@pytest.mark.parametrize("fork", [True, False])
def test_a_stopped_process_runs_only_to_answer(
    worker: Worker, fork: bool, wait_until: Callable[[Callable[[], bool]], bool]
) -> None:
    case = prepare(worker, "work", fork=fork)

    def is_stopped() -> bool:
        return str(psutil.Process(case.pid).status()) == psutil.STATUS_STOPPED

    with case.stopped():
        for _ in range(3):
            assert wait_until(is_stopped)
            assert len(block(case, 1, 5, 1)) == 5
        assert wait_until(is_stopped)
    assert wait_until(lambda: not is_stopped())
    assert len(block(case, 1, 5, 1)) == 5
    end(case)
    assert len(block(prepare(worker, "work"), 0, 1, 1)) == 1


def test_a_stopped_process_that_dies_or_hangs_is_lost_as_any_other(worker: Worker) -> None:
    case = begin(worker)
    with pytest.raises(CaseLostError, match="no answer within"), case.stopped():
        ask_to_prepare(case, "hang", timeout_s=0.5)
    case = begin(worker)
    with pytest.raises(CaseLostError, match="SIGABRT"), case.stopped():
        ask_to_prepare(case, "abort")
    assert len(block(prepare(worker, "work"), 0, 1, 1)) == 1


def test_one_case_is_prepared_while_another_is_measured(worker: Worker) -> None:
    first, second = prepare(worker, "work"), begin(worker)
    request = CaseRequest(toy_case("b"), seed=1).message("treatment")
    preparing = Background(second.asking(request, 20), CaseLostError)
    preparing.advance()  # sent, not waited for
    assert len(block(first, 0, 5, 1)) == 5
    first.end()
    assert preparing.finish()["call_ns"] > 0
    third = begin(worker)  # in the place of the first, once that has ended
    assert first.over
    assert len({first.pid, second.pid, third.pid}) == 3


def test_a_crash_touches_neither_the_other_case_nor_its_words(worker: Worker) -> None:
    good, bad = prepare(worker, "garbage"), begin(worker)
    with pytest.raises(CaseLostError, match="Segmentation fault"):
        ask_to_prepare(bad, "segfault_like_exit")
    assert len(block(good, 0, 3, 1)) == 3
    assert "not JSON" in good.output_tail()
    assert "Segmentation" not in good.output_tail()


def test_no_case_sees_what_another_left_behind(worker: Worker) -> None:
    end(prepare(worker, "remember"))
    end(prepare(worker, "remember"))
    end(prepare(worker, "remember", fork=False))
    with pytest.raises(CaseRefusedError, match="something was left behind"):
        prepare(worker, "remember", fork=False)


def test_an_answer_that_comes_too_late_confuses_nothing(worker: Worker) -> None:
    """The deadline passes while the child is about to answer: whichever wins, the next case is answered rightly."""
    for timeout_s in (0.005, 0.01, 0.0125, 0.015, 0.02):
        case = begin(worker)
        with contextlib.suppress(CaseLostError):
            ask_to_prepare(case, "work", timeout_s)
        end(case)
        case = prepare(worker, "work")
        assert len(block(case, 0, 3, 1)) == 3
        end(case)


def test_kill_9_of_the_worker_itself(worker: Worker) -> None:
    case = prepare(worker, "work")
    (child,) = psutil.Process(worker.pid).children()
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerLostError) as caught:
        block(case, 0, 1_000_000, 1)
    assert caught.value.failure.kind == "killed"
    child.wait(60)


def test_garbage_on_stdout_breaks_nothing(worker: Worker) -> None:
    """The tail from the start of a word; of the colour neither ESC nor ``[31m``."""
    tail = prepare(worker, "garbage").output_tail()
    line = '\ufffd\ufffd not JSON {"ns": [1]}\n'
    repeats = 2000 // len(b'{"ns": [1]}\n\x00\xff\xfe not JSON \x1b[31m')
    assert tail == line * repeats + "\ufffd\ufffd not JSON"


def test_what_a_case_prints_fills_no_disk(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while another case of the worker is waited for, either: here 32 MiB."""
    monkeypatch.setattr(channel, "MOST_KEPT", 3 * 2**20)
    flooding, other = begin(worker), begin(worker)
    flooding._channel.send(CaseRequest(toy_case("a", "flood"), seed=1).message("treatment"))
    with pytest.raises(CaseLostError, match="no answer"):
        ask_to_prepare(other, "hang", 2.0)
    printed = flooding._channel.passed[2]
    assert os.fstat(printed).st_size <= 3 * 2**20
    assert os.pread(printed, 16, 0) == b"the first words\n"
    assert b" bytes of output left out]\n" in os.pread(printed, 4 * 2**20, 0)
    assert flooding.output_tail().endswith("going to sleep")


def test_failed_import_is_reported_with_its_words() -> None:
    with start(TOY_IMPORT="dies") as worker, pytest.raises(WorkerLostError) as caught:
        worker.wait_ready()
    assert caught.value.failure.reason == "exited with code 1: cannot import toy: no such library"
    assert caught.value.failure.output_tail == "cannot import toy: no such library"


WITHOUT_CALL = "def versions(): return {}\n"
GOOD = WITHOUT_CALL + "def make_call(case, seed): return lambda: None\n"
NOT_JSON = "def profile(call, calls): return {1, 2}\n"
PROFILE: dict[str, Any] = {"op": "profile", "calls": 1}
RESULTS: dict[str, Any] = {"op": "results", "case": {}, "seed": 1, "folder": "/tmp", "limit": 1}


@pytest.mark.parametrize(
    ("source", "message", "words"),
    [
        (WITHOUT_CALL, PROFILE, "has no function make_call(case, seed)"),
        (GOOD.replace("return {}", "return 1.0"), PROFILE, "the adaptor's versions returned float, not a dict"),
        (GOOD.replace("lambda: None", "None"), PROFILE, "the adaptor's make_call returned NoneType, not a function"),
        (GOOD, PROFILE, "has no function profile(call, calls)"),
        (GOOD, RESULTS, "has no function results(case, seed, folder, limit)"),
        (GOOD + NOT_JSON, PROFILE, "the answer to profile is no JSON: Object of type set is not JSON serializable"),
    ],
)
def test_what_an_adaptor_does_wrong_is_one_line(
    tmp_path: Path, source: str, message: dict[str, Any], words: str
) -> None:
    path = tmp_path / "adaptor.py"
    path.write_text(source)

    def ask() -> None:
        with Worker("treatment", toy_build("treatment"), path, worker_environment(), CPUS) as worker:
            worker.wait_ready()
            case = begin(worker)
            if message is not RESULTS:
                ask_to_prepare(case, "work")
            case.ask(dict(message), 20)

    with pytest.raises((WorkerLostError, CaseRefusedError)) as caught:
        ask()
    reason = caught.value.failure.reason
    assert words in reason
    assert "\n" not in reason


def test_asking_a_dead_worker_says_how_it_died(worker: Worker) -> None:
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerLostError) as caught:
        prepare(worker, "work")
    assert caught.value.failure.kind == "killed"


def test_close_ends_the_process_and_can_be_repeated() -> None:
    worker = start()
    worker.close()
    worker.close()
    assert not psutil.pid_exists(worker.pid)


def test_worker_dies_with_its_controller(wait_until: Callable[[Callable[[], bool]], bool]) -> None:
    reading, writing = os.pipe()
    controller = os.fork()
    if not controller:
        try:
            worker = start()
            worker.wait_ready()
            os.write(writing, str(worker.pid).encode())
            prepare(worker, "hang", 1000)
        finally:  # only if it fails: it is killed
            os._exit(1)
    os.close(writing)
    with open(reading, "rb", buffering=0) as pipe:
        pid = int(pipe.read(20))
    assert psutil.pid_exists(pid)
    os.kill(controller, signal.SIGKILL)
    os.waitpid(controller, 0)
    assert wait_until(lambda: not psutil.pid_exists(pid))


def test_environment_of_both_sides_starts_from_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    environment = worker_environment()
    assert "PYTHONPATH" not in environment
    assert "OMP_NUM_THREADS" not in environment
    assert environment["PYTHONHASHSEED"] == "0"


def test_the_cpu_time_of_a_case_that_is_closed_with_its_worker_stays_ours(worker: Worker) -> None:
    """Nobody waits for it, so that the kernel adds it to nobody's."""
    case = prepare(worker, "work")
    child = psutil.Process(case.pid)
    while (spent := child.cpu_times().user) < 0.3:
        block(case, 0, 50, 1)
    before = own_cpu_seconds()
    worker.close()
    child.wait(60)
    assert own_cpu_seconds() > before - spent / 2
