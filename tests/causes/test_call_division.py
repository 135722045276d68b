"""The calls among which a difference divides."""

from collections.abc import Mapping

import pytest
from divisions import differences
from hypothesis import given
from hypothesis import strategies as st

from opduel.causes.attribution.call_division import REST, changed_functions, divide_by_call
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


def divided(before: Tree, after: Tree) -> dict[str, float]:
    return differences(divide_by_call(observed(before, after)))


def of_parts(before: dict[str, Part], after: dict[str, Part]) -> dict[str, float]:
    return differences(divide_by_call([{"control": before, "treatment": after}] * 3))


def test_a_new_call_has_all_that_it_calls_and_the_place_that_calls_it() -> None:
    after: Tree = {**BEFORE, "prod": (30, 2, "reshape"), "reduce": (70, 2, "prod"), "add": (200, 2, "reduce")}
    observations = divide_by_call(observed(BEFORE, after))
    assert differences(observations) == {"prod": 300}
    assert observations[0]["treatment"]["prod"].where == "reshape.py:9"


def test_a_call_that_got_slower_is_followed_to_where_it_did() -> None:
    before: Tree = {**BEFORE, "prod": (30, 2, "reshape"), "reduce": (70, 2, "prod")}
    after: Tree = {**before, "reduce": (170, 2, "prod")}
    assert divided(before, after) == {"reduce": 100}


def test_a_difference_that_spreads_is_divided_where_it_does() -> None:
    before: Tree = {**BEFORE, "prod": (30, 1, "reshape"), "leaf": (5, 1, "prod")}
    after: Tree = {**before, "check": (80, 1, "reshape"), "leaf": (65, 1, "prod"), "reshape": (140, 1, "case")}
    assert divided(before, after) == {"check": 60, "prod": 60, "reshape": 40}


def test_each_part_of_a_difference_that_spreads_is_followed_to_a_call_that_came_or_went() -> None:
    """``_expect`` of SciPy calls a function that calls ``pmf``, which checks its arguments, or ``_pmf``."""
    before: Tree = {**BEFORE, "_expect": (30, 1, "reshape"), "fun": (5, 9, "_expect"), "pmf": (400, 9, "fun")}
    after: Tree = {**BEFORE, "_expect": (32, 1, "reshape"), "fun": (5, 9, "_expect"), "_pmf": (100, 9, "fun")}
    before["check"], after["check"] = (120, 1, "reshape"), (20, 1, "reshape")
    assert divided(before, after) == {
        "check": -100,
        "pmf": -400,
        "_pmf": 100,
        "_expect": 2,
    }
    slower: Tree = {**BEFORE, "check": (320, 1, "reshape"), "_expect": (30, 1, "reshape"), "fun": (505, 9, "_expect")}
    faster: Tree = {**slower, "check": (20, 1, "reshape"), "fun": (5, 9, "_expect")}
    assert divided(slower, faster) == {"check": -300, "_expect": -500}, "nothing came or went"


def test_a_caller_that_is_gone_does_not_hide_what_it_called() -> None:
    """SciPy's ``_dok_base.__getitem__`` is gone, and what it called is called by the case itself; the difference arises
    in a function within that."""
    inner: Tree = {"check": (20, 1, "getitem"), "take": (40, 1, "getitem")}
    before: Tree = {"case": (10, 1, None), "gone": (2, 1, "case"), "getitem": (5, 1, "gone"), **inner}
    after: Tree = {"case": (10, 1, None), "getitem": (6, 1, "case"), **inner, "check": (27, 1, "getitem")}
    assert divided(before, after) == {"gone": -2, "getitem": 1, "check": 7}


def test_a_call_that_is_made_more_often_is_not_looked_into() -> None:
    before: Tree = {**BEFORE, "prod": (30, 1, "reshape"), "leaf": (50, 1, "prod")}
    after: Tree = {**BEFORE, "prod": (60, 2, "reshape"), "leaf": (100, 2, "prod")}
    assert divided(before, after) == {"prod": 80}


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

    assert of_parts(parts(20, 1), parts(20, 3)) == {"prod": 20}


def test_parts_without_inclusive_amounts_stay_as_they_are() -> None:
    observations: list[Observation] = [{side: {"f": Part(1.0), "g": Part(2.0)} for side in SIDES}] * 3
    assert divide_by_call(observations) == observations


def test_recursion_and_callers_that_are_not_there_end() -> None:
    parts = {
        "f": Part(1.0, 1, "", {"g": 1.0}, "", 5.0),
        "g": Part(4.0, 1, "", {"f": 1.0}, "", 5.0),
        "h": Part(4.0, 1, "", {"nowhere": 1.0, "h": 3.0}, "", 4.0),
    }
    observations = divide_by_call([{"control": {}, "treatment": parts}] * 3)
    assert sum(part.amount for part in observations[0]["treatment"].values()) == pytest.approx(9.0)


NAMES = "abcdefgh"


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_the_amounts_of_a_side_add_up_to_what_they_did(rows: list[tuple[float, float, int, int]]) -> None:
    trees: list[Tree] = [{}, {}]
    for number, row in enumerate(rows):
        caller = NAMES[number // 2] if number else None
        for side in (0, 1):
            trees[side][NAMES[number]] = (row[side], float(row[2 + side]), caller if caller != NAMES[number] else None)
    before = observed(*trees)
    observations = divide_by_call(before)
    for old, new in zip(before, observations, strict=True):
        for side in SIDES:
            total = sum(part.amount for part in old[side].values())
            assert sum(part.amount for part in new[side].values()) == pytest.approx(total, abs=1e-3)
            assert new[side].keys() <= old[side].keys() | {REST}


def test_calls_in_a_circle_are_below_the_part_that_calls_into_it() -> None:
    control = {"pad": Part(100, 1, inclusive=100)}
    treatment = {
        "pad": Part(100, 1, inclusive=200),
        "deepcopy": Part(60, 13, callers={"pad": 0.1, "deepcopy_dict": 0.9}, inclusive=100),
        "deepcopy_dict": Part(40, 2, callers={"deepcopy": 1.0}, inclusive=90),
    }
    assert of_parts(control, treatment) == {"deepcopy": 100}


def test_a_call_s_doubt_is_that_of_all_that_it_calls() -> None:
    def side(ns: float) -> dict[str, Part]:
        own = Part(10.0, 1.0, inclusive=10.0 + ns, doubt=1.0)
        return {"own": own, "f": Part(ns, 1.0, callers={"own": 1.0}, inclusive=ns, doubt=4.0, inclusive_doubt=2.5)}

    observations = divide_by_call([{"control": side(50.0), "treatment": side(80.0)}] * 3)
    assert [observation["treatment"]["f"].doubt for observation in observations] == [2.5] * 3
    assert observations[0]["treatment"]["own"].doubt == 1.0


def entropy(own: float, more: dict[str, float]) -> dict[str, Part]:
    """``nbinom.entropy`` of SciPy: ``vectorize`` calls ``_entropy`` once to learn its type, once for the value; in
    ns."""
    inclusive = own + sum(more.values())
    halves = {"_get_ufunc_and_otypes": 0.5, "_vectorize_call": 0.5}
    return {
        "entropy": Part(50, 1, inclusive=95 + inclusive),
        "_get_ufunc_and_otypes": Part(20, 1, "", {"entropy": 1.0}, "base.py:2372", 20 + inclusive / 2),
        "_vectorize_call": Part(25, 1, "", {"entropy": 1.0}, "base.py:2375", 25 + inclusive / 2),
        "_entropy": Part(own, 2, "", halves, "base.py:2450", inclusive),
        **{name: Part(ns, 40, "", {"_entropy": 1.0}, "base.py:3764", ns) for name, ns in more.items()},
    }


def test_what_several_calls_have_in_common_is_looked_into_in_their_place() -> None:
    before, after = entropy(20, {"pmf": 300, "ppf": 100}), entropy(30, {"_pmf": 120, "ppf": 90})
    observations = divide_by_call([{"control": before, "treatment": after}] * 3)
    assert differences(observations) == {"pmf": -300, "_pmf": 120, "ppf": -10, "_entropy": 10}
    assert observations[0]["control"]["pmf"].where == "base.py:3764"
    spread = entropy(20, {"pmf": 300, "ppf": 400}), entropy(30, {"_pmf": 120, "ppf": 10})
    assert of_parts(*spread) == {"_entropy": 160 - 720}, "no call in it has nearly all"


def test_of_what_has_the_same_code_the_callers_differ() -> None:
    """Both callers have ``spin`` do more turns, 7 to 3."""

    def side(first: float, second: float, codes: Mapping[str, str]) -> dict[str, Part]:
        work = first + second
        shares = {"first": first / work, "second": second / work}
        return {
            "case": Part(1, 1, inclusive=3 + work, code=codes.get("case", "a")),
            "first": Part(1, 1, "", {"case": 1.0}, "case.py:1", 1 + first, code="b"),
            "second": Part(1, 1, "", {"case": 1.0}, "case.py:2", 1 + second, code="c"),
            "spin": Part(work, 2, "", shares, "case.py:3", work, code=codes.get("spin", "d")),
        }

    def differences_with_codes(**codes: str) -> dict[str, float]:
        return of_parts(side(50, 50, {}), side(120, 80, codes))

    assert differences_with_codes(case="other") == {"first": 70, "second": 30}
    assert differences_with_codes(case="other", spin="other") == {"spin": 100}


def test_what_only_a_few_of_its_calls_make_slower_is_no_place_to_look() -> None:
    """``work`` has half of the difference; the callers themselves have the rest."""
    halves = {"a": 0.5, "b": 0.5}

    def side(own: float, work: float) -> dict[str, Part]:
        return {
            "case": Part(10, 1, inclusive=10 + 2 * own + work),
            "a": Part(own, 1, "", {"case": 1.0}, "case.py:1", own + work / 2),
            "b": Part(own, 1, "", {"case": 1.0}, "case.py:2", own + work / 2),
            "work": Part(work, 2, "", halves, "case.py:3", work),
        }

    assert of_parts(side(50, 100), side(100, 200)) == {"a": 100, "b": 100}


def test_what_is_called_within_other_parts_is_counted_once() -> None:
    """``convolve`` of SciPy 1.15: a new check, which the case's own function calls, and one that it calls."""

    def side(check: float) -> dict[str, Part]:
        new = {"check": Part(check, 3, "", {"convolve": 1 / 3, "choose": 2 / 3}, "signal.py:9", check)} if check else {}
        return {
            "convolve": Part(100, 1, inclusive=150 + check),
            "choose": Part(50, 1, "", {"convolve": 1.0}, "signal.py:5", 50 + check * 2 / 3),
            **new,
        }

    assert of_parts(side(0), side(90)) == {"check": pytest.approx(90)}


def markdown(own: float, codes: Mapping[str, str], share: float = 0.6) -> dict[str, Part]:
    """mistune's ``compile_sc``, which the renderer calls from two functions, and the parser of blocks calls, too."""
    inner, total = own * share / 2, 400 + own
    callers = {"inline": share / 2, "precedence": share / 2, "blocks": 1 - share}

    def part(name: str, amount: float, caller: str, inclusive: float) -> Part:
        code = codes.get(name, name)
        return Part(amount, 1, f"{name}.py:1", {caller: 1.0} if caller else {}, f"{caller}.py:9", inclusive, code=code)

    return {
        "html": part("html", 10, "", total),
        "blocks": part("blocks", 90, "html", 90 + own - 2 * inner),
        "render": part("render", 100, "html", 300 + 2 * inner),
        "inline": part("inline", 100, "render", 100 + inner),
        "precedence": part("precedence", 100, "render", 100 + inner),
        "compile": Part(own, 9, "core.py:180", callers, "inline.py:329", own, code=codes.get("compile", "compile")),
    }


def test_functions_that_run_on_both_sides_with_other_code() -> None:
    inner = {"compile.<locals>.key": Part(1, 1, "core.py:182", code="other"), "new": Part(1, 1, "core.py:1", code="n")}
    after = {**markdown(20, {"compile": "other"}), **inner}
    before = {**markdown(20, {}), "compile.<locals>.key": Part(1, 1, "core.py:182", code="key")}
    observations = [{"control": before, "treatment": after}] * 3
    assert changed_functions(observations) == {"compile": "core.py:180"}
    assert changed_functions([{"control": before, "treatment": before}]) == {}
