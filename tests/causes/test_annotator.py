"""Which changes get a cause, in which order, what is collected for them, and what becomes of the rest."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_run import request as toy_request
from toy_bench import toy_bench, toy_case

from opduel.causes import evidence, find_causes
from opduel.causes.annotator import MOST_EXPLAINED, TOO_MANY, changes_to_explain
from opduel.causes.collectors import operators
from opduel.causes.collectors.allocations import ALLOCATIONS, Kind
from opduel.causes.collectors.process_pairs import Answers
from opduel.causes.collectors.valgrind_pairs import Observed
from opduel.causes.evidence import Evidence, callgrind_folder, collect_evidence
from opduel.causes.wording.resources import OF_MEMORY
from opduel.harness.measurement_plan import FirstMeasurement, MeasurementResult
from opduel.harness.profiles import Profiling
from opduel.harness.run_request import RunRequest
from opduel.records import Case, Cause, Comparison, Examination, Part, Verification
from opduel.records.cause import Observation
from opduel.records.measurement import SIDES


def compared(case: Case, ratio: float = 1.5, **changes: Any) -> Comparison:
    verdict = "regressed" if ratio > 1 else "improved"
    return replace(
        Comparison.without_figures(case, verdict), ratio=ratio, control=100.0, treatment=100 * ratio, **changes
    )


def confirmed(case: Case, ratio: float = 1.5) -> Comparison:
    comparison = compared(case, ratio)
    return replace(comparison, verification=Verification(comparison.verdict, comparison.verdict))


A, B, C = (toy_case(name) for name in "abc")


def make_request(*cases: Case, explain: str = "all", replicates: bool = False) -> RunRequest:
    request = toy_request(*cases).configured(explain=explain)
    return replace(request, first_measurement=FirstMeasurement({}, {}, frozenset(), (), 0)) if replicates else request


def test_the_largest_changes_come_first_and_only_those_asked_for() -> None:
    comparisons = [
        compared(A, 1.1),
        confirmed(B, 0.5),
        confirmed(C, 1.6),
        Comparison.without_figures(toy_case("same"), "unchanged"),
        compared(toy_case("d"), 3.0, injected=True),
    ]

    def explained(**options: Any) -> list[str]:
        return [comparison.case for comparison in changes_to_explain(comparisons, make_request(**options))]

    assert explained() == [B.id, C.id, A.id]
    assert explained(explain="confirmed") == [B.id, C.id]
    assert explained(explain="confirmed", replicates=True) == [B.id, C.id, A.id]
    assert explained(explain="none", replicates=True) == []


def test_what_a_second_measurement_did_not_confirm_is_not_explained() -> None:
    comparison = compared(A, verification=Verification("regressed", "inconclusive"))
    assert changes_to_explain([comparison], make_request(explain="confirmed")) == []


def no_evidence(changes: Mapping[str, Comparison], *_: object) -> dict[str, Evidence]:
    return {case_id: Evidence([], {}) for case_id in changes}


def explain(
    *comparisons: Comparison, findings: MeasurementResult | None = None, collect: Callable[..., Any] = no_evidence
) -> list[Comparison]:
    request = make_request(*(toy_case(comparison.case) for comparison in comparisons))
    return find_by(collect, comparisons, request, findings or MeasurementResult())


def find_by(
    collect: Callable[..., Any], comparisons: Sequence[Comparison], request: RunRequest, findings: MeasurementResult
) -> list[Comparison]:
    """``find_causes``, with ``collect`` in place of ``collect_evidence``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "collect_evidence", collect)
        return find_causes(comparisons, request, findings, Profiling(toy_bench(), request.framework, 1, 1))


def no_operators(*_: object) -> dict[str, Answers]:
    return {}


def test_a_cause_is_stored_and_its_sentence_is_in_the_note() -> None:
    unchanged, changed = explain(Comparison.without_figures(B, "unchanged"), replace(compared(A), note="slower"))
    assert (unchanged.cause, unchanged.note) == (None, "")
    assert changed.cause is not None
    assert changed.cause.sentence.startswith("not explained")
    assert changed.note == f"slower; cause: {changed.cause.sentence}"
    long_cause = Cause("not explained: time by function grew by 42 %, with nothing that accounts for it; time by ...")
    assert long_cause.words == "cause: not explained by anything that was looked at (opduel explain shows what was)"


def test_it_is_said_how_long_the_search_may_take(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    explain(compared(A), compared(B))
    assert "looking for the cause of 2 changed cases, in at most about 5 min" in caplog.text
    caplog.clear()
    explain(Comparison.without_figures(B, "unchanged"))
    assert caplog.text == ""


def test_changes_beyond_the_largest_say_so() -> None:
    cases = [toy_case(f"case{number}") for number in range(MOST_EXPLAINED + 2)]
    changed_ids: list[str] = []

    def collect(changes: Mapping[str, Comparison], *_: object) -> dict[str, Evidence]:
        changed_ids.extend(changes)
        return no_evidence(changes)

    explained = explain(*(compared(case, 2 + number) for number, case in enumerate(cases)), collect=collect)
    assert changed_ids == [case.id for case in reversed(cases[2:])]
    assert [comparison.note for comparison in explained[:2]] == [TOO_MANY] * 2
    assert all(comparison.cause is not None for comparison in explained[2:])


def test_an_aborted_run_is_not_explained_and_a_signal_costs_the_causes_alone() -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    assert explain(compared(A), findings=MeasurementResult(aborted=True), collect=interrupt) == [compared(A)]
    findings = MeasurementResult()
    assert explain(compared(A), findings=findings, collect=interrupt) == [compared(A)]
    assert (findings.aborted, findings.interrupted) == (True, True)


def test_a_fault_costs_a_case_its_cause_alone() -> None:
    class Faulty:
        @property
        def examinations(self) -> list[Examination]:
            raise IndexError("list index\nout of range")

    def collect(changes: Mapping[str, Comparison], *_: object) -> dict[str, Any]:
        return {**no_evidence(changes), A.id: Faulty()}

    first, second = explain(compared(A), compared(B), collect=collect)
    assert (first.verdict, first.cause) == (compared(A).verdict, None)
    assert first.note == "its cause was not found: IndexError: list index out of range"
    assert second.cause is not None


def test_a_fault_while_collecting_costs_the_causes_alone() -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("nonsense")

    findings = MeasurementResult()
    (comparison,) = explain(compared(A), findings=findings, collect=fail)
    assert comparison == replace(compared(A), note="its cause was not found: ValueError: nonsense")
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


def collecting(**collectors: Callable[..., Any]) -> Callable[..., dict[str, Evidence]]:
    """Collect what these say in place of the evidence's own, and of Python functions what ``answers`` does."""

    def collect(*arguments: Any) -> dict[str, Evidence]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operators, "ask_for_operators", collectors.pop("ask_for_operators"))
            for name, collector in {"ask_in_pairs": lambda *_: {A.id: answers(50.0)}, **collectors}.items():
                patch.setattr(evidence, name, collector)
            return collect_evidence(*arguments)

    return collect


def test_callgrinds_files_are_with_the_profiles_or_where_the_run_has_them(tmp_path: Path) -> None:
    request = make_request(A)
    for_the_run = replace(request, callgrind=tmp_path / "run")
    with_profiles = for_the_run.configured(profile_output=str(tmp_path / "profiles"))
    folders = [callgrind_folder(variant) for variant in (request, for_the_run, with_profiles)]
    assert folders == [None, tmp_path / "run", tmp_path / "profiles"]
    observed: list[tuple[Path | None, Sequence[Case]]] = []

    def observe(*_: Any, folder: Path | None, among: Sequence[Case], **__: Any) -> dict[str, Observed]:
        observed.append((folder, among))
        return {A.id: Observed()}

    collect = collecting(observe_native=observe, ask_for_operators=no_operators)
    find_by(collect, [compared(A)], for_the_run, MeasurementResult())
    assert observed == [(tmp_path / "run", request.cases)]


def test_kernels_have_an_examination_of_their_own_where_there_are_any() -> None:
    call = {
        "operators": {"aten::add": [10], "cudaLaunchKernel": [7], "add_kernel": [30, 40]},
        "kernels": ["add_kernel"],
    }
    pairs = [{side: {"calls": [call, call]} for side in SIDES}] * 3
    collect = collecting(
        observe_native=lambda *_, **__: {A.id: Observed([], "no valgrind")},
        ask_for_operators=lambda *_: {A.id: Answers({"profile": pairs})},
    )
    (comparison,) = explain(compared(A), collect=collect)
    assert comparison.cause is not None
    kernels, profiled_operators = (
        examination for examination in comparison.cause.examinations if examination.source in ("kernels", "operators")
    )
    assert (kernels.source, kernels.control, kernels.treatment) == ("kernels", 70.0, 70.0)
    assert (profiled_operators.source, profiled_operators.control, profiled_operators.note) == (
        "operators",
        17.0,
        operators.NOTE,
    )


def test_each_source_has_an_examination_or_says_why_not() -> None:
    observations: list[Observation] = [{"control": {"work": Part(100.0)}, "treatment": {"work": Part(150.0)}}] * 3
    profiled = [{"operators": {"toy_work": [10]}}]
    pairs = [{side: {"calls": profiled} for side in SIDES}] * 3
    collect = collecting(
        observe_native=lambda *_, **__: {A.id: Observed(observations, "no symbols")},
        ask_for_operators=lambda *_: {A.id: Answers({"profile": pairs})},
    )
    (comparison,) = explain(compared(A), collect=collect)
    assert comparison.cause is not None
    by_source = {examination.source: examination for examination in comparison.cause.examinations}
    python, native, resources, libraries, profiler = (
        by_source[name] for name in ("Python functions", "native functions", "resources", "libraries", "operators")
    )
    assert len(by_source) == len(comparison.cause.examinations) == 6  # the toy framework's libraries log nothing
    assert by_source["sampled functions"].note == "none here"
    assert (profiler.pairs, profiler.control, profiler.note) == (3, 10.0, operators.NOTE)
    assert [(lead.name, lead.calls) for lead in python.candidates] == [("check", (1.0, 2.0))]
    assert python.explained == pytest.approx(1.0)
    assert (native.unit, native.note, native.explained) == ("instructions", "no symbols", 1.0)
    assert (libraries.source, libraries.note) == ("libraries", "numpy 1.26.4 -> 2.2.6")
    assert (resources.candidates, resources.note) == ((), "refused")
    assert "check (a.py:3), 2 calls per call where it was 1" in comparison.cause.sentence
    assert math.isclose(python.control or 0, 100.0)


def test_memory_is_looked_at_where_instructions_are_the_same() -> None:
    """Of those cases alone, by number and by bytes, and of memory that is mapped by bytes."""
    same: list[Observation] = [{side: {"work": Part(100.0)} for side in SIDES}] * 3
    more: list[Observation] = [{"control": {"work": Part(100.0)}, "treatment": {"work": Part(150.0)}}] * 3
    block: list[Observation] = [{"control": {}, "treatment": {"grow": Part(1.0)}}] * 3
    size: list[Observation] = [{"control": {}, "treatment": {"grow": Part(2.0**20, 1.0)}}] * 3
    calls: list[tuple[list[str], str]] = []

    def allocations(_: Any, cases: Sequence[Case], kind: Kind, **__: Any) -> Any:
        calls.append(([case.id for case in cases], kind))
        case_observed = (Observed(block), Observed(size)) if kind == ALLOCATIONS else (Observed(note="none"),) * 2
        return {case.id: case_observed for case in cases}

    def native(_: Any, cases: Sequence[Case], misses: bool = False, **__: Any) -> Any:
        calls.append(([case.id for case in cases], "misses" if misses else "instructions"))
        if misses:
            return {case.id: Observed(more, "a model") for case in cases}
        return {A.id: Observed(same), B.id: Observed(more)}

    collect = collecting(
        ask_in_pairs=lambda *_: {case.id: Answers(failures=["not asked"]) for case in (A, B)},
        observe_native=native,
        observe_allocations=allocations,
        ask_for_operators=no_operators,
    )
    first, second = explain(compared(A), compared(B), collect=collect)
    looked = [([A.id, B.id], "instructions"), ([A.id], "misses"), ([A.id], "mapped memory"), ([A.id], "allocations")]
    assert calls == looked
    assert first.cause is not None
    assert second.cause is not None
    rows = [
        (examination.source, examination.unit, examination.note)
        for examination in first.cause.examinations
        if examination.source in OF_MEMORY
    ]
    assert rows == [
        ("simulated cache misses", "count", "a model"),
        ("mapped memory", "bytes", "none"),
        ("allocations", "count", ""),
        ("allocations", "bytes", ""),
    ]
    assert not {examination.source for examination in second.cause.examinations} & set(OF_MEMORY)
    assert first.cause.sentence.endswith(
        "; 1 allocation of 1 MiB per call, new, by grow; simulated cache misses: 50 more per call, in work"
    )
