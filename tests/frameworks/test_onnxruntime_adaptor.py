"""The adaptor for ONNX Runtime: its messages and profiles without it; graphs, sessions and forks in a real build."""

from typing import Any

import pytest
from adaptor_modules import load
from build_oracle import answers_of

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework

ORT = get_framework("onnxruntime")
WEIGHT = {"X": [1, 3, 8, 8], "W": [4, 3, 3, 3]}
CONSTANT = {"constant": {"value": ["W"]}}
LEVEL = {"session": {"value": {"graph_optimization_level": "all"}}}


def case(operator: str, inputs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    usual = {"id": "one/forward", "dtype": "float32", "context": "cpu", "direction": "forward", "files": {}}
    return {**usual, **fields, "operator": operator, "inputs": inputs}


def ask_build(*cases: dict[str, Any], version: str = "1.20.1", threads: int = 1) -> list[dict[str, Any]]:
    """Return what ``onnx_of.py`` answers in a release's build: the state after the import, then to each case."""
    build = resolve_build(f"onnxruntime=={version}", ORT, BuildCache())
    return answers_of(build, "onnx_of.py", [None, *cases], ORT, threads)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find X(19)", "Could not find X(19)"),
        (
            "[ONNXRuntimeError] : 1 : FAIL : loading: /a/onnxruntime/core/x.cc:12 void onnxruntime::Do(const "
            "std::function<int(bool)>&, int)::<lambda()> Opset 23 is (still) new\nmore",
            "loading: Opset 23 is (still) new",
        ),
        (
            "/o/onnxruntime/e.cc:7 onnxruntime::Kernel<F>::Kernel(int) [with F = onnxruntime::Elu<float>] no alpha",
            "no alpha",
        ),
        ("running: gated.cc:63 Compute (last) must be 1", "running: Compute (last) must be 1"),
        ("Invalid input name: X", "Invalid input name: X"),
        ("", "no reason given"),
    ],
)
def test_messages_without_places_in_the_source(message: str, line: str) -> None:
    assert load(ORT.adaptor / "messages.py").key_line(message) == line


def test_a_models_inputs_are_each_given_once() -> None:
    inputs_by_name = load(ORT.adaptor / "arrays.py").inputs_by_name
    assert inputs_by_name(["X", "Y", "Z"], {"args": [[1], [2]], "Z": [3]}) == {"X": [1], "Y": [2], "Z": [3]}
    assert inputs_by_name(["X", "Y"], {"Y": [2]}) == {"Y": [2]}
    for plain, words in (
        ({"args": [[1], [2], [3]]}, "args has 3 inputs, the model 2: X, Y"),
        ({"args": [[1]], "X": [4]}, "X is given twice, in args and by its name: leave one out"),
        ({"W": [1]}, "the model has no input W: its inputs are X, Y"),
    ):
        with pytest.raises(ValueError, match=f"^{words}$"):
            inputs_by_name(["X", "Y"], plain)


def test_the_profilers_events_are_told_apart_by_call() -> None:
    def node(operator: str, microseconds: int) -> dict[str, Any]:
        return {"name": f"{operator}_7_kernel_time", "dur": microseconds, "args": {"op_name": operator}}

    run = {"name": "model_run", "dur": 9}
    events = [
        {"name": "session_initialization"},
        node("Conv", 5),
        node("Relu", 1),
        node("Relu", 2),
        run,
        node("Conv", 6),
        run,
    ]
    assert load(ORT.adaptor / "profiler.py").by_call(events, "onnx.Conv") == [
        {"operators": {"onnx.Conv": [5000], "Relu": [1000, 2000]}, "memory": {}},
        {"operators": {"onnx.Conv": [6000]}, "memory": {}},
    ]


@pytest.mark.wheels
def test_graphs_of_one_operator() -> None:
    branches = {"then_branch": {"function": "then_branch"}, "else_branch": {"function": "else_branch"}}
    first, *answers = ask_build(
        case("onnx.Conv", {**WEIGHT, "strides": [2, 2]}, fork=True),
        case("onnx.Conv", {**WEIGHT, **CONSTANT}),
        case("onnx.Conv", {**WEIGHT, **CONSTANT, **LEVEL}),
        case("onnx.Concat", {"args": [[2, 3], [2, 4]], "axis": 1}),
        case("onnx.Split", {"input": [4, 6], "axis": 1, "outputs": 3}),
        case("onnx.ConcatFromSequence", {"args": [{"tuple": [[2, 3], [2, 4]]}], "axis": 1}),
        case("onnx.Clip", {"input": [4, 4], "max": 0}),  # min is left out
        case("onnx.Gather", {"data": [20, 4], "indices": [5]}),
        case("onnx.ml.Scaler", {"X": [2, 2], "offset": {"value": [0, 1]}, "scale": {"value": [1, 2]}}),
        case("onnx.If", {"cond": {"value": True}, **branches}),
        case("onnx.ScaledTanh", {"input": [3], "alpha": 1, "beta": 2.0, "opset": 9}),  # in no onnx of today
        case("com.microsoft.FusedMatMul", {"A": [3, 4], "B": [3, 5], "transA": 1}),
        case("onnx.Mish", {"X": [4]}),  # ONNX Runtime runs a graph in its place
        case("onnx.Abs", {"X": [4]}, dtype="int8"),
    )
    assert first == {"threads": 1, "versions": {"framework": "1.20.1", "numpy": "1.26.4", "onnx": "1.19.1"}}
    shapes = [[output[2] for output in answer["outputs"]] for answer in answers]
    assert shapes == [
        *(
            [[1, 4, 3, 3]],
            [[1, 4, 6, 6]],
            [[1, 4, 6, 6]],
            [[2, 7]],
            [[4, 2]] * 3,
            [[2, 7]],
            [[4, 4]],
            [[5, 4]],
            [[2, 2]],
        ),
        *([[64, 64]], [[3]], [[4, 5]], [[4]], [[4]]),
    ]
    assert answers[0]["forked"] == [answers[0]["outputs"][0][-1]]
    assert answers[6]["outputs"][0][-1] < 0  # nothing is above max
    assert answers[-1]["outputs"][0][1] == "|i1"
    assert [list(answer["operators"]) for answer in answers[:3]] == [
        ["onnx.Conv"],
        ["onnx.Conv"],
        ["onnx.Conv", "ReorderOutput"],
    ]
    assert set(answers[-2]["operators"]) == {"Softplus", "Tanh", "Mul"}
    assert len({answer["digest"] for answer in answers[1:4]}) == 2  # a session's options are no part of the graph
    (_, other) = ask_build(case("onnx.Conv", {**WEIGHT, **CONSTANT}), version="1.19.2", threads=2)
    assert other["digest"] == answers[1]["digest"]


@pytest.mark.wheels
def test_what_cannot_be_run() -> None:
    option = {"session": {"value": {"intra_op_num_threads": 4}}}
    _, *answers = ask_build(
        case("onnx.Nothing", {"X": [4]}),
        case("com.microsoft.Nothing", {"X": [4]}),
        case("onnx.TreeEnsemble", {"X": [4]}),
        case("onnx.Gelu", {"X": [4], "opset": 17}),
        case("onnx.DeformConv", {"X": [1, 4, 6, 6], "W": [4, 4, 3, 3], "offset": [1, 18, 4, 4]}),
        case("onnx.Abs", {"Y": [4]}),
        case("onnx.Abs", {"X": [4]}, direction="backward"),
        case("onnx.Abs", {"X": [4], **option}),
        case("onnx.Abs", {"X": [4], "session": {"value": {"arena": False}}}),
        case("onnx.Abs", {"X": {"shape": [4], "dtype": "int32"}}, dtype="float64"),
        case("onnx.Transpose", {"data": [4, 4], "perm": "first"}),
        case("onnx.StringConcat", {"X": [4], "Y": [4]}),
        case("onnx.MatMul", {"A": [4, 4], "B": [5, 5]}),
        case("onnx.MatMul", {"A": [4, 4], "B": [4, 4], "constant": {"value": ["C"]}}),
        case("onnx.Split", {"input": [4, 6], "outputs": "two"}),
        case("onnx.Concat", {"args": [[2, 3], {"call": "numpy.ones"}], "axis": 1}),
        case("onnx.ConcatFromSequence", {"args": [[2, 3], [2, 4]], "axis": 1}),
    )
    kinds = [answer["error"] for answer in answers]
    assert kinds == ["missing"] * 5 + ["error"] * 12
    reasons = [
        *("no operator Nothing in the domain ai.onnx", "in the domain com.microsoft", "no operator TreeEnsemble in"),
        *(
            "from opset 20 on",
            "Could not find an implementation for DeformConv(19)",
            "Y is not an argument of Abs: use X",
        ),
        *("no backward direction", "--threads says how many", "session.arena is not known", "would be float64"),
        *("perm: first is not a value of this attribute", "strings must be written out", "Incompatible dimensions"),
        *("constant: C is not an input of MatMul", "outputs is 'two'", '{"call": ...} is not an input of ONNX Runtime'),
        'args has more inputs than ConcatFromSequence takes, 1: a sequence is one input, {"tuple": [[8], [8]]}',
    ]
    for reason, answer in zip(reasons, answers, strict=True):
        assert reason in answer["reason"]


@pytest.mark.wheels
def test_the_most_that_a_call_holds_at_once() -> None:
    strings = {"X": {"value": ["a", "b"]}, "Y": {"value": ["c", "d"]}, "opset": 20}
    matrices = {"A": [64, 256], "B": [256, 512]}
    unplanned = {"session": {"value": {"graph_optimization_level": "all", "enable_mem_pattern": False}}}
    convolution = {"X": [1, 32, 56, 56], "W": [64, 32, 3, 3], **CONSTANT}
    cases = (
        case("onnx.Exp", {"input": [256, 4000]}),
        case("onnx.Identity", {"input": [256, 4000]}, dtype="float64"),
        case("onnx.MatMul", matrices),
        case("onnx.MatMul", {**matrices, "constant": {"value": ["B"]}}),  # a weight was there before the call
        case("onnx.TopK", {"X": [256, 400], "K": {"value": [3]}}),
        case("onnx.SequenceConstruct", {"args": [[64], [64]]}),
        case("onnx.ConcatFromSequence", {"args": [{"tuple": [[64], [64]]}], "axis": 0}),
        case("onnx.Conv", {**convolution, **LEVEL}),
        case("onnx.Conv", {**convolution, **unplanned}),
        case("onnx.Conv", convolution),
        case("onnx.StringConcat", strings),
        case("onnx.Abs", {"X": [4], "session": {"value": {"enable_mem_reuse": False}}}),
        case("onnx.Nothing", {"X": [4]}),
        case("onnx.Abs", {"X": [4]}, memory="python only"),
    )
    _, *answers = ask_build(*({"memory": True, **memory_case} for memory_case in cases))
    exp, copied, product, weighted, topk, sequence, joined, *convolutions = answers[:10]
    assert (exp, copied) == ({"memory": 4 * 256 * 4000}, {"memory": 8 * 256 * 4000})
    assert product == weighted == {"memory": 4 * 64 * 512}
    assert topk == {"memory": 256 * 3 * (4 + 8)}
    assert sequence == joined == {"memory": 2 * 64 * 4}
    assert min(answer["memory"] for answer in convolutions) > 4 * 64 * 54 * 54, "the output and what else is held"
    assert len({answer["memory"] for answer in convolutions}) == 3, "a session's options hold here, too"
    reasons = (
        *("X: memory isn't measured with strings", "session.enable_mem_reuse: can't be set where memory is measured"),
        *("no operator Nothing in the domain", "memory: ONNX Runtime 1.2.3 has no libonnxruntime.so beside its Python"),
    )
    for reason, answer in zip(reasons, answers[10:], strict=True):
        assert reason in answer["reason"]
