"""The id of a case on a kind of host: unique, readable, and as the case itself in all that is drawn from it."""

from dataclasses import replace

import pytest

from opduel.records import Case, case_id_for, split_kind, without_kind


def a_case(case_id: str, metric: str = "time") -> Case:
    return Case(case_id, "add", "forward", {}, "float32", "cpu", 0.02, 60.0, metric)


@pytest.mark.parametrize(
    ("case_id", "metric", "kind", "row"),
    [
        ("add/forward", "time", "avx2", "add/forward@avx2"),
        ("add/forward/memory", "memory", "avx2", "add/forward@avx2/memory"),
        ("a@b/forward/memory", "memory", "b", "a@b/forward@b/memory"),
        ("printed", "value", "xeon-2.90ghz+avx512_vnni", "printed@xeon-2.90ghz+avx512_vnni"),
    ],
)
def test_the_id_says_the_kind_and_inputs_are_the_same_on_all(case_id: str, metric: str, kind: str, row: str) -> None:
    case = a_case(case_id, metric)
    on_kind = case.of_kind(kind)
    assert (on_kind.id, on_kind.kind) == (row, kind)
    assert on_kind.time_id == case.time_id
    assert without_kind(row, kind) == case_id
    assert split_kind(row) == (kind, case_id)
    assert on_kind.of_kind("other").id == case.of_kind("other").id


def test_metrics_of_a_case_on_a_kind_belong_together() -> None:
    timed, counted = a_case("add/forward"), a_case("add/forward/instructions", "instructions")
    assert case_id_for("instructions", timed.of_kind("avx2").id) == counted.of_kind("avx2").id


def test_logs_know_a_case_by_what_is_measured_and_not_by_labels() -> None:
    case = a_case("add/forward")
    assert replace(case, category="core", unit="ms").measured_by() == case.measured_by()
    assert case.of_kind("avx2").measured_by() != case.measured_by()
    assert replace(case, dtype="float64").measured_by() != case.measured_by()


def test_an_id_without_a_kind_has_none() -> None:
    assert without_kind("add/forward", None) == "add/forward"
    assert split_kind("add/forward") == (None, "add/forward")
