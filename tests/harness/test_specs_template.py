"""Templates: which sizes of an operator's cases are free, and how the others follow."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.harness.specs.strategies import case_of, drawn, examples
from opduel.harness.specs.template import LARGEST, Rule, Template, largest_tensor, templates
from opduel.records import Case


def case(inputs: dict[str, Any], operator: str = "nd.op", number: int = 0, **changes: Any) -> Case:
    fields = {"direction": "forward", "dtype": "float32", "context": "cpu", **changes}
    return Case(f"op_{number}/forward", operator, inputs=inputs, threshold=0.02, timeout_s=60.0, **fields)


def only(*inputs: dict[str, Any]) -> Template:
    (template,) = templates([case(values, number=number) for number, values in enumerate(inputs)])
    return template


@pytest.mark.parametrize(
    ("inputs", "sizes", "filled"),
    [
        # Sizes that always agree are one.
        ([{"a": [2, 3], "b": [3, 5]}, {"a": [8, 9], "b": [9, 4]}], (6, 7, 1), {"a": [6, 7], "b": [7, 1]}),
        # An attribute that is a size follows, and one that never changes stays.
        (
            [{"a": [2, 3], "n": 3, "k": [3, 3]}, {"a": [8, 9], "n": 9, "k": [3, 3]}],
            (6, 7),
            {"a": [6, 7], "n": 7, "k": [3, 3]},
        ),
        # A product of sizes.
        ([{"a": [2, 3], "b": [6]}, {"a": [8, 9], "b": [72]}], (5, 7), {"a": [5, 7], "b": [35]}),
        # A multiple, seen three times.
        ([{"a": [2], "b": [8]}, {"a": [3], "b": [12]}, {"a": [7], "b": [28]}], (5,), {"a": [5], "b": [20]}),
        # Seen twice it may be chance: both are free.
        ([{"a": [2], "b": [8]}, {"a": [3], "b": [12]}], (5, 6), {"a": [5], "b": [6]}),
        # The bound of indices follows the size that it is.
        (
            [{"a": [4], "i": {"shape": [2], "high": 4}}, {"a": [9], "i": {"shape": [3], "high": 9}}],
            (5, 6),
            {"a": [5], "i": {"shape": [6], "high": 5}},
        ),
        # Of a single case the larger sizes are free, and what agrees with them follows; a kernel stays.
        (
            [{"a": [16, 32], "w": [64, 32], "n": 64, "k": [3, 3]}],
            (5, 6, 7),
            {"a": [5, 6], "w": [7, 6], "n": 7, "k": [3, 3]},
        ),
        # True is no size.
        ([{"a": [16], "flag": True}], (5,), {"a": [5], "flag": True}),
    ],
)
def test_sizes_follow_as_the_cases_show(inputs: list[dict[str, Any]], sizes: tuple[int, ...], filled: object) -> None:
    template = only(*inputs)
    assert len(template.limits) == len(sizes)
    assert template.inputs(sizes) == filled


def test_a_size_that_is_another_or_1_is_broadcast() -> None:
    template = only({"a": [4, 6], "b": [4, 6]}, {"a": [5, 7], "b": [1, 7]}, {"a": [8, 9], "b": [8, 1]})
    assert template.inputs((2, 3), (False, False)) == {"a": [2, 3], "b": [2, 3]}
    assert template.inputs((2, 3), (True, False)) == {"a": [2, 3], "b": [1, 3]}


def test_what_differs_in_more_than_sizes_has_a_template_of_its_own() -> None:
    group = [
        case({"a": [2, 3]}),
        case({"a": [2, 3, 4]}),
        case({"a": [2, 3], "axis": 1}),
        case({"a": [9, 9]}, dtype="int32"),
    ]
    assert len(templates(group)) == 4


def test_sizes_have_limits() -> None:
    assert only({"a": [4, 2]}, {"a": [1 << 20, 3]}).limits == (LARGEST, 12)


@given(st.data())
def test_every_draw_obeys_its_rules_and_keeps_within_the_limits(data: st.DataObject) -> None:
    template = only(
        {"a": [2, 3], "b": [6], "c": [1, 3]},
        {"a": [8, 9], "b": [72], "c": [8, 9]},
        {"a": [5, 4], "b": [20], "c": [1, 1]},
    )
    values = data.draw(drawn(template, 1000)).inputs
    assert values["b"] == [values["a"][0] * values["a"][1]]
    assert all(size in (1, other) for size, other in zip(values["c"], values["a"], strict=True))
    assert all(size >= 1 for size in values["a"])
    assert largest_tensor(values) <= 1000


def test_draws_are_the_same_for_the_same_seed_and_differ_from_each_other() -> None:
    template = only({"a": [2, 3]}, {"a": [800, 900]})
    first = [example.sizes for example in examples(drawn(template), 20, 7)]
    assert first == [example.sizes for example in examples(drawn(template), 20, 7)]
    assert first != [example.sizes for example in examples(drawn(template), 20, 8)]
    assert len(set(first)) == 20
    assert max(max(sizes) for sizes in first) > 16


def test_the_cases_of_the_catalogue_come_out_again() -> None:
    cases = expand_cases(load_spec(find_spec("operators/nn_basic")))
    for template in templates(cases):
        sizes = [0] * len(template.limits)
        for place, rule in zip(template.places, template.rules, strict=True):
            value: Any = template.like.inputs
            for key in place:
                value = value[key]
            if rule == Rule(1, rule.of[:1]) and rule.of and not sizes[rule.of[0]]:
                sizes[rule.of[0]] = value
        assert template.inputs(sizes) == template.like.inputs


def test_a_drawn_case_is_like_its_own_but_for_sizes_and_name() -> None:
    like = case({"a": [16, 32]}, dtype="float64", number=3)
    (template,) = templates([like])
    drawn_case = case_of(examples(drawn(template), 1, 0)[0], 5)
    assert (drawn_case.id, drawn_case.dtype, drawn_case.operator) == ("op_3_fuzz5/forward", "float64", "nd.op")
