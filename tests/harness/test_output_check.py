"""The metric error: two builds' numbers compared, and what may go wrong with that."""

import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from test_run import request
from toy_bench import toy_bench, toy_case
from watching import Watch

import opduel.harness.numerics.outputs
from opduel.harness.numerics.output_check import OutputCheck
from opduel.harness.numerics.outputs import Array, difference
from opduel.harness.processes.process import Worker
from opduel.harness.run import run_ab
from opduel.records import Case, Comparison, Tolerance


def numbers(name: str, operator: str = "work", **inputs: Any) -> Case:
    return replace(toy_case(f"{name}/error", operator, **inputs), metric="error", threshold=0.0, timeout_s=5.0)


@pytest.fixture
def folder(temporary: Path) -> Iterator[Path]:
    """Where temporary files go; none is left."""
    yield temporary
    assert os.listdir(temporary) == []


def compared(*cases: Case, **options: Any) -> dict[str, Comparison]:
    output_check = OutputCheck(toy_bench(), 1, lambda case: True, **options)
    return {case.case.removesuffix("/error"): case for case in output_check.compare(cases)}


def test_what_differs_twice_is_regressed_and_nothing_else_is(folder: Path, tmp_path_factory: Any) -> None:
    marker = tmp_path_factory.mktemp("left") / "once"
    comparison_by_case = compared(
        numbers("same"),
        numbers("worse", numbers=[1, 2, 3, 4], off=[0, 0, 1, 2]),
        numbers("rounding", off=[0, 1e-9, 0]),
        numbers("allowed", numbers=[100], off=[1]),
        replace(numbers("tolerant", numbers=[100], off=[1]), tolerance=Tolerance(absolute=2.0)),
        numbers("random", random=True),
        numbers("once", off=[1, 0, 0], once=str(marker)),
        numbers("nan", numbers=["nan", 1], off=[0, 0]),
        numbers("becomes nan", numbers=[1], off=["nan"]),
        numbers("shape", shape=[3, 1]),
        numbers("more", more=True),
    )
    verdicts = {name: comparison.verdict for name, comparison in comparison_by_case.items()}
    assert verdicts == {
        "same": "unchanged",
        "worse": "regressed",
        "rounding": "unchanged",
        "allowed": "regressed",
        "tolerant": "unchanged",
        "random": "inconclusive",
        "once": "inconclusive",
        "nan": "unchanged",
        "becomes nan": "regressed",
        "shape": "regressed",
        "more": "regressed",
    }
    worse = comparison_by_case["worse"]
    assert worse.note.startswith("output: at (2,) 3.0 against 4.0; 2 of 4 differ by more than")
    assert worse.control == 0
    assert worse.treatment is not None
    assert worse.treatment > 1e4
    assert (worse.rounds, comparison_by_case["same"].rounds) == (2, 1)
    assert "the control differs from itself" in comparison_by_case["random"].note
    assert comparison_by_case["once"].note.endswith("agreed when computed again")
    assert comparison_by_case["becomes nan"].treatment == math.inf
    assert comparison_by_case["shape"].note == "output: shape (3,) against (3, 1)"
    assert comparison_by_case["more"].note == "gradient exists only on the treatment"


def test_failures_are_values(folder: Path) -> None:
    comparison_by_case = compared(
        numbers("refused", "refuse", only_on="treatment"),
        numbers("missing", "missing"),
        numbers("dies", "abort", only_on="treatment"),
        replace(numbers("hangs", "hang", only_on="control"), timeout_s=0.5),
        numbers("same"),
    )
    outcomes = {
        name: (comparison.verdict, comparison.failure and (comparison.failure.side, comparison.failure.kind))
        for name, comparison in comparison_by_case.items()
    }
    assert outcomes == {
        "refused": ("failed", ("treatment", "error")),
        "missing": ("failed", ("both", "missing")),
        "dies": ("failed", ("treatment", "crash")),
        "hangs": ("failed", ("control", "timeout")),
        "same": ("unchanged", None),
    }


def test_of_large_arrays_the_beginning_is_compared_and_that_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opduel.harness.numerics.outputs, "MOST_BYTES", 16)
    same = compared(numbers("a", off=[0, 0, 1]))["a"]
    assert (same.verdict, same.note) == ("unchanged", "of output only the first 2 elements were compared")


def test_when_the_time_is_up_the_rest_is_open(folder: Path) -> None:
    late = compared(numbers("a", off=[1, 0, 0]), deadline=time.monotonic())
    assert (late["a"].verdict, late["a"].note) == ("inconclusive", "not compared: the time budget was spent")
    assert late["a"].is_unreached, "so that the run does not end with 0"


def test_no_worker_is_started_after_the_deadline(folder: Path, watch: Watch) -> None:
    """Of three workers that a case needs, the first takes all the time."""
    started: list[str] = []

    def wait(worker: Worker) -> None:
        started.append(worker.side)
        time.sleep(max(0.0, deadline - time.monotonic()))

    watch.started.append(wait)
    deadline = time.monotonic() + 0.5
    late = compared(numbers("a"), numbers("b"), deadline=deadline)
    assert len(started) == 1
    assert {comparison.note for comparison in late.values()} == {"not compared: the time budget was spent"}


def test_a_signal_costs_nothing_that_was_compared_and_claims_nothing_that_was_not_confirmed(folder: Path) -> None:
    def stop(cases_left: int) -> None:
        if cases_left == 1:
            raise KeyboardInterrupt("stopped by SIGTERM")

    comparison_by_case = compared(numbers("a"), numbers("b", off=[1, 0, 0]), numbers("c"), on_case=stop)
    assert {name: comparison.verdict for name, comparison in comparison_by_case.items()} == {
        "a": "unchanged",
        "b": "inconclusive",
        "c": "inconclusive",
    }
    assert comparison_by_case["b"].note.endswith("not compared again: stopped by SIGTERM")
    assert comparison_by_case["c"].note == "not compared: stopped by SIGTERM"


def test_a_run_has_both_and_each_keeps_its_place() -> None:
    timed = replace(toy_case("b"), threshold=0.9)
    report = run_ab(request(numbers("a", off=[1, 0, 0]), timed, numbers("b")))
    assert [(comparison.case, comparison.metric) for comparison in report.comparisons] == [
        ("a/error", "error"),
        ("b", "time"),
        ("b/error", "error"),
    ]
    assert [report.comparisons[number].verdict for number in (0, 2)] == ["regressed", "unchanged"]
    assert report.run.complete
    assert report.run.rounds == report.comparisons[1].rounds


def test_a_run_may_compare_numbers_alone() -> None:
    report = run_ab(request(numbers("a")))
    assert [comparison.verdict for comparison in report.comparisons] == ["unchanged"]
    assert (report.run.complete, report.run.rounds, report.run.validity.valid) == (True, 0, True)


def test_values_are_compared_by_the_precision_that_the_adaptor_states(tmp_path: Path) -> None:
    arrays = []
    for number, value in enumerate((2.0**20, 2.0**20 * (1 + 2**-7))):
        numpy.array([value], "<f4").tofile(tmp_path / str(number))
        arrays.append(Array("output", "<f4", (1,), "default", 1, str(tmp_path / str(number))))
    rounded = [replace(array, precision="bfloat16") for array in arrays]
    for first, right, words in ((*rounded, ""), (*arrays, "output: at (0,)"), (rounded[0], arrays[0], "output: prec")):
        difference_words = difference([first], [right], Tolerance(), ("control", "treatment")).words
        assert difference_words[: len(words) or None] == words
