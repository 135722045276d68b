"""A case whose name says a dtype computes in it, or is refused; and its inputs are valid in it. On real MXNet."""

from collections.abc import Sequence
from typing import Any

import pytest
from build_oracle import answers_of

from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.harness.specs.load import validate
from opduel.harness.specs.model import Settings
from opduel.records import Build, Case

pytestmark = pytest.mark.mxnet

# What these return is of a type of its own, whatever they compute in.
TRUTH = ("np.ndarray.__bool__", "nd.NDArray.__bool__", "np.all", "np.any", "np.logical_not", "nd.contrib.allclose")
TRUTH += ("np.equal", "np.not_equal", "np.greater", "np.greater_equal", "np.less", "np.less_equal", "np.ndarray.__eq__")
TRUTH += ("np.ndarray.__gt__", "np.ndarray.__lt__", "np.isfinite", "np.isinf", "np.isnan", "np.isneginf", "np.isposinf")
PLACES = (
    "nd.argsort",
    "nd.topk",
    "npx.topk",
    "np.argsort",
    "np.argmax",
    "np.argmin",
    "np.nonzero",
    "np.diag_indices_from",
)
PLACES += ("nd.random.multinomial", "nd.contrib.index_array", "nd.contrib.getnnz")
SIZES = ("nd.shape_array", "nd.size_array", "npx.shape_array")
TESTS = ("nd.all_finite", "nd.multi_all_finite", "nd.multi_sum_sq")  # float32, of whatever they look at
CONVERSIONS = ("nd.NDArray.astype", "np.ndarray.astype", "nd.cast", "nd.amp_cast", "npx.cast")
PLAIN = ("np.ndarray.item", "np.ndarray.tolist")
NOTHING = ("nd.NDArray.__setitem__", "np.ndarray.__setitem__", "nd.reset_arrays", "np.random.shuffle")
WIDER = ("np.percentile", "np.quantile", "nd.contrib.rand_zipfian")  # than float16
NARROWER = ("io.NDArrayIter", "np.where")  # float32, of what it shuffles and of two numbers
# What the official NumPy returns is of its own choosing, and metrics are Python's numbers.
OFFICIAL = {case.operator for name in ("numpy_fallback", "numpy_linalg_fallback", "numpy_logic", "metric")
            for case in expand_cases(load_spec(find_spec(f"operators/{name}")))}  # fmt: skip
TRUTH += ("np.ndarray.__ne__", "np.ndarray.__ge__", "np.ndarray.__le__")
NOTHING += ("nd.save", "npx.save")
OWN_TYPE = {*TRUTH, *PLACES, *SIZES, *TESTS, *CONVERSIONS, *PLAIN, *NOTHING, *WIDER, *NARROWER, *OFFICIAL}
# These have no argument that could say a dtype, and no tensors.
WITHOUT_DTYPE = {"nd._internal._sample_unique_zipfian", "np.random.choice", "np.random.multinomial"}
WITHOUT_DTYPE |= {"np.random.exponential", "np.random.gumbel", "np.random.logistic", "np.random.pareto"}
WITHOUT_DTYPE |= {"np.random.power", "np.random.rayleigh", "np.random.weibull"}
REFUSED = "nothing in this case would be"


def dtypes(build: Build, cases: Sequence[Case], **variables: str) -> list[dict[str, Any]]:
    """What ``dtypes_of.py`` says of each case; ``variables`` are added to the environment."""
    return answers_of(build, "dtypes_of.py", cases, **variables)


def cases_of(spec: str, dtype: str) -> list[Case]:
    cases = expand_cases(load_spec(find_spec(spec)), metrics=["time"], settings=Settings(dtype=dtype))
    return [case for case in cases if not case.id.startswith("hostile.")]


def wrong(cases: Sequence[Case], answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Cases that ran in spite of their names, or died, with what was said of them."""
    return {
        case.id: answer
        for case, answer in zip(cases, answers, strict=True)
        if "died" in answer
        or ("inputs" in answer and case.dtype not in [*answer["inputs"], *answer["outputs"]])
        or ("outputs" in answer and case.dtype not in answer["outputs"] and case.operator not in OWN_TYPE)
    }


def refused(cases: Sequence[Case], answers: Sequence[dict[str, Any]]) -> set[str]:
    both = zip(cases, answers, strict=True)
    return {case.operator for case, answer in both if REFUSED in answer.get("error", "")}


def test_creation_and_random_operators_take_the_dtype_of_their_name(mxnet_1_9: Build) -> None:
    specs = ["creation", "random_sampling", "numpy_creation"]
    cases = [case for name in specs for case in cases_of(f"operators/{name}", "float64")]
    answers = dtypes(mxnet_1_9, cases)
    assert wrong(cases, answers) == {}
    assert refused(cases, answers) == WITHOUT_DTYPE
    ran = {case.operator for case, answer in zip(cases, answers, strict=True) if "outputs" in answer}
    assert {"nd.zeros", "nd.random.normal", "nd.random.randn", "np.arange", "np.random.rand", "nd.sample_normal"} <= ran


def test_what_is_of_other_dtypes_throughout_is_refused(mxnet_1_9: Build) -> None:
    picture = {"shape": [9, 9, 3], "dtype": "uint8"}
    words = {"shape": [4], "dtype": "int32"}
    tests = [
        {"operator": "nd.image.flip_left_right", "inputs": {"data": picture}},
        {"operator": "gluon.nn.Embedding", "inputs": {"data": words, "input_dim": 10, "output_dim": 2}},
        {"operator": "nd.zeros", "inputs": {"shape": [2, 3], "dtype": "int32"}},
        {"operator": "nd.cast", "inputs": {"data": [2, 3], "dtype": "int32"}},
        {"operator": "nd.one_hot", "inputs": {"indices": words, "depth": 10}},
    ]
    spec = {"framework": "mxnet", "defaults": {"dtype": "int8"}, "tests": tests}
    *refusals, cast, one_hot = dtypes(mxnet_1_9, expand_cases(validate(spec)))
    assert [answer["error"].partition(":")[0] for answer in refusals] == [
        "nothing in this case would be int8, its arrays are uint8",
        "nothing in this case would be int8, its arrays are float32 and int32",
        "nothing in this case would be int8, it has no arrays made of shapes",
    ]
    assert cast == {"inputs": ["int8"], "outputs": ["int32"]}
    assert one_hot == {"inputs": ["int32"], "outputs": ["int8"]}


@pytest.mark.parametrize("dtype", ["int32", pytest.param("uint8", marks=pytest.mark.nightly)])
def test_inputs_of_whole_numbers_divide_nothing_by_zero(mxnet_1_9: Build, dtype: str) -> None:
    specs = ["binary_elementwise", "binary_broadcast", "inplace", "ndarray_arithmetic", "numpy_binary", "binary_scalar"]
    first: dict[str, Case] = {}
    for case in (case for name in specs for case in cases_of(f"operators/{name}", dtype)):
        first.setdefault(case.operator, case)
    answers = dict(zip(first, dtypes(mxnet_1_9, [*first.values()]), strict=True))
    assert [name for name, answer in answers.items() if "died" in answer] == []
    ran = {name for name, answer in answers.items() if "outputs" in answer}
    assert {"nd.divide", "nd.modulo", "nd.broadcast_div", "nd.NDArray.__truediv__", "np.mod"} <= ran


def test_a_quantized_recurrent_layer_runs_without_vnni(mxnet_1_9: Build) -> None:
    cases = [
        shipped_case
        for shipped_case in expand_cases(load_spec(find_spec("operators/quantization")))
        if "_rnn" in shipped_case.operator
    ]
    assert len(cases) == 1
    (older,) = dtypes(mxnet_1_9, cases, DNNL_MAX_CPU_ISA="AVX512_CORE")
    assert older["outputs"] == ["float32"]


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_the_whole_catalogue_in_one_dtype(mxnet_1_9: Build, dtype: str) -> None:
    cases = cases_of("all", dtype)
    assert wrong(cases, dtypes(mxnet_1_9, cases)) == {}
