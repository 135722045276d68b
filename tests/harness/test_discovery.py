"""Cases of what programs print: ids, units and directions of both sides' values, and those of one side alone."""

from dataclasses import replace
from typing import Any

import pytest

from opduel.harness.other_runs.discovery import all_cases, cases_of
from opduel.harness.specs import expand_cases, validate
from opduel.records import Case, Failure, UsageError

(CASE,) = expand_cases(
    validate({"framework": "generic", "tests": [{"command": ["{program}"], "parse": "json_lines", "identifier": "it"}]})
)
CRASH = Failure("control", "crash", "killed by SIGSEGV")


def printed(name: str, unit: str = "ns", lower: bool = True) -> dict[str, Any]:
    return {"name": name, "value": 1.0, "unit": unit, "lower_is_better": lower}


def cases_from(control: Any, treatment: Any) -> tuple[list[Case], list[str]]:
    messages: list[str] = []
    return cases_of(CASE, {"control": control, "treatment": treatment}, messages.append), messages


def test_every_value_is_a_case_with_its_unit_and_direction() -> None:
    both = [printed("BM_a/64"), printed("rate", "MB/s", False)]
    cases, messages = cases_from(both, both)
    assert [(case.id, case.unit, case.lower_is_better, case.operator) for case in cases] == [
        ("it.BM_a_64/value", "ns", True, "it"),
        ("it.rate/value", "MB/s", False, "it"),
    ]
    assert cases[0].inputs == {**CASE.inputs, "value": "BM_a/64", "unit": "ns"}
    assert cases[1].measure.lower_is_better is False
    assert messages == []


def test_what_one_side_prints_alone_is_a_case_and_reported() -> None:
    cases, messages = cases_from([printed("a"), printed("b")], [printed("c"), printed("a")])
    assert [case.inputs["value"] for case in cases] == ["a", "b", "c"]
    assert messages == ["it: the control does not print c", "it: the treatment does not print b"]


def test_where_one_side_fails_the_other_says_what_there_is() -> None:
    cases, messages = cases_from(CRASH, [printed("a")])
    assert [case.id for case in cases] == ["it.a/value"]
    assert messages == []
    assert cases_from(CRASH, CRASH)[0] == [CASE]  # which fails when it is measured


def test_commands_with_values_of_one_id_are_refused() -> None:
    """The samples of both would be one case's."""
    other = replace(CASE, id="it.a/value", operator="it.a")
    first, _ = cases_from([printed("a.b")], [])
    second = cases_of(other, {"control": [printed("b")], "treatment": []})
    with pytest.raises(UsageError) as refused:
        all_cases([(CASE, first), (other, second)])
    assert str(refused.value) == (
        "the commands 'it' and 'it.a' of the spec both have a case it.a.b/value: "
        'give one of them another "identifier"'
    )
    assert all_cases([(CASE, first), (other, [other])]) == [*first, other]


def test_ids_do_not_depend_on_the_order_of_values() -> None:
    names = ["a_b", "a b", "a/b", "c/d", "/", "\u540d\u524d", "x" * 300, "x" * 299]

    def ids_of(names: list[str]) -> dict[str, str]:
        cases, _ = cases_from([printed(name) for name in names], [])
        return {case.inputs["value"]: case.id.partition("/")[0] for case in cases}

    ids = ids_of(names)
    assert ids == ids_of(names[::-1])
    assert len(set(ids.values())) == len(names)
    assert (ids["a_b"], ids["c/d"], ids["/"], ids["\u540d\u524d"]) == (
        "it.a_b",
        "it.c_d",
        "it.value",
        "it.\u540d\u524d",
    )
    assert ids["a/b"].startswith("it.a_b-")
    assert max(map(len, ids.values())) == len("it.") + 150
