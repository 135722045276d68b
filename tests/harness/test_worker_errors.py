"""How a lost worker or case is described: by its exit, its output tail, and what both sides came to."""

import signal
from pathlib import Path

import pytest

from opduel.harness.processes.worker_errors import (
    CaseLostError,
    CaseRefusedError,
    WorkerLostError,
    cause_of_death,
    merged_error,
    merged_failure,
    refusal,
)
from opduel.harness.run_recording import is_skip
from opduel.records import Failure
from opduel.records.measurement import Side


def failure(side: Side, kind: str = "crash", reason: str = "killed by SIGABRT") -> Failure:
    return Failure(side, kind, reason)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("MXNetError: Failed to allocate CPU Memory", "out-of-memory"),
        ("MemoryError: Unable to allocate 229. MiB for an array", "out-of-memory"),
        ("MXNetError: cudaMalloc retry failed: out of memory", "out-of-memory"),
        ("ValueError: shared memory is not there", "error"),
    ],
)
def test_want_of_memory_is_reported_as_such(reason: str, kind: str) -> None:
    assert refusal("treatment", "error", reason, "").kind == kind
    assert refusal("treatment", "missing", reason, "").kind == "missing"


def test_two_errors_are_the_worse_one_with_the_timeout_that_may_be_the_runs_own() -> None:
    crash, slow = failure("control"), failure("treatment", "timeout", "no answer within 1 s (block)")
    both = merged_error({"treatment": CaseLostError(slow), "control": WorkerLostError(crash)})
    assert isinstance(both, WorkerLostError)
    reason = "control: killed by SIGABRT; treatment: no answer within 1 s (block)"
    assert both.failure == Failure("both", "timeout", reason)
    refused = merged_error(
        {"treatment": CaseRefusedError(failure("treatment", "error")), "control": CaseLostError(crash)}
    )
    assert isinstance(refused, CaseLostError)
    assert refused.failure == Failure("both", "crash", "killed by SIGABRT")


def test_what_came_from_outside_once_is_not_the_builds_doing() -> None:
    outside, crash = failure("treatment", "killed", "killed by SIGKILL"), failure("treatment")
    assert merged_failure([outside, crash]) == merged_failure([crash, outside]) == outside
    assert merged_failure([crash, crash]) == crash


@pytest.mark.parametrize(
    ("code", "words", "kind", "reason"),
    [
        (-signal.SIGSEGV, "", "crash", "killed by SIGSEGV"),
        (-99, "", "crash", "killed by signal 99"),
        (
            -signal.SIGABRT,
            "std::bad_alloc",
            "out-of-memory",
            "ran out of memory and aborted, after printing 'bad_alloc'",
        ),
        (255, "Segmentation fault: 11\nStack", "crash", "exited with code 255, having printed 'Segmentation fault'"),
        (1, "a\nValueError: b", "crash", "exited with code 1: ValueError: b"),
        (3, "", "crash", "exited with code 3"),
    ],
)
def test_an_exit_is_explained_by_its_code_and_output(code: int, words: str, kind: str, reason: str) -> None:
    assert cause_of_death("control", code, words, 0) == Failure("control", kind, reason, words)


@pytest.mark.parametrize(
    ("before", "now", "kind"), [(3, 4, "out-of-memory"), (3, 3, "killed"), (None, 4, "killed"), (3, None, "killed")]
)
def test_a_sigkill_is_the_kernels_if_it_counts_one_more(
    before: int | None, now: int | None, kind: str, tmp_path: Path
) -> None:
    """Where the kernel tells nothing it is not assumed to be."""
    if now is not None:
        (tmp_path / "vmstat").write_text(f"nr_free_pages 7\noom_kill {now}\n")
    assert cause_of_death("treatment", -signal.SIGKILL, "", before, tmp_path).kind == kind


def test_a_skip_is_one_only_where_both_sides_skip() -> None:
    skip = Failure("control", "skipped", "no such feature")
    other = Failure("treatment", "skipped", "no such feature")
    error = Failure("treatment", "error", "as it was made to")
    both = merged_error({"control": CaseRefusedError(skip), "treatment": CaseRefusedError(other)}).failure
    assert (both.side, both.kind, both.reason) == ("both", "skipped", "no such feature")
    assert is_skip(both)
    mixed = merged_error({"control": CaseRefusedError(skip), "treatment": CaseRefusedError(error)}).failure
    assert (mixed.side, mixed.kind) == ("both", "error")
    assert not is_skip(mixed)
    assert not is_skip(skip)
