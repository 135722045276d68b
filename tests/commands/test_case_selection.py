"""What is measured, as the options say."""

import json
from collections import Counter
from pathlib import Path

import pytest
from command_line import Outcome, only_report, run_bench_main

from opduel.commands.case_selection import choose_cases, largest_tensor, sample_cases
from opduel.commands.options import read_options
from opduel.commands.session import plan_session
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Build, Case, UsageError

ADD = ["--operators", "nd.add", "--inputs", '{"lhs": [64, 32], "rhs": [64, 32]}']


def chosen(*arguments: str, seed: int = 0) -> list[Case]:
    return list(choose_cases(read_options(arguments), seed).cases)


def test_an_operator_is_picked_by_its_name_alone() -> None:
    assert {case.operator for case in chosen("--operators", "nd.add")} == {"nd.add"}
    assert {case.operator for case in chosen("--operators", "nd.broadcast_ad*")} == {"nd.broadcast_add"}
    assert chosen("-b", "smoke", "--operators", "nd.dot") == chosen("-b", "smoke", "--operators", "dot")


def test_categories_are_the_specs_of_a_bundle() -> None:
    unary = expand_cases(load_spec(find_spec("operators/unary")))
    assert chosen("--category", "unary") == unary == chosen("-b", "operators/unary")
    several = {case.id for case in chosen("-b", "all", "--category", "nn_*", "--category", "gemm")}
    assert {"dot_plain_small/forward", "Activation_relu_small/forward"} & several
    assert not {case.id for case in unary} & several


def test_settings_on_the_command_line_go_before_the_spec_s() -> None:
    cases = chosen("-b", "smoke", "--operators", "softmax", "--dtype", "float64", "--ctx", "gpu(1)")
    assert [case.id for case in cases] == ["softmax/float64/gpu1/forward", "softmax/float64/gpu1/backward"]
    assert {(case.dtype, case.context) for case in cases} == {("float64", "gpu(1)")}
    assert {case.input_sets for case in chosen("-b", "smoke", "--operators", "exp", "--input_sets", "8")} == {8}
    (take,) = chosen("-b", "smoke", "--operators", "take", "--dtype", "float64", "--directions", "both")
    assert (take.dtype, take.inputs["indices"]["dtype"], take.direction) == ("float64", "int32", "both")


def test_inputs_of_one_s_own_need_no_spec() -> None:
    cases = chosen(
        *ADD, "--inputs", '{"lhs": [2], "rhs": {"shape": [2], "init": "ones"}}', "--directions", "forward,both"
    )
    assert [case.id for case in cases] == ["add_0/forward", "add_0/both", "add_1/forward", "add_1/both"]
    assert cases[0].inputs == {"lhs": [64, 32], "rhs": [64, 32]}


def test_inputs_take_the_place_of_a_spec_s_and_leave_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "inputs.yaml"
    file.write_text("data: [8, 8]\naxis: 1\n", encoding="utf-8")
    cases = chosen("-b", "smoke", "--operators", "nd.softmax", "--inputs", f"@{file}")
    assert [(case.id, case.inputs) for case in cases] == [
        ("softmax_0/forward", {"data": [8, 8], "axis": 1}),
        ("softmax_0/backward", {"data": [8, 8], "axis": 1}),
    ]


def test_large_tensors_are_those_that_32_bits_can_t_number() -> None:
    large = chosen("--int64_tensor", "on")
    assert large == chosen("-b", "int64") == chosen("-b", "int64", "--int64-tensor", "ON")
    assert all(largest_tensor(case.inputs) > 2**31 - 1 for case in large)
    assert chosen("-b", "smoke", "--int64_tensor", "off") == chosen("-b", "smoke")
    assert largest_tensor({"args": [[2**16, 2**15], {"shape": [3]}], "k": {"value": [2**40]}, "s": "x"}) == 2**31


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "a spec with -b/--benchmark_file"),
        (["--operators", "nd.broadcast_ad"], "did you mean nd.broadcast_add"),
        (["-b", "smoke", "--category", "unary"], "is not a bundle, so it has no categories"),
        (["--category", "no_such"], "has no category 'no_such': use unary"),
        (["-b", "smoke", "--int64_tensor", "on"], "no case has tensors of more than 2147483647 elements"),
        (["-b", "int64", "--int64_tensor", "off"], "no case has anything but tensors"),
        (["--inputs", "{}"], "--inputs: add --operators"),
        (["--operators", "nd.add", "--category", "gemm", "--inputs", "{}"], "--category: --inputs are for"),
        (["--operators", "nd.add", "--inputs", "{"], "--inputs {: not JSON: line 1"),
        (["--operators", "nd.add", "--inputs", "[]"], "--inputs []: give an object"),
        (["--operators", "nd.add", "--inputs", "[" * 9999], "nested more than 32 deep"),
        (["--operators", "nd.add", "--inputs", "@/no/file"], "--inputs @/no/file: cannot be read"),
        (["--operators", "nd.*", "--inputs", "{}"], "--operators is 'nd.*': use an operator's name"),
        (
            ["--operators", "nd.load_frombuffer", "--inputs", "{}"],
            "--operators is 'nd.load_frombuffer': use an operator's name",
        ),
        (["--operators", "nd.add", "--inputs", '{"lhs": [2, -1]}'], "--inputs[0].lhs[1] is -1: a size is at least 0"),
        (["--operators", "nd.add", "--inputs", '{"lhs": ["n"]}'], "--inputs[0].lhs[0] is 'n': use an integer"),
        (["-b", "smoke", "--operators", "nd.add", "--inputs", "{}"], "has no operator 'nd.add' for --inputs"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(*arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--input_sets", "0"),
        ("--input_sets", "1001"),
        ("--ctx", "gpu(x)"),
        ("--ctx", "tpu"),
        ("--ctx", "cpu\n"),
        ("--directions", "backwards"),
        ("--directions", ""),
        ("--int64_tensor", "maybe"),
    ],
)
def test_bad_values_name_option_and_text(option: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_options([f"{option}={text}"])
    assert option in str(caught.value)
    assert repr(text)[1:-1] in str(caught.value)


def test_which_dtypes_there_are_depends_on_the_framework() -> None:
    with pytest.raises(UsageError, match=r"^--dtype float128: use one of float16, bfloat16, float32"):
        chosen("-b", "smoke", "--dtype", "float128")
    cases = chosen("-b", "numpy", "--operators", "numpy.sort", "--dtype", "complex128")
    assert "sort(1000, complex128)" in [case.id for case in cases]


def test_list_shows_what_would_be_measured(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--category", "gemm", "--operators", "nd.dot", "--dtype", "float64"]
    assert run_bench_main(["--list", "forward", *arguments]) == 0
    listed = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [case.id for case in chosen(*arguments) if "forward" in case.id]


@pytest.mark.nightly  # tests/harness/test_schedule.py has each failure
@pytest.mark.mxnet
def test_what_a_build_or_the_machine_refuses_has_failed_and_the_run_goes_on(run: "object", tmp_path: Path) -> None:
    inputs = [
        {"data": [16, 16]},
        {"data": [2**31 + 2**16]},  # more than the release can number
        {"data": [60000, 30000], "case": {"dtype": "float64"}},  # more than this machine holds eight times over
    ]
    options = [option for arguments in inputs for option in ("--inputs", json.dumps(arguments))]
    options += ["--time_budget", "10", "--sentinels", "0", "--busy_host", "report", "--seed", "1"]
    outcome: Outcome = run(  # type: ignore[operator]
        "--operators", "nd.exp", *options, "--control", "mxnet==1.9.1", "--treatment", "mxnet==1.9.1",
        "--simple_local_reporter", str(tmp_path),
    )  # fmt: skip
    document = only_report(tmp_path)
    assert document["run"]["spec"] == "inputs"
    assert [case["inputs"] for case in document["cases"]] == [{"data": arguments["data"]} for arguments in inputs]
    small, numbered, refused = document["comparisons"]
    assert (small["failure"], small["rounds"] > 0) == (None, True)
    assert numbered["failure"]["kind"] == "missing"
    assert "-DUSE_INT64_TENSOR_SIZE=ON" in numbered["failure"]["reason"]
    assert refused["failure"]["kind"] == "out-of-memory"
    assert "are free: use smaller tensors" in refused["failure"]["reason"]
    assert document["host"]["during"]["oom_kills"] == 0
    assert outcome.code in (0, 3)


@pytest.mark.mxnet
def test_a_dtype_that_is_refused_fails_its_cases_alone(mxnet_1_9: Build) -> None:
    cases = chosen("-b", "smoke", "--operators", "nd.exp", "--operators", "softmax/*forward", "--dtype", "int32")
    exp, softmax = smoke_check(mxnet_1_9, get_framework("mxnet"), cases)
    assert exp.reason is None
    assert softmax.reason == "MXNetError: This operation only support floating point types, not int32"


def test_sizes_and_order_come_from_one_seed(home: Path) -> None:
    def planned(*arguments: str, usual_seed: int | None = None) -> tuple[int, list[str]]:
        options = read_options(["-b", "random", *arguments])
        session = plan_session(options, {}, [], usual_seed=usual_seed)
        return session.seed, [case.id for case in session.cases]

    assert planned("--seed", "7", usual_seed=0) == (7, [case.id for case in chosen("-b", "random", seed=7)])
    assert planned(usual_seed=0) == (0, [case.id for case in chosen("-b", "random")])
    seed, ids = planned()
    assert ids == [case.id for case in chosen("-b", "random", seed=seed)]


def test_a_sample_is_drawn_by_the_seed_whatever_the_order() -> None:
    every = chosen("-b", "operators/unary")
    some = chosen("-b", "operators/unary", "--sample", "10", seed=3)
    assert len(some) == 10
    assert some == [case for case in every if case in some]
    assert some == chosen("-b", "operators/unary", "--sample", "10", seed=3)
    assert some != chosen("-b", "operators/unary", "--sample", "10", seed=4)
    options = read_options(["--sample", "10"])
    assert {case.id for case in sample_cases(every[::-1], options, 3)} == {case.id for case in some}
    without = [case for case in every if case != some[0]]
    assert len({case.id for case in sample_cases(without, options, 3)} - {case.id for case in some}) == 1


def test_each_case_is_as_likely_as_any_other_to_be_in_a_sample() -> None:
    """2,000 samples of 3 of 12: each case is in 500 of them, with a standard deviation of 19.4."""
    every = chosen("-b", "operators/unary")[:12]
    options = read_options(["--sample", "25%"])
    often = Counter(case.id for seed in range(2000) for case in sample_cases(every, options, seed))
    assert len(often) == 12
    assert all(abs(times - 500) < 4.5 * 19.4 for times in often.values())


def test_a_sample_is_of_what_the_other_options_leave() -> None:
    remaining = chosen("-b", "operators/unary", "--operators", "nd.e*", "--directions", "forward")
    assert (
        len(chosen("-b", "operators/unary", "--operators", "nd.e*", "--directions", "forward", "--sample", "0.1%")) == 1
    )
    assert (
        chosen("-b", "operators/unary", "--operators", "nd.e*", "--directions", "forward", "--sample", "999")
        == remaining
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "is not a whole number of at least 1"),
        ("0%", "leaves no case"),
        ("2.5", "is not a whole number"),
        ("101%", "is not a share"),
        ("some", "is not a whole number"),
        ("%", "is not a share"),
    ],
)
def test_a_sample_that_is_no_amount_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"--sample: '{text}' {why}"):
        read_options(["--sample", text])
