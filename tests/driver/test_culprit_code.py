"""A culprit's changed lines, of real repositories, compared with the functions in causes."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_repository import RemoteRepository, Submodule, isolate
from made_runs import MadeHarness, MadePoint, a_build, a_comparison, a_report

from opduel.driver.attribution import Change
from opduel.driver.bisection import CulpritRange, Step
from opduel.driver.culprit_code import ChangedCode, Match, bare_name, changed_code, changed_code_lines
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.investigation import Investigation
from opduel.driver.journal import Journal
from opduel.driver.outcome import Culprit, Outcome, add_changed_code, culprits_document
from opduel.driver.revisions import Revision
from opduel.driver.runs import RunOrder, Runs
from opduel.records import Candidate, Cause, Comparison, Examination

KERNEL = "int before() {\n  return 1;\n}\n\nint Sum(int n) {\n  int s = 0;\n  return s + n;\n}\n"
MODULE = "import numpy\n\n\ndef reshape(array):\n    return array\n\n\ndef other(array):\n    return array\n"


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    return RemoteRepository(tmp_path / "remote.git")


def opened(origin: RemoteRepository) -> Repository:
    return open_repository(origin.path.parent / "work", str(origin.path))


def a_revision(repository: Repository, id: str) -> Revision:
    commit = repository.commit(id)
    return Revision(commit.short, a_build, commit)


def named(source: str, name: str, where: str = "", **fields: str) -> Cause:
    part = Candidate(name, 1.0, 2.0, 0.9, (0.8, 1.0), where=where, **fields)  # type: ignore[arg-type]
    return Cause("", (Examination(source, "ns", 5, candidates=(part, Candidate("noise", 1, 1, 0.1, (-1, 1)))),))


def changed(origin: RemoteRepository, before: str, after: str, **causes: Cause) -> ChangedCode:
    repository = opened(origin)
    return changed_code(repository, repository.commit(before), repository.commit(after), causes)


@pytest.mark.parametrize(
    "source",
    [
        *("native functions", "sampled functions", "mispredicted branches"),
        *("allocations", "mapped memory", "simulated cache misses"),
    ],
)
def test_a_native_function_whose_lines_changed(origin: RemoteRepository, source: str) -> None:
    good = origin.commit({"src/sum.cc": KERNEL, "src/noise.cc": "int noise;\n"})
    bad = origin.commit({"src/sum.cc": KERNEL.replace("s = 0", "s = slow()"), "src/noise.cc": "int noise = 2;\n"})
    changes = changed(origin, good, bad, a=named(source, "void mx::op::Sum<float>(int)", "libmx.so"))
    assert changes.matches == (Match("a", "void mx::op::Sum<float>(int)", "src/sum.cc", "changed"),)
    assert list(changed_code_lines(changes)) == ["changed in the culprit: src/sum.cc (void mx::op::Sum<float>(int))"]


def test_a_function_that_is_merely_in_a_changed_file(origin: RemoteRepository) -> None:
    good = origin.commit({"src/sum.cc": KERNEL})
    bad = origin.commit({"src/sum.cc": KERNEL.replace("return 1", "return 2")})
    changes = changed(origin, good, bad, a=named("native functions", "mx::Sum(int)"))
    assert [match.relation for match in changes.matches] == ["in"]
    assert list(changed_code_lines(changes)) == ["in a file that the culprit changed: src/sum.cc (mx::Sum(int))"]


def test_code_without_symbols_of_a_changed_file(origin: RemoteRepository) -> None:
    """Its file is known, and no function: other files, and words that look like the end of its name, are no match."""
    files = {"src/op/sum.cc": KERNEL, "src/other/sum.cc": KERNEL, "src/noise.cc": "int cc;\n"}
    good = origin.commit(files)
    bad = origin.commit(
        {**{path: f"{text}// other\n" for path, text in files.items()}, "src/noise.cc": "int cc = 2;\n"}
    )
    cause = named("native functions", "code without symbols of ../src/op/sum.cc", "libmx.so")
    short = named("native functions", "code without symbols of sum.cc", "libmx.so")
    changes = changed(origin, good, bad, a=cause, b=short)
    assert [(match.case, match.file, match.relation) for match in changes.matches] == [
        ("a", "src/op/sum.cc", "in"),
        ("b", "src/op/sum.cc", "in"),
        ("b", "src/other/sum.cc", "in"),
    ]


def test_code_without_symbols_of_a_class(origin: RemoteRepository) -> None:
    good = origin.commit({"src/sum.cc": KERNEL})
    bad = origin.commit({"src/sum.cc": KERNEL.replace("s = 0", "s = slow()")})
    changes = changed(origin, good, bad, a=named("native functions", "code without symbols of mx::op::Sum", "libmx.so"))
    assert [match.relation for match in changes.matches] == ["changed"]


def test_code_without_symbols_by_its_own_name_is_of_its_source_file_alone(origin: RemoteRepository) -> None:
    files = {"src/op/sum.cc": KERNEL, "src/other/sum.cc": KERNEL}
    good = origin.commit(files)
    bad = origin.commit({path: text.replace("s = 0", "s = slow()") for path, text in files.items()})
    own = named("native functions", "code without symbols of mx::op::Sum<float>", "build/src/op/sum.cc")
    other_cause = named("native functions", "code without symbols of mx::op::Sum<float>", "build/src/op/mean.cc")
    changes = changed(origin, good, bad, a=own, b=other_cause)
    assert [(match.case, match.file, match.relation) for match in changes.matches] == [
        ("a", "src/op/sum.cc", "changed")
    ]


def test_a_function_that_the_commit_has_nothing_to_do_with(origin: RemoteRepository) -> None:
    good = origin.commit({"src/sum.cc": KERNEL})
    bad = origin.commit({"src/sum.cc": KERNEL.replace("return 1", "return 2")})
    changes = changed(origin, good, bad, a=named("native functions", "Summary"))
    assert changes == ChangedCode()
    assert not list(changed_code_lines(changes))


def test_a_new_call_is_found_by_the_place_that_calls_it(origin: RemoteRepository) -> None:
    other = {"python/lib/other.py": "numpy.prod = 1\n"}
    good = origin.commit({"python/lib/array.py": MODULE, **other})
    slow = MODULE.replace("return array\n\n\ndef other", "return numpy.prod(array)\n\n\ndef other")
    bad = origin.commit({"python/lib/array.py": slow, "python/lib/other.py": "numpy.prod = 2\n"})
    changes = changed(origin, good, bad, a=named("Python functions", "numpy.prod", "lib/array.py:5"))
    assert changes.matches == (Match("a", "numpy.prod", "python/lib/array.py", "named"),)  # and not other.py
    assert list(changed_code_lines(changes)) == [
        "named in lines that the culprit changed: python/lib/array.py (numpy.prod)"
    ]


def test_renamed_and_deleted_functions_and_files(origin: RemoteRepository) -> None:
    good = origin.commit({"src/sum.cc": KERNEL * 3, "old.py": MODULE})
    bad = origin.commit(
        {"src/sum.cc": None, "src/add.cc": (KERNEL * 3).replace("int before", "int first", 1), "old.py": None}
    )
    changes = changed(
        origin,
        good,
        bad,
        moved=named("native functions", "Sum(int)"),
        gone=named("Python functions", "lib.old.reshape", "old.py:4"),
        renamed=named("native functions", "first", was="before"),
    )
    assert {(match.case, match.file, match.relation) for match in changes.matches} == {
        ("moved", "src/add.cc", "in"),
        ("gone", "old.py", "changed"),
        ("renamed", "src/add.cc", "changed"),
    }


METHODS = """import numpy


class Table:
    @property
    def rows(self):
        found = []
        return found

    def total(self):
        return sum(self.rows)


class Other:
    async def rows(self):
        return []
"""


def test_a_method_in_python_whose_lines_changed(origin: RemoteRepository) -> None:
    """Git names the class above the lines, and no line has the method's name."""
    good = origin.commit({"src/lib/table.py": METHODS})
    bad = origin.commit({"src/lib/table.py": METHODS.replace("return found", "return list(found)")})
    causes = {
        name: named("Python functions", f"lib.table.{name}", "lib/table.py:5")
        for name in ("Table.rows", "Table.rows.<locals>.<listcomp>", "Table.total", "Other.rows", "Table.gone")
    }
    changes = changed(origin, good, bad, **causes)
    assert {match.case: match.relation for match in changes.matches} == {
        "Table.rows": "changed",
        "Table.rows.<locals>.<listcomp>": "changed",
        "Table.total": "in",
        "Other.rows": "in",
    }


def test_a_changed_function_that_the_case_runs_is_said_whatever_the_cause_names(origin: RemoteRepository) -> None:
    good = origin.commit({"numpy/lib/table.py": MODULE})
    bad = origin.commit({"numpy/lib/table.py": MODULE.replace("return array", "return +array", 1)})
    seen = Examination("Python functions", "ns", 5, changed={"numpy.lib.table.reshape": "numpy/lib/table.py:4"})
    changes = changed(origin, good, bad, a=Cause("not explained: time grew; no clear difference", (seen,)))
    assert list(changed_code_lines(changes)) == ["changed in the culprit: numpy/lib/table.py (numpy.lib.table.reshape)"]


def test_operators_that_are_functions_in_python(origin: RemoteRepository) -> None:
    good = origin.commit({"src/lib/table.py": METHODS, "src/lib/rows.py": METHODS})
    slow = METHODS.replace("return found", "return list(found)")
    bad = origin.commit({"src/lib/table.py": slow, "src/lib/rows.py": f"{METHODS}NEW = 1\n"})
    causes = {
        name: named("operators", name) for name in ("lib.table.Table.rows", "builtins.list", "aten::list", "rows")
    }
    changes = changed(origin, good, bad, **causes)
    assert {(match.case, match.file, match.relation) for match in changes.matches} == {
        ("lib.table.Table.rows", "src/lib/table.py", "changed"),
        ("builtins.list", "src/lib/table.py", "named"),
    }


def test_a_function_above_one_that_is_new_or_gone_has_not_changed(origin: RemoteRepository) -> None:
    new = "\nint Fresh(int n) {\n  return n;\n}\n"
    without = origin.commit({"sum.cc": KERNEL, "array.py": MODULE})
    having = origin.commit({"sum.cc": KERNEL + new, "array.py": f"{MODULE}\n\ndef fresh(array):\n    return array\n"})
    causes = {
        "Sum": named("native functions", "Sum(int)"),
        "Fresh": named("native functions", "Fresh(int)"),
        "other": named("Python functions", "array.other", "array.py:8"),
        "fresh": named("Python functions", "array.fresh", "array.py:12"),
    }
    hows = {"Sum": "in", "Fresh": "changed", "other": "in", "fresh": "changed"}
    for before, after in ((without, having), (having, without)):
        assert {match.case: match.relation for match in changed(origin, before, after, **causes).matches} == hows


def test_a_function_whose_file_did_not_change_is_in_no_other(origin: RemoteRepository) -> None:
    """Others of its name are of no account; lines that name it are."""
    text = "int Sum(int n) {\n  return n;\n}\n\nint Use() {\n  return 1;\n}\n"
    good = origin.commit({"use.cc": text, "lib.py": MODULE})
    bad = origin.commit(
        {"use.cc": text.replace("return n", "return n + n"), "lib.py": MODULE.replace("numpy", "scipy")}
    )
    worse = origin.commit({"use.cc": text.replace("return 1", "return Sum(1)")})
    causes = {
        "native": named("native functions", "Sum(int)", "/build/src/sum.cc:7"),
        "python": named("Python functions", "numpy.core.reshape", "numpy/core/fromnumeric.py:69"),
    }
    assert changed(origin, good, bad, **causes).matches == ()
    assert [(match.case, match.relation) for match in changed(origin, good, worse, **causes).matches] == [
        ("native", "named")
    ]


def test_what_a_merge_brings(origin: RemoteRepository) -> None:
    good = origin.commit({"sum.cc": KERNEL})
    side = origin.commit({"sum.cc": KERNEL.replace("s = 0", "s = slow()")}, branch="side")
    merge = origin.commit({"sum.cc": KERNEL.replace("s = 0", "s = slow()")}, parents=[good, side])
    changes = changed(origin, good, merge, a=named("native functions", "Sum(int)"))
    assert changes.matches == (Match("a", "Sum(int)", "sum.cc", "changed"),)


def test_python_that_this_python_cannot_parse_and_lines_that_look_like_a_patch(origin: RemoteRepository) -> None:
    old = 'def reshape(array):\n    print "old"\n'
    good = origin.commit({"array.py": old, "a.cc": "int x;\n-- diff --git a/x b/x\n"})
    bad = origin.commit({"array.py": old.replace('"old"', '"new"'), "a.cc": "int x;\n++ b/Sum\x0cdiff --git a/Sum\n"})
    changes = changed(origin, good, bad, a=named("Python functions", "array.reshape", "array.py:1"))
    assert changes.matches == (Match("a", "array.reshape", "array.py", "changed"),)


def test_a_submodule_counts_whatever_the_repository_says_of_it(origin: RemoteRepository) -> None:
    modules = '[submodule "dep"]\n path = dep\n url = https://dep.example/dep\n ignore = all\n'
    good = origin.commit({".gitmodules": modules, "dep": Submodule("1" * 40)})
    moved = origin.commit({"dep": Submodule("2" * 40)})
    removal = origin.commit({"dep": None, "uv.lock": "1"})
    assert changed(origin, good, moved).dependencies == ("dep",)
    assert changed(origin, moved, removal).dependencies == ("dep", "uv.lock")


def test_dependencies_and_the_build_are_said_whatever_the_cause_names(origin: RemoteRepository) -> None:
    first = {"3rdparty/mkldnn": Submodule("1" * 40), "requirements-dev.txt": "a", "CMakeLists.txt": "x", "a.cc": "y"}
    good = origin.commit(first)
    bad = origin.commit({**dict.fromkeys(first, "2"), "3rdparty/mkldnn": Submodule("2" * 40)})
    changes = changed(origin, good, bad)
    assert changes == ChangedCode((), ("3rdparty/mkldnn", "requirements-dev.txt"), ("CMakeLists.txt",))
    assert list(changed_code_lines(changes)) == [
        "the culprit changes dependencies: 3rdparty/mkldnn, requirements-dev.txt",
        "the culprit changes build files: CMakeLists.txt",
    ]


def test_the_culprits_own_cause_counts_before_that_of_the_whole_line(origin: RemoteRepository) -> None:
    good = origin.commit({"sum.cc": KERNEL})
    bad = origin.commit({"sum.cc": KERNEL.replace("s = 0", "s = slow()"), "uv.lock": "1"})
    repository = opened(origin)
    points = [a_revision(repository, good), a_revision(repository, bad)]
    ours, theirs = named("native functions", "Sum(int)"), named("native functions", "before()")
    unclear = Cause("not explained", (Examination("resources", "count", 5),))
    step = CulpritRange(0, 1, {"a": Step("regressed", Change(0.3, 0.2, 0.4))})

    def functions(own: Cause | None, verified: Cause | None, first: Cause | None = None) -> list[tuple[str, str]]:
        benchmark, verification = (
            a_report([replace(a_comparison("a", "regressed", 1.3), cause=cause)], a_build("good"), a_build("bad"))
            for cause in (first, verified)
        )
        traced = Culprit(step, tuple(points), ("1",), {} if own is None else {"a": own})
        outcome = add_changed_code(Outcome(benchmark, verification, ("a",), (traced,)), repository)
        code = culprits_document(outcome, "")["culprits"][0]["code"]
        assert code["dependencies"] == ["uv.lock"]
        return [(match["function"], match["how"]) for match in code["functions"]]

    assert functions(ours, theirs) == [("Sum(int)", "changed")]
    assert functions(unclear, theirs, ours) == [("before()", "in")]
    assert functions(None, unclear, ours) == [("Sum(int)", "changed")]
    assert functions(None, None) == []


def test_the_direct_comparison_gives_the_culprit_its_cause(tmp_path: Path) -> None:
    harness = MadeHarness({"a": {f"p{number}": 1.0 if number < 2 else 1.3 for number in range(4)}})
    compare = harness._compare

    def explained(case: str, order: RunOrder, is_held_back: bool) -> Comparison:
        names = f"{order.run_type} {order.control.requested}..{order.treatment.requested}"
        return replace(compare(case, order, is_held_back), cause=Cause(names))

    harness._compare = explained  # type: ignore[method-assign]
    journal = Journal(tmp_path / "journal.db")
    points = [MadePoint(number) for number in range(4)]
    outcome = Investigation(points, Runs(journal, harness, 0.0), journal, "").investigate(["regressed"])  # type: ignore[arg-type]
    journal.close()
    (culprit,) = outcome.culprits or ()
    assert culprit.causes == {"a": Cause("regress p1..p2")}


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
