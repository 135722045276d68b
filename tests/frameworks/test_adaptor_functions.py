"""What an adaptor lacks is said in one line, from its source alone: no worker is started, no framework imported."""

from pathlib import Path

import pytest

from opduel.frameworks import framework_names, get_framework, require_functions
from opduel.frameworks.adaptor_functions import FUNCTIONS
from opduel.records import UsageError

WHOLE = "def versions(): pass\ndef make_call(case, seed): pass\n"
MORE = {"profile": "--metric memory", "results": "--metric error"}


def test_a_profile_that_an_adaptor_can_not_write_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "adaptor.py"
    path.write_text(WHOLE)
    with pytest.raises(
        UsageError, match=r"^--profile_output: .*no function write_profile\(call, calls, folder, name\)"
    ):
        require_functions(path, {"write_profile": "--profile_output"})


@pytest.mark.parametrize(
    ("source", "needed", "words"),
    [
        ("def versions(): pass\n", {}, "the adaptor has no function make_call(case, seed): add it"),
        ("def make_call(case, seed): pass\n", {}, "the adaptor has no function versions(): add it"),
        ("class Adaptor:\n    def versions(self): pass\n    def make_call(self, case, seed): pass\n", {}, "versions()"),
        (WHOLE, MORE, "the adaptor has no function profile(call, calls): add it, or leave the option out"),
        (WHOLE + "from .inside import profile\n", MORE, "no function results(case, seed, folder, limit): add it, or"),
        ("def versions(:\n", {}, ": the adaptor can't be read (invalid syntax (adaptor.py, line 1)): correct it"),
    ],
)
def test_a_function_that_is_missing_is_named(tmp_path: Path, source: str, needed: dict[str, str], words: str) -> None:
    path = tmp_path / "adaptor.py"
    path.write_text(source)
    with pytest.raises(UsageError) as caught:
        require_functions(path, needed)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    if needed:
        assert str(caught.value).startswith("--metric ")


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.py: the adaptor can't be read \(No such file or directory\)"):
        require_functions(tmp_path / "gone.py", {})
    (tmp_path / "bytes.py").write_bytes(b"# \xff\n")
    with pytest.raises(UsageError, match=r"bytes\.py"):
        require_functions(tmp_path / "bytes.py", {})


@pytest.mark.parametrize(
    "source",
    [
        WHOLE + "def profile(call, calls): pass\ndef results(case, seed, folder, limit): pass\n",
        WHOLE + "from .inside import profile, write_results as results\n",
        WHOLE + "try:\n    from quick import profile\nexcept ImportError:\n    profile = None\nresults, other = 1, 2\n",
        "from common_adaptor import *\n",
    ],
)
@pytest.mark.parametrize("package", [True, False])
def test_functions_may_come_from_anywhere(tmp_path: Path, source: str, package: bool) -> None:
    path = tmp_path / ("adaptor" if package else "adaptor.py")
    if package:
        path.mkdir()
    (path / "__init__.py" if package else path).write_text(source)
    require_functions(path, MORE)


@pytest.mark.parametrize("name", framework_names())
def test_the_frameworks_that_there_are_have_all_of_them(name: str) -> None:
    reported = {"value", "cpu_time"}  # of processes that are run for a case
    without = {
        "mxnet": reported,
        "python": reported,
        "generic": {"profile", "write_profile", "memory", "results"},
        "asv": {"profile", "write_profile", "results", "cpu_time"},
        "pytest": {"profile", "write_profile", "results", *reported},
        "onnxruntime": reported,
        "torch": reported,
        "cross": {"profile", "write_profile", "memory", *reported},
    }[name]
    require_functions(get_framework(name).adaptor, dict.fromkeys(FUNCTIONS.keys() - without, "--metric any"))
    for function in without:
        with pytest.raises(UsageError, match=f"^--breakdown: the framework {name} doesn't offer this: leave it out$"):
            require_functions(get_framework(name).adaptor, {function: "--breakdown"})
