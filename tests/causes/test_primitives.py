"""Logs of oneDNN and MKL, as their releases print them; and operators by the framework's own profiler."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_smoke_check import Toy
from toy_bench import toy_bench, toy_case

from opduel.causes.collectors.operators import NOTHING as NO_OPERATOR
from opduel.causes.collectors.operators import ask_for_operators, has_profiler, operator_observations
from opduel.causes.collectors.primitives import (
    NOTHING,
    Primitive,
    ask_for_primitives,
    describe_releases,
    parse_line,
    parts_of,
    primitive_observations,
)
from opduel.causes.collectors.process_pairs import PAIRS, Answers, UnansweredError
from opduel.frameworks import ProfilingSetup
from opduel.harness.profiles import Profiling
from opduel.records import Part
from opduel.records.measurement import SIDES

CONVOLUTION = "convolution forward_inference mb1_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1"
SHAPE = "mb1_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1"
MEMORY = "src_f32::blocked:abcd:f0 wei_f32::blocked:Acdb16a:f0 bia_undef::undef::f0 dst_f32::blocked:aBcd16b:f0"
# As mxnet 1.8.0.post0 (dnnl 1.6), mxnet 1.9.1 (oneDNN 2.4), PyTorch (3.x, with version and component) and mxnet 1.5
# (mkldnn 0.x, without the engine) print them.
LINES = {
    f"dnnl_verbose,exec,cpu,convolution,jit:avx512_common,forward_inference,{MEMORY},,alg:convolution_direct,{SHAPE},"
    "0.00488281": Primitive(CONVOLUTION, "jit:avx512_common", 4882.81),
    f"onednn_verbose,exec,cpu,convolution,brgconv:avx512_core,forward_inference,{MEMORY},attr-scratchpad:user ,"
    f"alg:convolution_direct,{SHAPE},0.0070": Primitive(CONVOLUTION, "brgconv:avx512_core", 7000.0),
    f"onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,forward_inference,{MEMORY},,alg:convolution_direct,"
    f"{SHAPE},0.005": Primitive(CONVOLUTION, "jit:avx2", 5000.0),
    "mkldnn_verbose,exec,convolution,jit:avx2,forward_inference,fsrc:nchw fwei:OIhw8i8o fbia:undef fdst:nChw8c,"
    f"alg:convolution_direct,{SHAPE},0.25": Primitive(CONVOLUTION, "jit:avx2", 250_000.0),
    "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32::blocked:acdb:f0,,,1x3x32x32,"
    "0.000976562": Primitive("reorder f32 abcd to f32 acdb 1x3x32x32", "jit:uni", 976.562),
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 dst:s8::blocked:acdb::f0,"
    ",,1x3x32x32,0.001": Primitive("reorder f32 abcd to s8 acdb 1x3x32x32", "jit:uni", 1000.0),
    "mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_nchw out:f32_nChw8c,num:1,1x8x32x32,0.5": Primitive(
        "reorder f32 nchw to f32 nChw8c 1x8x32x32", "jit:uni", 500_000.0
    ),
    "MKL_VERBOSE SGEMM(N,N,64,32,128,0x7ffd1c,0x5580,64,0x5590,128,0x7ffd20,0x55a0,64) 12.50us CNR:OFF Dyn:1 FastMM:1 "
    "TID:0  NThr:1": Primitive("SGEMM(N,N,64,32,128,64,128,64)", "", 12_500.0),
}


@pytest.mark.parametrize("line", LINES)
def test_what_was_executed(line: str) -> None:
    primitive, meant = parse_line(line), LINES[line]
    assert primitive is not None
    assert (primitive.name, primitive.implementation) == (meant.name, meant.implementation)
    assert primitive.ns == pytest.approx(meant.ns)


POOLED = "pooling forward_inference mb8ic16_iw256ow254kw3sw1dw0pw0"
POOLING = {  # the same pooling by mxnet 1.8.0.post0 and 1.9.1
    "dnnl_verbose,exec,cpu,pooling,simple_nchw:any,forward_inference,src_f32::blocked:abc:f0 dst_f32::blocked:abc:f0,,"
    "alg:pooling_avg_include_padding,mb8ic16_ih1oh1kh1dh0sh1ph0_iw256ow254kw3dw0sw1pw0,0.27": POOLED,
    "onednn_verbose,exec,cpu,pooling_v2,simple_nchw:any,forward_inference,src_f32::blocked:abc:f0 "
    "dst_f32::blocked:abc:f0,attr-scratchpad:user ,alg:pooling_avg_include_padding,"
    "mb8ic16_iw256ow254kw3sw1dw0pw0,0.44": POOLED,
    "onednn_verbose,exec,cpu,pooling_v2,jit:avx512_core,forward_inference,src_f32::blocked:abcd:f0,,alg:pooling_max,"
    "mb4ic32_ih32oh16kh2sh2dh0ph0_iw32ow16kw2sw2dw0pw0,0.04": (
        "pooling forward_inference mb4ic32_ih32oh16kh2sh2dh0ph0_iw32ow16kw2sw2dw0pw0"
    ),
}


CONCATENATED = {  # the same concatenation by mxnet 1.8.0.post0 and 1.9.1
    "dnnl_verbose,exec,cpu,concat,simple:any,undef,src_f32::blocked:ab:f0 src_f32::blocked:ab:f0 "
    "dst_f32::blocked:ab:f0,,axis:1,16384x4:16384x4 16384x8,0.15": "concat 16384x4:16384x4",
    "dnnl_verbose,exec,cpu,concat,simple:any,undef,src_f32::blocked:ab:f0 src_f32::blocked:ab:f0 "
    "dst_f32::blocked:ab:f0,,axis:1,16384x4:16384x4,0.24": "concat 16384x4:16384x4",
}


@pytest.mark.parametrize(("line", "name"), [*POOLING.items(), *CONCATENATED.items()])
def test_a_primitive_is_the_same_by_every_release(line: str, name: str) -> None:
    primitive = parse_line(line)
    assert primitive is not None
    assert primitive.name == name


@pytest.mark.parametrize(
    "line",
    [
        "",
        "something that a benchmark prints, such as exec,cpu",
        "onednn_verbose,info,oneDNN v2.4.0 (commit N/A)",
        "onednn_verbose,info,prim_template:operation,engine,primitive,implementation,prop_kind,problem_desc,exec_time",
        "dnnl_verbose,create:cache_hit,cpu,convolution,jit:avx2,forward_inference,src_f32,,alg,mb1,0.003",
        "onednn_verbose,exec,cpu,convolution,jit:avx2",  # cut off
        "onednn_verbose,exec,cpu,convolution,jit:avx2,forward_inference,src_f32,,alg,mb1,soon",
        "MKL_VERBOSE oneMKL 2024.0 Product build, Lnx 2.10GHz lp64 sequential",
    ],
)
def test_other_lines(line: str) -> None:
    assert parse_line(line) is None


def test_parts_are_medians_times_how_often_they_run() -> None:
    runs = [Primitive("gemm", "jit", ns) for ns in (10.0, 11.0, 500.0, 12.0, 9.0, 11.0)]
    parts = parts_of([*runs, None, Primitive("sum", "a", 5.0), Primitive("sum", "b", 7.0)], calls=3)
    assert parts == {"gemm": Part(22.0, 2.0, implementation="jit"), "sum": Part(4.0, 2 / 3, implementation="a and b")}


class Logging(Toy):
    """Its calls print lines as oneDNN does, where a variable asks for it."""

    profiling = ProfilingSetup(log_variables={"ONEDNN_VERBOSE": "1"})

    @property
    def adaptor(self) -> Path:
        return Path(__file__).with_name("explained_adaptor.py")


def profiling(framework: Toy) -> Profiling:
    bench = toy_bench(TOY_CLOCK="real")
    builds = {side: replace(build, interpreter=sys.executable) for side, build in bench.builds.items()}
    return Profiling(replace(bench, adaptor=framework.adaptor, builds=builds), framework, 1, 7)


def test_what_calls_print_is_read_in_fresh_process_pairs_with_the_log_switched_on() -> None:
    cases = [toy_case("logs", "logs_primitives", only_on="treatment"), toy_case("silent", "checksum", bytes=1000)]
    answers_by_case = ask_for_primitives(profiling(Logging()), cases)
    observations = primitive_observations(answers_by_case["logs"])
    assert len(observations) == PAIRS
    matmul, reorder = "matmul 4x4:4x4", "reorder f32 ab to f32 ba 4x4"
    for pair in observations:
        assert pair["control"] == {matmul: Part(1000.0, 1.0, implementation="jit:avx512_core")}
        assert pair["treatment"] == {
            matmul: Part(3000.0, 1.0, implementation="ref:any"),
            reorder: Part(2000.0, 2.0, implementation="jit:uni"),
        }
    assert describe_releases(answers_by_case["logs"]) == "oneDNN 1.7.0 -> 2.4.4"  # said once, before the calls
    with pytest.raises(UnansweredError, match=NOTHING):
        primitive_observations(answers_by_case["silent"])


OLD, NEW = "dnnl_verbose,info,oneDNN v1.7.0 (commit 2e47326)", "onednn_verbose,v1,info,oneDNN v3.5.0 (commit N/A)"


@pytest.mark.parametrize(
    ("control", "treatment", "words"),
    [
        ([OLD], [NEW], "oneDNN 1.7.0 -> 3.5.0"),
        (
            ["dnnl_verbose,info,DNNL v1.2.0 (commit 7)", "dnnl_verbose,info,cpu,runtime:OpenMP"],
            [OLD],
            "oneDNN 1.2.0 -> 1.7.0",
        ),
        (["mkldnn_verbose,info,Intel(R) MKL-DNN v0.21.1 (Git Hash 7)"], [OLD], "oneDNN 0.21.1 -> 1.7.0"),
        (
            [OLD, "MKL_VERBOSE Intel(R) MKL 2020.0 Update 1 Product build 20200208 for Intel(R) 64 architecture"],
            [NEW, "MKL_VERBOSE oneMKL 2024.0 Product build, Lnx 2.10GHz lp64 sequential"],
            "MKL 2020.0 Update 1 -> 2024.0, oneDNN 1.7.0 -> 3.5.0",
        ),
        ([OLD], [OLD], ""),
        ([OLD], [], ""),
        (["something that a benchmark prints: oneDNN v1.0"], [NEW], ""),
    ],
)
def test_another_release_of_a_library_is_named(control: list[str], treatment: list[str], words: str) -> None:
    pair = {"control": {"before": control, "lines": []}, "treatment": {"before": [], "lines": treatment}}
    assert describe_releases(Answers({"printed": [pair]})) == words


def test_a_long_log_costs_calls_and_says_the_same_of_each() -> None:
    """One side prints twice as much as the other: neither is cut off."""
    case = toy_case("long", "logs_much", only_on="treatment")
    (answers,) = ask_for_primitives(profiling(Logging()), [case]).values()
    observations = primitive_observations(answers)
    runs = {side: observations[0][side]["matmul 4x4:4x4"].calls for side in SIDES}
    assert runs == {"control": 13_000, "treatment": 26_000}
    assert {pair[side]["calls"] for pair in answers.of["printed"] for side in SIDES} == {1}


def test_operators_by_the_frameworks_profiler() -> None:
    toy = Toy()
    assert has_profiler(toy)
    assert not has_profiler(Logging())
    (answers,) = ask_for_operators(profiling(toy), [toy_case("one", "checksum", bytes=1000)]).values()
    observations = operator_observations(answers)
    work = {"toy_work": Part(1000.0, 1.0)}
    assert observations == [{"control": work, "treatment": work}] * PAIRS


def test_a_profiler_that_sees_nothing() -> None:
    nothing = replace(profiling(Toy()).bench, environment={"TOY_CLOCK": "real", "TOY_OPERATORS": "{}"})
    watched = replace(profiling(Toy()), bench=nothing)
    (answers,) = ask_for_operators(watched, [toy_case("one", "checksum", bytes=1000)]).values()
    with pytest.raises(UnansweredError, match=NO_OPERATOR):
        operator_observations(answers)
