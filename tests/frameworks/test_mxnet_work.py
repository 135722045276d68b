"""The formulas for an operator's work, against numbers worked out by hand, and against the shapes that MXNet gives."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opduel.frameworks.mxnet.work import FORMULAS, work
from opduel.records import Case, Work


def case(operator: str, direction: Any = "forward", dtype: str = "float32", **inputs: Any) -> Case:
    return Case("a", operator, direction, inputs, dtype, "cpu", 0.02, 60.0)


@pytest.mark.parametrize(
    ("tested_case", "flop", "elements"),
    [
        (case("nd.dot", lhs=[2, 3], rhs=[3, 5]), 60, 6 + 15 + 10),
        (case("nd.dot", lhs=[3, 2], rhs=[5, 3], transpose_a=True, transpose_b=True), 60, 6 + 15 + 10),
        (case("nd.dot", "backward", lhs=[2, 3], rhs=[3, 5]), 120, 2 * (6 + 15) + 10),
        (case("nd.dot", "both", lhs=[2, 3], rhs=[3, 5]), 180, 3 * (6 + 15) + 2 * 10),
        (case("nd.batch_dot", lhs=[7, 2, 3], rhs=[7, 3, 5]), 420, 7 * (6 + 15 + 10)),
        (case("nd.FullyConnected", data=[4, 2, 3], weight=[5, 6], num_hidden=5, no_bias=True), 240, 24 + 30 + 20),
        (case("nd.FullyConnected", data=[4, 6], weight=[5, 6], bias=[5]), 240 + 20, 24 + 30 + 5 + 20),
        (
            case("nd.Convolution", data=[2, 3, 8, 8], weight=[4, 3, 3, 3], kernel=[3, 3], stride=[2, 2], pad=[1, 1]),
            2 * (2 * 4 * 4 * 4) * 27,
            2 * 3 * 64 + 4 * 27 + 2 * 4 * 16,
        ),
        (
            case("nd.Convolution", data=[1, 4, 8], weight=[4, 2, 3], kernel=[3], num_group=2, dilate=[2]),
            2 * (4 * 4) * 6,
            32 + 24 + 16,
        ),
        (
            case("nd.Deconvolution", data=[1, 3, 4], weight=[3, 5, 3], kernel=[3], stride=[2]),
            2 * 12 * 15,
            12 + 45 + 5 * 9,
        ),
        (case("nd.broadcast_add", lhs=[4, 1], rhs={"shape": [3], "init": "ones"}), 12, 4 + 3 + 12),
        (case("nd.exp", data=[4, 5]), None, 40),
        (case("nd.sum", data=[4, 5], axis=1), 20, 24),
        (case("nd.mean", data=[4, 5], axis=[0, -1]), 20, 21),
        (case("nd.softmax", "backward", data=[4, 5]), None, 60),
        (case("np.matmul", a=[2, 3], b=[3, 5]), 60, 31),
    ],
)
def test_the_work_of_a_call(tested_case: Case, flop: float | None, elements: float) -> None:
    assert work(tested_case) == Work(flop, 4.0 * elements, "float32")


@pytest.mark.parametrize(
    "tested_case",
    [
        case("nd.topk", data=[4, 5]),
        case("nd.exp", "backward", data=[4, 5]),
        case("nd.dot", lhs=[2, 3], rhs=[4, 5]),
        case("nd.dot", lhs=[2, 3]),
        case("nd.dot", lhs=[4, 4, 4], rhs=[4, 4, 4]),
        case("nd.dot", lhs={"shape": [40, 30], "stype": "csr", "density": 0.01}, rhs=[30, 2]),
        case("nd.dot", lhs=[4, 4], rhs={"shape": [4, 4], "grad_stype": "row_sparse"}),
        case("nd.broadcast_add", lhs=[2], rhs=[3]),
        case("nd.Convolution", data=[1, 8, 8, 3], weight=[4, 3, 3, 3], kernel=[3, 3], layout="NHWC"),
        case("nd.Embedding", data={"shape": [4], "dtype": "int32"}, weight=[10, 4]),
        case("nd.softmax", data=[4, 5], length=[4]),
        case("nd.sum", data=[4, 5], axis=1, exclude=True),
        case("nd.elemwise_add", lhs=[2], rhs={"shape": [2], "dtype": "float64"}),
        case("nd.Convolution", data=[1, 3, 8, 8], weight=[4, 3, 3, 3], kernel=[3, 3], stride=[0, 0]),
        case("nd.Convolution", data=[1, 3, 2], weight=[4, 3, 5], kernel=[5]),
        case("nd.FullyConnected", data=[4, 6], weight=[]),
        case("nd.sum", data=[4, 5], axis="x"),
    ],
)
def test_where_nothing_is_known_nothing_is_said(tested_case: Case) -> None:
    assert work(tested_case) is None


def test_the_dtype_sizes_the_bytes() -> None:
    assert work(case("nd.exp", dtype="float64", data=[10])) == Work(None, 160.0, "float64")


LEAVES = st.none() | st.booleans() | st.integers() | st.integers(-1, 3) | st.floats() | st.text(max_size=3)
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner))
SHAPES = st.lists(st.integers(0, 4), max_size=4)
ARGUMENTS = ("a", "bias", "axis", "kernel", "stride", "dilate", "pad", "num_group", "flatten", "exclude")


@pytest.mark.nightly
@settings(max_examples=300)
@given(
    st.sampled_from(sorted(FORMULAS)),
    st.sampled_from(["forward", "backward", "both"]),
    st.fixed_dictionaries(
        dict.fromkeys(("data", "weight", "lhs", "rhs"), SHAPES | ANYTHING),
        optional=dict.fromkeys(ARGUMENTS, SHAPES | ANYTHING),
    ),
)
def test_no_arguments_are_so_odd_that_a_run_is_lost(operator: str, direction: str, inputs: dict[str, Any]) -> None:
    amount = work(case(f"nd.{operator}", direction, **inputs))
    assert amount is None or all(0 <= figure < math.inf for figure in (amount.flop or 0.0, amount.bytes))
