"""Which changes are explained, in which order, and what becomes of the rest."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_run import request as toy_request
from toy_bench import toy_bench, toy_case

from opduel.comparator import cause_of
from opduel.comparator.cause_resources import OF_MEMORY
from opduel.harness import annotators
from opduel.harness.budget import kept_for_profiling
from opduel.harness.explain import causes, operators
from opduel.harness.explain.allocations import ALLOCATIONS, Kind
from opduel.harness.explain.causes import (
    KEPT,
    MOST,
    PROFILES,
    TOO_MANY,
    Explaining,
    add_causes,
    as_profiles,
    to_explain,
)
from opduel.harness.explain.process_pairs import Answers
from opduel.harness.explain.valgrind_pairs import Observed
from opduel.harness.profiles import Profiling
from opduel.harness.schedule import MeasurementResult
from opduel.records import Case, Comparison, Examination, Part, Verification
from opduel.records.cause import Observation
from opduel.records.measurement import SIDES


def compared(case: Case, ratio: float = 1.5, **changes: Any) -> Comparison:
    verdict = "regressed" if ratio > 1 else "improved"
    return replace(
        Comparison.without_figures(case, verdict), ratio=ratio, control=100.0, treatment=100 * ratio, **changes
    )


def confirmed(case: Case, ratio: float = 1.5) -> Comparison:
    one = compared(case, ratio)
    return replace(one, verification=Verification(one.verdict, one.verdict))


A, B, C = (toy_case(name) for name in "abc")


def test_the_largest_changes_come_first_and_only_those_asked_for() -> None:
    settled = Comparison.without_figures(toy_case("same"), "unchanged")
    found = [
        compared(A, 1.1),
        confirmed(B, 0.5),
        confirmed(C, 1.6),
        settled,
        compared(toy_case("d"), 3.0, injected=True),
    ]
    assert [one.case for one in to_explain(found, "all", False)] == [B.id, C.id, A.id]
    assert [one.case for one in to_explain(found, "confirmed", False)] == [B.id, C.id]
    assert [one.case for one in to_explain(found, "confirmed", True)] == [B.id, C.id, A.id]
    assert to_explain(found, "none", True) == []


def test_what_a_second_measurement_did_not_confirm_is_not_explained() -> None:
    again = Verification("regressed", "inconclusive")
    assert to_explain([compared(A, verification=again)], "confirmed", False) == []


def test_a_time_budget_keeps_time_for_some_causes() -> None:
    counted = replace(A, metric="memory")
    assert as_profiles([A, counted], "none", True) == 0
    assert as_profiles([A, counted], "all", False) == PROFILES
    assert as_profiles([A] * 100, "confirmed", True) == KEPT * PROFILES
    assert as_profiles([A] * 100, "confirmed", False) == 0  # there will be nothing to explain
    assert kept_for_profiling(1e6, KEPT * PROFILES) == 100


def explaining(which: str = "all", replicates: bool = False) -> Explaining:
    from test_run import Toy

    return Explaining(Profiling(toy_bench(), Toy(), 1, 1), which, replicates, {})


def examined(by: dict[str, list[Examination]], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is looked at, by case, in place of the sources; the calls that this gets."""
    asked: list[list[str]] = []

    def look(cases: Sequence[Case], *_: Any) -> tuple[dict[str, list[Examination]], dict[str, dict[str, str]]]:
        asked.append([case.id for case in cases])
        return {case.id: by.get(case.id, []) for case in cases}, {case.id: {} for case in cases}

    monkeypatch.setattr(causes, "_look", look)
    return asked


def test_a_cause_is_kept_and_its_sentence_is_in_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    examined({}, monkeypatch)
    noted = replace(compared(A), note="slower")
    first, second = add_causes(
        [Comparison.without_figures(B, "unchanged"), noted], [A, B], MeasurementResult(), explaining()
    )
    assert (first.cause, first.note) == (None, "")
    assert second.cause is not None
    assert second.cause.sentence.startswith("not explained")
    assert second.note == f"slower; cause: {second.cause.sentence}"


def test_more_changes_than_are_looked_at_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [toy_case(f"case{number}") for number in range(MOST + 2)]
    asked = examined({}, monkeypatch)
    found = add_causes(
        [compared(case, 2 + number) for number, case in enumerate(cases)], cases, MeasurementResult(), explaining()
    )
    assert asked == [[case.id for case in reversed(cases[2:])]]
    assert [one.note for one in found[:2]] == [TOO_MANY] * 2
    assert all(one.cause is not None for one in found[2:])


def test_an_aborted_run_is_not_explained_and_a_signal_costs_the_causes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = examined({}, monkeypatch)
    aborted = MeasurementResult(aborted=True)
    assert add_causes([compared(A)], [A], aborted, explaining()) == [compared(A)]
    assert asked == []

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(causes, "_look", interrupted)
    findings = MeasurementResult()
    assert add_causes([compared(A)], [A], findings, explaining()) == [compared(A)]
    assert (findings.aborted, findings.interrupted) == (True, True)


def test_a_fault_costs_a_case_its_cause_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    examined({}, monkeypatch)

    def faulty(one: Comparison, seen: Any, *_: Any) -> Any:
        if one.case == A.id:
            raise IndexError("list index\nout of range")
        return cause_of(one, seen)

    monkeypatch.setattr(causes, "cause_of", faulty)
    first, second = add_causes([compared(A), compared(B)], [A, B], MeasurementResult(), explaining())
    assert (first.verdict, first.cause) == (compared(A).verdict, None)
    assert first.note == "its cause was not found: IndexError: list index out of range"
    assert second.cause is not None


def test_a_fault_while_looking_costs_the_causes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: Any) -> Any:
        raise ValueError("nonsense")

    monkeypatch.setattr(causes, "_look", look)
    findings = MeasurementResult()
    (found,) = add_causes([compared(A)], [A], findings, explaining())
    assert found == replace(compared(A), note="its cause was not found: ValueError: nonsense")
    assert not findings.aborted


def answers(seconds: float) -> Answers:
    """Five process pairs in which the treatment's ``check`` takes so many ns more, and calls it twice as often."""

    def functions(check: float, calls: int) -> list[dict[str, Any]]:
        common = {"called_at": "a.py:3", "where": "a.py:1", "doubt": 0.0, "inclusive_doubt": 0.0, "code": ""}
        return [
            {"name": "f", "ns": 50.0, "calls": 1, "callers": {}, "inclusive": 50.0 + check, **common},
            {"name": "check", "ns": check, "calls": calls, "callers": {"f": 1.0}, "inclusive": check, **common},
        ]

    pairs = [
        {
            "control": {"functions": functions(50.0 + spread, 1), "stacks": [], "ns": 100.0},
            "treatment": {"functions": functions(50.0 + seconds, 2), "stacks": [], "ns": 100.0 + seconds},
        }
        for spread in (0.0, 0.1, -0.1, 0.05, -0.05)
    ]

    def loaded(version: str) -> dict[str, Any]:
        return {"libraries": [{"name": "numpy", "version": version}]}

    around = [{"control": loaded("1.26.4"), "treatment": loaded("2.2.6")}]
    refused = {"resources": "refused", "samples": "none here"}
    return Answers(of={"functions": pairs, "libraries": around}, problems=refused)


def test_callgrinds_files_are_kept_in_the_folder_of_the_profiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Path | None] = []

    def observe(*_: Any, folder: Path | None, **__: Any) -> dict[str, Observed]:
        given.append(folder)
        return {A.id: Observed()}

    monkeypatch.setattr(causes, "ask_in_pairs", lambda *_: {A.id: answers(50.0)})
    monkeypatch.setattr(causes, "observe_native", observe)
    monkeypatch.setattr(operators, "has_profiler", lambda _: False)
    for folder in (None, tmp_path):
        add_causes([compared(A)], [A], MeasurementResult(), replace(explaining(), folder=folder))
    assert given == [None, tmp_path]


def test_callgrinds_files_are_kept_with_the_profiles_or_where_the_run_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Path | None] = []

    def note(comparisons: Sequence[Comparison], *others: Any) -> Sequence[Comparison]:
        given.append(others[-1].folder)
        assert others[-1].among == request.cases
        return comparisons

    monkeypatch.setattr(annotators, "add_causes", note)
    measurement: Any = SimpleNamespace(ends=math.inf, findings=None)
    request = toy_request(A)
    for variant in (
        request,
        replace(request, callgrind=tmp_path / "run"),
        replace(request.configured(profile_output=str(tmp_path / "profiles")), callgrind=tmp_path / "run"),
    ):
        run: Any = SimpleNamespace(request=variant, measured_request=variant, bench=toy_bench())
        annotators.annotate_causes([], run, measurement)
    assert given == [None, tmp_path / "run", tmp_path / "profiles"]


def test_kernels_have_an_examination_of_their_own_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "ask_in_pairs", lambda *_: {A.id: answers(50.0)})
    monkeypatch.setattr(causes, "observe_native", lambda *_, **__: {A.id: Observed([], "no valgrind")})
    call = {
        "operators": {"aten::add": [10], "cudaLaunchKernel": [7], "add_kernel": [30, 40]},
        "kernels": ["add_kernel"],
    }
    pairs = [{side: {"calls": [call, call]} for side in SIDES}] * 3
    monkeypatch.setattr(operators, "ask_for_operators", lambda *_: {A.id: Answers({"profile": pairs})})
    (one,) = add_causes([compared(A)], [A], MeasurementResult(), explaining())
    assert one.cause is not None
    kernels, rest = (seen for seen in one.cause.examinations if seen.source in ("kernels", "operators"))
    assert (kernels.source, kernels.control, kernels.treatment) == ("kernels", 70.0, 70.0)
    assert (rest.source, rest.control, rest.note) == ("operators", 17.0, operators.NOTE)


def test_each_source_has_an_examination_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Observation] = [{"control": {"work": Part(100.0)}, "treatment": {"work": Part(150.0)}}] * 3
    monkeypatch.setattr(causes, "ask_in_pairs", lambda *_: {A.id: answers(50.0)})
    monkeypatch.setattr(causes, "observe_native", lambda *_, **__: {A.id: Observed(seen, "no symbols")})
    profiled = [{"operators": {"toy_work": [10]}}]
    pairs = [{side: {"calls": profiled} for side in SIDES}] * 3
    monkeypatch.setattr(operators, "ask_for_operators", lambda *_: {A.id: Answers({"profile": pairs})})
    (one,) = add_causes([compared(A)], [A], MeasurementResult(), explaining())
    assert one.cause is not None
    by_source = {seen.source: seen for seen in one.cause.examinations}
    python, native, resources, libraries, profiler = (
        by_source[name] for name in ("Python functions", "native functions", "resources", "libraries", "operators")
    )
    assert len(by_source) == len(one.cause.examinations) == 6  # the toy framework's libraries log nothing
    assert by_source["sampled functions"].note == "none here"
    assert (profiler.pairs, profiler.control, profiler.note) == (3, 10.0, operators.NOTE)
    assert [(lead.name, lead.calls) for lead in python.candidates] == [("check", (1.0, 2.0))]
    assert python.explained == pytest.approx(1.0)
    assert (native.unit, native.note, native.explained) == ("instructions", "no symbols", 1.0)
    assert (libraries.source, libraries.note) == ("libraries", "numpy 1.26.4 -> 2.2.6")
    assert (resources.candidates, resources.note) == ((), "refused")
    assert "check (a.py:3), 2 calls per call where it was 1" in one.cause.sentence
    assert math.isclose(python.control or 0, 100.0)


def test_memory_is_looked_at_where_instructions_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those cases alone, by number and by bytes, and of memory that is mapped by bytes."""
    same: list[Observation] = [{side: {"work": Part(100.0)} for side in SIDES}] * 3
    more: list[Observation] = [{"control": {"work": Part(100.0)}, "treatment": {"work": Part(150.0)}}] * 3
    block: list[Observation] = [{"control": {}, "treatment": {"grow": Part(1.0)}}] * 3
    size: list[Observation] = [{"control": {}, "treatment": {"grow": Part(2.0**20, 1.0)}}] * 3
    asked: list[tuple[list[str], str]] = []

    def allocations(_: Any, __: Any, cases: Sequence[Case], ___: int, kind: Kind, **____: Any) -> Any:
        asked.append(([case.id for case in cases], kind))
        seen = (Observed(block), Observed(size)) if kind == ALLOCATIONS else (Observed(note="none"),) * 2
        return {case.id: seen for case in cases}

    monkeypatch.setattr(causes, "ask_in_pairs", lambda *_: {one.id: Answers(failures=["not asked"]) for one in (A, B)})

    def native(_: Any, __: Any, cases: Sequence[Case], *___: Any, misses: bool = False, **____: Any) -> Any:
        asked.append(([case.id for case in cases], "misses" if misses else "instructions"))
        if misses:
            return {case.id: Observed(more, "a model") for case in cases}
        return {A.id: Observed(same), B.id: Observed(more)}

    monkeypatch.setattr(causes, "observe_native", native)
    monkeypatch.setattr(causes, "observe_allocations", allocations)
    monkeypatch.setattr(operators, "has_profiler", lambda _: False)
    first, second = add_causes([compared(A), compared(B)], [A, B], MeasurementResult(), explaining())
    looked = [([A.id, B.id], "instructions"), ([A.id], "misses"), ([A.id], "mapped memory"), ([A.id], "allocations")]
    assert asked == looked
    assert first.cause is not None
    assert second.cause is not None
    found = [(one.source, one.unit, one.note) for one in first.cause.examinations if one.source in OF_MEMORY]
    assert found == [
        ("simulated cache misses", "count", "a model"),
        ("mapped memory", "bytes", "none"),
        ("allocations", "count", ""),
        ("allocations", "bytes", ""),
    ]
    assert not {one.source for one in second.cause.examinations} & set(OF_MEMORY)
    assert first.cause.sentence.endswith(
        "; 1 allocation of 1 MiB per call, new, by grow; simulated cache misses: 50 more per call, in work"
    )
