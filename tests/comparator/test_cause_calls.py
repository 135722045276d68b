"""The calls among which a difference divides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.comparator.cause_calls import REST, by_call
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES

Tree = dict[str, tuple[float, float, str | None]]  # name -> own amount, calls, caller


def side_of(tree: Tree) -> dict[str, Part]:
    """Parts with inclusive amounts that follow from a tree."""

    def inclusive(name: str) -> float:
        return tree[name][0] + sum(inclusive(other) for other, (_, _, caller) in tree.items() if caller == name)

    return {
        name: Part(own, calls, f"{name}.py:1", {caller: 1.0} if caller else {}, f"{caller}.py:9", inclusive(name))
        for name, (own, calls, caller) in tree.items()
    }


def observed(control: Tree, treatment: Tree) -> list[Observation]:
    return [{"control": side_of(control), "treatment": side_of(treatment)}] * 3


BEFORE: Tree = {
    "case": (10, 1, None),
    "reshape": (100, 1, "case"),
    "check": (20, 1, "reshape"),
}


def differences(observations: list[Observation]) -> dict[str, float]:
    one = observations[0]
    names = one["control"].keys() | one["treatment"].keys()
    nothing = Part(0.0)
    found = {
        name: one["treatment"].get(name, nothing).amount - one["control"].get(name, nothing).amount for name in names
    }
    return {name: value for name, value in found.items() if abs(value) > 1e-9}


def test_a_new_call_has_all_that_it_calls_and_the_place_that_calls_it() -> None:
    after: Tree = {**BEFORE, "prod": (30, 2, "reshape"), "reduce": (70, 2, "prod"), "add": (200, 2, "reduce")}
    found = by_call(observed(BEFORE, after))
    assert differences(found) == {"prod": 300}
    assert found[0]["treatment"]["prod"].where == "reshape.py:9"


def test_a_call_that_got_slower_is_followed_to_where_it_did() -> None:
    before: Tree = {**BEFORE, "prod": (30, 2, "reshape"), "reduce": (70, 2, "prod")}
    after: Tree = {**before, "reduce": (170, 2, "prod")}
    assert differences(by_call(observed(before, after))) == {"reduce": 100}


def test_a_difference_that_spreads_is_divided_where_it_does() -> None:
    before: Tree = {**BEFORE, "prod": (30, 1, "reshape"), "leaf": (5, 1, "prod")}
    after: Tree = {**before, "check": (80, 1, "reshape"), "leaf": (65, 1, "prod"), "reshape": (140, 1, "case")}
    assert differences(by_call(observed(before, after))) == {"check": 60, "prod": 60, "reshape": 40}


def test_a_call_that_is_made_more_often_is_not_looked_into() -> None:
    before: Tree = {**BEFORE, "prod": (30, 1, "reshape"), "leaf": (50, 1, "prod")}
    after: Tree = {**BEFORE, "prod": (60, 2, "reshape"), "leaf": (100, 2, "prod")}
    assert differences(by_call(observed(before, after))) == {"prod": 80}


def test_more_calls_belong_to_the_caller_that_makes_them() -> None:
    def parts(reshape: float, prods: float) -> dict[str, Part]:
        """``slice`` calls ``prod`` once (10), ``reshape`` the other times."""
        callers = {"slice": 1 / prods, **({"reshape": 1 - 1 / prods} if prods > 1 else {})}
        return {
            "case": Part(1, 1, inclusive=121 + reshape + 10 * prods),
            "slice": Part(100, 1, "", {"case": 1.0}, "case.py:1", 110),
            "reshape": Part(reshape, 1, "", {"case": 1.0}, "case.py:2", reshape + 10 * (prods - 1)),
            "prod": Part(10 * prods, prods, "", callers, "reshape.py:9", 10 * prods),
        }

    found = by_call([{"control": parts(20, 1), "treatment": parts(20, 3)}] * 3)
    assert differences(found) == {"prod": 20}


def test_parts_without_inclusive_amounts_stay_as_they_are() -> None:
    seen: list[Observation] = [{side: {"f": Part(1.0), "g": Part(2.0)} for side in SIDES}] * 3
    assert by_call(seen) == seen


def test_recursion_and_callers_that_are_not_there_end() -> None:
    parts = {
        "f": Part(1.0, 1, "", {"g": 1.0}, "", 5.0),
        "g": Part(4.0, 1, "", {"f": 1.0}, "", 5.0),
        "h": Part(4.0, 1, "", {"nowhere": 1.0, "h": 3.0}, "", 4.0),
    }
    found = by_call([{"control": {}, "treatment": parts}] * 3)
    assert sum(part.amount for part in found[0]["treatment"].values()) == pytest.approx(9.0)


NAMES = "abcdefgh"


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_the_amounts_of_a_side_add_up_to_what_they_did(rows: list[tuple[float, float, int, int]]) -> None:
    trees: list[Tree] = [{}, {}]
    for number, row in enumerate(rows):
        caller = NAMES[number // 2] if number else None
        for side in (0, 1):
            trees[side][NAMES[number]] = (row[side], float(row[2 + side]), caller if caller != NAMES[number] else None)
    before = observed(*trees)
    found = by_call(before)
    for old, new in zip(before, found, strict=True):
        for side in SIDES:
            whole = sum(part.amount for part in old[side].values())
            assert sum(part.amount for part in new[side].values()) == pytest.approx(whole, abs=1e-3)
            assert new[side].keys() <= old[side].keys() | {REST}


def test_calls_in_a_circle_are_below_the_part_that_calls_into_it() -> None:
    control = {"pad": Part(100, 1, inclusive=100)}
    treatment = {
        "pad": Part(100, 1, inclusive=200),
        "deepcopy": Part(60, 13, callers={"pad": 0.1, "deepcopy_dict": 0.9}, inclusive=100),
        "deepcopy_dict": Part(40, 2, callers={"deepcopy": 1.0}, inclusive=90),
    }
    one: Observation = {"control": control, "treatment": treatment}
    assert differences(by_call([one] * 3)) == {"deepcopy": 100}
