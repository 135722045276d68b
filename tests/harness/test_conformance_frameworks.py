"""Each framework passes the conformance test on real builds: the cheap checks here, the others every night."""

import shutil
from pathlib import Path

import pytest
from torch_at_hand import torch_request

from opduel.commands.conformance import subject_of, subject_of_suite
from opduel.frameworks import framework_names
from opduel.harness.conformance import CHECKS, Subject, check

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
PROGRAMS = FIXTURES / "programs.json"
# Framework -> a spec or suite, the cases of it that are checked, and two builds; and the mark of tests on such builds.
SUBJECTS = {
    "asv": (
        str(FIXTURES / "asv_suite"),
        [r"kinds\.time_sum", r"kinds\.Sorted\.(time_sort|track_size)"],
        *("numpy==2.1.3", "numpy==2.2.6", pytest.mark.wheels),
    ),
    "generic": (str(PROGRAMS), ["loop", "nothing"], "sh", "bash", pytest.mark.nightly),
    "mxnet": ("smoke", ["softmax/forward", "dot/forward"], "mxnet==1.8.0.post0", "mxnet==1.9.1", pytest.mark.mxnet),
    "onnxruntime": (
        "onnxruntime",
        ["onnx.Relu_small/", "onnx.Gemm_bias_small/"],
        *("onnxruntime==1.19.2", "onnxruntime==1.20.1", pytest.mark.wheels),
    ),
    "cross": ("cross/numpy-mxnet", ["add_256/forward"], "numpy==2.2.6", "mxnet==1.9.1", pytest.mark.mxnet),
    "pytest": (
        str(FIXTURES / "timed_tests.py"),
        ["test_sorted", "test_pops"],
        *("six==1.16.0", "six==1.17.0", pytest.mark.wheels),
    ),
    "python": (
        "numpy",
        ["sort(1000, float64)", "fft(rand(8192))"],
        *("numpy==1.26.4", "numpy==2.2.6"),
        pytest.mark.wheels,
    ),
}
if request := torch_request():
    SUBJECTS["torch"] = ("torch", ["mm_0", "conv2d_0"], request, request, pytest.mark.wheels)
NOT_YET = set() if request else {"torch"}  # its wheel is not on every index
CHEAP = [name for name in CHECKS if name != "faults"]
_subjects: dict[str, Subject] = {}


def subject(framework: str, folders: pytest.TempPathFactory) -> Subject:
    """Made once: builds take a while the first time."""
    if framework not in _subjects:
        spec, operators, control, treatment, _ = SUBJECTS[framework]
        if framework == "pytest":  # without the conftest.py above it, which imports what the builds don't have
            spec = str(shutil.copy(spec, folders.mktemp("suite")))
        if framework in ("asv", "pytest"):
            _subjects[framework] = subject_of_suite(spec, control, treatment, bench=operators)
        else:
            _subjects[framework] = subject_of(spec, control, treatment, operators=operators)
    return _subjects[framework]


def test_every_framework_is_checked() -> None:
    assert set(framework_names()) - NOT_YET == set(SUBJECTS) - NOT_YET


@pytest.mark.wheels
@pytest.mark.parametrize("name", CHEAP)
def test_a_cheap_framework(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert check(name, subject("python", tmp_path_factory)).problems == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("framework", "name"),
    [pytest.param(subject, name, marks=SUBJECTS[subject][-1]) for subject in SUBJECTS for name in CHECKS],
)
def test_every_framework(framework: str, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert check(name, subject(framework, tmp_path_factory)).problems == []
