"""The sentence of a cause: what it claims of which examination, and that it never claims more than was shown."""

from dataclasses import replace

import pytest
from sentences import GROWN, examined, sentence

from opduel.causes.attribution.call_division import REST
from opduel.causes.attribution.shares import examine
from opduel.causes.wording.processor import SAME_WORK
from opduel.causes.wording.sentence import cause_of
from opduel.records.cause import NO_AVX512, Candidate, Examination, Part, Source

PROD = examined(
    "Python functions", "ns", {"f": Part(100)}, {"f": Part(100), "numpy.prod": Part(12, 2, "fromnumeric.py:2955")}
)
NATIVE = examined("native functions", "instructions", {"f": Part(100)}, {"f": Part(112)})


def test_new_calls() -> None:
    words = "2 calls of numpy.prod per call, new (fromnumeric.py:2955), account for 100 % of the added time"
    assert sentence(PROD) == words
    assert sentence(NATIVE, PROD) == words  # Python functions first where both explain it


def test_several_candidates() -> None:
    both = examined("Python functions", "ns", {"f": Part(100)}, {"f": Part(105), "im2col": Part(7, 1)})
    assert sentence(both) == "1 call of im2col per call, new: 58 % of the added time, f: 42 %"


def test_what_is_new_is_said_beside_a_function_that_is_enough() -> None:
    """A lookup that now fails costs its caller most, but what it then calls is what to look for in the code."""
    new = {"f": Part(110.0, 1.0, "f.py:3"), "C.__getattr__": Part(2.0, 300.0)}
    both = examined("Python functions", "ns", {"f": Part(100.0, 1.0, "f.py:3")}, new)
    words = "f (f.py:3): 83 % of the added time, 300 calls of C.__getattr__ per call, new: 17 %"
    assert sentence(both) == words
    slower = {"g": Part(2.0, 3.0)}
    as_often = examined("Python functions", "ns", {"f": Part(100.0), "g": Part(0.2, 3.0)}, {"f": Part(110.0), **slower})
    assert sentence(as_often) == "f accounts for 85 % of the added time"


def test_another_implementation() -> None:
    became = examined("native functions", "instructions", {"d::conv_avx512": Part(100)}, {"d::conv_avx2": Part(112)})
    assert sentence(became) == (
        "d::conv_avx512 became d::conv_avx2: 100 % of the added instructions; instructions grew by 12 %, time by 12 %"
    )


def test_less_is_claimed_of_fewer_instructions() -> None:
    few = examined("native functions", "instructions", {"f": Part(100)}, {"f": Part(103)})
    assert sentence(few) == (
        "partly explained: instructions grew by 3 %, of which f accounts for 100 %; the other 9 % of the time is not "
        "explained"
    )


def test_page_faults_with_the_same_instructions() -> None:
    same = examined("native functions", "instructions", {"f": Part(100)}, {"f": Part(100)})
    faults = examined("resources", "count", {"page faults": Part(7)}, {"page faults": Part(520)})
    assert sentence(same, faults) == "page faults: 513 more per call, while instructions are the same"
    assert sentence(same) == f"not explained by what is executed: {SAME_WORK}"


def test_a_resource_of_which_there_are_too_few_to_matter_is_not_named() -> None:
    switches = examined("resources", "count", {"switches": Part(1.0)}, {"switches": Part(1.1)})
    slow = replace(GROWN, control=300_000.0)  # the call takes 36 us longer
    assert sentence(switches, comparison=slow).startswith("not explained: counts by resource")
    assert sentence(switches, comparison=replace(GROWN, control=30_000.0)).startswith("switches: 0.1 more per call")


def test_what_contradicts_the_verdict_is_not_claimed() -> None:
    less = examined("Python functions", "ns", {"f": Part(100)}, {"f": Part(90)})
    assert sentence(less) == "not explained: time by function fell by 10 % although time grew by 12 %"
    saved = replace(GROWN, verdict="improved", ratio=0.9)
    assert sentence(less, comparison=saved) == "f accounts for 100 % of the time saved"


@pytest.mark.parametrize("change", [{"verdict": "unchanged"}, {"verdict": "inconclusive"}, {"ratio": None}])
def test_no_cause_without_a_finding(change: dict[str, object]) -> None:
    assert cause_of(replace(GROWN, **change), [PROD]) is None  # type: ignore[arg-type]


def test_a_name_from_a_build_stays_on_one_line() -> None:
    long = examined("native functions", "ns", {"f": Part(100)}, {"f": Part(100), "x\n\x1b[1m" * 400: Part(12)})
    assert len(sentence(long)) < 400
    assert sentence(long).isprintable()


@pytest.mark.parametrize(
    ("was", "name", "is_said"),
    [
        ("numpy.core.fromnumeric.partition", "numpy._core.fromnumeric.partition", False),
        ("sort.constprop.0", "sort", False),
        ("sort_AVX2", "sort_AVX512_SKX", True),
        ("mod.sort", "mod.qsort", True),
    ],
)
def test_only_another_name_is_said_to_be_one(was: str, name: str, is_said: bool) -> None:
    part = Candidate(name, 100.0, 150.0, 1.0, (0.9, 1.1), was=was)
    examination = Examination("Python functions", "ns", 5, 100.0, 112.0, (11.0, 13.0), (part,), 1.0)
    assert ("became" in sentence(examination)) == is_said


def test_parts_that_make_up_for_others_are_named_together() -> None:
    control = {"common": Part(100.0), "pass4": Part(50.0, 6), "pass2": Part(10.0, 1)}
    treatment = {"common": Part(100.0), "void fft::pass_all<true>(double*, int) const": Part(80.0, 1)}
    assert sentence(examined("native functions", "instructions", control, treatment)) == (
        "pass4 and 1 more gave way to fft::pass_all<true>: together 100 % of the added instructions; "
        "instructions grew by 12 %, time by 12 %"
    )
    treatment |= {"common": Part(90.0), "more": Part(12.0)}
    assert sentence(examined("native functions", "instructions", control, treatment)).startswith(
        "less in pass4 and 2 more, more in fft::pass_all<true> and 1 more: together 100 %"
    )


def test_parts_that_all_changed_one_way_make_up_for_nothing() -> None:
    """What makes up for them is too small to be listed, one by one."""
    control = {"f": Part(50.0), "g": Part(50.0), "rest": Part(20.0)}
    treatment = {"f": Part(40.0), "g": Part(40.0), **{f"small{number}": Part(0.1) for number in range(60)}}
    shrunk = replace(GROWN, verdict="improved", ratio=0.88, ci=(0.86, 0.9))
    treatment |= {"rest": Part(20.0)}
    words = sentence(examined("native functions", "instructions", control, treatment), comparison=shrunk)
    assert words.startswith("f: 71 % of the instructions saved, g: 71 %")


def test_native_code_is_named_beside_the_python_function_that_runs_it() -> None:
    slower = examined("Python functions", "ns", {"numpy.partition": Part(100)}, {"numpy.partition": Part(112)})
    select = {"common": Part(40.0), "introselect": Part(60.0)}
    simd = {"common": Part(40.0), "np::QSelect_AVX2": Part(45.0), "unrolled": Part(15.4)}
    words = "numpy.partition accounts for 100 % of the added time"
    native = examined("native functions", "instructions", select, simd)
    other_code = f"{words}; in native code, introselect gave way to np::QSelect_AVX2 and 1 more"
    assert sentence(slower, native) == other_code
    for note, added in ((NO_AVX512, "; valgrind has no AVX-512, with which other code may run"), ("no symbols", "")):
        noted = replace(native, note=note)
        assert sentence(slower, noted) == f"{other_code}{added}"
    for_all = examined("native functions", "instructions", select, {"common": Part(40.0), "select": Part(60.4)})
    assert "AVX-512" not in sentence(slower, replace(for_all, note=NO_AVX512)), "neither is for some processors alone"
    small = {"common": Part(96.0), "introselect": Part(4.0)}, {"common": Part(96.0), "np::QSelect_AVX2": Part(4.5)}
    assert sentence(slower, examined("native functions", "instructions", *small)) == words


def test_samples_say_what_native_code_runs_where_valgrind_can_not_tell() -> None:
    slower = examined("Python functions", "ns", {"numpy.log2": Part(100, 1)}, {"numpy.log2": Part(112, 1)})
    words = "numpy.log2 accounts for 100 % of the added time"
    loop = Part(20.0, None, "_umath.so")
    sampled = examined(
        "sampled functions",
        "ns",
        {"__svml_log28": Part(80.0, None, "_umath.so"), "loop": loop},
        {"__svml_log28_ha": Part(92.0, None, "_umath.so"), "loop": loop},
    )
    native_words = (
        "in native code, as sampled, __svml_log28 became __svml_log28_ha (_umath.so): 100 % of the added time"
    )
    same = examined("native functions", "instructions", {"log2": Part(100.0)}, {"log2": Part(100.0)})
    assert sentence(slower, sampled) == f"{words}; {native_words}"
    alike = "native code executes as many instructions as before, in the same functions"
    assert sentence(slower, same, sampled) == f"{words}; {alike}; {native_words}"
    counted = examined("native functions", "instructions", {"log2": Part(50.0)}, {"log2": Part(58.0)})
    assert "as sampled" not in sentence(slower, counted, sampled), "counts are exact"
    other = examined("native functions", "instructions", {"log2_sse": Part(50.0)}, {"qlog_avx2": Part(58.0)})
    assert "as sampled" not in sentence(slower, other, sampled)
    assert sentence(slower, replace(other, note=NO_AVX512), sampled) == f"{words}; {native_words}"
    python = {"libpython3.11.so": Part(80.0, None, "libpython3.11.so.1.0")}
    more = {"libpython3.11.so": Part(92.0, None, "libpython3.11.so.1.0")}
    assert sentence(slower, examined("sampled functions", "ns", python, more)) == words
    assert sentence(sampled).startswith("not explained"), "samples claim nothing by themselves"


def test_native_functions_account_for_a_python_function_that_runs_as_often_as_before() -> None:
    def run(ns: float, calls: float = 1.0) -> dict[str, Part]:
        return {"lib.dot": Part(ns, calls)}

    slower = examined("Python functions", "ns", run(100), run(112))
    code = {"_PyEval_EvalFrameDefault": Part(50.0, 1, "x/Python/ceval.c:12"), "kernel": Part(50.0, 1)}
    checks = examined("native functions", "instructions", code, {**code, "all_finite": Part(40.0, 1, "dot.c:80")})
    words = "lib.dot accounts for 100 % of the added time"
    native = (
        "in native code, 1 call of all_finite per call, new (dot.c:80), accounts for 100 % of the added instructions"
    )
    assert sentence(slower, checks) == f"{words}; {native}"
    more_calls = examined("Python functions", "ns", run(100), run(112, 2.0))
    assert "native" not in sentence(more_calls, checks)  # the calls are what is new
    own = {**code, "_PyEval_EvalFrameDefault": Part(90.0, 1, "x/Python/ceval.c:12")}
    assert sentence(slower, examined("native functions", "instructions", code, own)) == words  # of Python code
    fewer = examined("native functions", "instructions", {**code, "all_finite": Part(40.0)}, code)
    assert sentence(slower, fewer) == words
    hardly = examined("native functions", "instructions", code, {**code, "all_finite": Part(1.0, 1)})
    assert sentence(slower, hardly) == words


def test_native_functions_that_are_called_more_often_have_the_caller_that_does_so() -> None:
    def run(copies: float, by_other: float = 10.0, caller: str = "iter_subscript") -> dict[str, Part]:
        callers = {caller: copies / (copies + by_other), "array_copy": by_other / (copies + by_other)}
        return {
            "memcpy": Part(10 * (copies + by_other), copies + by_other, "memcpy.S:264", callers),
            "iter_subscript": Part(500.0, 1, "iterators.c:80"),
            "array_copy": Part(50.0, 1, "ctors.c:80"),
            "dict_dealloc": Part(50.0, 1, "./Objects/dictobject.c:80"),
        }

    copies = "memcpy (memcpy.S:264, called by iter_subscript), 60 calls per call where it was 10,"
    grown = replace(GROWN, ratio=1.8, ci=(1.7, 1.9))
    assert sentence(examined("native functions", "instructions", run(0), run(50)), comparison=grown) == (
        f"{copies} accounts for 100 % of the added instructions; instructions grew by 71 %, time by 80 %"
    )
    thirds = dict.fromkeys(("iter_subscript", "array_copy", "fill"), 1 / 3)
    by_others = {
        calls: {**run(calls), "memcpy": Part(10.0 * calls, calls, "memcpy.S:264", thirds)} for calls in (10, 60)
    }
    spread = sentence(examined("native functions", "instructions", by_others[10], by_others[60]), comparison=grown)
    assert "60 calls" in spread
    assert "called by" not in spread, "none makes half of them"
    by_python = examined("native functions", "instructions", run(0), run(50, caller="dict_dealloc"))
    assert "called by" not in sentence(by_python, comparison=grown), "what Python's interpreter calls is no place"
    slower = run(10)
    slower["memcpy"] = replace(slower["memcpy"], amount=800.0)
    assert "called by" not in sentence(examined("native functions", "instructions", run(10), slower), comparison=grown)


def test_the_interpreter_is_no_cause() -> None:
    """Of ``numpy.ma.MaskedArray.abs``, NumPy 1.26.4 and 2.2.6: nothing but CPython's own functions stands out."""
    ceval, lookup = "/build/Python-3.11.7/Python/ceval.c:1630", "/build/Python-3.11.7/Objects/dictobject.c:335"

    def run(code: float, looked_up: float, remaining: float) -> dict[str, Part]:
        return {
            "_PyEval_EvalFrameDefault": Part(code, 1, ceval),
            "unicodekeys_lookup_unicode": Part(looked_up, 1, lookup),
            **{f"array_{number}": Part(remaining, 1, "_multiarray_umath.so") for number in range(60)},
        }

    native = examined("native functions", "instructions", run(14_000, 7_000, 1900), run(5_000, 2_000, 650))
    quick = replace(GROWN, verdict="improved", ratio=0.42, ci=(0.38, 0.46))
    assert sentence(native, comparison=quick) == (
        "not explained: instructions by function fell by 66 %, 16 % of that in the Python interpreter itself: "
        "look at the Python functions"
    )
    assert [candidate.name for candidate in native.candidates[:2]] == [
        "_PyEval_EvalFrameDefault",
        "unicodekeys_lookup_unicode",
    ]
    python = examined("Python functions", "ns", {"finalize": Part(100, 2)}, {"finalize": Part(42, 1)})
    assert sentence(native, python, comparison=quick) == (
        "finalize, 1 call per call where it was 2, accounts for 100 % of the time saved"
    )


def test_the_kernel_s_part_is_said_beside_what_calls_it() -> None:
    slower = examined("Python functions", "ns", {"lib.smooth": Part(100, 1)}, {"lib.smooth": Part(112, 1)})
    time = examined(
        "resources",
        "ns",
        {"user code": Part(90), "kernel": Part(10)},
        {"user code": Part(95), "kernel": Part(17)},
    )
    faults = examined("resources", "count", {"page faults": Part(0)}, {"page faults": Part(98)})
    rarely = examined("resources", "count", {"switches": Part(0)}, {"switches": Part(0.00001)})
    words = "lib.smooth accounts for 100 % of the added time"
    assert sentence(slower, time, faults) == (
        f"{words}; 58 % of the added time is the kernel's (page faults: 98 more per call)"
    )
    assert sentence(slower, time, rarely) == f"{words}; 58 % of the added time is the kernel's"
    little = examined(
        "resources", "ns", {"user code": Part(90), "kernel": Part(10)}, {"user code": Part(100), "kernel": Part(12)}
    )
    assert sentence(slower, little, faults) == words


def test_a_function_that_waits_is_a_cause_only_where_nothing_else_is() -> None:
    name = "mxnet.ndarray.NDArray.wait_to_read"
    waits = examined("Python functions", "ns", {name: Part(100)}, {name: Part(112)})
    assert sentence(waits, NATIVE).startswith("f accounts for 100 % of the added instructions")
    assert sentence(waits) == (
        f"{name} accounts for 100 % of the added time; it waits for other threads, whose work was not seen"
    )


def test_of_a_call_that_goes_straight_to_native_code_the_native_function_is_named() -> None:
    own = examined("Python functions", "ns", {"(the call itself)": Part(100)}, {"(the call itself)": Part(112)})
    power = examined("native functions", "instructions", {"INT_power": Part(100)}, {"INT_power": Part(103)})
    assert sentence(own, power) == (
        "(the call itself) accounts for 100 % of the added time; in native code, INT_power accounts for 100 % of the "
        "added instructions"
    )
    less = examined("native functions", "instructions", {"INT_power": Part(100)}, {"INT_power": Part(97)})
    assert sentence(own, less) == "(the call itself) accounts for 100 % of the added time"


@pytest.mark.parametrize(
    ("source", "name", "waited"),
    [
        ("Python functions", "NDArray.wait_to_read", "; it waits for other threads, whose work was not seen"),
        ("resources", "waiting", ""),
    ],
)
def test_waiting_explains_nothing_where_native_functions_could_not_be_seen(
    source: Source, name: str, waited: str
) -> None:
    waits = examined(source, "ns", {name: Part(100)}, {name: Part(112)})
    why = "the time budget was spent"
    unseen = examine("native functions", "instructions", [], why)
    claim = f"{name} accounts for 100 % of the added time{waited}"
    assert sentence(waits, unseen) == f"not explained: {claim}; native functions: {why}"
    same = examined("native functions", "instructions", {"f": Part(100)}, {"f": Part(100)})
    assert sentence(waits, same) == f"{claim}; {SAME_WORK}"


def test_a_source_whose_named_parts_account_for_little_explains_nothing() -> None:
    little = examined(
        "Python functions", "ns", {"reshape": Part(9), REST: Part(100)}, {"reshape": Part(10), REST: Part(111)}
    )
    assert sentence(little).startswith("not explained")


def test_longer_user_code_explains_nothing() -> None:
    longer = examined(
        "resources", "ns", {"user code": Part(100), "waiting": Part(3)}, {"user code": Part(112), "waiting": Part(3)}
    )
    assert sentence(longer).startswith("not explained")
    waits = examined(
        "resources", "ns", {"user code": Part(100), "waiting": Part(3)}, {"user code": Part(100), "waiting": Part(15)}
    )
    assert sentence(waits) == "waiting accounts for 100 % of the added time"


TIMED = replace(GROWN, control=100.0, treatment=112.0)


def test_a_source_that_sees_a_part_of_the_call_explains_its_share_of_the_time_that_was_added() -> None:
    conv = {"conv": Part(10, 1, implementation="jit:avx512_core")}
    slower = {"conv": Part(16, 1, implementation="ref:any"), "reorder": Part(3, 1, implementation="jit:uni")}
    logged = examined("primitives", "ns", conv, slower)
    assert sentence(logged, comparison=TIMED) == (
        "conv, whose jit:avx512_core became ref:any: 50 % [43, 60] of the added time, 1 call of reorder per call, new "
        "(jit:uni): 25 % [21, 30]"
    )
    assert sentence(replace(logged, note="as logged; oneDNN 1.7.0 -> 2.4.4"), comparison=TIMED).endswith(
        "new (jit:uni): 25 % [21, 30]; oneDNN 1.7.0 -> 2.4.4"
    )
    # 6 ns of 12 that were added: as much as nothing of a change that is a hundred times as large
    large = replace(TIMED, control=1e4, treatment=1.12e4)
    assert sentence(logged, comparison=large).startswith("not explained")


def test_a_profiler_that_sees_more_than_a_call_takes_explains_nothing() -> None:
    slow = examined("operators", "ns", {"conv": Part(500, 1)}, {"conv": Part(500, 1), "len": Part(160, 9)})
    assert sentence(slow, comparison=TIMED).startswith("not explained")


def test_primitives_are_said_beside_another_source_where_they_differ() -> None:
    conv, other = {"conv": Part(10, 1, implementation="jit:a")}, {"conv": Part(11, 1, implementation="jit:b")}
    same = examined("primitives", "ns", conv, conv)
    by_name = "2 calls of numpy.prod per call, new (fromnumeric.py:2955), account for 100 % of the added time"
    assert sentence(PROD, examined("primitives", "ns", conv, other), comparison=TIMED) == (
        f"{by_name}; of its primitives, conv's jit:a became jit:b"
    )
    assert sentence(PROD, same, comparison=TIMED) == by_name
    without_sum = examined("primitives", "ns", {**conv, "sum": Part(5, 1)}, conv)
    assert sentence(PROD, without_sum, comparison=TIMED) == f"{by_name}; of its primitives, sum is gone"


def test_primitives_are_said_where_one_side_has_none() -> None:
    """An operator that a library has taken over: on MXNet 1.8, one-dimensional deconvolution was its own loop."""
    by_name = "2 calls of numpy.prod per call, new (fromnumeric.py:2955), account for 100 % of the added time"
    taken_over = {"conv": Part(30, 1), "reorder": Part(20, 2), "sum": Part(1, 1)}
    assert sentence(PROD, examined("primitives", "ns", {}, taken_over), comparison=TIMED) == (
        f"{by_name}; of its primitives, conv is new, reorder is new"
    )
    assert sentence(PROD, examined("primitives", "ns", taken_over, {}), comparison=TIMED) == (
        f"{by_name}; of its primitives, conv is gone, reorder is gone"
    )
    few = examined("primitives", "ns", {}, {"reorder": Part(5, 1)})  # of a call of 112 ns
    assert sentence(PROD, few, comparison=TIMED) == by_name
    assert sentence(PROD, examined("primitives", "ns", {}, {}), comparison=TIMED) == by_name


def test_the_only_operator_says_no_more_than_the_case_does() -> None:
    alone = examined("operators", "ns", {"Convolution": Part(100)}, {"Convolution": Part(112)})
    assert sentence(alone, NATIVE, comparison=TIMED).startswith("f accounts for 100 % of the added instructions")
    two = examined("operators", "ns", {"Convolution": Part(90)}, {"Convolution": Part(90), "Copy": Part(12)})
    assert sentence(two, NATIVE, comparison=TIMED) == "Copy, new, accounts for 100 % [86, 120] of the added time"


def test_the_only_function_that_changed_is_said_where_nothing_accounts_for_the_change() -> None:
    same = {"f": Part(100.0)}
    unclear = replace(examined("Python functions", "ns", same, same), changed={"core.compile": "core.py:180"})
    cause = cause_of(GROWN, [unclear])
    assert cause is not None
    assert not cause.is_explained
    words = "changed and run by this case: core.compile (core.py:180)"
    assert cause.sentence.endswith(f"; {words}")
    assert cause.words == (
        f"cause: not explained by anything that was looked at (opduel explain shows what was); {words}"
    )
    many = replace(unclear, changed={f"f{number}": "" for number in range(4)})
    assert "changed and run" not in sentence(many)
    assert "changed and run" not in sentence(replace(PROD, changed=unclear.changed)), "it is explained"
