"""A culprit's changed lines, of real repositories, compared with the functions in causes."""

from pathlib import Path

import pytest
from made_repository import Made, Submodule, isolate

from opduel.driver.culprit_code import ChangedCode, Match, bare_name, changed_code, changed_code_lines
from opduel.driver.git.repository import Repository, open_repository
from opduel.records import Candidate, Cause, Examination

KERNEL = "int before() {\n  return 1;\n}\n\nint Sum(int n) {\n  int s = 0;\n  return s + n;\n}\n"
MODULE = "import numpy\n\n\ndef reshape(array):\n    return array\n\n\ndef other(array):\n    return array\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    isolate(monkeypatch, tmp_path)
    return Made(tmp_path / "remote.git")


def opened(made: Made) -> Repository:
    return open_repository(made.path.parent / "work", str(made.path))


def named(source: str, name: str, where: str = "", **others: str) -> Cause:
    part = Candidate(name, 1.0, 2.0, 0.9, (0.8, 1.0), where=where, **others)  # type: ignore[arg-type]
    return Cause("", (Examination(source, "ns", 5, candidates=(part, Candidate("noise", 1, 1, 0.1, (-1, 1)))),))


def changed(made: Made, before: str, after: str, **causes: Cause) -> ChangedCode:
    repository = opened(made)
    return changed_code(repository, repository.commit(before), repository.commit(after), causes)


def test_a_native_function_whose_lines_changed(made: Made) -> None:
    good = made.commit({"src/sum.cc": KERNEL, "src/noise.cc": "int noise;\n"})
    bad = made.commit({"src/sum.cc": KERNEL.replace("s = 0", "s = slow()"), "src/noise.cc": "int noise = 2;\n"})
    found = changed(made, good, bad, a=named("native functions", "void mx::op::Sum<float>(int)", "libmx.so"))
    assert found.matches == (Match("a", "void mx::op::Sum<float>(int)", "src/sum.cc", "changed"),)
    assert list(changed_code_lines(found)) == ["changed in the culprit: src/sum.cc (void mx::op::Sum<float>(int))"]


def test_a_function_that_is_merely_in_a_changed_file(made: Made) -> None:
    good = made.commit({"src/sum.cc": KERNEL})
    bad = made.commit({"src/sum.cc": KERNEL.replace("return 1", "return 2")})
    found = changed(made, good, bad, a=named("native functions", "mx::Sum(int)"))
    assert [one.how for one in found.matches] == ["in"]
    assert list(changed_code_lines(found)) == ["in a file that the culprit changed: src/sum.cc (mx::Sum(int))"]


def test_a_function_that_the_commit_has_nothing_to_do_with(made: Made) -> None:
    good = made.commit({"src/sum.cc": KERNEL})
    bad = made.commit({"src/sum.cc": KERNEL.replace("return 1", "return 2")})
    found = changed(made, good, bad, a=named("native functions", "Summary"))
    assert (found.matches, found.looked_at) == ((), ("a",))
    assert list(changed_code_lines(found)) == ["no function in the cause is in a file that the culprit changed"]


def test_a_new_call_is_found_by_the_place_that_calls_it(made: Made) -> None:
    other = {"python/lib/other.py": "numpy.prod = 1\n"}
    good = made.commit({"python/lib/array.py": MODULE, **other})
    slow = MODULE.replace("return array\n\n\ndef other", "return numpy.prod(array)\n\n\ndef other")
    bad = made.commit({"python/lib/array.py": slow, "python/lib/other.py": "numpy.prod = 2\n"})
    found = changed(made, good, bad, a=named("Python functions", "numpy.prod", "lib/array.py:5"))
    assert found.matches == (Match("a", "numpy.prod", "python/lib/array.py", "changed"),)  # and not other.py


def test_renamed_and_deleted_functions_and_files(made: Made) -> None:
    good = made.commit({"src/sum.cc": KERNEL * 3, "old.py": MODULE})
    bad = made.commit(
        {"src/sum.cc": None, "src/add.cc": (KERNEL * 3).replace("int before", "int first", 1), "old.py": None}
    )
    found = changed(
        made,
        good,
        bad,
        moved=named("native functions", "Sum(int)"),
        gone=named("Python functions", "lib.old.reshape", "old.py:4"),
        renamed=named("native functions", "first", was="before"),
    )
    assert {(one.case, one.file, one.how) for one in found.matches} == {
        ("moved", "src/add.cc", "in"),
        ("gone", "old.py", "changed"),
        ("renamed", "src/add.cc", "changed"),
    }


def test_dependencies_and_the_build_are_said_whatever_the_cause_names(made: Made) -> None:
    first = {"3rdparty/mkldnn": Submodule("1" * 40), "requirements-dev.txt": "a", "CMakeLists.txt": "x", "a.cc": "y"}
    good = made.commit(first)
    bad = made.commit({**dict.fromkeys(first, "2"), "3rdparty/mkldnn": Submodule("2" * 40)})
    found = changed(made, good, bad)
    assert found == ChangedCode((), (), ("3rdparty/mkldnn", "requirements-dev.txt"), ("CMakeLists.txt",))
    assert list(changed_code_lines(found)) == [
        "the culprit changes dependencies: 3rdparty/mkldnn, requirements-dev.txt",
        "the culprit changes how the library is built: CMakeLists.txt",
    ]


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void mxnet::op::Sum<float, std::less<int> >(int*, long) const", "Sum"),
        ("mxnet::(anonymous namespace)::run(int)", "run"),
        ("numpy.linalg._linalg.solve", "solve"),
        ("mxnet.gluon.block.Block.__call__", "__call__"),
        ("toy.make_call.<locals>.call", "call"),
        ("PyObject_Call", "PyObject_Call"),
        ("_int_free.constprop.0", "_int_free"),
        ("libc.so (no symbols)", ""),
        ("(all else)", ""),
        ("operator()(int)", "operator"),
        ("", ""),
    ],
)
def test_the_name_alone(name: str, bare: str) -> None:
    assert bare_name(name) == bare
