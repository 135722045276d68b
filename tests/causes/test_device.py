"""What a cause says of kernels and of what launches them. Figures are those of an H100 on 2026-11-27, where PyTorch's
softmax had 0 added to its input, in ns a call, but for what is said to be otherwise."""

from dataclasses import replace
from functools import partial

import pytest
import sentences
from made_samples import a_case

from opduel.causes.attribution.shares import examine
from opduel.records import Comparison
from opduel.records.cause import Examination, Part, Source

SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 11, false, false>(float*, float const*)"
)
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float> >(int)"
KERNELS = {SOFTMAX: Part(10419, 1)}, {SOFTMAX: Part(10502, 1), ADD: Part(13044, 1)}
OPERATORS = (
    {"aten::_softmax": Part(10031, 1), "cudaLaunchKernel": Part(7587, 1), "aten::softmax": Part(2357, 1)},
    {
        "aten::_softmax": Part(8716, 1),
        "cudaLaunchKernel": Part(14803, 2),
        "aten::softmax": Part(2247, 1),
        "aten::add": Part(10710, 1),
    },
)
SLOWER = replace(
    Comparison.without_figures(a_case("softmax", 0.02), "regressed"),
    ratio=2.125,
    ci=(2.051, 2.201),
    control=13045.0,
    treatment=27267.0,
)
sentence = partial(sentences.sentence, comparison=SLOWER)
FASTER = replace(
    SLOWER, verdict="improved", ratio=1 / 2.125, ci=(1 / 2.201, 1 / 2.051), control=27267.0, treatment=13045.0
)
NEW = "1 call of at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float> > per call"


def examined(source: Source, control: dict[str, Part], treatment: dict[str, Part], note: str = "") -> Examination:
    return examine(source, "ns", [{"control": control, "treatment": treatment}] * 5, note)


@pytest.mark.parametrize(
    ("comparison", "turned", "expected"),
    [
        (
            SLOWER,
            False,
            f"{NEW}, new, accounts for 89 % [83, 95] of the added time; the operator aten::add is new",
        ),
        (
            FASTER,
            True,
            f"{NEW}, gone, accounts for 90 % [88, 93] of the time saved; the operator aten::add is gone",
        ),
    ],
)
def test_a_kernel_explains_a_call_in_which_the_device_is_busy(
    comparison: Comparison, turned: bool, expected: str
) -> None:
    kernels, operators = (pair[::-1] if turned else pair for pair in (KERNELS, OPERATORS))
    words = sentence(
        examined("kernels", *kernels),
        examined("operators", *operators, note="the profiler adds"),
        comparison=comparison,
    )
    assert words == expected


def test_where_the_device_waits_operators_that_came_are_said_without_a_share() -> None:
    """Here kernels take a tenth of the time, and the processor has to launch two in place of one."""
    short = ({name: replace(part, amount=part.amount / 10) for name, part in side.items()} for side in KERNELS)
    words = sentence(examined("kernels", *short), examined("operators", *OPERATORS))
    assert words == (
        "partly explained: 1 call of aten::add per call, new, cudaLaunchKernel, 2 calls per call where it was 1; "
        "kernels take 9 % of a call (8 % before): the device waits for the processor"
    )


def test_what_came_is_not_said_of_a_case_that_became_faster() -> None:
    short = ({name: replace(part, amount=part.amount / 10) for name, part in side.items()} for side in KERNELS)
    faster = replace(FASTER, control=13045.0, treatment=12000.0)
    assert sentence(examined("kernels", *short), examined("operators", *OPERATORS), comparison=faster) == (
        "not explained: kernels take 20 % of a call (8 % before): the device waits for the processor"
    )


def test_where_the_device_waits_on_one_side_the_kernels_that_came_are_said() -> None:
    long = dict(KERNELS[1], **{ADD: Part(16000, 1)})
    words = sentence(examined("kernels", {SOFTMAX: Part(6000, 1)}, long), examined("operators", *OPERATORS))
    assert words == f"partly explained: {NEW}, new; kernels take 97 % of a call (46 % before)"


def test_no_time_of_operators_is_claimed_of_a_device() -> None:
    """Although they take less than a call: their time hides behind the kernels'."""
    brief = [{name: replace(part, amount=part.amount / 3) for name, part in side.items()} for side in OPERATORS]
    few = {SOFTMAX: Part(1000, 1)}
    words = sentence(examined("kernels", few, few), examined("operators", *brief))
    assert words.startswith("partly explained: 1 call of aten::add per call, new, cudaLaunchKernel, 2 calls")
    assert " % [" not in words


def test_where_a_busy_device_does_the_same_nothing_is_said_of_operators() -> None:
    busy = {SOFTMAX: Part(12000, 1)}, {SOFTMAX: Part(25000, 1)}
    unclear = [{"control": busy[0], "treatment": busy[side]} for side in (0, 1, 1, 0, 1)]
    words = sentence(
        examine("kernels", "ns", unclear),
        examined("operators", *OPERATORS),
        comparison=replace(SLOWER, treatment=18000.0),
    )
    assert words.startswith("not explained: time by kernel: no clear difference")
    assert "operator" not in words


def test_operators_are_told_apart_from_calls_of_cuda_and_by_how_often_they_are_called() -> None:
    """``aten::view``, called less often, takes longer under the profiler; ``aten::copy_`` takes none of its time."""
    before = {"aten::view": Part(10, 3), "cudaLaunchKernel": Part(50, 1), "aten::to": Part(0, 1)}
    after = {
        "aten::view": Part(200, 2),
        "cudaLaunchKernel": Part(60, 1),
        "cudaMemcpyAsync": Part(300, 1),
        "aten::to": Part(900, 1),
        "aten::add": Part(700, 1),
        "aten::copy_": Part(800, 1),
    }
    operators = examined("operators", before, after)
    assert sentence(examined("kernels", *KERNELS), operators).endswith(
        "; the operators aten::copy_ is new, aten::add is new"
    )
    few = {SOFTMAX: Part(1000, 1)}
    assert sentence(examined("kernels", few, few), operators).startswith(
        "partly explained: 1 call of aten::copy_ per call, new, 1 call of aten::add per call, new, "
        "1 call of cudaMemcpyAsync per call, new; "
    )


def test_the_same_operators_leave_a_waiting_device_unexplained() -> None:
    kernels = {SOFTMAX: Part(1042, 1)}
    longer = {name: replace(part, amount=2 * part.amount) for name, part in OPERATORS[0].items()}
    assert sentence(examined("kernels", kernels, kernels), examined("operators", OPERATORS[0], longer)) == (
        "not explained: kernels take 4 % of a call (8 % before): the device waits for the processor"
    )


def test_without_kernels_nothing_is_said_of_a_device() -> None:
    """As on a processor, where a profiler sees more than a call takes."""
    words = sentence(Examination("kernels", "ns", 0), examined("operators", *OPERATORS))
    assert words == "not explained: time by operator grew by 83 %, with nothing that accounts for it"
