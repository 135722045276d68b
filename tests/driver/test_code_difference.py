"""Which cases the difference between two builds can reach, by their installed files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from opduel.driver.code_difference import CodeDifference, compare_installed
from opduel.records.reach import Reach

FILES = {
    "pkg/__init__.py": "from .work import slow\n",
    "pkg/work.py": "def slow():\n    return 1\n\n\ndef other():\n    return 2\n",
    "pkg/_fast.cpython-311-x86_64-linux-gnu.so": "native",
    "pkg/_build.pyx": "source",
    "pkg/src/_fast.c": "source",
    "pkg/src/kernel.c": "compiled when it is needed",
    "pkg/data/table.csv": "1,2",
    "pkg/tests/__init__.py": "",
    "pkg/tests/test_work.py": "def test(): ...\n",
    "pkg.libs/libfast.so.1": "native",
    "pkg-1.0.dist-info/METADATA": "Version: 1.0",
    "pkg-1.0.dist-info/entry_points.txt": "[a]",
    "single.py": "def alone(): ...\n",
}
SLOW, OTHER = "pkg/work.py:1", "pkg/work.py:5"
IMPORTED = frozenset({"pkg/__init__.py", "pkg/work.py"})

Differ = Callable[[dict[str, str | None]], CodeDifference]


@pytest.fixture
def differ(tmp_path: Path) -> Differ:
    """Compare ``FILES`` with the same files after some changes; None for a removed one."""

    def write(side: str, files: dict[str, str]) -> Path:
        for path, text in files.items():
            (tmp_path / side / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / side / path).write_text(text)
        return tmp_path / side

    def compare(changes: dict[str, str | None]) -> CodeDifference:
        changed = {path: text for path, text in {**FILES, **changes}.items() if text is not None}
        return compare_installed(write("control", FILES), write("treatment", changed))

    return compare


def reach(*functions: str, imported: frozenset[str] = IMPORTED) -> Reach:
    return Reach(frozenset(functions), frozenset(), imported)


def test_a_changed_function_reaches_the_cases_that_run_it(differ: Differ) -> None:
    difference = differ({"pkg/work.py": FILES["pkg/work.py"].replace("1", "3")})
    assert difference.parts == ["pkg/work.py:slow"]
    assert difference.reason(reach(SLOW)) == "pkg/work.py:slow"
    assert difference.reason(reach(OTHER)) is None
    assert difference.reason(Reach(imported=frozenset({SLOW}))) == "pkg/work.py:slow"  # while modules were imported
    assert difference.reason(Reach(unknown="it starts processes")) == "unknown: it starts processes"
    assert not difference.needs_treatment(reach(OTHER))


def test_other_code_libraries_and_data_reach_what_imports_them(differ: Differ) -> None:
    library = "pkg/_fast.cpython-311-x86_64-linux-gnu.so"
    difference = differ({"pkg/work.py": f"LIMIT = {{}}\nprint()\n{FILES['pkg/work.py']}", library: "other"})
    assert difference.parts == [library, "pkg/work.py"]
    assert difference.reason(reach()) == "pkg/work.py"
    assert difference.reason(reach(imported=frozenset({library}))) == library
    assert difference.reason(reach(imported=frozenset({"pkg/__init__.py"}))) is None
    for path in ("pkg/data/table.csv", "pkg/src/kernel.c"):
        assert differ({path: "changed"}).reason(reach()) == path


@pytest.mark.parametrize("path", ["pkg.libs/libfast.so.1", "pkg-1.0.dist-info/entry_points.txt", "new.pth"])
def test_what_any_case_may_use_reaches_every_case(differ: Differ, path: str) -> None:
    difference = differ({path: "changed"})
    assert len(difference.everything) == 1
    assert difference.reason(reach(imported=frozenset())) == difference.everything[0]


def test_what_is_neither_run_nor_read_reaches_nothing(differ: Differ) -> None:
    changes: dict[str, str | None] = {"pkg/_build.pyx": "a", "pkg-1.0.dist-info/METADATA": "b", "pkg/work.pyi": "c"}
    changes["pkg/src/_fast.c"] = "what the compiler made of it counts"
    assert differ(changes).parts == []
    difference = differ({"pkg/tests/test_work.py": "def test():\n    more()\n", "pkg/tests/test_new.py": "print()\n"})
    assert difference.reason(reach(SLOW, OTHER)) is None
    assert not difference.needs_treatment(reach(SLOW, OTHER))


def test_an_equal_version_of_another_release_is_no_difference(differ: Differ) -> None:
    changes = {"pkg-1.0.dist-info/entry_points.txt": None, "pkg-1.1.dist-info/entry_points.txt": "[a]"}
    assert differ(changes).parts == []


def test_where_names_come_the_treatment_is_looked_at_too(differ: Differ) -> None:
    text = FILES["pkg/work.py"]
    difference = differ({"pkg/work.py": f"import json\n\n\ndef new():\n    return 1\n\n\n{text}"})
    control, treatment = reach(SLOW), reach("pkg/work.py:8")  # the same function, further down
    assert difference.reason(control) is None
    assert difference.needs_treatment(control)
    assert difference.reason_on_both(control, treatment) is None
    assert difference.reason_on_both(control, reach("pkg/work.py:4", "pkg/work.py:8")) == "pkg/work.py:new"
    assert difference.reason_on_both(control, Reach(unknown="killed")) == "unknown: killed"
    assert not difference.needs_treatment(reach(imported=frozenset({"single.py"})))


def test_a_file_that_comes_may_be_imported_in_place_of_another(differ: Differ) -> None:
    difference = differ({"pkg/work/__init__.py": "def slow():\n    return 1\n"})
    assert difference.needs_treatment(reach(SLOW))
    assert not difference.needs_treatment(reach(imported=frozenset({"single.py"})))
    assert differ({"json.py": ""}).needs_treatment(reach())
