"""Input rules, property-based: what MXNet accepts runs and has its shapes; what it rejects fails with its message."""

from collections.abc import Iterator
from typing import Any

import pytest
from build_oracle import BuildOracle
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st
from mxnet_workers import MXNetWorkers, prepare

from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.harness.specs import expand_cases
from opduel.harness.specs.load import validate
from opduel.records import Build, Case, Failure

pytestmark = pytest.mark.mxnet

Drawn = dict[str, Any]  # operator, tensors by name (shape, dtype, stype), attributes by name, variadic
sizes = st.integers(1, 6)
shapes = st.lists(sizes, min_size=1, max_size=4)
odd_sizes = st.sampled_from([0, 1, 2, 3])
dtypes = st.sampled_from(["float32", "float64", "float16", "int32", "int64", "uint8", "int8"])
usual = st.sampled_from(["float32", "float32", "float64"])
axes = st.integers(-5, 5)


def drawn(
    operator: str, tensors: dict[str, Any], attributes: dict[str, Any] | None = None, variadic: bool = False
) -> Drawn:
    return {"operator": operator, "tensors": tensors, "attributes": attributes or {}, "variadic": variadic}


def tensor(shape: list[int], dtype: str = "float32", stype: str = "default") -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype, "stype": stype}


@st.composite
def near(draw: st.DrawFn, shape: list[int]) -> list[int]:
    """The shape, often; or with one size another, or 1; or with a size more or less."""
    kind = draw(st.sampled_from(["same", "same", "other", "more", "less"]))
    place = draw(st.integers(0, len(shape) - 1))
    if kind == "other":
        return [*shape[:place], draw(sizes), *shape[place + 1 :]]
    if kind == "more":
        return [draw(sizes), *shape]
    return shape[1:] if kind == "less" and len(shape) > 1 else shape


@st.composite
def unary(draw: st.DrawFn) -> Drawn:
    operator = draw(
        st.sampled_from(["nd.exp", "nd.relu", "nd.square", "nd.logical_not", "nd.softmax", "nd.shape_array"])
    )
    return drawn(operator, {"data": tensor(draw(shapes | st.lists(odd_sizes, max_size=3)), draw(dtypes))})


@st.composite
def binary(draw: st.DrawFn) -> Drawn:
    names = [
        "nd.elemwise_add",
        "nd.elemwise_mul",
        "nd.broadcast_add",
        "nd.broadcast_div",
        "nd.broadcast_maximum",
        "nd.add",
    ]
    shape = draw(shapes)
    lhs, rhs = tensor(shape, draw(usual)), tensor(draw(near(shape)), draw(usual))
    return drawn(draw(st.sampled_from(names)), {"lhs": lhs, "rhs": rhs})


@st.composite
def numpy_binary(draw: st.DrawFn) -> Drawn:
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    lhs, rhs = tensor(shape, draw(dtypes)), tensor(draw(near(shape)), draw(dtypes))
    return drawn(draw(st.sampled_from(["np.add", "np.multiply", "np.maximum", "np.matmul"])), {"x1": lhs, "x2": rhs})


@st.composite
def reduction(draw: st.DrawFn) -> Drawn:
    operator = draw(
        st.sampled_from(["nd.sum", "nd.mean", "nd.max", "nd.prod", "nd.argmax", "nd.sort", "nd.expand_dims"])
    )
    attributes: dict[str, Any] = {"axis": draw(axes)}
    if operator in ("nd.sum", "nd.mean", "nd.max") and draw(st.booleans()):
        attributes = {"axis": draw(st.lists(axes, min_size=1, max_size=3)), "keepdims": draw(st.booleans())}
    return drawn(operator, {"data": tensor(draw(shapes), draw(dtypes))}, attributes)


@st.composite
def joined(draw: st.DrawFn) -> Drawn:
    shape = draw(shapes)
    tensors = {f"args{index}": tensor(draw(near(shape))) for index in range(draw(st.integers(1, 3)))}
    operator, name = draw(st.sampled_from([("nd.concat", "dim"), ("nd.stack", "axis")]))
    return drawn(operator, tensors, {name: draw(st.integers(-3, 3))}, variadic=True)


@st.composite
def sparse(draw: st.DrawFn) -> Drawn:
    shape = draw(st.lists(sizes, min_size=2, max_size=2))
    stypes = st.sampled_from(["default", "row_sparse", "csr"])
    if draw(st.booleans()):
        operator = draw(
            st.sampled_from(["nd.sparse.elemwise_add", "nd.sparse.elemwise_mul", "nd.sparse.broadcast_mul"])
        )
        sides = {"lhs": tensor(shape, stype=draw(stypes)), "rhs": tensor(draw(near(shape)))}
        if len(sides["rhs"]["shape"]) == 2:
            sides["rhs"]["stype"] = draw(stypes)
        return drawn(operator, sides)
    operator = draw(st.sampled_from(["nd.sparse.cast_storage", "nd.sparse.retain", "nd.sparse.square"]))
    data = {"data": tensor(shape, stype=draw(stypes))}
    if operator == "nd.sparse.cast_storage":
        return drawn(operator, data, {"stype": draw(stypes)})
    return drawn(operator, {**data, "indices": tensor([1])} if operator == "nd.sparse.retain" else data)


anything = st.one_of(unary(), binary(), numpy_binary(), reduction(), joined(), sparse())


def case_of(call: Drawn) -> Case:
    """As a spec says it, with values that no operator here minds."""
    tensors = {
        name: {**description, "init": "ones"} if description["stype"] == "default" else {**description, "density": 0.5}
        for name, description in call["tensors"].items()
    }
    attributes = {name: {"value": value} for name, value in call["attributes"].items()}
    inputs = {"args": [*tensors.values()], **attributes} if call["variadic"] else {**tensors, **attributes}
    test = {"operator": call["operator"], "identifier": "drawn", "inputs": inputs}
    (case,) = expand_cases(validate({"framework": "mxnet", "tests": [test]}))
    return case


@pytest.fixture(scope="module")
def build(mxnet_1_9: Build) -> Iterator[BuildOracle]:
    with BuildOracle(mxnet_1_9) as build:
        yield build


@pytest.fixture(scope="module")
def worker(mxnet_1_9: Build, mxnet_workers: MXNetWorkers) -> RestartingWorker:
    return mxnet_workers.worker(mxnet_1_9)


@pytest.mark.nightly
@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(anything)
@example(drawn("nd.contrib.quantize_asym", {"data": tensor([8, 64])}))  # a segmentation fault
def test_what_mxnet_accepts_runs_and_what_it_rejects_fails_with_its_message(
    build: BuildOracle, worker: RestartingWorker, call: Drawn
) -> None:
    case = case_of(call)
    answers = build.ask(case, call)
    direct, ours = answers["direct"], answers["case"]
    answer = worker.ask([prepare(case)], 20.0)
    if "outputs" in direct:
        event("accepted")
        assert ours == direct
        assert not isinstance(answer, Failure), answer
        return
    event("rejected" if "error" in direct else "died")
    assert isinstance(answer, Failure), "MXNet itself rejects this"
    if "error" in direct:
        assert answer.kind == "error"
        assert answer.reason.partition(": ")[2].rstrip(".") in direct["error"]


def test_the_oracle_tells_what_is_accepted_from_what_is_not(build: BuildOracle) -> None:
    same = drawn("nd.elemwise_add", {"lhs": tensor([2, 3]), "rhs": tensor([2, 3])})
    other = drawn("nd.elemwise_add", {"lhs": tensor([2, 3]), "rhs": tensor([2, 4])})
    assert build.ask(case_of(same), same)["direct"] == {"outputs": [[[2, 3], "float32", "default"]]}
    assert "error" in build.ask(case_of(other), other)["direct"]
    crash = drawn("nd.contrib.quantize_asym", {"data": tensor([8, 64])})
    assert "died" in build.ask(case_of(crash), crash)["direct"]
