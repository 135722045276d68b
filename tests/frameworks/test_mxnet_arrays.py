"""Methods of arrays, sparse tensors, subscripts and pictures through the adaptor, on real builds."""

from collections.abc import Iterator
from typing import Any

import pytest
from build_oracle import BuildOracle, answers_of

from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Build, Case

pytestmark = pytest.mark.mxnet


def case(operator: str, **inputs: Any) -> Case:
    return Case(operator, operator, "forward", inputs, "float32", "cpu", 0.02, 60.0)


@pytest.fixture(scope="module")
def build(mxnet_1_9: Build) -> Iterator[BuildOracle]:
    with BuildOracle(mxnet_1_9) as build:
        yield build


def index(text: str) -> dict[str, str]:
    return {"index": text}


PLAIN = "float32", "default"
PLACES = {"shape": [4], "dtype": "int32", "low": 0, "high": 5}
CSR, ROWS = ({"shape": [5, 3], "stype": stype} for stype in ("csr", "row_sparse"))


@pytest.mark.parametrize(
    ("tested_case", "output"),
    [
        (case("nd.NDArray.__iadd__", self=[2, 3], other=[2, 3]), [[2, 3], *PLAIN]),
        (case("nd.NDArray.__rsub__", self=[2, 3], other=1.0), [[2, 3], *PLAIN]),
        (case("nd.NDArray.T", self=[2, 3]), [[3, 2], *PLAIN]),
        (case("nd.NDArray.reshape", self=[2, 3], args=[{"value": 3}, {"value": -1}]), [[3, 2], *PLAIN]),
        (case("nd.NDArray.astype", self=[2, 3], dtype="float16"), [[2, 3], "float16", "default"]),
        (case("nd.NDArray.copyto", self=[2, 3], other={"context": "cpu(1)"}), [[2, 3], *PLAIN]),
        (case("nd.NDArray.asnumpy", self=[2, 3]), [[2, 3], "float32", "none"]),
        (case("nd.NDArray.__setitem__", self=[2, 3], key=index("0"), value=1.0), ["NoneType"]),
        (case("nd.NDArray.__getitem__", self=[5, 3], key=index("1:3")), [[2, 3], *PLAIN]),
        (case("nd.NDArray.__getitem__", self=[5, 3], key=index("::2, -1")), [[3], *PLAIN]),
        (case("nd.NDArray.__getitem__", self=[5, 3], key=index("..., None")), [[5, 3, 1], *PLAIN]),
        (case("nd.NDArray.__getitem__", self=[5, 3], key=PLACES), [[4, 3], *PLAIN]),
        (case("nd.NDArray.tostype", self=[5, 3], stype="csr"), [[5, 3], "float32", "csr"]),
        # a sparse array's own method overrides
        (case("nd.NDArray.__getitem__", self=CSR, key=index("1:3")), [[2, 3], "float32", "csr"]),
        (case("nd.NDArray.copy", self=ROWS), [[5, 3], "float32", "row_sparse"]),
        (case("nd.sgd_update", weight=[5, 3], grad=ROWS, lr=0.1, out={"same_as": "weight"}), [[5, 3], *PLAIN]),
        (case("np.ndarray.__getitem__", self=[5, 3], key=index("None, 1")), [[1, 3], *PLAIN]),
        (case("np.einsum", args=[{"value": "ij,jk->ik"}, [2, 3], [3, 4]]), [[2, 4], *PLAIN]),
        (case("np.random.rand", args=[{"value": 2}, {"value": 3}]), [[2, 3], *PLAIN]),
        (case("image.imdecode", buf={"shape": [6, 5, 3], "init": "png"}), [[6, 5, 3], "uint8", "default"]),
        (case("image.imdecode", buf={"shape": [200, 150, 3], "init": "png"}), [[200, 150, 3], "uint8", "default"]),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else None,
)  # fmt: skip
def test_calls_give_what_python_writes(build: BuildOracle, tested_case: Case, output: list[Any]) -> None:
    assert build.outputs(tested_case) == [output]


@pytest.mark.parametrize(
    ("tested_case", "words"),
    [
        (case("nd.NDArray.__getitem__", self=[5], key=index("7")), "out of bounds"),
        (case("nd.NDArray.no_such_method", self=[5]), "has no operator nd.NDArray.no_such_method"),
        (case("image.ImageIter", batch_size=1), "is not an operator"),
        (case("np.abs", x={"shape": [3, 3], "stype": "csr"}), "np has no csr tensors"),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else None,
)
def test_what_cannot_be_called_says_why(build: BuildOracle, tested_case: Case, words: str) -> None:
    assert words in build.ask(tested_case)["case"]["error"]


def test_tensors_are_the_same_in_both_builds_and_in_place_operators_leave_their_values(
    mxnet_1_8: Build, mxnet_1_9: Build
) -> None:
    in_place = [
        entry
        for name in ("operators/ndarray_inplace", "operators/numpy_array")
        for entry in expand_cases(load_spec(find_spec(name)))
        if entry.operator.rpartition(".")[2].startswith("__i") and "invert" not in entry.operator
    ]
    sparse = [
        case("nd.sparse.sqrt", data={"shape": [50, 40], "stype": "csr"}),
        case("nd.sparse.sqrt", data={"shape": [50, 40], "stype": "row_sparse", "density": 0.5}),
        case("nd.sparse.sqrt", data={"shape": [5, 4], "stype": "csr", "density": 0}),
        case("nd.sparse.sqrt", data={"shape": [5, 4], "stype": "row_sparse", "density": 1, "dtype": "float64"}),
    ]
    control, treatment = (answers_of(build, "tensors_of.py", [*in_place, *sparse]) for build in (mxnet_1_8, mxnet_1_9))
    assert control == treatment
    assert len(in_place) > 20
    assert [entry["operator"] for entry in control if entry["in_place"] and not entry["unchanged"]] == []
    assert [entry["stored"]["data"] for entry in control[len(in_place) :]] == [200, 25, 0, 5]


# The design's appendix, its lists of NDArray operations word for word -> what has a case in the catalogue.
APPENDIX = {
    # Phase 1
    "Copy": "nd.NDArray.copy", "CopyTo": "nd.NDArray.copyto", "as_in_context": "nd.NDArray.as_in_context",
    "asnumpy": "nd.NDArray.asnumpy", "asscalar": "nd.NDArray.asscalar", "astype": "nd.NDArray.astype",
    "zeros": "nd.zeros", "zeros_like": "nd.zeros_like", "ones": "nd.ones", "ones_like": "nd.ones_like",
    "full": "nd.full", "arange": "nd.arange",
    "Transpose": "nd.transpose", "T": "nd.NDArray.T", "shape_array": "nd.shape_array",
    "size_array": "nd.size_array", "reshape": "nd.reshape", "reshape_like": "nd.reshape_like", "flatten": "nd.flatten",
    "expand_dims": "nd.expand_dims",
    "split": "nd.split", "diag": "nd.diag", "tile": "nd.tile", "pad": "nd.pad",
    "sum": "nd.sum", "nansum": "nd.nansum", "prod": "nd.prod", "nanprod": "nd.nanprod", "mean": "nd.mean",
    "max": "nd.max", "min": "nd.min", "norm": "nd.norm",
    "sort": "nd.sort", "argsort": "nd.argsort", "topk": "nd.topk", "argmax": "nd.argmax", "argmin": "nd.argmin",
    "argmax_channel": "nd.argmax_channel",
    "add": "nd.NDArray.__add__", "sub": "nd.NDArray.__sub__", "neg": "nd.NDArray.__neg__", "mul": "nd.NDArray.__mul__",
    "div": "nd.NDArray.__truediv__", "mod": "nd.NDArray.__mod__", "pow": "nd.NDArray.__pow__",
    "iadd (+=)": "nd.NDArray.__iadd__", "isub (-=)": "nd.NDArray.__isub__", "imul (*=)": "nd.NDArray.__imul__",
    "idiv (/=)": "nd.NDArray.__itruediv__", "imod (%=)": "nd.NDArray.__imod__",
    "lesser": "nd.lesser", "lesser_equal": "nd.lesser_equal", "greater": "nd.greater",
    "greater_equal": "nd.greater_equal", "equal": "nd.equal", "not_equal": "nd.not_equal",
    "get_item (x[i])": "nd.NDArray.__getitem__", "set_item (x[i]=)": "nd.NDArray.__setitem__",
    "slice": "nd.slice", "slice_axis": "nd.slice_axis", "take": "nd.take", "batch_take": "nd.batch_take",
    "pick": "nd.pick", "one_hot": "nd.one_hot", "exp": "nd.exp", "log": "nd.log", "sqrt": "nd.sqrt",
    "square": "nd.square", "concat": "nd.concat", "stack": "nd.stack", "dot": "nd.dot", "batch_dot": "nd.batch_dot",
    "normal": "nd.random.normal", "poisson": "nd.random.poisson", "uniform": "nd.random.uniform",
    "random": "nd.random.uniform", "randn": "nd.random.randn", "randint": "nd.random.randint",
    "shuffle": "nd.shuffle", "clip": "nd.clip", "where": "nd.where", "abs": "nd.abs",
    "Custom Operator Benchmark": "nd.Custom",
    # Phase 2
    "tostype": "nd.NDArray.tostype", "swapaxes": "nd.swapaxes", "flip": "nd.flip",
    "depth_to_space": "nd.depth_to_space", "space_to_depth": "nd.space_to_depth",
    "round": "nd.round", "rint": "nd.rint", "fix": "nd.fix", "floor": "nd.floor", "ceil": "nd.ceil",
    "trunc": "nd.trunc", "sin": "nd.sin", "cos": "nd.cos", "tan": "nd.tan", "arcsin": "nd.arcsin",
    "arccos": "nd.arccos", "arctan": "nd.arctan", "degrees": "nd.degrees", "radians": "nd.radians",
    "sinh": "nd.sinh", "cosh": "nd.cosh", "tahnh": "nd.tanh", "arcsinh": "nd.arcsinh", "arccosh": "nd.arccosh",
    "arctanh": "nd.arctanh", "expm1": "nd.expm1", "log10": "nd.log10", "log2": "nd.log2", "log1p": "nd.log1p",
    "logical_and": "nd.logical_and", "logical_or": "nd.logical_or", "logical_xor": "nd.logical_xor",
    "logical_not": "nd.logical_not", "rsqrt": "nd.rsqrt", "cbrt": "nd.cbrt", "rcbrt": "nd.rcbrt",
    "reciprocal": "nd.reciprocal", "exponential": "nd.random.exponential", "gamma": "nd.random.gamma",
    "generalized_negative_binomial": "nd.random.generalized_negative_binomial",
    "multinomial": "nd.random.multinomial", "negative_binomial": "nd.random.negative_binomial",
    "SequenceLast": "nd.SequenceLast", "SequenceMask": "nd.SequenceMask", "SequenceReverse": "nd.SequenceReverse",
    "unravel_index": "nd.unravel_index", "ravel_multi_index": "nd.ravel_multi_index",
    "Sparse": "nd.sparse.dot", "View Operations": "nd.NDArray.reshape", "Image APIs": "image.imresize",
}  # fmt: skip


def test_the_designs_appendix_has_cases() -> None:
    operators = {shipped_case.operator for shipped_case in expand_cases(load_spec(find_spec("all")))}
    assert {name: operator for name, operator in APPENDIX.items() if operator not in operators} == {}
